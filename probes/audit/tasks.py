"""What a model may use a head for: read positions, right answers, and a minimal pair for each."""

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from interp.errors import RequestError, quoted
from interp.grammars import CopyGrammar, DyckGrammar
from interp.rng import generator
from probes.audit.thresholds import MIN_SEQUENCES

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """One item an input; arrays [item] unless said. The margin is logit(answer) - logit(foil) at `read`.

    `tokens` and `donors` [item, pos] are a minimal pair: the token at `flipped` differs (and its partner, if any),
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
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: x[:count] for name, x in given.items() if x is not None})

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


class Task(Protocol):
    """A task: its name, how a claim says it, and its items. Pass one of your own as `task=`."""

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> str: ...

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        """Items with `read` among `rows` [input, pos], those that the claim is about; at most one an input."""


@dataclass(frozen=True)
class NoTask:
    """No use can be asked about, and why."""

    reason: str
    name: str | None = None


@dataclass(frozen=True)
class Closers:
    """Which bracket closes next. The deciding opener, the last unmatched one, changes type.

    Read where a closing bracket has just been read, if at least `MIN_SEQUENCES` inputs have such a place: elsewhere the
    current token is itself the deciding opener, and nothing has to be attended to.
    """

    name: str = "closers"
    words: str = "predict closing brackets"

    def items(self, tokens: Ints, grammar: DyckGrammar, rows: Bools, seed: int) -> Items:
        top = grammar.stack_top(tokens)
        wanted = rows & (tokens < grammar.start) & (top >= 0)
        away = wanted & (top < np.arange(tokens.shape[1]))
        if away.any(1).sum() >= MIN_SEQUENCES:
            wanted = away
        sequence, read = _one_each(wanted, seed, "audit/closers")
        return _pairs(tokens, grammar, sequence, read, top[sequence, read], 1, seed)


@dataclass(frozen=True)
class Copies:
    """Which bracket stands here: the task of copying models. That bracket changes type."""

    name: str = "copies"
    words: str = "repeat the current token"

    def items(self, tokens: Ints, grammar: DyckGrammar, rows: Bools, seed: int) -> Items:
        sequence, read = _one_each(rows & (tokens < grammar.start), seed, "audit/copies")
        return _pairs(tokens, grammar, sequence, read, read, 0, seed)


_TASKS: dict[str, Task] = {task.name: task for task in (Closers(), Copies())}


def task_for(grammar: Any, name: str | None) -> Task | None:
    """The task of that name, or the one a grammar's models are trained for (name None); None where there is none.

    Raises `RequestError` when a task is named that a model of this grammar cannot have.
    """
    if not isinstance(grammar, DyckGrammar):
        if name is not None:
            raise RequestError(f"use {quoted(name)} is about brackets, and the model has no grammar of brackets")
        return None
    if name is None and grammar.num_types == 1:
        return None  # one type of bracket leaves nothing to get right
    if grammar.num_types == 1:
        raise RequestError(f"use {quoted(name)} has nothing to get right in a grammar of one bracket type")
    return _TASKS[name or ("copies" if isinstance(grammar, CopyGrammar) else "closers")]


def _one_each(wanted: Bools, seed: int, stream: str) -> tuple[Ints, Ints]:
    """One position of each input among `wanted` [input, pos], drawn evenly: inputs that have one, and theirs."""
    drawn = np.where(wanted, generator(seed, stream).random(wanted.shape), -1.0)
    sequence = np.flatnonzero(wanted.any(1))
    return sequence, drawn.argmax(1)[sequence]


def _pairs(
    tokens: Ints, grammar: DyckGrammar, sequence: Ints, read: Ints, flipped: Ints, step: int, seed: int
) -> Items:
    """`step`: from the token that decides to the answer, 1 from an opener to its closer."""
    base = tokens[sequence]
    donors = grammar.counterfactual(base, flipped, seed=seed) if len(base) else base
    each = np.arange(len(base))
    answer, foil = (text[each, flipped] + step for text in (base, donors))
    return Items(sequence, base, np.asarray(donors), read, flipped, answer, foil)
