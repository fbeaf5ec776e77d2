"""The study end to end on barely trained targets and few candidates; its tables against numbers taken again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from case_studies.lottery_ticket import measure, report, study, words
from case_studies.lottery_ticket.measure import Size, widest_gap
from closeness import assert_close
from interp import SandboxTransformer, load_checkpoint
from interp.stats import Estimate
from intervals import INTERVAL, unnamed_of_page
from probes.lottery import foreign_entries

pytestmark = pytest.mark.slow

SMALL = Size((1,), (2,), (8, 10), 2, 100, ("attn.W_Q",), strings=120)


def run(out):
    replace(study.STUDY, quick=SMALL).run(out, seeds=1, steps=3, workers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "N", 10)
    patch.setattr(measure, "MORE", 12)
    patch.setattr(measure, "SUMS", (8, 10))
    patch.setattr("probes.lottery.measures.CONTROL_STRINGS", 16)
    patch.setattr("probes.lottery.measures.FITTED_STRINGS", 16)
    for module in (words, report):
        patch.setattr(module, "N", 10)
    out = tmp_path_factory.mktemp("lottery")
    run(out)
    yield out
    patch.undo()


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


@pytest.fixture(scope="module")
def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_every_target_has_its_errors_and_controls(results):
    families = [t["family"] for t in results["targets"]]
    assert families == ["trained, D = 2, m = 8", "uniform solver, D = 2", "stack solver, D = 2"]
    for target in results["targets"]:
        assert target["candidates"] == 10
        assert set(target["epsilon"]) == {"random", "small", "strings"}
        assert len(target["controls"]) == 4
        assert {"value", "low", "high", "n", "over", "null"} <= set(target["accuracy_gap"])
    for solver in results["targets"][1:]:
        assert solver["accuracy"]["target"]["argmax"] == 1


def test_the_curve_has_every_network_and_a_slope(results):
    curve = results["curve"]
    assert [[level["candidates"] for level in row] for row in curve["levels"]] == [[8, 10], [8, 10]]
    assert set(curve["slopes"]) == {"entry, median", "entry, largest", "end to end"}
    first = [row[i]["entry_median"] for i in (0, 1) for row in curve["levels"][:1]]
    by_hand = np.log10(first[1] / first[0]) / 2
    second = [curve["levels"][1][i]["entry_median"] for i in (0, 1)]
    other = np.log10(second[1] / second[0]) / 2
    assert curve["slopes"]["entry, median"]["value"] == pytest.approx((by_hand + other) / 2)
    expected = [curve["levels"][0][i]["theory"] for i in (0, 1)]
    assert curve["expected"] == pytest.approx(np.log10(expected[1] / expected[0]) / 2)
    assert {slope["null"]["theory"] for slope in curve["slopes"].values()} == {curve["expected"]}
    assert -np.log10(2) < curve["expected"] < -0.2  # a sum of more products spreads wider: less than a factor of 2


def test_every_target_is_pruned_again_with_more_candidates(results):
    assert [level["candidates"] for level in results["more"]] == [12] * len(results["targets"])
    for target, more in zip(results["targets"], results["more"], strict=True):
        assert set(more["epsilon"]) == set(target["epsilon"])
        assert more["entry_median"] < target["levels"][-1]["entry_median"]


def test_the_saved_ticket_is_masks_on_a_random_network(folder, results):
    model = load_checkpoint(folder / "uniform-ticket.safetensors")
    assert isinstance(model, SandboxTransformer)
    assert foreign_entries(model) == results["decoy"]["foreign_entries"] == 0
    blocks = sum(p.numel() for name, p in model.named_parameters() if name.startswith("blocks."))
    assert results["decoy"]["entries"] == blocks
    assert results["decoy"]["same_output"] is True
    stack = [layer["value"] for layer in results["decoy"]["stack"]]
    assert stack[measure.DECOY] > 0.8
    assert_close([stack[at] for at in measure.BETWEEN], 0, scale=1, dtype=torch.float32)
    with torch.no_grad():
        assert torch.isfinite(model("([])")).all()


def test_matrices_are_shared_between_functions(results):
    assert len(results["shared"]) == 2
    for pair in results["shared"]:
        assert pair["identical"] is True
        assert pair["matrix"] == "blocks.0.attn.W_Q"
    assert results["shared"][1]["accuracy"]["pruned"] == [1, 0]


def test_sums_grow_finer(results):
    first, second = results["sums"]
    assert (first["n"], second["n"]) == (8, 10)
    assert second["median"] < first["median"]
    assert second["missed"]["n"] == 100


def test_the_widest_gap_is_shown():
    class Fake:
        def __init__(self, *ends):
            self.result = type("R", (), {"accuracy_gap": Estimate(*ends, 50, "inputs")})

    gap = widest_gap([Fake(0.0, -0.01, 0.01), Fake(-0.02, -0.03, -0.01), Fake(0.005, 0.0, 0.02)])
    assert (gap.value, gap.low, gap.high) == (-0.02, -0.03, 0.02)


def test_the_page_says_what_was_measured(folder, results):
    page = (folder / "index.html").read_text()
    worst = max(t["relative_error_max"]["value"] for t in results["targets"])
    assert f"largest relative error of {worst:.1e}" in page
    assert "2 of 2 pairs of functions share the chosen matrix bit for bit" in page
    assert "interp report lottery-ticket --quick" in page


def test_running_again_gives_the_same_bytes(folder):
    pages = {
        name: (folder / name).read_bytes() for name in ("index.html", "results.json", "uniform-ticket.safetensors")
    }
    run(folder)
    assert {name: (folder / name).read_bytes() for name in pages} == pages


def test_committed_results_meet_the_numbers_asked_for():
    path = study.__file__.replace("study.py", "results.json")
    with open(path, encoding="utf-8") as file:
        committed = json.load(file)
    assert len(committed["targets"]) > 8
    for target in committed["targets"]:
        assert target["relative_error_max"]["value"] < 1e-2
        for end in ("value", "low", "high"):
            assert abs(target["accuracy_gap"][end]) < 0.01  # absolute: one closing bracket in a hundred
        again, copied = target["reference"]["refitted"], target["reference"]["accuracy"]["argmax_closers"]
        assert abs(again["value"] - copied["value"]) <= 0.01  # absolute: one closing bracket in a hundred
        for name, control in target["controls"].items():
            assert target["accuracy_gap"]["null"][name]["n"] == control["gap"]["n"] == again["n"]
    least = [
        min(t["accuracy"]["target"][rule] for rule in ("argmax", "argmax_closers", "mass"))
        for t in committed["targets"]
    ]
    assert min(least) >= 0.97
    assert max(error for level in committed["more"] for error in level["epsilon"].values()) < 1e-2
    assert all(pair["identical"] for pair in committed["shared"])
