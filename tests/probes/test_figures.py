"""Pictures of results where results are odd: nothing is lost, cut off, merged or said that is not so."""

from dataclasses import replace

import numpy as np
import pytest

from interp import load_checkpoint
from interp.errors import RequestError
from interp.plots.style import TITLE, finish, literal
from interp.stats import Estimate
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    scan_heads,
)
from probes.claims import Relation

EVIL = "<b>x</b> & <script>"


@pytest.fixture(scope="module")
def population():
    return load_checkpoint("dyck-standard")


def test_finish_breaks_lines_before_it_escapes():
    import plotly.graph_objects as go

    fig = finish(go.Figure(), f"{EVIL} " * 20 + "w" * 300, EVIL, height=300)
    assert "<b>" not in fig.layout.title.text
    assert "<script>" not in fig.layout.title.subtitle.text
    lines = fig.layout.title.text.split("<br>")
    assert max(len(line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")) for line in lines) <= 80
    assert fig.layout.height == 300 + fig.layout.margin.t
    assert fig.layout.margin.t >= TITLE * len(lines)
    assert literal("%{x}<") == "%&#123;x}&lt;"


def test_relations_alike_at_first_keep_rows_of_their_own(population):
    def far(rank):
        def keys(tokens, grammar, seen):
            return seen & (np.arange(tokens.shape[1]) == rank)

        words = f"the opening bracket that stands at the place of rank {rank} {EVIL}"
        return Relation(f"rank-{rank}", words, "mass", "tokens", keys)

    found = scan_heads(population[0], relations=[far(3), far(5)], num_inputs=120)
    fig = found.figure()
    assert len(fig.data[0].z) == 2
    assert len(set(fig.layout.yaxis.tickvals)) == 2
    assert "<script>" not in fig.to_json()
    with pytest.raises(RequestError, match="a scan without relations"):
        replace(found, fits=(), heads=()).figure()


def test_a_claim_without_numbers_shows_its_reason(population):
    found = audit_claim(population[0], "L1H0 attends to the last unmatched open bracket", ["(())", "([])"])
    assert found.verdict == "undecided"
    fig = found.figure()
    assert found.reason in fig.layout.title.subtitle.text.replace("<br>", " ")
    assert [label for axis in (fig.layout.yaxis,) for label in axis.ticktext if "▶" in label]


def test_the_stack_picture_holds_its_intervals_and_its_heads(population):
    found = analyze_stack_likeness(population[:2], num_inputs=10, untrained=False)
    low, high = found.figure().layout.yaxis.range
    ends = [end for row in found.score for e in row for end in e.ends if end is not None]
    assert low < min(ends)
    assert max(ends) < high
    many = replace(
        found,
        score=tuple(row * 12 for row in found.score) * 6,
        top1=tuple(row * 12 for row in found.top1) * 6,
        per_model=tuple(np.tile(x, 12) for x in found.per_model) * 6,
    )
    assert many.figure().layout.width < 4000
    none = Estimate.undefined("nothing to see", 2, "seeds").with_null(found.score[0][0].null)
    assert replace(many, score=((none,) * 12,) * 12).figure() is not None


@pytest.mark.slow
def test_the_balance_picture_begins_at_zero_and_says_what_beta_means(population):
    fig = analyze_balance(population[0], num_inputs=20, untrained=False).figure()
    heat = next(trace for trace in fig.data if trace.type == "heatmap")
    assert (heat.zmin, heat.zmax) == (0, np.max(heat.z))
    assert "says little" in fig.layout.title.text
    exact = analyze_balance(load_checkpoint("dyck-minimal")[0], num_inputs=20, untrained=False)
    assert "says little" not in exact.figure().layout.title.text


def test_two_stages_name_the_runs_that_have_them():
    steps = np.arange(0, 400, 10)
    late = np.maximum(0, steps - 200) / 40 + 0.01 * (1 + np.sin(steps))
    value = 1 - np.exp(-steps / 60)
    norms = {
        "W_K": np.stack([late, late, late, steps / 100.0]),
        "W_Q": np.stack([late, late, late, steps / 100.0]),
        "W_V": np.stack([value] * 4),
    }
    found = analyze_two_stages(norms, steps=steps)
    assert found.two_stages
    assert "in 3 of 4 runs" in found.figure().layout.title.text.replace("<br>", " ")
    assert "of the 3 runs that have two stages" in found.figure().layout.title.subtitle.text.replace("<br>", " ")
    # Runs without two stages are told apart, and not by colour alone.
    of_run = {(t.name, t.line.dash, t.line.color) for t in found.figure().data if t.name and t.name.startswith("run")}
    assert {dash for name, dash, _ in of_run if name == "run 3: no two stages"} == {"dot"}
    assert {dash for name, dash, _ in of_run if name != "run 3: no two stages"} == {"solid"}
    assert found.boundary.low is None  # of three runs
    assert 0 <= found.boundary.value <= steps[-1]


@pytest.mark.slow
def test_many_layers_have_a_short_title_and_folded_lines():
    rng = np.random.default_rng(0)
    weights = np.tril(rng.random((3, 12, 8, 8)) + 0.1)
    weights /= weights.sum(-1, keepdims=True)
    found = analyze_variation(population_of(weights), np.arange(8)[None], untrained=False)
    assert "(layer" in found.figure().layout.title.text
    assert max(map(len, found.summary().splitlines())) <= 80


def population_of(weights):
    """A 'model' a seed: plain patterns [layer, query, key] behind the hooks that patterns are read from."""
    pytest.importorskip("transformer_lens")
    from interp import SandboxTransformer, TransformerConfig

    config = TransformerConfig(d_vocab=8, n_layers=weights.shape[1], n_heads=1, d_model=8, d_head=8, d_mlp=8, n_ctx=8)
    return [SandboxTransformer.init(config, seed) for seed in range(len(weights))]


def test_a_topic_picture_says_why_there_is_no_contrast():
    fig = analyze_topic_blocks(np.ones((10, 10)), labels=np.repeat([0, 1], 5)).figure()
    assert "no labels" not in fig.layout.title.subtitle.text
    assert "no contrast:" in fig.layout.title.subtitle.text
