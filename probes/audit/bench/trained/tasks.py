"""Small tasks whose circuits are known before training: what is drawn, what is asked, and the recipe of a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from interp.config import TransformerConfig
from interp.grammars import DyckGrammar
from interp.rng import generator
from interp.vocabulary import Vocabulary
from probes.audit.bench.trained.cases import NO_LABEL, Examples, Head, Ints
from probes.audit.bench.trained.models import Frozen, Recipe
from probes.audit.labels import LabelledInput
from probes.claims import BUILT_IN, Relation, offset, position

WORDS, CLASSES, LENGTH = 12, 4, 14
START, ONE, OTHER = WORDS, WORDS + 1, WORDS + 2
VOCABULARY = Vocabulary((*(f"w{i}" for i in range(WORDS)), "[CLS]", "one", "other"), start=START)
PLACES = 6  # of what is looked for by where it stands
BRACKETS = DyckGrammar(2, 4)
NUM_INPUTS = 600  # that the audit gets
NUM_EXAMPLES = 512  # on which truth is checked
WHERE: tuple[Relation, ...] = (BUILT_IN["previous"], offset(-2), offset(-3), position(1), position(2), position(3))
Draw = Callable[[np.random.Generator, int], Examples]


def drawn_relations(seed: int, family: str, count: int) -> list[Relation]:
    """So many different relations that name one key, drawn for a seed."""
    order = generator(seed, f"bench/trained/{family}").permutation(len(WHERE))
    return [WHERE[int(i)] for i in order[:count]]


def mass(seed: int, family: str) -> float:
    """How much of its weight a frozen head puts where it looks."""
    return float(generator(seed, f"bench/trained/{family}/mass").uniform(0.7, 0.97))


def examples_of(recipe: Recipe, seed: int) -> Examples:
    """Strings that truth is checked on."""
    return recipe.draw(generator(seed, "bench/trained/examples"), NUM_EXAMPLES)


def labelled_inputs(recipe: Recipe, seed: int) -> tuple[LabelledInput, ...]:
    """What a user has: distinct strings, each with its label at the last position."""
    made = recipe.draw(generator(seed, "bench/trained/inputs"), NUM_INPUTS)
    kept = np.sort(np.unique(made.tokens, axis=0, return_index=True)[1])
    names = VOCABULARY.names
    rows = zip(made.tokens[kept], made.labels[kept, -1], strict=True)
    return tuple(LabelledInput([names[t] for t in row], int(label), -1) for row, label in rows)


# -- the class of a word somewhere --------------------------------------------------------------------------


def look_up(relation: Relation | None) -> Draw:
    """[CLS] and words; asked at each: the class of the word that `relation` names (None: of the word itself)."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count, LENGTH)
        if relation is None:
            at = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        else:
            n = tokens.shape[1]
            keys = relation.keys(tokens, VOCABULARY, np.broadcast_to(np.tri(n, k=-1, dtype=bool), (count, n, n)))
            at = np.where(keys.any(-1), keys.argmax(-1), 0)
        word = np.take_along_axis(tokens, at, axis=1)
        return Examples(tokens, np.where(word < WORDS, word % CLASSES, NO_LABEL))

    return draw


def reader(
    relation: Relation | None, heads: int, frozen: Mapping[Head, Frozen] | None = None, dropout: bool = False
) -> Recipe:
    """One layer of so many heads, and no MLP: what is not read by a head is not known where it is asked."""
    config = _config(heads, scale_scores=not frozen)
    return Recipe(config, VOCABULARY, look_up(relation), frozen=frozen or {}, dropout=dropout)


def heir(relation: Relation, elder: Relation) -> Recipe:
    """Two heads; the first looks where one that was trained on another task looked, the second is free."""
    return Recipe(_config(2), VOCABULARY, look_up(relation), inherits=reader(elder, 1))


# -- under a condition --------------------------------------------------------------------------------------


def switched(first: int, second: int) -> Recipe:
    """Three words, then "one" and "other" in any order: asked is the class of word `first`, or of word `second`.

    One head, and no MLP that could choose from what a head brings from both.
    """

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count, LENGTH)
        tokens[:, 4:] = rng.integers(ONE, OTHER + 1, (count, LENGTH - 3))
        answers = np.where(tokens == ONE, tokens[:, [first]], tokens[:, [second]]) % CLASSES
        return Examples(tokens, np.where(tokens >= ONE, answers, NO_LABEL))

    return Recipe(_config(1), VOCABULARY, draw, steps=400)


def asked_last(place: int) -> Recipe:
    """Words, then "one": asked there alone is the class of the word at `place`."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        tokens = _words(rng, count, 9)
        tokens[:, -1] = ONE
        labels = np.full(tokens.shape, NO_LABEL)
        labels[:, -1] = tokens[:, place] % CLASSES
        return Examples(tokens, labels)

    return Recipe(_config(1), VOCABULARY, draw, batch=128)


# -- where a word stands ------------------------------------------------------------------------------------


def whereabouts() -> Recipe:
    """Different words, then one of them again: asked is at which place it stood. Values know places only.

    Embeddings are one-hot, and no value reads the coordinates of tokens; so what the head looks at says nothing about
    tokens, and where it looks says all.
    """

    def draw(rng: np.random.Generator, count: int) -> Examples:
        words = rng.permuted(np.tile(np.arange(WORDS), (count, 1)), axis=1)[:, :PLACES]
        place = rng.integers(0, PLACES, count)
        again = words[np.arange(count), place]
        tokens = np.concatenate([np.full((count, 1), START), words, again[:, None]], axis=1)
        labels = np.full(tokens.shape, NO_LABEL)
        labels[:, -1] = place
        return Examples(tokens, labels)

    size, places = VOCABULARY.vocab_size, PLACES + 2
    config = _config(
        1, d_model=size + places, n_ctx=places, embedding="onehot", positions="onehot", norm="none",
        d_vocab_out=PLACES, d_head=24,
    )  # fmt: skip
    return Recipe(config, VOCABULARY, draw, steps=400, batch=128, lr=2e-2, blind=slice(0, size))


# -- brackets -----------------------------------------------------------------------------------------------


def closing(grammar: DyckGrammar) -> Callable[[np.random.Generator, int], Examples]:
    """What draws prefixes of bracket strings; asked is which bracket closes, wherever one does."""

    def draw(rng: np.random.Generator, count: int) -> Examples:
        drawn = grammar.sample(count, mode="prefix", length=26, seed=int(rng.integers(2**31)), stream="bench/trained")
        tokens = np.asarray(grammar.to_tokens(drawn))
        following = np.concatenate([tokens[:, 1:], np.full((count, 1), grammar.start)], axis=1)
        closes = (following < grammar.start) & (following % 2 == 1)
        return Examples(tokens, np.where(closes, following, NO_LABEL))

    return draw


def closers(frozen: Mapping[Head, Frozen]) -> Recipe:
    """Prefixes of bracket strings; asked is which bracket closes, wherever one does."""
    config = _config(
        2, d_vocab=BRACKETS.vocab_size, d_vocab_out=BRACKETS.vocab_size, scale_scores=False, n_ctx=64,
        pad_token=BRACKETS.pad,
    )  # fmt: skip
    return Recipe(config, BRACKETS, closing(BRACKETS), frozen=frozen)


# -- inside -------------------------------------------------------------------------------------------------


def _words(rng: np.random.Generator, count: int, length: int) -> Ints:
    words = rng.integers(0, WORDS, (count, length))
    return np.concatenate([np.full((count, 1), START), words], axis=1)


def _config(heads: int, **changes: Any) -> TransformerConfig:
    base: dict[str, Any] = {
        "d_vocab": VOCABULARY.vocab_size, "n_layers": 1, "n_heads": heads, "d_model": 32, "d_head": 16,
        "mlp_depth": 0, "positions": "learned", "n_ctx": LENGTH + 1, "d_vocab_out": CLASSES, "init_std": 0.15,
    }  # fmt: skip
    return TransformerConfig(**{**base, **changes})


def others(relations: Sequence[Relation], count: int, seed: int, family: str) -> list[Relation]:
    """Relations that are none of these, drawn for a seed."""
    left = [r for r in WHERE if r not in relations]
    order = generator(seed, f"bench/trained/{family}/others").permutation(len(left))
    return [left[int(i)] for i in order[:count]]
