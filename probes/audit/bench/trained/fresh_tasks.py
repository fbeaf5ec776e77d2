"""Tasks and recipes of the fresh families: those that no rule of the audit was developed on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from interp.config import TransformerConfig
from interp.grammars import DyckGrammar
from interp.rng import generator
from interp.vocabulary import Vocabulary
from probes.audit.bench.trained.cases import NO_LABEL, Examples, Head, Ints
from probes.audit.bench.trained.models import Frozen, Recipe
from probes.audit.bench.trained.tasks import CLASSES, LENGTH, NUM_INPUTS, START, VOCABULARY, WORDS, closing
from probes.audit.labels import LabelledInput
from probes.claims import Relation

FROM = 4  # the first row that is asked where two words are read: all relations of `tasks.WHERE` have a key there


def _vocabulary(*names: str) -> Vocabulary:
    return Vocabulary(("[CLS]", *names), start=0)


def inputs_of(made: Examples, grammar: Any, seed: int) -> tuple[LabelledInput, ...]:
    """Distinct strings that have a label, each read at one of its labelled places, drawn evenly."""
    kept = np.sort(np.unique(made.tokens, axis=0, return_index=True)[1])
    kept = kept[(made.labels[kept] >= 0).any(1)]
    labels = made.labels[kept]
    read = np.where(labels >= 0, generator(seed, "bench/trained/read").random(labels.shape), -1.0).argmax(1)
    rows = zip(made.tokens[kept], labels[np.arange(len(kept)), read], read, strict=True)
    return tuple(LabelledInput([grammar.vocab[t] for t in row], int(label), int(at)) for row, label, at in rows)


def inputs(recipe: Recipe, seed: int) -> tuple[LabelledInput, ...]:
    """`inputs_of` strings that are drawn as those of training."""
    return inputs_of(recipe.draw(generator(seed, "bench/trained/inputs"), NUM_INPUTS), recipe.grammar, seed)


def word_at(relation: Relation, tokens: Ints) -> Ints:
    """[input, pos]: the token of the one key that a relation names before the query, -1 without."""
    n = tokens.shape[1]
    before = np.broadcast_to(np.tri(n, k=-1, dtype=bool), (len(tokens), n, n))
    keys = relation.keys(tokens, VOCABULARY, before)
    return np.where(keys.any(-1), np.take_along_axis(tokens, keys.argmax(-1), axis=1), -1)


def _words(rng: np.random.Generator, count: int, length: int = LENGTH, kinds: int = WORDS) -> Ints:
    return np.concatenate([np.full((count, 1), START), rng.integers(0, kinds, (count, length))], axis=1)


def _config(vocabulary: Any, outputs: int, **changes: Any) -> TransformerConfig:
    base: dict[str, Any] = {
        "d_vocab": vocabulary.vocab_size, "n_layers": 1, "n_heads": 1, "d_model": 32, "d_head": 16, "mlp_depth": 0,
        "positions": "learned", "n_ctx": LENGTH + 1, "d_vocab_out": outputs, "init_std": 0.15,
    }  # fmt: skip
    return TransformerConfig(**{**base, **changes})


# -- in both directions -------------------------------------------------------------------------------------


def both_ways(what: str) -> Recipe:
    """A bidirectional model; asked is the class of the next word, or of the word as far from the other end."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count)
        word = tokens[:, ::-1] if what == "mirror" else np.roll(tokens, -1, axis=1)
        labels = np.where(word < WORDS, word % CLASSES, NO_LABEL)
        labels[:, 0] = NO_LABEL
        return Examples(tokens, labels)

    norm = "LNPre" if what == "mirror" else "LN"
    config = _config(VOCABULARY, CLASSES, direction="bidirectional", norm=norm)
    return Recipe(config, VOCABULARY, draw, steps=350 if what == "mirror" else 250)


# -- one head, other blocks and other queries ---------------------------------------------------------------


def no_residual() -> Recipe:
    """Different words; asked at each is the word itself. What the head does not bring is not there: no residual."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        words = rng.permuted(np.tile(np.arange(WORDS), (count, 1)), axis=1)
        tokens = np.concatenate([np.full((count, 1), START), words], axis=1)
        return Examples(tokens, np.where(tokens < WORDS, tokens, NO_LABEL))

    config = _config(VOCABULARY, WORDS, block="bare", d_head=24, d_mlp=32)
    return Recipe(config, VOCABULARY, draw)


POINTED_WORDS, FARTHEST, BEFORE = 32, 6, 8
POINTERS = _vocabulary(*(f"w{i}" for i in range(POINTED_WORDS)), *map(str, range(1, FARTHEST + 1)))


def _pointed(tokens: Ints, grammar: Any, visible: Any) -> Any:
    back = np.where(tokens > POINTED_WORDS, tokens - POINTED_WORDS, 10**6)
    return visible & ((np.arange(tokens.shape[1])[:, None] - back[..., None]) == np.arange(tokens.shape[1]))


POINTED = Relation("pointed", "the token that the number points back to", "mass", "tokens", _pointed)


def pointer() -> Recipe:
    """Words, then a number: asked is the word that stands so far before it, one of 32."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        words, back = rng.integers(1, POINTED_WORDS + 1, (count, BEFORE)), rng.integers(1, FARTHEST + 1, (count, 1))
        tokens = np.concatenate([np.zeros((count, 1), dtype=np.int64), words, POINTED_WORDS + back], axis=1)
        labels = np.full(tokens.shape, NO_LABEL)
        labels[:, -1:] = np.take_along_axis(tokens, BEFORE + 1 - back, axis=1) - 1
        return Examples(tokens, labels)

    config = _config(POINTERS, POINTED_WORDS, n_ctx=BEFORE + 2, d_model=48, d_head=32, norm="LNPre")
    return Recipe(config, POINTERS, draw, steps=500, batch=128)


NAMES, VALUES, ASKS = 6, 4, 8
NAMED = _vocabulary(*(f"n{i}v{j}" for i in range(NAMES) for j in range(VALUES)), *(f"n{i}?" for i in range(NAMES)))
FIRST_ASK = 1 + NAMES * VALUES


def _asked(tokens: Ints, grammar: Any, visible: Any) -> Any:
    name = np.where((tokens >= 1) & (tokens < FIRST_ASK), (tokens - 1) // VALUES, -1)
    wanted = np.where(tokens >= FIRST_ASK, tokens - FIRST_ASK, -2)
    return visible & (wanted[:, :, None] == name[:, None, :])


ASKED_NAME = Relation("asked-name", "the token with the name that is asked for", "mass", "tokens", _asked)


def by_name() -> Recipe:
    """Six names in any order, each with a value, then questions for names. No positions; the paper's block."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        order = rng.permuted(np.tile(np.arange(NAMES), (count, 1)), axis=1)
        values = rng.integers(0, VALUES, (count, NAMES))
        asks = rng.integers(0, NAMES, (count, ASKS))
        tokens = np.concatenate(
            [np.zeros((count, 1), dtype=np.int64), 1 + order * VALUES + np.take_along_axis(values, order, axis=1),
             FIRST_ASK + asks], axis=1
        )  # fmt: skip
        labels = np.full(tokens.shape, NO_LABEL)
        labels[:, NAMES + 1 :] = np.take_along_axis(values, asks, axis=1)
        return Examples(tokens, labels)

    config = _config(NAMED, VALUES, block="paper", d_head=32, positions="none", norm="LN")
    return Recipe(config, NAMED, draw, steps=400)


MOST, HOW_MANY = 24, 10
NUMBERS = _vocabulary(*map(str, range(MOST)))


def largest() -> Recipe:
    """Numbers; asked at each is the largest so far. No positions, and no MLP that could compare."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        numbers = rng.integers(1, MOST + 1, (count, HOW_MANY))
        labels = np.maximum.accumulate(numbers, axis=1) - 1
        labels[:, 0] = NO_LABEL
        none = np.full((count, 1), NO_LABEL)
        tokens = np.concatenate([np.zeros((count, 1), dtype=np.int64), numbers], axis=1)
        return Examples(tokens, np.concatenate([none, labels], axis=1))

    config = _config(NUMBERS, MOST, positions="none", n_ctx=HOW_MANY + 1)
    return Recipe(config, NUMBERS, draw, steps=400)


RARE = 0.1
SELF = _vocabulary(*(f"w{i}" for i in range(WORDS)), *(f"own{i}" for i in range(CLASSES)), "ask")
FIRST_OWN, ASK = 1 + WORDS, 1 + WORDS + CLASSES


def rare(place: int) -> Recipe:
    """Three words, then tokens that are their own answer; one in ten asks for the class of the word at `place`."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        words, rest = rng.integers(1, WORDS + 1, (count, 3)), rng.integers(0, CLASSES, (count, LENGTH - 3))
        asks = rng.random(rest.shape) < RARE
        tokens = np.concatenate(
            [np.zeros((count, 1), dtype=np.int64), words, np.where(asks, ASK, FIRST_OWN + rest)], axis=1
        )
        labels = np.full(tokens.shape, NO_LABEL)
        labels[:, 4:] = np.where(asks, words[:, [place - 1]] % CLASSES, rest)
        return Examples(tokens, labels)

    return Recipe(_config(SELF, CLASSES), SELF, draw, steps=500, batch=128)


FILLERS = 10
BOLD_NAMES = tuple(f"bold{i}" for i in range(CLASSES))
BOLD = _vocabulary(*(f"w{i}" for i in range(FILLERS)), *BOLD_NAMES)


def by_values() -> Recipe:
    """One bold token among others; asked at each later place is which. Attention is even: the values choose."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = np.concatenate(
            [np.zeros((count, 1), dtype=np.int64), rng.integers(1, FILLERS + 1, (count, LENGTH))], axis=1
        )
        place, which = rng.integers(1, 5, (count, 1)), rng.integers(0, CLASSES, (count, 1))
        np.put_along_axis(tokens, place, 1 + FILLERS + which, axis=1)
        return Examples(tokens, np.where(np.arange(LENGTH + 1) > place, which, NO_LABEL))

    return Recipe(_config(BOLD, CLASSES, attention="uniform"), BOLD, draw)


# -- two heads that are both needed -------------------------------------------------------------------------

FEW = 5
SUMS: dict[str, dict[str, Any]] = {
    "sum": {"d_mlp": 64, "mlp_depth": 2, "activation": "silu", "norm": "LNPre", "kinds": FEW, "outputs": FEW},
    "larger": {"block": "authors", "norm": "none", "kinds": WORDS, "outputs": 2},
    "equal": {"d_mlp": 64, "mlp_depth": 3, "activation": "relu", "kinds": 4, "outputs": 2},
}


def of_two(task: str, one: Relation, two: Relation, frozen: Mapping[Head, Frozen]) -> Recipe:
    """Asked of the words at `one` and `two`: their sum modulo 5, which is larger (no label if neither), or whether
    they are equal (half of the rows that are asked)."""
    how = dict(SUMS[task])
    kinds, outputs = how.pop("kinds"), how.pop("outputs")

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count, kinds=kinds)
        a, b = word_at(one, tokens), word_at(two, tokens)
        if task == "sum":
            labels = (a + b) % FEW
        elif task == "larger":
            labels = np.where(a == b, NO_LABEL, a > b)
        else:  # of equal and unequal rows as many, about
            asked = (a == b) | (rng.random(a.shape) < 1 / (kinds - 1))
            labels = np.where(asked, a == b, NO_LABEL)
        labels[:, :FROM] = NO_LABEL
        return Examples(tokens, labels)

    config = _config(VOCABULARY, outputs, n_heads=2, scale_scores=False, **how)
    steps = {"sum": 500, "larger": 300, "equal": 400}[task]
    return Recipe(config, VOCABULARY, draw, steps=steps, frozen=frozen)


# -- decoys -------------------------------------------------------------------------------------------------

VOTES, NOISE = ("yes", "no"), ("up", "down")
POLL = _vocabulary(*VOTES, *NOISE, "f0", "f1", "f2", "f3")
LONG, VOTERS = 40, (3, 5, 7)


def majority(frozen: Mapping[Head, Frozen]) -> Recipe:
    """Forty tokens, a few of them votes; asked at each is which of both leads. As many tokens of another pair are
    there, which say nothing."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        order = rng.permuted(np.tile(np.arange(LONG), (count, 1)), axis=1)
        votes, noise = rng.choice(VOTERS, (count, 1)), rng.choice(VOTERS, (count, 1))
        words = np.where(order < votes + noise, 3, 5) + rng.integers(0, 2, (count, LONG))
        words += np.where(order >= votes + noise, 2 * rng.integers(0, 2, (count, LONG)), 0)
        words -= np.where(order < votes, 2, 0)
        tokens = np.concatenate([np.zeros((count, 1), dtype=np.int64), words], axis=1)
        lead = np.cumsum(np.where(tokens == 1, 1, np.where(tokens == 2, -1, 0)), axis=1)
        return Examples(tokens, np.where(lead == 0, NO_LABEL, lead < 0))

    config = _config(POLL, 2, n_heads=2, norm="none", positions="none", n_ctx=LONG + 1, scale_scores=False)
    return Recipe(config, POLL, draw, steps=300, frozen=frozen)


COVARIES = 0.8


def shortcut(place: int, other: int, covaries: float, frozen: Mapping[Head, Frozen]) -> Recipe:
    """Asked at all later places: the class of the word at `place`. In training the word at `other` is of the same
    class in a share `covaries` of the strings, and in the others as it comes."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count)
        alike = rng.random(count) < covaries
        kind = tokens[:, place] % CLASSES + CLASSES * rng.integers(0, WORDS // CLASSES, count)
        tokens[:, other] = np.where(alike, kind, tokens[:, other])
        labels = np.where(np.arange(LENGTH + 1) >= FROM, tokens[:, [place]] % CLASSES, NO_LABEL)
        return Examples(tokens, labels)

    config = _config(VOCABULARY, CLASSES, n_heads=2, scale_scores=False)
    return Recipe(config, VOCABULARY, draw, steps=400, frozen=frozen)


def wide(relation: Relation, frozen: Mapping[Head, Frozen]) -> Recipe:
    """Four heads wider than the stream, a deep MLP, and a norm that is added: the class of the word at `relation`."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count)
        word = word_at(relation, tokens)
        return Examples(tokens, np.where((word >= 0) & (word < WORDS), word % CLASSES, NO_LABEL))

    config = _config(
        VOCABULARY, CLASSES, n_heads=4, d_head=48, block="authors", norm_added=True, mlp_depth=3, d_mlp=32,
        activation="relu", scale_scores=False,
    )  # fmt: skip
    return Recipe(config, VOCABULARY, draw, steps=400, frozen=frozen, lr=5e-3)


# -- two layers, and brackets -------------------------------------------------------------------------------

TWICE = 7


def before_copy(frozen: Mapping[Head, Frozen], **changes: Any) -> Recipe:
    """Different words, then the same in another order; asked at each of these is what stood before its copy."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        words = rng.permuted(np.tile(np.arange(WORDS), (count, 1)), axis=1)[:, :TWICE]
        order = rng.permuted(np.tile(np.arange(TWICE), (count, 1)), axis=1)
        tokens = np.concatenate([np.full((count, 1), START), words, np.take_along_axis(words, order, axis=1)], axis=1)
        labels = np.full(tokens.shape, NO_LABEL)
        before = np.take_along_axis(tokens, order, axis=1)
        labels[:, TWICE + 1 :] = np.where(before < WORDS, before, NO_LABEL)
        return Examples(tokens, labels)

    base = {"n_layers": 2, "d_model": 48, "d_head": 24, "scale_scores": not frozen}
    return Recipe(_config(VOCABULARY, WORDS, **base, **changes), VOCABULARY, draw, steps=400, frozen=frozen)


BRACKETS = DyckGrammar(4, 3)


def brackets(frozen: Mapping[Head, Frozen]) -> Recipe:
    """Prefixes of strings of four types of brackets; asked is which closes. No norms, an MLP."""
    size = BRACKETS.vocab_size
    config = _config(
        BRACKETS, size, block="authors", norm="none", mlp_depth=2, d_mlp=32, activation="silu", scale_scores=False,
        n_ctx=64, pad_token=BRACKETS.pad, positions="none",
    )  # fmt: skip
    return Recipe(config, BRACKETS, closing(BRACKETS), frozen=frozen)


def frozen_to(relations: Sequence[Relation], mass: float) -> dict[Head, Frozen]:
    """Heads of layer 0, in turn."""
    return {(0, head): Frozen(relation, mass) for head, relation in enumerate(relations)}
