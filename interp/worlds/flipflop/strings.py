"""What both laws of flip-flops share: texts, the stored bit, classes of reads."""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import GrammarError
from interp.numeric_arrays import token_ids
from interp.vocabulary import cut, padded, texts_of

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
MOST_FREE = 10  # tokens, or pairs, that are drawn freely in strings that can all be listed


def read(texts: Any, vocab: tuple[str, ...]) -> Ints:
    """Ids [text, pos] of texts of one length."""
    ids = {name: i for i, name in enumerate(vocab)}
    return padded([cut(text, ids) for text in texts_of(texts, vocab[-1])], None)


def ids_of(grammar: Any, tokens: Any) -> Ints:
    """`tokens` as ids of a grammar [..., pos]."""
    return token_ids(tokens, grammar.vocab_size)


def check_few(grammar: Any, free: int) -> None:
    """Raise `GrammarError` where so many free choices make more strings than can be listed."""
    if free > MOST_FREE:
        raise GrammarError(f"length={grammar.length}: strings are too many to be listed")


def ignored(rng: np.random.Generator, ignore: tuple[float, ...], count: int) -> Floats:
    """p_i of each string [count, 1]."""
    part = rng.integers(0, len(ignore), (count, 1))
    return np.asarray(ignore)[part]


def after(tokens: Ints, instruction: int) -> Bools:
    """Where a bit stands right after an instruction [..., pos]."""
    found = np.zeros(tokens.shape, dtype=bool)
    found[..., 1:] = (tokens[..., :-1] == instruction) & (tokens[..., 1:] > 2)
    return found


def latest(where: Bools) -> Ints:
    """The latest marked position up to each, itself included; -1 before the first [..., pos]."""
    return np.asarray(np.maximum.accumulate(np.where(where, np.arange(where.shape[-1]), -1), axis=-1))


def stored(grammar: Any, tokens: Any) -> Ints:
    """The bit written last [..., pos], -1 before the first write."""
    at = grammar.last_write(tokens)
    value = np.take_along_axis(grammar.value(tokens), np.maximum(at, 0), axis=-1)
    return np.where(at < 0, -1, value)


def both_written(grammar: Any, tokens: Any) -> Bools:
    """Where another bit than the stored one was written, too [..., pos]."""
    written, value = grammar.written(tokens), grammar.value(tokens)
    each = [np.logical_or.accumulate(written & (value == bit), axis=-1) for bit in (0, 1)]
    return np.asarray(each[0] & each[1])


def classes_of(grammar: Any, tokens: Ints, reads: Bools) -> dict[str, Bools]:
    """Reads; those half a string or more after the last write; those before which both bits were written."""
    gap = np.arange(tokens.shape[1]) - grammar.last_write(tokens)
    return {
        "read": reads,
        "far": reads & (gap >= grammar.length // 2),
        "contested": reads & both_written(grammar, tokens),
    }


def data_of(grammar: Any) -> dict[str, Any]:
    """A grammar, JSON-ready."""
    data = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(grammar).items()}
    return {"kind": grammar.KIND, **data}
