"""Every message quotes what was given in one way, which holds for any value."""

import ast
from pathlib import Path

import numpy as np
import pytest

from interp import CopyGrammar, DyckGrammar, InterpError, TopicGrammar, TransformerConfig
from interp.errors import quoted
from interp.plots import attention_heatmap
from probes import analyze_balance, analyze_stack_likeness, analyze_topic_blocks, analyze_variation, audit_claim

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for top in ("interp", "probes", "case_studies") for path in (ROOT / top).rglob("*.py"))
HUGE = 10**5000  # more digits than Python writes: its repr raises


class Mute:
    def __repr__(self):
        raise RuntimeError("no words")


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


@pytest.mark.parametrize("value", [HUGE, -HUGE, Mute()], ids=["huge", "-huge", "mute"])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: DyckGrammar(v, 4),
        lambda v: DyckGrammar(2, v),
        lambda v: DyckGrammar(2, 4, open_prob=v),
        lambda v: CopyGrammar(v, 4),
        lambda v: TopicGrammar(v, 2),
        lambda v: TopicGrammar(4, 2, alpha=v),
        lambda v: DyckGrammar(2, 4).sample(v, seed=0),
        lambda v: DyckGrammar(2, 4).sample(1, length=v, seed=0),
        lambda v: DyckGrammar(2, 4).sample(1, seed=v),
        lambda v: DyckGrammar(2, 4).to_tokens(v),
        lambda v: DyckGrammar(2, 4).to_tokens([[v]]),
        lambda v: TransformerConfig(v),
        lambda v: TransformerConfig(7, d_model=v),
        lambda v: TransformerConfig(7, attn_scale=v),
        lambda v: TransformerConfig(7, norm=v),
        lambda v: TransformerConfig(7, class_names=[v]),
        lambda v: analyze_variation(v),
        lambda v: analyze_variation(np.full((2, 1, 1, 2, 2), 0.5), seed=v),
        lambda v: analyze_stack_likeness(v),
        lambda v: analyze_balance(v),
        lambda v: analyze_topic_blocks(np.eye(4), permutations=v),
        lambda v: analyze_topic_blocks(np.eye(4), labels=v),
        lambda v: attention_heatmap(v, "()"),
        lambda v: audit_claim(v, "L0H0 attends to START"),
    ],
    ids=range(24),
)
def test_a_value_that_cannot_be_written_is_refused_in_our_words(call, value):
    with pytest.raises(InterpError) as error:
        call(value)
    assert "\n" not in str(error.value)
