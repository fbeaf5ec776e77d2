"""The released code's lookup of topics, by hand; the growth of block means, against literal gradient descent."""

import numpy as np
import pytest

from case_studies.topics import descent
from case_studies.topics.descent import SETTINGS, Answer, Descent, Setting
from case_studies.topics.faint import others_sentence, steps_sentence
from case_studies.topics.families import FAINT, FAINT_STOPS, PAPER_FAINT, PAPER_FAINT_SPREAD, Biased
from case_studies.topics.lookup import (
    OTHER_TOPIC,
    SAME_TOPIC,
    Relations,
    by_relation,
    released_labels,
    share_on_one_word,
)
from case_studies.topics.measure import Optima
from closeness import assert_close
from interp import TopicGrammar
from interp.worlds.topics.attended import best_block
from interp.worlds.topics.theory import TopicTheory
from probes.topics import pair_sums

SMALL = TopicGrammar(num_topics=2, words_per_topic=5, min_length=12, max_length=16)


def test_the_released_lookup_by_hand():
    # Ten words in two topics of five; ids of the released code are 4 to 13. Its table knows the numbers 0 to 9, so the
    # word 0 (id 4) gets the topic of number 4, words 1 to 5 (ids 5 to 9) that of 5 to 9, and words 6 to 9 none.
    assert SMALL.topic_of.tolist() == [-1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert released_labels(SMALL).tolist() == [-1, 0, 1, 1, 1, 1, 1, -1, -1, -1, -1]


def test_relations_through_both_lookups_by_hand():
    # One document of four words: numbers 0 and 1 (topic 0), 5 (topic 1) and 6 (topic 1, for the released code none).
    tokens = np.array([[1, 2, 6, 7]])
    pattern = np.array([[[[0.1, 0.5, 0.1, 0.3], [0.7, 0.1, 0.1, 0.1], [0.2, 0.4, 0.2, 0.2], [0.1, 0.1, 0.6, 0.2]]]])
    pairs = pair_sums(pattern, tokens, SMALL.vocab_size)
    scale = 4 / 100  # documents count as ones of 100 words
    right = by_relation(pairs, SMALL.topic_of)
    assert right["same word"] == pytest.approx(scale * (0.1 + 0.1 + 0.2 + 0.2) / 4)
    assert right[SAME_TOPIC] == pytest.approx(scale * (0.5 + 0.7 + 0.2 + 0.6) / 4)
    assert right[OTHER_TOPIC] == pytest.approx(scale * (0.1 + 0.3 + 0.1 + 0.1 + 0.2 + 0.4 + 0.1 + 0.1) / 8)
    released = by_relation(pairs, released_labels(SMALL))  # 0 alone; 1 and 5 together; 6 left out
    assert released["same word"] == right["same word"]
    assert released[SAME_TOPIC] == pytest.approx(scale * (0.1 + 0.4) / 2)
    assert released[OTHER_TOPIC] == pytest.approx(scale * (0.5 + 0.1 + 0.7 + 0.2) / 4)
    even = pair_sums(np.full((1, 1, 10, 10), 0.1), np.arange(1, 11)[None], SMALL.vocab_size)
    assert share_on_one_word(even, SMALL.topic_of) == pytest.approx(1 / 5)
    anchored = np.full((1, 1, 10, 10), 1e-9)
    anchored[..., [2, 5]] = 0.5  # everything goes to one word of each topic
    found = pair_sums(anchored, np.arange(1, 11)[None], SMALL.vocab_size)
    assert share_on_one_word(found, SMALL.topic_of) == pytest.approx(1)
    both = Relations.of([pairs, pairs], released_labels(SMALL))
    assert both.ratio.value == pytest.approx(0.25 / 0.375)
    assert both.ratio.n == 2
    assert_close(both.deviations[SAME_TOPIC], 0, scale=right[SAME_TOPIC])


# -- block means over steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [*SETTINGS, Setting("no bias, chosen positions not attended to", chosen_attended=False)],
    ids=lambda s: s.name,
)
def test_the_closed_form_is_gradient_descent(setting, monkeypatch):
    """Step by step, document by document, from zero: what SGD does on average over initial weights."""
    monkeypatch.setattr(descent, "DOCUMENTS", 60)
    drawn = SMALL.sample(60, seed=0, stream="topic-descent")
    size, rate = SMALL.vocab_size, 0.3
    weights, bias = np.zeros((size, size)), np.zeros(size)
    documents = []
    for words, shown, chosen in zip(drawn.words, drawn.shown, drawn.chosen, strict=True):
        if chosen.any():
            keys = [
                t for t, c, w in zip(shown, chosen, words, strict=True) if w >= 0 and (setting.chosen_attended or not c)
            ]
            asked = words[chosen]
            documents.append(
                (np.bincount(keys, minlength=size) / len(keys), np.bincount(asked, minlength=size) / len(asked))
            )
    for _ in range(40):
        slope, slope_bias = np.zeros_like(weights), np.zeros_like(bias)
        for y, target in documents:
            error = 2 * (weights @ y + bias - target) / len(documents) / (104 if setting.averaged else 1)
            slope += np.outer(error, y)
            slope_bias += error
        weights -= rate * slope
        bias -= rate * slope_bias * setting.bias
    found = Descent(SMALL, setting, rate).matrix(40)
    assert_close(found, weights, scale=np.abs(weights).max())
    same = SMALL.topic_of[1:, None] == SMALL.topic_of[1:]
    assert Descent(SMALL, setting, rate).means(40)[0] == pytest.approx(weights[1:, 1:][same].mean())
    assert Descent(SMALL, setting, rate).means(40)[1] == pytest.approx(weights[1:, 1:][~same].mean())


def test_the_step_of_a_block_mean_is_the_first_that_has_it():
    one = Descent(TopicGrammar(), SETTINGS[0])
    for paper, _ in PAPER_FAINT.values():
        step = one.step_of(paper)
        assert one.means(step - 1)[0] < paper <= one.means(step)[0]
    assert one.step_of(1.0) is None


@pytest.mark.parametrize("bias", [False, True])
def test_models_are_stopped_where_the_expected_block_mean_is_the_thesis(bias):
    one = Descent(TopicGrammar(), Setting("x", bias=bias))
    assert FAINT_STOPS[bias] == tuple(one.step_of(block) for block, _ in PAPER_FAINT.values())
    for place, label in enumerate(PAPER_FAINT):
        (family,) = (f for f in FAINT if label in f.name and isinstance(f, Biased) is bias)
        assert FAINT_STOPS[bias][place] in family.snapshots
        assert (family.recipe.config.biases, family.in_steps(90).recipe.config.biases) == (bias, bias)


def test_the_spread_of_a_mean_of_all_entries_is_that_of_a_simulation():
    grammar, rng = TopicGrammar(), np.random.default_rng(0)
    entries = rng.normal(0, 0.02, 9000)
    drawn = np.array([rng.permutation(entries)[:1000].mean() for _ in range(2000)])
    # Standard error of a standard deviation, of numbers that are close to normal: a share of 1 / sqrt(2 draws).
    assert descent.initial_scale(drawn.std(), grammar) == pytest.approx(entries.std(), rel=4 / (2 * 2000) ** 0.5)
    spread = PAPER_FAINT_SPREAD["Fig. 2.5"]
    assert_close(descent.spread_of_all(spread, grammar), descent.initial_scale(spread, grammar) / 9000**0.5)


def test_averaging_over_the_vocabulary_takes_as_many_times_the_steps():
    summed, averaged = (Descent(TopicGrammar(), s) for s in SETTINGS[2:])
    assert averaged.step_of(0.006) == pytest.approx(104 * summed.step_of(0.006), rel=2e-3)


def test_a_trained_model_passes_where_its_line_does():
    assert descent._passing([0, 10, 20], np.array([0.0, 1.0, 3.0]), 2.0) == 15
    assert descent._passing([0, 10], np.array([5.0, 6.0]), 2.0) == 0
    assert np.isnan(descent._passing([0, 10], np.array([0.0, 1.0]), 2.0))


def answer(p, steps=(10, 20)) -> Answer:
    found = dict(zip(PAPER_FAINT, steps, strict=True))
    return Answer(SETTINGS[0], found, found, found, dict.fromkeys(found, 0.0), p)


def test_sentences_follow_the_numbers_either_way():
    assert "speak against 1 of 2 settings" in others_sentence([answer(0.01), answer(0.4)])
    assert "speak against none of 1 settings" in others_sentence([answer(0.4)])
    assert "No setting" in others_sentence([answer(None)])
    assert "no number of steps gives both" in steps_sentence([answer(None, (None, 20))])
    assert "are too many for them" in steps_sentence([answer(0.4)])


# -- the best attention of stage 2 ----------------------------------------------------------------------------------


def test_every_optimum_that_is_printed_is_computed():
    theory, found = TopicTheory(10, 10), Optima.of(TopicGrammar())
    assert found.kept == theory.best_block(2).gamma
    assert found.attended == best_block(theory, 2).gamma
    assert (found.free, found.free_weight) == best_block(theory, 2, None)[:2]
    assert [round(x, 2) for x in (found.kept, found.attended)] == [6.26, 5.76]
