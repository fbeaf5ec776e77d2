"""`Relation`, `Condition` and `Question`: which keys, which queries, and what a head may be used for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from interp.errors import RequestError, quoted

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Tokens = NDArray[np.int64]  # [batch, pos]
Pairs = NDArray[np.bool_]  # [batch, query, key]
Rows = NDArray[np.bool_]  # [batch, query]
Kind = Literal["mass", "even", "among"]
Keys = Callable[[Tokens, Any, Pairs], Pairs]


@dataclass(frozen=True)
class Relation:
    """A set of keys for every query.

    - `name`: short, for tables and files; `words`: how a claim says it, after "attends to".
    - `kind`: how a pattern is held against the set: `mass`, the weight on it; `even`, how evenly the weight is spread
      over it, and over nothing else; `among`, how evenly the weight that lies on it is spread within it
      (`probes.claims.relation_scores`).
    - `needs`: what the set is made from: "tokens" alone (`grammar` may then be None), "vocab" (a vocabulary that has
      the `tokens` it names), "numbers" (one with numbers in it), or the name of a world whose truth it needs.
    - `keys(tokens [batch, pos], grammar, visible [batch, query, key])`: the set, [batch, query, key], always within
      `visible`. A query that is not to be asked (PAD) is one that sees nothing.
    - `also`: other ways to say it.  `instead`: what to say of a model that lacks what it needs, in words.
    - `tokens`: those that the vocabulary must have.  `of`: the relation that this one is made from, if any.
    """

    name: str
    words: str
    kind: Kind
    needs: str
    keys: Keys = field(repr=False)
    also: tuple[str, ...] = field(default=(), compare=False, repr=False)
    instead: str = field(default="", compare=False, repr=False)
    tokens: tuple[str, ...] = field(default=(), compare=False)
    of: "Relation | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Condition:
    """Which queries a claim is about.

    - `words`: how a claim says it, after "when".  `also`: other ways to say it.
    - `needs`: "tokens" (any model), or the name of a world whose truth it needs.
    - `rows(tokens [batch, pos], grammar, keys [batch, query, key])`: [batch, query]; `keys` is the claimed relation.
    """

    name: str
    words: str
    needs: str
    rows: Callable[[Tokens, Any, Pairs], Rows] = field(repr=False)
    also: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Items:
    """One item an input; arrays [item] unless said. The margin is logit(answer) - logit(foil) at `read`.

    `tokens` and `donors` [item, pos] are a minimal pair: the token at `flipped` differs (and what changes with it),
    and with it the right answer, which is `answer` for the one and `foil` for the other. `sequence`: which input.
    Without minimal pairs (`flipped` None) a donor is another input, and any of its tokens may differ.
    `seen` [item, pos]: what `read` depends on; None: all up to it. `unit` [item]: items of one unit share a donor.
    """

    sequence: Ints
    tokens: Ints
    donors: Ints
    read: Ints
    flipped: Ints | None
    answer: Ints
    foil: Ints
    seen: Bools | None = None
    unit: Ints | None = None

    def first(self, count: int) -> "Items":
        """The first `count` items."""
        return self.only(np.arange(min(count, len(self))))

    def only(self, which: Ints) -> "Items":
        """Items of these numbers."""
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: x[which] for name, x in given.items() if x is not None})

    def __len__(self) -> int:
        return len(self.read)

    @property
    def upto(self) -> Bools:
        """Positions that `read` depends on [item, pos]."""
        return np.arange(self.tokens.shape[1]) <= self.read[:, None] if self.seen is None else self.seen

    @property
    def decisive(self) -> Bools:
        """Tokens that decide between answer and foil: the flipped one, or all that differ [item, pos]."""
        if self.flipped is None:
            return np.asarray(self.tokens != self.donors)
        return np.asarray(np.arange(self.tokens.shape[1]) == self.flipped[:, None])


class Question(Protocol):
    """What a model may use a head for: its name, how a claim says it (after "to"), and its items.

    A question with several *kinds* of minimal pair (the content that is fetched, the address by which it is found, ...)
    names them in an attribute `kinds`, a tuple of texts, and is asked `items(..., kind=...)` for each; one without is
    asked once. A head is of use where it is for one kind, and of none where it is for none: pairs that change tokens
    which the claimed edges never read leave that kind, and so an absence of use, undecided. Further wordings stand in
    an attribute `also`. One that asks otherwise of other inputs has a method `on(tokens, grammar)`, which gives the
    question that is asked of these.
    """

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> str: ...

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        """Items with `read` among `rows` [input, pos], those that the claim is about; at most one an input."""


def kinds_of(question: Any) -> tuple[str, ...]:
    """The kinds of minimal pair that a question names, none where it is asked once. Raises `RequestError`."""
    kinds = getattr(question, "kinds", ())
    texts = isinstance(kinds, (tuple, list)) and all(isinstance(kind, str) and kind.strip() for kind in kinds)
    if not texts or len(set(kinds)) != len(kinds) or (hasattr(question, "kinds") and not kinds):
        raise RequestError(
            f"question {quoted(getattr(question, 'name', question))} has kinds={quoted(kinds)}: give a tuple of "
            "distinct texts, or leave it out"
        )
    return tuple(kinds)


Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Made(Generic[Thing]):
    """A wording with a number or a word in it: as written in help, its pattern with one group, and what it makes.

    `as_written`: the group is a token, whose own letters are kept.
    """

    written: str
    pattern: str
    make: Callable[[str], Thing]
    as_written: bool = False


@dataclass(frozen=True)
class Called:
    """What a head is called in the field: "is an induction head", "is a sink".

    - `words`: how a claim says it, behind the heads; hyphens, articles and a last "head" do not matter, nor whether it
      is, acts as or behaves like one.  `also`: other ways to say it.
    - `relation`: the words of what it then attends to. Empty where no set of keys is meant, and then `instead` says
      what to claim.
    """

    words: str
    relation: str
    also: tuple[str, ...] = ()
    instead: str = ""


@dataclass(frozen=True)
class Claims:
    """What a world adds to what can be said of heads.

    - `relations`, `conditions`, and those `made` from a number or word.
    - `questions`: what its models may use a head for.
    - `question(grammar)`: the name of the one that models of a grammar are trained for, None without.
    - `refuse(relation, grammar)`: raises `RequestError` for a relation that this very grammar has no keys for.
    - `suggest(grammar, longest)`: conditions worth trying where a claim holds in some rows only, beside those of any
      world (`rows.suggest`).
    - `inputs(grammar, count, length, seed, stream)`: model inputs [count, pos] to audit on (without it, what the
      grammar's `draw` gives), and `longest(grammar, length)`: how many tokens these will have at most.
    - `tails(grammar)`: other laws of the same tokens, by words after "on", whose inputs are rare under this one. What
      holds of a head on this law's inputs is looked at there too.
    - `roles(tokens, grammar)`: class of each token [batch, pos] within which keys are compared.
    - `called`: what heads are called in this world, and what that says of their attention.
    - `same`: words of claims that mean one thing, as regular expression and replacement.
    - `aliases`: names of relations that are one and the same here.
    - `truth`: what a relation that needs this world asks of a model, in words.
    - `use`: what is said of a question of this world where a model is of another.  `nothing`: and where its models are
      asked nothing.
    """

    relations: Sequence[Relation] = ()
    conditions: Sequence[Condition] = ()
    relations_made: Sequence[Made[Relation]] = ()
    conditions_made: Sequence[Made[Condition]] = ()
    questions: Sequence[Question] = ()
    question: Callable[[Any], str | None] = lambda grammar: None
    refuse: Callable[[Relation, Any], None] = lambda relation, grammar: None
    suggest: Callable[[Any, int], list[Condition]] = lambda grammar, longest: []
    inputs: Callable[[Any, int, int, int, str], Tokens] | None = None
    longest: Callable[[Any, int], int] | None = None
    tails: Callable[[Any], Mapping[str, Any]] = lambda grammar: {}
    roles: Callable[[Tokens, Any], Ints] | None = None
    called: Sequence[Called] = ()
    same: Sequence[tuple[str, str]] = ()
    aliases: Sequence[frozenset[str]] = ()
    truth: str = ""
    use: str = ""
    nothing: str = "has nothing to get right in this grammar"
