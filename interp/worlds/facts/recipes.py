"""What models of facts are made of and trained by: presets, options, what is not read. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.facts.grammar import FactsGrammar
from interp.worlds.facts.settings import FactsSettings

OPTIONS = {name: name for name in ("subjects", "relations", "answers", "noise", "length", "table_seed")}
CONSTRUCTED: Mapping[str, str] = {
    "constructed/facts": "one head reads the subject, one the relation, and their values add up to the answer: exact"
}
SLIDES: Mapping[str, Any] = {
    "n_layers": 1, "n_heads": 1, "block": "bare", "mlp_depth": 0, "norm": "none", "embedding": "onehot",
    "positions": "none", "attention": "linear", "unembed": "identity", "biases": False, "scale_scores": False,
}  # fmt: skip


def settings_of(recipe: Recipe) -> FactsSettings:
    """The settings of a recipe for facts."""
    assert isinstance(recipe.settings, FactsSettings)
    return recipe.settings


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model that is not a causal one, or that the slides' first weights do not describe."""
    c, s = recipe.config, settings_of(recipe)
    if c.direction != "causal":
        raise ConfigError(f"direction={quoted(c.direction)}: facts are asked of causal models, at END")
    if s.start == "slides":
        for name, value in SLIDES.items():
            if getattr(c, name) != value:
                raise ConfigError(f"{name}={quoted(getattr(c, name))}: start='slides' needs {quoted(value)}")
    if s.weight_decay and (s.start == "slides" or s.trained == "maps"):
        given = f"start={quoted(s.start)}, trained={quoted(s.trained)}"
        raise ConfigError(f"weight_decay={s.weight_decay} would change what {given} leaves alone")


def _model(grammar: FactsGrammar, **changes: Any) -> TransformerConfig:
    base: dict[str, Any] = {
        "d_vocab": grammar.vocab_size,
        "n_layers": 1,
        "n_heads": 4,
        "d_model": 64,
        "d_head": 16,
        "d_mlp": 64,
        "n_ctx": grammar.length,
        "d_vocab_out": grammar.outputs,
        "class_names": grammar.label_names,
        "init_std": 0.1,
    }
    return TransformerConfig(**{**base, **changes})


def with_mlp(grammar: FactsGrammar) -> TransformerConfig:
    """One layer of 4 heads and an MLP, width 64, no positions: places say nothing."""
    return _model(grammar)


def attention_only(grammar: FactsGrammar) -> TransformerConfig:
    """The same without the MLP."""
    return _model(grammar, mlp_depth=0)


def linear(grammar: FactsGrammar) -> TransformerConfig:
    """The slides' model: logits = sum over tokens z of w_KQ(z) W_OV(., z), one-hot tokens, no softmax."""
    sizes = {"d_model": grammar.vocab_size, "d_head": grammar.outputs, "d_mlp": grammar.outputs}
    return _model(grammar, **sizes, **SLIDES)


PRESETS: Mapping[str, Preset] = {
    "facts": Preset(
        "1 layer of 4 heads and an MLP: the answer of a subject and a relation among noise",
        with_mlp,
        FactsSettings(steps=200, batch=48, lr=5e-3, warmup=30, eval_every=50),
        FactsGrammar,
    ),
    "facts-attention": Preset(
        "facts without the MLP",
        attention_only,
        FactsSettings(steps=200, batch=48, lr=4e-3, warmup=30, eval_every=50),
        FactsGrammar,
    ),
    "facts-linear": Preset(
        "linear attention on one-hot tokens from tiny weights, SGD: the model of the slides' theorem",
        linear,
        FactsSettings(
            steps=400, batch=64, lr=2.0, optimizer="sgd", schedule="constant", eval_every=100, start="slides"
        ),
        FactsGrammar,
    ),
}  # fmt: skip

UNREAD: tuple[Unread, ...] = (
    Unread(
        ("settings.trained",),
        lambda r: settings_of(r).start == "slides",
        "start='slides' trains W_K and W_V alone",
    ),
    Unread(
        ("settings.trained",),
        lambda r: r.config.embedding == "onehot" and r.config.unembed == "identity",
        "embedding and unembedding are frozen anyway",
    ),
    Unread(("settings.alpha",), lambda r: settings_of(r).start != "slides", "it is for start='slides'"),
    Unread(
        ("config.init_std",),
        lambda r: settings_of(r).start == "slides",
        "start='slides' draws no weight",
        "leave it out, or say start=drawn",
    ),
)
