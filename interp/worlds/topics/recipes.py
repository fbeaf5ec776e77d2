"""What topic models are made of and trained by: presets, options, and which settings are not read when.

Imports no torch.
"""

from collections.abc import Mapping
from typing import Any

from interp.config import TransformerConfig
from interp.errors import ConfigError, InterpError, quoted
from interp.numbers import power
from interp.recipe import Recipe
from interp.unread import Unread
from interp.world import Preset
from interp.worlds.topics.grammar import TopicGrammar
from interp.worlds.topics.settings import TopicSettings

MOST_EXACT = 5 * 10**7  # numbers of the exact law held at once
OPTIONS = {
    "topics": "num_topics",
    "words": "words_per_topic",
    **{
        name: name
        for name in (
            *("law", "alpha", "topics_per_document", "min_length", "max_length"),
            *("mask_prob", "keep_prob", "random_prob"),
        )
    },
}


def grammar_of(recipe: Recipe) -> TopicGrammar:
    """The grammar of a recipe for topic models."""
    assert isinstance(recipe.grammar, TopicGrammar)
    return recipe.grammar


def settings_of(recipe: Recipe) -> TopicSettings:
    """The settings of a recipe for topic models."""
    assert isinstance(recipe.settings, TopicSettings)
    return recipe.settings


def check(recipe: Recipe) -> None:
    """Raise `ConfigError` for a model or settings that cannot learn topics."""
    c, s, grammar = recipe.config, settings_of(recipe), grammar_of(recipe)
    shape = (c.block, c.norm, c.positions, c.direction, c.n_heads)
    if shape != ("bare", "none", "none", "bidirectional", 1):
        raise ConfigError(
            f"block={quoted(c.block)}, norm={quoted(c.norm)}, positions={quoted(c.positions)}, "
            f"direction={quoted(c.direction)}, "
            f"n_heads={c.n_heads}: topic models train with 'bare', 'none', 'none', 'bidirectional' and 1"
        )
    if c.pad_token is not None:
        raise ConfigError(f"pad_token={c.pad_token}: documents have no padding, and every token is a word or [MASK]")
    if c.attention == "linear":
        raise ConfigError("attention='linear': topic models train with 'learned' (softmax) or 'uniform'")
    if s.trained == "attention" and c.attention == "uniform":
        raise ConfigError("trained='attention' needs attention='learned': a uniform one has no W_Q, W_K")
    if s.trained == "embedding" and c.embedding != "learned":
        raise ConfigError(f"trained='embedding' needs embedding='learned', not {quoted(c.embedding)}")
    if s.start in ("block", "diagonal", "identity") and c.d_head != c.d_model:
        raise ConfigError(f"start={quoted(s.start)} needs a square W_V, not {c.d_model} x {c.d_head}")
    if s.start in ("block", "diagonal") and (c.embedding, c.unembed) != ("onehot", "identity"):
        raise ConfigError(f"start={quoted(s.start)} is known for embedding='onehot' with unembed='identity' only")
    if (s.start == "zero" and c.unembed == "tied") or (s.start in ("zero", "identity") and s.trained == "attention"):
        raise ConfigError(
            f"start={quoted(s.start)} with trained={quoted(s.trained)}, unembed={quoted(c.unembed)} is where every "
            "gradient is 0: "
            "nothing would train; start at random"
        )
    if s.trained != "all" and s.weight_decay:
        raise ConfigError(f"weight_decay={s.weight_decay} would change what trained={quoted(s.trained)} leaves alone")
    if s.start in ("block", "diagonal", "identity"):
        _check_theory(s.start, grammar)
    if s.data == "exact":
        sets = len(grammar.topic_subsets())  # refuses what has no finite law
        rows = 1 if c.attention == "uniform" else grammar.vocab_size
        if sets * rows * grammar.vocab_size > MOST_EXACT:
            raise ConfigError(
                f"data='exact' with {sets} sets of topics and {grammar.num_words} words needs "
                f"{power(sets * rows * grammar.vocab_size)} numbers a step, and {power(MOST_EXACT, 0)} are the "
                "most: draw documents"
            )


def _check_theory(start: str, grammar: TopicGrammar) -> None:
    from interp.worlds.topics.theory import TopicTheory

    try:
        TopicTheory.from_grammar(grammar)
    except InterpError as error:
        raise ConfigError(f"start={quoted(start)} comes from the theory, and {error}") from error


# -- presets --------------------------------------------------------------------------------------------


def _model(**changes: Any) -> Any:
    """One head, no residual link, norm, MLP or positions (thesis eq. 2.7)."""

    def model(grammar: TopicGrammar) -> TransformerConfig:
        width = grammar.vocab_size
        base: dict[str, Any] = {
            "d_vocab": width,
            "n_layers": 1,
            "d_model": width,
            "d_head": width,
            "mlp_depth": 0,
            "block": "bare",
            "norm": "none",
            "direction": "bidirectional",
            "embedding": "onehot",
            "unembed": "identity",
            "biases": False,
        }
        return TransformerConfig(**{**base, **changes})

    return model


def _settings(**changes: Any) -> TopicSettings:
    base = {"steps": 1500, "batch": 40, "lr": 1e-2, "schedule": "constant", "eval_every": 300}
    return TopicSettings(**{**base, **changes})


PRESETS: Mapping[str, Preset] = {
    "topic-value": Preset(
        "one-hot topic model with attention frozen uniform: only W_V",
        _model(attention="uniform"),
        _settings(),
        TopicGrammar,
    ),
    "topic-embedding": Preset(
        "topic model with tied embeddings, attention uniform, W_V the identity: only W_E",
        _model(attention="uniform", embedding="learned", unembed="tied", biases=True),
        _settings(start="identity", trained="embedding"),
        TopicGrammar,
    ),
    "topic-joint": Preset("one-hot topic model: W_Q, W_K and W_V", _model(), _settings(), TopicGrammar),
    "topic-full": Preset(
        "topic model with tied embeddings: W_E, W_Q, W_K and W_V",
        _model(embedding="learned", unembed="tied"),
        _settings(),
        TopicGrammar,
    ),
}


# -- what is not read -----------------------------------------------------------------------------------


def _no_chance(r: Recipe) -> bool:
    """Is every weight that training starts from written down?"""
    c, start = r.config, settings_of(r).start
    if start in ("block", "diagonal", "identity"):  # W_V; of the identity also W_Q and W_K
        return c.embedding != "learned" and (c.attention == "uniform" or start == "identity")
    return start == "zero"


UNREAD: tuple[Unread, ...] = (
    Unread(("grammar.alpha",), lambda r: grammar_of(r).law == "idealised", "it is for law='lda'"),
    Unread(("grammar.topics_per_document",), lambda r: grammar_of(r).law == "lda", "it is for law='idealised'"),
    Unread(
        ("grammar.min_length", "grammar.max_length", "settings.batch"),
        lambda r: settings_of(r).data == "exact",
        "data='exact' trains on the infinite documents of all sets of topics at once",
    ),
    Unread(
        ("config.scale_scores", "config.attn_scale"),
        lambda r: settings_of(r).start in ("zero", "identity"),
        "W_Q and W_K start at 0, where both have no gradient: attention stays uniform",
    ),
    Unread(("config.init_std",), _no_chance, "no weight starts at random: start says what each is"),
    Unread(
        ("settings.crossed",),
        lambda r: _no_chance(r) and settings_of(r).data == "exact",
        "no weight starts at random and nothing is drawn: all seeds are the same",
    ),
)
