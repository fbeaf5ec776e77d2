"""Law and truth of facts: a subject and a relation stand among noise, END is last and asked for their answer.

The task of factual recall (slides of seed 003, L3403-3412; Nichani et al. 2024): a table says the answer a*(s, r) of
every subject and relation, and answers of a relation r lie in a block A_r of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import whole_number
from interp.constraints import Annotated, Interval, check_fields, doc, from_fields
from interp.errors import GrammarError, quoted
from interp.numeric_arrays import token_ids
from interp.rng import check_draw, generator
from interp.vocabulary import cut, padded, texts_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
IGNORE = -100
MOST = 1000  # of each kind of token
MOST_OUTPUTS = 10_000
MOST_LISTED = 10**6


@dataclass(frozen=True)
class FactsGrammar:
    """`length` - 1 places, one of them a subject and another a relation, all others noise; END stands last.

    The label of END is the answer that the table has for them; nothing else has a label. Token ids: subjects,
    relations, noise, END. Answers of relation r are r * `answers` to (r + 1) * `answers` - 1.

    The table is drawn from `table_seed`, each answer evenly from its block, and written into files.

    Source: Nichani et al. 2024.
    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    A table that was changed in a file is refused likewise.
    """

    KIND: ClassVar[str] = "facts"
    has_start: ClassVar[bool] = False

    subjects: Annotated[int, Interval(ge=2, le=MOST), doc("subjects that a string may hold")] = 16
    relations: Annotated[int, Interval(ge=2, le=MOST), doc("relations that a string may hold")] = 4
    answers: Annotated[int, Interval(ge=2, le=MOST), doc("answers of each relation")] = 8
    noise: Annotated[int, Interval(ge=1, le=MOST), doc("noise tokens, which carry no information")] = 20
    length: Annotated[int, Interval(ge=3, le=2000), doc("tokens of a string, END included")] = 32
    table_seed: Annotated[int, Interval(ge=0, le=2**31 - 1), doc("seed that the table of facts is drawn from")] = 0

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)
        if self.outputs > MOST_OUTPUTS:
            raise GrammarError(
                f"relations={self.relations}, answers={self.answers} have {self.outputs} answers together, and "
                f"{MOST_OUTPUTS} are the most"
            )

    # -- the table --------------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """Answers of all relations."""
        return self.relations * self.answers

    @cached_property
    def table(self) -> Ints:
        """a*(s, r) [subject, relation]."""
        shape = (self.subjects, self.relations)
        drawn = generator(self.table_seed, "facts/table").integers(0, self.answers, shape)
        table = np.asarray(drawn + self.answers * np.arange(self.relations))
        table.setflags(write=False)
        return table

    @cached_property
    def chances(self) -> Floats:
        """p(a | r) [relation, answer]: the share of subjects that have this answer."""
        counts = np.zeros((self.relations, self.outputs))
        for subject in self.table:
            counts[np.arange(self.relations), subject] += 1
        return counts / self.subjects

    @property
    def blocks(self) -> Bools:
        """Whether an answer is one of the relation's [relation, answer]: the indicator of A_r."""
        return np.asarray(np.arange(self.outputs) // self.answers == np.arange(self.relations)[:, None])

    def answer(self, subject: str, relation: str) -> str:
        """The name of the answer to a subject and a relation, by their names. Raises `GrammarError` for no fact."""
        ids = {name: i for i, name in enumerate(self.vocab)}
        s, r = (ids.get(name, -1) if isinstance(name, str) else -1 for name in (subject, relation))
        if not 0 <= s < self.subjects <= r < self.first_noise:
            raise GrammarError(
                f"{quoted((subject, relation))} is not a fact of the table: it has subjects s0 to s{self.subjects - 1} "
                f"and relations r0 to r{self.relations - 1}"
            )
        return self.label_names[int(self.table[s, r - self.subjects])]

    # -- vocabulary -------------------------------------------------------------------------------

    @property
    def first_noise(self) -> int:
        """Id of the first noise token."""
        return self.subjects + self.relations

    @property
    def end(self) -> int:
        """Id of END."""
        return self.first_noise + self.noise

    @property
    def vocab(self) -> tuple[str, ...]:
        """s0, s1, ..., r0, ..., n0, ..., END."""
        kinds = (("s", self.subjects), ("r", self.relations), ("n", self.noise))
        return (*(f"{kind}{i}" for kind, count in kinds for i in range(count)), "END")

    @property
    def vocab_size(self) -> int:
        """Subjects, relations, noise and END."""
        return self.end + 1

    @property
    def label_names(self) -> tuple[str, ...]:
        """Answers by relation: a0.0, a0.1, ..., a1.0, ..."""
        return tuple(f"a{r}.{i}" for r in range(self.relations) for i in range(self.answers))

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """Texts of one length as ids [batch, pos]. Raises `GrammarError` for anything else, and for no string of the
        law."""
        ids = {name: i for i, name in enumerate(self.vocab)}
        given = texts_of(texts, "s1 n0 r2 END")
        rows = [cut(text, ids) for text in given]
        for text, row in zip(given, rows, strict=True):
            if wrong := self._wrong(np.array(row, dtype=np.int64)):
                raise GrammarError(f"{quoted(text)} {wrong}")
        return padded(rows, None)

    def format(self, tokens: ArrayLike) -> str:
        """Text of one row of ids, blanks between tokens."""
        return " ".join(self.vocab[i] for i in token_ids(tokens, self.vocab_size, axes=1))

    def ids(self, tokens: ArrayLike) -> Ints:
        """Token ids of this grammar. Raises `GrammarError` for anything else."""
        return token_ids(tokens, self.vocab_size)

    def check_inputs(self, tokens: ArrayLike, start: bool = True) -> None:
        """Raise `GrammarError` unless every row [..., pos] is a string of the law, as texts are held to it.

        `start` says whether START must be there where grammars have one, and changes nothing here.
        """
        self.facts(tokens)

    # -- law --------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` strings [count, length]: subject, relation, their places and noise are drawn evenly."""
        count = check_draw(rng, count, self.length + 6)
        places, each = self.length - 1, np.arange(count)
        tokens = rng.integers(self.first_noise, self.end, (count, self.length))
        tokens[:, -1] = self.end
        subject = rng.integers(0, places, count)
        relation = rng.integers(0, places - 1, count)
        tokens[each, subject] = rng.integers(0, self.subjects, count)
        tokens[each, relation + (relation >= subject)] = rng.integers(self.subjects, self.first_noise, count)
        return tokens

    def facts(self, tokens: ArrayLike) -> tuple[Ints, Ints]:
        """Subject and relation of each string [string], from 0. Raises `GrammarError` for no string of the law."""
        array = self.ids(tokens)
        rows = array.reshape(-1, array.shape[-1])
        kinds = self.kinds(rows)
        right = (kinds == 0).sum(1) == 1
        right &= ((kinds == 1).sum(1) == 1) & (rows[:, -1:] == self.end).all(1) & ((kinds == 3).sum(1) == 1)
        if not right.all():
            row = rows[~right][0]
            raise GrammarError(f"{quoted(row.tolist())} {self._wrong(row)}")
        subject, relation = (np.take_along_axis(rows, (kinds == k).argmax(1)[:, None], 1)[:, 0] for k in (0, 1))
        shape = array.shape[:-1]
        return subject.reshape(shape), (relation - self.subjects).reshape(shape)

    def labels(self, tokens: ArrayLike) -> Ints:
        """The answer at END [..., pos], -100 elsewhere. Raises `GrammarError` for no string of the law."""
        array = self.ids(tokens)
        out = np.full(array.shape, IGNORE, dtype=np.int64)
        out[..., -1] = self.table[self.facts(array)]
        return out

    def law_nll(self, tokens: ArrayLike) -> Floats:
        """Zeros [..., pos]: subject and relation say the answer for certain."""
        return np.zeros(self.labels(tokens).shape)

    def predictions(self, tokens: ArrayLike) -> dict[str, Floats]:
        """What simpler predictors say at END [string, answer], and the law: `uniform` over all answers; `subject`, who
        does not know the relation, p(a | s); `relation`, who does not know the subject, p(a | r); `fact`, p(a | s, r).
        """
        subject, relation = self.facts(token_ids(tokens, self.vocab_size, axes=2))
        eye = np.eye(self.outputs)
        return {
            "uniform": np.full((len(subject), self.outputs), 1 / self.outputs),
            "subject": eye[self.table].mean(1)[subject],
            "relation": self.chances[relation],
            "fact": eye[self.table[subject, relation]],
        }

    def rungs(self, tokens: Ints) -> dict[str, Floats]:
        """Nats at each label [string, pos] of all predictors but the law; 0 where no label is."""
        told, tokens = self.predictions(tokens), self.ids(tokens)
        answer = self.labels(tokens)[:, -1:]
        out = {}
        for name in ("uniform", "subject", "relation"):
            out[name] = np.zeros(tokens.shape)
            out[name][:, -1] = -np.log(np.take_along_axis(told[name], answer, 1)[:, 0])
        return out

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, length] of a small instance, and their probabilities [n], which are equal."""
        places = self.length - 1
        count = places * (places - 1) * self.subjects * self.relations * self.noise ** (places - 2)
        if count > MOST_LISTED:
            raise GrammarError(f"{self.noise} noise tokens in strings of {self.length} make {count} strings: too many")
        noise = np.indices((self.noise,) * (places - 2)).reshape(places - 2, -1).T + self.first_noise
        rows = [
            [*np.insert(np.insert(part, min(a, b), first), max(a, b), second), self.end]
            for part in noise
            for a in range(places)
            for b in range(places)
            if a != b
            for s in range(self.subjects)
            for r in range(self.subjects, self.first_noise)
            for first, second in [(s, r) if a < b else (r, s)]
        ]
        return np.array(rows, dtype=np.int64), np.full(count, 1 / count)

    @classmethod
    def small(cls) -> "FactsGrammar":
        """Three subjects, two relations and two noise tokens in strings of five, for checks."""
        return cls(subjects=3, relations=2, answers=2, noise=2, length=5, table_seed=1)

    # -- truth ------------------------------------------------------------------------------------

    def kinds(self, tokens: ArrayLike) -> Ints:
        """0 for subjects, 1 for relations, 2 for noise, 3 for END [..., pos]."""
        array = self.ids(tokens)
        return np.searchsorted([self.subjects, self.first_noise, self.end], array, side="right").astype(np.int64)

    def seen(self, tokens: ArrayLike, kind: int) -> Ints:
        """Where the last token of a kind stands, up to each position [..., pos]; -1 where there is none yet."""
        here = self.kinds(tokens) == whole_number("kind", kind, 0, 3, GrammarError)
        return np.maximum.accumulate(np.where(here, np.arange(here.shape[-1]), -1), axis=-1)

    def _wrong(self, row: Ints) -> str:
        """Why a row is no string of the law, "" if it is one."""
        kinds = self.kinds(row) if len(row) else row
        for kind, name in enumerate(("subject", "relation")):
            if (count := int((kinds == kind).sum())) != 1:
                return f"is not a string of this law: it holds {count} {name}s, and one is needed"
        if not len(row) or row[-1] != self.end or (kinds == 3).sum() != 1:
            return "is not a string of this law: END stands last and nowhere else"
        return ""

    # -- as data ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the table."""
        return {"kind": self.KIND, **asdict(self), "table": self.table.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "FactsGrammar":
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there, the table its seed's."""
        made: FactsGrammar = from_fields(cls, data, GrammarError, "table")
        if data["table"] != made.table.tolist():
            raise GrammarError(f"table={quoted(data['table'])} is not the one that table_seed={made.table_seed} draws")
        return made
