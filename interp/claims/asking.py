"""Relations and conditions asked of inputs. They may be a user's own: what one gives is checked here, and named."""

from collections.abc import Callable
from typing import Any

import numpy as np

from interp.claims.types import Condition, Pairs, Relation, Rows, Tokens
from interp.errors import InterpError, RequestError, quoted


def keys_of(relation: Relation, tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    """The set of a relation on inputs [batch, pos], [batch, query, key].

    Raises `RequestError`, in one line that names the relation, where it raises, or gives anything but truth values of
    that shape within `visible`. Arrays are copies: what it writes into them is its own affair.
    """
    what = f"relation {quoted(relation.words)}"
    keys = _asked(what, lambda: relation.keys(tokens.copy(), grammar, visible.copy()), visible.shape, "query, key")
    if (outside := keys & ~visible).any():
        batch, query, key = (int(at) for at in np.argwhere(outside)[0])
        raise RequestError(
            f"{what} names key {key} for query {query} of input {batch}, which is not visible there: take those within "
            "`visible`"
        )
    return keys


def rows_of(condition: Condition, tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    """The queries of a condition on inputs [batch, pos], [batch, query]. Raises as `keys_of` does."""
    what = f"condition {quoted(condition.words)}"
    return _asked(what, lambda: condition.rows(tokens.copy(), grammar, keys.copy()), tokens.shape, "query")


def _asked(what: str, ask: Callable[[], Any], shape: tuple[int, ...], axes: str) -> Any:
    try:
        found = np.asarray(ask())
    except (InterpError, MemoryError):
        raise
    except Exception as error:
        told = " ".join(str(error).split())
        raise RequestError(f"{what} raises {type(error).__name__}{': ' * bool(told)}{told}") from error
    if found.dtype != bool or found.shape != shape:
        raise RequestError(
            f"{what} gives {found.dtype} of shape {list(found.shape)}, not bool of shape {list(shape)}, [batch, {axes}]"
        )
    return found
