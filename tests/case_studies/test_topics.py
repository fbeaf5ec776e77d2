"""The study end to end on two barely trained seeds; single numbers recomputed by hand."""

import json

import numpy as np
import pytest

from case_studies.topics.families import EXACT, GROUPS, STAGES, TABLE, TWO_STAGES
from case_studies.topics.measure import exact_descent, exact_row, value_maps
from case_studies.topics.study import run
from closeness import assert_close
from interp import TopicGrammar, load_checkpoint
from interp.header import read_header
from interp.worlds.topics.theory import TopicTheory
from intervals import INTERVAL, unnamed_of_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("topics")
    run(out, seeds=2, steps=12, workers=1)
    return out


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


@pytest.fixture(scope="module")
def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_results_hold_every_population(results):
    assert set(results["figures"]) == {g.label for g in GROUPS}
    assert set(results["table_2_1"]) == {family.name for family, _ in TABLE}
    assert set(results["stage_2"]) == {f.name for f in STAGES}
    assert set(results["two_stages"]) == {f.name for f in TWO_STAGES}
    assert set(results["exact"]) == {f.name for f in EXACT} | {"gradient descent from zero, float64"}
    for group in results["figures"].values():
        for arm in group.values():
            assert arm["contrast"]["n"] == 2
            assert 0 < arm["p_value"] <= 1


def test_barely_trained_models_are_not_said_to_have_two_stages(folder):
    page = (folder / "index.html").read_text()
    assert f"0 of {len(TWO_STAGES)} settings trained from near zero show two stages." in page


def test_block_means_are_those_of_the_checkpoints(folder, results):
    topic = TopicGrammar().topic_of
    same = np.array([[a == b and a >= 0 and b >= 0 for b in topic] for a in topic])
    by_digest = {read_header(p)["digest"]: p for p in (folder / "populations").glob("*.safetensors")}
    arm = results["figures"]["Fig. 2.5"]["squared loss, Adam"]
    population = load_checkpoint(by_digest[arm["digest"]])
    expected = [float(model.W_V[0, 0].T.detach().numpy()[same].mean()) for model in population]
    assert arm["block_mean"]["value"] == pytest.approx(np.mean(expected), rel=1e-5)


def test_float64_descent_is_the_theorem():
    """Theorem 2.1.2, every entry within 1 %; row 0 absolutely."""
    found = exact_descent(TopicGrammar(law="idealised"))[0]
    target = TopicTheory(10, 10).value_matrix()
    np.testing.assert_allclose(found[1:], target[1:], rtol=1e-6)
    assert_close(found[0], 0, scale=target)


def test_another_optimum_is_at_no_distance_from_the_family_and_far_from_the_closed_form():
    theory, grammar = TopicTheory(10, 10), TopicGrammar(law="idealised")
    row = exact_row("diagonal", None, theory.diagonal_value_matrix()[None], grammar)
    assert_close([row.family.value, row.excess.value], 0, scale=1)
    assert row.largest.value > 0.5


def test_value_maps_are_predicted_by_attended(folder):
    path = next(p for p in (folder / "populations").glob("topic-joint-*.safetensors"))
    population = load_checkpoint(path)
    assert np.array_equal(value_maps(population)[1], population[1].W_V[0, 0].T.detach().double().numpy())


def test_running_again_trains_nothing_and_gives_the_same_bytes(folder):
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*.safetensors")}
    pages = {name: (folder / name).read_bytes() for name in ("index.html", "results.json")}
    run(folder, seeds=2, steps=12, workers=1)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*.safetensors")} == before
    assert {name: (folder / name).read_bytes() for name in pages} == pages
