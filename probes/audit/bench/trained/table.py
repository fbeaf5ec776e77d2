"""The trained bench's tables, sentences and picture, from what its JSON file holds (`TrainedResult.to_dict`).

In tables errors are counted in one unit: independent models with such an error, of those about which it can be made,
with the interval of that share. Claims stand in columns of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interp.numbers import ABSENT, count, number, percent, significant
from interp.text import fold
from probes.audit import thresholds
from probes.audit.bench.digest import of_which
from probes.audit.bench.trained.cases import ABOUT, JUDGE, KINDS, NEW
from probes.audit.bench.trained.errors import (
    ERRORS,
    Counted,
    Outcome,
    Row,
    models_from_json,
    of_false,
    of_families,
    row,
    rows,
)
from probes.audit.bench.trained.truth import (
    FALSE_SCORE,
    FALSE_TOP1,
    TRUE_SCORE,
    TRUE_TOP1,
    UNUSED_MOVES,
    USED_LOSES,
    USED_MOVES,
)
from probes.core import clopper_pearson

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEAD = ("claims", "claims with an error", "models without any error", *ERRORS, "false claims refuted / undecided")
REWRITTEN, UNSEEN = range(6), range(6, 20)  # of the develop half: seeds on which rules were rewritten, and the others
MUCH = 0.1  # of a family's claims dropped: it is named
COUNTS = dict(enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2))
FOUND_IN: dict[Outcome, str] = {
    "false support": "Falsely supported are", "missed pattern": "The pattern is missed in",
    "missed use": "The use is missed in", "undecided": "Undecided are",
}  # fmt: skip
EARLIER_RUNS = "what the other runs found stands in docs/trained-bench-runs.json"
LEARNED_NOTHING = ("untrained", "shuffled")  # families
Data = Mapping[str, Any]


def terminal(data: Data) -> str:
    """By kind, and all, in 80 columns: independent models with each error, of those about which it can be made."""
    counted = _counted(data)
    lines = [f"{'':<16}{'claims':>7}{'with':>7}{'models':>9}{'false':>10}{'missed':>10}{'missed':>10}{'unde-':>10}"]
    lines.append(f"{'':<23}{'error':>7}{'without':>9}{'support':>10}{'pattern':>10}{'use':>10}{'cided':>10}")
    for one in [*_by_kind(counted), row(counted)]:
        shares = [one.faultless, *(rate.share for rate in one.rates.values())]
        clean, *errors = (
            count(share).partition(" [")[0].replace(" of ", "/") if share.n else ABSENT for share in shares
        )
        cells = "".join(f"{cell:>10}" for cell in errors)
        lines.append(f"{one.kind or 'all':<16}{one.claims:>7}{one.claims - one.right:>7}{clean:>9}{cells}")
    return fold([*lines, _units(data), failing(counted), _source(data)])


def short_table(data: Data) -> str:
    """Kinds with an error one by one, those without any in one row, and all; and what has to be known to read it."""
    counted = _counted(data)
    body = [[name, *_cells(one, part)] for name, one, part in _joined(counted, _kinds_with_error(counted))]
    told = f"{failing(counted)} {_easy(counted)} {_named(row(counted))}"
    return "\n\n".join([_markdown(["kind", *HEAD], body), told, f"{left_out(data)} {_source(data)}"])


def long_table(data: Data) -> str:
    """By kind; by family and kind; and by family what was dropped, and CPU seconds."""
    counted = _counted(data)
    titles = ["kind", *HEAD, "named"]
    kinds = [[one.kind or "all", *_cells(one, counted), _naming(one)] for one in (*_by_kind(counted), row(counted))]
    each = [one for one in rows(counted, KINDS) if one.family is not None]
    second = [[one.family, one.kind, *_cells(one, counted), _naming(one)] for one in each]
    head = ["family", "models", "not learned", "claims", "in the grey zone", "denied by the check", "CPU s a claim"]
    counts = ("family", "models", "unlearned", "claims", "grey", "contradicted")
    lost = [[*(f[c] for c in counts), number(f["seconds_per_claim"], 2)] for f in data["families"]]
    told = (failing(counted), grey_zone(data), f"{_units(data)} {_source(data)}")
    tables = _markdown(["family", *titles], second), _markdown(head, lost)
    return "\n\n".join([_markdown(titles, kinds), *told, *tables])


def fresh_table(data: Data) -> str:
    """Of fresh families: errors by family beside errors by model, and the long table."""
    counted = _counted(data)
    whole = row(counted)
    wrong = len({c.cluster for c in counted if c.outcome != "right"})
    shares = {"any error": (of_families(counted, None), clopper_pearson(wrong, whole.models, over="seeds"))}
    shares |= {error: (of_families(counted, error), whole.rates[error].share) for error in ERRORS}
    body = [[name, *(count(s) if s.n else ABSENT for s in two)] for name, two in shares.items()]
    told = (
        "Families with an error in one claim at least, of those about whose claims it can be made, and models. The "
        "intervals (95 %, Clopper-Pearson) are over families and over models: the first says something of a family "
        "that is not among these, so far as these are a draw from such families; the second of another seed of these."
    )
    return "\n\n".join([_markdown(["error", "families", "models"], body), told, long_table(data)])


def by_seeds(data: Data, groups: Mapping[str, Iterable[int]] | None = None) -> str:
    """The short table for several groups of seeds beside each other; the usual ones are those of the develop half."""
    wanted = {f"{g[0]} to {g[-1]}": g for g in (REWRITTEN, UNSEEN)} if groups is None else groups
    counted = _counted(data)
    parts = {name: [c for c in counted if c.seed in set(seeds)] for name, seeds in wanted.items()}
    parts = {name: part for name, part in parts.items() if part}
    kinds = _kinds_with_error(counted)  # the same rows for each group
    body = [
        [name, label, *_cells(one, own)] for name, part in parts.items() for label, one, own in _joined(part, kinds)
    ]
    told = [f"Seeds {name}: {failing(part)}" for name, part in parts.items()]
    return "\n\n".join([
        _markdown(["seeds", "kind", *HEAD], body), *told, grey_zone(data), f"{_units(data)} {_source(data)}"
    ])  # fmt: skip


def failing(counted: Sequence[Counted]) -> str:
    """Which families fail at what, as sentences."""
    each = [one for one in rows(counted, KINDS) if one.family is not None and one.right < one.claims]
    if not each:
        return "No claim came out with an error."
    told = []
    for error in ERRORS:
        rates = [(f"{one.kind} claims of {one.family}", one.rates[error]) for one in each if one.rates[error].claims]
        where = [f"{name} ({r.claims} of {r.of}, in {r.wrong} of {r.share.n} models)" for name, r in rates]
        told += [f"{FOUND_IN[error]} {_listed(where)}."] if where else []
    families = len({one.family for one in each})
    of = "one family" if families == 1 else f"{COUNTS.get(families, families)} families"
    return " ".join([f"All errors come from {of}.", *told])


def left_out(data: Data) -> str:
    """How much was dropped before the audit, so that rates hold for the rest, and what is counted, as sentences."""
    families = data["families"]
    claims, grey, denied = (sum(f[of] for f in families) for of in ("claims", "grey", "contradicted"))
    unlearned, models = (sum(f[of] for f in families) for of in ("unlearned", "models"))
    return (
        f"Of {claims:,} claims {grey + denied} are left out because their truth is not clear-cut, and of {models} "
        f"models {unlearned} that had not learned their task. {row(_counted(data)).models} of the models are "
        "independent, and intervals are Clopper-Pearson ones over these."
    )


def grey_zone(data: Data) -> str:
    """What was dropped before the audit, so that rates hold for the rest, as sentences."""
    families = data["families"]
    claims, grey, denied = (sum(f[of] for f in families) for of in ("claims", "grey", "contradicted"))
    most = sorted((f for f in families if _dropped(f) > MUCH), key=_dropped, reverse=True)
    where = _listed([f"{percent(_dropped(f))} of {f['family']}" for f in most])
    there, not_there, decides = (
        f"{significant(score)} and {percent(top)}"
        for score, top in ((TRUE_SCORE, TRUE_TOP1), (FALSE_SCORE, FALSE_TOP1), (thresholds.SCORE, thresholds.TOP1))
    )
    unlearned, models = (sum(f[of] for f in families) for of in ("unlearned", "models"))
    return (
        f"Rates are of claims outside a grey zone ({percent((grey + denied) / max(1, claims))} dropped"
        f"{': ' if where else ''}{where}). A pattern counts as there where its score and the share of rows with the "
        f"largest weight on it are at least {there}, as not there where they are at most {not_there}, while the audit "
        f"decides at {decides}. A head counts as used where exchanging all that it gives moves at least "
        f"{significant(USED_MOVES)} of the margin and its mean loses {significant(USED_LOSES)} of the accuracy above "
        f"guessing, as unused where both are at most {significant(UNUSED_MOVES)}; the audit decides at "
        f"{significant(thresholds.USED)} and {significant(thresholds.UNUSED)}. Of {claims:,} claims {grey} lay between "
        f"these bounds, and {denied} were denied by the check. Models that had not learned their task are left out: "
        f"{unlearned} of {models}."
    )


def trained_figure(data: Data) -> "go.Figure":
    """Shares of models with an error, by kind, with their intervals."""
    import plotly.graph_objects as go

    counted = _counted(data)
    chosen = [*_by_kind(counted), row(counted)]
    figure = go.Figure()
    for error in ERRORS:
        shares = [one.rates[error].share for one in chosen]
        up, down = ([_gap(s.value, getattr(s, end)) for s in shares] for end in ("high", "low"))
        bars = {"type": "data", "array": up, "arrayminus": down, "symmetric": False}
        figure.add_bar(name=error, x=[r.kind or "all" for r in chosen], y=[s.value for s in shares], error_y=bars)
    return figure.update_layout(yaxis_title="share of models with such an error", yaxis_range=[0, 1])


# -- inside -------------------------------------------------------------------------------------------------


def _counted(data: Data) -> list[Counted]:
    return models_from_json(data["told"])


def _by_kind(counted: Sequence[Counted]) -> list[Row]:
    return [one for one in (row(counted, None, kind) for kind in KINDS) if one.claims]


def _kinds_with_error(counted: Sequence[Counted]) -> list[str]:
    return [one.kind for one in _by_kind(counted) if one.kind and one.right < one.claims]


def _joined(counted: Sequence[Counted], kinds: Sequence[str]) -> list[tuple[str, Row, Sequence[Counted]]]:
    """Rows of `kinds`, each with what it is about; of all others together; and of all; with what they count."""
    each = ((f"*{kind}*: {ABOUT[kind]}", row(counted, None, kind)) for kind in kinds)
    found: list[tuple[str, Row, Sequence[Counted]]] = [(name, one, counted) for name, one in each if one.claims]
    rest = [c for c in counted if c.kind not in kinds]
    others = len({c.kind for c in rest})
    if found and others:
        name = "the other kind" if others == 1 else f"the {COUNTS.get(others, others)} other kinds"
        found.append((name, row(rest), rest))
    return [*found, ("all", row(counted), counted)]


def _cells(one: Row, counted: Sequence[Counted]) -> list[Any]:
    """Claims, and those with an error; then models without any error, and with each: "33 of 259 [0.09, 0.17]"; last
    how many false claims were refuted, and how many left open. `counted`: what the row is a part of."""
    shares = [one.faultless, *(rate.share for rate in one.rates.values())]
    false = of_false([c for c in counted if one.family in (None, c.family) and one.kind in (None, c.kind)])
    told = ABSENT if false is None else f"{false[0]} / {false[1]}"
    return [one.claims, one.claims - one.right, *(count(s) if s.n else ABSENT for s in shares), told]


def _naming(one: Row) -> str:
    return f"{one.named} of {one.nameable} claims" if one.nameable else ABSENT


def _listed(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _dropped(family: Data) -> float:
    return (family["grey"] + family["contradicted"]) / max(1, family["claims"])


def _gap(value: float | None, end: float | None) -> float | None:
    return None if value is None or end is None else abs(end - value)


def _units(data: Data) -> str:
    whole = row(_counted(data))
    shared = (
        "Models that share weights count as one (a grafted, untrained or shuffled one with that of its seed which it "
        f"was made from), so that {whole.models} of them are independent."
    )
    if data["half"] == "fresh":
        shared = "No two share weights."
    return (
        f"{data['claims']:,} claims about {data['models']} models. {shared} The columns of errors count independent "
        "models with such an error in one claim at least, of those about which it can be made, with 95 % "
        "Clopper-Pearson intervals."
    )


def _easy(counted: Sequence[Counted]) -> str:
    """How many claims are false of models that nobody would take for models of anything."""
    false = [c for c in counted if c.kind == "false"]
    easy = sum(c.claims for c in false if c.family in LEARNED_NOTHING)
    return (
        f"{easy} of the {sum(c.claims for c in false)} claims of the kind *false* are of untrained or shuffled models."
    )


def _named(whole: Row) -> str:
    return (
        f"Decoys and idle heads are called so (the head attends as claimed, and the model does not use it) in "
        f"{whole.named} of {whole.nameable} claims about them."
    )


def _source(data: Data) -> str:
    """Of which half, seeds, auditor and run these numbers are, and what they cost."""
    seeds = sorted({model["seed"] for model in data["told"]})
    which = f"half: {data['half']}" + (f", seeds {seeds[0]} to {seeds[-1]}" if seeds else "")
    runs = ""
    if set(seeds) & set(JUDGE):
        times = "once." if data["judge_runs"] == 1 else f"{data['judge_runs']} times; {EARLIER_RUNS}."
        runs = f" The half that was set aside was run {times}"
    elif set(seeds) & set(NEW):
        times = "once." if data["judge_runs"] == 1 else f"{data['judge_runs']} times; {EARLIER_RUNS}."
        runs = f" These families were run {times}"
    cost = number(data["seconds_per_claim"], 2)
    return f"These are results {of_which(data)} ({which}).{runs} An audit took {cost} CPU seconds a claim."


def _markdown(head: list[str], body: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
