"""The trained bench's tables and picture, from what its JSON file holds (`TrainedResult.to_dict`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interp.numbers import interval, number, percent
from interp.text import fold
from probes.audit.bench.trained.errors import ERRORS

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEAD = ("claims", "models", "right", *ERRORS, "named")
Data = Mapping[str, Any]


def terminal(data: Data) -> str:
    """By kind, and all, in 80 columns: how many claims have each error, of those it can be made about."""
    lines = [f"{'':<16}{'claims':>7}{'right':>7}{'false':>10}{'missed':>10}{'missed':>10}{'unde-':>10}{'named':>9}"]
    lines.append(f"{'':<30}{'support':>10}{'pattern':>10}{'use':>10}{'cided':>10}")
    for row in _by_kind(data):
        cells = "".join(f"{_of(row['errors'][e]['claims'], row['errors'][e]['of']):>10}" for e in ERRORS)
        lines.append(f"{row['kind'] or 'all':<16}{row['claims']:>7}{_right(row):>7}{cells}{_of(*row['named']):>9}")
    return "\n".join([*lines, fold([_under(data)])])


def short_table(data: Data) -> str:
    """By kind, and all: at most 12 rows, for pages."""
    body = [[row["kind"] or "all", *_cells(row)] for row in _by_kind(data)]
    return "\n".join([_markdown(["kind", *HEAD], body), "", _under(data)])


def long_table(data: Data) -> str:
    """By family and kind; and by family what was dropped, and CPU seconds."""
    chosen = [row for row in data["rows"] if row["family"] is not None]
    first = _markdown(["family", "kind", *HEAD], [[row["family"], row["kind"], *_cells(row)] for row in chosen])
    titles = ["family", "models", "not learned", "claims", "in the grey zone", "denied by the check", "CPU s a claim"]
    counts = ("family", "models", "unlearned", "claims", "grey", "contradicted")
    lost = [[*(f[c] for c in counts), number(f["seconds_per_claim"], 2)] for f in data["families"]]
    return "\n".join([first, "", _markdown(titles, lost), "", _under(data)])


def trained_figure(data: Data) -> "go.Figure":
    """Shares of models with an error, by kind, with their intervals."""
    import plotly.graph_objects as go

    chosen = _by_kind(data)
    figure = go.Figure()
    for error in ERRORS:
        rates = [row["errors"][error] for row in chosen]
        up, down = ([_gap(r["share"], r[end]) for r in rates] for end in ("high", "low"))
        bars = {"type": "data", "array": up, "arrayminus": down, "symmetric": False}
        figure.add_bar(name=error, x=[r["kind"] or "all" for r in chosen], y=[r["share"] for r in rates], error_y=bars)
    return figure.update_layout(yaxis_title="share of models with such an error", yaxis_range=[0, 1])


# -- inside -------------------------------------------------------------------------------------------------


def _by_kind(data: Data) -> list[Data]:
    return [row for row in data["rows"] if row["family"] is None]


def _of(count: int, of: int) -> str:
    return f"{count}/{of}" if of else "–"


def _right(row: Data) -> str:
    return percent(row["right"] / row["claims"]) if row["claims"] else ""


def _gap(value: float | None, end: float | None) -> float | None:
    return None if value is None or end is None else abs(end - value)


def _cells(row: Data) -> list[Any]:
    out = [row["claims"], row["models"], _right(row)]
    for error in ERRORS:
        rate = row["errors"][error]
        bounds = "" if rate["low"] is None else f" {interval(rate['low'], rate['high'], 2)}"
        out.append(f"{rate['claims']} of {rate['of']}{bounds}" if rate["of"] else "–")
    named, nameable = row["named"]
    return [*out, f"{named} of {nameable}" if nameable else "–"]


def _under(data: Data) -> str:
    runs = {0: "has not been run", 1: "was run once"}.get(data["judge_runs"], f"was run {data['judge_runs']} times")
    return (
        f"Half: {data['half']}; {data['claims']:,} claims about {data['models']} models. Errors are counted in "
        "claims about which they can be made; intervals (95 %, Clopper-Pearson) are of the share of independent models "
        "with such an error. Named: heads that attend as claimed and are of no use, called so. The judging half "
        f"{runs}. {number(data['seconds_per_claim'], 2)} CPU seconds a claim."
    )


def _markdown(head: list[str], body: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
