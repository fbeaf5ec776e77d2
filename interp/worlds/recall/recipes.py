"""What models that recall are made of and trained by: presets, options, what cannot learn it. Imports no torch."""

from collections.abc import Mapping

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe
from interp.settings import TrainingSettings
from interp.world import Preset
from interp.worlds.recall.grammar import RecallGrammar

OPTIONS = {"symbols": "symbols", "length": "length"}
CONSTRUCTED = {
    "constructed/induction": "layer 0 carries the previous token, layer 1 matches it: exact recall of the last copy"
}


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model that sees the answer, or that cannot tell the last copy from others."""
    c = recipe.config
    if c.direction != "causal":
        raise ConfigError(f"direction={quoted(c.direction)}: what followed an earlier copy is asked of causal models")


def model(grammar: RecallGrammar) -> TransformerConfig:
    """Two layers of one head, learned positions, no MLP (B12: two layers suffice, one layer does not)."""
    return TransformerConfig(
        grammar.vocab_size,
        n_layers=2,
        d_model=48,
        d_head=48,
        d_mlp=48,
        mlp_depth=0,
        positions="learned",
        n_ctx=grammar.length + 1,
        d_vocab_out=grammar.symbols,
    )


PRESETS: Mapping[str, Preset] = {
    "recall": Preset(
        "2 layers of 1 head without MLP: what followed the last earlier copy (layers=1 is the control)",
        model,
        TrainingSettings(steps=300, batch=32, lr=6e-3, eval_every=50),
        RecallGrammar,
    )
}
