"""Rules of relations and conditions of one's own, told apart by what they say of any tokens."""

import numpy as np


def constant(tokens, grammar, visible):
    """The first token."""
    return visible & (np.arange(tokens.shape[1]) == 0)


def own(tokens, grammar, visible):
    """The current token."""
    return visible & np.eye(tokens.shape[1], dtype=bool)


def late(tokens, grammar, keys):
    """Queries from position 4 on."""
    return np.broadcast_to(np.arange(tokens.shape[1]) > 3, tokens.shape)


def early(tokens, grammar, keys):
    """The others."""
    return ~late(tokens, grammar, keys)
