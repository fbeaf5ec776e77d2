"""Where a claim that holds on average fails: in some of these rows, or on inputs that are rare under the law.

A head can look where it is said to in nearly every row of ordinary inputs and nowhere near in the rows that are rare
there: after a long gap, late in the input, deep in a string. Conditions are asked of the audit's own inputs (half B);
what those hardly ever have is drawn from the other laws that a world names (`Claims.tails`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from interp.claims.asking import rows_of
from interp.claims.register import claims_of
from interp.stats import Estimate
from probes.audit.inputs import make_inputs
from probes.audit.pattern import Asked, Bools, Head, Laid, mean_of, top_share
from probes.audit.stats import Floats, high
from probes.audit.thresholds import MIN_DIFFERENT, RIVAL_SEQUENCES, TAIL_INPUTS, TOP1
from probes.claims import Claim, suggestions

HeadAt = tuple[int, int]


@dataclass(frozen=True)
class Tail:
    """Rows in which a claim fails: which, in words, and what was seen there.

    `seen`: the score there, or the share of the rows in which the largest weight is on the relation (`what`).
    """

    words: str
    what: str
    seen: Estimate


class Tails:
    """The rarer inputs of a grammar, drawn once for all claims and models; none where users give their own inputs."""

    def __init__(self, model: Any, grammar: Any, length: int, seed: int, drawn: bool = True):
        self._about, self._drawn = (model, grammar, length, seed), drawn

    @cached_property
    def laid(self) -> Mapping[str, Laid]:
        """Relations laid over inputs of each of the other laws, by its words."""
        model, grammar, length, seed = self._about
        laws = {} if grammar is None or not self._drawn else claims_of(grammar).tails(grammar)
        return {words: Laid(make_inputs(model, law, None, TAIL_INPUTS, length, seed)) for words, law in laws.items()}


def conditions(laid: Laid, claim: Claim) -> Iterator[tuple[str, Bools]]:
    """Rows in which a claim may fare otherwise, with their words [input, query]."""
    i = laid.inputs
    longest = i.tokens.shape[1]
    keys = laid.keys(claim.relation)
    for condition in suggestions(i.grammar, longest):
        if condition != claim.when:
            yield condition.words, rows_of(condition, i.tokens, i.grammar, keys)


def worst_tail(
    head: Head, asked: Asked, others: Mapping[str, tuple[Head, Asked]], least: float, level: float
) -> Tail | None:
    """Of the rows and inputs in which a claim fails for sure, those in which it fares worst; None where it never does.

    `others`: the same head and claim on inputs of other laws, by their words; `least`: the score that is asked for.
    """
    half = head.laid.inputs.half_b
    places = [(f"where {words}", head, asked, rows, half) for words, rows in conditions(head.laid, asked.claim)]
    for words, (other, laid) in others.items():
        places.append((f"on {words}", other, laid, np.ones_like(laid.free), np.arange(len(laid.free))))
    found: list[tuple[float, Tail]] = []
    for words, one, laid, rows, inputs in places:
        counted = (laid.free & rows)[inputs]
        if counted.sum() < MIN_DIFFERENT or counted.any(1).sum() < RIVAL_SEQUENCES:
            continue
        strict = 1 - (1 - level) / (2 * len(places))
        values: dict[str, tuple[Floats, float]] = {"score": (one.score_rows(laid), least)}
        if asked.claim.relation.kind != "even":
            values["top1"] = top_share(one.taken(laid), laid), TOP1
        for what, (each, bound) in values.items():
            seen = mean_of(what, each, laid.free & rows, inputs, strict)
            if high(seen) < bound:
                found.append((high(seen) / bound, Tail(words, what, seen)))
    return min(found, key=lambda pair: pair[0])[1] if found else None
