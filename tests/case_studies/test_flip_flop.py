"""The study of glitches: AUROC by its definition, the LSTM, and what a head looks like on models that are known."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from case_studies.corrections import p_value
from case_studies.flip_flop import measure as study
from case_studies.flip_flop import study as whole
from case_studies.flip_flop.afterwards import attention, faultless_at, shares, versus_errors
from case_studies.flip_flop.figures import errors_figure
from case_studies.flip_flop.lstm import Lstm, count_errors, train_lstm
from case_studies.flip_flop.paired import auroc_difference
from case_studies.flip_flop.predict import among_clean, auroc, faulty, learned, newcombe, rivals, unlearned
from case_studies.flip_flop.study import run
from closeness import assert_close
from interp.rng import generator
from interp.worlds.flipflop import FlipFlopGrammar
from interp.worlds.flipflop.constructed import memory, reader
from intervals import unnamed_of_page
from sizes import hold_out_few


def test_the_auroc_is_a_share_of_pairs():
    rng = np.random.default_rng(0)
    score, bad = np.round(rng.normal(size=40), 1), rng.random(40) < 0.4
    pairs = list(itertools.product(score[~bad], score[bad]))
    right = np.mean([1.0 if good > worse else 0.5 if good == worse else 0.0 for good, worse in pairs])
    found = auroc(score, bad)
    assert_close(found.value, right, scale=1)
    assert found.low < found.value < found.high
    assert auroc(-score, bad).value == pytest.approx(1 - right)
    assert auroc(score, np.ones(40)).value is None
    assert auroc(score[:10], np.arange(10) < 3).low is None
    assert faulty(np.array([0, 0, 0, 1.0, 2.0])).tolist() == [False] * 3 + [True] * 2


def test_the_interval_of_the_auroc_covers_nothing_to_see():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(100):
        e = auroc(rng.normal(size=40), np.arange(40) % 2)
        inside += e.low <= 0.5 <= e.high
    assert inside >= 88


def test_kinds_that_do_not_overlap_have_an_interval():
    found = auroc(np.arange(60), np.arange(60) < 12)
    assert (found.value, found.high) == (1, 1)
    assert 0.8 < found.low < 0.99
    assert auroc(-np.arange(60), np.arange(60) < 12).high == pytest.approx(1 - found.low)
    assert p_value(lambda level: auroc(np.arange(60), np.arange(60) < 12, level), 0.5) < 1e-4  # absolute: a p-value


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_score_intervals_are_nested(value):
    ends = [newcombe(value, 12, 48, level) for level in (1e-9, 1e-3, 0.5, 0.95, 0.999, 1 - 1e-12)]
    assert all(b[0] <= a[0] <= value <= a[1] <= b[1] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize(("value", "ones", "zeros"), [(0.9, 20, 20), (0.5, 10, 90), (0.98, 14, 186)])
def test_the_ends_of_the_score_interval_are_as_far_off_as_their_own_variance_says(value, ones, zeros):
    for t in newcombe(value, ones, zeros):
        q1, q2 = t / (2 - t), 2 * t * t / (1 + t)
        half = (ones + zeros) / 2 - 1
        variance = (t * (1 - t) + half * (q1 - t * t) + half * (q2 - t * t)) / (ones * zeros)
        assert abs(value - t) == pytest.approx(1.959964 * variance**0.5, rel=1e-5)


def test_the_interval_covers_near_one():
    rng, inside = np.random.default_rng(3), 0
    truth, apart, bad = 0.98, 2.9044, np.arange(80) < 20  # Phi(apart / sqrt 2) = .98
    for _ in range(100):
        found = auroc(rng.normal(size=80) + apart * ~bad, bad)
        inside += found.low <= truth <= found.high
    assert inside >= 91


def test_seeds_that_have_not_learned_are_told_apart():
    own, sparse = np.r_[np.zeros(20), np.full(10, 0.1)], np.r_[np.zeros(16), np.full(14, 0.2)]
    by_law = {study.OWN: own, study.SPARSE: sparse}
    model = SimpleNamespace(errors=by_law.get, scores={"mass": np.r_[np.arange(20.0), np.zeros(10)]})
    assert (unlearned(model, study.SPARSE).value, unlearned(model, study.SPARSE).n) == (10 / 14, 14)
    assert unlearned(model, study.SPARSE).null == pytest.approx(10 / 30)
    kept = learned(model, study.SPARSE)
    assert (kept["errors"].n, kept["faultless"].value) == (20, 16 / 20)
    assert kept["errors"].value == pytest.approx(0.2 * 4 / 20)
    model.accuracy = np.r_[np.ones(16), np.zeros(14)]
    known = rivals(model, study.SPARSE)
    assert (known["errors"].value, known["accuracy"].value) == (pytest.approx(1 - 4 / 28), 1)
    told = among_clean(model, study.SPARSE, "mass")
    assert (told.value, told.n) == (0, 20)  # the four that are clean and err on sparse strings have the larger scores


def test_heads_that_are_known_look_as_they_are():
    for model in (memory(), reader()):
        grammar = model.grammar
        found = study.looks(model, grammar, grammar.draw(generator(0, "test"), 400))
        assert found["mass"] > 1 - 1e-8
        assert found["far"] > 1 - 1e-8
        assert found["top1"] == 1
        assert found["entropy"] < 1e-6  # absolute: weights of e^-20 beside the one
        assert_close([found["margin"], found["least_margin"]], [30, 30], scale=30, dtype=torch.float32)


def test_the_lstm_has_as_many_weights_as_the_source_says():
    assert sum(p.numel() for p in Lstm(FlipFlopGrammar()).parameters()) == 133_381
    one, two = (train_lstm(FlipFlopGrammar(8), 3, steps=2) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_errors_of_an_lstm_are_counted_a_read():
    grammar = FlipFlopGrammar(12)
    tokens = grammar.draw(generator(0, "test"), 40)

    class Always0(Lstm):
        def forward(self, given):
            return torch.nn.functional.one_hot(torch.full(given.shape, 3), 5).float()

    found = count_errors(Always0(grammar), grammar, tokens)
    reads = tokens == 1
    assert found.asked.sum() == reads.sum()
    assert found.errors == (reads[:, :-1] & (tokens[:, 1:] == 4)).sum()


@pytest.mark.slow
def test_the_study_runs_end_to_end(tmp_path, monkeypatch):
    hold_out_few(monkeypatch)
    for module in (study, whole):
        monkeypatch.setattr(module, "READS", 60)
    monkeypatch.setattr(study, "STRINGS", 20)
    run(tmp_path, seeds=3, steps=3, workers=1)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seeds"] == 3
    assert len(results["arms"]) == 10
    assert results["predictions"]["1 layer, sparse: mass"]["primary"] is True
    assert not unnamed_of_page((tmp_path / "index.html").read_text())


def by_definition(one, other, bad):
    """DeLong's difference and its variance, pair by pair, from the covariance matrices of placements."""

    def psi(good, worse):
        return 1.0 if good > worse else 0.5 if good == worse else 0.0

    good, faulty = np.flatnonzero(~bad), np.flatnonzero(bad)
    theta, v10, v01 = [], [], []
    for score in (one, other):
        v10.append([sum(psi(score[j], score[i]) for j in good) / len(good) for i in faulty])
        v01.append([sum(psi(score[j], score[i]) for i in faulty) / len(faulty) for j in good])
        theta.append(sum(v10[-1]) / len(faulty))
    s10, s01 = np.cov(v10), np.cov(v01)
    s = s10 / len(faulty) + s01 / len(good)
    return theta[0] - theta[1], s[0, 0] + s[1, 1] - 2 * s[0, 1]


def test_two_aurocs_of_the_same_seeds_are_compared_in_pairs():
    rng = np.random.default_rng(5)
    bad = rng.random(60) < 0.4
    one, other = np.round(rng.normal(size=60) - bad, 1), np.round(rng.normal(size=60), 1)
    found = auroc_difference(one, other, bad)
    value, variance = by_definition(one, other, bad)
    assert_close([found.value, found.high - found.value], [value, norm.ppf(0.975) * variance**0.5], scale=10)
    assert found.value == pytest.approx(auroc(one, bad).value - auroc(other, bad).value)
    assert auroc_difference(other, one, bad).low == pytest.approx(-found.high)
    assert auroc_difference(one, 2 * one, bad).reason == "both scores order all pairs alike"
    assert auroc_difference(one, other, np.ones(60)).value is None
    assert auroc_difference(one[:12], other[:12], np.arange(12) < 5).low is None


def test_the_paired_interval_covers_no_difference():
    rng, inside = np.random.default_rng(6), 0
    for _ in range(100):
        bad = np.arange(80) < 30
        shared = rng.normal(size=80) - bad
        found = auroc_difference(shared + rng.normal(size=80), shared + rng.normal(size=80), bad)
        inside += found.low <= 0 <= found.high
    assert inside >= 88


def test_a_head_leaves_what_it_attended_to():
    # head 0 never attends to it, head 1 does throughout, and in the last two seeds it leaves: within training, beyond.
    heads = [SimpleNamespace(each=(1, 1, 1, 1, 9)), SimpleNamespace(each=(None, 1, 9, 40, 1))]
    drift = SimpleNamespace(failing=[[], heads], gaps=(1, 9, 40), trained_length=32)
    found = attention(SimpleNamespace(drift=drift))
    assert {name: round(5 * one.value) for name, one in found.items()} == {
        "kept": 1,
        "none_kept": 4,
        "left": 3,
        "left_within": 2,
    }


def test_fewer_reads_show_fewer_errors():
    asked = SimpleNamespace(reads={study.OWN: 10})
    model = SimpleNamespace(glitches=asked, errors=lambda law: np.array([0, 0.1, 0.2, 1.0]))
    pairs = list(itertools.combinations(range(10), 4))
    one, two = (np.mean([all(i >= wrong for i in pair) for pair in pairs]) for wrong in (1, 2))
    assert faultless_at(model, study.OWN, 4) == pytest.approx(1 + one + two)
    assert faultless_at(model, study.OWN, 10) == pytest.approx(1)


def test_shares_of_two_arms_are_compared_exactly():
    def arm(name, own, sparse):
        by_law = {study.OWN: np.array(own), study.SPARSE: np.array(sparse)}
        about = SimpleNamespace(family=SimpleNamespace(name=name))
        return SimpleNamespace(
            arm=about, errors=by_law.get, population=own, glitches=SimpleNamespace(errors=by_law, reads={})
        )

    base = arm("base", [0, 0, 0, 0], [0, 0, 0, 0])
    worse = arm("worse", [0, 1, 1, 1], [1, 0, 0, 0])
    found = shares(base, [worse], ("worse", "no such arm"))
    own, every = found["worse", "training's law"], found["worse", "any law"]
    assert (own.one.value, own.other.value, every.one.value) == (0.25, 1, 0)
    assert own.p == pytest.approx(2 * 4 / 56)  # C(8, 3) tables with these margins, of which 4 + 4 are as extreme
    assert every.p == pytest.approx(2 / 70)
    assert (own.adjusted, every.adjusted) == (pytest.approx(8 / 56), pytest.approx(4 / 70))


def test_a_look_is_compared_with_the_sign_that_suits_it():
    rng = np.random.default_rng(7)
    wrong = rng.random(40)
    noisy = wrong + 0.3 * rng.normal(size=40)
    by_law = {study.OWN: noisy, study.SPARSE: wrong, study.DENSE: wrong}
    about = SimpleNamespace(family=SimpleNamespace(name="one"))
    looks = {"mass": wrong, "top1": -wrong, "far": rng.normal(size=40), "entropy": wrong}
    found = versus_errors([SimpleNamespace(arm=about, errors=by_law.get, scores=looks)])
    assert len(found) == 8
    mass, top = found["one, sparse: mass"], found["one, sparse: top1"]
    assert (mass.look.value, mass.turned, top.look.value, top.turned) == (1, True, 1, False)
    assert mass.apart.estimate.value == pytest.approx(1 - mass.errors.value)


def test_seeds_without_an_error_are_drawn_by_their_own_reads():
    def arm(name, reads):
        by_law = {study.DENSE: np.array([0.0, 0.2]), study.SPARSE: np.array([0.0, 0.1])}
        about = SimpleNamespace(family=SimpleNamespace(name=name))
        glitches = SimpleNamespace(reads={study.DENSE: 5000, study.SPARSE: reads})
        return SimpleNamespace(arm=about, errors=by_law.get, glitches=glitches)

    figure = errors_figure([arm("many", 30_000), arm("few", 3000)]).figure
    heights = [trace.y[0] for trace in figure.data]
    assert heights == pytest.approx([0.3 / 30_000, 0.3 / 3000], rel=0.1)  # drawn apart by up to 9 %
    assert figure.layout.yaxis.ticktext == ("none in 30,000", "none in 3,000", "0.001", "0.01", "0.1", "1")
    assert figure.layout.xaxis.ticktext[:2] == ("none in 5,000", "0.001")
