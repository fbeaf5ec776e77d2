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
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.config import MINIMAL_EMBEDDINGS, TransformerConfig
from interp.functional import Params, stacked_logits
from interp.grammars import CopyGrammar, DyckGrammar
from interp.grammars.dyck import Mode
from interp.model import SandboxTransformer
from interp.model.counts import is_hooked, num_states
from interp.model.masks import Trusted
from interp.training.counted import evaluate_counted
from interp.training.layout import IGNORE, copy_targets
from interp.training.shared import evaluate_shared, share_rows
from interp.training.weighted import MASS_THRESHOLD

RULES = ("argmax", "argmax_closers", "mass")
_SHORT = 48  # longest strings that share rows
_PASS = 100  # positions that would cost as much as a forward pass costs beside its positions
_CELLS = 1500  # positions a forward pass, per seed, and _PAIRS of query and key: what ten seeds keep in the caches
_PAIRS = 300_000
_LAW = 2**24  # numbers of the exact law that are held at once: 128 MB


@dataclass(frozen=True)
class EvalSet:
    """Held-out strings, each distinct one once with its count. All arrays [string, position].

    `targets` is -100 where nothing is scored; `law_nll` is the exact law's surprise (nats) at each
    target, whose weighted mean is the entropy floor of this very sample.
    """

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    weight: NDArray[np.float64]  # [string]
    law_nll: NDArray[np.float64]
    distance: NDArray[np.int64]  # of a closer target to its opener; 0 elsewhere
    num_types: int
    copying: bool = False

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Positions of each string up to the last one that is scored (1 where none is), [string]."""
        places = np.arange(1, self.targets.shape[1] + 1)
        return np.where(self.targets != IGNORE, places, 1).max(1, initial=1)

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
) -> EvalSet:
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
    grown = _even_width(strings.shape[1] + 1)
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
    picked = np.ones(targets.shape)
    step = max(1, _LAW // (targets.shape[1] * grammar.vocab_size))
    for begin in range(0, rows, step):  # the law has a number for each token of the vocabulary at each position
        here = slice(begin, begin + step)
        law = grammar.next_token_probs(inputs[here], **bounds)
        picked[here] = np.take_along_axis(law, targets[here, :, None], axis=-1)[..., 0]
    law_nll = np.where(scored, -np.log(np.where(scored, picked, 1.0)), 0.0)
    partner = grammar.partner(full)[:, 1 : targets.shape[1] + 1]
    position = np.arange(1, targets.shape[1] + 1)
    distance = np.where(scored & (partner >= 0) & (partner < position), position - partner, 0)
    targets[~scored] = IGNORE
    if isinstance(grammar, CopyGrammar):
        targets = np.where(np.arange(targets.shape[1]) > score_from, copy_targets(grammar, inputs), IGNORE)
        nothing = np.zeros(targets.shape)  # the law of a copy is certain, and no closer is predicted
        return EvalSet(
            inputs, targets, counts.astype(float), nothing, nothing.astype(np.int64), grammar.num_types, True
        )
    return EvalSet(inputs, targets, counts.astype(float), law_nll, distance, grammar.num_types)


def evaluate(
    template: SandboxTransformer, params: Params, data: EvalSet, by_distance: bool = False
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
    if data.inputs.shape[1] <= _SHORT and config.embedding not in MINIMAL_EMBEDDINGS:
        rows = share_rows(data.inputs, data.lengths, int(data.inputs.max(initial=0)))
        if rows.tokens.size < data.lengths.sum() + _PASS * len(_chunks(data)):
            return evaluate_shared(template, params, data, rows, by_distance)
    return evaluate_positions(template, params, data, by_distance)


def counts_pay(config: TransformerConfig, data: EvalSet) -> bool:
    """Are counts less work than positions? Microseconds a seed of either, fitted to one CPU: a choice, no promise."""
    states, lengths = num_states(config), data.lengths
    distinct = 0.8 * int((data.targets != IGNORE).sum())  # of the predictions, about
    counts = distinct * (1 + states / 150 + states**2 / 20_000)
    positions = float((lengths * (0.9 + lengths / 100 + config.d_model / 130)).sum()) + 2 * _PASS * len(_chunks(data))
    return counts <= positions


def evaluate_positions(
    template: SandboxTransformer, params: Params, data: EvalSet, by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """`evaluate` position by position, for any model."""
    sums: dict[str, Any] = {}

    def add(name: str, value: Tensor | float, weight: Tensor) -> None:
        old_value, old_weight = sums.get(name, (0.0, 0.0))
        sums[name] = (old_value + (value * weight).sum((-1, -2)).double(), old_weight + weight.sum().double())

    device = next(iter(params.values())).device
    dtype = next(iter(params.values())).dtype
    hooked = is_hooked(template)
    with torch.no_grad():
        for rows in _chunks(data):
            used = _even_width(int((data.targets[rows] != IGNORE).any(0).nonzero()[0].max(initial=0)) + 1)
            inputs = torch.from_numpy(data.inputs[rows, :used]).to(device)
            target = torch.from_numpy(data.targets[rows, :used]).to(device)
            kwargs: dict[str, Any] = {}
            if template.config.positions == "learned":  # trailing PAD may lie beyond the last one: not scored
                places = torch.arange(used, device=device).clamp(max=template.config.n_ctx - 1)[None]
                kwargs["positions"] = Trusted(places)
            first = _even_start(data.targets[rows, :used])
            if not hooked:  # an edit may speak of positions before the first that is scored
                kwargs["first"] = first
            logits = stacked_logits(template, params, inputs, **kwargs)
            logits, target = logits[..., first if hooked else 0 :, :], target[:, first:]
            weight = torch.from_numpy(data.weight[rows]).to(device, dtype)[:, None]
            scored = (target != IGNORE) * weight
            index = target.clamp(min=0).expand(logits.shape[:-1])[..., None]
            nll = torch.logsumexp(logits, -1) - logits.gather(-1, index)[..., 0]
            floor = torch.from_numpy(data.law_nll[rows, first:used]).to(device, dtype)
            add("loss", nll, scored)
            add("excess", nll - floor, scored)
            if data.copying:
                add("copied", (logits.argmax(-1) == target).to(dtype), scored)
                continue
            if data.num_types < 2:
                continue  # one type: nothing to get right
            correct = closing_rules(logits, target, data.num_types)
            for kind, mask in (("", data.closer), ("_nontrivial", data.nontrivial)):
                chosen = torch.from_numpy(mask[rows, first:used]).to(device) * weight
                for rule, right in correct.items():
                    add(rule + kind, right.to(dtype), chosen)
            if by_distance:
                distance = torch.from_numpy(data.distance[rows, first:used]).to(device)
                for d in np.unique(data.distance[rows][data.closer[rows]]):
                    add(f"mass@{d}", correct["mass"].to(dtype), (distance == int(d)) * weight)
    return {name: (v / w).cpu().numpy() for name, (v, w) in sums.items()}


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


def rule_floors(data: EvalSet) -> dict[str, float]:
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


def _even_width(used: int) -> int:
    """Widths at which a seed's bits do not depend on its place in the stack (see `layout.pack`)."""
    return max(16, -(-used // 4) * 4)


def _even_start(targets: NDArray[np.int64]) -> int:
    """A position before which nothing is scored, such that an even width remains."""
    return int((targets != IGNORE).any(0).argmax()) // 16 * 16


def _chunks(data: EvalSet) -> list[slice]:
    """Slices of strings (sorted by length) of at most `_CELLS` positions and `_PAIRS` pairs after trimming."""
    lengths = data.lengths
    chunks, begin = [], 0
    for i in range(1, len(lengths) + 1):
        cells = 0 if i == len(lengths) else lengths[i] * (i + 1 - begin)
        full = i < len(lengths) and (cells > _CELLS or cells * lengths[i] > _PAIRS)
        if i == len(lengths) or full or lengths[i] > 1.25 * lengths[begin] + 2:
            chunks.append(slice(begin, i))
            begin = i
    return chunks
