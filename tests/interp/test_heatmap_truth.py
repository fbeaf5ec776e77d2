"""Heatmaps with the truth, a null or another model beside the pattern, and what they refuse."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import DyckGrammar, Population, TopicGrammar, TransformerConfig, load_checkpoint
from interp.errors import AnalysisError, PatternError, RequestError
from interp.plots import attention_heatmap
from interp.plots.arrays import even_pattern
from interp.plots.scales import ENDS
from interp.plots.style import DIVERGING, diverging
from interp.registry import trying, world_of
from interp.world import Overlay
from interp.worlds.binary_chain.grammar import BinaryChain

GRAMMAR = DyckGrammar(2, 4)
TEXT = "[[]]()"
N = len(TEXT) + 1


def random_patterns(*shape: int, seed: int = 0, causal: bool = True) -> np.ndarray:
    n = shape[-1]
    scores = np.random.default_rng(seed).normal(size=(*shape, n)) * 2
    if causal:
        scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def z(fig, i: int) -> np.ndarray:
    return np.nan_to_num(np.asarray(fig.data[i].z))


def names(fig) -> list[str]:
    return [a.text for a in fig.layout.annotations]


@pytest.fixture(scope="module")
def population() -> Population:
    config = TransformerConfig(
        n_layers=1, n_heads=2, d_model=8, d_head=4, d_mlp=8, d_vocab=GRAMMAR.vocab_size, pad_token=GRAMMAR.pad
    )
    fresh = Population.init(config, (3, 4), GRAMMAR)
    params = {name: 3 * p for name, p in fresh.params.items()}
    return Population(config, GRAMMAR, params, fresh.seeds, {"settings": {}})  # as if trained here


# ---- nulls ---------------------------------------------------------------------------------------


def test_the_uniform_null_stands_once_at_the_end():
    p = random_patterns(2, N)
    fig = attention_heatmap(p, TEXT, null="uniform")
    assert names(fig)[-1] == "head 1, null: uniform"
    assert_close(z(fig, 2), even_pattern(N, True))
    assert "every visible key alike" in fig.layout.title.subtitle.text


def test_the_sharpness_null_keeps_each_row_and_permutes_it():
    p = random_patterns(N)
    fig = attention_heatmap(p, TEXT, null=["sharpness"])
    assert names(fig) == ["the pattern", "null: keys permuted"]
    np.testing.assert_array_equal(np.sort(z(fig, 1), axis=-1), np.sort(p, axis=-1))
    assert np.abs(z(fig, 1) - p).max() > 0.1
    assert fig.to_json() == attention_heatmap(p, TEXT, null="sharpness").to_json()


def test_the_untrained_null_is_the_same_seed_before_training(population):
    before = population.untrained()
    for shown, kind in ((population, "grid"), (population, "one"), (population[1], "one"), (list(population), "mean")):
        fig = attention_heatmap(shown, TEXT, head=0, null="untrained", population=kind)
        plain = attention_heatmap(
            before[1] if not isinstance(shown, (Population, list)) else before, TEXT, head=0, population=kind
        )
        for i in range(len(plain.data)):
            assert_close(z(fig, 2 * i + 1), z(plain, i), ulps=8, dtype=torch.float32)


def test_nulls_that_cannot_be_had_are_refused(population):
    p = random_patterns(N)
    with pytest.raises(RequestError, match="null='flat' is not one of uniform, untrained, sharpness"):
        attention_heatmap(p, null="flat")
    with pytest.raises(RequestError, match="null=3 is not one of"):
        attention_heatmap(p, null=3)
    with pytest.raises(RequestError, match="plain patterns were given"):
        attention_heatmap(p, TEXT, null="untrained")
    with pytest.raises(RequestError, match="null= and minus="):
        attention_heatmap(p, null="uniform", minus=p)


# ---- differences ---------------------------------------------------------------------------------


def test_a_difference_has_a_symmetric_diverging_scale(population):
    fig = attention_heatmap(population[0], TEXT, head=1, minus=population[1])
    a, b = (attention_heatmap(model, TEXT, head=1) for model in population)
    assert_close(z(fig, 0), z(a, 0) - z(b, 0), scale=1)
    axis = fig.layout.coloraxis
    assert axis.cmin == -axis.cmax
    assert axis.cmax in ENDS
    assert np.abs(z(fig, 0)).max() <= axis.cmax
    assert "Difference of attention" in fig.layout.title.text
    assert "the first attends more" in fig.layout.title.subtitle.text


def test_differences_of_populations_are_of_means_or_seed_by_seed(population):
    a, b = random_patterns(3, N), random_patterns(2, N, seed=1)
    fig = attention_heatmap(a, population="mean", minus=b)
    assert_close(z(fig, 0), a.mean(0) - b.mean(0), scale=1)
    grid = attention_heatmap(a, population="grid", minus=b[0])
    assert_close(z(grid, 2), a[2] - b[0], scale=1)
    with pytest.raises(PatternError, match="minus= has 2 seeds, and what it is taken from 3"):
        attention_heatmap(a, population="grid", minus=b)
    with pytest.raises(RequestError, match="a spread has no difference"):
        attention_heatmap(a, population="sd", minus=b)
    with pytest.raises(PatternError, match="5 positions"):
        attention_heatmap(a[0], minus=random_patterns(5))


def test_the_diverging_scale_is_symmetric_and_pale_in_the_middle():
    for power in (1.0, 0.5):
        places = [stop for stop, _ in diverging(power)]
        assert_close(np.array(places) + places[::-1], 1)
    assert dict(diverging())[0.5] == DIVERGING[3]


# ---- overlays ------------------------------------------------------------------------------------


def test_depth_colours_both_axes():
    fig = attention_heatmap(random_patterns(N), TEXT, overlay=["stack_top", "depth"], grammar=GRAMMAR)
    strips = [shape for shape in fig.layout.shapes if shape.fillcolor]
    assert {(s.xref, s.yref) for s in strips} == {("x", "y domain"), ("x domain", "y")}
    assert len({s.fillcolor for s in strips}) == 3  # depths 0, 1, 2
    assert "depth" in fig.layout.title.subtitle.text


def test_topics_sort_a_bidirectional_pattern_into_blocks():
    grammar = TopicGrammar(num_topics=3, words_per_topic=2)
    tokens = grammar.tokenize("t2w0 t0w1 [MASK] t2w1 t0w0")
    p = random_patterns(5, causal=False)
    fig = attention_heatmap(p, tokens, overlay="topic_blocks", grammar=grammar)
    order = [1, 4, 0, 3, 2]
    np.testing.assert_array_equal(z(fig, 0), p[np.ix_(order, order)])
    assert fig.data[0].x[0] == "key 1 't0w1'"
    assert fig.layout.shapes[0].path.count("M") == 2  # two topics; the mask has none
    assert "sorted by topic" in fig.layout.title.subtitle.text
    causal = attention_heatmap(random_patterns(5), tokens, overlay="topic_blocks", grammar=grammar)
    assert causal.data[0].x[0] == "key 0 't2w0'"
    with pytest.raises(RequestError, match="'topic_blocks' is for topics"):
        attention_heatmap(random_patterns(N), TEXT, overlay="topic_blocks", grammar=GRAMMAR)


# ---- readable ------------------------------------------------------------------------------------


def test_a_long_first_label_reaches_to_the_left_and_long_words_stand():
    brackets = attention_heatmap(random_patterns(20), ["START", *"()" * 9, "("])
    assert brackets.layout.xaxis.ticktext[0].startswith("START")
    assert brackets.layout.xaxis.tickangle == 0
    words = attention_heatmap(random_patterns(20), ["word"] * 20)
    assert words.layout.xaxis.tickangle == -90
    assert set(words.layout.xaxis.ticktext) == {"word"}


def test_a_long_title_is_wrapped_beside_the_toolbar():
    title = attention_heatmap(random_patterns(5), title="word " * 30).layout.title.text
    assert max(map(len, title.split("<br>"))) * 9 <= 460
    assert title.count("word") == 30


# ---- odd arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"overlay": 5}, "overlay=5 is not one of"),
        ({"overlay": [1, 2]}, "list of cells"),
        ({"overlay": [(0.5, 1)]}, "list of cells"),
        ({"overlay": []}, None),
        ({"max_panels": "3"}, "max_panels='3'"),
        ({"max_panels": True}, "max_panels=True"),
        ({"seed_labels": 5}, "seed_labels=5"),
        ({"population": ["grid"]}, r"population=\['grid'\]"),
        ({"text_or_tokens": 3.5}, "3.5 is neither"),
        ({"text_or_tokens": {"a": 1}}, "neither a text"),
        ({"layer": True}, "layer=True does not exist"),
        ({"title": 5}, None),
    ],
)
def test_odd_arguments_are_named(arguments, words):
    if words is None:
        attention_heatmap(random_patterns(N), **arguments)
    else:
        with pytest.raises(RequestError, match=words):
            attention_heatmap(random_patterns(N), **arguments)


def test_odd_things_to_draw():
    for thing in (None, {}, "dyck-standard", 5):
        with pytest.raises(PatternError):
            attention_heatmap(thing, TEXT)


def test_tokens_a_model_cannot_read(population):
    with pytest.raises(RequestError, match="token id 99, and the model knows ids 0 to 6"):
        attention_heatmap(population[0], torch.tensor([4, 99]))
    with pytest.raises(RequestError, match="neither texts nor token ids"):
        attention_heatmap(population[0], torch.tensor([0.5]))
    with pytest.raises(RequestError, match="neither texts nor token ids"):
        attention_heatmap(population[0], {"a": 1})


def test_a_bridge_without_a_tokenizer_takes_ids():
    bridges = pytest.importorskip("transformer_lens.model_bridge")
    bridge = bridges.TransformerBridge.boot_native(
        {"n_layers": 1, "d_model": 8, "n_ctx": 16, "d_head": 4, "n_heads": 2, "d_vocab": 7, "act_fn": "relu"}
    )
    fig = attention_heatmap(bridge, [4, 0, 1, 2], null="uniform")
    assert len(fig.data) == 3
    assert fig.data[0].x[3] == "key 3 '2'"
    with pytest.raises(RequestError, match="pass token ids"):
        attention_heatmap(bridge, "()")
    with pytest.raises(RequestError, match="carries no config and seed"):
        attention_heatmap(bridge, [4, 0], null="untrained")
    with pytest.raises((AnalysisError, RequestError)):
        attention_heatmap(bridge, [1] * 40)


@pytest.mark.parametrize("overlay", ["stack_top", "partner", "depth"])
def test_an_overlay_over_arrays_says_what_is_missing(overlay):
    grammar, even = DyckGrammar(2, 4), np.full((3, 3), 1 / 3)
    with pytest.raises(RequestError, match="needs token ids, and a list of strings only names the positions: give the"):
        attention_heatmap(even, ["START", "(", ")"], overlay=overlay, grammar=grammar)
    with pytest.raises(RequestError, match="needs a grammar and the text that it reads: pass grammar=, and text_or"):
        attention_heatmap(even, overlay=overlay)
    with pytest.raises(RequestError, match="needs a grammar and the text that it reads: pass grammar=, and text_or"):
        attention_heatmap(even, [4, 0, 1], overlay=overlay)
    attention_heatmap(even, "()", overlay=overlay, grammar=grammar)
    attention_heatmap(even, [4, 0, 1], overlay=overlay, grammar=grammar)


def framed(figure):
    """Corners (key, query) that the boxes of the first panel run through, of each shape in the order of drawing."""
    out = []
    for shape in figure.layout.shapes:
        if shape.xref == "x" and shape.yref == "y":
            corners, x, y = [], 0.0, 0.0
            for sign, one, other in re.findall(r"([MHV])(-?[0-9.]+)(?:,(-?[0-9.]+))?", shape.path):
                x, y = (
                    (float(one), float(other)) if sign == "M" else (x, float(one)) if sign == "V" else (float(one), y)
                )
                corners.append((x, y))
            out.append(corners)
    return out


def test_overlays_of_a_causal_pattern_stay_where_a_model_can_see():
    """Boxes of classes are stairs at the diagonal; single cells lie over them, and none above it."""
    grammar = BinaryChain()
    tokens = grammar.to_tokens("001110")[0]
    seen = np.tril(np.ones((6, 6))) / np.arange(1, 7)[:, None]
    runs, cells = framed(attention_heatmap(seen, tokens, grammar=grammar, overlay=["last_switch", "runs"]))
    assert max(x - y for x, y in (*runs, *cells)) <= 1  # corners of a cell on the diagonal are one off
    assert {(0.5, 0.5), (1.5, 1.5), (4.5, 4.5), (1.5, 4.5)} <= set(runs)  # stairs of the first and the second run
    assert (1.5, -0.5) not in runs  # and not the square around the first
    assert len(cells) == 6 * 4
    ahead = Overlay("targets", lambda tokens, grammar: np.arange(1, len(tokens) + 1) % len(tokens), "the next")
    world = replace(world_of(grammar), overlays={"next": ahead})
    with trying(world):
        (only,) = framed(attention_heatmap(seen, tokens, grammar=grammar, overlay="next"))
        (whole,) = framed(attention_heatmap(np.full((6, 6), 1 / 6), tokens, grammar=grammar, overlay="next"))
    assert only == [(-0.5, 4.5), (0.5, 4.5), (0.5, 5.5), (-0.5, 5.5)]  # of the last query, whose key lies behind it
    assert len(whole) == 6 * 4


def test_a_title_writes_the_string_as_its_grammar_does_and_says_how_to_see_the_rest():
    figure = attention_heatmap(load_checkpoint("flipflop"), "w0 i1 w1 i0 r1", population="grid")
    assert figure.layout.title.text.endswith(": w0 i1 w1 i0 r1")
    assert "first 12 of 16 panels; the others: max_panels=16, or one" in figure.layout.title.subtitle.text
