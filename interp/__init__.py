"""Mechanistic interpretability of Transformers trained on synthetic grammars, where the truth is known.

Names are imported when first used, so that `import interp` is fast and the command line answers
without loading torch.
"""

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interp.checking import check_world
    from interp.checkpoints import load_checkpoint, save_checkpoint
    from interp.config import TransformerConfig
    from interp.errors import InterpError
    from interp.foreign import load_foreign
    from interp.foreign.arrays import AttentionArrays
    from interp.grammars import CopyGrammar, DyckGrammar, TopicGrammar
    from interp.header import list_pretrained
    from interp.model import SandboxTransformer
    from interp.population import Population
    from interp.registry import get_world, list_worlds
    from interp.training.run import train_population
    from interp.world import World

_HOME = {
    "AttentionArrays": "interp.foreign.arrays",
    "CopyGrammar": "interp.grammars",
    "DyckGrammar": "interp.grammars",
    "InterpError": "interp.errors",
    "Population": "interp.population",
    "SandboxTransformer": "interp.model",
    "TopicGrammar": "interp.grammars",
    "TransformerConfig": "interp.config",
    "World": "interp.world",
    "check_world": "interp.checking",
    "get_world": "interp.registry",
    "list_pretrained": "interp.header",
    "list_worlds": "interp.registry",
    "load_checkpoint": "interp.checkpoints",
    "load_foreign": "interp.foreign",
    "save_checkpoint": "interp.checkpoints",
    "train_population": "interp.training.run",
}

__all__ = [
    "AttentionArrays",
    "CopyGrammar",
    "DyckGrammar",
    "InterpError",
    "Population",
    "SandboxTransformer",
    "TopicGrammar",
    "TransformerConfig",
    "World",
    "check_world",
    "get_world",
    "list_pretrained",
    "list_worlds",
    "load_checkpoint",
    "load_foreign",
    "save_checkpoint",
    "train_population",
]

if "ipykernel.zmqshell" in sys.modules:  # libraries that are loaded later load this, and without ipywidgets it warns
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        importlib.import_module("tqdm.auto")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'interp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
