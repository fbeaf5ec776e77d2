"""Weights of other people's in our own blocks: checked tensor by tensor, and their rows in a grammar's order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from interp.config import TransformerConfig
from interp.errors import CheckpointError, ConfigError, quoted
from interp.foreign.files import State, check_dense, check_numbers
from interp.foreign.guest import NEVER
from interp.model import SandboxTransformer


@dataclass(frozen=True)
class Ours:
    """A model that our blocks compute: its tensors by our names, and the `settings` that they came with."""

    config: TransformerConfig
    state: State
    settings: dict[str, Any]


def check_tensors(state: State, config: TransformerConfig, source: str) -> None:
    """Make them float32. Raises `CheckpointError` for the first tensor that is missing, unknown or of a wrong shape."""
    with torch.device("meta"):
        expected = {name: tuple(p.shape) for name, p in SandboxTransformer(config).named_parameters()}
    for name, shape in expected.items():
        if name not in state:
            folded = config.norm == "LN" and name.rsplit(".", 1)[-1] in ("w", "b")
            hint = " (weights with folded norms have normalization_type 'LNPre')" if folded else ""
            raise CheckpointError(f"{source}: tensor {quoted(name)} of shape {list(shape)} is missing{hint}")
    for name, tensor in state.items():
        check_dense(name, tensor, source)
        if name not in expected:
            raise CheckpointError(
                f"{source}: tensor {quoted(name)} {list(tensor.shape)} does not belong to this config"
            )
        if tuple(tensor.shape) != expected[name]:
            raise CheckpointError(
                f"{source}: tensor {quoted(name)} has shape {list(tensor.shape)}, and the config needs "
                f"{list(expected[name])}"
            )
        check_numbers(name, tensor, source)
        state[name] = tensor.detach().to("cpu", torch.float32)
        if not bool(state[name].isfinite().all()):  # beyond what float32 holds
            raise CheckpointError(f"{source}: tensor {quoted(name)} holds numbers that are not finite")


def is_classifier(config: TransformerConfig) -> bool:
    """Whether outputs are classes and not tokens: another number of them than of tokens, or names of their own."""
    return config.class_names is not None or config.d_out != config.d_vocab


def check_outputs(config: TransformerConfig, settings: Mapping[str, Any], source: str) -> None:
    """Refuse a model of another number of outputs than of tokens where nobody said that these are classes."""
    said = settings.get("d_vocab_out") not in (None, -1) or config.class_names is not None
    if not said and config.d_out != config.d_vocab:
        raise ConfigError(
            f"{source}: its head gives {config.d_out} outputs and its embedding holds {config.d_vocab} tokens: a "
            f"language model has one output a token; of a classifier pass class_names=[...], {config.d_out} names"
        )


def reordered(
    state: State, order: Sequence[int | None], outputs: Sequence[int | None], config: TransformerConfig
) -> State:
    """Rows of W_E, and columns of W_U where outputs are tokens, in the grammar's order.

    Tokens that are not there are embedded as zero and stand in no input but as PAD, which nothing sees; as outputs
    they stay `NEVER` below the mean logit, so that they take no probability.
    """
    new = dict(state)
    embedding = state["embed.W_E"]
    new["embed.W_E"] = torch.stack([torch.zeros_like(embedding[0]) if at is None else embedding[at] for at in order])
    if not is_classifier(config):
        here = [at for at in outputs if at is not None]
        w, b = state["unembed.W_U"], state["unembed.b_U"]
        mean_w, mean_b = w[:, here].mean(1), b[here].mean() - NEVER
        new["unembed.W_U"] = torch.stack([mean_w if at is None else w[:, at] for at in outputs], dim=1)
        new["unembed.b_U"] = torch.stack([mean_b if at is None else b[at] for at in outputs])
    return new
