"""What `dyck-copying` holds against the paper: its statements (primary), and all other comparisons, corrected."""

from collections.abc import Sequence

from case_studies.dyck_copying.estimates import (
    ACCURACY,
    COSTLIEST,
    INTERPRETABLE,
    MARGIN,
    ZEROED,
    accuracy,
    by_edit,
    crossing,
    idle_models,
    others,
)
from case_studies.dyck_copying.measure import DEPTHS, Group, Head, Measured
from case_studies.page import Table
from case_studies.words import Cell
from interp.numbers import count, number, percent
from interp.stats import Estimate

COMMON = 0.5  # a pattern is common where more than this share of the models has a head of it


def likely(m: Measured) -> list[Head]:
    """The heads that look interpretable."""
    return [head for head in m.heads if head.best.score >= INTERPRETABLE]


def highest(m: Measured, term: str) -> float:
    """Score of the head that fits one of the paper's terms best."""
    return max(head.terms[term].score for head in m.heads)


def with_depth(measured: Sequence[Measured], depth: Group) -> list[Measured]:
    """The groups of one depth, in the order in which they were measured."""
    return [m for m in measured if m.group.layers == depth.layers]


# -- primary: the paper's statements ------------------------------------------------------------------------


def statements(m: Measured) -> list[tuple[str, str, Estimate, str]]:
    """What App. B.1 says of models of this depth: (statement, paper, ours over seeds, whether it holds here)."""
    bound = m.group.paper_accuracy
    copied, idle = accuracy(m)["copied"], idle_models(m.heads)
    rows = [
        ("copied accuracy", f"> {number(bound, 2)}", copied, _above(copied, bound)),
        (
            "models with a head that looks interpretable and is useless",
            "shown",
            idle,
            "there are" if idle.value else "none was found",
        ),
    ]
    for term, said in m.group.paper_terms.items():
        having, often = crossing(m.heads, term=term).seeds, said.startswith("common")
        holds = _above(having, COMMON) if often else "there are" if having.value else "none was found"
        rows.append((f"models with a head to {term}", "common" if often else "one shown", having, holds))
    return rows


def _above(e: Estimate, bound: float) -> str:
    """On which side of a bound an estimate lies, by its interval."""
    if e.low is None or e.high is None:
        return "no interval"
    return "holds" if e.low > bound else "does not hold" if e.high <= bound else "undecided"


def primary_table(measured: Sequence[Measured], called: str = "Primary comparisons") -> Table:
    """The statements that the README names beforehand: a row a statement, a column a block; `called` so beneath it."""
    rows = []
    for depth in DEPTHS:
        groups = with_depth(measured, depth)
        for same in zip(*(statements(m) for m in groups), strict=True):
            what, paper = same[0][:2]
            row: list[str | Cell] = [f"{depth.family.name}: {what}", paper]
            for _, _, e, holds in same:
                row += [Cell(e, 4) if what == "copied accuracy" else Cell(e, counted=True), holds]
            rows.append(row)
    shown = [m.group.training for m in with_depth(measured, DEPTHS[0])]
    return Table(
        ["statement", "paper", *(word for block in shown for word in (block, "so"))],
        rows,
        f"{called}, over seeds. Looks interpretable: score of at least {INTERPRETABLE}; useless: each of "
        f"three ablations costs less than {percent(ACCURACY)} of accuracy and {percent(MARGIN)} of the margin. Common: "
        f"more than {percent(COMMON)} of the models have such a head. Holds, or does not: the whole 95 % interval is "
        "on that side.",
    )


def paper_table(measured: Sequence[Measured]) -> Table:
    """Counts of heads beside what the captions say of them: a row a statement, a column a block."""
    rows = []
    for depth in DEPTHS:
        groups = with_depth(measured, depth)
        for same in zip(*(_counts(m) for m in groups), strict=True):
            what, paper = same[0][:2]
            row: list[str | Cell] = [f"{depth.family.name}: {what}", paper]
            for _, _, e, note in same:
                row += [Cell(e, counted=True), note]
            rows.append(row)
    shown = [m.group.training for m in with_depth(measured, DEPTHS[0])]
    return Table(
        ["statement", "paper", *(word for block in shown for word in (block, "note"))],
        rows,
        "The paper shows single models and no intervention: it calls a pattern uninformative of the task. Useless "
        f"here: each of three ablations costs less than {percent(ACCURACY)} of accuracy and less than "
        f"{percent(MARGIN)} of the margin. Counts with exact 95 % intervals.",
    )


def _counts(m: Measured) -> list[tuple[str, str, Estimate, str]]:
    c, said = crossing(m.heads), m.group.paper_useless
    cheap = by_edit(likely(m))[COSTLIEST]["accuracy"]
    rows = [
        ("heads that look interpretable", "no count", c.interpretable, f"score ≥ {INTERPRETABLE}"),
        ("of those, cost no accuracy", said, cheap, "three ablations"),
        ("of those, useless", said, c.useless, "three ablations"),
        ("models where all of those are", "no count", c.seeds_all, "by seed"),
    ]
    for term, words in m.group.paper_terms.items():
        t = crossing(m.heads, term=term)
        note = f"useless: {count(t.useless)}" if t.useless.n else f"highest score {number(highest(m, term), 2)}"
        rows.append((f"heads to {term}", words, t.interpretable, note))
    return rows


# -- all the rest, corrected --------------------------------------------------------------------------------


def beyond_random(measured: Sequence[Measured]) -> str:
    """One sentence on what zeroing a head costs beyond a random change of its size."""
    found = others(measured)
    layers = [c.finding for name, c in found.items() if name.endswith(ZEROED)]
    return (
        f"Zeroing costs more margin than a random change of the same size in {layers.count('above')} of {len(layers)} "
        f"layers, and less in {layers.count('below')} (corrected by Holm over {len(found)} secondary comparisons, n="
        f"{len(measured[0].population)} seeds each); in {layers.count('equivalent')} the two are equivalent: two "
        f"one-sided tests, corrected likewise, put the difference within {percent(MARGIN)} of the margin, the bound "
        f"for useless. In {layers.count('inconclusive') + layers.count('untested')} nothing can be said."
    )


def secondary_table(measured: Sequence[Measured]) -> Table:
    """Every comparison that is not primary, with its p-values before and after Holm."""
    found = others(measured)
    return Table(
        ["layer and comparison", "difference or correlation", "finding"],
        [[name, Cell(c.estimate, 3, beneath=c.tests), c.finding] for name, c in found.items()],
        f"{len(found)} secondary comparisons with 0, corrected together. p: one minus the level at which the interval "
        "just reaches 0; a comparison without an interval counts as one that shows nothing.",
    )


def settings_table(measured: Sequence[Measured]) -> Table:
    """What was trained, how long."""
    names = ("steps", "batch", "lr", "schedule", "optimizer", "data", "max_length")
    rows = []
    for m in measured:
        config, settings = m.population.config, m.population.provenance["settings"]
        shape = [str(size) for size in (len(m.population), config.n_layers, config.n_heads, config.d_model)]
        rows.append([m.group.family.name, m.group.family.preset, *shape, *(str(settings[n]) for n in names)])
    head = ["models", "preset", "seeds", "layers", "heads", "width", *names]
    return Table(head, rows, "Batch counts strings per seed and step.")
