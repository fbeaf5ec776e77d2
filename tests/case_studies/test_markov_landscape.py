"""The study end to end on barely trained seeds, and its measures once more, model by model."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from case_studies.markov_landscape.arms import ARMS, CHAIN
from case_studies.markov_landscape.measure import Measured, canonical_w, measure
from case_studies.markov_landscape.points import cases, listed, points, starts
from case_studies.markov_landscape.study import FULL, STUDY, Size
from case_studies.markov_landscape.tables import finding, level_of
from case_studies.study import Obtained
from closeness import assert_close
from interp import Population
from interp.training.evaluation import plain_set
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.constructed import unigram
from interp.worlds.binary_chain.flow import CanonicalFlow, gap
from interp.worlds.binary_chain.landscape import expected_loss, unigram_hessian
from intervals import unnamed_of_page
from sizes import hold_out_few


def made(way, primary=True, steps=(0, 50, 100)):
    """An arm with these losses [seed, evaluation] and nothing else."""
    arm = replace(ARMS[0], primary=primary)
    nothing = np.zeros(len(way))
    return Measured(arm, None, "", np.array(steps), np.array(way), nothing, nothing, nothing, {}, {}, {}, nothing)


def test_arms_say_what_flow_and_slides_do():
    said = {arm.family.name: arm.said for arm in ARMS}
    assert said["tied, SGD, canonical start, stuck side"] == "unigram"
    assert said["tied, SGD, canonical start, learning side"] == "kernel"
    assert {arm.kernel for arm in ARMS if "p + q < 1" in arm.family.name} == {(0.2, 0.3)}
    assert ARMS[0].kernel == CHAIN
    assert sum(arm.primary for arm in ARMS) == 4
    assert len({json.dumps(arm.family.recipe.to_dict(), sort_keys=True) for arm in ARMS}) == len(ARMS)


def test_who_is_stuck_and_when_others_escape():
    m = made([[1.2, 1.0, 0.9], [1.2, 0.3, 0.1], [1.2, 0.4, 0.6], [0.4, 0.7, 0.2], [0.4, 0.2, 0.1]])
    assert m.stuck.tolist() == [True, False, True, False, False]
    assert m.escapes == [None, 50, None, 100, 0]
    assert m.stuck_share().value == 0.4
    assert m.escape.value == 50


@pytest.mark.parametrize(
    ("stuck", "said"), [(8, "most are stuck"), (0, "most learn"), (5, "undecided"), (7, "undecided")]
)
def test_findings_are_those_of_the_whole_interval(stuck, said):
    m = made([[1.0]] * stuck + [[0.0]] * (8 - stuck), steps=(0,))
    assert finding(m, 0.95) == said  # 7 of 8: [.47, 1.00]


def test_secondary_arms_share_one_error():
    first, *others = [made([[1.0]], primary=i == 0, steps=(0,)) for i in range(6)]
    assert level_of(first, [first, *others]) == 0.95
    assert_close(level_of(others[0], [first, *others]), 0.99)


def test_w_is_read_off_scale_and_gap():
    e, w = np.array([0.5, 1.0, 1.5]), np.array([-1.2, 0.0, 0.7])
    assert_close(canonical_w(e, gap(e, w)), w, scale=10)


def test_numbers_of_a_model_are_those_of_its_strings():
    family = ARMS[0].family
    population = Population.init(family.recipe.config, [0, 1], family.recipe.grammar)
    with torch.no_grad():
        population.params["embed.W_E"] *= 20
        population.params["blocks.0.attn.W_O"] *= 100
    rows = [
        {"seed": seed, "step": step, "excess": 0.01 * (seed + 1), "rung/law": 0.6, "rung/unigram": 0.65}
        for step in (0, 5)
        for seed in (0, 1)
    ]
    one = Obtained(family, replace(population, history=tuple(rows), snapshots={0: population.params}), "digest")
    m, model, grammar = measure(ARMS[0], one), population[1], population.grammar
    assert_close(m.way, [[0.2, 0.2], [0.4, 0.4]], scale=10)
    data = plain_set(grammar, 1000)
    tokens = np.repeat(data.inputs, data.weight.astype(int), axis=0)[:250, : grammar.length]
    with torch.no_grad():
        odds = model(torch.from_numpy(tokens)).double().diff(dim=-1)[:, :-1, 0].numpy()
    for x in (0, 1):
        there = tokens[:, :-1] == x
        assert_close(m.after[1, x], (1 / (1 + np.exp(-odds[there]))).mean(), dtype=torch.float32, scale=10)
    mean = [odds[tokens[:, :-1] == x].mean() for x in (0, 1)]
    assert_close(m.gap[1], mean[1] - mean[0], dtype=torch.float32, scale=10)
    e = model.embed.W_E.detach().double().diff(dim=0)[0].numpy()
    assert_close(m.scale[1], np.linalg.norm(e), dtype=torch.float32, scale=10)
    assert_close(m.path[0][1], m.gap, scale=10)
    w_in = model.blocks[0].mlp.W_in.detach().double().numpy()
    left, values, _ = np.linalg.svd(w_in)
    assert_close(m.energy["W_1"][1], values[0] ** 2 / (values**2).sum(), dtype=torch.float32, scale=1)
    assert_close(m.aligned["W_1"][1], abs(left[:, 0] @ e) / np.linalg.norm(e), dtype=torch.float32, ulps=1e4, scale=1)
    losses = []
    for hooks in ([], [("blocks.0.hook_attn_out", lambda out, hook: torch.zeros_like(out))]):
        with torch.no_grad():
            logits = model.run_with_hooks(torch.from_numpy(data.inputs[:, : grammar.length]), fwd_hooks=hooks)
        nats = (
            -logits.double()
            .log_softmax(-1)[:, :-1]
            .gather(-1, torch.from_numpy(data.inputs[:, 1 : grammar.length, None]))
        )
        losses.append(np.average(nats[..., 0].mean(1).numpy(), weights=data.weight))
    assert abs(losses[1] - losses[0]) > 1e-5
    assert_close(m.without_attention[1], losses[1] - losses[0], dtype=torch.float32, ulps=64, scale=10)


def test_points_count_kinds():
    found = points((0.5, 0.8), True, 2)
    assert (found.minima.value, found.saddles.value) == (1, 0)
    assert points((0.5, 0.8), False, 1).saddles.value == 1
    exact = listed((0.9, 0.9), True)
    assert exact.found.kind == "local minimum"
    assert max(exact.loss_off, exact.spectrum_off, exact.found.gradient) < 1e-12  # absolute: float64, numbers near 1


def test_cases_are_25():
    found = cases([(0.5, 0.8)])
    assert len(found) == 5
    assert all(one.basin == one.reached and max(one.off, one.drift) < 1e-6 for one in found)  # absolute: the solver's


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("landscape")
    with pytest.MonkeyPatch.context() as patch:
        hold_out_few(patch)
        patch.setattr("case_studies.markov_landscape.measure.STRINGS", 100)
        replace(STUDY, quick=Size(2, 3, 2)).run(out, seeds=2, steps=3, workers=1)
        yield out


@pytest.mark.slow
def test_the_page_says_what_each_interval_is_over(folder):
    assert not unnamed_of_page((folder / "index.html").read_text())


@pytest.mark.slow
def test_results_hold_every_arm(folder):
    results = json.loads((folder / "results.json").read_text())
    assert list(results["arms"]) == sorted(arm.family.name for arm in ARMS)
    assert results["seeds"] == 2
    assert len(results["cases"]) == 25
    assert all(len(arm["final"]) == 2 for arm in results["arms"].values())
    assert len(list((folder / "populations").glob("*.safetensors"))) == len(ARMS)


def test_the_full_size_is_the_papers():
    assert FULL.seeds == 40
    assert FULL.steps == ARMS[0].family.recipe.settings.steps
    assert isinstance(ARMS[0].family.recipe.grammar, BinaryChain)


def test_with_norms_a_minimum_is_one_only_while_their_gains_stay():
    found = points((0.5, 0.8), True, 3, norm="LN")
    assert (found.minima.value, found.held.n, found.held.value) == (0, 3, 1)
    assert (found.moved.n, found.moved.value) == (3, 1)
    assert points((0.5, 0.8), True, 1).held is None


def test_a_move_of_gains_leaves_the_loss_and_opens_a_way_down():
    grammar = BinaryChain(0.5, 0.8, 5)

    def losses(gains, rng):
        """Expected loss over all strings: at the point, and a step along its least direction away."""
        model = unigram(grammar, norm="LN", width=3, spread=0.3, seed=0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "ln" in name:
                    parameter += gains * torch.from_numpy(rng.standard_normal(parameter.shape))
        first = expected_loss(model, grammar)
        values, vectors = np.linalg.eigh(unigram_hessian(model, grammar))
        with torch.no_grad():
            model.embed.W_E[1] += 0.02 * torch.from_numpy(vectors[:-1, 0])
            model.unembed.b_U[1] += 0.02 * float(vectors[-1, 0])
        return first, values[0] / values[-1], expected_loss(model, grammar)

    first, least, after = losses(0.0, np.random.default_rng(0))
    assert abs(least) < 1e-12  # absolute: float64, of the largest
    assert_close(first, grammar.unigram_loss, scale=1)
    assert_close(after, first, scale=1)  # all entries of e alike: exactly constant
    first, least, after = losses(0.3, np.random.default_rng(0))
    assert_close(first, grammar.unigram_loss, scale=1)
    assert least < -1e-4  # absolute: of the largest eigenvalue, far from rounding
    assert after < first


def test_both_starts_lie_on_their_side_at_either_pace():
    found = starts()
    e, w = found["learning"]
    for pace, square in found["boundary"].items():
        flow = CanonicalFlow(*CHAIN, float(pace))
        assert (flow.basin(square**0.5 * 0.999, w), flow.basin(square**0.5 * 1.001, w)) == ("unigram", "global")
        assert flow.basin(e, w) == "global"
        assert flow.basin(*found["stuck"]) == "unigram"


def test_rank_stands_beside_that_before_training():
    family = ARMS[0].family
    population = Population.init(family.recipe.config, [0, 1], family.recipe.grammar)
    rows = [
        {"seed": s, "step": t, "excess": 0.01, "rung/law": 0.6, "rung/unigram": 0.65} for t in (0, 5) for s in (0, 1)
    ]
    trained = {name: p * 2 for name, p in population.params.items()} | {"blocks.0.mlp.W_in": torch.ones(2, 8, 32)}
    given = replace(population, params=trained, history=tuple(rows), snapshots={0: population.params})
    m = measure(ARMS[0], Obtained(family, given, "digest"))
    first = [np.linalg.svd(w.numpy(), compute_uv=False) for w in population.params["blocks.0.mlp.W_in"].double()]
    found = m.rank_one("W_1")
    assert found.value == pytest.approx(1)
    assert found.null["before training"] == pytest.approx(np.mean([v[0] ** 2 / (v**2).sum() for v in first]))
    assert m.rank_one("W_2").value == pytest.approx(m.rank_one("W_2").null["before training"])
