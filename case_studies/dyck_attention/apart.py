"""Do models of two kinds attend more differently than models of one kind do?

Between models that share nothing, the mean squared distance across the kinds, less the mean of those within each, is
without bias the squared distance of the two kinds' mean patterns: 0 where the kinds do not matter. Pairs of one seed
across the kinds, which share first weights or data, are left out. What is told is the share of the distance across, and
how often a share as large comes out where kinds are dealt at random: an interval of a squared distance that is about 0
does not cover, so there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.corrections import ALPHA
from case_studies.dyck_attention.measure import squared_distances
from case_studies.page import Table
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.dip import clustered
from interp.numbers import number, percent, significant
from interp.patterns import attention_patterns
from interp.plots.arrays import as_array
from interp.population import Population
from interp.rng import generator
from interp.stats import Estimate
from probes.variation import PAPER_SENTENCE

Array = NDArray[np.float64]

DEALT = 2000  # times that kinds are dealt at random
NO_KIND = "fewer than two models are of one kind"
NO_INTERVAL = "an interval of a squared distance near 0 does not cover: the test is by dealing kinds at random"


@dataclass(frozen=True)
class Apart:
    """Models of two kinds, last layer, on the paper's sentence.

    - `kinds`, `counts`: what the two are called, and how many models of each there are.
    - `across`: mean squared distance of two models of unlike kinds; `within`: of two of each kind. None where a kind
      has fewer than two.
    - `share`: (across - mean of within) / across. Its null, with kinds dealt at random: the mean, and what 95 in 100
      lie below; of kinds that the patterns themselves make, the same over other splits of these patterns.
    - `p`: how often a share as large comes out so (at least 1 / (1 + `DEALT`)).
    - `clustered`: of kinds that the patterns make, whether what splits them has more than one mode (dip test at 1 %).
    """

    name: str
    kinds: tuple[str, str]
    counts: tuple[int, int]
    across: float | None
    within: tuple[float | None, float | None]
    share: Estimate
    p: float | None = None
    clustered: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        lists = {"kinds": list(self.kinds), "counts": list(self.counts), "within": list(self.within)}
        rest = {"across": self.across, "share": self.share.to_dict(), "p": self.p, "clustered": self.clustered}
        return {**lists, **rest}


def measure_pair(name: str, kinds: tuple[str, str], first: Population, second: Population) -> Apart:
    """Two populations: whether which of them a model is of says how it attends."""
    patterns = np.concatenate([last_patterns(first), last_patterns(second)])
    is_second = np.repeat([False, True], [len(first), len(second)])
    seeds = np.array([*first.seeds, *second.seeds])
    return between(name, kinds, patterns, is_second, seeds)


def measure_kinds(one: Obtained) -> Apart:
    """One population, split by where a model attends more: at the initial position, or at the current one (App. D.2).

    Any split that the patterns themselves make leaves models of one kind closer, of one mode too: the null is all other
    splits into kinds of the same sizes by the weights on two columns, diagonals, or one of each.
    """
    patterns = last_patterns(one.population)
    rows = np.arange(patterns.shape[1])
    lean = _weight(patterns, rows) - _weight(patterns, np.zeros_like(rows))
    current, kinds = lean > 0, ("initial position", "current position")
    counts = (int((~current).sum()), int(current.sum()))
    if min(counts) < 2:
        return _without_kind(one.family.name, kinds, counts)
    distances, same = squared_distances(patterns), np.zeros((len(patterns),) * 2, dtype=bool)
    across, first, second, share = _share(distances, current, same)
    other = np.array([_share(distances, kind, same)[-1] for kind in other_splits(patterns, counts[1])])
    return Apart(
        one.family.name, kinds, counts, across, (first, second), _estimate(share, other, len(patterns)),
        float((1 + (other >= share).sum()) / (1 + len(other))), bool(clustered(lean)),
    )  # fmt: skip


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


def between(
    name: str, kinds: tuple[str, str], patterns: Array, second: NDArray[np.bool_], seeds: NDArray[np.int64]
) -> Apart:
    """What `measure_pair` says, from patterns [model, query, key], kinds and seeds [model]."""
    counts = (int((~second).sum()), int(second.sum()))
    if min(counts) < 2:
        return _without_kind(name, kinds, counts)
    distances, same = squared_distances(patterns), seeds[:, None] == seeds
    across, one, two, share = _share(distances, second, same)
    rng = generator(0, f"kinds dealt at random/{name}")
    dealt = np.array([_share(distances, _dealt(second, seeds, rng), same)[-1] for _ in range(DEALT)])
    p = float((1 + (dealt >= share - 1e-12).sum()) / (1 + DEALT))
    return Apart(name, kinds, counts, across, (one, two), _estimate(share, dealt, len(np.unique(seeds))), p)


def other_splits(patterns: Array, size: int) -> list[NDArray[np.bool_]]:
    """Kinds [model] by what is weighed on two coherent sets of keys: `size` models lean to the second of the two.

    A set is one column (a key, where it is visible) or one diagonal (keys so far before the query).
    """
    rows = np.arange(patterns.shape[1])
    sets = [np.minimum(j, rows) for j in rows] + [np.maximum(rows - back, 0) for back in rows[1:]]
    weights = [_weight(patterns, keys) for keys in sets] + [_weight(patterns, rows)]
    found = []
    for i, j in permutations(range(len(weights)), 2):
        if (i, j) == (0, len(weights) - 1):
            continue  # the split itself: the initial position against the current one
        kind = np.zeros(len(patterns), dtype=bool)
        kind[np.argsort(weights[j] - weights[i])[-size:]] = True
        found.append(kind)
    return found


def _dealt(second: NDArray[np.bool_], seeds: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Kinds dealt anew: swapped or not within each seed that has one of each, and among all other models."""
    dealt = second.copy()
    paired = np.zeros(len(second), dtype=bool)
    for seed in np.unique(seeds):
        own = np.flatnonzero(seeds == seed)
        if len(own) == 2 and second[own].sum() == 1:
            paired[own] = True
            dealt[own] = second[own] ^ (rng.random() < 0.5)
    dealt[~paired] = rng.permutation(second[~paired])
    return dealt


def _weight(patterns: Array, keys: NDArray[np.int64]) -> Array:
    """Mean weight [model] that each row but START's puts on its key of `keys` [query]."""
    rows = np.arange(1, patterns.shape[1])
    return np.asarray(patterns[:, rows, keys[rows]].mean(-1))


def _estimate(share: float, null: Array, units: int) -> Estimate:
    told = {"mean": float(null.mean()), "95 in 100 below": float(np.quantile(null, 0.95))}
    return Estimate(share, None, None, units, "seeds", told, NO_INTERVAL)


def _without_kind(name: str, kinds: tuple[str, str], counts: tuple[int, int]) -> Apart:
    return Apart(name, kinds, counts, None, (None, None), Estimate.undefined(NO_KIND, sum(counts), "seeds"))


def _share(distances: Array, second: NDArray[np.bool_], same: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """(across, within the first kind, within the second, share), from distances [model, model].

    `same` [model, model]: pairs of one seed, which do not count.
    """
    unlike = (second[:, None] != second) & ~same
    across = float(distances[unlike].mean())
    one, two = (
        float(distances[np.ix_(kind, kind)].sum() / (kind.sum() * (kind.sum() - 1))) for kind in (~second, second)
    )
    return across, one, two, (across - (one + two) / 2) / across if across > 0 else 0.0


# -- the page ----------------------------------------------------------------------------------------


def apart_parts(pairs: Sequence[Apart], kinds: Sequence[Apart]) -> list[str | Table]:
    """A table of every pair of populations, one of the populations that are split in two, and what they say."""
    parts: list[str | Table] = []
    if pairs:
        note = (
            "Mean squared distances of last-layer patterns on the paper's sentence, between models that share no seed. "
            "Share: of the distance across, what the distances within leave over. Null, p: kinds dealt at random "
            f"{DEALT:,} times, within a seed where both have it."
        )
        parts += [_table(pairs, note), " ".join(map(_told, pairs))]
    if kinds:
        note = (
            "Models of prefixes by where they attend more, mean over rows: at the initial position (START) or at the "
            "current one. Null, p: all other splits of the same sizes by two columns or diagonals of these patterns."
        )
        parts += [_table(kinds, note), " ".join(map(_of_modes, kinds))]
    return parts


def _table(found: Sequence[Apart], note: str) -> Table:
    rows: list[Row] = []
    for a in found:
        sizes = " / ".join(f"{count} {kind}" for kind, count in zip(a.kinds, a.counts, strict=True))
        within = " / ".join(number(w, 2, none="–") for w in a.within)
        null = a.share.null if isinstance(a.share.null, dict) else {}
        shown = " / ".join(number(x, 2) for x in null.values()) or "–"
        p = "–" if a.p is None else significant(a.p, 2)
        rows.append([a.name, sizes, number(a.across, 2, none="–"), within, Cell(a.share, 2), shown, p])
    return Table(["models", "kinds", "across", "within", "share", "null: mean / 95 in 100 below", "p"], rows, note)


def _told(a: Apart) -> str:
    """Whether the kind says how a model attends."""
    if a.share.value is None or a.p is None:
        return f"{a.name}: {a.share.reason}."
    share = f"{percent(a.share.value)} of the distance across"
    tested = f"(n={a.share.n} seeds, p = {significant(a.p, 2)})"
    if a.p <= ALPHA:
        return f"{a.name}: {share} is due to the kind {tested}."
    return f"{a.name}: kinds assigned at random leave as much as {share} too, so that no difference is shown {tested}."


def _of_modes(a: Apart) -> str:
    """Whether a population has two kinds, or one that leans more and less."""
    if a.clustered is None:
        return f"{a.name}: {a.share.reason}."
    sizes = " and ".join(f"{count} to the {kind}" for kind, count in zip(a.kinds, a.counts, strict=True))
    modes = "has more than one mode" if a.clustered else "has one mode by the dip test, so that two kinds are not shown"
    return f"{a.name}: {sizes} lean more (n={a.share.n} seeds); by how much {modes}."
