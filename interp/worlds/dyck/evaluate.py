"""Evaluation on held-out strings, for all seeds of a population at once.

Closing accuracy follows three rules over positions whose true token is a closer: `argmax` among all
tokens, `argmax_closers` among closers, and `mass`, where the right closer must hold more than 0.8
of the closers' probability (Hewitt et al. 2020; the released code of Wen et al. 2023). About two
thirds of closers directly follow their opener, so each rule is also given on *non-trivial* closers
(the token before is itself a closer) and by open-close distance.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.model.counts import num_states
from interp.model.hooks import is_hooked
from interp.training import evaluation
from interp.training.evaluation import EvalSet, Measured, Where, chunks, even_width
from interp.training.layout import IGNORE
from interp.worlds.dyck.batches import copy_targets
from interp.worlds.dyck.counted import evaluate_counted
from interp.worlds.dyck.grammar import DyckGrammar, Mode
from interp.worlds.dyck.recipes import RULES as RULES
from interp.worlds.dyck.shared import evaluate_shared, share_rows
from interp.worlds.dyck.weighted import MASS_THRESHOLD

_SHORT = 48  # longest strings that share rows
_PASS = 100  # positions that would cost as much as a forward pass costs beside its positions
_LAW = 2**24  # numbers of the exact law that are held at once: 128 MB


@dataclass(frozen=True)
class BracketSet(EvalSet):
    """Held-out strings of brackets: from a stream that no training run uses; short ones occurred in training too.

    - `distance` [string, position]: of a closer target to its opener; 0 elsewhere.
    - `copying`: each bracket is its own target, and no closer is predicted.
    """

    distance: NDArray[np.int64]
    num_types: int
    copying: bool = False

    @property
    def closer(self) -> NDArray[np.bool_]:
        """Where a closer is to be predicted."""
        return (self.targets >= 0) & (self.targets < 2 * self.num_types) & (self.targets % 2 == 1)

    @property
    def nontrivial(self) -> NDArray[np.bool_]:
        """Closers that follow a closer: "close what was just opened" cannot get them right."""
        previous = (self.inputs < 2 * self.num_types) & (self.inputs % 2 == 1)
        return self.closer & previous


def held_out(
    grammar: DyckGrammar,
    count: int,
    *,
    data: Mode = "complete",
    min_length: int | None = None,
    max_length: int | None = None,
    length: int | tuple[int, int] | None = None,
    score_from: int = 0,
    seed: int = 0,
) -> BracketSet:
    """Draw `count` strings of a data law from a stream no training run uses.

    `data`, `min_length`, `max_length`, `length`: mode and lengths of `DyckGrammar.sample`.
    `score_from`: score only targets whose position in the string (from 0) is at least this, as in
    length generalisation, where position 400 and beyond is asked about.
    """
    strings = grammar.sample(
        count, seed=seed, mode=data, min_length=min_length, max_length=max_length, length=length, stream="held-out"
    )
    strings, counts = np.unique(np.asarray(strings, dtype=np.int64), axis=0, return_counts=True)
    order = np.argsort((strings != grammar.pad).sum(1), kind="stable")
    strings, counts = strings[order], counts[order]
    grown = even_width(strings.shape[1] + 1)
    strings = np.pad(strings, ((0, 0), (0, grown - strings.shape[1])), constant_values=grammar.pad)
    rows, width = strings.shape
    start = np.full((rows, 1), grammar.start)
    full = np.concatenate([start, strings, np.full((rows, 1), grammar.pad)], axis=1)
    if data == "complete":
        full[np.arange(rows), 1 + (strings != grammar.pad).sum(1)] = grammar.end
        inputs, targets = np.where(full[:, :-1] == grammar.end, grammar.pad, full[:, :-1]), full[:, 1:].copy()
        bounds: dict[str, Any] = {"mode": "complete", "min_length": min_length, "max_length": max_length}
    else:
        inputs, targets = full[:, :width], full[:, 1 : width + 1].copy()
        bounds = {"mode": "prefix"}
    scored = (targets != grammar.pad) & (np.arange(targets.shape[1]) >= score_from)
    picked, legal = np.ones(targets.shape), np.ones(targets.shape)
    step = max(1, _LAW // (targets.shape[1] * grammar.vocab_size))
    for begin in range(0, rows, step):  # the law has a number for each token of the vocabulary at each position
        here = slice(begin, begin + step)
        law = grammar.next_token_probs(inputs[here], **bounds)
        picked[here] = np.take_along_axis(law, targets[here, :, None], axis=-1)[..., 0]
        legal[here] = np.maximum((law > 0).sum(-1), 1)
    law_nll = np.where(scored, -np.log(np.where(scored, picked, 1.0)), 0.0)
    partner = grammar.partner(full)[:, 1 : targets.shape[1] + 1]
    position = np.arange(1, targets.shape[1] + 1)
    distance = np.where(scored & (partner >= 0) & (partner < position), position - partner, 0)
    targets[~scored] = IGNORE
    filled = (inputs != grammar.pad).sum(1)
    if grammar.copies:
        targets = np.where(np.arange(targets.shape[1]) > score_from, copy_targets(grammar, inputs), IGNORE)
        nothing = np.zeros(targets.shape)  # the law of a copy is certain, and no closer is predicted
        even = {"any bracket": np.full(targets.shape, np.log(2 * grammar.num_types))}
        weight, none = counts.astype(float), nothing.astype(np.int64)
        return BracketSet(inputs, targets, weight, nothing, none, grammar.num_types, True, rungs=even, filled=filled)
    closer = scored & (targets < 2 * grammar.num_types) & (targets % 2 == 1)
    rungs = {
        "any legal token": np.where(scored, np.log(legal), 0.0),
        "depth without types": law_nll + closer * np.log(grammar.num_types),  # each type is as likely to be open
    }
    return BracketSet(
        inputs, targets, counts.astype(float), law_nll, distance, grammar.num_types, rungs=rungs, filled=filled
    )


def evaluate(
    template: SandboxTransformer, params: Params, data: BracketSet, by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Metrics of every seed, name -> [S] (NaN where a rule has no closer to be asked about).

    `loss` and `excess` (over the exact law on the same strings) in nats a prediction; each rule, and
    each rule with `_nontrivial`; with `by_distance` also `mass@d` for each open-close distance d.
    Without hooks, one layer without positions is evaluated through counts, and short strings share what they have in
    common, where that is less work: the same to rounding.
    """
    config = template.config
    if is_hooked(template):
        return evaluate_positions(template, params, data, by_distance)
    if config.counts_suffice and counts_pay(config, data):
        return evaluate_counted(template, params, data, by_distance)
    shares = config.direction == "causal" and config.oracle is None  # what follows a beginning would change it
    if shares and data.inputs.shape[1] <= _SHORT:
        rows = share_rows(data.inputs, data.lengths, int(data.inputs.max(initial=0)))
        if rows.tokens.size < data.lengths.sum() + _PASS * len(chunks(data)):
            return evaluate_shared(template, params, data, rows, by_distance)
    return evaluate_positions(template, params, data, by_distance)


def counts_pay(config: TransformerConfig, data: BracketSet) -> bool:
    """Are counts less work than positions? Microseconds a seed of either, fitted to one CPU: a choice, no promise."""
    states, lengths = num_states(config), data.lengths
    distinct = 0.8 * int((data.targets != IGNORE).sum())  # of the predictions, about
    counts = distinct * (1 + states / 150 + states**2 / 20_000)
    positions = float((lengths * (0.9 + lengths / 100 + config.d_model / 130)).sum()) + 2 * _PASS * len(chunks(data))
    return counts <= positions


def evaluate_positions(
    template: SandboxTransformer, params: Params, data: BracketSet, by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """`evaluate` position by position, for any model."""

    def measure(logits: Tensor, target: Tensor, where: Where) -> Measured:
        if data.copying:
            yield "copied", logits.argmax(-1) == target, target != IGNORE
            return
        if data.num_types < 2:
            return  # one type: nothing to get right
        correct = closing_rules(logits, target, data.num_types)
        for kind, mask in (("", data.closer), ("_nontrivial", data.nontrivial)):
            for rule, right in correct.items():
                yield rule + kind, right, where.of(mask, target)
        if by_distance:
            distance = where.of(data.distance, target)
            for d in np.unique(data.distance[where.rows][data.closer[where.rows]]):
                yield f"mass@{d}", correct["mass"], distance == int(d)

    return evaluation.evaluate_positions(template, params, data, measure)


def closing_rules(logits: Tensor, target: Tensor, num_types: int) -> dict[str, Tensor]:
    """For each rule whether the prediction is right, [..., pos] bool; meaningful at closers only.

    `logits` [..., pos, vocab], `target` [pos or ..., pos] token ids (anything where not a closer).
    """
    closers = logits[..., 1 : 2 * num_types : 2]
    kind = (target.clamp(min=0) // 2).clamp(max=num_types - 1).expand(logits.shape[:-1])
    share = closers.softmax(-1).gather(-1, kind[..., None])[..., 0]
    return {
        "argmax": logits.argmax(-1) == target,
        "argmax_closers": closers.argmax(-1) == kind,
        "mass": share > MASS_THRESHOLD,
    }


def rule_floors(data: BracketSet) -> dict[str, float]:
    """What "close the token before if it is an opener, else guess a type" scores on this set.

    The floor of `mass` counts a guess as wrong (no type then holds 0.8 of the mass).
    """
    weight = np.broadcast_to(data.weight[:, None], data.targets.shape)
    total = float(weight[data.closer].sum())
    if data.num_types < 2 or data.copying or total == 0:
        return {}
    trivial = total - float(weight[data.nontrivial].sum())
    guess = (total - trivial) / data.num_types
    return {
        "argmax": (trivial + guess) / total,
        "argmax_closers": (trivial + guess) / total,
        "mass": trivial / total,
        "argmax_nontrivial": 1 / data.num_types,
        "argmax_closers_nontrivial": 1 / data.num_types,
        "mass_nontrivial": 0.0,
    }
