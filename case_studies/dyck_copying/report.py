"""The page of `dyck-copying`. Every sentence is made from the numbers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from case_studies.dyck_copying.compared import (
    beyond_random,
    highest,
    likely,
    paper_table,
    primary_table,
    secondary_table,
    settings_table,
)
from case_studies.dyck_copying.estimates import (
    ACCURACY,
    COSTLIEST,
    INTERPRETABLE,
    MARGIN,
    THRESHOLDS,
    Crossing,
    accuracy,
    by_edit,
    by_layer,
    crossing,
    scores,
    useless,
    without_heads,
)
from case_studies.dyck_copying.figures import heatmaps, scatter
from case_studies.dyck_copying.measure import (
    ABLATIONS,
    CURRENT,
    DEPTHS,
    EDITS,
    ENCODERS,
    FURTHER,
    LATER,
    LINK,
    STRINGS,
    Measured,
)
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import count, number, percent
from interp.worlds.dyck.task import FINAL_STRINGS, LONG_STRINGS

BOUNDS = f"less than {percent(ACCURACY)} of accuracy and less than {percent(MARGIN)} of the margin"
EVERY_LAYER = {
    "zero": "heads ablated to zero",
    "mean": "heads set to their mean output",
    "even": "heads made to attend evenly",
    LINK: "heads alone: residual link cut",
}


# -- the page ---------------------------------------------------------------------------------------------


def report(measured: Sequence[Measured], command: str) -> Page:
    """The report of what was measured: the groups named before the run, and then those that came later."""
    groups, later = list(measured), [m for m in measured if m.group in ENCODERS]
    further = [m for m in measured if m.group == FURTHER]
    measured = [m for m in measured if m.group not in LATER]
    sections = [
        Section("Interpretable and useless", crossing_parts(measured)),
        Section("Attention patterns", [figure for m in measured for figure in heatmaps(m)]),
        Section("How patterns look, and what heads cost", layer_parts(measured)),
        Section("In the paper's terms", [*terms_parts(measured), *further_parts(further)]),
        Section("Accuracy", [accuracy_table(measured), without_table(measured)]),
        Section("An encoder", encoder_parts(later)),
    ]
    seeds = len(measured[0].population)
    return Page(
        title="Patterns that mean something, heads that do nothing?",
        asked=(
            "Models that repeat their input need no attention: a residual link carries each token. Do their heads "
            f"nevertheless look interpretable, and what is lost without them? {seeds} seeds of each depth, with the "
            "block of GPT-2 and with that of the paper's released code (which holds no settings for copying), the "
            "latter with the loss on all brackets and on closing ones alone, as that code has it."
        ),
        said=[
            "Copying models reach "
            + " and ".join(f"> {percent(group.paper_accuracy)} ({group.family.name})" for group in DEPTHS)
            + " accuracy, and some of their heads attend to all closing brackets, to two brackets or never to one: "
            "patterns that can be described and say nothing of the task (Wen et al. 2023, App. B.1). None is ablated.",
        ],
        answer=answers(measured),
        sure=(
            f"Counts come with exact 95 % intervals, means with 95 % over {seeds} seeds. A head's relation is chosen "
            "on other strings than those that score it; scores stand beside untrained models, costs beside a change of "
            "the same size in a random direction."
        ),
        lead=looks_and_use(measured),
        compared=[primary_table(measured), paper_table(measured)],
        sections=sections,
        settings=[settings_table(groups)],
        command=command,
        digests=[(m.group.family.name, m.digest) for m in groups],
    )


def further_parts(further: Sequence[Measured]) -> list[str | Table]:
    """Fig. 6b once more: heads that attend to the current position, of seeds that are in no other group."""
    (one,) = further
    c = crossing(one.heads, term=CURRENT)
    return [
        f"The released block with four layers once more, over {len(one.population)} further seeds, since the first "
        f"have few heads that attend to the current position. Useless are {count(c.useless)} of such heads, as if "
        f"heads were independent; of the models that have one, {count(c.seeds_any)} have a useless one.",
        terms_table(further),
    ]


def encoder_parts(later: Sequence[Measured]) -> list[str | Table | Figure]:
    """The paper's statements of models that attend in both directions, which no comparison above holds."""
    (deep, *_), (flat, *_) = ([m for m in later if m.group.layers == group.layers] for group in DEPTHS)
    closing = next(m for m in later if m.group.layers == flat.group.layers and m.group.closers)
    return [
        "The released repository also holds an encoder (BERT's block: a norm behind each sum and one on the "
        "embeddings, learned positions, attention in both directions), and no settings for it. It was trained here to "
        "copy when everything above had been decided: nothing below is among the comparisons named before the run or "
        "corrected with the others. Strings are prefixes of one length, so that no key is PAD.",
        primary_table(later, "The same statements, not named before the run"),
        paper_table(later),
        *terms_parts(later),
        accuracy_table(later),
        without_table([deep, flat]),
        *heatmaps(closing),
    ]


def answers(measured: Sequence[Measured]) -> list[str]:
    """Three sentences, made from the numbers."""
    right, left, looks, used = [], [], [], []
    for m in measured:
        name, found, c = m.group.family.name, accuracy(m), crossing(m.heads)
        right.append(f"{number(found['worst_seed'])} with {name} (the paper: > {number(m.group.paper_accuracy, 2)})")
        left.append(f"{_left(m)} with {name}")
        looks.append(f"{count(c.interpretable)} heads, in {count(c.seeds)} models, with {name}")
        cheap = by_edit(likely(m))[COSTLIEST]["accuracy"]
        used.append(f"{count(cheap)} and {count(c.useless)} with {name}" if c.useless.n else f"none with {name}")
    return [
        f"The worst of {len(measured[0].population)} seeds copies this share of held-out brackets: {', '.join(right)}; "
        f"with every head ablated to zero the mean is {', '.join(left)}.",
        f"The best relation, chosen on other strings, scores at least {INTERPRETABLE} (1: perfect, 0: uniform) in "
        f"{'; '.join(looks)}: these look interpretable (shares with their 95 % intervals).",
        f"Of these, so many cost less than {percent(ACCURACY)} of accuracy in whichever of three ways they are "
        f"ablated, and so many also less than {percent(MARGIN)} of the logit margin: {'; '.join(used)}.",
    ]


def _left(m: Measured) -> str:
    return number(float(np.mean([model.accuracy - model.without["zero"][0] for model in m.models])))


# -- accuracy -----------------------------------------------------------------------------------------------


def accuracy_table(measured: Sequence[Measured]) -> Table:
    """Copied accuracy, the worst seed, the paper's bound."""
    rows = []
    for m in measured:
        found = accuracy(m)
        rows.append(
            [
                m.group.family.name,
                f"> {number(m.group.paper_accuracy, 2)}",
                Cell(found["copied"], 4),
                number(found["worst_seed"], 4),
                f"{len(found['seeds_below_paper'])} of {len(m.population)}",
                Cell(found["long_copied"], 4),
            ]
        )
    return Table(
        ["models", "paper", "ours", "worst seed", "seeds not above the paper's", "positions 400-499"],
        rows,
        f"Share of brackets repeated right (argmax), mean over seeds on {FINAL_STRINGS} held-out strings; last "
        f"column: on {LONG_STRINGS} prefixes of 500 brackets.",
    )


def without_table(measured: Sequence[Measured]) -> Table:
    """Every layer at once."""
    rows = [
        [f"{m.group.family.name}, {EVERY_LAYER[edit]}", Cell(both["accuracy"], 3), Cell(both["margin"], 3)]
        for m in measured
        for edit, both in without_heads(m).items()
    ]
    return Table(
        ["every layer edited at once", "accuracy lost", "margin lost"],
        rows,
        "Mean over seeds. Margin: the right logit minus the best other one, mean over brackets, lost as a share "
        "of the intact one (1: nothing is left of it; below 0: it grows). With the link cut, the stream after "
        "attention is the head's output alone, in every layer: what accuracy is then left went through heads. "
        "Guessing one of four brackets would lose 0.75.",
    )


# -- layers -------------------------------------------------------------------------------------------------


def layer_parts(measured: Sequence[Measured]) -> list[str | Table | Figure]:
    """Per layer: the best relation's score and what the edits cost."""
    looks, cost, sham = [], [], []
    for m in measured:
        for layer in range(m.layers):
            heads, name = m.at(layer), f"{m.group.family.name}, layer {layer}"
            e = by_layer(heads)
            null = e["score"].null
            assert isinstance(null, dict)
            most, times = Counter(head.best.words for head in heads).most_common(1)[0]
            at_least = sum(head.best.score >= INTERPRETABLE for head in heads)
            looks.append(
                [
                    name,
                    Cell(e["score"], 3),
                    number(null["untrained"]),
                    number(null["untrained_best"]),
                    f"{at_least} of {len(heads)}",
                    f"{most} ({times})",
                ]
            )
            margins = [Cell(e[f"margin_lost_{edit}"], 3) for edit in ABLATIONS]
            cost.append([name, Cell(e["size"], 2), Cell(e["accuracy_lost"], 4), *margins])
            paired = ("margin_lost_zero", "margin_lost_sham", "zero_minus_sham")
            sham.append([name, *(Cell(e[key], 3) for key in paired), Cell(e["rank_correlation"], 2)])
    strings = measured[0].strings
    return [
        f"A pattern is scored against {len(strings.data.inputs)} distinct held-out strings ({STRINGS} drawn), each "
        "once: the relation that fits best is chosen on every other string and scored on the rest. A row scores "
        "(m - c) / (1 - c), with m the weight on the relation's keys and c their share of the visible keys: 1 for a "
        "perfect head, 0 for a uniform one, and 0 in expectation for any head whose weights are permuted among the "
        "keys of a row. The score is the mean over strings of the mean over rows.",
        Table(
            [
                "models, layer",
                "score",
                "before training, same relation",
                "before training, its best",
                f"score ≥ {INTERPRETABLE}",
                "most frequent relation",
            ],
            looks,
            f"Best relation of each head, mean over seeds; {len(strings.tokens) // 2} strings score it. In "
            "brackets: heads for which it is the best.",
        ),
        Table(
            ["models, layer", "size", "accuracy lost", *(f"margin lost, {words}" for words in ABLATIONS.values())],
            cost,
            "One head edited, mean over seeds. Size: norm of what the head adds over that of the stream it is "
            "added to. Accuracy lost: by the costliest of the three.",
        ),
        Table(
            ["models, layer", "margin lost, zeroed", "as large, random", "difference", "rank correlation"],
            sham,
            "Random: the head's output is changed as much as by ablation to zero, but in a random direction. "
            "Difference: paired over seeds. Rank correlation over seeds of the score and the margin lost by the "
            "costliest ablation; 0 if unrelated.",
        ),
        beyond_random(measured),
        secondary_table(measured),
    ]


# -- looks and use ------------------------------------------------------------------------------------------


def looks_and_use(measured: Sequence[Measured]) -> Figure:
    """Every head by its score and its cost."""
    return Figure(
        scatter(measured),
        "Each point is one head: how well the best relation fits, and the share of the margin lost by the costliest of "
        "three ablations. Right of the upright line it looks interpretable; below the level one it costs less than "
        f"{percent(MARGIN)}.",
    )


def crossing_parts(measured: Sequence[Measured]) -> list[str | Table | Figure]:
    """Who looks interpretable, who of those is useless."""
    undecided = sum(crossing(m.heads).undecided for m in measured)
    dead = sum(len(head.cost.dead) for m in measured for head in m.heads)
    reached = f"{dead} edits moved no logit and are not judged" if dead else "Every edit moves the logits"
    return [
        f"A head looks interpretable here from a score of {INTERPRETABLE} on, half-way between a uniform and a perfect "
        "head: the bound is a convention, and others stand beside it. It is useless if zeroing it, setting it to its "
        f"mean output and making it attend evenly each cost {BOUNDS}. {reached}; {undecided} heads could not be "
        "judged.",
        crossing_table(measured),
        edit_table(measured),
        relation_table(measured),
    ]


def crossing_table(measured: Sequence[Measured]) -> Table:
    """Counts by threshold and by layer."""

    def row(name: str, c: Crossing) -> list[str | Cell]:
        shares = (c.interpretable, c.useless, c.others_useless, c.seeds, c.seeds_all)
        return [name, *(Cell(share, counted=True) for share in shares)]

    rows = []
    for m in measured:
        name = m.group.family.name
        rows += [row(f"{name}, score ≥ {t}", crossing(m.heads, t)) for t in THRESHOLDS]
        if m.layers > 1:
            rows += [row(f"{name}, ≥ {INTERPRETABLE}, layer {i}", crossing(m.at(i))) for i in range(m.layers)]
    return Table(
        [
            "heads",
            "look interpretable",
            "useless",
            "others useless",
            "seeds with one",
            "all useless",
        ],
        rows,
        "Counts, with exact 95 % intervals of the share. Useless: of the interpretable heads; others useless: of the "
        "rest. Intervals over heads of several layers take heads for independent, which layers of one model are not: "
        "the last two columns count seeds that have an interpretable head, and among them those whose interpretable "
        "heads are all useless.",
    )


def edit_table(measured: Sequence[Measured]) -> Table:
    """Interpretable heads, one edit at a time."""
    words = {**EDITS, COSTLIEST: "each of zero, mean, even"}
    rows = [
        [
            f"{m.group.family.name}, {words[edit]}",
            *(Cell(shares[key], counted=True) for key in ("accuracy", "margin", "both")),
        ]
        for m in measured
        for edit, shares in by_edit(likely(m)).items()
    ]
    return Table(
        [
            "interpretable heads",
            f"cost < {percent(ACCURACY)} of accuracy",
            f"cost < {percent(MARGIN)} of the margin",
            "both",
        ],
        rows,
        "Each edit by itself; the random one changes as much as zeroing.",
    )


def relation_table(measured: Sequence[Measured]) -> Table:
    """Interpretable heads, relation by relation."""
    rows = []
    for m in measured:
        for words, times in Counter(head.best.words for head in likely(m)).most_common():
            heads = [head for head in likely(m) if head.best.words == words]
            lost = [head.cost.worst_margin for head in heads]
            rows.append(
                [
                    f"{m.group.family.name}: {words}",
                    str(times),
                    str(sum(useless(head) is True for head in heads)),
                    number(float(np.median(lost))),
                    number(float(np.max(lost))),
                ]
            )
    return Table(
        ["best relation of interpretable heads", "heads", "useless", "median margin lost", "most"],
        rows,
        "Margin lost by the costliest of the three ablations.",
    )


def terms_parts(measured: Sequence[Measured]) -> list[str | Table]:
    """What the paper's captions call a pattern."""
    return [
        "The paper's captions name a pattern by the brackets it goes to, or never goes to. Where a term leaves a "
        "choice (which type, which bracket), it is made on one half of the strings and scored on the other. A head "
        "that never attends to a bracket is scored on everything else, over rows that see such a bracket.",
        terms_table(measured),
    ]


def terms_table(measured: Sequence[Measured]) -> Table:
    """Scores and counts of each pattern, a row per group and term."""
    rows = []
    for m in measured:
        for term in m.heads[0].terms:
            e, c = scores(m.heads, term), crossing(m.heads, term=term)
            assert isinstance(e.null, dict)
            rows.append(
                [
                    f"{m.group.family.name}: {term}",
                    Cell(e, 3),
                    number(e.null["untrained"]),
                    number(highest(m, term), 2),
                    Cell(c.interpretable, counted=True),
                    Cell(c.useless, counted=True),
                ]
            )
    return Table(
        ["attends to", "score", "before training", "highest", f"heads ≥ {INTERPRETABLE}", "of those useless"],
        rows,
        "Score: mean over heads and seeds; highest: of the best head of all. Counts with exact "
        "95 % intervals. One head may count in several rows.",
    )
