"""How often intervals that say 95 % hold what they are for, by law and number of units.

    python benchmarks/coverage.py [--quick] [--json FILE]

No time is measured here. Each kind of interval of `interp.stats` is drawn again and again from laws whose truth is
known, at the numbers of units where it is printed and below, and the table of docs/intervals.md is written. A kind
holds on its family of laws if it covers 93 to 97 % there, give or take the error of the simulation.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from case_studies.topics_wikipedia.contrast import contrast_of_sums, without_each
from case_studies.topics_wikipedia.lda import Labels
from case_studies.topics_wikipedia.measure import embedding_contrast
from interp.files import write_text
from interp.numbers import number, percent
from interp.rng import generator
from interp.stats import (
    POSITIVE,
    REALS,
    SCORE,
    SHARE,
    Estimate,
    Support,
    clopper_pearson,
    jackknife_pairs,
    mean_over_seeds,
    spearman,
)

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "intervals.md"
BAND = (0.93, 0.97)
MARK = "<!-- the table, by benchmarks/coverage.py -->"
SIZES = (4, 5, 8, 10, 20, 40)
Sample = Callable[[np.random.Generator, int], np.ndarray]
Make = Callable[[np.ndarray], Estimate]


@dataclass(frozen=True)
class Law:
    """One law: what is drawn [n, ...], its truth, and whether the interval is promised to cover there.

    `from_size`: the promise is for so many units on (there may be an interval below, without the promise). `more`: it
    may cover more than the band.
    """

    name: str
    sample: Sample
    truth: float
    promised: bool = True
    from_size: int = 0
    more: bool = False


@dataclass(frozen=True)
class Kind:
    """One kind of interval, the laws it is tried on, and how often."""

    name: str
    make: Make
    laws: Sequence[Law]
    sizes: Sequence[int] = SIZES
    draws: int = 4000
    exact: bool = False  # covers at least 95 % by its construction, and more where counts are few


def failing(share: float) -> Law:
    """Shares near 1, and of seeds that fail, between 0.4 and 0.9."""

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < share, rng.uniform(0.4, 0.9, n), rng.beta(200, 2, n))

    mean = (1 - share) * 200 / 202 + share * 0.65
    # Forty seeds hold none of one in ten that fail once in 68 times, twenty once in eight.
    return Law(f"{percent(share)} of seeds fail", sample, mean, from_size=40, more=True)


def distances(points: np.ndarray) -> np.ndarray:
    """Squared distances of all pairs of points [n, d]."""
    return np.square(points[:, None] - points[None]).sum(-1)


def patterns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Twelve rows of fifteen keys whose weights are Dirichlet(0.5), laid out."""
    return rng.dirichlet(np.full(15, 0.5), (n, 12)).reshape(n, -1)


def in_clusters(share: float) -> Sample:
    """Points in 21 dimensions, in two clusters of these shares."""

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        far = 3.0 * (rng.random((n, 1)) < share)
        return np.hstack([far, 0.2 * rng.normal(size=(n, 20))])

    return sample


def _pairs_of_clusters(share: float) -> float:
    return 2 * 0.04 * 20 + 9 * 2 * share * (1 - share)


def ranked(correlation: float) -> Sample:
    """Pairs [n, 2] of two normal numbers."""

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        x, noise = rng.normal(size=(2, n))
        return np.stack([x, correlation * x + math.sqrt(1 - correlation**2) * noise], 1)

    return sample


def _rank_truth(correlation: float) -> float:
    return 6 / math.pi * math.asin(correlation / 2)


SHARES = (
    Law("uniform", lambda rng, n: rng.random(n), 0.5),
    Law("Beta(5, 1)", lambda rng, n: rng.beta(5, 1, n), 5 / 6),
    Law("Beta(50, 1)", lambda rng, n: rng.beta(50, 1, n), 50 / 51),
    Law("Beta(200, 2)", lambda rng, n: rng.beta(200, 2, n), 200 / 202),
    failing(0.1),
    failing(0.2),
    failing(0.5),
)
SIZED = (
    Law("uniform", lambda rng, n: rng.random(n), 0.5),
    Law("exponential", lambda rng, n: rng.exponential(size=n), 1.0),
    Law("Gamma(2)", lambda rng, n: rng.gamma(2, size=n), 2.0),
    Law("lognormal, 0.5", lambda rng, n: np.exp(0.5 * rng.normal(size=n)), math.exp(0.125)),
    Law("lognormal, 1", lambda rng, n: np.exp(rng.normal(size=n)), math.exp(0.5), promised=False),
)
LINE = (
    Law("normal", lambda rng, n: rng.normal(size=n), 0.0),
    *SIZED,
)
PAIRS = (
    Law("patterns, 12 rows of 15", patterns, 2 * 12 * (14 / 15) / 8.5),
    Law("normal in 5 directions", lambda rng, n: rng.normal(size=(n, 5)), 10.0),
    Law("normal in 2 directions", lambda rng, n: rng.normal(size=(n, 2)), 4.0),
    Law("normal in 1 direction", lambda rng, n: rng.normal(size=(n, 1)), 2.0),
    Law("uniform in 1 direction", lambda rng, n: rng.random((n, 1)), 1 / 6),
    Law("two clusters, half and half", in_clusters(0.5), _pairs_of_clusters(0.5), promised=False),
    Law("two clusters, 0.3 and 0.7", in_clusters(0.3), _pairs_of_clusters(0.3), promised=False),
    Law("two clusters, 0.1 and 0.9", in_clusters(0.1), _pairs_of_clusters(0.1), promised=False),
)  # fmt: skip
COUNTS = tuple(
    Law(f"{percent(p)} of trials", lambda rng, n, p=p: 1.0 * (rng.random(n) < p), p) for p in (0.01, 0.05, 0.3, 0.5)
)
RANKS = tuple(
    Law(f"correlation {r:g}", ranked(r), _rank_truth(r), promised=r <= 0.9) for r in (0.0, 0.5, 0.9, 0.95, 0.99)
)


def articles(size: float, effect: float, together: float = 0.0) -> Law:
    """Articles that hold pairs of two kinds, and sums over them: [n, sum, count, sum, count].

    Counts are lognormal (`size`: their standard deviation on the logarithmic scale), those of the two kinds correlated
    by .7; an article's mean is lognormal by `effect` for the one kind and half of it for the other, and goes with its
    size by a correlation of `together`.
    """

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        z = rng.normal(size=(4, n))
        first, second = np.exp(size * z[0]), np.exp(size * (0.7 * z[0] + math.sqrt(0.51) * z[1]))
        own = np.exp(effect * (together * z[0] + math.sqrt(1 - together**2) * z[2]))
        return np.stack([first * own, first, second * np.exp(effect / 2 * z[3]), second], 1)

    truth = math.exp(effect**2 * 3 / 8 + size * effect * together)
    name = f"sizes {size:g}, effects {effect:g}" + (", the larger articles the larger effects" if together else "")
    return Law(name, sample, truth, promised=not together)


TOPICS, WIDTH = 20, 8


def words(apart: float, ratio: bool) -> Law:
    """Words [n, 1 + WIDTH]: each of a topic at random, and a vector about its centre; centres are fixed.

    `apart`: standard deviation of the centres' coordinates about 1.
    """
    centres = 1 + apart * generator(0, "coverage/centres").normal(size=(TOPICS, WIDTH))
    dots = centres @ centres.T
    same, other = np.trace(dots) / TOPICS, (dots.sum() - np.trace(dots)) / (TOPICS * (TOPICS - 1))

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        topic = rng.integers(0, TOPICS, n)
        return np.concatenate([topic[:, None], centres[topic] + rng.normal(size=(n, WIDTH))], axis=1)

    return Law(f"topics {apart:g} apart", sample, float(same / other if ratio else same - other))


def _over_articles(x: np.ndarray) -> Estimate:
    return contrast_of_sums(*(without_each(column) for column in x.T), units=len(x)).ratio


def _over_words(x: np.ndarray, ratio: bool) -> Estimate:
    found = embedding_contrast(x[:, 1:], Labels.of(np.eye(TOPICS, dtype=bool)[x[:, 0].astype(int)]))
    return found.ratio if ratio else found.difference


ARTICLES = (articles(0.5, 0.3), articles(1.0, 0.3), articles(1.0, 0.5), articles(1.0, 0.5, 0.5))


# Of seeds that training made, by arm: drawn again with replacement, so that the truth is the mean of all forty.
TRAINED_SEEDS = "trained seeds"
TRAINED = HERE.parent / "case_studies" / "dyck_balance" / "results.json"
MEASURED = {
    "accuracy at length 400-500, by mass, non-trivial": ("long_mass_nontrivial", SHARE),
    "accuracy at length 400-500, by argmax": ("long_argmax", SHARE),
    "balance violation": ("beta", POSITIVE),
}


def drawn_again(name: str, values: Sequence[float]) -> Law:
    """The law of a number of trained seeds, of which nothing is promised: one seed in forty may have failed."""
    known = np.array(values)
    return Law(name, lambda rng, n: rng.choice(known, n), float(known.mean()), promised=False)


def trained_kinds() -> list[Kind]:
    """The same intervals on what forty seeds of each arm of `dyck-balance` gave."""
    arms = json.loads(TRAINED.read_text(encoding="utf-8"))["arms"]
    return [
        Kind(
            f"{TRAINED_SEEDS}: {what}",
            _mean(support),
            [drawn_again(arm, values["per_seed"][key]) for arm, values in arms.items()],
            (5, 8, 20, 40),
            draws=1000,
        )
        for what, (key, support) in MEASURED.items()
    ]


def _mean(support: Support) -> Make:
    return lambda x: mean_over_seeds(x, support=support)


def _mirrored(x: np.ndarray) -> Estimate:
    return mean_over_seeds(1 - x, support=SCORE)


def _counted(x: np.ndarray) -> Estimate:
    return clopper_pearson(int(x.sum()), len(x))


KINDS = (
    Kind("mean of shares", _mean(SHARE), SHARES),
    Kind("mean of sizes", _mean(POSITIVE), SIZED),
    Kind("mean of scores (1 - size)", _mirrored, [Law(x.name, x.sample, 1 - x.truth, x.promised) for x in SIZED]),
    Kind("mean on the whole line", _mean(REALS), LINE),
    Kind("mean over pairs of seeds", lambda x: jackknife_pairs(distances(x), support=POSITIVE), PAIRS, draws=1000),
    Kind("rank correlation", lambda x: spearman(x[:, 0], x[:, 1]), RANKS),
    Kind("ratio of means over articles", _over_articles, ARTICLES, (40, 100, 400)),
    Kind(
        "likeness of words: difference", lambda x: _over_words(x, False), [words(a, False) for a in (0.3, 1.0)],
        (40, 300, 700), draws=500,
    ),
    Kind(
        "likeness of words: ratio", lambda x: _over_words(x, True), [words(a, True) for a in (0.3, 1.0)],
        (40, 300, 700), draws=500,
    ),
    Kind("share of trials, exact", _counted, COUNTS, (8, 20, 40, 200), exact=True),
    *trained_kinds(),
)  # fmt: skip


def cover(kind: Kind, law: Law, size: int, draws: int) -> dict[str, Any]:
    """How many of `draws` samples have an interval, and in how many of these the truth lies."""
    rng = generator(0, f"coverage/{kind.name}/{law.name}/{size}")
    printed = held = 0
    for _ in range(draws):
        found = kind.make(law.sample(rng, size))
        if found.low is not None and found.high is not None:
            printed += 1
            held += found.low - 1e-12 <= law.truth <= found.high + 1e-12
    row: dict[str, Any] = {"kind": kind.name, "law": law.name, "n": size, "draws": draws, "printed": printed}
    row["promised"] = law.promised and size >= law.from_size and printed > draws / 2
    return row | {"more": kind.exact or law.more, "covers": held / printed if printed else None}


def keeps(row: dict[str, Any], errors: float = 3.0) -> bool:
    """Does a promised row lie in the band, give or take so many standard errors of the simulation?"""
    if not row["promised"]:
        return True
    slack = errors * math.sqrt(0.95 * 0.05 / row["printed"])
    return bool(BAND[0] - slack <= row["covers"] <= (1.0 if row["more"] else BAND[1] + slack))


def measure(share: float = 1.0, kinds: Sequence[Kind] = KINDS) -> Iterator[dict[str, Any]]:
    """A row a kind, law and size; `share` of the draws."""
    for kind in kinds:
        for law in kind.laws:
            for size in kind.sizes:
                yield cover(kind, law, size, max(20, int(share * kind.draws)))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown, one table a kind: a line a law, a column a number of units."""
    parts = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        sizes = sorted({row["n"] for row in own})
        lines = [f"**{kind[0].upper()}{kind[1:]}** ({own[0]['draws']:,} draws each)", ""]
        lines += ["| law | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|" + "---|" * (len(sizes) + 1)]
        for law in dict.fromkeys(row["law"] for row in own):
            cells = {row["n"]: _cell(row) for row in own if row["law"] == law}
            lines.append(f"| {law} | " + " | ".join(cells[n] for n in sizes) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def trained_sentence(rows: Sequence[dict[str, Any]], low: float = 0.92, high: float = 0.98) -> str:
    """How many of the numbers of trained seeds are covered about as often as their intervals say, by n."""
    own = [row for row in rows if row["kind"].startswith(TRAINED_SEEDS)]
    sizes = sorted({row["n"] for row in own})
    kept = {n: sum(low <= row["covers"] <= high for row in own if row["n"] == n) for n in sizes}
    off = [row for row in own if row["n"] == sizes[-1] and not low <= row["covers"] <= high]
    arms = ", ".join(dict.fromkeys(row["law"] for row in off))
    shares = "; ".join(f"{percent(row['covers'])}" for row in off)
    return (
        f"Of {len(own) // len(sizes)} numbers of trained seeds ({len(MEASURED)} measures of the arms of dyck-balance, "
        f"drawn again from their forty seeds) the interval covers {percent(low)} to {percent(high)} in "
        + ", ".join(f"{count} at n = {n}" for n, count in kept.items())
        + (f". Not so at n = {sizes[-1]}: {arms} ({shares}), where a seed or two lie far off." if off else ".")
    )


def _cell(row: dict[str, Any]) -> str:
    if row["covers"] is None:
        return "none"
    text = number(100 * row["covers"], 1)
    text = text if row["promised"] else f"({text})"
    return text if row["printed"] > 0.995 * row["draws"] else f"{text}, of {percent(row['printed'] / row['draws'])}"


def main() -> None:
    """Simulate, print, and write coverage.json and the table of docs/intervals.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the draws, nothing written")
    parser.add_argument("--json", type=Path, help="where to write (default: benchmarks/coverage.json; quick: nowhere)")
    given = parser.parse_args()
    rows = list(measure(0.05 if given.quick else 1.0))
    print(table(rows))
    for row in rows:
        if not keeps(row):
            print(f"beyond the band: {row['kind']}, {row['law']}, n = {row['n']}: {number(row['covers'])}")
    path = given.json or (None if given.quick else HERE / "coverage.json")
    if path is not None:
        write_text(path, json.dumps({"rows": rows}, indent=1, sort_keys=True) + "\n")
        if given.json is None:
            before, _, after = PAGE.read_text(encoding="utf-8").partition(MARK)
            rest = after.partition(MARK)[2]
            write_text(PAGE, f"{before}{MARK}\n\n{table(rows)}\n\n{trained_sentence(rows)}\n\n{MARK}{rest}")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
