"""The page of `topics-wikipedia`. Every sentence is made from the numbers."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from case_studies.page import Figure, Page, Section, Table
from case_studies.topics_wikipedia.corpus import BUNDLED_NAME, MAX_SHARE, MIN_DOCUMENTS
from case_studies.topics_wikipedia.figures import head_figure, ratio_figure
from case_studies.topics_wikipedia.findings import (
    BERT,
    COOCCURRENCE,
    FEWEST,
    FIVE,
    RANDOM_BERT,
    SHOWN_TOPICS,
    SHOWN_WORDS,
    TABLES,
    Findings,
)
from case_studies.topics_wikipedia.lda import PAPER_THRESHOLDS, WORDS, Mode, threshold_of_words
from case_studies.topics_wikipedia.measure import (
    DOCUMENT_DRAWS,
    PERMUTATIONS,
    REFERENCE_LENGTH,
    WORD_DRAWS,
    Contrast,
    Cooccurrence,
    Heads,
    Row,
)
from case_studies.words import Cell
from interp.numbers import ABSENT, UNDEFINED, estimate, interval, number, percent
from interp.stats import REALS, Estimate, mean_over_seeds

FEW_ARTICLES = 5  # a topic


def report(f: Findings, command: str) -> Page:
    """The report of the findings."""
    return Page(
        title="Topics in an encoder that read real text",
        asked=(
            f"Do words of one topic attend to each other more, and have more alike embeddings, in {f.model}? "
            f"{len(f.topics.share)} topics of {f.documents} articles ({f.corpus}) in the encoder's own tokens; "
            f"{f.trained.pieces} sequences read."
        ),
        said=[
            "In five pretrained encoders words attend more to words of their own topic, and have more alike "
            f"embeddings: in Bert {number(BERT['one'][FEWEST][2], 2)} and {number(BERT['one'][FEWEST][0], 2)} times as "
            f"much, {FEWEST} words a topic (Li et al. 2023, Tables 2.3, 2.4); in random ones 1.00 ± 0.01.",
            "Words that merely co-occur get more attention and have less alike embeddings (Table 2.5).",
        ],
        answer=answers(f),
        sure=(
            f"95 % intervals over {f.trained.rows[FEWEST, 'one'].attention.ratio.n} articles for attention and over "
            "words for embeddings. Beside them: topics permuted within each sequence, encoders of the same "
            "architecture at random, and other fits of the topics."
        ),
        lead=ratio_figure(f),
        compared=[claims_table(f), paper_table(f)],
        sections=[
            Section("One topic a word (Table 2.3)", [ratios_table(f, "one")]),
            Section("Several topics a word (Table 2.4)", [ratios_table(f, "several")]),
            Section("Every layer and head", head_parts(f)),
            Section("Randomly initialised", random_parts(f)),
            Section("Co-occurrence (Table 2.5)", cooccurrence_parts(f)),
            Section("What else could raise the ratio", control_parts(f)),
            Section("Hidden states", hidden_parts(f)),
            Section("The topics", [topics_table(f)]),
        ],
        settings=[settings_table(f)],
        command=command,
        digests=list(f.digests.items()),
    )


def answers(f: Findings) -> list[str]:
    """Three sentences, made from the numbers."""
    row, several = f.trained.rows[FEWEST, "one"], f.trained.rows[FEWEST, "several"]
    layers, heads = f.trained.heads[FEWEST].value.shape
    first = (
        f"Averaged over all {layers * heads} heads, words attend to another word of their own topic "
        f"{estimate(row.attention.ratio, 2, n=True)} times as much as to a word of another topic ({FEWEST} words a "
        f"topic, {row.attention.ratio.n} articles; {_permuted(row)} in {PERMUTATIONS} permutations of the topics "
        f"within each sequence); {random_sentence(f)}."
    )
    second = (
        f"Token embeddings of different words have a cosine of {estimate(row.cosine.same, 3, n=True)} within a topic "
        f"and {estimate(row.cosine.different, 3, n=True)} across topics, a ratio of "
        f"{estimate(row.cosine.ratio, 2, n=True)}; where a word may have several topics the ratios are "
        f"{estimate(several.cosine.ratio, 2, n=True)} (cosine) and {estimate(several.attention.ratio, 2, n=True)} "
        "(attention)."
    )
    return [first, second, cooccurrence_sentence(f.cooccurrence[0])]


def random_sentence(f: Findings) -> str:
    """How far the randomly initialised encoders stray from 1."""
    values = [m.rows[s].attention.ratio.value for m in f.random for s in m.rows]
    found = [v for v in values if v is not None]
    if not found:
        return "randomly initialised encoders give no ratio"
    furthest = max(found, key=lambda v: abs(v - 1))
    return (
        f"{len(f.random)} randomly initialised encoders of the same architecture give {number(float(np.mean(found)))} "
        f"(furthest of all settings: {number(furthest)})"
    )


def cooccurrence_sentence(c: Cooccurrence) -> str:
    """Table 2.5 in a sentence."""
    return (
        f"The {c.pairs} pairs of words that co-occur most get {_word(c.attention.difference, 'less', 'more')} "
        f"attention ({estimate(c.attention.different, 4, n=True)} against {estimate(c.attention.same, 4, n=True)} "
        f"within a topic) and have {_word(c.cosine.difference, 'less', 'more')} alike embeddings (cosine "
        f"{estimate(c.cosine.different, 2, n=True)} against {estimate(c.cosine.same, 2, n=True)}); the thesis reports "
        "more attention and less alike embeddings."
    )


def _word(difference: Estimate, positive: str, negative: str) -> str:
    """What an interval of a difference allows to say."""
    if difference.low is None or difference.high is None:
        return "perhaps " + positive
    if difference.low > 0:
        return positive
    if difference.high < 0:
        return negative
    return f"neither clearly {positive} nor {negative}"


def ratios_table(f: Findings, mode: Mode) -> Table:
    """One encoder's Table 2.3 or 2.4."""
    rows = []
    for words in WORDS:
        row = f.trained.rows[words, mode]
        same, different = f.trained.pairs[words, mode]
        rows.append(
            [
                f"{words}",
                Cell(row.cosine.ratio),
                Cell(row.dot.ratio),
                Cell(row.cosine.difference, 3),
                Cell(row.attention.ratio),
                _permuted(row),
                f"{row.distinct}",
                f"{same}, {different}",
            ]
        )
    kind = "Each word has one topic" if mode == "one" else "A word has every topic that keeps it"
    return Table(
        [
            "words a topic",
            "cosine ratio",
            "dot product ratio",
            "cosine, same minus different",
            "attention ratio",
            f"attention, topics permuted (n={PERMUTATIONS} permutations)",
            "words with a topic",
            "pairs read, same and different topic",
        ],
        rows,
        f"{caveat(f)} {kind}. Ratio: mean over pairs of different words of the same topic, by that over pairs of "
        "different topics (intervals: words resampled for embeddings, articles for attention). Attention: mean over "
        f"all layers and heads, times the sequence's length, by {REFERENCE_LENGTH}. Permuted: the topics of the words "
        f"of each sequence exchanged among them, mean [central 95 % of {PERMUTATIONS}]; not 1 where sequences of one "
        "topic have another amount of attention between words than those of several.",
    )


def caveat(f: Findings) -> str:
    """What kind of articles and how few: what a topic can be here."""
    first = "The dump holds the start of an alphabetical list (92 % of the titles begin with A)"
    asked = f"{f.topics.asked} topics are asked of {f.documents} articles"
    if f.documents < FEW_ARTICLES * f.topics.asked:
        asked += ', so "same topic" is close to "same article"'
    return f"{first}, and {asked}." if f.corpus == BUNDLED_NAME else f"{asked}."


def head_parts(f: Findings) -> list[str | Figure | Table]:
    """The ratio of each head, trained and at random."""
    rows = []
    for words, heads in f.trained.heads.items():
        found = heads.value[np.isfinite(heads.value)]
        order = np.argsort(-heads.value, axis=None)[: min(3, len(found))]  # NaN comes last
        best = [divmod(int(k), heads.value.shape[1]) for k in order]
        rows.append(
            [
                str(words),
                f"{heads.above} of {heads.value.size}",
                f"{heads.below} of {heads.value.size}",
                ABSENT if not f.random else f"{_strays(f, words)} of {heads.value.size * len(f.random)}",
                number(float(np.median(found)), 2) if len(found) else UNDEFINED,
                "; ".join(f"{layer}.{head}: {_head(heads, layer, head)}" for layer, head in best) or UNDEFINED,
            ]
        )
    table = Table(
        [
            "words a topic",
            "heads above 1",
            "heads below 1",
            "random encoders: heads not 1",
            "median head",
            "largest (layer.head)",
        ],
        rows,
        "One topic a word. Above and below: at 5 % after Holm's correction over all heads, from the bootstrap over "
        f"articles (95 %, n={f.trained.heads[FEWEST].n} articles). Random encoders show how often that test errs: it "
        "resamples articles and not words, so that a head's chance liking of a few words counts. Intervals of single "
        "heads are not corrected.",
    )
    shown = [(f.model, f.trained.heads[FEWEST])] + [(m.name, m.heads[FEWEST]) for m in f.random[:1]]
    return [
        Figure(
            head_figure(shown),
            f"Same-topic by different-topic attention of each head, one topic a word, {FEWEST} words a topic; red "
            "above 1, blue below. A star: not 1 after Holm's correction. Every head's interval is in results.json.",
        ),
        table,
    ]


def _head(heads: Heads, layer: int, head: int) -> str:
    value, low, high = (float(x[layer, head]) for x in (heads.value, heads.low, heads.high))
    known = bool(np.isfinite([low, high]).all())
    return f"{number(value, 2)} {interval(low if known else None, high, 2)}"


def _strays(f: Findings, words: int) -> int:
    """Heads of randomly initialised encoders that the test calls different from 1."""
    return sum(m.heads[words].above + m.heads[words].below for m in f.random)


def random_parts(f: Findings) -> list[str | Table]:
    """The same architecture with fresh weights."""
    rows = []
    for m in f.random:
        for words in WORDS:
            one, several = m.rows[words, "one"], m.rows[words, "several"]
            rows.append(
                [
                    f"{m.name}, {words} words",
                    Cell(one.attention.ratio, 4),
                    Cell(several.attention.ratio, 4),
                    Cell(one.cosine.difference, 4),
                ]
            )
    for words in WORDS:
        ratios = [_over_seeds([m.rows[words, mode].attention.ratio.value for m in f.random]) for mode in TABLES]
        differences = _over_seeds([m.rows[words, "one"].cosine.difference.value for m in f.random])
        rows.append([f"mean over seeds, {words} words", *(Cell(e, 4) for e in ratios), Cell(differences, 4)])
    first = f.random[0].rows[FEWEST, "one"] if f.random else None
    hidden = f.random[0].hidden[-1] if f.random else None
    parts: list[str | Table] = [
        "A fresh encoder of the same architecture attends almost evenly, so its attention ratio must be 1 once length "
        "is taken out. Its token embeddings are independent draws about 0: the mean cosine of two words is 0, and a "
        "ratio of two such means has no meaning. The difference of the means is what can be tested: it must be 0.",
        Table(
            [
                "encoder, words a topic",
                "attention ratio, one topic",
                "attention ratio, several topics",
                "cosine, same minus different",
            ],
            rows,
            "Intervals over articles (attention) and words (embeddings); of the means over seeds: over "
            f"{len(f.random)} seeds.",
        ),
    ]
    if first is not None and hidden is not None:
        parts.append(
            f"The thesis prints a cosine ratio of {number(RANDOM_BERT['one'][15][0], 5)} for randomly initialised "
            "Bert. A ratio so close to 1 needs vectors with a part in common, which rows of a random embedding matrix "
            f"lack (ours: cosine {number(first.cosine.same.value, 4)} within topics, "
            f"{number(first.cosine.different.value, 4)} across). Hidden states have one, the token type's vector and "
            f"more: in the last layer of {f.random[0].name} the cosine is {estimate(hidden.different, 2, n=True)} "
            f"across topics, its ratio {estimate(hidden.ratio, 3, n=True)}."
        )
    return parts


def cooccurrence_parts(f: Findings) -> list[str | Table]:
    """Words of one topic against the pairs that co-occur most."""
    names = [f"{c.pairs} ({c.words} words)" for c in f.cooccurrence]
    attention = [[Cell(x, 4) for x in _sides(c.attention)] for c in f.cooccurrence]
    cosine = [[Cell(x, 3) for x in _sides(c.cosine)] for c in f.cooccurrence]
    head = ["top pairs", "words of one topic", "co-occurring pairs", "same topic minus co-occurring"]
    shared = ", ".join(f"{c.shared} of {c.pairs}" for c in f.cooccurrence)
    often = "; ".join(f"{a} {b}" for a, b in f.often)
    return [
        Table(
            head,
            [[name, *row] for name, row in zip(names, attention, strict=True)],
            "Attention: mean over pairs. As many top pairs as one topic has pairs of words. A pair co-occurs in a "
            f"sequence that holds both words; counted over all {f.pieces} sequences. One topic a word. Differences "
            f"from the same resamples. Top pairs that are of one topic too: {shared}.",
        ),
        Table(head, [[name, *row] for name, row in zip(names, cosine, strict=True)], "Cosine of token embeddings."),
        f"The ten most frequent pairs: {often}.",
    ]


def _sides(c: Contrast) -> tuple[Estimate, Estimate, Estimate]:
    return c.same, c.different, c.difference


def control_parts(f: Findings) -> list[str | Table]:
    """Length, distance, and the luck of the topics."""
    rows = []
    for words in WORDS:
        row = f.trained.rows[words, "one"]
        raw = [m.rows[words, "one"].raw.ratio.value for m in f.random]
        rows.append(
            [
                str(words),
                Cell(row.attention.ratio),
                Cell(row.raw.ratio),
                _plain([m.rows[words, "one"].attention.ratio.value for m in f.random]),
                _plain(raw),
                Cell(row.matched.ratio),
                _permuted(row),
            ]
        )
    parts: list[str | Table] = [
        Table(
            [
                "words a topic",
                "attention ratio",
                "not debiased",
                "random, mean of seeds",
                "random, not debiased",
                "at equal distances",
                f"topics permuted (n={PERMUTATIONS} permutations)",
            ],
            rows,
            "Not debiased: attention as the encoder gave it, where longer sequences have less of it a pair. At equal "
            "distances: different-topic pairs weighed so that they lie as far apart as same-topic ones. All one topic "
            "a word.",
        )
    ]
    if len(f.variants) > 1:
        parts.append(
            Table(
                ["fit of the topics", "topics", "attention ratio", "cosine ratio", "cosine, same minus different"],
                [
                    [
                        v.name,
                        str(v.topics),
                        Cell(v.attention.ratio),
                        Cell(v.cosine.ratio),
                        Cell(v.cosine.difference, 3),
                    ]
                    for v in f.variants
                ],
                f"The same encoder and sequences, {FEWEST} words a topic, one topic a word; one setting of the fit "
                "changed at a time. Intervals do not cover the draw of latent Dirichlet allocation (LDA) itself.",
            )
        )
    return parts


def hidden_parts(f: Findings) -> list[str | Table]:
    """For information: cosine of hidden states of the same pairs."""
    rows = []
    for layer, own in enumerate(f.trained.hidden):
        random = f.random[0].hidden[layer] if f.random else None
        rows.append(
            [
                "embedding, with position" if layer == 0 else f"after layer {layer - 1}",
                Cell(own.same),
                Cell(own.different),
                Cell(own.difference, 3),
                Cell(own.ratio),
                Cell(None if random is None else random.ratio, 3),
            ]
        )
    return [
        Table(
            ["hidden state", "cosine, same topic", "different topic", "same minus different", "ratio", "random: ratio"],
            rows,
            f"Of the pairs whose attention was read, {FEWEST} words a topic, one topic a word; intervals over "
            f"{f.trained.hidden[0].ratio.n} articles. Not in the thesis. Layers are numbered from 0.",
        )
    ]


def topics_table(f: Findings) -> Table:
    """The likeliest words of the largest topics."""
    order = np.argsort(-f.topics.share, kind="stable")[:SHOWN_TOPICS]
    rows = [
        [
            " ".join(f.names[w] for w in f.topics.top(t, SHOWN_WORDS).tolist()),
            number(f.topics.share[t]),
        ]
        for t in order.tolist()
    ]
    return Table(
        ["likeliest words", "share"],
        rows,
        f"The {len(rows)} largest of {len(f.topics.share)}; share: mean over articles.",
    )


def claims_table(f: Findings) -> Table:
    """What the thesis says of the tables, and whether it holds here."""
    one = [f.trained.rows[w, "one"] for w in WORDS]
    several = [f.trained.rows[w, "several"] for w in WORDS]
    far = [abs(v - 1) for m in f.random for r in m.rows.values() if (v := r.attention.ratio.value) is not None]
    rows = [
        ["attention larger within topics (2.3)", "yes, 5 encoders", _all(c.attention.difference for c in one)],
        ["cosine larger within topics (2.3)", "yes, 5 encoders", _all(c.cosine.difference for c in one)],
        ["dot product larger within topics (2.3)", "yes, 5 encoders", _all(c.dot.difference for c in one)],
        ["attention larger, several topics (2.4)", "yes, 5 encoders", _all(c.attention.difference for c in several)],
        ["cosine larger, several topics (2.4)", "mostly", _all(c.cosine.difference for c in several)],
        [
            "attention ratio falls with more words a topic (2.3)",
            "yes: " + ", ".join(number(BERT["one"][w][2], 2) for w in WORDS),
            _falls([c.attention.ratio.value for c in one], ", "),
        ],
        [
            f"attention ratio lower with several topics, {FEWEST} words",
            f"yes: {number(BERT['one'][FEWEST][2], 2)} to {number(BERT['several'][FEWEST][2], 2)}",
            _falls([one[0].attention.ratio.value, several[0].attention.ratio.value], " to "),
        ],
        [
            "random encoders: attention ratio within 1.00 ± 0.01",
            "yes",
            ABSENT if not far else ("yes" if max(far) <= 0.01 else "no") + f" (furthest by {number(max(far), 4)})",
        ],
        [
            "less attention than co-occurring pairs (2.5)",
            "yes, Bert",
            _all((c.attention.difference for c in f.cooccurrence), -1),
        ],
        [
            "larger cosine than co-occurring pairs (2.5)",
            "yes, Bert",
            _all(c.cosine.difference for c in f.cooccurrence),
        ],
    ]
    return Table(
        ["statement", "thesis", "ours"],
        rows,
        f"Ours, by words a topic ({', '.join(map(str, WORDS))}): yes or no where the interval of the difference of "
        "means lies on one side of 0. Where ratios are given, their order is all that is meant.",
    )


def _falls(values: Sequence[float | None], between: str) -> str:
    found = [v for v in values if v is not None]
    if len(found) < len(values):
        return UNDEFINED
    falling = all(a > b for a, b in itertools.pairwise(found))
    return f"{'yes' if falling else 'no'}: " + between.join(number(v, 2) for v in found)


def _all(differences: Iterable[Estimate], sign: int = 1) -> str:
    """Yes, no or undecided for each, shortened where all agree."""
    found = []
    for e in differences:
        if e.low is None or e.high is None or e.low <= 0 <= e.high:
            found.append("undecided")
        else:
            found.append("yes" if sign * e.low > 0 else "no")
    return found[0] if len(set(found)) == 1 else ", ".join(found)


def paper_table(f: Findings) -> Table:
    """The thesis's numbers beside ours."""
    rows = []
    for mode, table in TABLES.items():
        for words in WORDS:
            row = f.trained.rows[words, mode]
            ours = (row.cosine.ratio, row.dot.ratio, row.attention.ratio)
            for k, name in enumerate(("cosine", "dot product", "attention")):
                rows.append(
                    [
                        f"{table}, {name}, {words} words",
                        number(BERT[mode][words][k], 2),
                        FIVE[mode][words][k],
                        Cell(ours[k]),
                    ]
                )
    for words in WORDS:
        mean = _over_seeds([m.rows[words, "one"].attention.ratio.value for m in f.random])
        rows.append(
            [
                f"2.3, attention, randomly initialised, {words} words",
                number(RANDOM_BERT["one"][words][2], 5),
                "",
                Cell(mean, 4),
            ]
        )
    for c in f.cooccurrence:
        ours4 = (c.attention.same, c.attention.different, c.cosine.same, c.cosine.different)
        names = ("attention, same topic", "attention, co-occurring", "cosine, same topic", "cosine, co-occurring")
        for name, value, e in zip(names, COOCCURRENCE[c.words], ours4, strict=True):
            rows.append([f"2.5, {name}, {c.pairs} pairs", f"{value:.5g}", "", Cell(e, 4 if "att" in name else 3)])
    return Table(
        ["table, quantity", "thesis, Bert", "thesis, range of 5 encoders", "ours"],
        rows,
        f"What differs: {f.model} instead of Bert and four others; {f.documents} articles instead of a larger sample "
        f"whose size is not stated. {caveat(f)} Words a topic as in the thesis, which are other thresholds of our "
        f"vocabulary of {f.vocabulary} words ({_thresholds(f)}). The thesis does not say how layers and heads are put "
        "together (ours: the mean over all), what a sequence is, or which topic a word keeps, and gives no interval.",
    )


def _thresholds(f: Findings) -> str:
    return ", ".join(f"{number(threshold_of_words(w, f.vocabulary), 4)} for {PAPER_THRESHOLDS[w]:g}" for w in WORDS)


def settings_table(f: Findings) -> Table:
    """What was read and fitted, how."""
    rows = [
        ["encoder", f.model],
        ["corpus", f"{f.corpus}: {f.documents} articles, {f.pieces} sequences, {f.tokens} tokens"],
        ["sequence", f"a paragraph, cut at {f.longest} tokens with the special ones"],
        ["sequences read", f"{f.trained.pieces} ({f.trained.tokens} tokens), as many from each article, evenly spaced"],
        [
            "words",
            f"{f.vocabulary}: one token, letters only, two or more, no stop word of gensim's list, in {MIN_DOCUMENTS} "
            f"articles at least and {percent(MAX_SHARE)} at most",
        ],
        [
            "topics",
            "gensim's latent Dirichlet allocation (LDA), tf-idf, an article a document, "
            f"{f.passes} passes, seed {f.seed}",
        ],
        ["topics asked and in use", f"{f.topics.asked}, {len(f.topics.share)}: those that lead in an article"],
        ["tie-break", "a word kept by several topics stays where its likelihood is highest"],
        ["pairs", "different words at two positions of a sequence, attention both ways; never a word with itself"],
        ["intervals", f"percentile bootstrap: {DOCUMENT_DRAWS} draws of articles, {WORD_DRAWS} draws of words"],
    ]
    return Table(["setting", "value"], rows)


# -- numbers as text --------------------------------------------------------------------------------------------


def _over_seeds(values: Sequence[float | None]) -> Estimate:
    return mean_over_seeds([v for v in values if v is not None], support=REALS)  # ratios of noise around 0, too


def _plain(values: Sequence[float | None]) -> str:
    found = [v for v in values if v is not None]
    return number(float(np.mean(found)) if found else None) if values else ABSENT


def _permuted(row: Row) -> str:
    null = row.attention.ratio.null
    drawn = null.get("permuted_topics") if isinstance(null, Mapping) else None
    if drawn is None or drawn["mean"] is None:
        return ABSENT
    return f"{number(drawn['mean'], 2)} {interval(drawn['low'], drawn['high'], 2)}"
