"""The naive rule beside the audit: each of its bounds from both sides, what is counted, and what the page tells."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import interp
from closeness import assert_close
from interp.errors import RequestError
from interp.stats import clopper_pearson
from probes.audit.bench.trained import tasks as t
from probes.audit.bench.trained.beside import (
    RULES,
    both_halves,
    check_same_claims,
    measured,
    table,
    told_by,
    wrong_verdict,
)
from probes.audit.bench.trained.cases import NO_LABEL
from probes.audit.bench.trained.errors import Counted, grouped, models_to_json, row
from probes.audit.bench.trained.families import HEAD, SPARE
from probes.audit.bench.trained.naive import LOWERS, SCORE, TOP, Means, looks_of, lowered, means_of
from probes.claims import BUILT_IN, Claim, offset

ROOT = Path(interp.__file__).parents[1]
PREVIOUS = BUILT_IN["previous"]
USES = Claim([HEAD], PREVIOUS, uses="task")
BELOW = 1e-9


# -- the rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "by", "asks", "words"),
    [
        (Means(SCORE, 0, LOWERS), "score", True, ("holds", "used", "supported")),
        (Means(SCORE, 0, LOWERS - BELOW), "score", True, ("holds", "unused", "misleading")),
        (Means(SCORE, 0, LOWERS - BELOW), "score", False, ("holds", "unused", "supported")),
        (Means(SCORE - BELOW, 1, 1), "score", True, ("fails", "not asked", "refuted")),
        (Means(0, TOP, LOWERS), "top", True, ("holds", "used", "supported")),
        (Means(0, TOP, LOWERS - BELOW), "top", True, ("holds", "unused", "misleading")),
        (Means(1, TOP - BELOW, 1), "top", False, ("fails", "not asked", "refuted")),
    ],
)
def test_each_bound_of_the_rule(means, by, asks, words):
    assert means.words(by, asks) == words


def test_the_bounds_are_those_that_were_fixed_before_it_was_run():
    assert (SCORE, TOP, LOWERS) == (0.25, 0.5, 0.10)


def test_a_mean_weight_is_measured_beyond_chance_where_the_claim_applies():
    keys = np.eye(3, k=-1, dtype=bool)[None].repeat(2, 0)
    weights = np.array([[[1, 0, 0], [0.7, 0.3, 0], [0.1, 0.4, 0.5]], [[1, 0, 0], [0.5, 0.5, 0], [0, 0.8, 0.2]]])
    rows = np.array([[True, True, True], [True, False, True]])  # row 0 has no key
    score, top = looks_of(weights, keys, rows)
    assert_close(score, np.mean([(0.7 - 1 / 2) / (1 / 2), (0.4 - 1 / 3) / (2 / 3), (0.8 - 1 / 3) / (2 / 3)]), scale=1)
    assert_close(top, 2 / 3, scale=1)


def test_rows_without_a_key_or_with_every_key_say_nothing():
    weights, rows = np.tri(3)[None] / np.arange(1, 4)[:, None], np.ones((1, 3), dtype=bool)
    assert looks_of(weights, np.tri(3, dtype=bool)[None], rows) == (0.0, 0.0)
    assert looks_of(weights, np.zeros((1, 3, 3), dtype=bool), rows) == (0.0, 0.0)


def test_what_an_ablation_takes_is_a_share_of_the_mean_margin():
    labels, rows = np.array([[0, 1, NO_LABEL]]), np.ones((1, 3), dtype=bool)
    intact = np.array([[[3.0, 1, 0], [0, 4, 2], [9, 0, 0]]])  # margins 2 and 2
    less = np.array([[[3.0, 1.5, 0], [0, 4, 2.1], [0, 9, 0]]])  # 1.5 and 1.9
    assert_close(lowered(intact, less, labels, rows), 0.6 / 4, scale=1)
    assert_close(lowered(intact, less, labels, np.array([[False, True, True]])), 0.05, scale=1)
    assert lowered(intact, less, labels, np.array([[False, False, True]])) == 0.0  # nothing is labelled there
    assert lowered(-intact, less, labels, rows) == 0.0  # no margin that could be lowered


def test_a_head_that_brings_the_answer_is_used_and_an_idle_one_misleading(readers_of_the_previous_word):
    recipe, model = readers_of_the_previous_word((1.0, 0.0), 0.7)
    examples = t.examples_of(recipe, 0)
    before = model(torch.from_numpy(examples.tokens[:4]))
    claims = [USES, Claim([SPARE], PREVIOUS, uses="task"), Claim([HEAD], offset(-2)), Claim([HEAD, SPARE], PREVIOUS)]
    found = means_of(model, claims, examples, recipe.grammar)
    by_score = [means.words("score", claim.uses is not None)[2] for means, claim in zip(found, claims, strict=True)]
    assert by_score == ["supported", "misleading", "refuted", "supported"]
    assert found[0].lowers > 0.8
    assert found[1].lowers == 0.0
    assert found[3].lowers == pytest.approx(found[0].lowers)
    assert found[0].top == 1.0
    assert_close(model(torch.from_numpy(examples.tokens[:4])), before, scale=1)
    assert not any(point._forward_hooks for point in model.hook_dict.values())


# -- what is counted ----------------------------------------------------------------------------------------


def claim(name, kind, pattern, use, score, top, lowers, asks=True):
    verb = "uses" if asks else "attends to"
    told = {"claim": f"L0H0 {verb} {name}", "kind": kind, "pattern": pattern, "use": use, "asks": asks}
    return {**told, "score": score, "top": top, "lowers": lowers}


MODELS = [
    {"family": "f", "seed": 0, "cluster": "f/0", "claims": [
        claim("a", "true", True, "used", 0.9, 1.0, 0.5),  # right by both
        claim("b", "decoy", True, "unused", 0.9, 1.0, 0.2),  # used: false support
        claim("c", "conditional", False, "not asked", 0.45, 0.49, 0.9),  # false support by the score alone
    ]},
    {"family": "f", "seed": 1, "cluster": "f/1", "claims": [
        claim("a", "true", True, "used", 0.9, 1.0, 0.05),  # missed use
        claim("b", "decoy", True, "unused", 0.9, 1.0, 0.0, asks=False),  # right
        claim("c", "conditional", True, "used", 0.3, 0.4, 0.9),  # missed pattern by the largest weight alone
    ]},
    {"family": "g", "seed": 1, "cluster": "f/1", "claims": [claim("d", "false", False, "unused", 0.1, 0.1, 0.9)]},
]  # fmt: skip


def audit_of(models, left_open=()):
    """What the audit's file would hold of these claims: all right, but for those that it leaves open."""
    counted, wrong = [], []
    for model in models:
        for c in model["claims"]:
            outcome = "undecided" if (model["seed"], c["claim"]) in left_open else "right"
            truth = (c["kind"], c["pattern"], c["use"])
            counted.append(Counted(model["family"], model["seed"], model["cluster"], *truth, outcome))
            if outcome != "right":
                said = dict.fromkeys(("pattern", "use", "verdict"), "undecided")
                of = {"family": model["family"], "seed": model["seed"], "claim": c["claim"], "kind": c["kind"]}
                told = {"pattern": c["pattern"], "use": c["use"]}
                wrong.append({**of, "truth": told, "said": said, "outcome": outcome})
    data = {"half": "develop", "claims": len(counted), "models": len(models), "told": models_to_json(counted)}
    return json.loads(json.dumps({**data, "wrong": wrong}))


def test_the_rules_errors_are_those_of_the_bench():
    outcomes = {by: {(t.seed, t.claim[-1]): t.outcome for t in told_by(MODELS, by)} for by in RULES}
    same = {(0, "a"): "right", (0, "b"): "false support", (1, "a"): "missed use", (1, "b"): "right", (1, "d"): "right"}
    assert outcomes["score"] == {**same, (0, "c"): "false support", (1, "c"): "right"}
    assert outcomes["top"] == {**same, (0, "c"): "right", (1, "c"): "missed pattern"}
    rates = row(grouped(told_by(MODELS, "score"))).rates
    assert (rates["false support"].wrong, rates["false support"].share.n) == (1, 2)  # f/0, of f/0 and f/1
    assert rates["undecided"].claims == 0


@pytest.mark.parametrize(
    ("pattern", "use", "verb", "verdict", "is_wrong"),
    [
        (False, "not asked", "uses", "refuted", False),
        (False, "not asked", "uses", "supported", True),
        (False, "not asked", "attends to", "supported", True),
        (True, "used", "uses", "supported", False),
        (True, "redundant", "uses", "misleading", True),
        (True, "unused", "uses", "misleading", False),
        (True, "unused", "uses", "supported", True),
        (True, "unused", "attends to", "supported", False),
        (True, "used", "attends to", "refuted", True),
        (True, "used", "uses", "undecided", False),
        (False, "not asked", "uses", "undecided", False),
    ],
)
def test_a_verdict_is_wrong_where_the_truth_excludes_it(pattern, use, verb, verdict, is_wrong):
    told = {"claim": f"L0H1 {verb} it", "truth": {"pattern": pattern, "use": use}, "said": {"verdict": verdict}}
    assert wrong_verdict(told) is is_wrong


def test_the_audit_stands_beside_both_variants():
    told = table(audit_of(MODELS, {(1, "L0H0 uses c")}), MODELS)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in told.splitlines() if line[0:1] == "|"]
    cells = {(line[0], line[2]): line for line in lines[2:]}
    assert [line[0] for line in lines[2::3]] == ["true", "decoy", "conditional", "the other kind", "all"]
    one = f"1 of 2 {bounds(1, 2)}"
    none = f"0 of 2 {bounds(0, 2)}"
    assert cells["all", "the audit"][1:] == ["7", "the audit", "1", none, none, none, one, none]
    # By score b and c of f/0 are falsely supported (one model), a of f/1 is unused; each verdict is wrong.
    assert cells["all", "naive, by score"][3:] == ["3", one, none, one, none, f"2 of 2 {bounds(2, 2)}"]
    assert cells["all", "naive, by largest weight"][3:7] == ["3", one, one, one]
    assert cells["true", "naive, by score"][4:6] == ["–", none]
    assert (
        "The audit against naive, by score: only the audit is right of 3 claims (1 decoy of f: false support, "
        "1 conditional of f: false support, 1 true of f: missed use); only the rule is right of 1 claim "
        "(1 conditional of f: undecided); both err on 0 claims."
    ) in told
    assert "only the rule is right of 0 claims; both err on 1 claim." in told  # by the largest weight
    assert (
        "Scores are at least 0.300 in claims whose pattern is there, at most 0.450 in others. Shares of rows with the "
        "largest weight on it are at least 0.400 in claims whose pattern is there, at most 0.490 in others. Shares of "
        "the margin that an ablation takes are at least 0.050 in claims whose head is of use, at most 0.200 where it "
        "is of none."
    ) in told


def bounds(count, n):
    share = clopper_pearson(count, n)
    return f"[{share.low:.2f}, {share.high:.2f}]"


@pytest.mark.parametrize(("field", "value"), [("use", "unused"), ("kind", "tail"), ("claim", "L0H0 uses z")])
def test_another_claim_or_truth_is_refused(field, value):
    data = audit_of(MODELS, {(1, "L0H0 uses c")})
    check_same_claims(data, MODELS)
    changed = json.loads(json.dumps(MODELS))
    changed[1]["claims"][2][field] = value
    with pytest.raises(RequestError, match=r"naive rule was not asked|was another claim"):
        check_same_claims(data, changed)
    with pytest.raises(RequestError, match="naive rule was not asked"):
        check_same_claims(data, MODELS[:2])


# -- committed results --------------------------------------------------------------------------------------


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_numbers_are_of_the_audits_claims_and_the_page_shows_them():
    docs = ROOT / "docs"
    found = json.loads((docs / "trained-bench-naive.json").read_text(encoding="utf-8"))
    assert found["rule"] == {"score": SCORE, "top": TOP, "lowers": LOWERS}
    results = script(ROOT / "benchmarks" / "naive.py").RESULTS
    halves = {half: json.loads((docs / name).read_text(encoding="utf-8")) for half, name in results.items()}
    assert list(halves) == list(found["halves"])
    told = both_halves(halves, found)  # which refuses other claims
    page = (docs / "trained-bench.md").read_text(encoding="utf-8")
    assert (
        re.search(r"<!-- naive rule: begin[^>]*-->\n(.*)<!-- naive rule: end -->", page, re.DOTALL)[1].strip() == told
    )


def test_bounds_that_the_page_reads_off_the_claims_err_nowhere_and_seven_kinds_tell_nothing_apart():
    found = json.loads((ROOT / "docs" / "trained-bench-naive.json").read_text(encoding="utf-8"))["halves"]
    for models in found.values():
        for c in (c for model in models for c in model["claims"]):
            assert (c["top"] >= 0.8) is c["pattern"]
            if c["pattern"] and c["use"] != "not asked":
                assert (c["lowers"] >= 0.02) is (c["use"] != "unused")
        for by in RULES:
            erred = {t.kind for t in told_by(models, by) if t.outcome != "right"}
            assert erred == {"redundant", "conditional", "fixed-query"}


def test_a_file_of_results_is_read_back(tmp_path):
    made = script(ROOT / "benchmarks" / "naive.py")
    told = made.text({"develop": MODELS, "judge": MODELS[:1]})
    assert json.loads(told) == {"rule": made.RULE, "halves": {"develop": MODELS, "judge": MODELS[:1]}}
    assert told.count("\n{") == 4  # a line a model


@pytest.mark.slow
def test_a_model_is_measured_by_name(tmp_path):
    found = measured(tmp_path, "asked-last", 0)
    assert (found["family"], found["seed"], found["cluster"]) == ("asked-last", 0, "asked-last/0")
    names = [c["claim"] for c in found["claims"]]
    assert len(set(names)) == len(names) > 0
    assert json.loads(json.dumps(found, allow_nan=False)) == found
