"""What a pruned network is compared with its target on, and how: random inputs, Dyck strings, closing accuracy."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interp.grammars import CopyGrammar, DyckGrammar
from interp.model import SandboxTransformer
from interp.presets import TrainingSettings
from interp.rng import generator
from interp.stats import Estimate, bootstrap_mean, clopper_pearson
from interp.training.evaluate import RULES, EvalSet, closing_rules, held_out, rule_floors
from probes._subset_sum import Array
from probes._ticket_run import input_stream, largest_column, target_stream

POSITIONS = 16  # of a random input
SMALLEST = 1e-3  # norm of a small random input: log-uniform from here to 1


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
        """Of each input |T'(X) - T(X)| over |X|, the theorem's epsilon, and over |T(X)|, in its 1,2-norm: [batch]."""
        gap = largest_column((found[..., : self.wanted.shape[-1]].double() - self.wanted) * self.real)
        over = largest_column(self.x * self.real), largest_column(self.wanted * self.real)
        return (gap / over[0]).numpy(), (gap / over[1].clamp(min=1e-12)).numpy()


def random_inputs(model: SandboxTransformer, count: int, seed: int) -> dict[str, Inputs]:
    """Columns in random directions: `random` of norm 1, `small` of one norm below 1 for all columns of an input.

    The theorem speaks of all norms up to 1. Small inputs are its hard part: 1/C of the norm multiplies their error.
    """
    source = generator(seed, "lottery/inputs")
    x = source.standard_normal((count, POSITIONS, model.config.d_model))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    radius = SMALLEST ** source.random((count, 1, 1))
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


def evaluation_set(model: SandboxTransformer, count: int, seed: int) -> EvalSet | str:
    """Held-out strings of the target's own data law, or why closing accuracy has no meaning for it."""
    grammar = model.grammar
    if not isinstance(grammar, DyckGrammar) or isinstance(grammar, CopyGrammar):
        return "the target carries no Dyck grammar"
    if grammar.num_types < 2:
        return "one type of brackets leaves nothing to get right"
    about = model.provenance
    if "settings" in about:
        s = TrainingSettings.from_dict(about["settings"])
        law = {"data": s.data, "min_length": s.min_length, "max_length": s.max_length, "length": s.length}
        return held_out(grammar, count, seed=seed, **law)  # type: ignore[arg-type]
    proven = about.get("proven_length")
    return held_out(grammar, count, seed=seed, max_length=min(26, proven) if isinstance(proven, int) else 26)


@dataclass(frozen=True, eq=False)
class Closing:
    """Closing accuracy by every rule; `right` [strings, pos] by the argmax rule, False where nothing is closed."""

    by_rule: dict[str, float | None]
    right: np.ndarray


def closing_accuracy(logits: Tensor, data: EvalSet) -> Closing:
    """Accuracy of `logits` [strings, pos, vocab], strings weighted by how often they were drawn."""
    verdicts = closing_rules(logits, torch.from_numpy(data.targets), data.num_types)
    out: dict[str, float | None] = {}
    for kind, where in (("", data.closer), ("_nontrivial", data.nontrivial)):
        weight = where * data.weight[:, None]
        for rule in RULES:
            total = float(weight.sum())
            out[rule + kind] = float((verdicts[rule].numpy() * weight).sum() / total) if total else None
    return Closing(out, verdicts["argmax"].numpy() & data.closer)


def floors(data: EvalSet) -> dict[str, float | None]:
    """What "close the token before if it is an opener, else guess" scores."""
    return dict(rule_floors(data))


def accuracy_gap(target: Closing, pruned: Closing, data: EvalSet, seed: int) -> Estimate:
    """Argmax closing accuracy of the target minus that of the pruned network; interval over strings.

    Where no string is closed differently a bootstrap sees no spread: the interval then comes from the exact
    bound on the share of strings that would be.
    """
    times = data.weight.astype(int)
    closers = np.repeat(data.closer.sum(1), times)
    lost = np.repeat(target.right.sum(1) - pruned.right.sum(1), times) / closers.mean()
    if np.any(lost):
        return bootstrap_mean(lost, seed, stream="lottery/gap")
    share = clopper_pearson(0, len(lost)).high
    assert share is not None
    bound = share * float(closers.max() / closers.mean())
    return Estimate(0.0, -bound, bound, len(lost), "inputs")
