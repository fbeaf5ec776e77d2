"""What is given, a model, a population or numbers, checked and as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from interp.checks import index_of
from interp.errors import AnalysisError, InterpError, RequestError
from interp.limits import check_memory
from interp.numeric_arrays import real_array
from probes.topics.words import MEMORY, Array

LARGEST = 1e300


def members(model: Any) -> Sequence[Any] | None:
    """Models as a sequence; None for numbers."""
    if hasattr(model, "hook_dict") or hasattr(model, "W_V"):
        return [model]
    if isinstance(model, np.ndarray) or hasattr(model, "detach") or not isinstance(model, Sequence):
        return None
    if len(model) == 0:
        raise AnalysisError("topic blocks: an empty population has no matrix: pass at least one model")
    if not (hasattr(model[0], "hook_dict") or hasattr(model[0], "W_V")):
        return None
    if not hasattr(model, "params"):  # a population has one config and grammar
        for i, one in enumerate(model):
            if not (hasattr(one, "hook_dict") or hasattr(one, "W_V")):
                raise RequestError(f"topic blocks: model {i} is {type(one).__name__}, not a model like model 0")
            if any(getattr(one, name, None) != getattr(model[0], name, None) for name in ("config", "grammar")):
                raise RequestError(
                    f"topic blocks: model {i} has another config or grammar than model 0: a list of models has one"
                )
    return model


def check_size(model: Any, attention: bool, permutations: int) -> None:
    """Refuse, before anything is copied, matrices of more words than memory holds."""
    models = members(model)
    if models is not None:
        count, size = len(models), int(getattr(getattr(models[0], "cfg", None), "d_vocab", None) or 1)
    else:
        shape = _shape(model)
        count, size = (shape[0] if len(shape) == 3 else 1), (shape[-1] if len(shape) > 1 else 1)
    # Each matrix as given, within rows and in units; the mean's spectrum; of attention, sums by pair of words besides.
    need = 8 * size**2 * (5 * count + 6) + 16 * count * permutations
    if attention and models is not None:
        need += 8 * (20 * MEMORY + size**2 * (3 * count + 14))
    check_memory(f"topic blocks of {count} matrices of {size} words", need, "take fewer words, or fewer seeds")


def _shape(given: Any) -> tuple[int, ...]:
    """Of an array, or of lists of lists or arrays, none of them copied."""
    if hasattr(given, "shape"):
        return tuple(map(int, given.shape))
    return (len(given), *_shape(given[0])) if isinstance(given, (list, tuple)) and given else ()


def numbers(values: Any, needed: str = "a model, a population or a matrix [n, n] of numbers") -> Array:
    """An array or tensor of real numbers as float64."""
    return real_array(values, f"topic blocks: {needed} is needed, and what was given is", RequestError)


def stack(given: Any) -> Array:
    """A matrix or several as [S, n, n], finite."""
    if isinstance(given, (list, tuple)) and given and all(hasattr(x, "shape") for x in given):
        arrays = [numbers(x) for x in given]
        if other := [list(a.shape) for a in arrays if a.shape != arrays[0].shape]:
            raise RequestError(f"topic blocks: matrices of shape {list(arrays[0].shape)} and {other[0]} do not stack")
        m = np.stack(arrays)
    else:
        m = numbers(given)
    m = m[None] if m.ndim == 2 else m
    if m.ndim != 3 or m.shape[1] != m.shape[2] or 0 in m.shape:
        raise RequestError(f"topic blocks: shape {list(np.shape(m))} is not square: [n, n] or [seeds, n, n] is needed")
    return finite(m)


def finite(m: Array, error: type[InterpError] = RequestError) -> Array:
    """`m`, refused where an entry is not finite or so large that sums would not be."""
    if not (fine := np.abs(m) <= LARGEST).all():
        at = np.argwhere(~fine)[0]
        raise error(f"topic blocks: entry {at.tolist()} is {m[tuple(at)]}: finite numbers up to {LARGEST:g} are needed")
    return m


def weight(model: Any, name: str) -> Array:
    """A model's weight of this name as float64."""
    if not hasattr(model, name):  # a model's own refusal, an InterpError, comes through
        raise AnalysisError(f"topic blocks: {type(model).__name__} has no {name}: pass a model with that weight")
    return numbers(getattr(model, name))


def value_map(model: Any, layer: int, head: int | None) -> tuple[Array, Array]:
    """[predicted, attended] and what is added whatever is attended to: one layer's map from tokens to logits."""
    e, v, o, u = (weight(model, name) for name in ("W_E", "W_V", "W_O", "W_U"))
    b_v, b_o, b_u = (weight(model, name) for name in ("b_V", "b_O", "b_U"))
    at = index_of("layer", layer, len(v), "topic blocks")
    heads = list(range(v.shape[1])) if head is None else [index_of("head", head, v.shape[1], "topic blocks")]
    through = sum(v[at, h] @ o[at, h] for h in heads)
    always = sum(b_v[at, h] @ o[at, h] for h in heads) + b_o[at]
    return (e @ through @ u).T, np.asarray(always @ u + b_u)
