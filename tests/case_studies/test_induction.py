"""Measures of the induction study: on the circuit written by hand, on hand-worked cases, and by other formulas."""

import json
import math

import numpy as np
import pytest
import torch

from case_studies.induction.collect import Model, Moment, transition
from case_studies.induction.measure import (
    Heads,
    beyond_the_prior,
    chi_square,
    composition,
    crossing,
    divergences,
    edit_losses,
    gradient_norm,
    head_scores,
    loss_of,
    matching_without_first,
    nearest,
    onset,
    strings_of,
)
from case_studies.induction.report import _order
from case_studies.induction.study import STUDY
from closeness import assert_close
from interp import SandboxTransformer, load_checkpoint
from interp.presets import make_recipe
from interp.stats import Estimate
from interp.worlds.markov import MarkovGrammar
from interp.worlds.markov.counts import kernels
from interp.worlds.recall import RecallGrammar
from interp.worlds.recall.constructed import induction


@pytest.fixture(scope="module")
def circuit():
    return load_checkpoint("constructed/induction")


@pytest.fixture(scope="module")
def strings(circuit):
    return strings_of(circuit.grammar, 40)


def test_the_circuit_has_full_scores(circuit, strings):
    heads = head_scores(circuit, strings)
    assert_close(heads.first, 1.0, dtype=torch.float32)
    assert_close(heads.second, 1.0, dtype=torch.float32)
    assert heads.matching[0, 0] < 0.2  # one in twelve keys is the previous token by chance
    assert 0.03 < heads.chance < 0.15  # 1 / (t + 1) at positions 8 to 32


def test_an_even_head_scores_chance(strings):
    even = SandboxTransformer(make_recipe("recall").config, strings.grammar)  # all weights 0
    heads = head_scores(even, strings)
    assert_close(heads.matching, np.full((2, 1), heads.chance), dtype=torch.float32)


def test_rows_are_late_labelled_and_have_keys_of_their_own():
    grammar = RecallGrammar(3, 12)
    strings = strings_of(grammar, 50)
    place = np.arange(13)
    recalled = grammar.recalled(strings.tokens)
    assert (strings.rows == ((recalled >= 0) & (recalled != place) & (place >= 13 // 4))).all()


def test_the_matching_score_of_the_circuit_is_carried_by_its_first_layer(circuit, strings):
    alone = matching_without_first(circuit, strings)
    assert alone < head_scores(circuit, strings).second - 0.7  # the keys are alike then
    even = SandboxTransformer(make_recipe("recall").config, strings.grammar)  # all weights 0: nothing is carried
    assert_close(matching_without_first(even, strings), head_scores(even, strings).second, dtype=torch.float32)


@pytest.mark.parametrize(
    ("second", "alone", "share"),
    [
        ([0.2, 0.4, 0.8], [0.2, 0.2, 0.2], 1.0),  # all that is above an even head's 0.2 is carried
        ([0.2, 0.4, 0.8], [0.2, 0.4, 0.8], 0.0),
        ([0.2, 0.5, 0.8], [0.2, 0.35, 0.2], 0.5),  # half way at a snapshot
        ([0.2, 0.4, 0.8], [0.2, 0.3, 0.5], 0.5),  # between two: (0.5 - 0.35) / (0.5 - 0.2)
        ([0.8, 0.4, 0.2], [0.2, 0.2, 0.2], None),  # no rise
        ([0.0, 0.05, 0.1], [0.0, 0.0, 0.0], None),  # not above even
    ],
)
def test_what_layer_0_carries_at_the_half_way_step(second, alone, share):
    heads = Heads(np.zeros((2, 1)), np.zeros((2, 1)), 0.2)
    moments = [Moment(10 * at, 0.0, b, a, {}, 0.0) for at, (b, a) in enumerate(zip(second, alone, strict=True))]
    found = Model(0, {}, heads, heads, None, {}, moments, None, {}).carried()
    if share is None:
        assert found is None
    else:
        assert_close(found, share, dtype=torch.float32, scale=1.0)


def test_every_part_of_the_circuit_is_needed(circuit, strings):
    """Without the first layer, or its path to the last layer's keys, hardly an answer is right; queries and values do
    not come from it."""
    losses = edit_losses(circuit, strings)
    assert_close(losses.intact, 0.0, scale=30.0, dtype=torch.float32)
    assert losses.first > 5
    assert losses.last > 1
    assert losses.paths["k"] > 5
    assert_close(losses.paths["q"], 0.0, scale=30.0, dtype=torch.float32)
    assert_close(losses.paths["v"], 0.0, scale=30.0, dtype=torch.float32)


def test_the_circuit_composes_in_keys_alone(circuit):
    found = composition(circuit)
    assert found["q"] == found["v"] == 0
    assert found["k"] > 0.1


def test_composition_by_hand():
    """OV = e1 -> e2; keys read e2 alone: all of what is written is read."""
    model = induction(RecallGrammar(3, 4))
    for block in model.blocks:
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            getattr(block.attn, name).data.zero_()
    first, last = model.blocks[0].attn, model.blocks[1].attn
    with torch.no_grad():
        first.W_V[0, 0, 0], first.W_O[0, 0, 1] = 2.0, 3.0
        last.W_K[0, 1, 0], last.W_Q[0, 5, 0] = 1.0, 4.0
        last.W_V[0, 1, 0] = last.W_V[0, 2, 0] = last.W_O[0, 0, 0] = 1.0
    found = composition(model)
    assert_close(found["k"], 1.0)
    assert_close(found["v"], 1 / math.sqrt(2))
    assert found["q"] == 0


def test_divergences_by_hand():
    logits = torch.tensor([[[0.0, 0.0], [0.0, math.log(3)]]])
    rungs = {"even": np.full((1, 2, 2), 0.5), "sure": np.array([[[0.25, 0.75], [0.25, 0.75]]])}
    found = divergences(logits, rungs, np.array([[0, -100]]))  # the second position is not asked
    assert found["even"] == 0
    assert_close(found["sure"], 0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert nearest(found) == "even"


def test_the_gradient_is_that_of_the_loss():
    """Against the difference of two losses along it."""
    grammar = MarkovGrammar(length=12)
    strings = strings_of(grammar, 10)
    model = SandboxTransformer.init(make_recipe("markov", {"length": 12}).config, 0, grammar).double()
    norm = gradient_norm(model, strings)
    logits = model(torch.from_numpy(strings.tokens))
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.from_numpy(strings.labels).flatten(), ignore_index=-100
    )
    loss.backward()
    step = 1e-5 / norm
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p += step * p.grad
        moved = loss_of(model(torch.from_numpy(strings.tokens)), strings.labels)
    assert (moved - loss.item()) / 1e-5 == pytest.approx(norm, rel=1e-3)


def test_kernels_beyond_the_prior_are_counted_with_the_trained_beta():
    grammar = MarkovGrammar(length=12)
    model = SandboxTransformer(make_recipe("markov", {"length": 12}).config, grammar)  # says that all is as likely
    loss, count = beyond_the_prior(model, grammar, 0.2)
    assert_close(loss, math.log(3), dtype=torch.float32)
    assert count < loss


# -- over training ------------------------------------------------------------------------------------------


def test_crossings_by_hand():
    assert crossing([0, 10, 20], [0.0, 0.2, 0.8], 0.5) == 15.0
    assert crossing([0, 10, 20], [1.0, 0.6, 0.4], 0.5) == 15.0
    assert crossing([0, 10], [0.0, 0.2], 0.5) is None
    assert crossing([5, 10], [0.5, 0.2], 0.5) == 5.0
    assert onset([0, 10, 20], [0.1, 0.1, 0.9]) == 15.0
    assert onset([0, 10], [0.3, 0.3]) is None


def test_transitions_are_half_way_between_counts():
    rungs = {"rung/unigram": 1.0, "rung/bigram": 0.9, "rung/lag-2 bigram": 0.5, "rung/kernel": 0.2}
    history = [{"step": step, "loss": loss, **rungs} for step, loss in ((0, 1.1), (10, 1.0), (20, 0.9))]
    assert transition(history) == pytest.approx(15.0)
    recall = [{"step": step, "accuracy": right, "rung/unigram": 2.0} for step, right in ((0, 0.0), (10, 1.0))]
    assert transition(recall) == pytest.approx(5.0)


# -- information --------------------------------------------------------------------------------------------


def test_information_of_two_states_is_a_power_of_the_eigenvalue():
    """A chain of two states has chi^2 information (1 - p - q)^(2 lag)."""
    p, q = 0.3, 0.1
    found = chi_square(np.array([[[1 - p, p], [q, 1 - q]]]), (1, 2, 3))
    assert_close(found, [[0.6**2, 0.6**4, 0.6**6]], scale=1.0)


def test_information_falls_with_the_lag_for_every_kernel():
    """The data processing inequality, and the mean over Dirichlet(1) kernels of three states, about .31 at lag 1."""
    found = chi_square(kernels(np.random.default_rng(0), 2000, 3, 3, 1.0), (1, 2, 3, 4))
    assert (np.diff(found, axis=1) <= 1e-12).all()  # absolute: roundings of sums of nine terms of about 1
    assert abs(found[:, 0].mean() - 0.305) < 5 * found[:, 0].std() / math.sqrt(500)


def test_the_score_that_rises_first_is_named():
    later = Estimate(-112.0, -118.0, -106.0, 40, "seeds")
    told = "is half way 112 [106, 118] steps before that of the previous-token head"
    assert _order(later) == f"the matching score {told}"
    assert "11 [10, 12] steps after" in _order(Estimate(11.0, 10.0, 12.0, 40, "seeds"))
    assert _order(Estimate.undefined("no seeds", 0, "seeds")) == "it is undefined which score rises first"


# -- the study ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_study_runs_with_few_seeds_and_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("case_studies.induction.measure.STRINGS", 8)
    monkeypatch.setattr("case_studies.induction.collect.strings_of", lambda grammar: strings_of(grammar, 8))
    for name in ("EVAL_STRINGS", "FINAL_STRINGS"):
        monkeypatch.setattr(f"interp.training.task.{name}", 20)
    STUDY.run(tmp_path, seeds=2, steps=2, workers=1)
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["seeds"] == 2
    assert set(found["families"]["chain"]["phases"][0]["nearest"]) == {"uniform", "unigram", "bigram"}
    assert "Paper and ours" in (tmp_path / "index.html").read_text()
