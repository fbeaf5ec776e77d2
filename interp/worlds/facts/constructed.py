"""`constructed/facts`: an attention-only model whose weights are written by hand, exact for every fact of a table.

THE STREAM has a one-hot part for the token and a part with a coordinate for each answer; one layer, two heads, no
MLP, no positions, no norm.

HEAD 0 reads the subject: every query scores `SHARP` at subjects and 0 elsewhere, so that in a string of n tokens the
subject's weight is at least 1 - n e^-SHARP. Its value is 1 at the answers that the subject has, one in each block.

HEAD 1 reads the relation in the same way; its value is 1 at every answer of the block A_r.

At END the sum is 2 at a*(s, r), which alone is an answer of s and in A_r, and 1 at most at any other. The unembedding
multiplies by `CERTAIN`: the right logit leads by CERTAIN (1 - n e^-SHARP). It is the sum that the slides' bound for
attention alone is about (seed 003, L3460-3477), and that a trained model's OV circuits are compared with.
"""

from typing import Any

import torch

from interp.checks import given_or_default
from interp.config import TransformerConfig
from interp.errors import RequestError, quoted
from interp.model import SandboxTransformer
from interp.torch_modes import ordinary_torch
from interp.worlds.facts.grammar import FactsGrammar
from interp.worlds.facts.recipes import CONSTRUCTED

SHARP = 40.0  # lead of the right key's score: e^-40 = 4e-18
CERTAIN = 30.0  # lead of the right answer's logit
NAME = "constructed/facts"


@ordinary_torch()
def construct(name: str) -> SandboxTransformer:
    """The constructed model of that name, for the default grammar. Raises `RequestError` if there is none."""
    if name != NAME:
        raise RequestError(f"no constructed model {quoted(name)}; there is {NAME}")
    return lookup()


def lookup(grammar: FactsGrammar | None = None) -> SandboxTransformer:
    """The model for a grammar: 1 layer of 2 heads, no norm, no MLP, no biases, no positions."""
    grammar = given_or_default("grammar", grammar, FactsGrammar)
    tokens, answers = grammar.vocab_size, grammar.outputs
    config = TransformerConfig(
        tokens,
        n_layers=1,
        n_heads=2,
        d_model=tokens + answers,
        d_head=answers,
        mlp_depth=0,
        n_ctx=grammar.length,
        norm="none",
        scale_scores=False,
        biases=False,
        d_vocab_out=answers,
        class_names=grammar.label_names,
    )
    about = {"name": NAME, "about": CONSTRUCTED[NAME], "trained": False, "constructed": True}
    model: Any = SandboxTransformer(config, grammar, about)
    attention = model.blocks[0].attn
    subjects, relations = slice(0, grammar.subjects), slice(grammar.subjects, grammar.first_noise)
    with torch.no_grad():
        model.embed.W_E[:, :tokens].fill_diagonal_(1.0)
        attention.W_Q[:, :tokens, 0] = SHARP
        attention.W_K[0, subjects, 0] = attention.W_K[1, relations, 0] = 1.0
        for relation in range(grammar.relations):
            attention.W_V[0, range(grammar.subjects), grammar.table[:, relation].tolist()] = 1.0
        attention.W_V[1, relations] = torch.from_numpy(grammar.blocks).float()
        for head in range(2):
            attention.W_O[head, :, tokens:].fill_diagonal_(1.0)
        model.unembed.W_U[tokens:].fill_diagonal_(CERTAIN)
    return model
