"""The table of what verdicts rest on: every number of the audit is moved, and the page shows the committed run."""

import json
import sys
from pathlib import Path

import pytest

from case_studies.head_claims.moved import own_thresholds

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import sensitivity as s  # benchmarks/sensitivity.py

COMMITTED = Path(s.__file__).with_suffix(".json")


@pytest.mark.parametrize(
    ("name", "value", "factor", "expected"),
    [
        ("SCORE", 0.25, 0.5, 0.125),
        ("SCORE", 0.25, 2, 0.5),
        ("TOP1", 0.75, 0.5, 0.875),
        ("TOP1", 0.75, 2, 0.5),
        ("EVEN", 0.8, 2, 0.6),
        ("MIXED", (0.2, 0.8), 0.5, (0.1, 0.9)),
        ("MIXED", (0.2, 0.8), 2, (0.4, 0.6)),
        ("MIN_ROWS", 100, 0.5, 50),
        ("SHARED_DONOR", 1, 0.5, 1),
        ("EXACT", 1e-5, 0.5, 5e-6),
    ],
)
def test_numbers_are_moved_by_half_and_double(name, value, factor, expected):
    found = s.moved(name, value, factor)
    assert found == pytest.approx(expected)
    assert isinstance(found, type(value))


def test_every_number_is_moved_or_named_as_one_that_makes_no_verdict():
    numbers = own_thresholds()
    moved = {setting.name for setting in s.settings(numbers)} - {""}
    assert moved | set(s.ELSEWHERE) == set(numbers)
    assert not moved & set(s.ELSEWHERE)
    words = [setting.words for setting in s.settings(numbers)]
    assert words[0] == "unchanged"
    assert len(set(words)) == len(words) == 1 + 2 * len(moved)


def test_a_row_counts_what_stays_and_what_becomes_wrong():
    before = {
        "written/a/0": ["supported", "holds", "used", "right"],
        "trained/b/1/x": ["refuted", "fails", "", "right"],
    }
    after = {**before, "written/a/0": ["refuted", "fails", "used", "wrong"]}
    found = s.row(s.Setting("SCORE", 0.5, "SCORE doubled"), 0.25, before, after)
    assert found["written"]["kept"] == 0
    assert found["written"]["outcomes"] == {"wrong": 1}
    assert found["written"]["moved"][0]["claim"] == "a/0"
    assert found["trained"] == {"claims": 1, "kept": 1, "outcomes": {"right": 1}, "moved": []}
    line = s.table([found]).splitlines()[-1]
    assert line == "| SCORE doubled | 0.25 | 0.5 | 0 of 1 | 1 | 0 | 1 of 1 | 0 | 0 | 0 |"


@pytest.mark.skipif(not COMMITTED.exists(), reason="the settings have not been run by these rules yet")
def test_the_page_shows_the_committed_run_of_the_numbers_as_they_are():
    result = json.loads(COMMITTED.read_text(encoding="utf-8"))
    asked = s.settings(own_thresholds())
    told = [(row["words"], row["to"]) for row in result["rows"]]
    assert told == [(one.words, list(one.value) if isinstance(one.value, tuple) else one.value) for one in asked]
    assert s.PAGE.read_text(encoding="utf-8") == s.page(result)


def test_a_page_has_what_was_done_and_one_row_a_setting():
    told = {"claims": 3, "kept": 2, "outcomes": {"right": 3}, "moved": []}
    rows = [
        {"name": n, "words": n or "unchanged", "from": 1.0, "to": 2.0, "written": told, "trained": told}
        for n in ("", "A")
    ]
    made = s.page({"auditor": {"version": "9.8", "digest": "abc"}, "rows": rows})
    assert "The auditor: version 9.8, digest abc." in made
    assert made.startswith("# Which verdicts rest on one number")
    assert "1 settings, 3 claims of the written bench and 3 of the trained one: 66.7 % of the words stay" in made
    assert made.count("| 2 of 3 |") == 4
