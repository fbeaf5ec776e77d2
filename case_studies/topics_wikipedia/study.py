"""`topics-wikipedia`: do words of one topic attend to each other more in a real encoder on real text?

Li, Li, Risteski 2023, thesis section 2.1.5.4 and 2.1.6.2, Tables 2.3-2.5: topics by latent Dirichlet
allocation (LDA) on Wikipedia in the encoder's
own tokens, then attention and likeness of embeddings of words of one topic against words of different ones, beside
the same architecture randomly initialised, and beside the pairs of words that co-occur most. Nothing here states a
finding in advance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from case_studies.study import Run, Study
from case_studies.topics_wikipedia import DECLARED
from case_studies.topics_wikipedia import corpus as text
from case_studies.topics_wikipedia.attention import Reading, read_encoder
from case_studies.topics_wikipedia.encoder import Encoder, load_encoder, randomly_initialised
from case_studies.topics_wikipedia.findings import Findings, Measured, Variant
from case_studies.topics_wikipedia.lda import (
    WORDS,
    Labels,
    Setting,
    Topics,
    all_labels,
    fit,
    memberships,
    setting_name,
    threshold_of_words,
)
from case_studies.topics_wikipedia.length import Cut, of_random, way_name, ways_to_cut
from case_studies.topics_wikipedia.measure import (
    against_cooccurrence,
    attention_contrast,
    embedding_contrast,
    every_head,
    measure_row,
    over_documents,
    pairs_of_words,
    unit_rows,
)
from case_studies.topics_wikipedia.nine import nine_words
from case_studies.topics_wikipedia.report import report
from case_studies.topics_wikipedia.stages import Length, StageRuns, two_stages
from case_studies.topics_wikipedia.tried import fits as shared_fits
from case_studies.topics_wikipedia.tried import other_pairs, with_every_token
from interp.errors import AnalysisError, RequestError, quoted
from interp.rng import check_seed


@dataclass(frozen=True)
class Size:
    """How much is read and fitted."""

    topics: int
    passes: int  # of LDA over the corpus
    documents: int  # at most
    sequences: int  # read by each encoder, at most
    random_encoders: int
    variants: bool  # other fits of the topics, words and ways to cut the articles too
    stages: Length  # of the models of Fig. 2.9
    corpus: str | Path | None = None
    model: str | Path | None = None
    seed: int = 0


QUICK = Size(
    topics=40, passes=10, documents=400, sequences=300, random_encoders=2, variants=False, stages=Length(1, 40, 16)
)
FULL = Size(
    topics=100, passes=30, documents=5000, sequences=1200, random_encoders=3, variants=True, stages=Length(2, 400, 64)
)


def prepare(
    size: Size,
    corpus: str | Path | None = None,
    model: str | Path | None = None,
    topics: int | None = None,
    sequences: int | None = None,
    seed: int = 0,
) -> Size:
    """The size with what was asked for besides."""
    asked = _at_least("topics", size.topics if topics is None else topics, 2)
    total = _at_least("sequences", size.sequences if sequences is None else sequences, 1)
    check_seed(seed)
    for name, given in (("corpus", corpus), ("model", model)):
        if given is not None and not isinstance(given, (str, Path)):
            raise RequestError(f"{name}={quoted(given)} is not a path{' or a name' if name == 'model' else ''}")
    return replace(size, topics=asked, sequences=total, corpus=corpus, model=model, seed=seed)


def _at_least(name: str, value: Any, least: int) -> int:
    number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or int(value) != value or value < least:
        raise RequestError(f"{name}={quoted(value)} is not a whole number of at least {least}")
    return int(value)


def collect(run: Run[Size]) -> Findings:
    """Everything that the page says."""
    size, seed = run.size, run.size.seed
    path = text.check_corpus(size.corpus)
    stop = text.gensim_part("parsing.preprocessing").STOPWORDS
    encoder = load_encoder(size.model)
    documents = text.read_corpus(path, size.documents)
    if len(documents) < size.topics:
        raise RequestError(
            f"the corpus has {len(documents)} documents, fewer than {size.topics} topics: give more documents, or "
            "ask for fewer topics"
        )
    pieces = text.cut(documents, encoder.tokenizer, encoder.longest)
    vocabulary = text.find_vocabulary(pieces, encoder.tokenizer, stop, len(documents))
    text.check_vocabulary(vocabulary, max(WORDS), encoder.name)
    counts = text.counts_by_document(pieces, vocabulary, len(documents))
    chosen = text.choose(pieces, vocabulary, size.sequences)
    if not chosen:
        raise AnalysisError(f"no paragraph of the corpus holds two different words of {len(vocabulary)}")

    topics = fit(counts, size.topics, size.passes, seed)
    labels = all_labels(topics)
    count = len(documents)
    reading = read_encoder(encoder, chosen, vocabulary, labels, count)
    vectors, layer = encoder.embedding[vocabulary.ids], encoder.embedding_layer(vocabulary.ids)
    trained = measured(reading, labels, vectors, layer, count, seed, permute=True)
    random, random_nine = [], []
    cuts = ways_to_cut(documents, encoder, vocabulary, labels, size.sequences) if size.variants else []
    for number in range(size.random_encoders):
        fresh = randomly_initialised(encoder, seed, number)
        own = read_encoder(fresh, chosen, vocabulary, labels, count)
        rows = fresh.embedding[vocabulary.ids]
        random.append(measured(own, labels, rows, fresh.embedding_layer(vocabulary.ids), count, seed))
        random_nine.append(nine_words(fresh.name, encoder.tokenizer, fresh.embedding))
        cuts = [_read_uncut(way, encoder, fresh, vocabulary, labels, count) for way in cuts]
    top = text.cooccurrence(pieces, vocabulary, pairs_of_words(max(WORDS)))
    table = [against_cooccurrence(reading.pairs, vectors, labels[words, "one"], words, top, count) for words in WORDS]
    fits = variants(counts, size, seed) if size.variants else {}
    others = other_pairs(pieces, vocabulary, counts, reading.pairs, vectors, layer, labels, count)
    if size.variants:
        wide, tokens = text.every_token(pieces, encoder.tokenizer, stop)
        every = fit(text.counts_by_document(wide, tokens, count), size.topics, size.passes, seed)
        others.append(with_every_token(wide, tokens, encoder.embedding[tokens.ids], all_labels(every)))
    return Findings(
        model=encoder.name,
        corpus=text.corpus_name(size.corpus, path),
        documents=count,
        pieces=len(pieces),
        tokens=sum(len(p.ids) for p in pieces),
        vocabulary=len(vocabulary),
        longest=encoder.longest,
        topics=topics,
        passes=size.passes,
        seed=seed,
        names=vocabulary.names,
        trained=trained,
        random=random,
        cooccurrence=table,
        often=[(vocabulary.names[i], vocabulary.names[j]) for i, j in top[:10].tolist()],
        variants=[
            variant(name, fitted, reading, vectors, count) for name, fitted in {"as above": topics, **fits}.items()
        ],
        shared=shared_fits({"as above": topics, **fits}, counts, reading.pairs, vectors, count),
        others=others,
        cuts=cuts,
        nine=nine_words(encoder.name, encoder.tokenizer, encoder.embedding),
        random_nine=random_nine,
        stages=two_stages(pieces, encoder.tokenizer.all_special_ids, size.stages, seed),
        digests={
            f"weights of {encoder.name}": encoder.digest,
            f"corpus {path.name}": text.sha256_of(path),
        },
    )


def _read_uncut(
    way: Cut,
    encoder: Encoder,
    fresh: Encoder,
    vocabulary: text.Vocabulary,
    labels: Mapping[Setting, Labels],
    documents: int,
) -> Cut:
    """With what a randomly initialised encoder gives, where even attention says that there is something to see."""
    if way.name == way_name(encoder.longest) or not way.larger:
        return way
    reading = read_encoder(fresh, way.pieces, vocabulary, {}, documents)
    return replace(way, random=(*way.random, of_random(reading, labels, documents)))


def measured(
    reading: Reading,
    labels: Mapping[Setting, Labels],
    vectors: Any,
    layer: Mapping[str, Any],
    documents: int,
    seed: int,
    permute: bool = False,
) -> Measured:
    """One encoder's tables: every setting, every head, every layer's hidden states."""
    layers, heads = reading.shape
    rows = {
        setting: measure_row(setting, own, reading.pairs, vectors, documents, seed, permute=permute, layer=layer)
        for setting, own in labels.items()
    }
    hidden = [over_documents(reading.sums[WORDS[0], "one"], layers * heads + k) for k in range(layers + 1)]
    return Measured(
        name=reading.name,
        pieces=reading.pieces,
        tokens=reading.tokens,
        pairs={s: _pairs(reading, s) for s in labels},
        rows=rows,
        heads={words: every_head(reading.sums[words, "one"], reading.shape) for words in WORDS},
        hidden=hidden,
    )


def _pairs(reading: Reading, setting: Setting) -> tuple[int, int]:
    sums = reading.sums[setting]
    return int(sums.same_n.sum()), int(sums.different_n.sum())


def variants(counts: Any, size: Size, seed: int) -> dict[str, Topics]:
    """Other fits of the same corpus."""
    return {
        "another draw of LDA": fit(counts, size.topics, size.passes, seed + 1),
        "a third draw of LDA": fit(counts, size.topics, size.passes, seed + 2),
        "word counts instead of tf-idf": fit(counts, size.topics, size.passes, seed, tfidf=False),
        "one pass, as the released code": fit(counts, size.topics, 1, seed),
        "topics without a document kept": fit(counts, size.topics, size.passes, seed, unused=True),
    }


def variant(name: str, topics: Topics, reading: Reading, vectors: Any, documents: int) -> Variant:
    """What one fit of the topics gives, with one topic per word and the fewest words."""
    labels = Labels.of(memberships(topics.likelihood, WORDS[0], "one"))
    attention = attention_contrast(reading.pairs, labels, documents)
    return Variant(name, len(topics.share), attention, embedding_contrast(unit_rows(vectors), labels))


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    return {
        "model": f.model,
        "corpus": f.corpus,
        "documents": f.documents,
        "sequences": f.pieces,
        "tokens": f.tokens,
        "vocabulary": f.vocabulary,
        "topics": {"asked": f.topics.asked, "in_use": len(f.topics.share), "passes": f.passes},
        "thresholds": {str(w): threshold_of_words(w, f.vocabulary) for w in WORDS},
        "inputs": "articles",
        "trained": _encoder_results(f.trained),
        "randomly_initialised": [_encoder_results(m) for m in f.random],
        "cooccurrence": [row.to_dict() for row in f.cooccurrence],
        "variants": {
            v.name: {"topics": v.topics, "attention": v.attention.to_dict(), "cosine": v.cosine.to_dict()}
            for v in f.variants
        },
        "tried": {
            "several_topics": {s.name: s.to_dict() for s in f.shared},
            "cooccurrence": {t.name: t.to_dict() for t in f.others},
        },
        "length": {way.name: way.to_dict() for way in f.cuts},
        "nine_words": [n.to_dict() for n in (f.nine, *f.random_nine)],
        "two_stages": {s.setting.name: _stage_results(s) for s in f.stages},
    }


def _stage_results(s: StageRuns) -> dict[str, Any]:
    names = ("boundary", "share", "value_done", "attention_done")
    layers = [
        {"two_stages": r.two_stages, "reason": r.reason, **{n: getattr(r, n).to_dict() for n in names}}
        for r in s.layers
    ]
    return {"loss": list(s.loss), "layers": layers, "diverged_at": list(s.diverged)}


def _encoder_results(m: Measured) -> dict[str, Any]:
    return {
        "name": m.name,
        "sequences_read": m.pieces,
        "tokens_read": m.tokens,
        "settings": {
            setting_name(setting): {
                "same_topic_pairs": m.pairs[setting][0],
                "different_topic_pairs": m.pairs[setting][1],
                **row.to_dict(),
            }
            for setting, row in m.rows.items()
        },
        "heads": {str(words): heads.to_dict() for words, heads in m.heads.items()},
        "hidden_states": [c.to_dict() for c in m.hidden],
    }


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, prepare=prepare)


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    corpus: str | Path | None = None,
    model: str | Path | None = None,
    topics: int | None = None,
    sequences: int | None = None,
    seed: int = 0,
) -> Path:
    """Fit the topics, read the text with every encoder, and write the report; return the path of its page.

    - `corpus`: a MediaWiki dump (.xml.bz2, .xml), a text file with one document per line, a .json file of articles
      (title -> {"extract": text}), or "vital-articles", which a package carries; None: gensim's short dump.
    - `model`: a Hugging Face folder or name of an encoder; None: the one that a package carries.
    - `topics`, `sequences` replace what `full` says. `workers` is not used: one process does it.

    A wrong request ends before anything long begins.
    """
    return STUDY.run(out, full, workers, corpus=corpus, model=model, topics=topics, sequences=sequences, seed=seed)
