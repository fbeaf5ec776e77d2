"""The balance study end to end on barely trained models."""

import json

import numpy as np
import pytest

from case_studies.dyck_balance import measure, study
from case_studies.dyck_balance.measure import SHOWN
from case_studies.dyck_balance.report import _moves
from interp import load_checkpoint
from interp.header import read_header
from interp.stats import Estimate
from intervals import INTERVAL, unnamed_of_page
from probes.balance import analyze_balance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "LONG_PREFIXES", 3)
    out = tmp_path_factory.mktemp("balance")
    study.run(out, seeds=4, steps=3, workers=1)
    patch.undo()
    return out


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


def test_numbers_are_those_of_the_checkpoints(folder):
    results = json.loads((folder / "results.json").read_text())
    by_digest = {arm["digest"]: arm for arm in results["arms"].values()}
    checked = 0
    for path in (folder / "populations").glob("*.safetensors"):
        arm = by_digest.get(read_header(path)["digest"])
        if arm is not None:
            population = load_checkpoint(path)
            expected = [analyze_balance(m, num_inputs=2, length=4, untrained=False).beta.value for m in population]
            np.testing.assert_allclose(arm["per_seed"]["beta"], expected, rtol=1e-9)
            checked += 1
    assert checked == 4


def test_differences_are_paired_over_seeds(folder):
    results = json.loads((folder / "results.json").read_text())
    old, new = (results["arms"][f"{name}, complete"]["per_seed"] for name in ("standard", "contrastive"))
    for key in ("beta", SHOWN):
        found = results["contrastive_minus_standard"]["complete"][key]
        assert found["value"] == pytest.approx(np.mean(np.subtract(new[key], old[key])))
        assert found["n"] == 4


@pytest.mark.parametrize(
    ("interval", "word"), [((-2, -1), "lowers"), ((1, 2), "raises"), ((-1, 1), "does not measurably move")]
)
def test_the_words_follow_the_interval(interval, word):
    assert _moves(Estimate(sum(interval) / 2, *interval, 40, "seeds")) == word
