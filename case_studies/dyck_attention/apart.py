"""Do models of two kinds attend more differently than models of one kind do?

The mean squared distance of patterns across the kinds, less the mean of those within each, is without bias the squared
distance of the two kinds' mean patterns: 0 where the kinds do not matter. Its share of the distance across is what is
told, with a jackknife that leaves out a seed at a time, of both kinds where both have it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.page import Table
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.numbers import estimate, number
from interp.patterns import attention_patterns
from interp.plots.arrays import as_array
from interp.population import Population
from interp.rng import generator
from interp.stats import FEWEST_PAIRED, Estimate, jackknife
from probes.variation import PAPER_SENTENCE

Array = NDArray[np.float64]

DRAWS = 200  # splits by two random keys a row
NO_KIND = "fewer than two models are of one kind"


@dataclass(frozen=True)
class Apart:
    """Models of two kinds, last layer, on the paper's sentence.

    - `kinds`, `counts`: what the two are called, and how many models of each there are.
    - `across`: mean squared distance of two models of unlike kinds; `within`: of two of each kind. None where a kind
      has fewer than two.
    - `share`: (across - mean of within) / across, over seeds.
    """

    name: str
    kinds: tuple[str, str]
    counts: tuple[int, int]
    across: float | None
    within: tuple[float | None, float | None]
    share: Estimate

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        lists = {"kinds": list(self.kinds), "counts": list(self.counts), "within": list(self.within)}
        return {**lists, "across": self.across, "share": self.share.to_dict()}


def measure_pair(name: str, kinds: tuple[str, str], first: Population, second: Population) -> Apart:
    """Two populations: whether which of them a model is of says how it attends."""
    patterns = np.concatenate([last_patterns(first), last_patterns(second)])
    is_second = np.repeat([False, True], [len(first), len(second)])
    return _apart(name, kinds, patterns, is_second, np.array([*first.seeds, *second.seeds]))


def measure_kinds(one: Obtained) -> Apart:
    """One population, split by where a model attends more: at the initial position, or at the current one (App. D.2).

    Any split that the patterns themselves make leaves models of one kind closer: the null is the mean share of `DRAWS`
    splits into kinds of the same sizes, each by the weight on two random keys of every row.
    """
    patterns = last_patterns(one.population)
    current = _weight(patterns, np.arange(patterns.shape[1])) > _weight(patterns, np.zeros(patterns.shape[1], int))
    seeds = np.array(one.population.seeds)
    found = _apart(one.family.name, ("initial position", "current position"), patterns, current, seeds)
    null = None if found.share.value is None else _of_random_keys(patterns, int(current.sum()))
    return replace(found, share=found.share.with_null(null))


def measure_pairs(pairs: Mapping[str, tuple[Obtained, Obtained]]) -> list[Apart]:
    """Every pair of populations by its name."""
    return [
        measure_pair(name, (first.family.name, second.family.name), first.population, second.population)
        for name, (first, second) in pairs.items()
    ]


def last_patterns(population: Population) -> Array:
    """The last layer's only head on the paper's sentence, [model, query, key]."""
    tokens = population[0].to_tokens(PAPER_SENTENCE)
    return np.stack([as_array(attention_patterns(model, tokens)[-1])[0, 0] for model in population]).astype(float)


def _weight(patterns: Array, keys: NDArray[np.int64]) -> Array:
    """Mean weight [model] that each row but START's puts on its key of `keys` [query]."""
    rows = np.arange(1, patterns.shape[1])
    return np.asarray(patterns[:, rows, keys[rows]].mean(-1))


def _of_random_keys(patterns: Array, size: int) -> float:
    rng = generator(0, "two-random-keys")
    distances, shares = _distances(patterns), []
    for _ in range(DRAWS):
        drawn = [rng.permutation(q + 1)[:2] if q else np.zeros(2, int) for q in range(patterns.shape[1])]
        first, second = np.array(drawn).T
        order = np.argsort(_weight(patterns, first) - _weight(patterns, second))
        kind = np.zeros(len(patterns), dtype=bool)
        kind[order[-size:]] = True
        shares.append(_share(distances, kind)[-1])
    return float(np.mean(shares))


def _apart(
    name: str, kinds: tuple[str, str], patterns: Array, second: NDArray[np.bool_], seeds: NDArray[np.int64]
) -> Apart:
    distances, units = _distances(patterns), np.unique(seeds)
    counts = (int((~second).sum()), int(second.sum()))
    if min(counts) < 2:
        return Apart(name, kinds, counts, None, (None, None), Estimate.undefined(NO_KIND, len(units), "seeds", 0.0))
    across, one, two, share = _share(distances, second)
    if min(counts) < FEWEST_PAIRED:
        reason = f"{min(counts)} models of one kind are too few for an interval: {FEWEST_PAIRED} at least"
        e = Estimate(share, None, None, len(units), "seeds", 0.0, reason)
    else:
        without = [
            _share(distances[np.ix_(kept, kept)], second[kept])[-1]
            for kept in (np.flatnonzero(seeds != s) for s in units)
        ]
        e = jackknife(share, np.array(without), over="seeds").with_null(0.0)
    return Apart(name, kinds, counts, across, (one, two), e)


def _share(distances: Array, second: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """(across, within the first kind, within the second, share), from distances [model, model]; two of each needed."""
    across = float(distances[np.ix_(~second, second)].mean())
    one, two = (
        float(distances[np.ix_(kind, kind)].sum() / (kind.sum() * (kind.sum() - 1))) for kind in (~second, second)
    )
    return across, one, two, (across - (one + two) / 2) / across if across > 0 else 0.0


def _distances(patterns: Array) -> Array:
    """Squared Frobenius distances [model, model]."""
    flat = patterns.reshape(len(patterns), -1)
    return np.asarray(np.square(flat[:, None] - flat[None]).sum(-1))


# -- the page ----------------------------------------------------------------------------------------


def apart_parts(pairs: Sequence[Apart], kinds: Sequence[Apart]) -> list[str | Table]:
    """A table of every pair of populations, one of the populations that are split in two, and what they say."""
    parts: list[str | Table] = []
    if pairs:
        note = (
            "Mean squared distances of last-layer patterns on the paper's sentence. Share: of the distance across, "
            "what the distances within leave over; 0 where it does not matter of which kind a model is."
        )
        parts += [_table(pairs, note), " ".join(_told(a, "the other population's models") for a in pairs)]
    if kinds:
        note = (
            "Models of prefixes by where they attend more, mean over rows: at the initial position (START) or at the "
            "current one. Null: the same share of models split by the weight on two random keys a row."
        )
        parts += [_table(kinds, note), " ".join(_told(a, "models of the other kind") for a in kinds)]
    return parts


def _table(found: Sequence[Apart], note: str) -> Table:
    rows: list[Row] = []
    for a in found:
        sizes = " / ".join(f"{count} {kind}" for kind, count in zip(a.kinds, a.counts, strict=True))
        within = " / ".join(number(w, 2, none="–") for w in a.within)
        null = a.share.null if isinstance(a.share.null, float) else None
        rows.append([a.name, sizes, number(a.across, 2, none="–"), within, Cell(a.share, 2), number(null, 2, none="–")])
    return Table(["models", "kinds", "across", "within", "share", "null"], rows, note)


def _told(a: Apart, others: str) -> str:
    null = a.share.null if isinstance(a.share.null, float) else 0.0
    if a.share.value is None:
        return f"{a.name}: {a.share.reason}."
    if a.share.low is None or a.share.high is None:
        return f"{a.name}: no interval, since {a.share.reason}."
    said = f"{estimate(a.share, 2, n=True)} of the distance to {others} is due to the kind (null {number(null, 2)})"
    if a.share.low > null:
        return f"{a.name}: {said}, more than the null."
    return f"{a.name}: {said}, " + ("less than the null." if a.share.high < null else "not told apart from the null.")
