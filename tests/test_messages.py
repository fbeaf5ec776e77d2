"""Every message quotes what was given in one way, which holds for any value."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

from interp import (
    CopyGrammar,
    DyckGrammar,
    InterpError,
    Population,
    SandboxTransformer,
    TopicGrammar,
    TransformerConfig,
    load_checkpoint,
)
from interp.errors import quoted
from interp.grammars import Vocabulary
from interp.plots import attention_heatmap
from interp.settings import TrainingSettings
from interp.worlds.topics.theory import TopicTheory
from probes import Claim, analyze_topic_blocks, audit_claim, audit_claims
from walk import HUGE, ODD, Mute

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for top in ("interp", "probes", "case_studies") for path in (ROOT / top).rglob("*.py"))


def test_quoted_writes_anything_on_one_short_line():
    for thing in (HUGE, -HUGE, Mute(), "x" * 1000, "a\nb", np.zeros((100, 100)), [HUGE], {"a": Mute()}):
        assert len(quoted(thing)) <= 100, thing if thing != HUGE else "huge"
        assert "\n" not in quoted(thing)


def _bare_reprs(tree):
    """f-string fields of raised messages that write the repr of a variable themselves (`{value!r}`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for field in ast.walk(node.exc):
                if isinstance(field, ast.FormattedValue) and field.conversion == ord("r"):
                    # str(path), type(x).__name__, names[0], text[:40] are short strings whatever was given.
                    short = isinstance(field.value, (ast.Call, ast.Subscript)) or ast.unparse(field.value).startswith(
                        ("type(", "__name__")
                    )
                    if not short:
                        yield ast.unparse(field.value)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_raised_messages_quote_values_by_quoted(path):
    wrong = [w for w in _bare_reprs(ast.parse(path.read_text())) if not (path.name == "__init__.py" and w == "name")]
    assert not wrong, f"write {{quoted({wrong[0]})}}, which holds for any value"


def test_the_walk_finds_a_bare_repr():
    assert list(_bare_reprs(ast.parse('raise ValueError(f"{value!r} is wrong")'))) == ["value"]
    assert not list(_bare_reprs(ast.parse('raise ValueError(f"{quoted(value)} and {str(path)!r}")')))


# Frozen descriptions: every field of each. The keywords of functions and methods are walked in test_keywords.py.
MADE = {
    TransformerConfig: {"d_vocab": 7},
    TrainingSettings: {},
    DyckGrammar: {},
    CopyGrammar: {},
    TopicGrammar: {"num_topics": 4, "words_per_topic": 2},
    TopicTheory: {"num_topics": 4, "words_per_topic": 3},
    Vocabulary: {"names": ("a", "b")},
    Claim: {"heads": [(0, 0)], "relation": "previous"},
}
FIELDS = [(kind, name) for kind in MADE for name in inspect.signature(kind).parameters]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=[f"{kind.__name__}-{name}" for kind, name in FIELDS])
def test_fields_refuse_values_that_cannot_be_in_our_words(kind, name):
    for odd in ODD.values():
        with pytest.raises(InterpError) as error:
            kind(**{**MADE[kind], name: odd})
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 500


POPULATION = load_checkpoint("dyck-standard")


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    "call",
    [
        lambda v: POPULATION[v],
        lambda v: POPULATION[v:0],
        lambda v: POPULATION[0](v),
        lambda v: POPULATION[0](torch.tensor([[4]]), visible=v),
        lambda v: POPULATION[0](torch.tensor([[4]]), positions=v),
        lambda v: DyckGrammar(2, 4).to_tokens([[v]]),
        lambda v: DyckGrammar(2, 4).sample(1, mode="prefix", length=(1, v), seed=0),
        lambda v: SandboxTransformer(v),
        lambda v: SandboxTransformer(POPULATION.config, v),
        lambda v: Population(POPULATION.config, None, POPULATION.params, v),
        lambda v: audit_claim(POPULATION[0], "L1H0 attends to START", task=v),
        lambda v: audit_claims(POPULATION[0], ["L1H0 attends to START"], relations=v),
        lambda v: analyze_topic_blocks(np.eye(4), labels=v),
        lambda v: attention_heatmap(np.eye(3), v),
        lambda v: attention_heatmap(np.eye(3), grammar=v),
        lambda v: attention_heatmap(np.eye(3), overlay=[(0, v)]),
    ],
    ids=range(16),
)
def test_a_value_that_cannot_be_written_is_refused_in_our_words(call, value):
    with pytest.raises(InterpError) as error:
        call(value)
    assert "\n" not in str(error.value)
    assert "could not be measured" not in str(error.value)
