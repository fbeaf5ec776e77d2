"""What models of a binary chain are made of and trained by: presets, options, what is not read. Imports no torch."""

from collections.abc import Callable, Mapping
from typing import Any

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.recipe import Recipe
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.binary_chain.grammar import BinaryChain
from interp.worlds.binary_chain.settings import ChainSettings

WIDTH = 8  # of the released code (Markov-Simple), as is the MLP's of four times that
OPTIONS = {"p": "p", "q": "q", "length": "length"}

CONSTRUCTED: Mapping[str, str] = {
    "constructed/chain-unigram-tied": "the unigram point of a tied one-layer model: a local minimum if p + q > 1",
    "constructed/chain-unigram-untied": "the unigram point of an untied one-layer model: a saddle",
    "constructed/chain-bigram": "rank-one weights of a tied one-layer model that give the exact law",
}


def settings_of(recipe: Recipe) -> ChainSettings:
    """The settings of a recipe for models of a binary chain."""
    assert isinstance(recipe.settings, ChainSettings)
    return recipe.settings


def one_layer(unembed: str, **changes: Any) -> Callable[[BinaryChain], TransformerConfig]:
    """The slides' model (L1853-1862): x + attention(x), then y + W_2 ReLU(W_1 y); no norm, learned positions.

    With a softmax of two outputs in the place of their sigmoid: e = W_E[1] - W_E[0], a = W_U[:, 1] - W_U[:, 0],
    b = b_U[1] - b_U[0], and W_E[0] is part of every position's vector. Tied, a = e.
    """

    def model(grammar: BinaryChain) -> TransformerConfig:
        base: dict[str, Any] = {
            "n_layers": 1,
            "n_heads": 1,
            "d_model": WIDTH,
            "d_head": WIDTH,
            "d_mlp": 4 * WIDTH,
            "norm": "none",
            "activation": "relu",
            "positions": "learned",
            "n_ctx": grammar.length,
            "unembed": unembed,
        }
        return TransformerConfig(grammar.vocab_size, **{**base, **changes})

    return model


# The slides give no setting. Plain SGD shows what the landscape does; short strings keep a seed at a few CPU seconds.
SETTINGS = ChainSettings(
    steps=2000, batch=32, lr=0.05, optimizer="sgd", schedule="constant", eval_every=100
)  # fmt: skip

PRESETS: Mapping[str, Preset] = {
    "binary-chain": Preset(
        "1-layer ReLU model without norms, tied embeddings", one_layer("tied"), SETTINGS, BinaryChain
    ),
    "binary-chain-untied": Preset(
        "binary-chain with an unembedding of its own", one_layer("learned"), SETTINGS, BinaryChain
    ),
}


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model that the start asked for has no weights for."""
    if settings_of(recipe).start == "canonical":
        check_canonical(recipe.config)


def check_canonical(config: TransformerConfig) -> None:
    """Raise `ConfigError` for a model that the canonical weights do not describe."""
    c = config
    needed = {"block": "gpt2", "norm": "none", "activation": "relu", "embedding": "learned"}
    for name, value in needed.items():
        if getattr(c, name) != value:
            raise ConfigError(f"{name}={quoted(getattr(c, name))}: canonical weights need {quoted(value)}")
    if (c.n_layers, c.mlp_depth) != (1, 2) or c.d_mlp % 2:
        raise ConfigError(
            f"n_layers={c.n_layers}, mlp_depth={c.mlp_depth}, d_mlp={c.d_mlp}: canonical weights need one layer, an "
            "MLP of two maps and an even number of hidden units"
        )
    if c.unembed == "identity" or not (c.biases and c.unembed_bias):
        raise ConfigError(
            f"unembed={quoted(c.unembed)}, biases={c.biases}, unembed_bias={c.unembed_bias}: canonical weights need a "
            "learned or tied unembedding with a bias"
        )


UNREAD: tuple[Unread, ...] = (
    Unread(
        ("settings.start_e", "settings.start_w"),
        lambda r: settings_of(r).start != "canonical",
        "it is for start='canonical'",
    ),
    Unread(
        ("settings.trained",),
        lambda r: not r.config.biases,
        "the model has no biases (biases=False)",
    ),
)
