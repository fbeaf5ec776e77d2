"""Uses and patterns that an audit could overlook: behind masks, foils, halves, other layers, and rows at the end."""

import numpy as np
import pytest
import torch

from interp import SandboxTransformer, TransformerConfig, load_checkpoint
from interp.errors import RequestError
from interp.vocabulary import Vocabulary
from probes import audit_claim, scan_heads
from probes.audit.exchanges import output_change
from probes.audit.inputs import make_inputs

FILLERS = 20


def by_hand(names, width, coordinates, layers=1, heads=1, **config):
    """A model without norms whose residual stream has named coordinates, all weights 0; and their numbers."""
    vocabulary = Vocabulary(tuple(names), start=names.index("[START]"))
    shape = TransformerConfig(
        len(names), n_layers=layers, n_heads=heads, d_model=len(coordinates), n_ctx=width, positions="learned",
        norm="none", scale_scores=False, mlp_depth=0, **config,
    )  # fmt: skip
    model = SandboxTransformer(shape, vocabulary, {"trained": True}).requires_grad_(False)
    for weights in model.parameters():
        weights.zero_()
    return model, {name: at for at, name in enumerate(coordinates)}


def told(names, tokens, labels):
    return [
        {"text": [names[i] for i in row], "label": int(label), "position": -1}
        for row, label in zip(tokens, labels, strict=True)
    ]


def pairs(parts, loud=20.0, quiet=0.25, fillers=0, count=0):
    """Label 2p + b: L0H0 reads p, one of `parts`, at position 1, and L0H1 b at position 2, both from [ASK].

    Without `count` each label once; else so many inputs with two fillers.
    """
    names = [*(f"p{i}" for i in range(parts)), "b0", "b1", "[START]", "[ASK]", *(f"f{i}" for i in range(fillers))]
    read, said = [f"P{i}" for i in range(parts)], [f"o{i}" for i in range(parts)]
    width = 6 if count else 4
    model, at = by_hand(
        names,
        width,
        [*read, "B", "all", *said, "b", "first", "second"],
        heads=2,
        d_head=parts + 1,
        d_vocab_out=2 * parts,
    )
    p = torch.arange(parts)
    model.embed.W_E[p, p] = 1.0
    model.embed.W_E[parts : parts + 2, at["B"]] = torch.tensor([-1.0, 1.0])
    model.embed.W_E[:, at["all"]] = 1.0
    model.pos_embed.W_pos[1, at["first"]] = model.pos_embed.W_pos[2, at["second"]] = 1.0
    attention = model.blocks[0].attn
    for head, place in enumerate(("first", "second")):
        attention.W_Q[head, at["all"], parts] = 6.0
        attention.W_K[head, at[place], parts] = 1.0
    attention.W_V[0, p, p] = attention.W_O[0, p, p + at["o0"]] = 1.0
    attention.W_V[1, at["B"], 0] = attention.W_O[1, 0, at["b"]] = 1.0
    for bit in (0, 1):
        model.unembed.W_U[p + at["o0"], 2 * p + bit] = loud
        model.unembed.W_U[at["b"], 2 * p + bit] = quiet * (2 * bit - 1)
    start, ask, rng = names.index("[START]"), names.index("[ASK]"), np.random.default_rng(0)
    if count:
        drawn = rng.integers(0, (parts, 2, fillers, fillers), (count, 4)) + np.array([0, parts, ask + 1, ask + 1])
        body = np.unique(drawn, axis=0)
    else:
        body = np.array([(p, parts + bit) for p in range(parts) for bit in (0, 1)])
    tokens = np.column_stack([np.full(len(body), start), body, np.full(len(body), ask)])
    labels = 2 * tokens[:, 1] + tokens[:, 2] - parts
    return model, told(names, tokens, labels), tokens, labels


SECOND = "L0H1 uses position 2 to predict the label when the current token is [ASK]"


def lost_without(model, tokens, labels, head):
    """Accuracy with the z of a head of layer 0 at its mean, by a hook of its own."""

    def mean(z, hook):
        z[:, :, head] = z[:, :, head].mean((0, 1))
        return z

    out = model.run_with_hooks(torch.from_numpy(tokens), fwd_hooks=[("blocks.0.attn.hook_z", mean)])
    return float((out[:, -1].argmax(-1).numpy() == labels).mean())


def test_a_head_that_half_of_many_answers_need_is_not_unused():
    """Its word moves no margin between answers of other p, which are nearly all the foils that there are."""
    model, inputs, tokens, labels = pairs(60, fillers=FILLERS, count=500)
    assert lost_without(model, tokens, labels, 1) < 0.6
    result = audit_claim(model, SECOND, inputs, untrained=False)
    assert (result.verdict, result.use) == ("undecided", "undecided"), result.reason
    words = {(one.layer, one.head): one.matters.word for one in scan_heads(model, inputs=inputs).heads}
    assert words == {(0, 0): "used", (0, 1): "open"}


def test_labels_that_occur_once_are_halved_at_random():
    """Sorted by label, every second one has the same bit: no donor would differ in it."""
    model, inputs, _, _ = pairs(100, quiet=20.0)
    for seed in (0, 1):
        result = audit_claim(model, SECOND, inputs, untrained=False, seed=seed)
        assert (result.verdict, result.use) == ("supported", "used"), result.reason


def test_what_both_halves_get_alike_stays_so_beside_what_occurs_once():
    """100 inputs of one stratum and 100 of one each: either half has 50 of the first, and singles of both parities."""
    model, _, _, _ = pairs(2)
    tokens = np.stack(np.unravel_index(np.arange(200), (6, 6, 6, 6)), axis=1)
    strata = np.concatenate([np.zeros(100, dtype=int), np.arange(1, 101)])[:, None]
    found = make_inputs(model, model.grammar, tokens, 200, 4, 0, strata)
    assert (found.half_b < 100).sum() == 50
    singles = found.half_b[found.half_b >= 100]
    assert 10 < (singles % 2).sum() < 40


@pytest.mark.parametrize("mask", [-1e4, -1e9, -np.inf])
def test_masked_outputs_hide_no_use(mask):
    model = load_checkpoint("constructed/flipflop-reader")
    with torch.no_grad():
        model.unembed.b_U[:3] = mask  # of five tokens those that are no bit, which no read answers
    result = audit_claim(model, "L1H0 uses the last write", untrained=False)
    assert (result.verdict, result.use) == ("supported", "used"), result.reason


def test_the_size_of_an_output_is_held_against_those_that_may_be_the_answer():
    """By hand, less the largest: half of the outputs at -1e9, one of two others moves by 4."""
    logits = torch.tensor([[0.0, -4.0, -1e9, -1e9], [0.0, -8.0, -1e9, -1e9]])
    assert output_change(logits) == pytest.approx(0.5)
    assert output_change(logits[:1].repeat(2, 1)) == 0.0


def test_what_a_layer_before_brought_is_exchanged_too():
    """L0H0 brings a bit to position 3, where a filler stands; L1H0 reads it there, and the filler says nothing."""
    names = ["b0", "b1", "[START]", "[ASK]", *(f"f{i}" for i in range(FILLERS))]
    model, at = by_hand(
        names, 6, ["B", "ask", "brought", "answer", "first", "third", "all", "start"], layers=2, d_head=2, d_vocab_out=2
    )
    model.embed.W_E[:2, at["B"]] = torch.tensor([-1.0, 1.0])
    model.embed.W_E[3, at["ask"]] = model.embed.W_E[2, at["start"]] = 1.0
    model.embed.W_E[:, at["all"]] = 1.0
    model.pos_embed.W_pos[1, at["first"]] = model.pos_embed.W_pos[3, at["third"]] = 1.0
    for layer, (query, key, value, out) in enumerate(
        (("third", "first", "B", "brought"), ("ask", "third", "brought", "answer"))
    ):
        attention = model.blocks[layer].attn
        attention.W_Q[0, at[query], 0], attention.W_K[0, at[key], 0] = 40.0, 1.0
        attention.W_Q[0, at["all"], 1], attention.W_K[0, at["start"], 1] = 20.0, 1.0
        attention.W_V[0, at[value], 0] = attention.W_O[0, 0, at[out]] = 1.0
    model.unembed.W_U[at["answer"]] = torch.tensor([-1.0, 1.0])
    rng = np.random.default_rng(0)
    body = np.unique(rng.integers(0, (2, FILLERS, FILLERS, FILLERS), (500, 4)) + np.array([0, 4, 4, 4]), axis=0)
    tokens = np.column_stack([np.full(len(body), 2), body, np.full(len(body), 3)])
    claim = "L1H0 uses position 3 to predict the label when the current token is [ASK]"
    result = audit_claim(model, claim, told(names, tokens, tokens[:, 1]), untrained=False)
    assert (result.verdict, result.use) == ("supported", "used"), result.reason


@pytest.mark.parametrize(("elsewhere", "verdict"), [(1, "supported"), (14, "refuted")])
def test_a_rival_that_is_there_in_few_rows_refutes_nothing(elsewhere, verdict):
    """The previous token in all rows but the last ones, which look at position 1."""
    width = 31
    names = ["b0", "b1", "[START]", "[ASK]", *(f"f{i}" for i in range(FILLERS))]
    model, _ = by_hand(names, width, [f"at{i}" for i in range(width)], d_head=width, d_vocab_out=2)
    places = torch.arange(width)
    model.pos_embed.W_pos[places, places] = 1.0
    attention = model.blocks[0].attn
    for query in range(1, width):
        attention.W_Q[0, query, 1 if query >= width - elsewhere else query - 1] = 10.0
    attention.W_K[0, places, places] = 1.0
    tokens = np.random.default_rng(0).integers(4, 4 + FILLERS, (200, width))
    tokens[:, 0] = 2
    result = audit_claim(model, "L0H0 attends to the previous token", tokens, untrained=False, task_check=False)
    assert result.verdict == verdict, result.reason


def test_names_that_are_one_under_a_condition_are_one():
    """Where a token repeats the one before, its last earlier copy is the previous token, by definition."""
    claim = "L0H0 attends to the previous token when the current token repeats the previous one"
    result = audit_claim(load_checkpoint("constructed/induction"), claim, num_inputs=200)
    assert result.pattern == "holds", result.reason
    assert "the same keys here as the last earlier copy of the current token" in result.reason


@pytest.mark.parametrize("name", ["recall", "markov", "flipflop", "facts"])
def test_a_length_that_no_string_has_is_refused_and_not_passed_over(name):
    model = load_checkpoint(name)[0]
    for ask in (
        lambda: audit_claim(model, "L0H0 attends to the current token", length=30),
        lambda: scan_heads(model, length=30),
    ):
        with pytest.raises(RequestError, match="strings of this grammar have"):
            ask()
