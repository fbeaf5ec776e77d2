"""The trained bench's tables and picture."""

from typing import TYPE_CHECKING, Any

from interp.numbers import interval, number, percent
from interp.text import fold
from probes.audit.bench.trained.errors import ERRORS, Row

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEAD = ("claims", "models", "right", *ERRORS, "named")


def terminal(result: Any) -> str:
    """By kind, and all, in 80 columns: how many claims have each error, of those it can be made about."""
    lines = [f"{'':<16}{'claims':>7}{'right':>7}{'false':>10}{'missed':>10}{'missed':>10}{'unde-':>10}{'named':>9}"]
    lines.append(f"{'':<30}{'support':>10}{'pattern':>10}{'use':>10}{'cided':>10}")
    for r in (r for r in result.rows if r.family is None):
        cells = "".join(f"{_of(r.rates[e].claims, r.rates[e].of):>10}" for e in ERRORS)
        right = percent(r.right / r.claims) if r.claims else ""
        lines.append(f"{r.kind or 'all':<16}{r.claims:>7}{right:>7}{cells}{_of(r.named, r.nameable):>9}")
    return "\n".join([*lines, fold([_under(result)])])


def _of(count: int, of: int) -> str:
    return f"{count}/{of}" if of else "–"


def short_table(result: Any) -> str:
    """By kind, and all: at most 12 rows, for pages."""
    chosen = [r for r in result.rows if r.family is None]
    return "\n".join([_markdown(["kind", *HEAD], [[r.kind or "all", *_cells(r)] for r in chosen]), "", _under(result)])


def long_table(result: Any) -> str:
    """By family and kind; and models and claims that were dropped, by family."""
    chosen = [r for r in result.rows if r.family is not None]
    first = _markdown(["family", "kind", *HEAD], [[r.family, r.kind, *_cells(r)] for r in chosen])
    lost = [
        [d.family, str(d.models), str(d.unlearned), str(d.claims), str(d.grey), str(d.contradicted)]
        for d in result.dropped
    ]
    titles = ["family", "models", "not learned", "claims", "in the grey zone", "denied by the check"]
    return "\n".join([first, "", _markdown(titles, lost), "", _under(result)])


def _cells(row: Row) -> list[str]:
    out = [str(row.claims), str(row.models), percent(row.right / row.claims) if row.claims else ""]
    for error in ERRORS:
        rate = row.rates[error]
        share = rate.share
        bounds = "" if share.low is None or share.high is None else f" {interval(share.low, share.high, 2)}"
        out.append(f"{rate.claims} of {rate.of}{bounds}" if rate.of else "–")
    out.append(f"{row.named} of {row.nameable}" if row.nameable else "–")
    return out


def _under(result: Any) -> str:
    runs = {0: "has not been run", 1: "was run once"}.get(result.judge_runs, f"was run {result.judge_runs} times")
    return (
        f"Half: {result.half}; {len(result.told):,} claims about {len({(t.family, t.seed) for t in result.told})} "
        "models. Errors are counted in claims about which they can be made; intervals (95 %, Clopper-Pearson) are of "
        "the share of independent models with such an error. Named: heads that attend as claimed and are of no use, "
        f"called so. The judging half {runs}. {number(result.seconds_per_claim, 2)} CPU seconds a claim."
    )


def _markdown(head: list[str], body: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def trained_figure(result: Any) -> "go.Figure":
    """Shares of models with an error, by kind, with their intervals."""
    import plotly.graph_objects as go

    chosen = [r for r in result.rows if r.family is None]
    figure = go.Figure()
    for error in ERRORS:
        shares = [r.rates[error].share for r in chosen]
        value = [s.value for s in shares]
        up = [None if s.high is None or s.value is None else s.high - s.value for s in shares]
        down = [None if s.low is None or s.value is None else s.value - s.low for s in shares]
        bars = {"type": "data", "array": up, "arrayminus": down, "symmetric": False}
        figure.add_bar(name=error, x=[r.kind or "all" for r in chosen], y=value, error_y=bars)
    return figure.update_layout(yaxis_title="share of models with such an error", yaxis_range=[0, 1])
