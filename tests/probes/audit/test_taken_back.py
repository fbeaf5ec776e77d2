"""Heads whose exchange moves the answer while nothing of what they say is needed: no use may be told of them."""

import numpy as np
import pytest
import torch

from built import CLAIM, DOWN, UP, Built, audited, resampled, strings


@pytest.mark.parametrize("taken", [1.0, 0.5])
def test_a_word_that_a_later_head_always_takes_back_is_no_use(taken):
    """L1H0 looks at "down" where L0H0 has said yes and at "up" where it has said no, and writes the opposite."""
    built = Built(7, ["said", "up", "down"], layers=2, heads=2)
    for name, token in (("up", UP), ("down", DOWN)):
        built.model.embed.W_E[token, built.at[name]] = 1.0
    built.answers("said", 1.0)
    for head, out in enumerate((("said", 0.6), ("answer", 1.0))):
        built.head(0, head, ("ask", 30.0), {"at1": 1.0}, {"bit": 1.0}, out)
    built.head(1, 0, ("said", 50.0), {"down": 1.0, "up": -1.0}, {"down": -1.0, "up": 1.0}, ("said", 0.6 * taken))
    tokens = strings(marks=True)
    moved = (built.logits(tokens, {(0, 0): resampled}) - built.logits(tokens)).abs().max()
    assert (float(moved) < 1e-4) == (taken == 1.0)  # absolute: logits of size 1
    found = audited(built, tokens, CLAIM.format(0))
    assert found.use == ("undecided" if taken == 1.0 else "used"), found.reason
    assert ("or takes it back" in found.reason) == (taken == 1.0), found.reason
    assert audited(built, tokens, CLAIM.format(1)).use == "used"


@pytest.mark.parametrize("offset", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_constant_on_all_values_changes_no_word(value, offset):
    """The head rests on the token before, and spares position 1 more weight where the bit is 1. Weights sum to 1, so a
    constant on every value is one on the output: whether a key's value is 0 means nothing.
    """
    built = Built(7, ["mark"])
    built.model.embed.W_E[:2, built.at["mark"]] = 1.0
    least, most = np.log([1 / 3, 2 / 3])  # of the weight on the token before
    spare = {"at5": 12.0, "mark": 12.0 + (least + most) / 2, "bit": (most - least) / 2}
    built.head(0, 0, ("ask", 1.0), spare, {"mark": 1.0, "at5": value, "one": offset}, ("answer", 10.0))
    tokens = strings()
    gap = built.logits(tokens) @ torch.tensor([-1.0, 1.0])
    built.model.unembed.b_U[:2] = gap.mean() / 2 * torch.tensor([1.0, -1.0])
    assert (built.logits(tokens).argmax(-1).numpy() == tokens[:, 1]).all()
    found = audited(built, tokens, "L0H0 uses the previous token to predict the label when the current token is [ASK]")
    assert (found.pattern, found.use) == ("holds", "used"), found.reason


def contradicted(alone, heads=2, asks="ask"):
    """L0H1 answers. An MLP pulls the answer down where L0H0 says the other, as on no input; further heads are idle.

    `alone`: what L0H0 adds to the answer by itself.
    """
    built = Built(7, ["said"], heads=heads, d_mlp=2, mlp_depth=2, activation="relu")
    for head, out in enumerate((("said", 1.0), ("answer", 1.0))):
        built.head(0, head, (asks, 30.0), {"at1": 1.0}, {"bit": 1.0}, out)
    built.answers("said", alone)
    built.units(*(({"answer": sign, "said": -sign}, -1.5, -2.0 * sign) for sign in (1.0, -1.0)))
    return built


@pytest.mark.parametrize(("alone", "heads", "use"), [(0.01, 2, "undecided"), (0.01, 3, "undecided"), (1.0, 2, "used")])
def test_a_donor_that_contradicts_other_heads_is_not_yet_a_use(alone, heads, use):
    """Nor is an idle head a partner that the model falls back on."""
    found = audited(contradicted(alone, heads), strings(), CLAIM.format(0))
    assert found.use == use, found.reason
    assert ("the rest may be enough" in found.reason) == (use == "undecided"), found.reason


@pytest.mark.parametrize("how", [{}, {"early": True}, {"inputs": 110}])
def test_fewer_inputs_never_make_a_stronger_word(how):
    tokens = strings(count=how.pop("inputs", 400))
    found = audited(contradicted(0.01, asks="one"), tokens, "L0H0 uses position 1 to predict the label", **how)
    assert (found.verdict, found.use) == ("undecided", "undecided"), found.reason


def test_values_that_act_on_a_later_pattern_are_no_use_if_none_of_them_is_needed():
    """L1H0 takes the answer back where what L0H0 says contradicts it; L0H0's own pattern is always the same."""
    built = Built(7, ["said"], layers=2, heads=2)
    built.head(0, 0, ("ask", 30.0), {"at1": 1.0}, {"bit": 1.0, "one": 3.0}, ("said", 1.0))
    built.head(0, 1, ("ask", 30.0), {"at1": 1.0}, {"bit": 1.0}, ("answer", 1.0))
    later = built.model.blocks[1].attn
    later.W_Q[0, built.at["said"], 0], later.W_Q[0, built.at["ask"], 0] = -40.0, 120.0
    later.W_K[0, built.at["answer"], 0] = 1.0
    later.W_Q[0, built.at["ask"], 1], later.W_K[0, built.at["at0"], 1] = 20.0, 1.0
    later.W_V[0, built.at["answer"], 0], later.W_O[0, 0, built.at["answer"]] = 1.0, -2.0
    found = audited(built, strings(), CLAIM.format(0))
    assert found.use == "undecided", found.reason


@pytest.mark.parametrize(("both", "use"), [(False, "undecided"), (True, "used")])
def test_a_readout_that_saturates_needs_inputs_of_both_answers(both, use):
    """One head alone says the bit; where it says nothing, the answer is 1: of inputs with that answer its mean is
    enough.
    """
    built = Built(7, ["said"], d_mlp=2, mlp_depth=2, activation="relu")
    built.head(0, 0, ("ask", 30.0), {"at1": 1.0}, {"bit": 1.0}, ("said", 1.0))
    built.units(({"said": 4.0}, 3.0, 1.0), ({"said": 4.0}, 1.0, -1.0))
    built.model.unembed.b_U[:2] = torch.tensor([1.0, -1.0])
    tokens = strings(count=800)
    found = audited(built, tokens if both else tokens[tokens[:, 1] == 1], CLAIM.format(0))
    assert found.use == use, found.reason
