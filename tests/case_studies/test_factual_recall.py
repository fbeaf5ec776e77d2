"""The study of factual recall: stages, maps, heads and slopes on models and numbers that are known."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from case_studies.factual_recall.arms import ARMS, KNOBS, PRIMARY
from case_studies.factual_recall.capacity import Sizes, base_accuracy
from case_studies.factual_recall.heads import Heads, heads, same_fact
from case_studies.factual_recall.maps import (
    correlation,
    hebbian,
    indicators,
    key_weights,
    maps,
    memory_capacity,
    recalled,
    token_logits,
)
from case_studies.factual_recall.stages import Stages, by_alpha, partial_knowledge, stages, straight_path
from case_studies.factual_recall.study import run
from closeness import assert_close
from interp import Population, train_population
from interp.presets import make_recipe
from interp.stats import clopper_pearson
from interp.worlds.facts import FactsGrammar
from interp.worlds.facts.constructed import lookup
from intervals import unnamed_of_page
from sizes import hold_out_few

GRAMMAR = FactsGrammar()


def population_of(model):
    """The constructed model twice, as a population."""
    params = {name: torch.stack([p.detach()] * 2) for name, p in model.named_parameters()}
    return replace(Population.init(model.config, [0, 1], model.grammar), params=params)


# -- what is trained ----------------------------------------------------------------------------------------


def test_arms_and_sizes_are_different_trainings():
    families = [*ARMS, *(family for knob in KNOBS for family in knob.families)]
    assert len({json.dumps(f.recipe.to_dict(), sort_keys=True) for f in families}) == len(families) == 23
    assert set(PRIMARY) <= {f.name for f in ARMS}
    assert sum(knob.primary for knob in KNOBS) == 2
    for knob in KNOBS:
        for value, family in zip(knob.values, knob.families, strict=True):
            config = family.recipe.config
            assert getattr(config, knob.varied) == value
            assert knob.scale(value) == (value if knob.varied != "n_heads" else config.n_heads * config.d_head)
            assert family.in_steps(3).recipe.config == config


def test_bounds_are_those_of_the_table():
    grammar = KNOBS[0].families[0].recipe.grammar
    s, r, a = grammar.subjects, grammar.relations, grammar.answers
    bounds = [s * r / KNOBS[0].fixed["d_model"], s * r / KNOBS[1].fixed["d_mlp"], s + r, r + a, s]
    assert [knob.bound for knob in KNOBS] == bounds


# -- stages -------------------------------------------------------------------------------------------------


def made(nearest, path=1.0):
    """Stages with these phases [seed, evaluation], five steps apart."""
    names = ("uniform", "subject", "relation", "fact")
    phases = np.array([[names.index({"u": "uniform", "s": "subject", "r": "relation", "f": "fact"}[x]) for x in row]
                       for row in nearest])  # fmt: skip
    far = {name: np.where(phases == i, 0.25, 2.0) for i, name in enumerate(names)}
    right = np.where(phases == 3, 1.0, 0.3)
    seeds = tuple(range(len(phases)))
    return Stages(5 * np.arange(phases.shape[1]), far, right, right, path, seeds, clopper_pearson(0, len(seeds)), 0.25)


def test_how_long_a_stage_lasts():
    found = made(["uurrf", "uuuff", "urrrr", "usfff"])
    assert found.lasts("relation").tolist() == [10, 0, 20, 0]
    assert found.begins == [10, None, 5, None]
    assert found.share().value == 0.5
    assert found.length().value == 7.5
    assert found.length("subject").value == 1.25
    assert found.learned().value == 0.75
    assert found.at.tolist() == [2, 0, 1, 0]
    assert found.closest()["less_path"].value == pytest.approx((0.25 + 2 + 0.25 + 2) / 4 - 1)


def test_the_straight_way_is_the_least_over_mixtures():
    told = GRAMMAR.chances
    least = np.inf
    for t in np.linspace(0, 0.999, 400):
        total = 0.0
        for s in range(GRAMMAR.subjects):
            for r in range(GRAMMAR.relations):
                q = np.full(GRAMMAR.outputs, (1 - t) / GRAMMAR.outputs)
                q[GRAMMAR.table[s, r]] += t
                p = told[r]
                total += (p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()
        least = min(least, total / (GRAMMAR.subjects * GRAMMAR.relations))
    assert straight_path(GRAMMAR) == pytest.approx(least, rel=1e-4)


def test_what_is_known_lies_beyond_what_the_relation_alone_gives():
    far = {name: np.array([[2.0, 1.0, 3.0]] * 2) for name in ("uniform", "subject", "relation", "fact")}
    right = np.array([[0.0, 0.25, 1.0], [0.0, 0.625, 1.0]])  # at their closest: no fact beyond guesses, and half
    one = Stages(np.arange(3), far, right, right, 0.5, (0, 1), clopper_pearson(0, 2), 0.25)
    assert one.closest()["known"].value == pytest.approx(0.25)
    assert (one.closest()["right"].value, one.closest()["right"].null) == (pytest.approx(0.4375), 0.25)


def test_who_knows_a_part_alone():
    grammar = FactsGrammar()
    found = partial_knowledge(grammar)
    losses, right = {"subject": [], "relation": []}, {"subject": [], "relation": []}
    for s in range(grammar.subjects):
        for r in range(grammar.relations):
            answers = {"subject": list(grammar.table[s]), "relation": list(grammar.table[:, r])}
            for name, told in answers.items():
                losses[name].append(-np.log(told.count(grammar.table[s, r]) / len(told)))
                right[name].append(max(map(told.count, told)) / len(told))
    for name in ("subject", "relation"):
        assert found[name]["loss"] == pytest.approx(np.mean(losses[name]))
        assert found[name]["right"] == pytest.approx(np.mean(right[name]))
    assert found["subject"]["loss"] < found["relation"]["loss"]  # and yet the relation alone gives more right answers
    assert found["subject"]["right"] < found["relation"]["right"]


def test_slope_over_alpha():
    one, two, three = made(["rfff"] * 8), made(["rrff"] * 8), made(["rrrf"] * 8)
    assert by_alpha([(0.1, one), (0.001, two), (1e-5, three)]).value == pytest.approx(2.5)


def test_stages_are_read_off_the_history():
    recipe = make_recipe("facts", {"eval_every": 1}, steps=2)
    found = stages(train_population(recipe, 2, workers=1))
    assert found.steps.tolist() == [0, 1, 2]
    assert found.far["fact"].shape == (2, 3)
    assert found.far["uniform"][0, 0] < 1.0


# -- maps ---------------------------------------------------------------------------------------------------


def test_the_constructed_maps_are_the_indicators():
    model = lookup(GRAMMAR)
    added = token_logits(model)[: GRAMMAR.first_noise]
    assert correlation(added, indicators(GRAMMAR)) == pytest.approx(1.0, abs=1e-6)  # absolute: float32 weights
    found = maps(population_of(model))
    for value in (*found.relation, *found.subject, *found.constructed, *found.recalled):
        assert value == pytest.approx(1.0, abs=1e-5)  # absolute: float32 weights
    assert (found.noise < 1e-6).all()  # absolute: weights of e^-40 beside one
    assert found.null < 0.5
    assert found.hebbian[0] < 0.999


def test_direct_paths_of_a_linear_model_are_its_logits():
    """They add up to the logits: there is nothing else in it. Weights of tokens differ, in sign too."""
    recipe = make_recipe("facts-linear", {"start": "drawn", "init_std": 0.5})
    model = Population.init(recipe.config, [3], recipe.grammar)[0]
    added = token_logits(model)
    tokens = GRAMMAR.draw(np.random.default_rng(0), 20)
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens))[:, -1].double().numpy()
    logits -= logits.mean(1, keepdims=True)
    assert_close(added[tokens].sum(1), logits, dtype=torch.float32, ulps=64, scale=np.abs(logits).max())


def test_hebbian_sums_by_hand():
    w = hebbian(GRAMMAR)
    for r in range(GRAMMAR.relations):
        for a in range(GRAMMAR.outputs):
            assert w[GRAMMAR.subjects + r, a] == (GRAMMAR.table[:, r] == a).sum()
    assert (w[0].nonzero()[0] == np.sort(GRAMMAR.table[0])).all()


def test_indicators_recall_every_fact_and_relations_alone_do_not():
    assert recalled(GRAMMAR, indicators(GRAMMAR)) == 1.0
    assert recalled(GRAMMAR, hebbian(GRAMMAR)) < 1.0
    alone = indicators(GRAMMAR)
    alone[: GRAMMAR.subjects] = 0
    assert recalled(GRAMMAR, alone) == pytest.approx(1 / GRAMMAR.answers)
    assert base_accuracy(GRAMMAR) == pytest.approx(
        np.mean([max(np.bincount(GRAMMAR.table[:, r])) / GRAMMAR.subjects for r in range(GRAMMAR.relations)])
    )


def test_the_memory_holds_more_in_more_dimensions():
    few, many = (np.mean([memory_capacity(width, draw) for draw in range(4)]) for width in (16, 32))
    assert 2 < few < 15
    assert 15 < many < 45


def test_key_weights_of_the_slides_start_are_alike():
    recipe = make_recipe("facts-linear", {"alpha": 0.2}, steps=1)
    found = key_weights(train_population(recipe, 1, workers=1))
    for value in found.values():
        assert_close(value, [0.2], scale=1, ulps=1e12)


# -- heads --------------------------------------------------------------------------------------------------


def test_heads_that_are_known_read_what_they_read():
    found = heads(population_of(lookup(GRAMMAR)))
    assert_close(found.subject[0], [1.0, 0.0], dtype=torch.float32, ulps=64, scale=1)
    # Of the lead of 60 over 30 or 0 the relation's head has as much as the relation moves.
    assert found.relation[0, 1] == pytest.approx(1.0, rel=0.05)
    assert abs(found.relation[0, 0]) < 1e-5  # absolute: beside 1
    assert np.abs(found.same).max() < 1e-5  # absolute: beside 1
    assert found.groups() == {"subject alone": 2, "relation alone": 2, "both": 0, "neither": 0}
    assert found.apart().value == pytest.approx(1.0, abs=1e-4)  # absolute: float32 weights
    assert found.paired_at_random() == pytest.approx(0.5, abs=0.05)  # absolute: effects of 1 and about 1
    assert found.looks("subject").value == pytest.approx(1.0)
    assert found.looks("relation").value == pytest.approx(1.0)


def test_the_same_fact_stands_elsewhere():
    tokens = GRAMMAR.draw(np.random.default_rng(0), 100)
    other = same_fact(GRAMMAR, tokens)
    for one, two in zip(GRAMMAR.facts(tokens), GRAMMAR.facts(other), strict=True):
        assert (one == two).all()
    assert (tokens != other).any(1).all()


def test_groups_count_heads_of_all_seeds():
    zero = np.zeros((2, 2))
    found = Heads(np.array([[0.5, 0.0], [0.2, 0.05]]), np.array([[0.0, 0.9], [0.2, 0.05]]), zero, zero, zero)
    assert found.groups() == {"subject alone": 1, "relation alone": 1, "both": 1, "neither": 1}


# -- sizes --------------------------------------------------------------------------------------------------


def test_facts_in_proportion_to_size_have_slope_one():
    right = np.outer([0.1, 0.4, 0.8], np.linspace(0.8, 1.2, 8))
    found = Sizes(KNOBS[0], np.array([2, 8, 16]), right, [], 0.125)
    assert_close(found.slopes(), np.ones(8))
    assert found.slope().null == 0.0
    assert found.level == 0.95
    assert found.above_guess.tolist() == [bool(one.mean() > 0.125) for one in right]
    assert Sizes(KNOBS[1], np.array([2, 8, 16]), right, [], 0.125).level == pytest.approx(1 - 0.05 / 3)


def test_guesses_are_taken_off_where_sizes_are_above_them():
    known = np.outer([0.0, 0.1, 0.4], np.linspace(0.9, 1.1, 8))  # of facts that are known, in proportion to 2, 4, 16
    right = 0.2 + 0.8 * known
    right[0] -= 0.01
    found = Sizes(KNOBS[0], np.array([2, 4, 16]), right, [], 0.2)
    assert found.above_guess.tolist() == [False, True, True]
    assert_close(found.beyond_guess().value, 1.0, scale=1)
    assert Sizes(KNOBS[0], np.array([2, 4, 16]), right, [], 0.3).beyond_guess().value is None


def test_seeds_that_diverged_are_left_out_of_stages():
    population = train_population("facts", seeds=2, steps=2, workers=1)
    gone = replace(population, provenance={**population.provenance, "diverged": {"1": 1}})
    found = stages(gone)
    assert (found.seeds, found.diverged.value, len(found.right)) == ((0,), 0.5, 1)
    assert len(heads(gone).subject) == len(maps(gone).relation) == 1


# -- the whole ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_study_runs_end_to_end(tmp_path, monkeypatch):
    hold_out_few(monkeypatch)
    monkeypatch.setattr("case_studies.factual_recall.maps.WIDTHS", (16, 32))
    run(tmp_path, seeds=4, steps=6, workers=1)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seeds"] == 4
    assert len(results["arms"]) == len(ARMS)
    assert len(results["capacity"]) == len(KNOBS)
    assert not unnamed_of_page((tmp_path / "index.html").read_text())
    assert len(list((tmp_path / "populations").glob("*.safetensors"))) == 23
