"""What an audit measures on a pattern: scores and nulls of one claim about one head.

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

from interp.claims import Kind
from interp.claims.asking import keys_of, rows_of
from interp.errors import InterpError
from interp.rng import generator
from interp.stats import Estimate
from probes.audit.inputs import ROLES, Bools, Inputs, Ints
from probes.audit.stats import SUPPORTS, Floats, ratio
from probes.audit.thresholds import MIN_DIFFERENT, ROW
from probes.claims import BUILT_IN, Claim, Relation, has_keys, relation_scores, same_relation

TIE = 1e-5  # weights this close (relative) to the largest share the top place: float32 tells no more
RESTS = 0.01  # with less outside the first key, a row looks nowhere else
AT_RANDOM = 4_000_000  # pairs of query and key of sequences at random, on which relations are compared
ALPHABETS = (2, 3, 6, 10_000)  # tokens of such a sequence
TIED = 1e-3  # a mean weight on the first key that is less than this above that on the claimed keys is no more
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
class Look:
    """Everything measured on one head. Estimates are over half B; see the fields' words in `probes.audit.rows`."""

    score: Estimate
    top1: Estimate | None
    share: Estimate | None
    matched: Estimate | None
    on_sink: Estimate
    without_sink: Estimate
    by_value: Estimate
    matched_rows: Floats  # [sequence of half B], for the permutation test
    within: Estimate | None = None  # how evenly the weight on the keys is spread among them, where that is claimed
    apart: bool = False  # whether the largest weight of any row is looked for without its first key
    rests: bool = False  # whether more lies on the first key than on those of the claim, in rows that do not name it
    when: tuple[str, float, int] | None = None  # a condition under which nearly all rows fit: share, and how many


class Laid:
    """Relations laid over the inputs once, for all claims and models."""

    def __init__(self, inputs: Inputs):
        self.inputs = inputs
        self._keys: dict[Relation, Bools] = {}
        self.told: dict[Any, Any] = {}  # rows of a claim beside a rival, the same for all heads
        self._agree: dict[Any, bool] = {}
        self._asked: dict[Any, Asked] = {}
        self._free = inputs.visible.copy()
        self._free[:, :, 0] = False

    def keys(self, relation: Relation) -> Bools:
        if relation not in self._keys:
            i = self.inputs
            self._keys[relation] = keys_of(relation, i.tokens, i.grammar, i.visible)
        return self._keys[relation]

    def rivals(self, claim: Claim) -> Iterator[Relation]:
        """The other built-in relations that the grammar knows."""
        for relation in BUILT_IN.values():
            even = relation.kind == "even" and claim.relation.kind != "even"  # the chance level of a mass claim
            known = not even and has_keys(relation, self.inputs.grammar)
            if known and not same_relation(relation, claim.relation):
                yield relation

    def must_agree(self, asked: Asked, rival: Relation) -> bool:
        """Whether two relations name the same keys at the queries that a claim is about, whatever the tokens are.

        Asked of random sequences of these lengths, each over a few tokens, so that they repeat: one half over those
        that occur here, the other over all that there are. START and END stay where the grammar puts them. Relations
        that cannot be asked of such sequences (a truth that only strings of the language have) need not agree.
        """
        key = (asked.claim.relation, asked.claim.when, rival)
        if key not in self._agree:
            self._agree[key] = self._agree_at_random(asked, rival)
        return self._agree[key]

    def _agree_at_random(self, asked: Asked, rival: Relation) -> bool:
        i = self.inputs
        chosen, tokens, visible = self._at_random
        try:
            one, other = (keys_of(r, tokens, i.grammar, visible) for r in (asked.claim.relation, rival))
            when = asked.claim.when
            met = [] if when is None else [rows_of(when, tokens, i.grammar, one)]
        except InterpError:  # what no string of the language is has no truth
            return False
        # At the places that the claim is about, whatever stands there; or wherever its condition holds of these tokens.
        rows = [each & (one | other).any(-1) for each in (asked.rows[chosen], *met)]
        return any(bool((one == other)[each].all() and each.sum() >= MIN_DIFFERENT) for each in rows)

    @cached_property
    def _at_random(self) -> tuple[Ints, Ints, Bools]:
        """Inputs, sequences at random in their places, and what queries see there."""
        i = self.inputs
        count, width = i.tokens.shape
        rng = generator(0, "audit/at random")
        chosen = rng.integers(0, count, max(2, min(2 * count, AT_RANDOM // width**2)))
        visible = i.visible[chosen]
        real, fixed = i.visible.any(1), i.framed
        known = np.unique(i.tokens[real & ~fixed])
        special = [getattr(i.grammar, name, None) for name in ("start", "end", "pad")]
        others = np.setdiff1d(np.arange(len(getattr(i.grammar, "vocab", ()))), [s for s in special if s is not None])
        pools = known, np.union1d(known, others)
        tokens = i.tokens[chosen].copy()
        for at, (row, there) in enumerate(zip(tokens, (real & ~fixed)[chosen], strict=True)):
            pool = pools[at % 2]
            few = rng.choice(pool, min(len(pool), int(rng.choice(ALPHABETS))), replace=False)
            row[there] = rng.choice(few, int(there.sum()))
        return chosen, tokens, visible

    def asked(self, claim: Claim) -> Asked:
        key = (claim.relation, claim.when)
        if key not in self._asked:
            i, keys = self.inputs, self.keys(claim.relation)
            about = np.ones(i.tokens.shape, dtype=bool)
            if claim.when is not None:
                about = rows_of(claim.when, i.tokens, i.grammar, keys)
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
        self._fits: dict[tuple[Relation, bool, bool], Floats] = {}

    @cached_property
    def without(self) -> Floats:
        """Weights without the first key, summing to 1 again; all 0 in rows that look nowhere else."""
        out = self.weights * self.laid._free
        total = out.sum(-1, keepdims=True)
        return np.where(total > RESTS, out / np.maximum(total, RESTS), 0.0)

    def taken(self, asked: Asked) -> Floats:
        """The weights in which a claim's rows are compared."""
        return np.where(asked.sink[..., None], self.weights, self.without)

    def fit(self, relation: Relation, sink: bool, even: bool) -> Floats:
        """How well each row fits a relation [input, query]: its overlap with an even spread, or its score."""
        key = (relation, sink, even)
        if key not in self._fits:
            seen = self.laid.inputs.visible if sink else self.laid._free
            weights, keys = self.weights if sink else self.without, self.laid.keys(relation) & seen
            self._fits[key] = overlap(weights, keys) if even else scored(weights, keys, seen)
        return self._fits[key]

    # -- one claim ----------------------------------------------------------------------------------

    def score_rows(self, asked: Asked, within: bool = False) -> Floats:
        """`relation_scores` of each row of the claim, NaN elsewhere [input, query].

        What is said to be spread evenly *among* keys must first be on them: its score is that of the weight.
        `within`: how evenly what lies on the keys is spread among them.
        """
        kind: Kind = "even" if asked.claim.relation.kind == "even" else "mass"
        scores = relation_scores(
            self.weights[:, None], self.laid.keys(asked.claim.relation), self.laid.inputs.visible,
            "among" if within else kind,
        ).rows[:, 0]  # fmt: skip
        return np.where(asked.rows, scores, np.nan)

    def score_on_a(self, asked: Asked) -> float:
        """Mean score in half A, by which a head is chosen; -1 where no row counts."""
        rows = self.score_rows(asked)[self.laid.inputs.half_a]
        return float(np.nanmean(rows)) if np.isfinite(rows).any() else -1.0

    def look(self, asked: Asked, level: float) -> Look:
        """Scores and nulls of a claim, over half B."""
        half = self.laid.inputs.half_b
        scores, even = self.score_rows(asked), asked.claim.relation.kind == "even"
        taken = self.taken(asked)

        def mean(name: str, values: Floats, rows: Bools) -> Estimate:
            return mean_of(name, values, rows, half, level)

        top1 = share = matched = within = None
        aside = asked.rows & ~asked.sink & self.laid.inputs.visible[:, :, 0]
        on_keys = (self.weights * asked.keys).sum(-1)
        more = np.where(aside, self.weights[:, :, 0] - on_keys, 0.0)[half]
        rests = not even and bool(more.sum() > TIED * aside[half].sum())
        each = np.zeros(len(half))
        if even:
            share = mean("share", (scores > ROW).astype(float), asked.free)
        else:
            top1 = mean("top1", top_share(taken, asked), asked.free)
            lift = matched_lift(taken, asked, self.laid.inputs.roles, half)
            matched = mean("matched", lift, asked.free)
            each = np.where(asked.free, lift, 0.0)[half].sum(1)
        if asked.claim.relation.kind == "among":
            each_row = self.score_rows(asked, within=True)
            within = mean("score", each_row, asked.free & np.isfinite(each_row))
        by_value = self.weights if self.norms is None else self.weights * self.norms[:, None]
        total = by_value.sum(-1)
        return Look(
            score=mean("score", scores, asked.rows),
            top1=top1,
            share=share,
            matched=matched,
            on_sink=mean("sink", self.weights[:, :, 0], asked.rows & ~asked.sink),
            apart=not even and bool((aside & asked.free)[half].any()),
            rests=rests,
            without_sink=mean("without_sink", (taken * asked.keys).sum(-1), asked.free),
            by_value=mean("by_value", (by_value * asked.keys).sum(-1) / np.where(total > 0, total, 1.0), asked.rows),
            matched_rows=each,
            within=within,
        )


def scored(weights: Floats, keys: Bools, seen: Bools) -> Floats:
    """(m - c) / (1 - c) of each row, m being the weight on the keys and c their share of the seen [input, query]."""
    chance = keys.sum(-1) / np.maximum(seen.sum(-1), 1)
    return np.asarray(((weights * keys).sum(-1) - chance) / np.maximum(1 - chance, 1e-12))


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


def fits_when(head: Head, asked: Asked, rows: Bools) -> tuple[float, int]:
    """Share of rows whose top place the relation holds, among `rows` of half A, 0 where too few count; how many."""
    half = head.laid.inputs.half_a
    counted = (asked.free & rows)[half]
    top = top_share(head.taken(asked), asked)[half]
    count = int(counted.sum())
    return float(top[counted].mean()) if count >= MIN_DIFFERENT else 0.0, count


def mean_of(name: str, values: Floats, rows: Bools, half: NDArray[np.int64], level: float) -> Estimate:
    """Mean over the rows [input, query] of a half, with an interval over its inputs; of the range of `name`."""
    picked = rows[half]
    total = np.where(picked, np.nan_to_num(values[half]), 0.0).sum(1)
    return ratio(total, picked.sum(1).astype(float), level, SUPPORTS[name])
