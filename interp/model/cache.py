"""`ActivationCache`: that of TransformerLens, where a tool would be wrong of a block refused by name."""

from typing import Any

import transformer_lens
from jaxtyping import Float
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import RequestError, quoted


class ActivationCache(transformer_lens.ActivationCache):
    """Refuses, with a `RequestError`, parts of a stream that is no sum of parts, and norms that cannot be applied."""

    def decompose_resid(self, *args: Any, **kwargs: Any) -> Any:
        """As in TransformerLens: what the embeddings and each layer wrote to the residual stream."""
        check_parts(self._config, "decompose_resid")
        return super().decompose_resid(*args, **kwargs)

    def get_full_resid_decomposition(self, *args: Any, **kwargs: Any) -> Any:
        """As in TransformerLens: what each head, neuron, embedding and bias wrote to the residual stream."""
        check_parts(self._config, "get_full_resid_decomposition")
        return super().get_full_resid_decomposition(*args, **kwargs)

    def apply_ln_to_stack(
        self,
        residual_stack: Float[Tensor, "part *rest d_model"],
        layer: int | None = None,
        mlp_input: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Float[Tensor, "part *rest d_model"]:
        """As in TransformerLens: the norm that the layer reads the stream through, frozen as it was."""
        self._check_norm(layer, mlp_input)
        return super().apply_ln_to_stack(residual_stack, layer, mlp_input, *args, **kwargs)

    def _get_cached_ln_scale(self, layer: int | None, mlp_input: bool, *args: Any, **kwargs: Any) -> Tensor:
        self._check_norm(layer, mlp_input)  # of neurons projected on a direction, which do not come by above
        return super()._get_cached_ln_scale(layer, mlp_input, *args, **kwargs)

    def _check_norm(self, layer: int | None, mlp_input: bool) -> None:
        """Raise `RequestError` where the stream is read through a norm that `cfg` does not tell TransformerLens of."""
        c, count = self._config, self._config.n_layers
        at = count if layer is None or layer == -1 else layer
        if self.model.cfg.normalization_type is None and _read_through_norm(c, at, mlp_input):
            raise RequestError(
                f"apply_ln at layer {at} of {count}: TransformerLens knows the norms of block='gpt2' with a final "
                f"norm, and would leave out the one through which block={quoted(c.block)}, "
                f"final_norm={c.final_norm} reads the stream there: call that norm of the model yourself"
            )

    def apply_slice_to_batch_dim(self, batch_slice: Any) -> "ActivationCache":
        """As in TransformerLens: the same activations of some rows."""
        part = super().apply_slice_to_batch_dim(batch_slice)
        return ActivationCache(part.cache_dict, self.model, has_batch_dim=part.has_batch_dim)

    @property
    def _config(self) -> TransformerConfig:
        model: Any = self.model
        config: TransformerConfig = model.config
        return config


def check_parts(config: TransformerConfig, what: str) -> None:
    """Raise `RequestError` where the residual stream is not the sum of what is written to it."""
    if not config.sums_parts:
        raise RequestError(
            f"{what}: the residual stream of block={quoted(config.block)} is no sum of what embeddings, heads and MLPs "
            "write, as it goes through norms or maps itself"
        )


def _read_through_norm(config: TransformerConfig, layer: int, mlp_input: bool) -> bool:
    """Does what reads the stream at `layer` (n_layers: the unembedding) read it through a norm?"""
    if layer == config.n_layers and not mlp_input:
        return config.ends_in_norm
    if config.norm == "none":
        return False
    return config.block == "gpt2" or (config.block == "authors" and mlp_input)
