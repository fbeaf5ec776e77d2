"""Tables 2.1 and 2.2 as the released code trains: what is measured, and its part of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.page import Table
from case_studies.topics.families import PAPER_DIAGONALS, TABLE, Triple
from case_studies.topics.lookup import OTHER_TOPIC, SAME_TOPIC, SAME_WORD, SPECIAL, Relations
from case_studies.topics.readings import (
    READINGS,
    RELEASED,
    RESCALED,
    RIGHT,
    WHOLE,
    Left,
    Readings,
    released_readings,
)
from case_studies.topics.released import Length, Setting, Trained, train
from case_studies.words import Cell, Row
from interp.grammars import TopicGrammar
from interp.numbers import ABSENT, number
from interp.stats import POSITIVE, SHARE, Estimate, mean_over_seeds
from probes.topics import analyze_topic_blocks

VISIBLE = 0.1  # share of the squares of W_V on its diagonal from which on a run counts as diagonal: ten times even
SHOWN = (SAME_WORD, SAME_TOPIC, OTHER_TOPIC)
WORDED = {RIGHT: "topics of the words", RELEASED: "released lookup", RESCALED: "as of 100 words", WHOLE: "as they are"}


@dataclass(frozen=True)
class ReleasedRow:
    """Runs of one setting, read in four ways.

    `on_diagonal`: of all runs, the share of the squares of W_V on its diagonal. `readings`: of the runs that are kept:
    all of Table 2.1; of Table 2.2 those whose share is at least `VISIBLE` (None if there is none). `structure`: of W_V
    of one-hot models, from word to word; None where its rows are no words. `capped`: runs that the limit of steps
    ended.
    """

    setting: Setting
    digest: str
    runs: int
    kept: int
    capped: int
    loss: Estimate
    step: tuple[int, ...]
    on_diagonal: Estimate
    structure: str | None
    readings: Readings | None

    def to_dict(self) -> dict[str, Any]:
        """What stands in results.json."""
        return {
            "digest": self.digest,
            "runs": self.runs,
            "kept": self.kept,
            "capped": self.capped,
            "loss": self.loss.to_dict(),
            "step": list(self.step),
            "on_diagonal": self.on_diagonal.to_dict(),
            "structure": self.structure,
            **({} if self.readings is None else self.readings.to_dict()),
        }


def measure_released(
    settings: Sequence[Setting], length: Length, grammar: TopicGrammar, folder: Path
) -> list[ReleasedRow]:
    """Train (or read) every setting's runs and measure them."""
    return [row_of(train(setting, length, grammar, folder), grammar) for setting in settings]


def row_of(trained: Trained, grammar: TopicGrammar) -> ReleasedRow:
    """The row of a setting's runs."""
    values = trained.values()
    shares = on_diagonal(values)
    onehot = trained.setting.embedding == "onehot"
    kept = np.ones(len(shares), dtype=bool) if onehot else shares >= VISIBLE
    structure = None
    if onehot:
        words = values[:, SPECIAL:, SPECIAL:]
        structure = analyze_topic_blocks(words, labels=grammar.topic_of[1:]).structure
    return ReleasedRow(
        trained.setting,
        trained.digest,
        len(shares),
        int(kept.sum()),
        trained.capped(),
        mean_over_seeds(trained.loss, support=POSITIVE),
        trained.step,
        mean_over_seeds(shares, support=SHARE).with_null(1 / values.shape[-1]),
        structure,
        released_readings(trained.scores()[kept], grammar) if kept.any() else None,
    )


def on_diagonal(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the squares of each matrix [run, n, n] that stands on its diagonal; even: 1 / n."""
    squares = np.square(matrices)
    return np.asarray(np.trace(squares, axis1=1, axis2=2) / squares.sum((1, 2)))


# -- the page -----------------------------------------------------------------------------------------------------


def released_parts(
    table: Sequence[ReleasedRow], diagonal: Sequence[ReleasedRow], left: Mapping[tuple[str, str], Left]
) -> list[str | Table]:
    """What the printed rows say of how they were read; the runs through that reading; and Table 2.2's."""
    return [
        left_sentence(left),
        Table(
            ["read by", "documents count", "pairs left out", "their mean by that of other pairs", "below 0"],
            [_left_row(key, one) for key, one in left.items()],
            "From the thesis's printed means alone, row by row of Tables 2.1 and 2.2 (range over "
            f"{len(next(iter(left.values())).mean)} rows): what the mean of the pairs that none of the three columns "
            "counts would have to be, by the mean of the row's pairs of different words. Released lookup: pairs with "
            "the words that it finds no topic for; topics of the words: pairs with START.",
        ),
        "The released code's own training: START and END around a document, positions that are to be predicted not "
        "attended to, one set of 10,000 masked documents, biases, the weights of the lowest held-out loss. For Table "
        "2.2 the embeddings are trained too (tied to the unembedding), and a run is kept whose W_V has at least "
        f"{number(VISIBLE, 1)} of its squares on the diagonal. A rate of 10 stands for many more steps of SGD's 0.01 "
        "and 0.03.",
        runs_table([*table, *diagonal]),
        readings_table([*table, *diagonal]),
    ]


def left_sentence(left: Mapping[tuple[str, str], Left]) -> str:
    """Which reading leaves the least to explain."""
    worst = {key: max(_off(x) for x in one.ratio.values()) for key, one in left.items()}
    best = min(worst, key=lambda key: worst[key])
    ratios = left[best].ratio.values()
    others = [x for key, one in left.items() if key != best for x in one.ratio.values() if x > 0]
    impossible = [key for key, one in left.items() if any(x < 0 for x in one.mean.values())]
    more = f" Negative, which no attention is, with {_named(impossible)}." if impossible else ""
    return (
        "Attention to all positions sums to 1, so that the three printed means of a row leave one for the pairs that "
        f"they do not count. With {_named([best])} these have {number(min(ratios), 2)} to {number(max(ratios), 2)} "
        "times the mean of the row's other pairs of different words; with the other readings, where it is positive, "
        f"{number(min(others), 2)} to {number(max(others), 2)} times.{more}"
    )


def _off(ratio: float) -> float:
    return abs(float(np.log(ratio))) if ratio > 0 else float("inf")


def _named(keys: Sequence[tuple[str, str]]) -> str:
    return " or ".join(f"the {WORDED[k]} and documents {WORDED[length]}" for k, length in keys)


def _left_row(key: tuple[str, str], one: Left) -> Row:
    ratios = one.ratio.values()
    negative = sum(x < 0 for x in one.mean.values())
    return [
        WORDED[key[0]],
        WORDED[key[1]],
        number(one.share, 3),
        f"{number(min(ratios), 2)} to {number(max(ratios), 2)}",
        str(negative),
    ]


def runs_table(rows: Sequence[ReleasedRow]) -> Table:
    """Where the runs end."""
    even = rows[0].on_diagonal.null
    assert isinstance(even, float)
    return Table(
        [
            "trained with",
            "runs",
            "kept",
            "held-out loss",
            "least at step",
            "ended by the limit",
            "W_V on its diagonal",
            "W_V",
        ],
        [
            [
                row.setting.name,
                str(row.runs),
                str(row.kept),
                Cell(row.loss, 3),
                f"{min(row.step):,} to {max(row.step):,}",
                f"{row.capped} of {row.runs}",
                Cell(row.on_diagonal),
                row.structure or ABSENT,
            ]
            for row in rows
        ],
        f"Cross entropy. On its diagonal: share of the squares of W_V (even: {number(even, 2)}).",
    )


def readings_table(rows: Sequence[ReleasedRow]) -> Table:
    """Means and ratios through the two lookups, documents as they are and as of 100 words."""
    out: list[Row] = []
    for row in rows:
        paper = paper_of(row.setting)
        for key in READINGS if row.readings is not None else ():
            r = row.readings.relations[key] if row.readings is not None else None
            assert r is not None
            out.append(
                [
                    row.setting.name,
                    f"{WORDED[key[0]]}, {WORDED[key[1]]}",
                    *(told(r, name) for name in SHOWN),
                    Cell(r.ratio),
                    "" if paper is None else " / ".join(number(x, 4) for x in paper),
                ]
            )
    kept = ", ".join(f"{row.setting.name} n={row.kept} runs" for row in rows)
    return Table(
        ["trained with", "read", *SHOWN, "topic / other", "thesis"],
        out,
        f"Mean ± standard deviation over the runs that are kept ({kept}). Documents as they are: of 100 to 150 words, "
        "even attention about 0.0078; as of 100 words: 0.01.",
    )


def told(r: Relations, name: str) -> str:
    """Mean ± standard deviation over runs."""
    deviation = r.deviations[name]
    mean = number(r.means[name].value, 4)
    return mean if deviation is None else f"{mean} ± {number(deviation, 4)}"


def paper_of(setting: Setting) -> Triple | None:
    """The thesis's row of the same optimizer and rate."""
    if setting.embedding == "tied":
        return PAPER_DIAGONALS.get(setting.name.split(",")[0])
    return next((paper for family, paper in TABLE if family.name == setting.name.split(",")[0]), None)
