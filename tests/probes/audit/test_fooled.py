"""Heads that were built to fool the audit: a circuit of given heads, a readout that saturates or not, and its truth.

The first twelve tokens are of two classes, six each; a head carries the class of what it reads to one number, and the
label is its sign. `decided` says what the answer is without a head, by hooks of the tests' own.
"""

from functools import partial

import numpy as np
import pytest
import torch

import probes
from interp.config import TransformerConfig
from probes.audit.bench.trained import VOCABULARY, Frozen, FrozenModel
from probes.audit.labels import LabelledInput
from probes.claims import BUILT_IN, offset, position

audit = partial(probes.audit_claim, untrained=False, task_check=False)
PREVIOUS = BUILT_IN["previous"]
ONE, OTHER = 13, 14  # tokens that say the label themselves


def circuit(weights, relations=None, *, saturates=False):
    """One layer: head h writes `weights[h]` times the class of what it attends to; saturating at .5 of either sign."""
    looks = relations or [PREVIOUS] * len(weights)
    frozen = {(0, h): Frozen(relation, 0.9) for h, relation in enumerate(looks)}
    more = {"d_mlp": 8, "mlp_depth": 2, "activation": "relu"} if saturates else {"mlp_depth": 0}
    config = TransformerConfig(
        VOCABULARY.vocab_size, n_layers=1, n_heads=len(weights), d_model=8, d_head=2, positions="learned", n_ctx=16,
        d_vocab_out=2, norm="none", scale_scores=False, **more,
    )  # fmt: skip
    model = FrozenModel(config, VOCABULARY, frozen).requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    model.embed.W_E[:6, 0], model.embed.W_E[6:12, 0] = 1.0, -1.0
    attention = model.blocks[0].attn
    for h, weight in enumerate(weights):
        attention.W_V[h, 0, 0], attention.W_O[h, 0, 1 if saturates else 2] = 1.0, weight
    if saturates:
        (into, out), (b_in, b_out) = ([p for p in model.blocks[0].mlp.parameters() if p.dim() == dim] for dim in (2, 1))
        into[1, :2], b_in[:2] = 1.0, torch.tensor([0.5, -0.5])
        out[:2, 2], b_out[2] = torch.tensor([1.0, -1.0]), -0.5
    model.unembed.W_U[2, :2] = torch.tensor([5.0, -5.0])
    return model


def drawn(count=600, seed=0):
    tokens = np.random.default_rng(seed).integers(0, 12, (count, 11))
    tokens[:, 0] = 12
    return np.unique(tokens, axis=0)


def labelled(tokens, labels, donors=None):
    names = VOCABULARY.names
    rows = [[names[i] for i in row] for row in tokens]
    if donors is None:
        return [LabelledInput(row, int(label), -1) for row, label in zip(rows, labels, strict=True)]
    others = [[names[i] for i in row] for row in donors]
    return [
        LabelledInput(row, int(label), -1, other, 1 - int(label))
        for row, label, other in zip(rows, labels, others, strict=True)
    ]


def decided(model, tokens, labels, without=()):
    """Accuracy with the z of some heads at 0, which is their mean."""

    def silence(module, given, z):
        z = z.clone()
        z[:, :, list(without)] = 0
        return z

    handle = model.blocks[0].attn.hook_z.register_forward_hook(silence)
    logits = model(torch.from_numpy(tokens))[:, -1]
    handle.remove()
    return float((logits.argmax(-1).numpy() == labels).mean())


def previous_class(tokens):
    return (tokens[:, -2] >= 6).astype(int)


def test_inputs_of_one_label_show_a_use_by_their_donors():
    """No output changes from input to input, nor does the mean of what is read: only the donors' differ."""
    model, tokens = circuit([1.0], [position(3)]), drawn()
    tokens = tokens[tokens[:, 3] < 6][:280]
    donors = tokens.copy()
    donors[:, 3] = np.random.default_rng(1).integers(6, 12, len(tokens))
    assert decided(model, tokens, 0) == decided(model, donors, 1) == 1
    for noise in (0.0, 0.05):
        model.embed.W_E[:12, 0] += noise * torch.randn(12, generator=torch.Generator().manual_seed(0))
        found = audit(model, "L0H0 uses position 3 to predict the label", labelled(tokens, 0 * tokens[:, 0], donors))
        assert (found.use, found.verdict) == ("used", "supported")


def test_what_a_donor_gives_is_not_taken_for_idle_where_edges_have_no_power():
    """Two heads of opposite sign on one edge, and a third route: the sum moves little, either head turns all over."""
    model = circuit([1.0, -0.95, 1.0], [PREVIOUS, PREVIOUS, position(1)])
    model.embed.W_E[:12, 0] += 0.02 * torch.randn(12, generator=torch.Generator().manual_seed(0))
    tokens = drawn(1500)
    tokens = tokens[(tokens[:, -2] < 6) & (tokens[:, 1] < 6)][:300]
    donors = tokens.copy()
    donors[:, -2] = np.random.default_rng(1).integers(6, 12, len(tokens))
    text = "L0H0 uses the previous token to predict the label at the last position"
    assert audit(model, text, labelled(tokens, 0 * tokens[:, 0], donors)).use == "undecided"


@pytest.mark.parametrize("heads", [8, 16])
def test_a_head_that_stands_in_is_found_among_many(heads):
    """Two heads, each enough by itself, and others that give next to nothing."""
    idle = [offset(-2 - h % 4) for h in range(heads - 2)]
    model = circuit([2.0, 4.0, *[0.0] * (heads - 2)], [PREVIOUS, PREVIOUS, *idle], saturates=True)
    tokens = drawn()
    labels = previous_class(tokens)
    assert [decided(model, tokens, labels, out) for out in ((), (0,), (1,))] == [1, 1, 1]
    assert decided(model, tokens, labels, (0, 1)) < 0.6
    found = audit(model, "L0H0 uses the previous token to predict the label", labelled(tokens, labels))
    assert (found.use, found.verdict) == ("redundant", "supported")
    assert "L0H1" in found.reason


def test_one_of_many_voters_is_not_idle():
    model, tokens = circuit([1.0] * 20, saturates=True), drawn()
    labels = previous_class(tokens)
    assert decided(model, tokens, labels, (0,)) == 1
    found = audit(model, "L0H0 uses the previous token to predict the label", labelled(tokens, labels))
    assert (found.use, found.verdict) == ("undecided", "undecided")


def test_a_head_that_another_cancels_is_no_second_route():
    """The third decides alone; without it the first two, which cancel, give nothing."""
    model, tokens = circuit([1.0, -1.0, 4.0], saturates=True), drawn()
    labels = previous_class(tokens)
    assert decided(model, tokens, labels, (0, 1)) == 1
    assert decided(model, tokens, labels, (2,)) < 0.6
    found = audit(model, "L0H0 uses the previous token to predict the label", labelled(tokens, labels))
    assert (found.use, found.verdict) == ("unused", "misleading")


@pytest.mark.parametrize(("share", "use"), [(0.05, "used"), (0.3, "undecided")])
def test_a_few_loud_inputs_do_not_hide_a_use(share, use):
    """So many are answered by their last token, loudly; the others by the head alone."""
    model = circuit([1.0])
    model.embed.W_E[ONE, 2], model.embed.W_E[OTHER, 2] = 60.0, -60.0
    tokens, one = drawn(1200), np.random.default_rng(3).random(1200)
    last = np.where(one < share / 2, ONE, np.where(one < share, OTHER, tokens[:, -1]))
    tokens[:, -1] = last
    labels = np.where(last == ONE, 0, np.where(last == OTHER, 1, tokens[:, -2] >= 6)).astype(int)
    assert decided(model, tokens, labels) == 1
    assert decided(model, tokens, labels, (0,)) < 0.72
    found = audit(model, "L0H0 uses the previous token to predict the label", labelled(tokens, labels))
    assert found.use == use


def test_a_constant_on_all_logits_changes_nothing():
    model, tokens = circuit([1.0]), drawn()
    inputs = labelled(tokens, previous_class(tokens))
    model.unembed.b_U[:2] += 1e5
    assert audit(model, "L0H0 uses the previous token to predict the label", inputs).verdict == "supported"


def test_a_head_that_works_against_the_answer_is_told_so():
    model, tokens = circuit([-0.5, 1.5]), drawn()
    inputs = labelled(tokens, previous_class(tokens))
    found = audit(model, "L0H0 uses the previous token to predict the label", inputs)
    assert found.use == "undecided"
    assert "works against the right answer" in found.reason
