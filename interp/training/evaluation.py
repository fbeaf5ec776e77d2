"""Evaluation on held-out strings, for all seeds of a population at once, position by position."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import WorldError, quoted
from interp.functional import Params, stacked_logits
from interp.model import SandboxTransformer
from interp.model.hooks import is_hooked
from interp.model.masks import Trusted, visible_keys
from interp.rng import generator
from interp.training.given import drawn, labelled, surprises
from interp.training.layout import IGNORE

_CELLS = 1500  # positions a forward pass, per seed, and _PAIRS of query and key: what ten seeds keep in the caches
_PAIRS = 300_000


@dataclass(frozen=True)
class EvalSet:
    """Held-out strings, each distinct one once with its count. All arrays [string, position].

    Held out means drawn from a stream of random numbers that no training run uses, not unseen: where a world has few
    strings, most of them occurred in training too.

    - `targets`: labels, -100 where nothing is scored.  `weight` [string].
    - `law_nll`: the exact law's surprise (nats) at each target, whose weighted mean is the entropy floor of this very
      sample; NaN where no law is known.
    - `classes`: where a named kind of query is asked, bool.
    - `rungs`: surprise (nats) of named baseline predictors at each target, to stand beside the model's.
    - `latent`: names of those rungs that know what a string was drawn from, which nobody who reads it does.
    - `filled`: positions of each string [string]; behind them lies filler, which attention in both directions must not
      see. None: all columns.
    """

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    weight: NDArray[np.float64]
    law_nll: NDArray[np.float64]
    classes: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict, kw_only=True)
    rungs: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, kw_only=True)
    latent: frozenset[str] = field(default=frozenset(), kw_only=True)
    filled: NDArray[np.int64] | None = field(default=None, kw_only=True)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Positions of each string up to the last one that is scored (1 where none is), [string]."""
        places = np.arange(1, self.targets.shape[1] + 1)
        return np.where(self.targets != IGNORE, places, 1).max(1, initial=1)

    def read(self, direction: str) -> NDArray[np.int64]:
        """Positions of each string that bear on what is scored [string]: to the last such one, or to the end."""
        if direction == "causal":
            return self.lengths
        return np.full(len(self.inputs), self.inputs.shape[1]) if self.filled is None else self.filled

    def rung_losses(self) -> dict[str, float]:
        """Mean surprise (nats a prediction) of each rung on this very sample, and of the exact law."""
        weight = self.weight[:, None] * (self.targets != IGNORE)
        law = {} if np.isnan(self.law_nll).any() else {"law": self.law_nll}
        every = {**law, **self.rungs}
        return {
            name: float((np.where(weight > 0, nll, 0.0) * weight).sum() / weight.sum()) for name, nll in every.items()
        }


# What a world measures beside loss and excess, a chunk of strings at a time: (logits [S, string, pos, label], target
# [string, pos], where) -> (name, value, mask) with values of every seed and masks without weights.
Measured = Iterator[tuple[str, Tensor, Tensor]]
Measure = Callable[[Tensor, Tensor, "Where"], Measured]


@dataclass(frozen=True)
class Where:
    """Which part of an `EvalSet` logits are of: strings `rows`, positions from `first` to before `used`."""

    rows: slice
    first: int
    used: int

    def of(self, array: NDArray[Any], like: Tensor) -> Tensor:
        """The same part of an array [string, position], on the device of `like`."""
        return torch.from_numpy(array[self.rows, self.first : self.used]).to(like.device)


def plain_set(grammar: Any, count: int, seed: int = 0) -> EvalSet:
    """`count` strings from a stream that no training run uses, with what the grammar knows of them.

    `law_nll(tokens)`, `rungs(tokens)`, `latent_rungs(rng, count)` and `classes(tokens)` of a grammar are optional.
    """
    tokens = drawn(grammar, grammar.draw(generator(seed, "held-out"), count), count)
    tokens, back, counts = np.unique(tokens, axis=0, return_inverse=True, return_counts=True)
    rows, length = tokens.shape
    targets = labelled(grammar, tokens)
    asked = targets != IGNORE

    def wide(array: Any, filler: Any) -> NDArray[Any]:
        return np.pad(np.asarray(array), ((0, 0), (0, even_width(length) - length)), constant_values=filler)

    def known(name: str) -> dict[str, Any]:
        return dict(getattr(grammar, name)(tokens)) if hasattr(grammar, name) else {}

    nothing = np.full((rows, length), np.nan)
    known_law = hasattr(grammar, "law_nll")
    law = surprises(grammar, "law_nll", grammar.law_nll(tokens), asked) if known_law else nothing
    rungs = {name: surprises(grammar, f"rung {name}", nll, asked) for name, nll in known("rungs").items()}
    latent = _latent_rungs(grammar, seed, back.reshape(-1), asked)
    if both := sorted(set(latent) & set(rungs)):
        raise WorldError(f"grammar {quoted(grammar)}: rungs and latent_rungs both have {quoted(both[0])}")
    rungs |= latent
    if "law" in rungs:
        raise WorldError(f"grammar {quoted(grammar)}: a rung cannot be called 'law', which is that of law_nll")
    return EvalSet(
        wide(tokens, int(getattr(grammar, "pad", None) or 0)),
        wide(targets, IGNORE),
        counts.astype(float),
        wide(law, 0.0 if known_law else np.nan),
        classes={name: wide(mask, False) for name, mask in known("classes").items()},
        rungs={name: wide(nll, 0.0) for name, nll in rungs.items()},
        latent=frozenset(latent),
        filled=_filled(tokens, getattr(grammar, "pad", None)),
    )


def _filled(tokens: NDArray[np.int64], pad: int | None) -> NDArray[np.int64]:
    """Positions of each string [string] up to its last token that is not PAD."""
    places = np.arange(1, tokens.shape[1] + 1)
    return np.where(tokens != (-1 if pad is None else pad), places, 1).max(1, initial=1)


def _latent_rungs(
    grammar: Any, seed: int, back: NDArray[np.intp], asked: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """What predictors that know latents give the held-out strings, averaged over equal ones [string, position].

    `back` [draw]: which string each draw is.  `asked` [string, position]: where there is a label.
    """
    if not hasattr(grammar, "latent_rungs"):
        return {}
    found = grammar.latent_rungs(generator(seed, "held-out"), len(back))
    each = {name: surprises(grammar, f"latent rung {name}", nll, asked[back]) for name, nll in found.items()}
    means = {}
    for name, nll in each.items():
        total = np.zeros(asked.shape)
        np.add.at(total, back, nll)
        means[name] = total / np.bincount(back)[:, None]
    return means


def evaluate(template: SandboxTransformer, params: Params, data: EvalSet) -> dict[str, NDArray[np.float64]]:
    """Metrics of every seed, name -> [S]: `loss`, `excess` over the exact law (where one is known), `accuracy`,
    `accuracy_<class>`, and the loss of each rung as `rung/<name>` (the same for every seed).
    """

    def measure(logits: Tensor, target: Tensor, where: Where) -> Measured:
        right = logits.argmax(-1) == target
        yield "accuracy", right, target != IGNORE
        for name, mask in data.classes.items():
            yield f"accuracy_{name}", right, where.of(mask, target) & (target != IGNORE)

    found = evaluate_positions(template, params, data, measure)
    if np.isnan(data.law_nll).any():
        found.pop("excess")
    return found | beside(data.rung_losses(), len(found["loss"]))


def each_sum(values: Float[Tensor, "seed ..."]) -> Float[Tensor, " seed"]:
    """The sum of each seed's numbers, float64. Each alone: one sum of all rounds by how many there are."""
    return torch.stack([one.contiguous().sum() for one in values]).double()


def beside(rungs: Mapping[str, float], seeds: int) -> dict[str, NDArray[np.float64]]:
    """Losses of rungs as measures [S] beside the models': the same for each seed."""
    return {f"rung/{name}": np.full(seeds, loss) for name, loss in rungs.items()}


def evaluate_positions(
    template: SandboxTransformer, params: Params, data: EvalSet, measure: Measure
) -> dict[str, NDArray[np.float64]]:
    """`loss` and `excess` (over the exact law on the same strings) in nats a prediction, and what `measure` gives.

    Every mean is over the predictions that its mask chooses, each string as often as it was drawn; NaN where none is.
    """
    sums: dict[str, Any] = {}

    def add(name: str, value: Tensor, weight: Tensor) -> None:
        old_value, old_weight = sums.get(name, (0.0, 0.0))
        sums[name] = (old_value + each_sum(value * weight), old_weight + weight.sum().double())

    device = next(iter(params.values())).device
    dtype = next(iter(params.values())).dtype
    hooked = is_hooked(template)
    with torch.no_grad():
        read = data.read(template.config.direction)
        for rows in chunks(data, read):
            used = min(even_width(int(read[rows].max())), data.inputs.shape[1])
            inputs = torch.from_numpy(data.inputs[rows, :used]).to(device)
            target = torch.from_numpy(data.targets[rows, :used]).to(device)
            kwargs: dict[str, Any] = dict(_placed(template.config, inputs, read[rows]))
            first = _even_start(data.targets[rows, :used])
            if not hooked:  # an edit may speak of positions before the first that is scored
                kwargs["first"] = first
            if len(inputs) == 1:  # bits of a single row depend on how many seeds there are
                inputs = inputs.expand(2, -1)
            logits = stacked_logits(template, params, inputs, **kwargs)[:, : len(target)]
            logits, target = logits[..., first if hooked else 0 :, :], target[:, first:]
            where = Where(rows, first, used)
            weight = torch.from_numpy(data.weight[rows]).to(device, dtype)[:, None]
            scored = (target != IGNORE) * weight
            index = target.clamp(min=0).expand(logits.shape[:-1])[..., None]
            nll = torch.logsumexp(logits, -1) - logits.gather(-1, index)[..., 0]
            add("loss", nll, scored)
            add("excess", nll - where.of(data.law_nll, target).to(dtype), scored)
            for name, value, mask in measure(logits, target, where):
                add(name, value.to(dtype), mask * weight)
    return {name: (v / w).cpu().numpy() for name, (v, w) in sums.items()}


def _placed(config: TransformerConfig, inputs: Tensor, read: NDArray[np.int64]) -> dict[str, Trusted]:
    """The keyword arguments that place strings [string, pos] in a model: `read` positions each, and then filler."""
    used, device = inputs.shape[1], inputs.device
    found = {}
    if config.bounded:  # trailing PAD may lie beyond the last one: not scored
        found["positions"] = Trusted(torch.arange(used, device=device).clamp(max=config.n_ctx - 1)[None])
    if config.direction != "causal":
        inside = torch.arange(used, device=device) < torch.from_numpy(read).to(device)[:, None]
        itself = torch.eye(used, dtype=torch.bool, device=device)
        found["visible"] = Trusted((visible_keys(inputs, config) & inside[:, None, None]) | itself)
    return found


def even_width(used: int) -> int:
    """Widths at which a seed's bits do not depend on its place in the stack (see `layout.pack`)."""
    return -(-used // 16) * 16


def _even_start(targets: NDArray[np.int64]) -> int:
    """A position before which nothing is scored, such that an even width remains."""
    return int((targets != IGNORE).any(0).argmax()) // 16 * 16


def chunks(data: EvalSet, read: NDArray[np.int64] | None = None) -> list[slice]:
    """Slices of strings (sorted by length) of at most `_CELLS` positions and `_PAIRS` pairs, or two strings.

    `read`: positions of each string that a model is given, by default those to the last that is scored.
    """
    lengths = data.lengths if read is None else read
    found, begin = [], 0
    for i in range(1, len(lengths) + 1):
        cells = 0 if i == len(lengths) else lengths[i] * (i + 1 - begin)
        full = i < len(lengths) and (cells > _CELLS or cells * lengths[i] > _PAIRS)
        if i == len(lengths) or (full and i > begin + 1) or lengths[i] > 1.25 * lengths[begin] + 2:
            found.append(slice(begin, i))
            begin = i
    return found
