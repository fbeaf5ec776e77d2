"""Topic documents: the law, the masking, and the exact infinite documents."""

import numpy as np
import pytest

from interp import InterpError, TopicGrammar
from interp.grammars import grammar_from_dict

SMALL = TopicGrammar(3, 2, law="idealised", topics_per_document=2, min_length=5, max_length=9)


def test_vocabulary_and_topics_by_hand():
    assert SMALL.vocab == ("[MASK]", "t0w0", "t0w1", "t1w0", "t1w1", "t2w0", "t2w1")
    assert SMALL.topic_of.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert SMALL.to_tokens("t2w1 [MASK] t0w0").tolist() == [[6, 0, 1]]
    assert SMALL.format([6, 0, 1]) == "t2w1 [MASK] t0w0"


def test_documents_keep_their_topics_and_lengths():
    documents = SMALL.sample(500, seed=1)
    assert set(documents.lengths.tolist()) == {5, 6, 7, 8, 9}
    for words in documents.words:
        assert len(set(SMALL.topic_of[words[words >= 0]].tolist())) <= 2
    outside = documents.words < 0
    assert (documents.shown[outside] == -1).all()
    assert not documents.chosen[outside].any()


def test_what_is_not_chosen_is_shown():
    documents = TopicGrammar().sample(200, seed=2)
    assert (documents.shown == documents.words)[~documents.chosen].all()


def test_rates_of_masking():
    """40,000 positions a check: shares within five standard errors of the law."""
    grammar = TopicGrammar(mask_prob=0.3, keep_prob=0.2, random_prob=0.3)
    documents = grammar.sample(2000, seed=3)
    inside = documents.words >= 0
    chosen = documents.chosen[inside]
    shown, words = documents.shown[documents.chosen], documents.words[documents.chosen]
    count = chosen.sum()

    def near(found, share, n):
        assert abs(found - share) < 5 * np.sqrt(share * (1 - share) / n)

    near(chosen.mean(), 0.3, inside.sum())
    near((shown == 0).mean(), 0.5, count)
    near((shown == words).mean(), 0.2 + 0.3 / 100, count)


def test_dirichlet_proportions():
    """Mean share 1/T, and E[share^2] = (alpha + 1) / (T (T alpha + 1)), over documents long enough to show it."""
    grammar = TopicGrammar(num_topics=4, words_per_topic=1, alpha=0.5, min_length=400, max_length=400)
    words = grammar.sample(3000, seed=4).words
    share = np.stack([(words == t + 1).mean(1) for t in range(4)], 1)
    assert np.abs(share.mean(0) - 0.25).max() < 0.02  # absolute: four standard errors of 3,000 documents
    expected = 1.5 / (4 * 3)
    noise = (0.25 - expected) / 400
    assert np.square(share).mean() == pytest.approx(expected + noise, abs=0.004)  # absolute: so many documents


def test_a_tiny_alpha_still_draws_documents():
    documents = TopicGrammar(alpha=0.001).sample(300, seed=5)
    for words in documents.words:
        assert len(set(TopicGrammar().topic_of[words[words >= 0]].tolist())) <= 2


def test_the_same_seed_gives_the_same_documents_and_another_does_not():
    grammar = TopicGrammar()
    one, again, other = grammar.sample(5, seed=7), grammar.sample(5, seed=7), grammar.sample(5, seed=8)
    assert np.array_equal(one.words, again.words)
    assert np.array_equal(one.shown, again.shown)
    assert not np.array_equal(one.words, other.words)


def test_exact_law_by_hand():
    law = SMALL.word_law()
    assert law.tolist() == [
        [0, 0.25, 0.25, 0.25, 0.25, 0, 0],
        [0, 0.25, 0.25, 0, 0, 0.25, 0.25],
        [0, 0, 0, 0.25, 0.25, 0.25, 0.25],
    ]
    shown = SMALL.shown_law(law)
    a, other = 1 - 0.9 * 0.15, 0.15 * 0.1 / 6
    assert shown[0, 0] == pytest.approx(0.15 * 0.8)
    assert shown[0, 1] == pytest.approx(a / 4 + other)  # eq. 2.18
    assert shown[0, 5] == pytest.approx(other)  # eq. 2.19
    assert shown.sum(1) == pytest.approx(1)


def test_sampled_documents_follow_the_exact_shown_law():
    documents = SMALL.sample(20_000, seed=9)
    shown = np.bincount(documents.shown[documents.shown >= 0], minlength=7)
    expected = SMALL.shown_law(SMALL.word_law()).mean(0)
    n = shown.sum()
    # positions of a document share its topics, so the error is that of the documents
    assert np.abs(shown / n - expected).max() < 5 * np.sqrt(0.25 / 20_000)


def test_round_trip_and_kind():
    assert grammar_from_dict(SMALL.to_dict()) == SMALL
    with pytest.raises(InterpError, match="kind"):
        TopicGrammar.from_dict({"kind": "topics", "num_topics": 3})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_topics": 0}, "num_topics=0"),
        ({"words_per_topic": True}, "words_per_topic=True"),
        ({"num_topics": 1000, "words_per_topic": 1000}, "more than"),
        ({"law": "zipf"}, "law='zipf'"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"alpha": 0}, "alpha=0"),
        ({"min_length": 9, "max_length": 8}, "min_length=9"),
        ({"random_prob": -0.1}, "random_prob=-0.1"),
        ({"mask_prob": 1.1}, "mask_prob=1.1"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises(InterpError, match=message):
        TopicGrammar(**changes)


@pytest.mark.parametrize("text", ["t9w9", "", "t0w0 nonsense"])
def test_wrong_texts(text):
    with pytest.raises(InterpError):
        SMALL.to_tokens(text)


def test_documents_of_two_lengths_are_not_one_batch():
    with pytest.raises(InterpError, match="one length"):
        SMALL.to_tokens(["t0w0", "t0w0 t0w1"])


@pytest.mark.parametrize("count", [-1, 2.5, True, None, "x"])
def test_wrong_counts(count):
    with pytest.raises(InterpError, match="count="):
        SMALL.sample(count, seed=0)


@pytest.mark.parametrize("texts", [[1], 5, None, [["t0w0"]], b"t0w0", []])
def test_what_is_no_text(texts):
    with pytest.raises(InterpError):
        SMALL.to_tokens(texts)


@pytest.mark.parametrize("tokens", [[7], [1.5], None, ["a"]])
def test_what_is_no_row_of_ids(tokens):
    with pytest.raises(InterpError, match="token ids"):
        SMALL.format(tokens)


def test_topics_of_positions_by_a_literal_search():
    """The one search over all documents against a comparison a position."""
    from interp.rng import generator

    grammar = TopicGrammar(num_topics=7, words_per_topic=1, alpha=0.3, min_length=40, max_length=40)
    found = grammar._topics(generator(1, "x"), 50, 40)
    rng = generator(1, "x")
    weights = rng.standard_gamma(0.3, (50, 7))
    edges = np.cumsum(weights, axis=1) / weights.sum(1, keepdims=True)
    rng.integers(0, 7, 50)  # the topic of a document whose every weight is 0
    place = rng.random((50, 40))
    literal = [[sum(u >= e for e in row[:-1]) for u in us] for row, us in zip(edges, place, strict=True)]
    assert found.tolist() == literal
