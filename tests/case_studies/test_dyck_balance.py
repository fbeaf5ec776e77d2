"""The balance study: what it says on either outcome, on made-up numbers, and end to end on barely trained models."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr, t

from case_studies.dyck_balance import measure, study
from case_studies.dyck_balance.comparisons import (
    ACCURACY,
    BETA,
    CORRELATION,
    LATER,
    PRIMARY,
    between_cells,
    change_name,
    comparisons,
    correlation_name,
    within_cells,
    within_over_cells,
)
from case_studies.dyck_balance.measure import DATA, RULES, SHOWN, TRAININGS, Arm, Findings, families, pair_name
from case_studies.dyck_balance.report import report
from case_studies.dyck_balance.results import to_results
from case_studies.dyck_balance.sentences import (
    answers,
    argmax_sentence,
    definition_sentence,
    effect,
    grid_sentences,
    relation,
)
from case_studies.page import render
from case_studies.words import typeset
from closeness import assert_close
from interp import load_checkpoint
from interp.header import read_header
from interp.stats import spearman, t_interval
from intervals import INTERVAL, unnamed_of_page
from probes.balance import analyze_balance
from sizes import hold_out_few

SEEDS = 40
ALL = {f"{training}, {data}": pair_name(training, data) for training in TRAININGS for data in DATA}
# a pair: correlations in two arms (each rule, and the released beta once), changes (each rule, two betas); the grid's
COMPARED = len(ALL) * (2 * (len(RULES) + 1) + len(RULES) + 2) + 2 * len(RULES)


def column(rng, mean, spread, n=SEEDS):
    """Numbers without much skewness around a mean."""
    return mean + spread * rng.permutation(np.linspace(-1, 1, n))


def ordered_like(rng, x, correlation):
    """Numbers in 0.2 to 0.6 whose rank correlation with x is near the asked one (any of -1, 0, 1), jittered."""
    ranks = x.argsort().argsort()
    noise = rng.permutation(len(x))
    mixed = ranks * correlation + noise * (0.4 if correlation else 1)
    return 0.2 + 0.4 * mixed.argsort().argsort() / len(x)


def unrelated(x):
    """Numbers whose rank correlation with x is 0 to a rounding of ranks: low and high ranks of x in turn."""
    ranks = x.argsort().argsort()
    return 0.2 + 0.4 * np.where(ranks % 4 < 2, ranks, len(x) - 1 - ranks) / len(x)


def two_arms(name_of, rng, beta=-0.06, accuracy=0.1, argmax=0.0, correlation=0):
    """Standard and contrastive arm: what the regulariser changes, and the correlation within the standard arm."""
    old, new = name_of
    b = column(rng, 0.1, 0.03)
    shown = unrelated(b) if correlation == 0 else ordered_like(rng, b, correlation)
    start = {rule: column(rng, 0.7, 0.05) for rule in RULES} | {SHOWN: shown}
    change = dict.fromkeys(RULES, 0.0) | {SHOWN: accuracy, "long_argmax": argmax}
    end = {rule: v + change[rule] + column(rng, 0, 0.005) for rule, v in start.items()}
    b_new = b + beta + column(rng, 0, 0.005)
    return [Arm(old, "d" * 8, b, 2 * b, start, 0.99), Arm(new, "e" * 8, b_new, 2 * b_new, end, 0.99)]


def made_up(seed=0, cells=15, grid_sign=-1, again=(), **by_pair):
    """Findings; `by_pair`: training_data -> what `two_arms` takes; `again`: of further seeds, by data and training."""
    rng = np.random.default_rng(seed)
    pairs = {
        pair_name(training, data): two_arms(families(training, data), rng, **by_pair.get(f"{training}_{data}", {}))
        for training in TRAININGS
        for data in DATA
    }
    spread = made_up_grid(rng, cells, grid_sign)
    further = []
    arms = [measure.further(training, data) for data in DATA for training in TRAININGS]
    for family, correlation in zip(arms, again, strict=False):
        beta = column(rng, 0.2, 0.03, 120)
        values = unrelated(beta) if correlation == 0 else ordered_like(rng, beta, correlation)
        further.append(Arm(family, "a" * 8, beta, 2 * beta, dict.fromkeys(RULES, values), 0.99))
    return Findings(pairs, spread, SEEDS, comparisons(pairs, spread, further), further)


def made_up_grid(rng, cells, sign):
    """Cells whose means of beta and accuracy are ordered alike (1) or against each other (-1); within them, nothing."""
    spread = []
    for i, family in enumerate(measure.grid(np.arange(cells) / 100, (200,))):
        beta = 0.1 + 0.01 * i + column(rng, 0, 0.004, 8)
        accuracy = 0.5 + sign * 0.02 * i + column(rng, 0, 0.004, 8)
        spread.append(Arm(family, "f" * 8, beta, 2 * beta, dict.fromkeys(RULES, accuracy), 0.99))
    return spread


@pytest.fixture(scope="module")
def either():
    """Two outcomes of the study, each the other's opposite where there is one."""
    as_said = {"beta": -0.06, "accuracy": 0.1, "correlation": -1}
    against = {"beta": 0.06, "accuracy": -0.1, "correlation": 1}
    return {
        "as said": made_up(
            released_complete=as_said, released_prefix=as_said | {"correlation": 0}, all_complete={"argmax": -0.07}
        ),
        "against": made_up(
            released_complete=against, released_prefix=against, closers_prefix={"argmax": 0.07}, grid_sign=1
        ),
        "nothing": made_up(
            **{f"released_{data}": {"beta": 0.0, "accuracy": 0.0} for data in DATA},
        ),
    }


# -- what is compared -----------------------------------------------------------------------------------


def test_the_primary_comparisons_are_those_of_figs_3_and_10():
    assert len(PRIMARY) == len(set(PRIMARY)) == 6
    assert all("released code" in name for name in PRIMARY)
    assert [("rank correlation" in name, "standard, " in name) for name in PRIMARY].count((True, True)) == 2
    assert sum("contrastive minus standard, beta" in name for name in PRIMARY) == 2
    assert sum(RULES[SHOWN] in name for name in PRIMARY) == 4


def test_the_readme_names_them_and_their_bounds():
    text = " ".join((study_folder() / "README.md").read_text(encoding="utf-8").split())
    for name in PRIMARY:
        assert name in text
    for bound in (CORRELATION, ACCURACY, BETA):
        assert f"±{bound}" in text
    for name in LATER:
        assert name in text
    others = COMPARED - len(PRIMARY) + len(DATA) * len(TRAININGS) * len(RULES) - len(LATER)
    assert f"All {others} other comparisons are Holm-corrected together" in text


def study_folder():
    return Path(study.__file__).parent


@pytest.mark.parametrize(
    ("correlation", "said"), [(-1, "is negative ("), (1, "is positive ("), (0, "is none to within")]
)
def test_further_seeds_decide_by_themselves_what_the_first_left_undecided(correlation, said):
    """Whatever the first seeds said: the comparison is primary, over the further seeds alone."""
    f = made_up(released_complete={"correlation": -correlation}, again=(correlation, 0, 0))
    every = [c for name, c in f.compared.items() if "further seeds" in name]
    assert [c.primary for c in every].count(True) == 1
    assert len(every) == len(RULES) * len(TRAININGS)
    later = [c for c in every if c.name.endswith(RULES[SHOWN])]
    assert [c.primary for c in later] == [True, False, False]
    assert {c.estimate.n for c in later} == {120}
    assert later[0].name == LATER[0]
    assert later[0].adjusted == later[0].p
    page = html.unescape(render(report(f, "interp report dyck-balance")))
    assert re.search(r"further seeds per training .*? the rank correlation " + re.escape(said), page)
    assert "7 comparisons are primary" in page
    results = to_results(f)
    assert results["primary"][-1] == LATER[0]
    assert len(results["further"]) == len(TRAININGS)
    assert results["further"][measure.further("released").name]["rank_correlation"][SHOWN] == later[0].to_dict()


@pytest.mark.parametrize(
    ("correlation", "said"), [(-1, "is negative ("), (1, "is positive ("), (0, "is none to within")]
)
def test_further_seeds_decide_fig_10_too_by_the_training_that_left_it_open(correlation, said):
    f = made_up(again=(0, 0, 0, -correlation, correlation, -correlation))
    later = f.compared[LATER[1]]
    assert [later.primary, f.compared[LATER[0]].primary] == [True, True]
    assert later.estimate.n == 120
    assert later.adjusted == later.p
    page = html.unescape(render(report(f, "interp report dyck-balance")))
    found = re.search(r"Fig\. 10 again, over 120 further .*? loss on closers, the rank correlation (.*?)That", page)
    assert found[1].startswith(said)
    assert "8 comparisons are primary" in page
    assert list(to_results(f)["further"]) == [a.family.name for a in f.further]


def test_further_seeds_are_in_no_other_arm_and_are_trained_like_the_first(tmp_path):
    plan = study.populations(study.FULL)
    first = {one.family.file(tmp_path, 1): one for name, group in plan.items() if name in study.PAIRS for one in group}
    for one in plan["further"]:
        same = first[one.family.file(tmp_path, 1)]
        assert not set(one.chosen) & set(range(same.seeds))
        assert len(one.chosen) == 120
    assert not study.populations(study.QUICK)["further"]


def test_everything_else_is_corrected_together(either):
    found = either["as said"].compared
    assert len(found) == COMPARED
    assert [name for name, c in found.items() if c.primary] == sorted(PRIMARY, key=list(found).index)
    others = [c for c in found.values() if not c.primary]
    least = min(others, key=lambda c: c.p)
    assert_close(least.adjusted, len(others) * least.p)
    results = to_results(either["as said"])
    assert results["corrected_together"] == len(others)
    assert results["bounds"] == {"rank_correlation": CORRELATION, "accuracy": ACCURACY, "beta": BETA}


def test_the_released_codes_variant_has_no_bound(either):
    for name, c in either["nothing"].compared.items():
        expected = None if "minus standard, beta by" in name else CORRELATION if "rank" in name else (
            BETA if name.endswith("beta") else ACCURACY
        )  # fmt: skip
        assert c.bound == expected


def test_differences_are_of_the_same_seeds_and_the_same_number(either):
    f = either["as said"]
    for pair, (old, new) in f.pairs.items():
        numbers = {"beta": (old.beta, new.beta), "beta_released": (old.beta_released, new.beta_released)}
        numbers |= {rule: (old.accuracy[rule], new.accuracy[rule]) for rule in RULES}
        for measured, (before, after) in numbers.items():
            c = f.compared[change_name(pair, measured)].estimate
            assert_close(c.value, np.mean(after - before), scale=1)
            assert c.high - c.low < 0.02 < np.ptp(before)  # unpaired it would be wider


# -- the words follow the numbers -----------------------------------------------------------------------


OUTCOMES = {
    "as said": ("is negative", "is none to within 0.3", "lowers balance violation", "raises that accuracy"),
    "against": ("is positive", "is positive", "raises balance violation", "lowers that accuracy"),
    "nothing": (
        "is none to within 0.3",
        "is none to within 0.3",
        "leaves balance violation as it was to within 0.01",
        "leaves that accuracy as it was to within 0.02",
    ),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_answers_follow_the_primary_comparisons(either, outcome):
    complete, prefix, beta, accuracy = OUTCOMES[outcome]
    said = answers(either[outcome].compared)
    assert len(said) == 3
    for sentence, inside in zip(said, (complete, prefix), strict=False):
        assert f"within the standard arm {inside} (" in sentence
        assert f"the regulariser {beta} (" in sentence
        assert f"and {accuracy} (" in sentence
        assert "Holm" not in sentence


def clause(sentence, verb):
    """What stands in brackets after a verb of the argmax sentence."""
    found = re.search(rf" {verb} \(((?:[^()]|\([^()]*\))*)\)", sentence)
    return found[1] if found else ""


def test_a_fall_of_argmax_accuracy_is_said_only_of_the_loss_of_which_it_is_true(either):
    said = argmax_sentence(either["as said"].compared)
    assert clause(said, "falls").count("seeds") == 1
    assert "loss on all tokens, complete strings: -0.07" in clause(said, "falls")
    assert "loss on all tokens, complete" not in clause(said, "stays as it was to within 0.02")
    assert clause(said, "stays as it was to within 0.02").count("seeds") == 5
    assert not clause(said, "rises")
    said = argmax_sentence(either["against"].compared)
    assert "loss on closers, prefixes: 0.07" in clause(said, "rises")
    assert not clause(said, "falls")


def test_the_released_codes_beta_has_a_sentence_of_its_own(either):
    """Where the two definitions disagree each is said by its own numbers."""
    f = either["as said"]
    rng = np.random.default_rng(6)
    old, new = f.pairs["complete, released code"]
    turned = replace(old, beta_released=-old.beta, accuracy=old.accuracy | {SHOWN: ordered_like(rng, old.beta, -1)})
    found = comparisons(f.pairs | {"complete, released code": [turned, new]}, f.spread)
    said = definition_sentence(found)
    assert "released code, complete strings: 0." in clause(said, "positive")
    assert clause(said, "positive").count("seeds") == 1
    assert "the rank correlation of balance violation and accuracy on non-trivial closing brackets" in answers(found)[0]
    assert "within the standard arm is negative" in answers(found)[0]


@pytest.mark.parametrize(
    ("seeds", "change", "correlation", "argmax"),
    [
        (40, "has no decided effect on accuracy", "not decided", "is not decided"),
        (5, "has an effect on accuracy that so few seeds cannot test", "not tested", "is not tested"),
    ],
)
def test_undecided_and_untested_are_said_as_such(seeds, change, correlation, argmax):
    rng = np.random.default_rng(0)
    x, wide = column(rng, 0.5, 0.1, seeds), column(rng, 0.03, 0.6, seeds)
    pairs = {
        pair_name(training, data): [
            Arm(f, "d", x, x, dict.fromkeys(RULES, y), 0.9)
            for f, y in zip(families(training, data), (x + wide, x + 2 * wide), strict=True)
        ]
        for training in TRAININGS
        for data in DATA
    }
    found = comparisons(pairs, made_up_grid(rng, 2, 1))
    assert effect(found[change_name("complete", "long_argmax")], "accuracy") == change
    assert relation(found[correlation_name("contrastive, complete", SHOWN)]) == correlation
    assert clause(argmax_sentence(found), argmax).count("seeds") == 6


@pytest.mark.parametrize(("outcome", "sign"), [("as said", "negative"), ("against", "positive")])
def test_the_grid_says_which_correlation_is_which(either, outcome, sign):
    f = either[outcome]
    between, within = grid_sentences(f.compared, len(f.spread))
    assert "over the 15 cells of the grid, mean β and mean accuracy" in between
    assert f"have a rank correlation that is {sign} (" in between
    assert "(n=15 cells)" in between
    assert between.startswith("Between cells")
    assert within.startswith("Within cells")
    assert "(n=8 seeds)" in within
    assert sign not in within


# -- between and within cells ---------------------------------------------------------------------------


def test_between_cells_is_the_correlation_of_their_means():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 15, 8))
    found = between_cells(x, y)(0.95)
    assert found == spearman(x.mean(1), y.mean(1), over="cells")
    assert (found.n, found.over) == (15, "cells")


def test_within_cells_does_not_see_what_cells_have_apart():
    """Cells far apart in both, unrelated within: pooled they correlate near 1, within as before."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 15, 8))
    apart = 100 * np.arange(15)[:, None]
    moved = within_cells(x + apart, y + apart)(0.95)
    assert moved == within_cells(x, y)(0.95)
    assert spearman((x + apart).ravel(), (y + apart).ravel()).value > 0.99
    assert_close(moved.value, np.mean([spearman(a, b).value for a, b in zip(x, y, strict=True)]), scale=1)
    assert (moved.n, moved.over) == (8, "seeds")


def test_the_interval_within_cells_knows_that_cells_share_their_seeds():
    """The same eight models in all cells are eight, however many cells there are; over cells they look like more."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 1, 8))
    few, many = (within_cells(np.repeat(x, n, 0), np.repeat(y, n, 0))(0.95) for n in (2, 15))
    assert_close([many.low, many.high], [few.low, few.high], scale=1)
    assert many.high - many.low > 0.3
    over_cells = within_over_cells(np.repeat(x, 15, 0), np.repeat(y, 15, 0))
    assert over_cells.high - over_cells.low < 1e-9  # absolute: fifteen copies of one number, and its scale is 1


@pytest.mark.parametrize("shared", [0.0, 0.6])
def test_the_interval_within_cells_covers_what_cells_share(shared):
    """Two numbers without relation, of which a part is the seed's in every cell: how often 0 lies in the interval."""
    rng = np.random.default_rng(7)
    draws, cells, seeds = 100, 12, 8
    over_seeds = over_cells = 0
    for _ in range(draws):
        x, y = (
            np.sqrt(shared) * rng.normal(size=seeds) + np.sqrt(1 - shared) * rng.normal(size=(cells, seeds))
            for _ in range(2)
        )
        e = within_cells(x, y)(0.95)
        over_seeds += e.low <= 0 <= e.high
        each = [spearman(a, b).value for a, b in zip(x, y, strict=True)]
        free = t_interval(np.mean(each), np.std(each, ddof=1) / np.sqrt(cells), cells, over="cells")
        over_cells += free.low <= 0 <= free.high
    assert over_seeds >= 0.88 * draws  # nominal .95, with a standard error of .022
    assert over_cells >= 0.88 * draws if shared == 0 else over_cells < 0.8 * draws


def test_cells_that_do_not_vary_are_left_out():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 12, 8))
    y[4] = 0.0
    kept = np.delete(x, 4, 0), np.delete(y, 4, 0)
    assert within_cells(x, y)(0.95) == within_cells(*kept)(0.95)
    assert within_over_cells(x, y).n == 11


def test_within_cells_is_a_jackknife_over_the_seeds():
    """Literally: each seed is left out of both numbers in every cell."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 5, 9))
    y += x
    without = []
    for seed in range(9):
        kept = [i for i in range(9) if i != seed]
        without.append(np.mean([spearmanr(a[kept], b[kept]).statistic for a, b in zip(x, y, strict=True)]))
    half = t.ppf(0.975, 8) * np.sqrt(8 / 9 * np.square(np.subtract(without, np.mean(without))).sum())
    found = within_cells(x, y)(0.95)
    assert found.value > 0.2
    assert_close([found.low, found.high], [found.value - half, min(found.value + half, 1)], scale=1, ulps=256)


@pytest.mark.parametrize(("seeds", "value"), [(2, False), (4, True), (7, True)])
def test_few_seeds_a_cell_have_no_interval(seeds, value):
    rng = np.random.default_rng(4)
    found = within_cells(*rng.normal(size=(2, 15, seeds)))(0.95)
    assert (found.value is not None) == value
    assert found.low is None
    assert found.reason


# -- the page and the results ---------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_page_shows_the_three_trainings_beside_one_another(either, outcome):
    f = either[outcome]
    page = render(report(f, "interp report dyck-balance"))
    assert not unnamed_of_page(page)
    heads = [re.findall(r"<th[^>]*>(.*?)</th>", head) for head in re.findall(r"<thead>(.*?)</thead>", page)]
    beside = [head for head in heads if all(any(h.startswith(t) for h in head) for t in TRAININGS.values())]
    assert len(beside) == 4  # the paper's claims, the changes, the arms, the correlations
    for rule in ("β, released code's definition", *RULES.values()):
        assert f">{typeset(f'complete strings: {rule}')}</th>" in page
    text = html.unescape(page)
    for name in PRIMARY:
        assert f.compared[name].tests in text


def test_results_hold_every_comparison(either):
    f = either["as said"]
    results = json.loads(json.dumps(to_results(f)))
    rows = [row for arm in results["arms"].values() for row in arm["rank_correlation"].values()]
    rows += [row for arm in results["arms"].values() for row in arm["rank_correlation_released"].values()]
    rows += [row for change in results["contrastive_minus_standard"].values() for row in change.values()]
    rows += [row for where in ("between_cells", "within_cells") for row in results["spread"][where].values()]
    assert len(rows) == len(f.compared)
    assert sum(row["primary"] for row in rows) == len(PRIMARY)
    assert {json.dumps(row, sort_keys=True) for row in rows} == {
        json.dumps(c.to_dict(), sort_keys=True) for c in f.compared.values()
    }
    assert set(results["primary"]) == set(PRIMARY)
    assert results["spread"]["models"] == 120


def test_both_definitions_of_beta_are_the_probes(monkeypatch):
    """NaN where there is none."""
    rows = [SimpleNamespace(beta=0.1, released=0.4), SimpleNamespace(beta=None, released=None)]
    monkeypatch.setattr(measure, "balance_tables", lambda model, *_, **__: ([rows[model]], 1.0))
    grammar = load_checkpoint("dyck-minimal").grammar

    class Two(list):
        pass

    population = Two([0, 1])
    population.grammar = grammar
    ours, theirs = measure.betas(population)
    np.testing.assert_array_equal(ours, [0.1, np.nan])
    np.testing.assert_array_equal(theirs, [0.4, np.nan])


def test_what_moves_every_so_many_steps_moves_at_the_same_shares_of_a_shorter_training():
    for data in DATA:
        for family in families("released", data):
            whole = family.recipe.settings
            short = family.in_steps(20).recipe.settings
            assert whole.steps / whole.hold == short.steps / short.hold == 10
            assert family.in_steps(1).recipe.settings.hold == 1  # the shortest is a training too


# -- end to end -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "LONG_PREFIXES", 3)
    hold_out_few(patch)
    out = tmp_path_factory.mktemp("balance")
    study.run(out, seeds=4, steps=3, workers=1)
    patch.undo()
    return out


@pytest.mark.slow
def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


@pytest.mark.slow
def test_numbers_are_those_of_the_checkpoints(folder):
    results = json.loads((folder / "results.json").read_text())
    by_digest = {arm["digest"]: arm for arm in results["arms"].values()}
    checked = 0
    for path in (folder / "populations").glob("*.safetensors"):
        arm = by_digest.get(read_header(path)["digest"])
        if arm is not None:
            found = [analyze_balance(m, num_inputs=2, length=4, untrained=False) for m in load_checkpoint(path)]
            for name, expected in (("beta", "beta"), ("beta_released", "released")):
                values = [getattr(one, expected).value for one in found]
                np.testing.assert_allclose(arm["per_seed"][name], values, rtol=1e-9)
            checked += 1
    assert checked == len(by_digest) == 12


@pytest.mark.slow
def test_differences_are_paired_over_seeds(folder):
    results = json.loads((folder / "results.json").read_text())
    for pair in ALL.values():
        old, new = (results["arms"][f"{name}, {pair}"]["per_seed"] for name in ("standard", "contrastive"))
        for key in ("beta", "beta_released", SHOWN):
            found = results["contrastive_minus_standard"][pair][key]
            assert found["value"] == pytest.approx(np.mean(np.subtract(new[key], old[key])))
            assert (found["n"], found["finding"]) == (4, "untested")
