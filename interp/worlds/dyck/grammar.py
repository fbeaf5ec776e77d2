"""Bounded Dyck strings: exact law, sampler and ground truth.

Strings of k bracket types with stack depth at most D. Law of Wen et al. 2023, Definition 1, whose
printed eq. (3) lacks the factor 1/k of every opener at depth 1; thesis eq. 2.39 / 3.20 has it.

Complete strings under a length bound follow the law *conditioned* on the bound, as if too long or
too short strings were thrown away. The next token then depends on depth and on the number of
brackets so far; all of it is computed by the dynamic programmes of `_dyck_law`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import true_or_false
from interp.constraints import Annotated, Interval, check_fields, doc
from interp.errors import GrammarError, quoted
from interp.limits import check_memory
from interp.rng import generator
from interp.worlds.dyck import law
from interp.worlds.dyck.checks import (
    Mode,
    as_uniforms,
    first_true,
    known_mode,
    length_range,
    log_or_minus_inf,
    of_mode,
    probability,
    quote,
    whole,
)
from interp.worlds.dyck.law import Bools, Floats, Ints
from interp.worlds.dyck.pairs import counterfactual

Tokens16 = NDArray[np.int16]

MAX_TYPES = 10_000  # token ids then fit int16
MAX_DEPTH = 10_000
BRACKETS = ("()", "[]", "{}", "<>")
_LEXEME = re.compile(r"[()][0-9]+|[()\[\]{}<>]")


@dataclass(frozen=True)
class DyckGrammar:
    """Dyck strings of `num_types` bracket types (k) and depth at most `max_depth` (D).

    open_prob: q, the probability to open at 0 < depth < D. end_prob: the probability of END at depth 0
    of a complete string. Ids: type t opens as 2t and closes as 2t+1, then START, END, PAD. The depth
    of an opening bracket counts itself (1..D); a closing one has the depth after closing (0..D-1).

    Methods take token arrays [..., pos] of any integer type. START, END and PAD leave the stack as it
    is, so ground truth may be asked of model inputs as they are. Nats everywhere. Source: Wen et al.
    2023, Definition 1.

        >>> from interp import DyckGrammar
        >>> grammar = DyckGrammar(num_types=2, max_depth=4)
        >>> tokens = grammar.to_tokens("([])")  # START first
        >>> grammar.depth(tokens).tolist(), grammar.partner(tokens).tolist()
        ([[0, 1, 2, 1, 0]], [[-1, 4, 3, 2, 1]])

    Raises `GrammarError` for numbers that make no grammar; methods, with row and position, for arrays and
    texts that break it.
    """

    KIND: ClassVar[str] = "dyck"
    has_start: ClassVar[bool] = True
    copies: ClassVar[bool] = False  # each bracket is its own label, instead of what follows it

    num_types: Annotated[int, Interval(ge=1, le=MAX_TYPES), doc("types of brackets")] = 2
    max_depth: Annotated[int, Interval(ge=1, le=MAX_DEPTH), doc("largest number of brackets that are open at once")] = 4
    open_prob: Annotated[float, doc("probability to open where closing is possible too, above 0 and below 1")] = 0.5
    end_prob: Annotated[float, doc("probability that a complete string ends at depth 0, above 0 and up to 1")] = 0.5

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)
        clean = {
            "open_prob": probability("open_prob", self.open_prob, one_allowed=False),
            "end_prob": probability("end_prob", self.end_prob, one_allowed=True),
        }
        for name, value in clean.items():  # numpy scalars become plain numbers: to_dict is JSON-ready
            object.__setattr__(self, name, value)

    # ---- vocabulary and text -------------------------------------------------------------------

    @property
    def start(self) -> int:
        return 2 * self.num_types

    @property
    def end(self) -> int:
        return 2 * self.num_types + 1

    @property
    def pad(self) -> int:
        return 2 * self.num_types + 2

    @property
    def vocab_size(self) -> int:
        return 2 * self.num_types + 3

    @property
    def vocab(self) -> tuple[str, ...]:
        """Text of each token id. Types 0..3 are () [] {} <>; type t from 4 on is `(t` and `)t`."""
        return tuple(self._name(token) for token in range(self.vocab_size))

    @cached_property
    def token_ids(self) -> dict[str, int]:
        """Id of each token by its name."""
        return {name: i for i, name in enumerate(self.vocab)}

    def parse(self, text: str, *, require_complete: bool = False) -> list[int]:
        """Token ids of a bracket text; whitespace between brackets is ignored.

        `(4` and `)4` are read greedily, so `(4(5)5)4` needs no spaces. Raises `GrammarError` with the
        character position (from 0) where the text stops being a prefix of a string of this grammar,
        or, with `require_complete`, at its end when brackets are still open.
        """
        if not isinstance(text, str):
            raise GrammarError(f"{quoted(text)} is not a text of brackets: give a str such as '([])'")
        require_complete = true_or_false("require_complete", require_complete)
        ids = {name: i for i, name in enumerate(self.vocab[: self.start])}
        tokens: list[int] = []
        stack: list[int] = []
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            found = _LEXEME.match(text, at)
            name = found.group() if found else text[at]
            if name not in ids:
                raise GrammarError(
                    f"text {quote(text)} position {at}: {quoted(name)} is not a bracket of this grammar; "
                    f"its brackets are {' '.join(list(ids)[:12])}{' ...' if len(ids) > 12 else ''}"
                )
            problem = self._step(stack, ids[name])
            if problem:
                raise GrammarError(f"text {quote(text)} position {at}: {problem}")
            tokens.append(ids[name])
            at += len(name)
        if require_complete and stack:
            closers = "".join(self._name(t + 1) for t in reversed(stack))
            raise GrammarError(
                f"text {quote(text)} position {len(text)}: ends with {len(stack)} open bracket(s); "
                f"{quoted(closers)} would be right there"
            )
        return tokens

    def format(self, tokens: ArrayLike, *, specials: bool = False) -> str:
        """Text of tokens [pos]. START, END and PAD are left out, or set off by spaces with `specials`."""
        array = self._ids(tokens)
        if array.ndim != 1:
            raise GrammarError(f"format takes one string [pos], not an array of shape {array.shape}")
        vocab = self.vocab
        if not true_or_false("specials", specials):
            return "".join(vocab[i] for i in array if i < self.start)
        text = "".join(vocab[i] if i < self.start else f" {vocab[i]} " for i in array)
        return " ".join(text.split())

    def to_tokens(self, texts: str | Sequence[Any] | NDArray[np.integer]) -> Ints:
        """Model inputs int64 [batch, 1 + longest]: START, the brackets, PAD on the right; no END.

        texts: one text, or a list of texts and id lists, or an array [batch, pos]; ids are brackets,
        with PAD allowed on the right.
        """
        if isinstance(texts, np.ndarray):
            if texts.ndim != 2:
                raise GrammarError(f"token array of shape {texts.shape}: to_tokens takes [batch, pos]")
            self._check_padded(*texts.shape)
            body = self._ids(texts)
        else:
            if not isinstance(texts, Sequence):
                raise GrammarError(f"{quoted(texts)} is neither a text nor a list: give '()' or ['()', [0, 1]]")
            rows = [self._row(item) for item in ([texts] if isinstance(texts, str) else texts)]
            longest = max(map(len, rows), default=0)
            self._check_padded(len(rows), longest)
            body = np.full((len(rows), longest), self.pad, dtype=np.int64)
            for row, target in zip(rows, body, strict=True):
                target[: len(row)] = row
        tail = np.logical_or.accumulate(body == self.pad, axis=-1) if body.size else body == self.pad
        special = (body == self.start) | (body == self.end)
        self._reject(special, body, "is not a bracket; START is added here and END never is")
        self._reject(tail & (body != self.pad), body, "comes after PAD; PAD may only stand on the right")
        self.validate(body)
        longest = int((~tail).sum(axis=-1).max(initial=0))
        return np.concatenate([np.full((len(body), 1), self.start), body[:, :longest]], axis=1)

    # ---- sampling ------------------------------------------------------------------------------

    def length_distribution(self, min_length: int = 2, max_length: int = 26) -> tuple[Ints, Floats]:
        """(lengths [m] int64, probabilities [m]): exact law of the number of brackets of a string."""
        low, high = self._bounds(min_length, max_length)
        lengths, mass = self._length_mass(high)
        if low == 0:  # beside the empty string, opening at all costs 1 - end_prob
            mass = mass + np.where(lengths > 0, log_or_minus_inf(1.0 - self.end_prob), 0.0)
        keep = (lengths >= low) & (mass > -np.inf)
        weights = np.exp(mass[keep] - mass[keep].max())
        return lengths[keep], weights / weights.sum()

    def fill(self, uniforms: ArrayLike, lengths: ArrayLike) -> Tokens16:
        """Complete strings as a pure function of uniforms [n, width] in [0, 1) and lengths [n].

        Row i is a string of exactly lengths[i] brackets, drawn from the law conditioned on that, then
        PAD: int16 [n, width]. It depends on row i of the inputs alone. Raises `GrammarError` for a
        length that is not even, not in 0..width, or that no string of the grammar has.
        """
        draws = as_uniforms(uniforms)
        sizes = np.asarray(lengths)
        if sizes.shape != draws.shape[:1] or (sizes.size and sizes.dtype.kind not in "iu"):
            raise GrammarError(
                f"lengths of shape {sizes.shape} and type {sizes.dtype}: fill takes one whole number a row, "
                f"shape {draws.shape[:1]}"
            )
        sizes = sizes.astype(np.int64)
        longest = min(int(sizes.max(initial=0)), draws.shape[1])
        allowed = np.zeros(longest + 1, dtype=bool)
        possible, mass = self._length_mass(longest)
        allowed[possible] = mass > -np.inf
        wrong = (sizes < 0) | (sizes > longest) | ~allowed[np.clip(sizes, 0, longest)]
        if wrong.any():
            row = int(wrong.argmax())
            raise GrammarError(
                f"row {row}: no complete string of {self} has {sizes[row]} brackets within width "
                f"{draws.shape[1]}; lengths are even, from 0 to the width"
            )
        steps = law.complete_steps(self.max_depth, self.open_prob, self.end_prob, longest, longest)
        opens = steps.open.copy()
        opens[:, 0] = 1.0  # a string starts at depth 0, and no choice is left there before its end
        return law.walk(draws, sizes, longest - sizes, opens, self.num_types)

    def fill_prefix(self, uniforms: ArrayLike) -> Tokens16:
        """Prefixes of length `width` of the unbounded law: uniforms [n, width] -> int16 [n, width]."""
        draws = as_uniforms(uniforms)
        opens = law.prefix_steps(self.max_depth, self.open_prob, 1).open
        lengths = np.full(len(draws), draws.shape[1], dtype=np.int64)
        return law.walk(draws, lengths, None, opens, self.num_types)

    def sample(
        self,
        count: int,
        *,
        seed: int,
        mode: Mode = "complete",
        min_length: int | None = None,
        max_length: int | None = None,
        length: int | tuple[int, int] | None = None,
        stream: str = "sample",
    ) -> Tokens16:
        """`count` strings as int16 token rows without START or END, PAD on the right.

        mode "complete": [count, max_length], law conditioned on min_length..max_length brackets (2..26).
        mode "prefix": [count, length] (28); `length` may be a pair (low, high): uniform, both included.
        int16 (ids always fit) keeps memory at a quarter; cast to int64 to index an embedding.
        A pure function of its arguments; the first rows do not depend on `count`.

            >>> from interp import DyckGrammar
            >>> grammar = DyckGrammar()
            >>> [grammar.format(row) for row in grammar.sample(2, seed=0, max_length=8)]
            ['[]', '[[]]']

        Raises `GrammarError` for options of the other mode, for bounds that no string keeps, and for more than memory
        holds.
        """
        count = whole("count", count, 0, None)
        mode, low, high = of_mode(mode, min_length, max_length, length=length)
        if mode == "complete":
            low, width = self._bounds(low, high)
            lengths, probs = self.length_distribution(low, width)
        else:
            low, width = length_range(28 if length is None else length)
            self._check_size(f"{count} strings of {width} brackets", 2 * count * width + 100 * max(width, 2**18))
            lengths = np.arange(low, width + 1)
            probs = np.full(len(lengths), 1.0 / len(lengths))
        self._check_size(f"{count} strings of {width} brackets", 2 * count * width + 100 * max(width, 2**18))
        cumulative = np.cumsum(probs) / probs.sum()
        cumulative[-1] = 1.0
        tokens = np.empty((count, width), dtype=np.int16)
        source = generator(seed, stream)
        rows = max(1, 2**20 // (width + 1))
        for begin in range(0, count, rows):
            # column 0 draws the length, so that a row uses up the same numbers whatever `count` is
            draws = source.random((min(rows, count - begin), width + 1))
            sizes = lengths[np.searchsorted(cumulative, draws[:, 0], side="right")]
            if mode == "complete":
                tokens[begin : begin + rows] = self.fill(draws[:, 1:], sizes)
            else:
                part = self.fill_prefix(draws[:, 1:])
                part[np.arange(width) >= sizes[:, None]] = self.pad
                tokens[begin : begin + rows] = part
        return tokens

    # ---- ground truth --------------------------------------------------------------------------

    def validate(self, tokens: ArrayLike) -> None:
        """Raise `GrammarError` (row, position) unless every row of [..., pos] is a legal prefix."""
        self._structure(tokens)

    def check_inputs(self, tokens: ArrayLike, start: bool = True) -> None:
        """Raise `GrammarError` unless every row of [batch, pos] is an input of a model: START, a legal prefix, PAD.

        `start`: whether START must stand first; it stands nowhere else in any case.
        """
        start = true_or_false("start", start)
        self.validate(tokens)
        ids = np.asarray(tokens)
        wrong = (ids == self.start) & (np.arange(ids.shape[1]) > 0)
        if true_or_false("start", start):
            wrong[:, 0] = ids[:, 0] != self.start
        ended = np.logical_or.accumulate((ids == self.pad) | (ids == self.end), axis=1)[:, :-1]
        wrong[:, 1:] |= ended & (ids[:, 1:] != self.pad)
        if wrong.any():
            row, at = np.argwhere(wrong)[0]
            raise GrammarError(
                f"row {row}, position {at}: {self._name(int(ids[row, at]))!r} does not belong there: an input reads "
                "START, brackets, PAD"
            )

    def depth(self, tokens: ArrayLike) -> Ints:
        """Stack depth after each token, int64 [..., pos]."""
        return self._structure(tokens).depth

    def partner(self, tokens: ArrayLike) -> Ints:
        """Index of the matching bracket, -1 for none (specials, brackets never closed): [..., pos]."""
        return self._structure(tokens).partner

    def stack_top(self, tokens: ArrayLike) -> Ints:
        """Index of the last unmatched open bracket once the token is processed, -1 at depth 0: [..., pos].

        For an opening bracket that is the bracket itself.
        """
        return self._structure(tokens).top

    def unmatched(self, tokens: ArrayLike) -> Bools:
        """[..., query, key]: is `key` (<= query) an opening bracket still unmatched once `query` is processed."""
        array = self._ids(tokens)
        self._check_pairs(array)
        found = self._structure(array)
        open_keys = np.zeros((*array.shape, array.shape[-1]), dtype=bool)
        opener = (array < self.start) & (array % 2 == 0)
        for level in range(1, int(found.depth.max(initial=0)) + 1):
            latest = law.last_opener(opener & (found.depth == level))
            place = np.nonzero(found.depth >= level)
            open_keys[(*place, latest[place])] = True
        return open_keys

    def counterfactual(
        self,
        tokens: ArrayLike,
        position: ArrayLike,
        new_type: ArrayLike | None = None,
        seed: int | None = None,
    ) -> NDArray[Any]:
        """Minimal pairs: the bracket at `position` and its partner, if any, change type; all else stays.

        tokens [batch, pos] or [pos]; position and new_type: a whole number or [batch], position an
        index along pos. Default new type: the next one, (type + 1) mod k, or with `seed` a random
        other one. Returns a copy of the same type. Raises `GrammarError` if k = 1, if a position is
        not a bracket, if the new type is the old one, or for a `seed` beside a `new_type`.
        """
        return counterfactual(self, tokens, position, new_type, seed)

    # ---- exact law -----------------------------------------------------------------------------

    def next_token_probs(
        self,
        tokens: ArrayLike,
        *,
        mode: Mode = "complete",
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> Floats:
        """Exact law of the token after each position of model inputs: float64 [..., pos, vocab_size].

        tokens [..., pos]: START, brackets, then optionally END (complete mode), then PAD. Rows of END
        and PAD are all zeros: nothing is predicted there. Raises `GrammarError` where a prefix cannot
        be completed within the bounds. Prefix mode knows no bounds.
        """
        mode, low, high = of_mode(mode, min_length, max_length)
        array = self._ids(tokens)
        what = f"the law of the next of {self.vocab_size} tokens at {array.size} places"
        self._check_size(what, 9 * array.size * self.vocab_size)
        begins = self._starts(array)
        if not begins.all():
            row = int((~begins).reshape(-1).argmax())
            raise GrammarError(f"row {row}: a model input reads START, brackets, END or not, PAD")
        found = self._structure(array)
        live = array <= self.start
        emitted = np.where(live, np.cumsum(array < self.start, axis=-1), 0)
        depth = np.where(live, found.depth, 0)
        if mode == "complete":
            low, high = self._bounds(low, high)
            steps = law.complete_steps(self.max_depth, self.open_prob, self.end_prob, low, high)
            row_of = np.minimum(emitted, high)
            lost = (emitted > high) | ~steps.reachable[row_of, depth]
            self._reject(live & lost, array, f"cannot be completed with {low} to {high} brackets in all")
        else:
            steps = law.prefix_steps(self.max_depth, self.open_prob, 1)
            row_of = np.zeros_like(emitted)
        probs = np.zeros((*array.shape, self.vocab_size))
        opens = np.where(live, steps.open[row_of, depth] / self.num_types, 0.0)
        probs[..., 0 : self.start : 2] = opens[..., None]
        place = np.nonzero(live & (depth > 0))
        closer = array[(*place[:-1], found.top[place])] + 1
        probs[(*place, closer)] = steps.close[row_of, depth][place]
        probs[..., self.end] = np.where(live, steps.end[row_of, depth], 0.0)
        ends = np.zeros(array.shape, dtype=bool)
        ends[..., 1:] = (array[..., 1:] == self.end) & (probs[..., :-1, self.end] == 0)
        self._reject(ends, array, "has probability 0 here; it ends a complete string within the bounds")
        return probs

    def log_prob(
        self,
        tokens: ArrayLike,
        *,
        mode: Mode = "complete",
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> Floats:
        """Log probability (nats) of each string of [..., pos], shape [...].

        Complete mode counts END, written or not, and the bounds; prefix mode is the probability of
        the prefix among those of its length. A leading START and PAD on the right are ignored. -inf
        for every row that is not such a string; `GrammarError` only for ids that are no tokens.
        """
        mode, low, high = of_mode(mode, min_length, max_length)
        array, complete = self._ids(tokens), mode == "complete"
        end_prob = self.end_prob if complete else 0.0
        found = law.structure(array, self.num_types, self.max_depth)
        begun = np.concatenate([np.full((*array.shape[:-1], 1), self.start), array], axis=-1)
        inside = self._starts(begun) | self._starts(array)
        inside &= ~found.bad.any(axis=-1)
        bracket = array < self.start
        closer = bracket & (array % 2 == 1)
        opens, closes = law.depth_law(self.max_depth, self.open_prob, end_prob)
        before = np.clip(found.depth + np.where(closer, 1, np.where(bracket, -1, 0)), 0, self.max_depth)
        size = bracket.sum(axis=-1)
        if not complete:
            inside &= ~(array == self.end).any(axis=-1)
            log_total = 0.0
        else:
            low, high = self._bounds(low, high)
            mass = law.log_mass(self.max_depth, self.open_prob, self.end_prob, low, high)
            log_total = float(mass[0, 0]) - log_or_minus_inf(end_prob)
            inside &= (found.depth[..., -1:] == 0).all(axis=-1) & (size >= low) & (size <= high)
        log_open, log_close = log_or_minus_inf(opens) - math.log(self.num_types), log_or_minus_inf(closes)
        steps = np.where(bracket, np.where(closer, log_close[before], log_open[before]), 0.0)
        if complete and low > 0:  # the first opener is free, as in `log_mass`
            first = bracket & (np.cumsum(bracket, axis=-1) == 1)
            steps = np.where(first, -math.log(self.num_types), steps)
        return np.where(inside, steps.sum(axis=-1) - log_total, -np.inf)

    def entropy_floor(
        self,
        *,
        mode: Mode = "complete",
        min_length: int | None = None,
        max_length: int | None = None,
        length: int | None = None,
    ) -> float:
        """Exact least loss, nats per prediction: expected conditional entropies / expected predictions.

        Complete: a string of n brackets makes n + 1 predictions (END is one). Prefix: `length` of them.
        """
        return law.exact_floor(self._steps(mode, min_length, max_length, length), self.num_types)

    def depth_only_floor(
        self,
        *,
        mode: Mode = "complete",
        min_length: int | None = None,
        max_length: int | None = None,
        length: int | None = None,
        start_visible: bool | None = None,
    ) -> float:
        """Least loss, nats per prediction, of a predictor that sees depth and stack top, not position.

        `start_visible` (True): it may tell the query START from a closing bracket that returns to depth 0, as every
        model without positions can; matters when min_length > 0, since END cannot follow START then.
        """
        if start_visible is not None:
            start_visible = true_or_false("start_visible", start_visible)
        steps = self._steps(mode, min_length, max_length, length)
        if known_mode(mode) == "prefix" and start_visible is not None:
            raise GrammarError(
                f"start_visible={quoted(start_visible)} changes nothing with mode='prefix': nothing ends there"
            )
        return law.depth_floor(steps, self.num_types, start_visible is not False)

    # ---- saving --------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready description; `from_dict` inverts it."""
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The grammar `to_dict` described. Raises `GrammarError` unless exactly its keys are there."""
        expected = {"kind", *(field.name for field in fields(cls))}
        keys = set(data) if isinstance(data, dict) else set()
        if keys != expected or data["kind"] != cls.KIND:
            raise GrammarError(
                f"{quoted(data)} is no {cls.__name__}: kind {quoted(cls.KIND)} and the keys {sorted(expected)}"
            )
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    # ---- inside --------------------------------------------------------------------------------

    def _bounds(self, min_length: int, max_length: int) -> tuple[int, int]:
        """The bounds as ints, or `GrammarError` when no complete string lies within them."""
        low = whole("min_length", min_length, 0, None)
        high = whole("max_length", max_length, 0, None)
        self._check_table(high)
        given = f"min_length={low}, max_length={high}"
        if low > high:
            raise GrammarError(f"{given} admits no string: min_length must not exceed max_length")
        if low + low % 2 > high:
            raise GrammarError(f"{given} admits no string: complete strings have an even number of brackets")
        lengths, mass = self._length_mass(high)
        if not ((lengths >= low) & (mass > -np.inf)).any():
            raise GrammarError(
                f"{given} admits no string of {self}: with end_prob=1 and max_depth=1 a string has at most 2 "
                "brackets; lower min_length or end_prob"
            )
        return low, high

    def _length_mass(self, high: int) -> tuple[Ints, Floats]:
        """Even lengths 0..high and their log masses; the first opening of a string is not charged for."""
        lengths = np.arange(0, high + 1, 2)
        mass = law.log_mass(self.max_depth, self.open_prob, self.end_prob, high, high)
        # a string of n brackets stands at depth 1 with n - 1 to go: row high - (n - 1) of the table
        return lengths, np.where(lengths > 0, mass[high + 1 - lengths, 1], math.log(self.end_prob))

    def _steps(self, mode: Mode, min_length: int | None, max_length: int | None, length: int | None) -> law.StepLaw:
        mode, low, high = of_mode(mode, min_length, max_length, length=length)
        if mode == "complete":
            low, high = self._bounds(low, high)
            return law.complete_steps(self.max_depth, self.open_prob, self.end_prob, low, high)
        size = whole("length", 28 if length is None else length, 1, None)
        self._check_table(size)
        return law.prefix_steps(self.max_depth, self.open_prob, size)

    def _check_table(self, length: int) -> None:
        """The law of strings has a number for each of their places and depths."""
        what = f"the law of strings of up to {length} brackets and depth {self.max_depth}"
        self._check_size(what, 100 * (length + 2) * (self.max_depth + 1))

    def _check_padded(self, rows: int, longest: int) -> None:
        """Every text becomes as long as the longest, and is checked with some eight numbers a token."""
        self._check_size(f"token ids of {rows:,} texts, {longest:,} brackets the longest,", 64 * rows * longest)

    def _check_pairs(self, array: Ints) -> None:
        """One truth value per pair of positions of [..., pos]."""
        shape = [*array.shape, array.shape[-1]]
        self._check_size(f"unmatched open brackets of shape {shape}", 2 * math.prod(shape))

    def _check_size(self, what: str, need: int) -> None:
        check_memory(what, need, "take fewer or shorter ones", GrammarError)

    def _ids(self, tokens: ArrayLike) -> Ints:
        """`tokens` as int64 [..., pos] with every id below `vocab_size`."""
        array = np.asarray(tokens)
        if array.ndim == 0 or (array.size and array.dtype.kind not in "iu"):
            raise GrammarError(
                f"tokens of shape {array.shape} and type {array.dtype}: give whole-number ids [..., pos]"
            )
        wrong = (array < 0) | (array >= self.vocab_size)
        if wrong.any():
            row, at = first_true(wrong)
            given, last = array[wrong][0], self.vocab_size - 1
            raise GrammarError(f"row {row}, position {at}: {given} is not a token id; ids are 0 to {last}")
        return array.astype(np.int64)

    def _structure(self, tokens: ArrayLike) -> law.Structure:
        array = self._ids(tokens)
        found = law.structure(array, self.num_types, self.max_depth)
        if found.bad.any():
            row, at = first_true(found.bad)
            stack: list[int] = []
            line = array.reshape(-1, array.shape[-1])[row, : at + 1]
            problems = [self._step(stack, int(token)) for token in line]
            raise GrammarError(f"row {row}, position {at}: {problems[-1]}")
        return found

    def _step(self, stack: list[int], token: int) -> str:
        """Apply one token to a stack of opener ids; say what is wrong with it, or "" and push or pop."""
        if token >= self.start:
            return ""
        name, deepest = repr(self._name(token)), len(stack) == self.max_depth
        shut = repr(self._name(stack[-1] + 1)) if stack else ""
        if token % 2 == 0:
            if deepest:
                return f"{name} goes over max_depth {self.max_depth}; {shut} would be right there"
            stack.append(token)
        elif not stack:
            return f"{name} closes nothing; an opening bracket would be right there"
        elif stack[-1] != token - 1:
            right = shut if deepest else f"{shut} or an opening bracket"
            return f"{name} does not close {self._name(stack[-1])!r}; {right} would be right there"
        else:
            stack.pop()
        return ""

    def _name(self, token: int) -> str:
        """Text of one token id."""
        kind, side = divmod(int(token), 2)
        if token >= self.start:
            return ("START", "END", "PAD")[token - self.start]
        return BRACKETS[kind][side] if kind < len(BRACKETS) else f"{'()'[side]}{kind}"

    def _row(self, item: Any) -> list[int]:
        """One element of `to_tokens`' list as ids."""
        if isinstance(item, str):
            return self.parse(item)
        if np.ndim(item) != 1:
            raise GrammarError(
                f"{quoted(item)} is neither a text nor a list of ids: give texts, or lists of ids in a list"
            )
        return [int(token) for token in self._ids(item)]

    def _starts(self, array: Ints) -> Bools:
        """[...]: does the row of [..., pos] read START, brackets, at most one END, PAD."""
        # rank by the order they must come in: START 0, bracket 1, END 2, PAD 3
        kind = np.where(array < self.start, 1, array - self.start + (array > self.start))
        ordered = (kind[..., 1:] >= kind[..., :-1]).all(axis=-1)
        fits: Bools = ordered & ((kind == 0).sum(axis=-1) == 1) & ((kind == 2).sum(axis=-1) <= 1)
        return fits

    def _reject(self, wrong: Bools, array: Ints, why: str) -> None:
        if wrong.any():
            row, at = first_true(wrong)
            raise GrammarError(f"row {row}, position {at}: {self._name(array[wrong][0])!r} {why}")
