"""The section on Table 2.1: attention of jointly trained models by relation, through two lookups of topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from case_studies.page import Table
from case_studies.topics.families import PAPER_RATIOS
from case_studies.topics.lookup import RELATIONS, SPECIAL, Relations
from case_studies.topics.measure import AttentionRow
from case_studies.words import Cell, Row
from interp.numbers import number

if TYPE_CHECKING:
    from case_studies.topics.findings import Findings


def table_parts(f: "Findings") -> list[str | Table]:
    """Tables 2.1 and 2.2, and Table 2.1 through the lookup of the released code."""
    rows = []
    for row in f.table:
        told = ", ".join(f"{n} {name}" for name, n in row.structures.items())
        paper = "" if row.paper is None else " / ".join(number(x, 4) for x in row.paper)
        means = [spread(row.right, name) for name in RELATIONS]
        rows.append([row.family.name, paper, *means, Cell(row.right.ratio), told, number(row.loss.value, 4)])
    return [
        "Cross entropy; W_Q, W_K and W_V trained together. Attention weights over pairs of positions of held-out "
        "documents without masks, rescaled to documents of 100 words, so that even attention is 0.01.",
        Table(
            [
                "trained with",
                "paper: same word / topic / other",
                *RELATIONS,
                "topic / other",
                "W_V of the seeds",
                "loss",
            ],
            rows,
            f"Mean ± standard deviation over seeds (n={f.count} seeds), as in the thesis. The thesis's caption says "
            "same word > same topic > different topic “under most settings”, which four of its five rows contradict; "
            "what all its rows show is same topic above different topic. It counts a position's attention to itself as "
            "same word.",
        ),
        lookup_sentence(f.table),
        lookup_table(f.table),
        tried_sentence(f.table),
    ]


def lookup_sentence(table: Sequence[AttentionRow]) -> str:
    """Whether the released code's lookup brings our ratios to the thesis's."""
    nearer, within, told = 0, 0, []
    rows = [row for row in table if row.paper is not None]
    for row in rows:
        right, released = row.right.ratio.value, row.released.ratio.value
        if row.paper is None or right is None or released is None:
            continue
        paper = row.paper[1] / row.paper[2]
        nearer += abs(released - paper) < abs(right - paper)
        within += PAPER_RATIOS[0] <= released <= PAPER_RATIOS[1]
        told.append(f"{row.family.name} {number(right, 2)} to {number(released, 2)} (thesis {number(paper, 2)})")
    return (
        f"The released code looks up the topic of a word by the id of its token, which is {SPECIAL} more than the "
        "number its table of topics knows it by, so that what it calls one topic straddles two. Through that lookup "
        f"the ratio of same topic to different topic goes from {'; '.join(told) or 'what is undefined'}. It is nearer "
        f"to the thesis's in {nearer} of {len(rows)} rows, and within its range of {PAPER_RATIOS[0]} to "
        f"{PAPER_RATIOS[1]} in {within} (means over n={max(row.right.ratio.n for row in table)} seeds)."
    )


def tried_sentence(table: Sequence[AttentionRow]) -> str:
    """What SGD gives at the thesis's rates, what was tried besides, and whether that has the thesis's ratios."""
    own = [row for row in table if row.paper is not None and row.family.recipe.settings.optimizer == "sgd"]
    tried = [row for row in table if row.paper is None]
    low, high = PAPER_RATIOS
    told = "; ".join(
        f"{row.family.name}: {number(row.right.ratio.value, 2)}, released lookup {number(row.released.ratio.value, 2)}"
        for row in tried
    )
    inside = [row.family.name for row in tried if low <= (row.released.ratio.value or 0.0) <= high]
    verdict = f"through the released lookup {', '.join(inside)} within it" if inside else "none within it"
    return (
        f"At the thesis's rates SGD has {' and '.join(number(row.right.ratio.value, 2) for row in own)} here (thesis "
        f"{' and '.join(number(row.paper[1] / row.paper[2], 2) for row in own if row.paper)}). Tried besides, a higher "
        f"rate in the place of more steps and other initial scales: {told}; the thesis's range is {low} to {high}, "
        f"{verdict} (means over n={max(row.right.ratio.n for row in table)} seeds)."
    )


def lookup_table(table: Sequence[AttentionRow]) -> Table:
    """Table 2.1 twice: by the topics of the words, and through the released code's lookup."""
    shown = [RELATIONS[k] for k in (0, 2, 3)]
    rows: list[Row] = []
    for row in table:
        paper = "" if row.paper is None else number(row.paper[1] / row.paper[2], 2)
        ratios = [Cell(row.right.ratio), Cell(row.released.ratio), Cell(row.one_word)]
        rows.append([row.family.name, paper, *ratios, *(spread(row.released, name) for name in shown)])
    return Table(
        [
            "trained with",
            "thesis: topic / other",
            "right lookup",
            "released lookup",
            "on one word",
            *(f"released: {name}" for name in shown),
        ],
        rows,
        f"The same models and documents. Released lookup: words {SPECIAL} places on, the last {SPECIAL} without a "
        "topic and left out; the same word is the same under both. On one "
        "word: of the attention within a topic, what its most attended word gets (even: 0.1); where that is much, the "
        "released lookup's ratio depends on which word it is, by seed and topic. Mean ± standard deviation over seeds.",
    )


def spread(r: Relations, name: str) -> str:
    """Mean ± standard deviation over seeds."""
    deviation = r.deviations[name]
    mean = number(r.means[name].value, 4)
    return mean if deviation is None else f"{mean} ± {number(deviation, 4)}"
