"""The study end to end on two barely trained seeds; single numbers recomputed by hand."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from case_studies.topics.families import (
    EMBEDDING_ALONE,
    EXACT,
    FAINT,
    GROUPS,
    LONGER,
    PAPER_FAINT,
    STAGE_1,
    STAGES,
    TABLE,
    TRIED,
    TWO_STAGES,
)
from case_studies.topics.measure import exact_descent, exact_row, value_maps
from case_studies.topics.released import TABLE_2_1, TABLE_2_2
from case_studies.topics.study import run
from closeness import assert_close
from interp import TopicGrammar, load_checkpoint
from interp.header import read_header
from interp.worlds.topics.theory import TopicTheory
from intervals import INTERVAL, unnamed_of_page
from sizes import hold_out_few

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("topics")
    with pytest.MonkeyPatch.context() as patch:
        hold_out_few(patch)
        patch.setattr("probes.topics.attention.DOCUMENTS", 60)
        patch.setattr("case_studies.topics.counts.DOCUMENTS", 60)
        for name, count in (("DOCUMENTS", 1000), ("EPOCH", 25), ("HELD_OUT", 100)):
            patch.setattr(f"case_studies.topics.released.{name}", count)
        run(out, seeds=2, steps=12, workers=1)
        yield out


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


# What is computed from no model at all.
THEORY = (
    "No model is trained here",
    "so that even attention is 0.01",
    "In expectation the block mean",
    "At those steps the mean of the other entries",
    "standard deviations of the others",
    "best ratio is 6.26",
    "Infinite documents of two topics",
    "the three printed means of a row leave one",
    "From the thesis's printed means alone",
    "The released code's own training",
)
UNTRAINED = {"loss-landscapes", "settings"}
SAYS_N = re.compile(r"n=\d+")


def without_n(page):
    """What states something of a population and not of how many: sentences with numbers, tables, captions."""
    page = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    parts = [page[page.index('<dd class="answer">') : page.index("<dt>How sure")]]
    sections = re.findall(r'<section id="(.*?)">(.*?)</section>', page, re.DOTALL)
    parts += [text for name, text in sections if name not in UNTRAINED]
    parts.append(page[page.index('id="lead--figure"') : page.index("<section")])
    said = []
    for part in parts:
        said += [
            t + n for t, n in re.findall(r'<table>(.*?)</table></div>(?:<p class="note">(.*?)</p>)?', part, re.DOTALL)
        ]
        rest = re.sub(r'<table>.*?</table></div>(<p class="note">.*?</p>)?', "", part, flags=re.DOTALL)
        texts = re.findall(r"<(?:li|p|figcaption)[^>]*>(.*?)</(?:li|p|figcaption)>", rest, re.DOTALL)
        said += [text for text in texts if re.search(r"\d\.\d", text) or "seed" in text]
    assert len(said) > 20
    told = [html.unescape(re.sub(r"<[^>]*>", " ", text)) for text in said]
    return [text for text in told if not SAYS_N.search(text) and not any(theory in text for theory in THEORY)]


def test_everything_said_of_a_population_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert without_n(page) == []
    assert without_n(page.replace("n=2 seeds", "seeds"))


def test_every_table_of_the_readme_says_its_n():
    text = (Path(__file__).parents[2] / "case_studies" / "topics" / "README.md").read_text()
    sections = re.split(r"\n## ", text)
    tables = [section for section in sections if "\n|" in section]
    assert len(tables) > 4
    assert not [section[:60] for section in tables if not SAYS_N.search(section)]


@pytest.fixture(scope="module")
def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_results_hold_every_population(results):
    assert set(results["figures"]) == {g.label for g in (*GROUPS, *TRIED)}
    assert set(results["table_2_1_released"]) == {s.name for s in TABLE_2_1}
    assert set(results["table_2_2"]) == {s.name for s in TABLE_2_2}
    for found in results["table_2_1_released"].values():
        assert found["kept"] == found["runs"] == found["released_lookup_whole"]["ratio"]["n"] == 2
    for found in results["table_2_2"].values():
        assert (found["kept"], found["runs"], found["structure"]) == (0, 2, None)  # of so few steps, none is diagonal
    assert set(results["embedding_alone"]) == {f.name for f in (*EMBEDDING_ALONE, *(alone for alone, _ in LONGER))}
    assert all(found["excess"]["n"] == 2 for found in results["embedding_alone"].values())
    assert set(results["left_over"]) == {
        f"{k}_{length}" for k in ("right_lookup", "released_lookup") for length in ("rescaled", "whole")
    }
    assert results["turning"] == {}  # no run has two stages
    assert set(results["table_2_1"]) == {family.name for family, _ in TABLE}
    assert set(results["stage_2"]) == {f.name for f in STAGES}
    assert set(results["two_stages"]) == {f.name for f in (*TWO_STAGES, *STAGE_1)}
    assert set(results["faint"]["trained"]) == {f.name for f in FAINT}
    for found in results["faint"]["trained"].values():
        assert set(found["passes_at_step"]) == set(PAPER_FAINT)
        assert len(found["block_mean"]) > 2
    for found in results["table_2_1"].values():
        assert found["ratio"]["n"] == found["released_lookup"]["ratio"]["n"] == 2
    assert results["stage_2"]["W_V at the block optimum"]["optima"]["attended"] < 6
    assert set(results["exact"]) == {f.name for f in EXACT} | {"gradient descent from zero, float64"}
    for group in results["figures"].values():
        for arm in group.values():
            assert arm["contrast"]["n"] == 2
            assert 0 < arm["p_value"] <= 1


def test_barely_trained_models_are_not_said_to_have_two_stages(folder):
    page = (folder / "index.html").read_text()
    assert (
        f"0 of {len((*TWO_STAGES, *STAGE_1))} settings trained from near zero (n=2 runs each) show two stages." in page
    )


def test_block_means_are_those_of_the_checkpoints(folder, results):
    topic = TopicGrammar().topic_of
    same = np.array([[a == b and a >= 0 and b >= 0 for b in topic] for a in topic])
    files = [p for p in (folder / "populations").glob("*.safetensors") if not p.name.startswith("released-")]
    by_digest = {read_header(p)["digest"]: p for p in files}  # the released code's have a header of their own
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
