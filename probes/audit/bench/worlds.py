"""The two worlds of the claim bench: brackets, and words without a grammar.

A world has inputs, a relation that names one key for the rows of its task, and the task itself: to say of which type
(class) the token at that key is. Every item of a task has a minimal pair, whose token at that key is of another type.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interp.grammars import DyckGrammar
from interp.rng import generator
from interp.vocabulary import Vocabulary
from interp.worlds.dyck.claims import Closers
from probes.audit.inputs import visible_keys
from probes.audit.labels import LabelledInput
from probes.audit.tasks import Items, Task
from probes.claims import BUILT_IN, Pairs, Relation, Tokens, offset, position

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
NUM_INPUTS = 200
NUM_LABELLED = 320  # a donor must be found among them, of one length
NUM_WORDS = 40


VOCABULARY = Vocabulary(
    (*(f"w{i}" for i in range(NUM_WORDS)), "[CLS]", "[SEP]", "[PAD]"), start=NUM_WORDS, pad=NUM_WORDS + 2
)
SEP = NUM_WORDS + 1


def sample_words(count: int, padded: bool, seed: int, sep_at: int | None = None) -> Ints:
    """[CLS], then 26 (padded: 20 to 26) random words with a [SEP] among them (at `sep_at`, or anywhere after five)."""
    rng = generator(seed, "bench/words")
    tokens = np.full((count, 28), NUM_WORDS + 2)
    for row in tokens:
        n = int(rng.integers(20, 27)) if padded else 26
        row[1 : n + 1] = rng.integers(0, NUM_WORDS, n)
        row[sep_at or int(rng.integers(6, n))] = SEP
    tokens[:, 0] = NUM_WORDS
    return tokens if padded else tokens[:, :27]


@dataclass(frozen=True)
class Classes:
    """`Closers` for a model that answers by type instead of by bracket."""

    name: str = "types"
    words: str = "tell the type of the last unmatched open bracket"

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        items = Closers().items(tokens, grammar, rows, seed)
        return replace(items, answer=items.answer // 2, foil=items.foil // 2)


@dataclass(frozen=True)
class Tell:
    """Of which class the word is that `relation` points to. Read where it points to one word, elsewhere than here.

    `place`: the one position at which all inputs are read; None: any.
    """

    relation: Relation
    num_types: int
    direction: Literal["causal", "bidirectional"]
    place: int | None = None
    name: str = "tell"
    words: str = "tell the class of the word there"

    def items(self, tokens: Ints, grammar: Vocabulary, rows: Bools, seed: int) -> Items:
        rng = generator(seed, "bench/items")
        keys = self.relation.keys(tokens, grammar, seen_by(tokens, grammar, self.direction))
        key = np.where(keys.sum(-1) == 1, keys.argmax(-1), -1)
        places = np.arange(tokens.shape[1])
        there = np.take_along_axis(tokens, np.maximum(key, 0), 1)
        after = np.take_along_axis(tokens, np.minimum(np.maximum(key, 0) + 1, places[-1]), 1)  # a detour ends there
        good = rows & (key >= 0) & (key != places) & (there < NUM_WORDS) & (after != grammar.pad)
        good &= (key < places[-1]) & (there != tokens)
        if self.place is not None:
            good &= places == self.place
        drawn = np.where(good, rng.random(good.shape), -1.0)
        sequence = np.flatnonzero(good.any(1))
        read = drawn.argmax(1)[sequence]
        base, flipped = tokens[sequence], key[sequence, read]
        donors = base.copy()
        for row, at in zip(donors, flipped, strict=True):
            new = np.setdiff1d(np.arange(NUM_WORDS), row)
            new = new[new % self.num_types != row[at] % self.num_types]
            row[at] = rng.choice(new)
        each = np.arange(len(base))
        answer, foil = (text[each, flipped] % self.num_types for text in (base, donors))
        return Items(sequence, base, donors, read, flipped, answer, foil)


@dataclass(frozen=True)
class World:
    """Where a case plays.

    - `types` [vocab]: of each token, or -1; `answers` [type]: the output that says it; `num_outputs`.
    - `relation`: names the key whose type is asked for; `rivals`: others a head may attend by; `truths`: relations
      of which a head can be said to attend to them.
    - `detour`: two relations that lead to the same information: a first head at the second relation's key fetches
      it by the first, a second head reads it there.
    - `task`: None for the one that the grammar's models are trained for.
    - `labelled`: the inputs with their labels, as a user has them, who knows no minimal pairs; or None.
    """

    name: Literal["brackets", "words"]
    grammar: Any
    direction: Literal["causal", "bidirectional"]
    classifier: bool
    inputs: Ints
    num_types: int
    types: Ints
    answers: Ints
    num_outputs: int
    relation: Relation
    rivals: tuple[Relation, ...]
    detour: tuple[Relation, Relation]
    task: Task | None
    labelled: tuple[LabelledInput, ...] | None = None


def seen_by(tokens: Tokens, grammar: Any, direction: str) -> Pairs:
    """What relations are laid over: [batch, query, key]."""

    class Seer:
        cfg = type("cfg", (), {"attention_dir": direction})

    return visible_keys(Seer, tokens, grammar)


# -- brackets -----------------------------------------------------------------------------------------------


def _beneath(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    """At an open bracket: the unmatched one that it was put on."""
    stack = grammar.unmatched(tokens) & visible & ~np.eye(tokens.shape[1], dtype=bool)
    last = np.where(stack.any(-1), tokens.shape[1] - 1 - stack[..., ::-1].argmax(-1), -1)
    opener = (tokens < grammar.start) & (tokens % 2 == 0)
    return np.asarray(stack & (last[..., None] == np.arange(tokens.shape[1])) & opener[..., None])


BENEATH = Relation("beneath", "the open bracket beneath", "mass", "dyck", _beneath)


def brackets(rng: np.random.Generator, seed: int, types: int | None = None) -> World:
    """A causal model of brackets; the key is the last unmatched open bracket, read at closing brackets."""
    k, depth = types or int(rng.integers(2, 5)), int(rng.integers(3, 6))
    grammar = DyckGrammar(k, depth)
    classifier = bool(rng.random() < 0.4)
    length = int(rng.integers(22, 28))
    drawn = grammar.sample(NUM_INPUTS, mode="prefix", length=length, seed=seed, stream="bench/brackets")
    tokens = np.arange(grammar.vocab_size)
    opener = (tokens < grammar.start) & (tokens % 2 == 0)
    return World(
        name="brackets",
        grammar=grammar,
        direction="causal",
        classifier=classifier,
        inputs=np.asarray(grammar.to_tokens(drawn)),
        num_types=k,
        types=np.where(opener, tokens // 2, -1),
        answers=np.arange(k) if classifier else 2 * np.arange(k) + 1,
        num_outputs=k + 2 if classifier else grammar.vocab_size,
        relation=BUILT_IN["stack-top"],
        rivals=tuple(
            BUILT_IN[name]
            for name in ("unmatched", "same-depth-openers", "partner", "previous", "last-opener", "first", "openers")
        ),
        detour=(BENEATH, BUILT_IN["partner"]),
        task=Classes() if classifier else None,
    )


# -- words --------------------------------------------------------------------------------------------------


def after(relation: Relation) -> Relation:
    """The token after the relation's key."""

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        out = np.zeros_like(visible)
        out[:, :, 1:] = relation.keys(tokens, grammar, visible)[:, :, :-1]
        return out & visible

    return Relation(f"after-{relation.name}", f"the token after {relation.words}", relation.kind, relation.needs, keys)


def words(rng: np.random.Generator, seed: int, types: int | None = None) -> World:
    """Random words, causal or bidirectional with padding; the key is at an offset, a position, or an induction."""
    grammar = VOCABULARY
    direction: Literal["causal", "bidirectional"] = "causal" if rng.random() < 0.5 else "bidirectional"
    num_types = types or int(rng.integers(2, 5))
    classifier = bool(rng.random() < 0.5)
    options: list[Relation] = [
        BUILT_IN["previous"], offset(-2), offset(-3), position(int(rng.integers(1, 6))), BUILT_IN["induction"],
    ]  # fmt: skip
    if direction == "bidirectional":
        options += [BUILT_IN["next"], offset(2)]
    relation = options[int(rng.integers(len(options)))]
    tokens = np.arange(grammar.vocab_size)
    labelled = bool(rng.random() < 0.5) and relation.name != "induction"
    padded = direction == "bidirectional"
    inputs = sample_words(NUM_LABELLED if labelled else NUM_INPUTS, padded, seed)
    task = Tell(relation, num_types, direction, int(rng.integers(13, 19)) if labelled else None)
    return World(
        name="words",
        grammar=grammar,
        direction=direction,
        classifier=classifier,
        inputs=inputs,
        num_types=num_types,
        types=np.where(tokens < NUM_WORDS, tokens % num_types, -1),
        answers=np.arange(num_types),
        num_outputs=num_types + 2 if classifier else grammar.vocab_size,
        relation=relation,
        rivals=_others(relation, options),
        detour=(BUILT_IN["previous"], after(relation)),
        task=task,
        labelled=with_labels(task, inputs, classifier, seed) if labelled else None,
    )


def with_labels(task: Tell, inputs: Ints, classifier: bool, seed: int) -> tuple[LabelledInput, ...]:
    """The inputs that have an answer, with it: a class, or the token that stands for it.

    In a random order, or with the answers taking turns, as files of pairs have them.
    """
    items = task.items(inputs, VOCABULARY, np.ones(inputs.shape, dtype=bool), seed)
    order = np.arange(len(items))
    if generator(seed, "bench/order").random() < 0.5:
        turn = np.array([int((items.answer[:i] == answer).sum()) for i, answer in enumerate(items.answer)])
        order = np.lexsort((items.answer, turn))
    out = []
    for row, read, answer in zip(items.tokens[order], items.read[order], items.answer[order], strict=True):
        text = [VOCABULARY.names[token] for token in row if token != VOCABULARY.pad]
        out.append(LabelledInput(text, int(answer) if classifier else VOCABULARY.names[answer], int(read)))
    return tuple(out)


def _others(relation: Relation, options: Sequence[Relation]) -> tuple[Relation, ...]:
    return tuple(r for r in (*options, BUILT_IN["first"], BUILT_IN["current"]) if r.name != relation.name)
