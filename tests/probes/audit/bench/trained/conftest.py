"""Models whose heads are written by hand, for tests of the trained bench."""

import pytest
import torch

from probes.audit.bench.trained import tasks as t
from probes.audit.bench.trained.families import HEAD, SPARE
from probes.audit.bench.trained.models import Frozen
from probes.claims import BUILT_IN

PREVIOUS = BUILT_IN["previous"]


def by_hand(say, mass=1.0):
    """A model of two heads that both have `mass` of their weight on the previous word, and say as much of it as `say`
    has it [head].

    The class of the previous word is asked for; coordinates: 13 + 2 of tokens, 4 of what is said.
    """
    recipe = t.reader(PREVIOUS, 2, {HEAD: Frozen(PREVIOUS, mass), SPARE: Frozen(PREVIOUS, mass)})
    model = recipe.build()
    size, classes = t.VOCABULARY.vocab_size, t.CLASSES
    with torch.no_grad():
        for word in range(size):
            model.embed.W_E[word, word] = 1.0
        for norm in (model.blocks[0].ln1, model.ln_final):
            norm.w[:] = 1.0
        attn = model.blocks[0].attn
        for head, amount in enumerate(say):
            for word in range(t.WORDS):
                attn.W_V[head, word, word % classes] = 1.0
            for kind in range(classes):
                attn.W_O[head, kind, size + kind] = amount
        for kind in range(classes):
            model.unembed.W_U[size + kind, kind] = 1.0
    return recipe, model


@pytest.fixture(scope="session")
def readers_of_the_previous_word():
    return by_hand
