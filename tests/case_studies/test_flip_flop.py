"""The study of glitches: AUROC by its definition, the LSTM, and what a head looks like on models that are known."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from case_studies.corrections import p_value
from case_studies.flip_flop import measure as study
from case_studies.flip_flop import study as whole
from case_studies.flip_flop.lstm import Lstm, count_errors, train_lstm
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
