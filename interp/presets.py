"""Presets: a grammar, a model and training settings under one name. Imports no torch."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from interp.checks import plain, whole_number
from interp.config import TransformerConfig, oracle_width
from interp.errors import ConfigError, InterpError, RequestError, quoted
from interp.grammars import CopyGrammar, DyckGrammar, Grammar, TopicGrammar
from interp.numbers import power
from interp.settings import TrainingSettings
from interp.unread import changed_fields, refuse_unread

MOST_EXACT = 5 * 10**7  # numbers of the exact law held at once


@dataclass(frozen=True)
class Recipe:
    """All that decides what a population becomes, apart from its seeds."""

    name: str
    grammar: Grammar
    config: TransformerConfig
    settings: TrainingSettings

    def __post_init__(self) -> None:
        if self.config.d_vocab != self.grammar.vocab_size or self.config.d_out != self.grammar.vocab_size:
            raise ConfigError(
                f"d_vocab={self.config.d_vocab}, d_out={self.config.d_out} do not fit the grammar's "
                f"vocabulary of {self.grammar.vocab_size}"
            )
        if isinstance(self.grammar, TopicGrammar):
            self._check_topics(self.grammar)
        else:
            self._check_brackets(self.dyck)

    @property
    def dyck(self) -> DyckGrammar:
        """The grammar, where it is one of brackets; else a `RequestError`."""
        if not isinstance(self.grammar, DyckGrammar):
            raise RequestError(f"recipe {quoted(self.name)} is for topic models, and a bracket grammar is needed")
        return self.grammar

    def _check_topics(self, grammar: TopicGrammar) -> None:
        c, s = self.config, self.settings
        if s.data not in ("documents", "exact"):
            raise ConfigError(f"data={quoted(s.data)} is for brackets: topic models train on 'documents' or 'exact'")
        shape = (c.block, c.norm, c.positions, c.direction, c.n_heads)
        if shape != ("bare", "none", "none", "bidirectional", 1):
            raise ConfigError(
                f"block={quoted(c.block)}, norm={quoted(c.norm)}, positions={quoted(c.positions)}, "
                f"direction={quoted(c.direction)}, "
                f"n_heads={c.n_heads}: topic models train with 'bare', 'none', 'none', 'bidirectional' and 1"
            )
        if c.pad_token is not None:
            raise ConfigError(
                f"pad_token={c.pad_token}: documents have no padding, and every token is a word or [MASK]"
            )
        if s.compute != "attention":
            raise ConfigError(f"compute={quoted(s.compute)} is for brackets: topic models always train on counts")
        if s.contrastive or s.targets != "all":
            raise ConfigError("contrastive and targets are for brackets: topic models predict the chosen positions")
        if s.trained == "attention" and c.attention == "uniform":
            raise ConfigError("trained='attention' needs attention='learned': a uniform one has no W_Q, W_K")
        if s.trained == "embedding" and c.embedding != "learned":
            raise ConfigError(f"trained='embedding' needs embedding='learned', not {quoted(c.embedding)}")
        if s.start in ("block", "diagonal", "identity") and c.d_head != c.d_model:
            raise ConfigError(f"start={quoted(s.start)} needs a square W_V, not {c.d_model} x {c.d_head}")
        if s.start in ("block", "diagonal") and (c.embedding, c.unembed) != ("onehot", "identity"):
            raise ConfigError(f"start={quoted(s.start)} is known for embedding='onehot' with unembed='identity' only")
        if (s.start == "zero" and c.unembed == "tied") or (
            s.start in ("zero", "identity") and s.trained == "attention"
        ):
            raise ConfigError(
                f"start={quoted(s.start)} with trained={quoted(s.trained)}, unembed={quoted(c.unembed)} is where every "
                "gradient is 0: "
                "nothing would train; start at random"
            )
        if s.trained != "all" and s.weight_decay:
            raise ConfigError(
                f"weight_decay={s.weight_decay} would change what trained={quoted(s.trained)} leaves alone"
            )
        if s.start in ("block", "diagonal", "identity"):
            self._check_theory(grammar)
        if s.data == "exact":
            sets = len(grammar.topic_subsets())  # refuses what has no finite law
            rows = 1 if c.attention == "uniform" else grammar.vocab_size
            if sets * rows * grammar.vocab_size > MOST_EXACT:
                raise ConfigError(
                    f"data='exact' with {sets} sets of topics and {grammar.num_words} words needs "
                    f"{power(sets * rows * grammar.vocab_size)} numbers a step, and {power(MOST_EXACT, 0)} are the "
                    "most: draw documents"
                )

    def _check_theory(self, grammar: TopicGrammar) -> None:
        from interp.topic_theory import TopicTheory

        try:
            TopicTheory.from_grammar(grammar)
        except InterpError as error:
            raise ConfigError(f"start={quoted(self.settings.start)} comes from the theory, and {error}") from error

    def _check_brackets(self, grammar: DyckGrammar) -> None:
        s = self.settings
        if s.data not in ("complete", "prefix"):
            raise ConfigError(
                f"data={quoted(s.data)} is for topic models: bracket models train on 'complete' or 'prefix'"
            )
        if s.start != "random" or s.trained != "all":
            raise ConfigError(f"start={quoted(s.start)}, trained={quoted(s.trained)} are for topic models")
        if s.compute == "counts" and not self.config.counts_suffice:
            raise ConfigError(
                f"compute='counts' needs one layer, positions='none' and norm_eps > 0, not n_layers="
                f"{self.config.n_layers}, positions={quoted(self.config.positions)}, "
                f"norm_eps={self.config.norm_eps:g}: "
                "elsewhere attention does not depend on counts alone, or zero rows are divided by 0"
            )
        if self.config.pad_token not in (None, grammar.pad):
            raise ConfigError(f"pad_token={self.config.pad_token} is not the grammar's PAD, {grammar.pad}")
        if self.config.direction != "causal":
            raise ConfigError(
                f"direction={quoted(self.config.direction)} sees the token it should predict: use 'causal'"
            )
        if self.settings.data == "complete":  # refuse bounds that admit no string before any work
            grammar.length_distribution(self.settings.min_length, self.settings.max_length)
        needed = self.settings.length if self.settings.data == "prefix" else self.settings.max_length + 1
        if self.config.positions == "learned" and needed > self.config.n_ctx:
            raise ConfigError(f"strings fill {needed} positions, more than n_ctx={self.config.n_ctx}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "grammar": self.grammar.to_dict(),
            "config": self.config.to_dict(),
            "settings": self.settings.to_dict(),
        }


@dataclass(frozen=True)
class Preset:
    """A named recipe. `model` builds the config for a grammar; `settings` are its training defaults."""

    about: str
    model: Callable[[Any], TransformerConfig]
    settings: TrainingSettings
    grammar: type[DyckGrammar] | type[TopicGrammar] = DyckGrammar


def _standard(grammar: DyckGrammar, **changes: Any) -> TransformerConfig:
    base = {
        "d_vocab": grammar.vocab_size,
        "pad_token": grammar.pad,
        "num_types": grammar.num_types,
        "max_depth": grammar.max_depth,
    }
    return TransformerConfig(**{**base, **changes})


def _paper(grammar: DyckGrammar) -> TransformerConfig:
    return _standard(
        grammar,
        block="paper",
        norm="unit",
        scale_scores=False,
        activation="relu",
        biases=False,
        init_std=0.14,  # 1/sqrt(50): from GPT-2's 0.02 two seeds of two stayed below 97 % by the mass rule
    )


def _minimal(
    embedding: Literal["minimal", "minimal-sum", "minimal-angle"],
) -> Callable[[DyckGrammar], TransformerConfig]:
    def model(grammar: DyckGrammar) -> TransformerConfig:
        return _standard(
            grammar,
            embedding=embedding,
            d_model=oracle_width(embedding, grammar.num_types, grammar.max_depth),
            n_layers=1,
            block="bare",
            mlp_depth=0,
        )

    return model


def _topics(grammar: TopicGrammar, **changes: Any) -> TransformerConfig:
    """One head, no residual link, norm, MLP or positions (thesis eq. 2.7)."""
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


_TWO_LAYERS = TrainingSettings()
_PAPER = TrainingSettings(steps=2000, lr=5e-3, eval_every=400)
_UNIFORM = TrainingSettings(steps=3000, eval_every=500)
_COPY = TrainingSettings(steps=300, eval_every=100)
_ONE_LAYER = TrainingSettings(steps=800, lr=1e-2, eval_every=200)
_TOPICS = TrainingSettings(steps=1500, batch=40, lr=1e-2, schedule="constant", data="documents", eval_every=300)
_EMBEDDING = replace(_TOPICS, start="identity", trained="embedding")

PRESETS: dict[str, Preset] = {
    "dyck-standard": Preset("2-layer GPT-2 style Transformer, 1 head, width 50", _standard, _TWO_LAYERS),
    "dyck-paper": Preset(
        "the paper's eq. 6: unit norm on the attention output, no skip around the MLP", _paper, _PAPER
    ),
    "dyck-minimal": Preset("one attention layer on the oracle embedding of eq. 15", _minimal("minimal"), _ONE_LAYER),
    "dyck-minimal-sum": Preset("the same on eq. 16 (type + depth)", _minimal("minimal-sum"), _ONE_LAYER),
    "dyck-minimal-angle": Preset("the same on eq. 17 (type + angle)", _minimal("minimal-angle"), _ONE_LAYER),
    "dyck-uniform": Preset(
        "dyck-standard with attention frozen uniform",
        lambda g: _standard(g, attention="uniform", init_std=0.1),
        _UNIFORM,
    ),
    "dyck-copy": Preset(
        "4-layer dyck-standard trained to repeat each bracket where it stands",
        lambda g: _standard(g, n_layers=4),
        _COPY,
        CopyGrammar,
    ),
    "topic-value": Preset(
        "one-hot topic model with attention frozen uniform: only W_V",
        lambda g: _topics(g, attention="uniform"),
        _TOPICS,
        TopicGrammar,
    ),
    "topic-embedding": Preset(
        "topic model with tied embeddings, attention uniform, W_V the identity: only W_E",
        lambda g: _topics(g, attention="uniform", embedding="learned", unembed="tied", biases=True),
        _EMBEDDING,
        TopicGrammar,
    ),
    "topic-joint": Preset("one-hot topic model: W_Q, W_K and W_V", _topics, _TOPICS, TopicGrammar),
    "topic-full": Preset(
        "topic model with tied embeddings: W_E, W_Q, W_K and W_V",
        lambda g: _topics(g, embedding="learned", unembed="tied"),
        _TOPICS,
        TopicGrammar,
    ),
}

_GRAMMAR_KEYS = {"k": "num_types", "depth": "max_depth", "open_prob": "open_prob", "end_prob": "end_prob"}
_TOPIC_KEYS = {
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
_MODEL_KEYS = {
    "positions": "positions",
    "layers": "n_layers",
    "heads": "n_heads",
    "n_ctx": "n_ctx",
    "init_std": "init_std",
}
_SETTING_KEYS = tuple(f.name for f in fields(TrainingSettings) if f.name != "snapshots")
SET_KEYS = tuple(sorted({*_GRAMMAR_KEYS, *_TOPIC_KEYS, *_MODEL_KEYS, "width", *_SETTING_KEYS} - {"steps", "batch"}))


def make_recipe(
    preset: str,
    options: Mapping[str, Any] | None = None,
    *,
    steps: int | None = None,
    batch: int | None = None,
    snapshots: Sequence[int] = (),
) -> Recipe:
    """The recipe of a preset with `--set` options applied (`SET_KEYS`).

    `width` sets d_model, d_head x n_heads and d_mlp together; for an oracle first layer, whose d_model
    is fixed, it sets d_head.
    """
    if preset not in PRESETS:
        raise RequestError(f"no preset {quoted(preset)}{_nearest(preset, PRESETS)}; presets are {', '.join(PRESETS)}")
    options = {key: plain(value) for key, value in (options or {}).items()}
    for key in options:
        if key not in SET_KEYS:
            raise RequestError(f"no option {quoted(key)}{_nearest(key, SET_KEYS)}; options are {', '.join(SET_KEYS)}")
    kind = PRESETS[preset].grammar
    own, other = (_TOPIC_KEYS, _GRAMMAR_KEYS) if kind is TopicGrammar else (_GRAMMAR_KEYS, _TOPIC_KEYS)
    for key in options:
        if key in other and key not in own and key not in _SETTING_KEYS:
            raise RequestError(
                f"option {quoted(key)} is not one of {quoted(preset)}, whose grammar takes {', '.join(own)}"
            )
    given = {key: value for key, value in (("steps", steps), ("batch", batch)) if value is not None}
    fields_of = {key: ("grammar", name) for key, name in own.items()}
    fields_of |= {key: ("config", name) for key, name in (*_MODEL_KEYS.items(), ("width", "d_head"))}
    meant = {key: fields_of.get(key, ("settings", key)) for key in (*options, *given)}
    with _in_users_words({key: name for key, (_, name) in fields_of.items() if key != "width"}, options):
        grammar = kind(**{name: options[key] for key, name in own.items() if key in options})
        config = PRESETS[preset].model(grammar)
        model_changes = {name: options[key] for key, name in _MODEL_KEYS.items() if key in options}
        config = _resize(config, options.get("width"), model_changes)
        changes = given | {key: value for key, value in options.items() if meant[key][0] == "settings"}
        if len(snapshots):
            changes["snapshots"] = tuple(snapshots)
        recipe = Recipe(preset, grammar, config, replace(PRESETS[preset].settings, **changes))
    refuse_unread(recipe, meant)
    return recipe


def check_read(recipe: Recipe) -> None:
    """Raise `RequestError` for a setting of a recipe made in Python that its training does not read.

    As far as it can be told that somebody set it: it differs from the preset of the recipe's name, or from the default.
    """
    usual: tuple[TransformerConfig | None, TrainingSettings | None] = (None, None)
    if recipe.name in PRESETS and isinstance(recipe.grammar, PRESETS[recipe.name].grammar):
        usual = PRESETS[recipe.name].model(recipe.grammar), PRESETS[recipe.name].settings
    refuse_unread(recipe, {field: (part, field) for part, field in changed_fields(recipe, usual)})


@contextmanager
def _in_users_words(names: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[None]:
    """Errors quote options by the keys that the user knows (`k=0`), not by the fields they set (`num_types=0`)."""
    try:
        yield
    except InterpError as error:
        said = str(error)
        for key, name in names.items():
            said = re.sub(rf"\b{name}=", f"{key}=", said)
        if options and not any(f"{key}=" in said for key in options):
            said = f"{', '.join(f'{key}={quoted(value)}' for key, value in options.items())}: {said}"
        raise type(error)(said) from error


def _resize(config: TransformerConfig, width: int | None, changes: dict[str, Any]) -> TransformerConfig:
    """Apply width and heads together: without an explicit width the heads share the present one."""
    total = config.n_heads * config.d_head if width is None else width
    heads = changes.get("n_heads", config.n_heads)
    for name, value in (("width", total), ("heads", heads)):
        whole_number(name, value)
    if total % heads:
        raise RequestError(f"width={total} is not divisible by heads={heads}")
    sizes = {"d_head": total // heads}
    if config.block != "bare":
        sizes |= {"d_model": total, "d_mlp": total}
    return replace(config, **sizes, **changes)


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
