"""Every parameter of a public class: another value changes what is made of the object, or is refused by name.

An object that holds what it was given shows nothing. So each is put to its use, and parts of the outcome that repeat
the given value count for nothing (see `walk`).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch

import interp
import interp.claims
import probes
from interp import (
    AttentionArrays,
    CopyGrammar,
    DyckGrammar,
    Population,
    SandboxTransformer,
    TopicGrammar,
    TransformerConfig,
    load_checkpoint,
)
from interp.claims import Claims
from interp.grammars import BracketStrings, Grammar, Vocabulary
from interp.plots import attention_heatmap
from interp.world import World
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.dyck.claims import Closers
from interp.worlds.facts import FactsGrammar
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from interp.worlds.markov import CausalGraphGrammar, MarkovGrammar, OrderGrammar
from interp.worlds.markov.claims import Successor
from interp.worlds.recall import RecallGrammar
from probes import Claim, LabelledInput, audit_claim
from probes.audit import lay_out
from probes.claims import Condition, Items, Question, Relation, token, usable
from probes.core import Result
from rules import constant, early, late, own
from walk import Entry, Made, Pair, cases, check, missing, public, used

pytestmark = pytest.mark.slow
GRAMMAR = DyckGrammar(2, 4)
TRAINED = load_checkpoint("dyck-standard")[0]
CONFIG = TransformerConfig(7, n_layers=1, d_model=8, d_head=8, d_mlp=8, init_std=0.5)
IDS = torch.tensor([[4, 0, 2, 3, 1], [4, 2, 3, 6, 6]])
# What nobody makes to call something with: a world's parts, which `check_world` walks.
PARTS = {
    interp.claims.Called: "of a world",
    Claims: "of a world",
    interp.claims.Made: "of a world",
    Items: "of a question",
    Question: "a protocol",
    Successor: "a question of a world",
    Grammar: "a protocol",
    World: "see check_world",
}


def run(model):
    return model, model(IDS)


def audited(claim, inputs=None, **how):
    how = {"num_inputs": 150, "length": 12} | how if inputs is None else how
    found = audit_claim(TRAINED, claim, inputs, untrained=False, **how)
    return found.pattern, found.use, found.verdict, found.evidence


def asked_of_a_relation(relation):
    claim = Claim([(1, 0)], relation)
    where = [usable(relation, grammar) for grammar in (None, GRAMMAR, TopicGrammar(3, 4))]
    return claim.text, where, audited(claim)


def asked_of_a_condition(condition):
    claim = Claim([(1, 0)], "start", condition)
    other = audited(
        Claim([(1, 0)], "first", condition), [[4, 0, 1, 0], [4, 2, 3, 2]], grammar=Vocabulary(GRAMMAR.vocab)
    )
    return claim.text, audited(claim), other


def sampled(grammar):
    """Strings that are drawn, and what the law and the labels say of them."""
    tokens = grammar.draw(np.random.default_rng(0), 30)
    return tokens, grammar.labels(tokens)


CHAIN = {"states": (3, 2), "order": (1, 2), "length": (12, 9), "beta": (1.0, 5.0)}


@dataclass(frozen=True)
class Mine(Closers):
    """A question of one's own."""

    name: str = "mine"
    words: str = "guess what closes"


def two(tokens, grammar, visible):
    return visible & (np.arange(tokens.shape[1]) < 2)


def with_others(one):
    """An audit on strings labelled by the bracket that may close next, of which `one` is one."""
    strings = GRAMMAR.sample(200, seed=0, mode="prefix", length=7)
    tops = GRAMMAR.stack_top(strings)[:, -1]
    labelled = [
        LabelledInput(GRAMMAR.format(row), ")]"[row[top] // 2])
        for row, top in zip(strings, tops, strict=True)
        if top >= 0
    ]
    return audited("L1H0 uses the last unmatched open bracket", [one, *labelled]), lay_out([one], TRAINED, GRAMMAR)


@cache
def params(seed=0, scale=1.0):
    made = Population.init(CONFIG, [seed, seed + 1], GRAMMAR)
    return {name: scale * p for name, p in made.params.items()}


def asked_of_a_model(model):
    return run(model), model.grammar and model.to_tokens("()"), Population.from_models([model]).seeds


def asked_of_a_population(population):
    fresh, words = population.untrained(), population.grammar and population[0].to_tokens("()")
    found = [population[0], population.summary(), population.final_metrics(), fresh[0], words]
    return [*found, {step: population.at_step(step)[0] for step in population.snapshots}]


def weights(later=False):
    """[model, input, layer, head, query, key] of two models on two inputs of three tokens."""
    scores = np.random.default_rng(0).random((2, 2, 1, 1, 3, 3)) * (1 if later else np.tri(3))
    return scores / scores.sum(-1, keepdims=True)


def shown(arrays):
    found = attention_heatmap(arrays, population="grid", overlay=[(1, 0)])
    return found.to_json(), [one.cfg.attention_dir for one in arrays]


def drawn(grammar):
    texts = [grammar.sample(6, seed=0, mode="prefix", length=12), grammar.sample(6, seed=0)]
    return texts, [grammar.format(row) for row in texts[1]]


def marked(grammar, name):
    """Keys that are the token of that name."""
    tokens = np.arange(grammar.vocab_size)[None]
    return token(name).keys(tokens, grammar, np.tri(tokens.size, dtype=bool)[None])


def read(grammar):
    return grammar.to_tokens(["()", "(()"]), [grammar.read(name) for name in grammar.vocab]


DYCK = {"num_types": (2, 3), "max_depth": (4, 3), "open_prob": (0.5, 0.2), "end_prob": (0.5, 0.2)}
NAMES = ["(", ")", "[", "]", "<s>", "</s>", "<pad>"]
ORACLE = {
    "embedding": "minimal", "num_types": 2, "max_depth": 4, "d_model": 17, "n_layers": 1, "block": "bare",
    "mlp_depth": 0,
}  # fmt: skip
ROWS = tuple({"seed": s, "step": 4, "loss": 1.0 + s} for s in (0, 1))
TABLE = {
    "TransformerConfig": Entry(
        used(TransformerConfig, lambda config: run(SandboxTransformer.init(config, 0))),
        {
            "d_vocab": (7, 9), "n_layers": (1, 2), "n_heads": (1, 2), "d_model": (8, 10), "d_head": (8, 6),
            "d_mlp": (8, 6), "mlp_depth": (2, 3), "n_ctx": (9, 10, {"positions": "learned"}),
            "embedding": ("learned", "onehot", {"d_model": 7}), "positions": ("none", "linear"),
            "attention": ("learned", "uniform"), "direction": ("causal", "bidirectional"), "block": ("gpt2", "paper"),
            "norm": ("LN", "none"), "norm_eps": (1e-5, 0.1), "activation": ("gelu", "relu"),
            "scale_scores": (True, False), "biases": (True, False), "init_std": (0.5, 0.1), "d_vocab_out": (None, 3),
            "pad_token": (None, 6), "num_types": (2, 1, ORACLE),
            "max_depth": Pair(4, 3, ORACLE, "d_model"), "unembed": ("learned", "tied"), "attn_scale": (None, 2.0),
            "norm_added": (False, True, {"block": "authors"}), "final_norm": (None, False),
            "unembed_bias": (True, False),
        },
        base={"d_vocab": 7, "n_layers": 1, "d_model": 8, "d_head": 8, "d_mlp": 8, "init_std": 0.5},
        unwalked={"class_names": "of a classifier, below"},
        like=TransformerConfig,
    ),
    "TransformerConfig of a classifier": Entry(
        used(
            TransformerConfig,
            lambda config: lay_out([LabelledInput([4, 0], "b")], SandboxTransformer.init(config, 0), None),
        ),
        {"class_names": (["a", "b"], ["b", "a"])},
        base={"d_vocab": 7, "d_vocab_out": 2},
        unwalked=dict.fromkeys({*TransformerConfig.__dataclass_fields__} - {"class_names"}, "walked above"),
        like=TransformerConfig,
    ),
    "SandboxTransformer": Entry(
        used(SandboxTransformer, asked_of_a_model),
        {
            "config": (CONFIG, TransformerConfig(7, n_layers=2)),
            "grammar": (None, GRAMMAR),
            "provenance": (None, {"seed": 5}),
        },
        base={"config": CONFIG},
        like=SandboxTransformer,
    ),
    "Population": Entry(
        used(Population, asked_of_a_population),
        {
            "config": Pair(CONFIG, TransformerConfig(7, n_layers=2), refusal="blocks.1"),
            "grammar": (GRAMMAR, None),
            "params": (Made(params), Made(lambda: params(5))),
            "seeds": ((0, 1), (5, 6)),
            "provenance": ({}, {"name": "two"}),
            "history": ((), ROWS),
            "snapshots": ({4: params()}, {8: params(0, 2.0)}),
        },
        base={"config": CONFIG, "grammar": GRAMMAR, "params": Made(params), "seeds": (0, 1)},
        unwalked={"timing": "CPU seconds, which the command line prints"},
        like=Population,
    ),
    "AttentionArrays": Entry(
        used(AttentionArrays, shown),
        {
            "patterns": (weights(), weights(later=True)), "tokens": ([[4, 0, 1], [4, 2, 3]], [[4, 2, 3], [4, 0, 1]]),
            "grammar": (None, GRAMMAR), "seeds": (None, (5, 6)), "causal": (None, False),
        },
        base={"patterns": weights(), "tokens": [[4, 0, 1], [4, 2, 3]]},
        like=AttentionArrays,
    ),
    "DyckGrammar": Entry(used(DyckGrammar, drawn), DYCK, like=DyckGrammar),
    "CopyGrammar": Entry(used(CopyGrammar, drawn), DYCK, like=CopyGrammar),
    "BracketStrings": Entry(
        used(BracketStrings, lambda grammar: (drawn(grammar), read(grammar))),
        {**DYCK, "names": (NAMES, [*NAMES[2:4], *NAMES[:2], *NAMES[4:]]), "append_end": (False, True)},
        like=BracketStrings,
    ),
    "Vocabulary": Entry(
        used(Vocabulary, lambda v: (v.to_tokens(["a", "ba"]), v.to_tokens("zy"), marked(v, "END"))),
        {
            "names": (["a", "b", "x", "y", "z"], ["b", "a", "x", "y", "z"]),
            "start": (None, 2), "end": (3, 2), "pad": (4, 3), "prepend_start": (True, False, {"start": 2}),
        },
        base={"names": ["a", "b", "x", "y", "z"], "end": 3, "pad": 4},
        like=Vocabulary,
    ),
    "TopicGrammar": Entry(
        used(TopicGrammar, lambda grammar: grammar.sample(20, seed=0)),
        {
            "num_topics": (4, 3), "words_per_topic": (4, 5), "law": ("lda", "idealised"), "alpha": (0.1, 5.0),
            "topics_per_document": (2, 3, {"law": "idealised"}), "min_length": (10, 5), "max_length": (12, 14),
            "mask_prob": (0.15, 0.5), "keep_prob": (0.1, 0.5), "random_prob": (0.1, 0.5),
        },
        base={"num_topics": 4, "words_per_topic": 4, "min_length": 10, "max_length": 12},
        like=TopicGrammar,
    ),
    "RecallGrammar": Entry(
        used(RecallGrammar, sampled), {"symbols": (12, 5), "length": (12, 9)}, like=RecallGrammar
    ),
    "MarkovGrammar": Entry(
        used(MarkovGrammar, sampled), {**CHAIN, "first": ("stationary", "uniform")}, base={"length": 12},
        like=MarkovGrammar,
    ),
    "OrderGrammar": Entry(
        used(OrderGrammar, sampled), {**CHAIN, "order": (2, 3), "first": ("uniform", "stationary")},
        base={"length": 12}, like=OrderGrammar,
    ),
    "CausalGraphGrammar": Entry(
        used(CausalGraphGrammar, sampled),
        {**CHAIN, "graph": ("random", "chain"), "graph_seed": (0, 1)},
        base={"length": 12},
        like=CausalGraphGrammar,
    ),
    "FactsGrammar": Entry(
        used(FactsGrammar, sampled),
        {
            "subjects": (16, 5), "relations": (4, 2), "answers": (8, 3), "noise": (20, 4), "length": (12, 8),
            "table_seed": (0, 1),
        },
        like=FactsGrammar,
    ),
    "FlipFlopGrammar": Entry(
        used(FlipFlopGrammar, sampled),
        {"length": (12, 8), "ignore": ((0.8,), (0.1,)), "writes": (0.5, 0.9), "mode": ("deterministic", "generative")},
        base={"length": 12},
        like=FlipFlopGrammar,
    ),
    "TransductionGrammar": Entry(
        used(TransductionGrammar, sampled), {"length": (12, 8), "ignore": ((0.8,), (0.1,))}, like=TransductionGrammar
    ),
    "BinaryChain": Entry(
        used(BinaryChain, sampled), {"p": (0.5, 0.1), "q": (0.8, 0.2), "length": (12, 8)}, like=BinaryChain
    ),
    "Claim": Entry(
        used(Claim, audited),
        {
            "heads": ([(1, 0)], [(0, 0)]), "relation": ("stack-top", "start"), "when": (None, "closing"),
            "uses": (None, "closers"), "mainly": (False, True), "question": (None, Mine()),
        },
        base={"heads": [(1, 0)], "relation": "stack-top"},
        like=Claim,
    ),
    "LabelledInput": Entry(
        used(LabelledInput, with_others),
        {
            "text": ("(()(", "[()("),
            "label": Pair(")", None, {"foil": None}),
            "position": (-1, 2),
            "donor": ("(()[", "[()["),
            "foil": ("]", None),
        },
        base={"text": "(()(", "label": ")", "foil": "]"},
        like=LabelledInput,
    ),
    "Relation": Entry(
        used(Relation, asked_of_a_relation),
        {
            "name": ("mine", "unmatched"), "words": ("my first token", "the first one of mine"),
            "kind": ("mass", "even", {"keys": two}), "needs": ("tokens", "dyck"), "keys": (constant, own),
            "tokens": Pair(("(",), ("x",), {"needs": "vocab"}, refusal="'my first token' needs that token"),
        },
        base={"name": "mine", "words": "my first token", "kind": "mass", "needs": "tokens", "keys": constant},
        unwalked={
            "also": "other ways to say it, which only the worlds' register reads",
            "instead": "a part of a refusal",
            "of": "what it was made from, which says what it needs: see test_sets.py",
        },
        like=Relation,
    ),
    "Condition": Entry(
        used(Condition, asked_of_a_condition),
        {
            "words": ("it is late", "it is time"), "needs": Pair("tokens", "dyck", refusal="it is late"),
            "rows": (late, early),
        },
        base={"name": "late", "words": "it is late", "needs": "tokens", "rows": late},
        unwalked={
            "name": "what tables and files call it, and nothing else",
            "also": "other ways to say it, which only the worlds' register reads",
        },
        like=Condition,
    ),
}  # fmt: skip
ALL = cases(TABLE)


@pytest.mark.parametrize(("name", "keyword"), ALL, ids=["-".join(case) for case in ALL])
def test_a_parameter_changes_the_outcome_or_is_refused_by_name(name, keyword, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(TABLE[name], keyword, tmp_path)


def test_every_parameter_has_an_entry():
    assert not missing(TABLE)


def test_every_public_class_has_an_entry():
    """All but errors, and what analyzers return: nobody makes those."""
    promised = [*public(interp).values(), *(getattr(probes, name) for name in probes.__all__)]
    kinds = {one for one in promised if isinstance(one, type)}
    made = {kind for kind in kinds if not issubclass(kind, (Exception, Result))} - set(PARTS)
    assert len(made) >= 12
    assert made == {entry.like for entry in TABLE.values()}
