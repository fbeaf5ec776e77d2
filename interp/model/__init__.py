"""The hooked model."""

from interp.model.transformer import SandboxTransformer

__all__ = ["SandboxTransformer"]
