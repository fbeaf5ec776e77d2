"""What it costs to replace all that a head gives by its mean: plain forward hooks on a model of transformers.

Nothing of the auditor, of TransformerLens or of a hooked copy is in here. The model is run once; for each head the
layers from its own on are run again from what that layer read, with the head's part of what goes into the output
projection replaced. What comes before the layer cannot change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from case_studies.real_heads.inputs import Bools, Inputs

ROWS = 512  # positions whose logits over all tokens are held at once

Nats = NDArray[np.float64]


@dataclass
class Ablated:
    """A model on some inputs, of which single heads can be taken out.

    `model`: of LLaMA's shape: `model.layers` with `self_attn.o_proj`, `model.norm`, `lm_head`.
    """

    model: Any
    inputs: Inputs
    _entries: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    _means: list[Tensor] = field(default_factory=list)  # a layer: [pos, heads x width], over inputs
    _out: Tensor | None = None

    def __post_init__(self) -> None:
        handles = [
            layer.register_forward_pre_hook(lambda module, args, kwargs: self._entries.append((args, kwargs)),
                                            with_kwargs=True)
            for layer in self.layers
        ] + [
            layer.self_attn.o_proj.register_forward_pre_hook(lambda module, args: self._means.append(args[0].mean(0)))
            for layer in self.layers
        ]  # fmt: skip
        try:
            with torch.no_grad():
                self._out = self.model.model(torch.from_numpy(self.inputs.tokens), use_cache=False).last_hidden_state
        finally:
            for handle in handles:
                handle.remove()

    @property
    def layers(self) -> Sequence[Any]:
        """The decoder's layers."""
        layers: Sequence[Any] = self.model.model.layers
        return layers

    def intact(self, where: Bools | None = None) -> Nats:
        """Mean nats of the next token over the scored positions (or those of `where`), of each input."""
        assert self._out is not None
        return self._nats(self._out, self.inputs.scored if where is None else where)

    def without(self, layer: int, head: int) -> Nats:
        """The same with a head's output replaced by its mean over the inputs, at each position."""
        width = self.model.config.head_dim
        part, mean = slice(head * width, (head + 1) * width), self._means[layer]

        def replaced(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            given = args[0].clone()
            given[..., part] = mean[:, part]
            return (given, *args[1:])

        handle = self.layers[layer].self_attn.o_proj.register_forward_pre_hook(replaced)
        try:
            with torch.no_grad():
                hidden = self._entries[layer][0][0]
                for each, (args, kwargs) in zip(self.layers[layer:], self._entries[layer:], strict=True):
                    out = each(hidden, *args[1:], **kwargs)
                    hidden = out[0] if isinstance(out, tuple) else out
                return self._nats(self.model.model.norm(hidden), self.inputs.scored)
        finally:
            handle.remove()

    def costs(self, heads: Sequence[tuple[int, int]], tick: Callable[[], None] = lambda: None) -> Nats:
        """[head, input]: by how many nats the loss is larger without each head."""
        intact, rows = self.intact(), []
        for layer, head in heads:
            rows.append(self.without(layer, head) - intact)
            tick()
        return np.array(rows).reshape(len(heads), len(intact))

    def _nats(self, hidden: Tensor, where: Bools) -> Nats:
        inputs, places = np.nonzero(where)
        answers = torch.from_numpy(self.inputs.tokens[inputs, places + 1])
        at = hidden[torch.from_numpy(inputs), torch.from_numpy(places)]
        with torch.no_grad():
            each = torch.cat([
                torch.nn.functional.cross_entropy(
                    self.model.lm_head(at[i : i + ROWS]).float(), answers[i : i + ROWS], reduction="none"
                )
                for i in range(0, len(at), ROWS)
            ]).double().numpy()  # fmt: skip
        count = where.sum(1)
        return np.asarray(np.bincount(inputs, each, len(where)) / count)
