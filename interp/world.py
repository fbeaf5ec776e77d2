"""`World`: what models are trained on, and what is true there. One folder each; the registry finds them.

A world says what it has and leaves out what it has not: every part but the first three may be missing. What needs
torch, or takes long to import, is named by "module:attribute" and loaded when it is first used. Imports no torch.
"""

import importlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from interp.errors import WorldError, quoted
from interp.rng import generator
from interp.settings import TrainingSettings

if TYPE_CHECKING:
    from interp.config import TransformerConfig
    from interp.recipe import Recipe
    from interp.unread import Unread

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Preset:
    """A named recipe. `model` builds the config for a grammar; `settings` are its training defaults."""

    about: str
    model: Callable[[Any], "TransformerConfig"]
    settings: TrainingSettings
    grammar: type[Any]


@dataclass(frozen=True)
class Overlay:
    """A truth that a heatmap can show over a pattern.

    - `kind`: "targets" boxes the key of each query; "levels" colours positions by an ordered number; "groups" colours
      them by class, and boxes pairs of one class (and sorts positions by class where attention is bidirectional).
    - `of(tokens [pos], grammar)`: the key of each query, or -1 [pos], or whether a key is one of a query's
      [query, key]; the level of each position, from 0; or its class, -1 for none.
    - `about`: what is shown, in words for the legend.  `name`: of a level or class, in words.
    - `usual`: draw it where no overlay is named.
    """

    kind: Literal["targets", "levels", "groups"]
    of: Callable[[Any, Any], Any]
    about: str
    name: Callable[[int], str] = str
    usual: bool = False


@dataclass(frozen=True)
class Embedding:
    """A frozen embedding whose vector depends on what a token means where it stands (an oracle first layer).

    - `width(config)`: the d_model it fixes.  `states(config)`: rows of its table.
    - `check(config)`: raises `ConfigError` for a config that it does not fit.
    - `build`: "module:class" of the layer, called with the config: tokens [batch, pos] -> [batch, pos, d_model].
    - `read`: "module:function" (config, tokens) -> row of the table for each token.
    """

    width: Callable[["TransformerConfig"], int]
    states: Callable[["TransformerConfig"], int]
    check: Callable[["TransformerConfig"], None]
    build: str
    read: str


@dataclass(frozen=True)
class Exam:
    """What to ask a model that was not trained here, before it is measured in a grammar.

    - `task`: in words.  `chance`: share of right answers of one who guesses.
    - `where`: in words, where something is asked ("at the last token, "), or "".
    - `token_tells`: the token read decides the answer, so that one who gives each token a fixed one may be right by
      luck: every answer is then asked by itself.
    - `questions(tokens [input, pos])` -> (where something is asked, the right token there, candidates [n]).
    - `also_legal(best, tokens)`: which tokens [input, pos] are legal beside the right answer.
    - `draw(count, length, seed)`: model inputs [count, length] to ask on.
    - `kin(grammar)`: whether another grammar reads the same kind of strings.
    - `beyond`: in words, which of its strings a model may not be trained on though it does the task, how one asks for
      others; or "".
    """

    task: str
    chance: float
    where: str
    token_tells: bool
    questions: Callable[[Ints], tuple[NDArray[np.bool_], Ints, Ints]]
    also_legal: Callable[[Ints, Ints], NDArray[np.bool_]]
    draw: Callable[[int, int, int], Ints]
    kin: Callable[[Any], bool]
    beyond: str = ""


@dataclass(frozen=True)
class Adopted:
    """Other people's vocabulary as a grammar: for each id of the `grammar` the id in the vocabulary, or None."""

    order: list[int | None]
    grammar: Any


Row = list[int]  # token ids of one string, without PAD


@dataclass(frozen=True)
class Reference:
    """What is true in a world, said a second time in the plainest way: what `check_world` holds the first against.

    Functions (one string as a list of ids, grammar) -> a list with an entry per position. Write loops straight from the
    definition, and call nothing of the grammar that is to be checked.

    - `labels`: the label, None where there is none.  `law`: the exact law's nats at the label.
    - `keys`: by the name of a relation, the positions of a query's keys, visible or not.
    - `overlays`: by the name of an overlay, its value (of several keys per query: whether each is one).
    - `strings(grammar)`: strings [n, pos] on which to compare, beside those that are drawn.
    """

    labels: Callable[[Row, Any], Sequence[int | None]] | None = None
    law: Callable[[Row, Any], Sequence[float]] | None = None
    keys: Mapping[str, Callable[[Row, Any], Sequence[Collection[int]]]] = field(default_factory=dict)
    overlays: Mapping[str, Callable[[Row, Any], Sequence[int] | Sequence[Sequence[bool]]]] = field(default_factory=dict)
    strings: Callable[[Any], Any] | None = None


def of_strings(measure: str, values: Sequence[Any]) -> bool:
    """Whether a measure is a simpler predictor's loss on strings that all seeds share: one number, and no mean."""
    return measure.startswith("rung/") and len(set(values)) == 1


@dataclass(frozen=True)
class Column:
    """A measure that tables of models show.

    - `head`: its head.  `best`: "most" or "least", which way a model is better: lists name the worst seed by it.
    - `least`, `most`: the range that it can take, to which intervals are cut. Raises `WorldError` for an empty one.
    """

    head: str
    best: Literal["most", "least"] = "most"
    least: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.head, str) or not self.head:
            raise WorldError(f"head={quoted(self.head)} of a column is not a text")
        if self.best not in ("most", "least"):
            raise WorldError(f"best={quoted(self.best)} of column {quoted(self.head)} is neither 'most' nor 'least'")
        if not self.least < self.most:
            raise WorldError(
                f"column {quoted(self.head)} goes from least={quoted(self.least)} to most={quoted(self.most)}: nowhere"
            )

    @classmethod
    def of(cls, name: str, given: "str | Column") -> "Column":
        """The column of a measure declared by its head alone: a loss, an excess over the law, a rung, or a share."""
        if isinstance(given, Column):
            return given
        if name in ("loss", "excess") or name.startswith("rung/"):
            return cls(given, "least", -math.inf if name == "excess" else 0.0, math.inf)
        return cls(given)


@dataclass(frozen=True)
class World:
    """Everything that is known of one world.

    Law and truth are methods of its grammars: frozen dataclasses with `KIND`, `vocab`, `vocab_size`, `to_tokens`,
    `to_dict` and `from_dict`. Names of functions that are loaded late are "module:attribute".

    - `settings`: its own frozen dataclass, a `TrainingSettings`.
    - `presets`: recipes by name.  `options`: `--set` keys of the grammar, each with the field it sets.
    - `check(recipe)`: raises `ConfigError` for a model or settings that cannot learn it.
    - `fits(config, grammar)`: raises `ConfigError` for a model that was made for another grammar of this world.
    - `longest` (recipe): how many positions the longest string fills that its training reads; without it, the longest
      that the grammar draws.
    - `unread`: which fields of a recipe its training does not read, and why.
    - `task` (template, recipe, device) -> `Task`: what is drawn, minimised and measured; without one, masked cross
      entropy on the labels of strings that the grammar draws (`interp.training.task.TokenTask`).
    - `start` (params, recipe) -> params: first weights that are not all drawn.  `size` (recipe, exact) -> `Need`.
    - `norms`: keep the norm of every weight in the history, not only beside snapshots.
    - `columns`: the measures that a table of models shows, by name (`accuracy`, `accuracy_<class>`, `loss`, `excess`,
      `rung/<name>`, or what the world's task measures): each a `Column`, or its head alone: of a loss, an excess,
      a rung, or else a share, of which more is better.  `measures`: all their names.
    - `embeddings`: its oracle first layers.  `overlays`: what heatmaps can show.
    - `sentence(grammar)`: the one text that its models are usually shown, None without; `inputs(grammar, count, seed,
      stream)`: else texts or ids [count, pos] of one length, drawn; without it, what the grammar's `draw` gives.
    - `vouch` (grammar) -> `Exam`: what to ask a model that was not trained here before it is measured.
    - `claims`: "module:attribute" of its `interp.claims.Claims`: relations, conditions, questions.
    - `kin`: worlds whose truth holds in this one, so that their relations do.
    - `constructed`: names of models whose weights are written by hand, each with what it is; `construct` (name).
    - `finite` () -> a grammar all of whose strings can be listed: `enumerate`, `draw`, `labels` and `law_nll` as
      `check_world` reads them, for a world whose own grammars draw otherwise.
    - `reference`: "module:attribute" of a `Reference`: a literal implementation of labels, law, relations, overlays.
    - `adopt` (names, grammar, max_depth, classifier, longest) -> `Adopted`: a vocabulary of other people's mapped onto
      a grammar of this world, None where it is of another (or in words what is wrong with one that is nearly of this);
      with a `grammar` that it does not fit, a `RequestError`.

    Raises `WorldError` for parts that contradict each other; what is loaded late is checked when it is used.
    """

    name: str
    about: str
    grammars: tuple[type[Any], ...]
    settings: type[TrainingSettings] = TrainingSettings
    presets: Mapping[str, Preset] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    check: Callable[["Recipe"], None] | None = None
    fits: Callable[["TransformerConfig", Any], None] | None = None
    longest: Callable[["Recipe"], int] | None = None
    unread: Sequence["Unread"] = ()
    task: str | None = None
    start: str | None = None
    size: str | None = None
    norms: bool = False
    columns: Mapping[str, str | Column] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    embeddings: Mapping[str, Embedding] = field(default_factory=dict)
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    sentence: Callable[[Any], str | None] = lambda grammar: None
    inputs: Callable[[Any, int, int, str], Any] | None = None
    vouch: str | None = None
    claims: str | None = None
    kin: tuple[str, ...] = ()
    constructed: Mapping[str, str] = field(default_factory=dict)
    construct: str | None = None
    finite: str | None = None
    adopt: str | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        for kind in self.grammars:
            if not isinstance(getattr(kind, "KIND", None), str):
                raise WorldError(f"world {quoted(self.name)}: grammar {kind.__name__} has no KIND, a str of its own")

    @property
    def shown(self) -> dict[str, Column]:
        """`columns`; of a world that writes no task the accuracy, where it names none."""
        given = self.columns or ({} if self.task else {"accuracy": "accuracy"})
        return {name: Column.of(name, one) for name, one in given.items()}

    def load(self, part: str) -> Any:
        """What the part names, imported; None where the world has none."""
        name = getattr(self, part)
        return None if name is None else load(name)

    def draw_inputs(self, grammar: Any, count: int, seed: int, stream: str) -> Any:
        """Texts or ids [count, pos] of one length, that no training run draws."""
        if self.inputs is not None:
            return self.inputs(grammar, count, seed, stream)
        return grammar.draw(generator(seed, stream), count)


def load(name: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
