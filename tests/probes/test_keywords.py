"""Every keyword of the analyzers: another value changes something, or is refused by name."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest

import probes
from interp import DyckGrammar, SandboxTransformer, TopicGrammar, TransformerConfig, load_checkpoint
from interp.population import Population
from interp.presets import make_recipe
from interp.worlds.dyck.claims import Closers
from interp.worlds.flipflop import FlipFlopGrammar
from interp.worlds.flipflop.constructed import reader
from interp.worlds.topics.theory import TopicTheory
from probes import Claim
from probes.audit.bench import run_bench
from probes.claims import (
    Condition,
    Relation,
    bracket_tokens,
    brackets_of_type,
    complement,
    depth_at_least,
    depth_at_most,
    depth_is,
    evenly,
    evenly_among,
    not_so,
    offset,
    position,
    position_at_least,
    position_at_most,
    position_between,
    position_is,
    target_gap_at_least,
    token,
    token_in,
    token_is,
    token_is_not,
    tokens_of,
    wordings,
)
from rules import constant, early, late, own
from walk import Entry, Made, Pair, cases, check, check_odd, missing, used

pytestmark = pytest.mark.slow
GRAMMAR = DyckGrammar(2, 4)
TRAINED = load_checkpoint("dyck-standard")[:3]
STACK, START = "L1H0 attends to the last unmatched open bracket", "L1H0 attends to START"
TOPICS = TopicGrammar(3, 4)
LABELS = [-1, *np.repeat(np.arange(3), 4)]
CURVES = {"W_Q": np.r_[np.zeros(20), np.arange(20)], "W_K": np.r_[np.zeros(20), np.arange(20)],
          "W_V": np.r_[np.arange(20), np.full(20, 20)]}  # fmt: skip


def stranger() -> SandboxTransformer:
    """A trained model that says nothing of its training."""
    model = TRAINED[0]
    model.provenance = {}
    return model


def topics(seeds=(0, 1)) -> Population:
    recipe = make_recipe("topic-joint", {"topics": 3, "words": 4, "init_std": 0.5})
    fresh = Population.init(recipe.config, seeds, recipe.grammar)
    return Population(recipe.config, recipe.grammar, fresh.params, seeds, {"settings": {"loss": "ce"}})


def target(seed=0) -> SandboxTransformer:
    recipe = make_recipe("dyck-paper", {"depth": 2, "width": 4, "init_std": 0.4})
    return SandboxTransformer.init(recipe.config, seed, recipe.grammar)


def flips(seeds=(0, 1)) -> Population:
    """Models of flip-flops that say that they were trained."""
    recipe = make_recipe("flipflop")
    fresh = Population.init(recipe.config, seeds, recipe.grammar)
    return Population(recipe.config, recipe.grammar, fresh.params, seeds, {"settings": {"loss": "ce"}})


def strange_reader() -> SandboxTransformer:
    """A reader of flip-flops that does not say who made it."""
    model = reader()
    model.provenance = {}
    return model


def crossed() -> Population:
    """Four models, as if of two first weights by two data."""
    population = load_checkpoint("dyck-standard")[:4]
    return replace(population, provenance=population.provenance | {"settings": {"crossed": 2}})


def two_heads(seed):
    return SandboxTransformer.init(TransformerConfig(7, n_heads=2, d_head=5, init_std=0.5), seed, GRAMMAR)


def matrix(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(13, 13))


def asked(one):
    """The words and the keys of a relation, or the rows of a condition."""
    tokens = GRAMMAR.to_tokens(["(()[])"])
    visible = np.tri(tokens.shape[1], dtype=bool)[None]
    rule = one.keys if isinstance(one, Relation) else one.rows
    return f"of {one.words}" if one.words in ("mine", "yours") else "", rule(tokens, GRAMMAR, visible)


MINE, OTHER = (Relation(rule.__name__, "my first token", "mass", "tokens", rule) for rule in (constant, own))
LATE, EARLY = (Condition(rule.__name__, "it is my turn", "tokens", rule) for rule in (late, early))


@dataclass(frozen=True)
class Mine(Closers):
    """A question of one's own, asked of a share of the rows."""

    name: str = "mine"
    words: str = "guess"
    kept: float = 1.0

    def items(self, tokens, grammar, rows, seed):
        return super().items(tokens, grammar, rows & (np.random.default_rng(0).random(rows.shape) < self.kept), seed)


MODEL, MODELS = Made(lambda: TRAINED[0]), Made(lambda: TRAINED)
TWO_HEADS = Made(lambda: [two_heads(0), two_heads(1)])
STRANGERS = Made(lambda: [stranger(), stranger()])
EIGHT = ["(()", "([]", "[()", "[[]", "()(", "()[", "[](", "[]["]
CLOSED = ["([])", "(())", "[()]", "[[]]", "(()[])", "([]())", "[()()]"]
AUDIT = {"model": MODEL, "num_inputs": 120, "length": 12, "untrained": False}
LOTTERY = {"candidates": 8, "num_inputs": 3, "num_strings": 12}
# Of audits: what `audit_claims` takes, whether through `audit_claim`, `scan_heads` or itself.
HOW = {
    "inputs": Pair(None, EIGHT, {"num_inputs": None, "length": None}),
    "grammar": (None, DyckGrammar(2, 9)),
    "readout": (None, "probe"),
    "strata": Pair(None, [0, 1, 1, 0, 0, 1, 0, 1], {"inputs": EIGHT, "num_inputs": None, "length": None}),
    "seed": (0, 1),
    "num_inputs": (120, 130),
    "length": (12, 14),
    "untrained": (False, True),
    "task_check": Pair(True, False, {"model": Made(stranger)}),
    "early": Pair(False, True, {"num_inputs": 200}),
}
SCAN = {keyword: pair for keyword, pair in HOW.items() if keyword != "strata"}  # eight inputs tell no head apart
BARS = {"progress": "bars appear after two seconds: see test_progress.py"}
TASK = {"task": "walked in test_audit.py, with tasks of its own"}

FLIPS, STRANGE_READER = Made(flips), Made(strange_reader)


def kept(path):
    """`load_result`, of two files that are there."""
    for name, end in (("a.json", 60), ("b.json", 90)):
        steps = np.arange(120.0)
        rising = 1 + np.maximum(steps - end, 0)
        probes.analyze_two_stages({"W_V": 1 + np.minimum(steps, end), "W_K": rising, "W_Q": rising}).save(name)
    return probes.load_result(path)


TABLE = {
    "load_result": Entry(kept, {"path": ("a.json", "b.json")}),
    "analyze_glitches": Entry(
        probes.analyze_glitches,
        {
            "model": (FLIPS, Made(lambda: flips((1, 2)))),
            "grammar": (None, FlipFlopGrammar(16)),
            "laws": ((0.8,), (0.5,)),
            "reads": (100, 900),
            "length": (None, 16),
            "seed": (0, 1),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"model": STRANGE_READER}),
        },
        base={"model": FLIPS, "laws": (0.8,), "reads": 100},
    ),
    "analyze_drift": Entry(
        probes.analyze_drift,
        {
            "model": (FLIPS, Made(lambda: flips((1, 2)))),
            "grammar": (None, FlipFlopGrammar(16)),
            "length": (None, 16),
            "before": (0, 4),
            "seed": (0, 1),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"model": STRANGE_READER}),
        },
        base={"model": FLIPS},
    ),
    "analyze_variation": Entry(
        probes.analyze_variation,
        {
            "model": (MODELS, Made(lambda: TRAINED[:2])),
            "inputs": (None, "([])"),
            "grammar": (None, DyckGrammar(2, 3), {"num_inputs": None}),
            "seed": Pair(0, 1, {"grammar": DyckGrammar(2, 3)}),
            "num_inputs": Pair(4, 5, {"grammar": DyckGrammar(2, 3)}),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"model": STRANGERS}),
        },
        base={"model": MODELS},
    ),
    "variation of the one default sentence": Entry(
        probes.analyze_variation,
        {"num_inputs": (None, 5), "seed": (0, 1)},
        base={"model": MODELS},
        unwalked=dict.fromkeys(["model", "inputs", "grammar", "untrained", "task_check"], "above"),
    ),
    "variation of given inputs": Entry(
        probes.analyze_variation,
        {"num_inputs": (None, 5), "seed": (0, 1)},
        base={"model": MODELS, "inputs": "([])"},
        unwalked=dict.fromkeys(["model", "inputs", "grammar", "untrained", "task_check"], "above"),
    ),
    "variation of several heads": Entry(
        probes.analyze_variation,
        {"seed": (0, 1)},
        base={
            "model": Made(lambda: [two_heads(0), two_heads(1)]),
            "inputs": "([",
            "untrained": False,
            "task_check": False,
        },
        unwalked=dict.fromkeys(["model", "inputs", "grammar", "num_inputs", "untrained", "task_check"], "above"),
    ),
    "share_of_origins": Entry(
        probes.share_of_origins,
        {
            "model": (Made(crossed), Made(lambda: [*crossed()[1:], *crossed()[:1]])),
            "inputs": (None, "([])"),
            "grammar": (None, DyckGrammar(2, 3), {"num_inputs": None}),
            "seed": Pair(0, 1, {"grammar": DyckGrammar(2, 3)}),
            "num_inputs": Pair(4, 5, {"grammar": DyckGrammar(2, 3)}),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"grammar": DyckGrammar(2, 3)}),
        },
        base={"model": Made(crossed)},
    ),
    "analyze_stack_likeness": Entry(
        probes.analyze_stack_likeness,
        {
            "model": (MODELS, MODEL),
            "inputs": (None, "([])"),
            "grammar": (None, DyckGrammar(2, 3)),
            "seed": (0, 1),
            "num_inputs": (None, 5),
            "length": (None, 12),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"model": STRANGERS}),
        },
        base={"model": MODELS},
    ),
    "stack-likeness of given inputs": Entry(
        probes.analyze_stack_likeness,
        {"num_inputs": (None, 5), "length": (None, 12), "seed": Pair(0, 1, {"inputs": CLOSED})},
        base={"model": MODEL, "inputs": ["([])", "(())"]},
        unwalked=dict.fromkeys(["model", "inputs", "grammar", "untrained", "task_check"], "above"),
    ),
    **{
        f"stack-likeness of {what}": Entry(
            probes.analyze_stack_likeness,
            {"seed": (0, 1)},
            base=base,
            unwalked=dict.fromkeys(
                ["model", "inputs", "grammar", "num_inputs", "length", "untrained", "task_check"], "above"
            ),
        )
        for what, base in {
            "given inputs, several models": {"model": MODELS, "inputs": ["([])", "(())"]},
            "one input, one model": {"model": MODEL, "inputs": "([])"},
        }.items()
    },
    "analyze_balance": Entry(
        probes.analyze_balance,
        {
            "model": (MODELS, MODEL),
            "grammar": (None, DyckGrammar(2, 3)),
            "layer": (0, 1),
            "seed": (0, 1),
            "num_inputs": (4, 5),
            "length": (8, 9),
            "untrained": (True, False),
            "task_check": Pair(True, False, {"model": Made(stranger)}),
        },
        base={"model": MODEL, "num_inputs": 4, "length": 8, "untrained": False},
    ),
    "balance of a callable": Entry(
        probes.analyze_balance,
        {"layer": (None, 1), "untrained": (True, False), "seed": (0, 1), "task_check": (True, False)},
        base={"model": TRAINED[0].forward, "grammar": GRAMMAR, "num_inputs": 4, "length": 8},
        unwalked=dict.fromkeys(["model", "grammar", "num_inputs", "length"], "above"),
    ),
    "analyze_topic_blocks": Entry(
        probes.analyze_topic_blocks,
        {
            "model": (Made(topics), Made(lambda: topics((2, 3)))),
            "labels": (None, [-1, *np.tile(np.arange(3), 4)]),
            "grammar": (None, TopicGrammar(4, 3)),
            "matrix": ("value", "attention"),
            "layer": (None, 3),
            "head": (None, 3),
            "seed": Pair(0, 1, {"model": matrix(0), "labels": LABELS}),
            "permutations": (99, 120),
            "theory": (None, TopicTheory.from_grammar(TOPICS)),
            "inputs": Pair(None, [[0, 1, 2, 5, 6, 9]], {"matrix": "attention"}),
            "untrained": (True, False),
        },
        base={"model": Made(topics), "permutations": 99},
    ),
    "topic blocks of a matrix": Entry(
        probes.analyze_topic_blocks,
        {
            "layer": (None, 0),
            "head": (None, 0),
            "inputs": (None, [[0, 1]]),
            "matrix": (None, "attention"),
            "untrained": (True, False),
        },
        base={"model": matrix(0), "labels": LABELS, "permutations": 99},
        unwalked=dict.fromkeys(["model", "labels", "grammar", "seed", "permutations", "theory"], "above"),
    ),
    "topic blocks of an embedding": Entry(
        probes.analyze_topic_blocks,
        {"layer": (None, 0), "head": (None, 0), "inputs": (None, [[0, 1]])},
        base={"model": Made(topics), "matrix": "embedding", "permutations": 99},
        unwalked=dict.fromkeys(
            ["model", "labels", "grammar", "matrix", "seed", "permutations", "theory", "untrained"], "above"
        ),
    ),
    "analyze_two_stages": Entry(
        probes.analyze_two_stages,
        {
            "norms": (CURVES, {**CURVES, "W_V": CURVES["W_V"] * 2}),
            "steps": (None, np.arange(40) * 10),
            "snapshots": (None, {0: np.eye(3), 30: np.eye(3)[::-1]}),
            "layer": (None, 0),
        },
        base={"norms": CURVES},
    ),
    "audit_claim": Entry(
        probes.audit_claim,
        {"model": (MODEL, Made(lambda: TRAINED[1])), "claim": (STACK, START), **HOW},
        base={"claim": STACK, **AUDIT},
        unwalked=TASK | BARS,
    ),
    "audit_claims": Entry(
        probes.audit_claims,
        {
            "model": (MODEL, Made(lambda: TRAINED[1])),
            "claims": ([STACK], [START]),
            "relations": Pair([MINE], [OTHER], {"claims": ["L1H0 attends to my first token"]}),
            "conditions": Pair([LATE], [EARLY], {"claims": [f"{STACK} when it is my turn"]}),
            "questions": Pair([Mine()], [Mine(kept=0.5)], {"claims": [f"{STACK} and uses it to guess"]}),
            **HOW,
        },
        base={"claims": [STACK], **AUDIT},
        unwalked=TASK | BARS,
    ),
    "scan_heads": Entry(
        probes.scan_heads,
        {"model": (MODEL, Made(lambda: TRAINED[1])), "relations": (["previous"], ["start"]), **SCAN},
        base={"relations": ["previous"], **AUDIT},
    ),
    "run_bench": Entry(
        run_bench,
        {
            "per_family": (1, 2),
            "families": (["solo"], ["random"]),
            "seed": (0, 2),  # bidirectional and causal: other counts
            "workers": (1, 0),
        },
        base={"per_family": 1, "families": ["solo"]},
        unwalked=BARS,
    ),
    "demonstrate_lottery_ticket": Entry(
        probes.demonstrate_lottery_ticket,
        {
            "target": (Made(target), Made(lambda: target(1))),
            "candidates": (8, 10),
            "seed": (0, 1),
            "sweep": ((), (6,)),
            "working": (None, (1, 5)),
            "patterns": (None, {2: np.eye(4)}),
            "d_model": (None, 400),
            "d_mlp": (None, 900),
            "num_inputs": (3, 4),
            "num_strings": (12, 20),
            "controls": (False, True),
        },
        base={"target": Made(target), "sweep": (), "controls": False, **LOTTERY},
        unwalked=BARS,
    ),
    "demonstrate_shared_matrix": Entry(
        probes.demonstrate_shared_matrix,
        {
            "first": (Made(target), Made(lambda: target(2))),
            "second": (Made(lambda: target(1)), Made(lambda: target(2))),
            "matrix": ("blocks.2.mlp.W_hid_1", "blocks.3.attn.W_K"),
            "candidates": (8, 10),
            "seed": (0, 1),
            "patterns": (None, {2: np.eye(4)}),
            "num_inputs": (3, 4),
            "num_strings": (12, 20),
        },
        base={"first": Made(target), "second": Made(lambda: target(1)), **LOTTERY},
    ),
    "Claim.parse": Entry(
        Claim.parse,
        {
            "text": (STACK, START),
            "relations": Pair((MINE,), (OTHER,), {"text": "L1H0 attends to my first token"}),
            "conditions": Pair((LATE,), (EARLY,), {"text": "L1H0 attends to START when it is my turn"}),
            "questions": Pair((Mine(),), (), {"text": f"{STACK} and uses it to guess"}, refusal="not understood"),
        },
    ),
    "wordings": Entry(wordings, {}),
    **{
        make.__name__: Entry(used(make, asked), {keyword: pair, **more}, base, like=make)
        for make, keyword, pair, more, base in (
            (brackets_of_type, "kind", (0, 1), {}, {}),
            (bracket_tokens, "tokens", ([0], [2]), {"words": ("mine", "yours")}, {"tokens": [0], "words": "mine"}),
            (complement, "relation", (MINE, OTHER), {}, {}),
            (evenly, "relation", (MINE, OTHER), {}, {}),
            (evenly_among, "relation", (MINE, OTHER), {}, {}),
            (tokens_of, "texts", (["(", "["], ["(", ")"]), {}, {}),
            (token_in, "texts", (["(", "["], ["(", ")"]), {}, {}),
            (token_is_not, "text", ("(", "["), {}, {}),
            (not_so, "condition", (token_is("("), token_is("[")), {}, {}),
            (position_is, "place", (1, 2), {}, {}),
            (position_at_most, "most", (1, 2), {}, {}),
            (position_between, "first", (1, 2), {"last": (3, 4)}, {"first": 1, "last": 3}),
            (depth_is, "depth", (1, 2), {}, {}),
            (depth_at_most, "most", (0, 1), {}, {}),
            (target_gap_at_least, "least", (0, 1), {}, {}),
            (offset, "steps", (-2, -3), {}, {}),
            (position, "place", (2, 3), {}, {}),
            (token, "text", ("(", "["), {}, {}),
            (depth_at_least, "least", (1, 2), {}, {}),
            (position_at_least, "least", (1, 2), {}, {}),
            (token_is, "text", ("(", "["), {}, {}),
        )
    },
}
ALL = cases(TABLE)


@pytest.mark.parametrize(("name", "keyword"), ALL, ids=["-".join(case) for case in ALL])
def test_a_keyword_changes_the_outcome_or_is_refused_by_name(name, keyword, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(TABLE[name], keyword, tmp_path)


@pytest.mark.parametrize(("name", "keyword"), ALL, ids=["-".join(case) for case in ALL])
def test_values_that_no_keyword_means_are_refused_in_our_words(name, keyword, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_odd(TABLE[name], keyword, tmp_path)


def test_every_keyword_has_an_entry():
    assert not missing(TABLE)


def test_every_public_function_has_an_entry():
    """Classes are in test_constructors.py."""
    promised = {name: getattr(probes, name) for name in probes.__all__}
    functions = {name for name, one in promised.items() if inspect.isroutine(inspect.unwrap(one))}
    assert len(functions) >= 10
    assert functions - set(TABLE) == {"check_analyzer", "check_audit"}  # suites, see test_checking.py
