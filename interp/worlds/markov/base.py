"""What all laws of this world share: a kernel a string, and tokens drawn given their parents."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import whole_number
from interp.constraints import Annotated, Interval, check_fields, doc, from_fields
from interp.errors import GrammarError
from interp.numeric_arrays import token_ids
from interp.vocabulary import cut, padded, texts_of
from interp.worlds.markov.counts import Floats, Ints, codes, drawn_often, next_labels, surprise

LETTERS = "abcdefghijklmnopqrstuvwxyz"
IGNORE = -100
MOST_CONTEXTS = 4096
MOST_LISTED = 10**6
MOST_POSITIONS = 10**6
LONGEST = 2000
States = Annotated[int, Interval(ge=2, le=len(LETTERS)), doc("states that a token can have")]
Order = Annotated[int, Interval(ge=1, le=8), doc("earlier tokens that determine the law of the next one")]
Length = Annotated[int, Interval(ge=2, le=LONGEST), doc("tokens of a string")]


@dataclass(frozen=True)
class InContext:
    """Strings whose kernel is drawn anew for each: `states` ** `order` rows, Dirichlet(`beta`), all independent.

    A law says which positions decide each token (`parents_of`), and where a label is asked.
    """

    KIND: ClassVar[str]
    has_start: ClassVar[bool] = False

    states: States = 3
    order: Order = 1
    length: Length = 64
    beta: Annotated[float, Interval(ge=0.05, le=1e3), doc("parameter of the Dirichlet law of a kernel's rows")] = 1.0

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)
        if self.contexts_count > MOST_CONTEXTS:
            raise GrammarError(
                f"states={self.states}, order={self.order} have {self.contexts_count} contexts, more than the "
                f"{MOST_CONTEXTS} of which a kernel may have rows"
            )

    # -- vocabulary -------------------------------------------------------------------------------

    @property
    def vocab(self) -> tuple[str, ...]:
        """The states a, b, c, ..."""
        return tuple(LETTERS[: self.states])

    @property
    def vocab_size(self) -> int:
        """The number of states."""
        return self.states

    @property
    def contexts_count(self) -> int:
        """Rows of a kernel."""
        return int(self.states**self.order)

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """Texts of one length as ids [batch, pos]. Raises `GrammarError` for anything else."""
        ids = {name: i for i, name in enumerate(self.vocab)}
        return padded([cut(text, ids) for text in texts_of(texts, "abcab")], None)

    def format(self, tokens: ArrayLike) -> str:
        """Text of one row of ids."""
        return "".join(self.vocab[i] for i in token_ids(tokens, self.states, axes=1))

    def ids(self, tokens: ArrayLike) -> Ints:
        """Token ids of this grammar [string, pos]. Raises `GrammarError` for anything else."""
        return token_ids(tokens, self.states, axes=2)

    # -- truth ------------------------------------------------------------------------------------

    def parents_of(self, n: int) -> Ints:
        """The positions that decide each of `n` tokens [n, order], rising; all -1 for one that nothing decides."""
        return self._parents_of(whole_number("n", n, 0, MOST_POSITIONS, GrammarError))

    def asked_of(self, n: int) -> NDArray[np.bool_]:
        """Which of `n` positions are asked for the token that follows [n]."""
        return self._asked_of(whole_number("n", n, 0, MOST_POSITIONS, GrammarError))

    def _parents_of(self, n: int) -> Ints:
        raise NotImplementedError

    def _asked_of(self, n: int) -> NDArray[np.bool_]:
        raise NotImplementedError

    def contexts(self, tokens: ArrayLike) -> Ints:
        """Code of the context in which each token was drawn [string, pos], -1 for none (see `counts`)."""
        array = self.ids(tokens)
        return codes(array, self.parents_of(array.shape[1]), self.states)

    def windows(self, tokens: ArrayLike) -> Ints:
        """Code of the last `order` tokens at each position, itself included [string, pos]; -1 where there are fewer."""
        array = self.ids(tokens)
        return codes(array, lagged(array.shape[1], np.arange(self.order)[::-1]), self.states)

    def matches(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Whether a key was drawn in the context that a query stands in now [string, query, key]; no later key is."""
        array = self.ids(tokens)
        drawn, here = self.contexts(array), self.windows(array)
        found = (drawn[:, None, :] == here[:, :, None]) & (drawn >= 0)[:, None, :]
        return np.asarray(found & np.tri(array.shape[1], dtype=bool))

    # -- law --------------------------------------------------------------------------------------

    def labels(self, tokens: ArrayLike) -> Ints:
        """The token that follows [string, pos], -100 where none is asked for."""
        array = self.ids(tokens)
        n = array.shape[1]
        following = np.concatenate([array[:, 1:], np.full((len(array), 1), IGNORE)], axis=1)
        return np.where(self.asked_of(n) & (np.arange(n) < n - 1), following, IGNORE)

    def _counted(self, tokens: Ints, contexts: Ints, size: int) -> Floats:
        """Nats at each label [string, pos] of who counts what followed the same of `size` contexts [string, pos]."""
        return next_labels(surprise(tokens, contexts, size, self.states, self.beta))

    def posterior(self, tokens: ArrayLike) -> Floats:
        """Nats at each label of who knows the parents and counts: exact where tokens without parents are uniform."""
        array = self.ids(tokens)
        return self._counted(array, self.contexts(array), self.contexts_count)

    def listed(self, n: int) -> tuple[Ints, Floats]:
        """All strings of `n` tokens, and their probabilities where tokens without parents are uniform."""
        if self.states**n > MOST_LISTED:
            raise GrammarError(f"{self.states} states make {self.states}^{n} strings of {n}: too many to list")
        tokens = np.array(list(itertools.product(range(self.states), repeat=n)))
        chances = drawn_often(tokens, self.contexts(tokens), self.contexts_count, self.states, self.beta)
        return tokens, np.exp(chances)

    # -- as data ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there."""
        made: Self = from_fields(cls, data, GrammarError)
        return made


def lagged(n: int, lags: ArrayLike) -> Ints:
    """Positions `lags` before each of `n` [n, lag], all -1 where one of them is before the first."""
    found = np.arange(n)[:, None] - np.asarray(lags)
    return np.where((found >= 0).all(1, keepdims=True), found, -1)
