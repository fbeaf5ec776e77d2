"""Is the truth of a claim so? Plain statistics and whole-head interventions, which share no code with the audit.

A pattern is looked at as it is: how much of the weight lies on the claimed keys, beside what an even head gives them,
and how often the largest weight does. Use is looked at by exchanging all that a head says, at all positions, for what
it says of another input, and by putting its mean there. What lies between the bounds is no truth, and is dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.rng import generator
from probes.audit.bench.trained.cases import Checked, Examples, Head, Ints, Spoken, Subject, Use

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Edit = Callable[[Tensor], Tensor]

TRUE_SCORE, TRUE_TOP1 = 0.5, 0.8  # a pattern is there: at least so much beyond chance, and so often on top
FALSE_SCORE, FALSE_TOP1 = 0.15, 0.5  # it is not there: at most
SPLIT, SPLIT_ROWS, OUTER = (0.25, 0.75), 0.9, (0.2, 0.8)  # nor is it where rows are of two groups, one of which fits
USED_MOVES, USED_LOSES = 0.25, 0.10  # the least that an interchange moves, and that a mean in its place loses
UNUSED_MOVES, UNUSED_LOSES = 0.03, 0.03  # the most that a head may move and lose that is of no use
SPARE_LOSES, BOTH_LOSE = 0.05, 0.5  # redundant: one alone loses at most, all together lose at least
LEAST_ROWS = 50  # rows, or items, below which nothing is told


@dataclass(frozen=True)
class Pattern:
    """What a head's weights show: means over rows. `score` is (m - c) / (1 - c), c the share of keys in the set.

    `share`: of rows that score .5 or more; `split`: of rows near 0 or near 1.
    """

    score: float
    top1: float
    chance: float
    share: float
    split: float
    rows: int


@dataclass(frozen=True)
class Moved:
    """`effect`: share of the margin that an interchange takes (2: it turns over); `loss`: share of what accuracy is
    above chance that the mean takes; `items`: pairs of inputs."""

    effect: float
    loss: float
    items: int


def check_subject(subject: Subject, seed: int) -> tuple[float | None, list[Checked], list[str]]:
    """Accuracy, the claims whose truth holds, and of each of the others why it does not (`grey`, `contradicted`).

    A model that has not learned its task loses all its claims, as `unlearned`.
    """
    model, examples = subject.model, subject.examples
    right = None if subject.least is None else accuracy(model, examples)
    if right is not None and subject.least is not None and right < subject.least:
        return right, [], ["unlearned"] * len(subject.claims)
    patterns = patterns_of(model, examples.tokens)
    kept, dropped = [], []
    for spoken in subject.claims:
        found = _check(spoken, subject, patterns, seed)
        if isinstance(found, Checked):
            kept.append(found)
        else:
            dropped.append(found)
    return right, kept, dropped


def _check(spoken: Spoken, subject: Subject, patterns: Sequence[Floats], seed: int) -> Checked | str:
    examples, claim = subject.examples, spoken.claim
    both_ways = subject.model.config.direction == "bidirectional"
    keys, rows = keys_and_rows(claim, examples.tokens, subject.grammar, both_ways)
    even = claim.relation.kind == "even"
    looks = [pattern_of(patterns[layer][:, head], keys, rows, both_ways, even) for layer, head in claim.heads]
    words = {pattern_truth(look) for look in looks}
    there = words.pop() if len(words) == 1 else None
    if there is None:
        return "grey"
    if spoken.pattern is not None and there != spoken.pattern:
        return "contradicted"
    measured = {"score": looks[0].score, "top1": looks[0].top1, "chance": looks[0].chance}
    if spoken.built or spoken.use == "not asked":
        return Checked(spoken, there, spoken.use or "not asked", measured)
    if not there:  # what a head is used for is no part of a claim about edges that it does not have
        return Checked(spoken, there, "not asked", measured)
    if spoken.use == "redundant":
        alone = [moved(subject.model, examples, [head], rows, seed).loss for head in spoken.together]
        both = moved(subject.model, examples, spoken.together, rows, seed).loss
        measured |= {"alone": max(alone), "both": both}
        fits = max(alone) <= SPARE_LOSES and both >= BOTH_LOSE
        return Checked(spoken, there, "redundant", measured) if fits else "grey"
    found = moved(subject.model, examples, claim.heads, rows, seed)
    measured |= {"effect": found.effect, "loss": found.loss}
    use = use_truth(found)
    if use is None:
        return "grey"
    if spoken.use is not None and use != spoken.use:
        return "contradicted"
    return Checked(spoken, there, use, measured)


# -- patterns -----------------------------------------------------------------------------------------------


def keys_and_rows(claim: Any, tokens: Ints, grammar: Any, both_ways: bool = False) -> tuple[Bools, Bools]:
    """The claimed keys [input, query, key] without padding, and the rows [input, query] asked.

    `both_ways`: of a bidirectional model; else of a causal one.
    """
    n = tokens.shape[1]
    seen = np.broadcast_to(np.tri(n, dtype=bool) | both_ways, (len(tokens), n, n))
    keys = claim.relation.keys(tokens, grammar, seen)
    rows = np.ones(tokens.shape, dtype=bool)
    if claim.when is not None:
        rows = np.asarray(claim.when.rows(tokens, grammar, keys))
    return keys, rows


def pattern_of(weights: Floats, keys: Bools, rows: Bools, both_ways: bool = False, even: bool = False) -> Pattern:
    """What weights [input, query, key] show. Rows without a key, and rows all of whose keys are meant, say nothing.

    `even`: the weight that counts is what weights have in common with an even spread over the keys (of which a head
    that is even over all that is visible has c, too).
    """
    seen = np.full(weights.shape[1], weights.shape[1]) if both_ways else np.arange(weights.shape[1]) + 1
    size = keys.sum(-1)
    asked = rows & (size > 0) & (size < seen)
    if int(asked.sum()) < LEAST_ROWS:
        return Pattern(np.nan, np.nan, np.nan, np.nan, np.nan, int(asked.sum()))
    chance = (size / seen)[asked]
    spread = keys / np.maximum(size, 1)[..., None]
    mass = (np.minimum(weights, spread) if even else weights * keys).sum(-1)[asked]
    score = (mass - chance) / (1 - chance)
    top = np.take_along_axis(keys, weights.argmax(-1)[..., None], axis=-1)[..., 0][asked]
    outer = (score <= OUTER[0]) | (score >= OUTER[1])
    means = [float(x.mean()) for x in (score, top, chance, score >= 0.5, outer)]
    return Pattern(means[0], means[1], means[2], means[3], means[4], int(asked.sum()))


def pattern_truth(found: Pattern) -> bool | None:
    """Whether the pattern is there; None between the bounds."""
    if found.rows < LEAST_ROWS:
        return None
    if found.score >= TRUE_SCORE and found.top1 >= TRUE_TOP1:
        return True
    if found.score <= FALSE_SCORE and found.top1 <= FALSE_TOP1:
        return False
    in_some = SPLIT[0] <= found.share <= SPLIT[1] and found.split >= SPLIT_ROWS
    return False if in_some else None


def patterns_of(model: Any, tokens: Ints) -> list[Floats]:
    """[layer] weights [input, head, query, key]."""
    seen: list[Tensor] = []
    points = {block.attn.hook_pattern: _keeps(seen) for block in model.blocks}
    _run(model, tokens, points)
    return [x.double().numpy() for x in seen]


# -- use ----------------------------------------------------------------------------------------------------


def use_truth(found: Moved) -> Use | None:
    """Whether the head is of use; None between the bounds."""
    if found.items < LEAST_ROWS:
        return None
    if found.effect >= USED_MOVES and found.loss >= USED_LOSES:
        return "used"
    if abs(found.effect) <= UNUSED_MOVES and abs(found.loss) <= UNUSED_LOSES:
        return "unused"
    return None


def moved(model: Any, examples: Examples, heads: Sequence[Head], rows: Bools, seed: int) -> Moved:
    """What exchanging all that `heads` say moves, read at rows [input, pos] that have a label."""
    tokens, labels = examples.tokens, examples.labels
    rng = generator(seed, "bench/trained/donors")
    donor = (np.arange(len(tokens)) + 1 + int(rng.integers(len(tokens) - 1))) % len(tokens)
    other = labels[donor]
    wanted = rows & (labels >= 0) & (other >= 0) & (labels != other)
    each = np.flatnonzero(wanted.any(1))
    read = np.where(wanted, rng.random(wanted.shape), -1.0).argmax(1)[each]
    said = said_by(model, tokens)
    swap = {layer: said[layer][donor] for layer, _ in heads}
    mean = {layer: said[layer].mean(0, keepdim=True).expand_as(said[layer]) for layer, _ in heads}
    answer, foil = labels[each, read], other[each, read]

    def margin(logits: Floats) -> float:
        return float((logits[each, read, answer] - logits[each, read, foil]).mean())

    asked = rows & (labels >= 0)
    if not len(each):
        return Moved(np.nan, np.nan, 0)
    intact = _run(model, tokens)
    above = _right(intact, labels, asked) - _chance(labels[asked])
    lost = _right(intact, labels, asked) - _right(_run(model, tokens, _puts(model, heads, mean)), labels, asked)
    whole = margin(intact)
    effect = 1 - margin(_run(model, tokens, _puts(model, heads, swap))) / whole if whole > 0 else np.nan
    return Moved(effect, lost / above if above > 0 else np.nan, len(each))


def accuracy(model: Any, examples: Examples) -> float:
    """Share of right answers where there is a label."""
    return _right(_run(model, examples.tokens), examples.labels, examples.labels >= 0)


def said_by(model: Any, tokens: Ints) -> list[Tensor]:
    """[layer] z [input, pos, head, d_head]."""
    seen: list[Tensor] = []
    _run(model, tokens, {block.attn.hook_z: _keeps(seen) for block in model.blocks})
    return seen


def _right(logits: Floats, labels: Ints, asked: Bools) -> float:
    return float((logits.argmax(-1) == labels)[asked].mean())


def _chance(labels: Ints) -> float:
    """What always saying the most frequent label gets right."""
    return float(np.bincount(labels).max() / len(labels))


def _keeps(seen: list[Tensor]) -> Edit:
    def hook(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return x

    return hook


def _puts(model: Any, heads: Sequence[Head], instead: Mapping[int, Tensor]) -> dict[Any, Edit]:
    """Edits of z that put what is given in the place of what `heads` say."""
    points: dict[Any, Edit] = {}
    for layer in {layer for layer, _ in heads}:
        points[model.blocks[layer].attn.hook_z] = _put(instead[layer], [h for at, h in heads if at == layer])
    return points


def _put(new: Tensor, which: Sequence[int]) -> Edit:
    def hook(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, :, list(which)] = new[:, :, list(which)]
        return z

    return hook


def _run(model: Any, tokens: Ints, points: Mapping[Any, Edit] | None = None) -> Floats:
    """Logits [input, pos, output] with torch's own forward hooks at hook points, and none left behind."""
    with ExitStack() as stack, torch.no_grad():
        for point, edit in (points or {}).items():
            handle = point.register_forward_hook(lambda module, args, out, edit=edit: edit(out))
            stack.callback(handle.remove)
        out: Tensor = model(torch.from_numpy(tokens))
    return out.double().numpy()
