"""What flip-flop models are made of and trained by: presets, options, and which settings are not read when.

Imports no torch.
"""

from collections.abc import Mapping
from typing import Any

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe, num_labels
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.flipflop.grammar import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.settings import FlipFlopSettings

OPTIONS = {"length": "length", "ignore": "ignore", "writes": "writes", "mode": "mode"}


def settings_of(recipe: Recipe) -> FlipFlopSettings:
    """The settings of a recipe for flip-flops."""
    assert isinstance(recipe.settings, FlipFlopSettings)
    return recipe.settings


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model or settings that cannot learn flip-flops."""
    c, s = recipe.config, settings_of(recipe)
    if c.direction != "causal":
        raise ConfigError(f"direction={quoted(c.direction)} sees later writes, and answers: use 'causal'")
    if s.sharpen != "none" and s.sharpen_from >= s.steps:
        raise ConfigError(f"sharpen_from={s.sharpen_from} is beyond the last of {s.steps} steps: nothing is sharpened")
    if s.sharpen != "none" and c.attention != "learned":
        raise ConfigError(
            f"sharpen={quoted(s.sharpen)} needs attention='learned', not {quoted(c.attention)}: frozen weights, and "
            "weights that are no shares, cannot be sharpened"
        )


def _model(grammar: Any, **changes: Any) -> TransformerConfig:
    base = {"d_vocab": grammar.vocab_size, "d_vocab_out": num_labels(grammar), "n_ctx": grammar.length}
    return TransformerConfig(**{**base, **changes})


def one_layer(grammar: TransductionGrammar) -> TransformerConfig:
    """1 layer, 1 head, width 32, linear positions."""
    return _model(grammar, n_layers=1, d_model=32, d_head=32, d_mlp=32, positions="linear", init_std=0.1)


def two_layers(grammar: FlipFlopGrammar) -> TransformerConfig:
    """2 layers of 2 heads, width 48, learned positions. With one head a layer, a part of the seeds stays where the last
    pairs alone are remembered."""
    sizes = {"n_layers": 2, "n_heads": 2, "d_model": 48, "d_head": 24, "d_mlp": 48}
    return _model(grammar, positions="learned", init_std=0.1, **sizes)


PRESETS: Mapping[str, Preset] = {
    "flipflop-1l1h": Preset(
        "1 layer, 1 head: tells the last write after every token",
        one_layer,
        FlipFlopSettings(steps=400, lr=5e-3, warmup=50, eval_every=200),
        TransductionGrammar,
    ),
    "flipflop": Preset(
        "2 layers of 2 heads: answers the reads of FFL(T, p)",
        two_layers,
        FlipFlopSettings(steps=600, lr=3e-3, warmup=100, eval_every=300),
        FlipFlopGrammar,
    ),
}
CONSTRUCTED: Mapping[str, str] = {
    "constructed/flipflop-reader": "Proposition 3: layer 1 flags written bits, layer 2 finds the last; reads are exact",
    "constructed/flipflop-memory": "Lemma 16: one head attends to the last write; states are exact",
}


def _unsharpened(r: Recipe) -> bool:
    return settings_of(r).sharpen == "none"


UNREAD: tuple[Unread, ...] = (
    Unread(
        tuple(f"settings.sharpen_{part}" for part in ("weight", "schedule", "from", "period", "layers")),
        _unsharpened,
        "attention is not sharpened (sharpen='none')",
        "say sharpen=entropy, l2norm or maximum",
    ),
    Unread(
        ("settings.sharpen", "settings.sharpen_schedule", "settings.sharpen_from", "settings.sharpen_layers"),
        lambda r: settings_of(r).sharpen_weight == 0,
        "sharpen_weight=0 adds nothing",
    ),
    Unread(
        ("settings.sharpen_period",),
        lambda r: settings_of(r).sharpen_schedule != "oscillating",
        "it is for sharpen_schedule='oscillating'",
    ),
    Unread(
        ("settings.sharpen_layers",), lambda r: r.config.n_layers == 1, "the model has one layer", "leave it at 'all'"
    ),
    Unread(
        ("grammar.ignore", "grammar.writes"),
        lambda r: isinstance(r.grammar, FlipFlopGrammar) and r.grammar.length == 4,
        "with length=4 a string is a write and a read, and nothing is drawn but the bit",
        "leave it out, or give a greater length",
    ),
    Unread(
        ("grammar.writes",),
        lambda r: isinstance(r.grammar, FlipFlopGrammar) and set(r.grammar.ignore) == {1.0},
        "with ignore=1 nothing between the first write and the last read is written or read",
    ),
)  # fmt: skip
