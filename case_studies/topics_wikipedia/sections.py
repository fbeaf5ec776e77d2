"""The sections of the page of `topics-wikipedia`, one function each."""

from collections.abc import Mapping, Sequence

import numpy as np

from case_studies.page import Figure, Table
from case_studies.topics_wikipedia.corpus import BUNDLED_NAME
from case_studies.topics_wikipedia.figures import head_figure
from case_studies.topics_wikipedia.findings import FEWEST, RANDOM_BERT, SHOWN_TOPICS, SHOWN_WORDS, TABLES, Findings
from case_studies.topics_wikipedia.lda import WORDS, Mode
from case_studies.topics_wikipedia.length import length_parts
from case_studies.topics_wikipedia.measure import PERMUTATIONS, REFERENCE_LENGTH, Contrast, Heads, Row
from case_studies.topics_wikipedia.tried import LAYER_NAMES
from case_studies.words import Cell
from case_studies.words import Row as Cells
from interp.numbers import ABSENT, UNDEFINED, estimate, interval, number
from interp.stats import REALS, Estimate, mean_over_seeds

FEW_ARTICLES = 5  # a topic


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
                permuted(row),
                f"{row.distinct}",
                f"{same}, {different}",
            ]
        )
    kind = "Each word has one topic" if mode == "one" else "A word has every topic that keeps it"
    return Table(
        [
            "words per topic",
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
        "different topics (intervals: over words for embeddings, over articles for attention). Attention: mean over "
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
            "words per topic",
            "heads above 1",
            "heads below 1",
            "random encoders: heads not 1",
            "median head",
            "largest (layer.head)",
        ],
        rows,
        "One topic per word. Above and below: at 5 % after Holm's correction over all heads, from the jackknife over "
        f"articles (95 %, n={f.trained.heads[FEWEST].n} articles). Random encoders show how often that test errs: it "
        "leaves out articles and not words, so that a head's chance liking of a few words counts. Intervals of single "
        "heads are not corrected.",
    )
    shown = [(f.model, f.trained.heads[FEWEST])] + [(m.name, m.heads[FEWEST]) for m in f.random[:1]]
    return [
        Figure(
            head_figure(shown),
            f"Same-topic by different-topic attention of each head, one topic per word, {FEWEST} words per topic; red "
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
        ratios = [over_seeds([m.rows[words, mode].attention.ratio.value for m in f.random]) for mode in TABLES]
        differences = over_seeds([m.rows[words, "one"].cosine.difference.value for m in f.random])
        rows.append([f"mean over seeds, {words} words", *(Cell(e, 4) for e in ratios), Cell(differences, 4)])
    first = f.random[0].rows[FEWEST, "one"] if f.random else None
    hidden = f.random[0].hidden[-1] if f.random else None
    parts: list[str | Table] = [
        "A fresh encoder of the same architecture attends almost evenly, so its attention ratio must be 1 once length "
        "is corrected for. Its token embeddings are independent draws about 0: the mean cosine of two words is 0, and "
        "a ratio of two such means has no meaning. The difference of the means is what can be tested: it must be 0.",
        Table(
            [
                "encoder, words per topic",
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
    return [*parts, *layer_parts(f)]


def layer_parts(f: Findings) -> list[str | Table]:
    """Words after the embedding layer: with the token type's vector, which all share, and normed."""
    names = list(f.trained.rows[FEWEST, "one"].layer)
    if not names or not f.random:
        return []
    rows: list[Cells] = []
    for m in (f.trained, *f.random):
        for name in names:
            for at, kind in enumerate(("cosine", "dot product")):
                ratios = [m.rows[words, "one"].layer[name][at].ratio for words in WORDS]
                rows.append([f"{m.name}, {LAYER_NAMES[name]}, {kind}", *(Cell(r, 4) for r in ratios)])
    drawn = [c.ratio for m in f.random for row in m.rows.values() for pair in row.layer.values() for c in pair]
    near = [r for r in drawn if r.low is not None and r.high is not None and r.low >= 0.99 and r.high <= 1.01]
    trained = f.trained.rows[FEWEST, "one"]
    told = ", ".join(f"{LAYER_NAMES[name]} {estimate(trained.layer[name][0].ratio, 2, n=True)}" for name in names)
    return [
        "Bert's embedding layer adds the vector of the token type to the row of every word, and norms the sum: a part "
        f"in common. Of such vectors {len(near)} of the {len(drawn)} ratios of random encoders lie with their whole "
        "intervals within 0.99 and 1.01, as the thesis prints. Which vectors it took it does not say; norming makes "
        "all vectors of a random network equally long, so that the two ratios are one, and the thesis prints two. Of "
        f"the trained encoder they make another cosine ratio, {FEWEST} words per topic, of what is "
        f"{estimate(trained.cosine.ratio, 2, n=True)} for the rows themselves: {told}.",
        Table(
            ["encoder, vectors, ratio", *(f"{words} words per topic" for words in WORDS)],
            rows,
            "Same by different topic, one topic per word (several: in results.json), over words, at no position.",
        ),
    ]


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
            f"sequence that holds both words; counted over all {f.pieces} sequences. One topic per word. Top "
            f"pairs that are of one topic too: {shared}.",
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
                permuted(row),
            ]
        )
    parts: list[str | Table] = [
        Table(
            [
                "words per topic",
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
                f"The same encoder and sequences, {FEWEST} words per topic, one topic per word; one setting of the fit "
                "changed at a time. Intervals do not cover the draw of latent Dirichlet allocation (LDA) itself.",
            )
        )
    return [*parts, *length_parts(f.cuts)]


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
            f"Of the pairs whose attention was read, {FEWEST} words per topic, one topic per word; intervals over "
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


def over_seeds(values: Sequence[float | None]) -> Estimate:
    """Their mean, with its interval over seeds."""
    return mean_over_seeds([v for v in values if v is not None], support=REALS)  # ratios of noise around 0, too


def _plain(values: Sequence[float | None]) -> str:
    found = [v for v in values if v is not None]
    return number(float(np.mean(found)) if found else None) if values else ABSENT


def permuted(row: Row) -> str:
    """What permuted topics give in the place of the attention ratio, as text."""
    null = row.attention.ratio.null
    drawn = null.get("permuted_topics") if isinstance(null, Mapping) else None
    if drawn is None or drawn["mean"] is None:
        return ABSENT
    return f"{number(drawn['mean'], 2)} {interval(drawn['low'], drawn['high'], 2)}"
