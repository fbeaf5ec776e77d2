"""Law and truth: tokens START, "." (nothing), "a" and "b"; the state of the automaton is the last letter."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval, doc

from interp.constraints import check_fields
from interp.errors import GrammarError
from interp.vocabulary import cut
from interp.world import Reference


@dataclass(frozen=True)
class LastLetter:
    """Strings of `length` tokens after START; the label of each position is the state after its token."""

    KIND: ClassVar[str] = "last-letter"
    has_start: ClassVar[bool] = True
    start: ClassVar[int] = 0
    vocab: ClassVar[tuple[str, ...]] = ("START", ".", "a", "b")
    vocab_size: ClassVar[int] = 4
    label_names: ClassVar[tuple[str, ...]] = ("none", "last a", "last b")

    length: Annotated[int, Interval(ge=1, le=500), doc("tokens of a string")] = 15
    letters: Annotated[float, Interval(ge=0, le=1), doc("probability of a letter")] = 0.25

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)

    def to_tokens(self, texts: Any) -> Any:
        ids = {name: i for i, name in enumerate(self.vocab)}
        rows = [cut(text, ids) for text in ([texts] if isinstance(texts, str) else texts)]
        return np.array([row if row[:1] == [0] else [0, *row] for row in rows], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LastLetter":
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    def draw(self, rng: np.random.Generator, count: int) -> Any:
        drawn = rng.random((count, self.length))
        tokens = np.where(drawn < self.letters, 2 + (drawn < self.letters / 2), 1)
        return np.concatenate([np.zeros((count, 1), np.int64), tokens], axis=1)

    def last_letter(self, tokens: Any) -> Any:
        """Where the last letter stands, -1 before the first [..., pos]."""
        places = np.where(np.asarray(tokens) > 1, np.arange(np.shape(tokens)[-1]), -1)
        return np.maximum.accumulate(places, axis=-1)

    def state(self, tokens: Any) -> Any:
        at = self.last_letter(tokens)
        return np.where(at < 0, 0, np.take_along_axis(np.asarray(tokens), np.maximum(at, 0), axis=-1) - 1)

    labels = state

    def law_nll(self, tokens: Any) -> Any:
        return np.zeros(np.shape(tokens))  # a string says its labels for certain

    def rungs(self, tokens: Any) -> dict[str, Any]:
        return {"uniform": np.full(np.shape(tokens), np.log(3)), "letters only": np.where(tokens > 1, 0.0, np.log(3))}


def _last(row: list[int], grammar: LastLetter) -> list[int]:
    """The same by a loop, as `check_world` wants it: where the last letter stands after each token."""
    found: list[int] = []
    for at, token in enumerate(row):
        found.append(at if grammar.vocab[token] in "ab" else found[-1] if found else -1)
    return found


REFERENCE = Reference(
    labels=lambda row, grammar: [0 if at < 0 else ".ab".index(grammar.vocab[row[at]]) for at in _last(row, grammar)],
    keys={"last-letter": lambda row, grammar: [{at} for at in _last(row, grammar)]},
    overlays={"last_letter": _last},
)
