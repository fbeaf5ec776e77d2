"""Which parts of a recipe its training does not read, and why: one table, for `--set` and for recipes made in Python.

A setting that the chosen path never reads would be written into the checkpoint and change nothing. Where a user gave
one, it is refused by name. Imports no torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from interp.config import TransformerConfig
from interp.errors import RequestError, quoted
from interp.grammars import CopyGrammar, TopicGrammar

if TYPE_CHECKING:
    from interp.presets import Recipe

LEAST_RATE = 2.0**-149  # the least number of float32, in which optimizers multiply
Field = tuple[str, str]  # (part of a recipe: "grammar", "config" or "settings"; its field)


@dataclass(frozen=True)
class Unread:
    """Fields that nothing reads `when` a recipe is so; `why` is said to whoever gave one, and `cure`: what to do."""

    fields: tuple[str, ...]
    when: Callable[["Recipe"], bool]
    why: str
    cure: str = "leave it out"


def _topics(r: "Recipe") -> bool:
    return isinstance(r.grammar, TopicGrammar)


def _law(r: "Recipe", name: str) -> bool:
    return isinstance(r.grammar, TopicGrammar) and r.grammar.law == name


def _no_chance(r: "Recipe") -> bool:
    """Is every weight that training starts from written down?"""
    c, start = r.config, r.settings.start
    if start in ("block", "diagonal", "identity"):  # W_V; of the identity also W_Q and W_K
        return c.embedding != "learned" and (c.attention == "uniform" or start == "identity")
    return start == "zero"


def _complete(r: "Recipe") -> bool:
    return not _topics(r) and r.settings.data == "complete"


def _nothing_to_predict(r: "Recipe") -> bool:
    """Do strings hold none of the predictions that the loss is taken on?"""
    if _topics(r):
        return False
    copying, closers = isinstance(r.grammar, CopyGrammar), r.settings.targets == "closers"
    if _complete(r):
        return (copying or closers) and r.settings.max_length < 2
    return r.settings.length < 1 + copying + closers  # a closer is the second bracket; a copy is seen one later


TABLE: tuple[Unread, ...] = (
    # -- the law of the data
    Unread(("settings.min_length", "settings.max_length"), _topics, "a topic grammar has lengths of its own"),
    Unread(
        ("settings.min_length", "settings.max_length"),
        lambda r: r.settings.data == "prefix",
        "data='prefix' takes strings of one length, which is set by length",
    ),
    Unread(
        ("settings.min_length",),
        lambda r: _complete(r) and r.settings.min_length % 2 == 1,
        "complete strings have an even number of brackets",
        "give the even number above it",
    ),
    Unread(
        ("settings.max_length",),
        lambda r: _complete(r) and r.settings.max_length % 2 == 1,
        "complete strings have an even number of brackets",
        "give the even number below it",
    ),
    Unread(("settings.length",), _topics, "documents have min_length to max_length words"),
    Unread(
        ("settings.length",),
        lambda r: r.settings.data == "complete",
        "data='complete' takes strings of min_length to max_length brackets",
    ),
    Unread(("grammar.end_prob",), lambda r: r.settings.data == "prefix", "data='prefix' takes strings that never end"),
    Unread(
        ("grammar.end_prob",),
        lambda r: not _topics(r) and r.settings.min_length > 0 and r.settings.max_length < 4,
        "strings of one pair, max_length < 4, end in one place only",
    ),
    Unread(
        ("grammar.open_prob",),
        lambda r: getattr(r.grammar, "max_depth", 0) == 1,
        "at depth=1 a string never chooses between opening and closing",
    ),
    Unread(("grammar.alpha",), lambda r: _law(r, "idealised"), "it is for law='lda'"),
    Unread(("grammar.topics_per_document",), lambda r: _law(r, "lda"), "it is for law='idealised'"),
    Unread(
        ("grammar.min_length", "grammar.max_length", "settings.batch"),
        lambda r: r.settings.data == "exact",
        "data='exact' trains on the infinite documents of all sets of topics at once",
    ),
    # -- the task
    Unread(("settings.start", "settings.trained"), lambda r: not _topics(r), "it is for topic models"),
    Unread(
        ("settings.compute", "settings.contrastive", "settings.targets"),
        _topics,
        "it is for brackets: topic models predict the chosen positions, and always train on counts",
    ),
    Unread(
        ("settings.targets", "settings.length", "settings.max_length"),
        _nothing_to_predict,
        "such short strings hold nothing that the loss would be taken on",
        "give longer strings",
    ),
    # -- the optimizer
    Unread(
        ("settings.lr",),
        lambda r: r.settings.lr < LEAST_RATE,
        "at a learning rate of 0 nothing trains",
        "give one above 0, or take untrained models with Population.init",
    ),
    Unread(
        ("settings.eval_every",),
        lambda r: r.settings.eval_every > r.settings.steps,
        "the last step is measured anyway",
        "give at most the number of steps",
    ),
    Unread(
        ("settings.schedule",),
        lambda r: r.settings.steps - r.settings.warmup < 2,
        "no step is left after warmup for the learning rate to fall in",
    ),
    # -- the model
    Unread(("config.init_std",), _no_chance, "no weight starts at random: start says what each is"),
    Unread(("config.d_mlp", "config.activation"), lambda r: r.config.mlp_depth == 0, "there is no MLP (mlp_depth=0)"),
    Unread(("config.norm_eps",), lambda r: r.config.norm == "none", "the model has no norm (norm='none')"),
    Unread(
        ("config.scale_scores", "config.attn_scale"),
        lambda r: r.config.attention == "uniform",
        "attention='uniform' has no scores",
    ),
)  # fmt: skip


def unread(recipe: "Recipe") -> dict[Field, Unread]:
    """The fields that training this recipe does not read, with the rule that says so."""
    found: dict[Field, Unread] = {}
    for rule in TABLE:
        for name in rule.fields:
            part, _, field = name.partition(".")
            if hasattr(getattr(recipe, part), field) and rule.when(recipe):
                found.setdefault((part, field), rule)
    return found


def refuse_unread(recipe: "Recipe", given: Mapping[str, Field]) -> None:
    """Raise `RequestError` for the first of the options `given` (name -> field) that nothing reads."""
    reasons = unread(recipe)
    for name, (part, field) in given.items():
        if (part, field) in reasons:
            value = getattr(getattr(recipe, part), field)
            rule = reasons[part, field]
            raise RequestError(f"{name}={quoted(value)} changes nothing here: {rule.why}; {rule.cure}")


def changed_fields(recipe: "Recipe", plain: tuple[TransformerConfig | None, Any]) -> Iterator[Field]:
    """Fields that somebody set: they differ from `plain` (a preset's config and settings), or from their defaults."""
    for part, usual in (("config", plain[0]), ("settings", plain[1]), ("grammar", None)):
        mine = getattr(recipe, part)
        for field in fields(mine):
            expected = field.default if usual is None else getattr(usual, field.name)
            if getattr(mine, field.name) != expected:
                yield part, field.name
