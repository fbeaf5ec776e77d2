"""What a pruned network is compared with its target on, and how: random inputs, Dyck strings, closing accuracy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.errors import AnalysisError
from interp.grammars import CopyGrammar, DyckGrammar
from interp.limits import check_memory
from interp.model import SandboxTransformer
from interp.numbers import power
from interp.rng import generator
from interp.stats import Estimate, Support
from interp.worlds.dyck.evaluate import RULES, BracketSet, closing_rules, held_out, rule_floors
from interp.worlds.dyck.settings import DyckSettings
from probes.core import clopper_pearson
from probes.lottery.runner import input_stream, largest_column, target_stream
from probes.lottery.subset_sum import Array
from probes.lottery.ticket import Sizes

Counts = NDArray[np.int64]
POSITIONS = 16  # of a random input
SMALL_NORM = 1e-3  # of a small random input: log-uniform from here to 1
LONGEST = 26  # brackets, of targets that name no law
NETWORK_BYTES = 20  # a weight, in float64, with its masks and those of a control
DRAWS = 2000  # of a bootstrap


@dataclass(frozen=True, eq=False)
class Inputs:
    """Streams x [batch, pos, m], what each query sees, which positions are real, and the target's last stream."""

    x: Tensor
    visible: Tensor
    real: Tensor  # [batch, pos, 1]
    wanted: Tensor

    @property
    def size(self) -> int:
        """How many inputs."""
        return len(self.x)

    def errors(self, found: Tensor) -> tuple[Array, Array]:
        """Of each input |T'(X) - T(X)| over |X|, the theorem's epsilon, and over |T(X)|, in its 1,2-norm: [batch].

        0 / 0 is NaN, and more than 0 over 0 infinite.
        """
        gap = largest_column((found[..., : self.wanted.shape[-1]].double() - self.wanted) * self.real).numpy()
        over = largest_column(self.x * self.real).numpy(), largest_column(self.wanted * self.real).numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            return gap / over[0], gap / over[1]


def largest(errors: Array) -> float:
    """The largest, inputs of 0 / 0 aside; NaN where there is no other."""
    known = errors[~np.isnan(errors)]
    return float(known.max()) if known.size else float("nan")


def random_inputs(model: SandboxTransformer, count: int, seed: int) -> dict[str, Inputs]:
    """Columns in random directions: `random` of norm 1, `small` of one norm below 1 for all columns of an input.

    The theorem speaks of all norms up to 1. Small inputs are its hard part: 1/C of the norm multiplies their error.
    """
    source = generator(seed, "lottery/inputs")
    x = source.standard_normal((count, POSITIONS, model.config.d_model))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    radius = SMALL_NORM ** source.random((count, 1, 1))
    visible = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool)
    visible = visible.tril() if model.config.direction == "causal" else visible
    seen = visible.expand(count, 1, -1, -1)
    return {
        kind: _inputs(model, torch.from_numpy(given), seen, None)
        for kind, given in (("random", x), ("small", x * radius))
    }


def token_inputs(model: SandboxTransformer, tokens: Tensor) -> Inputs:
    """Token ids [batch, pos], PAD on the right."""
    pad = model.config.pad_token
    real = torch.ones(tokens.shape, dtype=torch.bool) if pad is None else tokens != pad
    with torch.no_grad():
        x = input_stream(model, tokens).double()
    return _inputs(model, x, model.visible_keys(tokens), real)


def _inputs(model: SandboxTransformer, x: Tensor, visible: Tensor, real: Tensor | None) -> Inputs:
    """`model` in float64."""
    with torch.no_grad():
        wanted, _ = target_stream(model, x, visible)
    real = torch.ones(x.shape[:2], dtype=torch.bool) if real is None else real
    return Inputs(x, visible, real[..., None].double(), wanted)


def data_law(model: SandboxTransformer) -> dict[str, Any] | str:
    """The law of the target's strings, cut to what its n_ctx admits; or why closing accuracy has no meaning for it."""
    grammar = model.grammar
    if not isinstance(grammar, DyckGrammar) or isinstance(grammar, CopyGrammar):
        return "the target carries no Dyck grammar"
    if grammar.num_types < 2:
        return "one type of brackets leaves nothing to get right"
    settings = model.provenance.get("settings")
    if settings is None:
        proven: Any = model.provenance.get("proven_length")
        whole = isinstance(proven, int) and not isinstance(proven, bool)
        s = DyckSettings(max_length=proven if whole and 2 <= proven < LONGEST else LONGEST)
    elif isinstance(settings, Mapping):
        if settings.get("data", "complete") not in ("complete", "prefix"):
            return f"the target's settings say data={settings['data']!r}, which are no strings of brackets"
        s = DyckSettings.from_dict(settings)
    else:
        raise AnalysisError(
            f"lottery ticket: provenance['settings'] of the target is {type(settings).__name__!r} and not a mapping: "
            "give its training settings, or delete the key"
        )
    most = model.config.n_ctx - 1  # START takes one position
    least = s.min_length if s.data == "complete" else 1
    if most < least:
        return f"n_ctx={most + 1} of the target has no room for START and {least} brackets"
    if s.data == "prefix":
        return {"data": s.data, "length": min(s.length, most)}
    return {"data": s.data, "min_length": s.min_length, "max_length": min(s.max_length, most)}


def evaluation_set(model: SandboxTransformer, count: int, seed: int) -> BracketSet | str:
    """Held-out strings of `data_law`, or why there are none."""
    law = data_law(model)
    assert model.grammar is not None or isinstance(law, str)
    # A dict of mixed values: mypy cannot tell which belongs to which argument.
    return law if isinstance(law, str) else held_out(model.grammar, count, seed=seed, **law)  # type: ignore[arg-type]


def check_room(model: SandboxTransformer, sizes: Sizes, weights: int, num_inputs: int, data: int | BracketSet) -> None:
    """Refuse what has no room beside a network of so many `weights`: random inputs, and strings of brackets.

    `data`: how many strings are to be drawn, or those that were, each distinct one once.
    """
    # Of a position, in the streams of both; what is masked of the network's is never computed.
    column = 8 * ((sizes.d_model + sizes.d_mlp) // 4 + 5 * model.config.d_model)
    need = NETWORK_BYTES * weights + num_inputs * POSITIONS * column
    if isinstance(data, int):
        law = data_law(model)
        longest = 0 if isinstance(law, str) else int(law.get("max_length", law.get("length", 0)))
        strings, need = f"{data} strings", need + 80 * data * (longest + 2)
    else:
        strings, need = f"{len(data.inputs)} distinct strings", need + data.inputs.size * column
    check_memory(
        f"a network of {power(weights)} weights with {num_inputs} random inputs and {strings}", need,
        "give fewer of them (num_inputs, num_strings), or fewer candidates",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Closing:
    """Closing accuracy by every rule; `right` [strings, pos] by rule, which means something at closers only."""

    by_rule: dict[str, float | None]
    right: dict[str, NDArray[np.bool_]]


def closing_accuracy(logits: Tensor, data: BracketSet) -> Closing:
    """Accuracy of `logits` [strings, pos, vocab], strings weighted by how often they were drawn."""
    verdicts = closing_rules(logits, torch.from_numpy(data.targets), data.num_types)
    right = {rule: verdicts[rule].numpy() for rule in RULES}
    out: dict[str, float | None] = {}
    for kind, where in _KINDS.items():
        weight = where(data) * data.weight[:, None]
        for rule in RULES:
            total = float(weight.sum())
            out[rule + kind] = float((right[rule] * weight).sum() / total) if total else None
    return Closing(out, right)


_KINDS: dict[str, Callable[[BracketSet], NDArray[np.bool_]]] = {
    "": lambda data: data.closer,
    "_nontrivial": lambda data: data.nontrivial,
}


def floors(data: BracketSet) -> dict[str, float | None]:
    """What "close the token before if it is an opener, else guess" scores."""
    return dict(rule_floors(data))


def accuracy_by_rule(found: Closing, data: BracketSet, seed: int) -> dict[str, Estimate]:
    """Closing accuracy by rule, with intervals over strings."""
    out = {}
    for kind, where in _KINDS.items():
        for rule in RULES:
            of = where(data)
            hits = found.right[rule] & of
            out[rule + kind] = ratio(hits.sum(1), of.sum(1), data, seed, f"lottery/{rule}{kind}", (0.0, 1.0))
    return out


def accuracy_gap(target: Closing, other: Closing, data: BracketSet, seed: int) -> Estimate:
    """Argmax closing accuracy of the target minus that of another network on the same strings."""
    lost = (target.right["argmax"] & data.closer).sum(1) - (other.right["argmax"] & data.closer).sum(1)
    return ratio(lost, data.closer.sum(1), data, seed, "lottery/gap", (-1.0, 1.0))


def ratio(hits: Counts, of: Counts, data: BracketSet, seed: int, stream: str, support: Support) -> Estimate:
    """Sum of `hits` over sum of `of`, each [distinct strings]; percentile bootstrap over strings, cut to `support`.

    Strings are resampled as they were drawn, a distinct one as often as it was. Where all agree a bootstrap sees no
    spread: the interval then comes from the exact bound on the share of strings that would not.
    """
    units = np.repeat(np.stack([hits, of], axis=1).astype(np.float64), data.weight.astype(int), axis=0)
    size, total = len(units), units.sum(0)
    if total[1] == 0:
        return Estimate.undefined("no bracket is closed in these strings", size, "inputs")
    value = total[0] / total[1]
    if size == 1:
        return Estimate(value, None, None, 1, "inputs", reason="one input alone gives no interval")
    if np.array_equal(units[:, 0], value * units[:, 1]):
        share = clopper_pearson(0, size).high
        assert share is not None
        bound = share * float(units[:, 1].max() / units[:, 1].mean())
        ends = [value - bound, value + bound]
    else:
        ends = _quantiles(units, generator(seed, stream))
    low, high = (min(max(end, support[0]), support[1]) for end in ends)
    return Estimate(value, low, high, size, "inputs")


def _quantiles(units: Array, source: np.random.Generator) -> list[float]:
    """The 95 % interval of a ratio of sums over rows of `units` [n, 2], drawn again with replacement."""
    size, means = len(units), []
    step = max(1, 2**20 // size)
    for first in range(0, DRAWS, step):
        drawn = units[source.integers(0, size, (min(step, DRAWS - first), size))].sum(1)
        means.append(drawn[drawn[:, 1] > 0])
    sums = np.concatenate(means)
    return [float(x) for x in np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])]
