"""What an audit measures on a pattern: scores, rivals and nulls of one claim about one head.

Sinks. Many heads rest on the first token when they have nothing to do. So the score counts all weight, and is asked
to reach a quarter only; everything that tells where the head looks *when it looks* (top-1, share of rows, rivals, the
matched null) is taken on the weights without the first key, made to sum to 1 again, in rows where the first key is
not itself in the relation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.stats import Estimate
from probes.audit.inputs import ROLES, Bools, Inputs
from probes.audit.stats import SUPPORTS, Floats, low, ratio
from probes.audit.thresholds import MIN_DIFFERENT, RIVAL_SEQUENCES, ROW
from probes.claims import BUILT_IN, Claim, Relation, offset, position, relation_scores, same_relation, usable

TIE = 1e-5  # weights this close (relative) to the largest share the top place: float32 tells no more
RESTS = 0.01  # with less outside the first key, a row looks nowhere else
FEW = 20  # edges a stratum of the matched null needs


@dataclass(frozen=True)
class Asked:
    """One claim laid over the inputs, whatever the model. Arrays [input, query] and [input, query, key].

    `keys`: the relation, in the rows the claim is about; `rows`: where it has a score; `sink`: rows whose relation
    holds the first key; `seen`: what is visible, the first key apart where it is no `sink`; `free`: rows where a
    head has a choice then.
    """

    claim: Claim
    keys: Bools
    rows: Bools
    sink: Bools
    seen: Bools
    free: Bools


@dataclass(frozen=True)
class Rival:
    """Another relation against the claimed one: how many rows tell them apart, and how much better the claim fits.

    `lead`: mean fit of the claim less that of the rival where both name keys and differ, in half B; `lead_a`: in
    half A. A pattern's fit is its overlap with an even spread over the keys, 1 - total variation: a relation that
    merely contains the right keys does not fit as well. None where there are too few rows.
    """

    name: str
    words: str
    different: int
    lead: Estimate | None
    lead_a: float | None


@dataclass(frozen=True)
class Look:
    """Everything measured on one head. Estimates are over half B; see the fields' words in `probes.audit.rows`."""

    score: Estimate
    top1: Estimate | None
    share: Estimate
    matched: Estimate | None
    on_sink: Estimate
    without_sink: Estimate
    by_value: Estimate
    rivals: tuple[Rival, ...]
    matched_rows: Floats  # [sequence of half B], for the permutation test
    when: tuple[str, float] | None  # a condition under which nearly all rows fit, and their share


class Laid:
    """Relations laid over the inputs once, for all claims and models."""

    def __init__(self, inputs: Inputs):
        self.inputs = inputs
        self._keys: dict[Relation, Bools] = {}
        self._told: dict[Any, tuple[Bools, Bools]] = {}
        self._asked: dict[Any, Asked] = {}
        self._free = inputs.visible.copy()
        self._free[:, :, 0] = False

    def keys(self, relation: Relation) -> Bools:
        if relation not in self._keys:
            i = self.inputs
            self._keys[relation] = relation.keys(i.tokens, i.grammar, i.visible)
        return self._keys[relation]

    def rivals(self, claim: Claim) -> Iterator[Relation]:
        """The other built-in relations that the grammar knows."""
        for relation in BUILT_IN.values():
            if usable(relation, self.inputs.grammar) and not same_relation(relation, claim.relation):
                yield relation

    def told(self, asked: Asked, rival: Relation) -> tuple[Bools, Bools]:
        """Rows of the claim where the rival names other keys, and those of them where it names any [input, query]."""
        key = (asked.claim.relation, asked.claim.when, rival)
        if key not in self._told:
            keys = self.keys(rival) & asked.seen
            differ = asked.free & (keys != asked.keys).any(-1)
            self._told[key] = differ, differ & keys.any(-1)
        return self._told[key]

    def asked(self, claim: Claim) -> Asked:
        key = (claim.relation, claim.when)
        if key not in self._asked:
            i, keys = self.inputs, self.keys(claim.relation)
            about = np.ones(i.tokens.shape, dtype=bool)
            if claim.when is not None:
                about = claim.when.rows(i.tokens, i.grammar, keys)
            size, number = keys.sum(-1), i.visible.sum(-1)
            # As `relation_scores` has it: an even row may name every visible key, a mass row may not.
            choice = (number > 1) if claim.relation.kind == "even" else size < number
            rows = about & (size > 0) & choice
            sink = keys[:, :, 0]
            seen = np.where(sink[..., None], i.visible, self._free)
            free = rows & ((seen.sum(-1) > 1) if claim.relation.kind == "even" else size < seen.sum(-1))
            self._asked[key] = Asked(claim, keys & rows[..., None], rows, sink, seen, free)
        return self._asked[key]


class Head:
    """One head's weights on the inputs [input, query, key], with and without the first key."""

    def __init__(self, laid: Laid, weights: Floats, norms: Floats | None = None):
        self.laid, self.weights = laid, weights
        self.norms = norms  # [input, key]: of what each key's value writes
        self._fits: dict[tuple[Relation, bool], Floats] = {}

    @cached_property
    def without(self) -> Floats:
        """Weights without the first key, summing to 1 again; all 0 in rows that look nowhere else."""
        out = self.weights * self.laid._free
        total = out.sum(-1, keepdims=True)
        return np.where(total > RESTS, out / np.maximum(total, RESTS), 0.0)

    def taken(self, asked: Asked) -> Floats:
        """The weights in which a claim's rows are compared."""
        return np.where(asked.sink[..., None], self.weights, self.without)

    def fit(self, relation: Relation, sink: bool) -> Floats:
        """Overlap of each row with an even spread over the relation [input, query]."""
        if (relation, sink) not in self._fits:
            keys = self.laid.keys(relation) & (self.laid.inputs.visible if sink else self.laid._free)
            self._fits[relation, sink] = overlap(self.weights if sink else self.without, keys)
        return self._fits[relation, sink]

    # -- one claim ----------------------------------------------------------------------------------

    def score_rows(self, asked: Asked) -> Floats:
        """`relation_scores` of each row of the claim, NaN elsewhere [input, query]."""
        scores = relation_scores(
            self.weights[:, None], self.laid.keys(asked.claim.relation), self.laid.inputs.visible,
            asked.claim.relation.kind,
        ).rows[:, 0]  # fmt: skip
        return np.where(asked.rows, scores, np.nan)

    def score_on_a(self, asked: Asked) -> float:
        """Mean score in half A, by which a head is chosen; -1 where no row counts."""
        rows = self.score_rows(asked)[self.laid.inputs.half_a]
        return float(np.nanmean(rows)) if np.isfinite(rows).any() else -1.0

    def look(self, asked: Asked, level: float) -> Look:
        half = self.laid.inputs.half_b
        scores, even = self.score_rows(asked), asked.claim.relation.kind == "even"
        taken = self.taken(asked)
        mass, chance = (taken * asked.keys).sum(-1), asked.keys.sum(-1) / np.maximum(asked.seen.sum(-1), 1)
        free_scores = scores if even else (mass - chance) / np.maximum(1 - chance, 1e-12)

        def mean(name: str, values: Floats, rows: Bools) -> Estimate:
            return _mean(name, values, rows, half, level)

        matched, each = None, np.zeros(len(half))
        if not even:
            lift = matched_lift(taken, asked, self.laid.inputs.roles, half)
            matched = mean("matched", lift, asked.free)
            each = np.where(asked.free, lift, 0.0)[half].sum(1)
        by_value = self.weights if self.norms is None else self.weights * self.norms[:, None]
        total = by_value.sum(-1)
        fits = free_scores > ROW
        share = mean("share", fits.astype(float), asked.free)
        return Look(
            score=mean("score", scores, asked.rows),
            top1=None if even else mean("top1", top_share(taken, asked), asked.free),
            share=share,
            matched=matched,
            on_sink=mean("sink", self.weights[:, :, 0], asked.rows & ~asked.sink),
            without_sink=mean("without_sink", mass, asked.free),
            by_value=mean("by_value", (by_value * asked.keys).sum(-1) / np.where(total > 0, total, 1.0), asked.rows),
            rivals=tuple(self._rivals(asked, taken, level)),
            matched_rows=each,
            when=None,
        )

    def _rivals(self, asked: Asked, taken: Floats, level: float) -> Iterator[Rival]:
        """Every built-in rival, and the offset and the position that come nearest in half A."""
        inputs, claimed = self.laid.inputs, asked.claim.relation
        own = overlap(taken, asked.keys)
        for rival in self.laid.rivals(asked.claim):
            other = self.fit(rival, False)
            if asked.sink.any():
                other = np.where(asked.sink, self.fit(rival, True), other)
            differ, named = self.laid.told(asked, rival)
            yield self._against(rival.name, rival.words, own - other, differ, named, level)
        last = inputs.tokens.shape[1] - 1
        places = np.arange(last + 1)
        # The one key of each row; where there are several, what no target is: only a relation of one key can be an
        # offset.
        only = np.where(asked.keys.sum(-1) == 1, asked.keys.argmax(-1), -last - 1)
        for family in (
            [(offset(step), places + step) for step in range(-last, last + 1)],
            [(position(place), np.full(last + 1, place)) for place in range(last + 1)],
        ):
            best: tuple[float, Relation, Bools, Bools, Floats] | None = None
            for rival, target in family:
                inside = np.clip(target, 0, last)
                named = asked.free & (target == inside) & asked.seen[:, places, inside]
                if same_relation(rival, claimed) or not named.any():
                    continue
                differ = asked.free & (only != target)
                lead = own - np.take_along_axis(taken, inside[None, :, None], -1)[..., 0]
                if differ[inputs.half_b].sum() < MIN_DIFFERENT:
                    yield self._against(rival.name, rival.words, lead, differ, named & differ, level)
                told = named & differ
                mean = float(lead[inputs.half_a][told[inputs.half_a]].mean()) if self._enough(told) else np.inf
                if best is None or mean < best[0]:
                    best = mean, rival, differ, named & differ, lead
            if best is not None:
                yield self._against(best[1].name, best[1].words, best[4], best[2], best[3], level)

    def _enough(self, rows: Bools) -> bool:
        """Whether rows [input, query] are enough to compare two relations on, in either half."""
        halves = [rows[half] for half in (self.laid.inputs.half_a, self.laid.inputs.half_b)]
        return all(r.sum() >= MIN_DIFFERENT and r.any(1).sum() >= RIVAL_SEQUENCES for r in halves)

    def _against(self, name: str, words: str, lead: Floats, differ: Bools, named: Bools, level: float) -> Rival:
        a, b = self.laid.inputs.half_a, self.laid.inputs.half_b
        enough = self._enough(named)
        return Rival(
            name,
            words,
            int(differ[b].sum()),
            _mean("rival", lead, named, b, level) if enough else None,
            float(lead[a][named[a]].mean()) if enough else None,
        )


def overlap(weights: Floats, keys: Bools) -> Floats:
    """sum over keys of min(weight, even spread over the set): 1 - total variation [input, query]."""
    size = keys.sum(-1, keepdims=True)
    return np.asarray(np.minimum(weights, keys / np.maximum(size, 1)).sum(-1))


def top_share(weights: Floats, asked: Asked) -> Floats:
    """How much of the top place the relation holds, ties shared [input, query]; 0 where no weight is left."""
    seen = np.where(asked.seen, weights, 0.0)
    most = seen.max(-1, keepdims=True)
    top = asked.seen & (seen >= most * (1 - TIE)) & (most > 0)
    return np.asarray((top & asked.keys).sum(-1) / np.maximum(top.sum(-1), 1))


def matched_lift(weights: Floats, asked: Asked, roles: NDArray[np.int64], half: NDArray[np.int64]) -> Floats:
    """Weight on the relation, less what keys like those get off it, row by row [input, query].

    Like: of the same class and at the same distance from the query, in rows of the claim in that half; of the same
    distance, or else of the same class, where there are fewer than `FEW` such (no key at a distance of one is off
    the relation "previous token"); or else any key off the relation; weight 0 where there is no such key.
    """
    out = np.zeros(weights.shape[:2])
    weights, free, claimed = weights[half], asked.free[half][..., None], asked.keys[half]
    count = weights.shape[1]
    wanted, off = np.nonzero(claimed & free), np.nonzero(asked.seen[half] & free & ~claimed)
    mean = np.full(len(wanted[0]), np.nan)

    def distance(edges: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
        return np.asarray(edges[1] - edges[2] + count)

    def role(edges: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
        return np.asarray(roles[half][edges[0], edges[2]])

    for group in (
        lambda edges: role(edges) * 2 * count + distance(edges),
        distance,
        role,
        lambda edges: np.zeros_like(edges[0]),
    ):
        of_off = group(off)
        size = np.bincount(of_off, minlength=ROLES * 2 * count)
        total = np.bincount(of_off, weights[off], minlength=ROLES * 2 * count)
        level = np.where(size >= FEW, total / np.maximum(size, 1), np.nan)
        mean = np.where(np.isnan(mean), level[group(wanted)], mean)
    rows = np.zeros(weights.shape[:2])
    np.add.at(rows, wanted[:2], weights[wanted] - np.nan_to_num(mean))
    out[half] = rows
    return out


def fits_when(head: Head, asked: Asked, rows: Bools) -> float:
    """Share of rows that fit, among `rows` of half A; 0 where too few count."""
    half = head.laid.inputs.half_a
    taken = head.taken(asked)
    chance = asked.keys.sum(-1) / np.maximum(asked.seen.sum(-1), 1)
    score = ((taken * asked.keys).sum(-1) - chance) / np.maximum(1 - chance, 1e-12)
    counted = (asked.free & rows)[half]
    return float((score[half] > ROW)[counted].mean()) if counted.sum() >= MIN_DIFFERENT else 0.0


def worst(rivals: tuple[Rival, ...]) -> Rival | None:
    """The rival whose lower bound is least: the one that comes nearest."""
    compared = [r for r in rivals if r.lead is not None]
    return min(compared, key=lambda r: low(r.lead) if r.lead is not None else 0.0) if compared else None


def _mean(name: str, values: Floats, rows: Bools, half: NDArray[np.int64], level: float) -> Estimate:
    picked = rows[half]
    total = np.where(picked, np.nan_to_num(values[half]), 0.0).sum(1)
    return ratio(total, picked.sum(1).astype(float), level, SUPPORTS[name])
