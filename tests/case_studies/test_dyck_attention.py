"""The study end to end on two barely trained seeds: every number of the page comes from the models."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from case_studies.dyck_attention import measure, study
from case_studies.dyck_attention.families import MAIN, OTHER_PREFIXES, OTHERS, PREFIXES, TABLE
from case_studies.dyck_attention.measure import measure_cell
from case_studies.dyck_attention.sections import ON_PREFIXES, table_parts
from case_studies.dyck_attention.study import run
from case_studies.page import Table
from case_studies.study import Obtained
from closeness import assert_close, rounding
from interp import load_checkpoint, train_population
from interp.patterns import attention_patterns
from interp.worlds.dyck.evaluate import closing_rules
from interp.worlds.dyck.task import in_distribution
from intervals import INTERVAL, unnamed_of_page
from sizes import hold_out_few

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        hold_out_few(patch)
        for module in (study, measure):
            patch.setattr(module, "FINAL_STRINGS", 40)
        patch.setattr(measure, "EDITED_STRINGS", 200)
        run(out, seeds=2, steps=3, workers=1)
        yield out


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    exact = {"[0.00, 0.84]", "[0.01, 0.99]", "[0.16, 1.00]"}  # of a count of two models
    assert set(INTERVAL.findall(page)) <= exact  # of two seeds none else covers, and the page says so
    assert "2 seeds are too few for an interval that covers" in page
    assert not unnamed_of_page(page)


def test_results_hold_every_family_with_intervals(folder):
    results = json.loads((folder / "results.json").read_text())
    assert list(results["families"]) == sorted(f.name for f in (*MAIN, *OTHERS, *PREFIXES, *OTHER_PREFIXES))
    assert set(results["arms"]) == {f.name for f in (*MAIN, *PREFIXES)}  # those that the paper gives a number for
    for family in results["families"].values():
        for estimate in [*family["accuracy"].values(), *family["mass_by_distance"].values()]:
            assert estimate["n"] == 2
            assert (estimate["low"], estimate["high"]) == (None, None) or estimate["low"] == estimate["value"]
        assert family["diverged"] == {}


def test_variation_is_that_of_the_checkpoints(folder):
    """Recomputed by hand from the saved files: |A1 - A2|^2 of the only pair."""
    results = json.loads((folder / "results.json").read_text())
    by_digest = {family["digest"]: family for family in results["families"].values()}
    from interp.header import read_header

    paths = {read_header(path)["digest"]: path for path in (folder / "populations").glob("*.safetensors")}
    assert set(by_digest) <= set(paths)
    for digest, family in by_digest.items():
        population = load_checkpoint(paths[digest])
        tokens = population[0].to_tokens(results["sentence"])
        pair = [attention_patterns(model, tokens) for model in population]
        for (a, b), e in zip(zip(*pair, strict=True), family["variation"], strict=True):
            # (a - b)^2 is known to 2 |a - b| roundings of the weights a and b, of which |a - b| is one at least
            moved = [np.abs(a - b).sum(), rounding(dtype=torch.float32)]
            assert_close(e["value"], np.square(a - b).sum(), scale=moved, dtype=torch.float32)


def test_untrained_models_are_not_called_accurate(folder):
    page = (folder / "index.html").read_text()
    assert "Not every seed reaches 97 %" in page
    assert "Every seed of the main families closes" not in page


def test_running_again_trains_nothing_and_gives_the_same_bytes(folder):
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*.safetensors")}
    pages = {name: (folder / name).read_bytes() for name in ("index.html", "results.json")}
    run(folder, seeds=2, steps=3, workers=1)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*.safetensors")} == before
    assert {name: (folder / name).read_bytes() for name in pages} == pages


def test_cost_of_even_attention_equals_an_edit_of_one_model_at_a_time(folder):
    """Each model by itself, its last pattern replaced by hand; the study edits all seeds in one pass."""
    results = json.loads((folder / "results.json").read_text())
    recipe = MAIN[0].recipe
    data = in_distribution(recipe, measure.EDITED_STRINGS)
    path = replace(MAIN[0], steps=3).file(folder / "populations", 2)
    target, weight = torch.from_numpy(data.targets), np.broadcast_to(data.weight[:, None], data.targets.shape)

    def even(pattern, hook):
        return torch.tril(torch.ones_like(pattern)) / torch.arange(1, pattern.shape[-1] + 1)[:, None]

    lost = []
    for model in load_checkpoint(path):
        tokens = torch.from_numpy(data.inputs)
        visible = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()[None, None]
        plain = model(tokens, visible=visible)
        edited = model.run_with_hooks(tokens, visible=visible, fwd_hooks=[("blocks.1.attn.hook_pattern", even)])
        right = [closing_rules(x.detach(), target, 2)["argmax_closers"].numpy()[data.closer] for x in (plain, edited)]
        lost.append(np.average(right[0].astype(float) - right[1], weights=weight[data.closer]))
    found = results["families"][MAIN[0].name]["lost_with_even_attention"]["argmax_closers"]
    assert_close(found["value"], np.mean(lost), scale=1, dtype=torch.float32)
    assert found["n"] == 2


def test_table_1_is_of_the_same_sentences_in_every_row(folder):
    """One row recomputed by hand: mean over 40 sentences of the only pair's distance, and its spread."""
    results = json.loads((folder / "results.json").read_text())
    from case_studies.dyck_attention.measure import table_sentences
    from interp.header import read_header

    assert set(results["table_1"]) == {cell.name for cell in TABLE[:2]}
    paths = {read_header(path)["digest"]: path for path in (folder / "populations").glob("*.safetensors")}
    row = results["table_1"][TABLE[1].name]
    population = load_checkpoint(paths[row["digest"]])
    sentences = table_sentences()
    assert len(sentences) == 40
    assert {len(s) for s in sentences} == {19}
    each, moved = [], 0.0
    for text in sentences:
        a, b = (attention_patterns(model, model.to_tokens(text)) for model in population)
        each.append([float(np.square(x - y).sum()) for x, y in zip(a, b, strict=True)])
        moved = max(moved, *(float(np.abs(x - y).sum()) for x, y in zip(a, b, strict=True)))
    mean, spread = np.mean(each, axis=0), np.std(each, axis=0, ddof=1)
    # (x - y)^2 is known to 2 |x - y| roundings of the weights x and y
    assert_close([e["value"] for e in row["variation"]], mean, scale=moved, dtype=torch.float32)
    assert_close(row["sd_over_inputs"], spread, scale=moved, dtype=torch.float32)


def test_counting_start_by_hand(folder):
    """Column of START dropped: only the other cells' squares are left."""
    results = json.loads((folder / "results.json").read_text())
    path = replace(MAIN[0], steps=3).file(folder / "populations", 2)
    population = load_checkpoint(path)
    a, b = (attention_patterns(m, m.to_tokens(results["sentence"]))[-1][0, 0] for m in population)
    found = results["counting_start"][MAIN[0].name]
    moved = np.abs(a - b).sum()
    assert_close(found["counted"]["value"], np.square(a - b).sum(), scale=moved, dtype=torch.float32)
    assert_close(found["column dropped"]["value"], np.square(a - b)[1:, 1:].sum(), scale=moved, dtype=torch.float32)


def test_the_constructed_uniform_solver_is_exact(folder):
    uniform = json.loads((folder / "results.json").read_text())["constructed_uniform"]
    assert uniform["mass"] == uniform["long_mass_nontrivial"] == 1.0


@pytest.fixture(scope="module")
def first_cell():
    """One row of Table 1 in each of the three ways, hardly trained."""
    cell = TABLE[0]
    return [
        measure_cell(cell, Obtained(family, train_population(family.in_steps(2).recipe, 2, workers=1), "d"))
        for family in (cell.family, cell.released, cell.prefixes)
    ]


@pytest.mark.slow
def test_table_1_stands_beside_the_ways_that_were_trained_and_no_others(first_cell):
    ours, released, prefixes = ([row] for row in first_cell)
    for ways, last in (
        ((), []),
        ((released,), ["released code"]),
        ((released, prefixes), ["released code", ON_PREFIXES]),
    ):
        tables = [part for part in table_parts(ours, *ways) if isinstance(part, Table)]
        assert list(tables[0].head[6:]) == last
        assert all(len(row) == len(tables[0].head) for row in tables[0].rows)
        assert [str(row[0]).split(",")[0] for row in tables[1].rows] == ["eq. 6", *["released code"] * len(last)]


def test_table_1_on_prefixes_differs_in_the_strings_and_their_epochs_alone():
    for cell in TABLE:
        whole, prefixes = cell.released.recipe, cell.prefixes.recipe
        assert prefixes.settings.data == "prefix"
        changed = {name: getattr(prefixes.settings, name) for name in ("steps", "hold", "eval_every", "data")}
        assert prefixes.settings == replace(whole.settings, **changed)
        assert prefixes.config == whole.config
        assert whole.settings.steps / whole.settings.hold == prefixes.settings.steps / prefixes.settings.hold == 40
