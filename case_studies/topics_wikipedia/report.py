"""The page of `topics-wikipedia`. Every sentence is made from the numbers."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from case_studies.page import Page, Section, Table
from case_studies.topics_wikipedia.corpus import MAX_SHARE, MIN_DOCUMENTS
from case_studies.topics_wikipedia.figures import ratio_figure
from case_studies.topics_wikipedia.findings import BERT, COOCCURRENCE, FEWEST, FIVE, RANDOM_BERT, TABLES, Findings
from case_studies.topics_wikipedia.lda import PAPER_THRESHOLDS, WORDS, threshold_of_words
from case_studies.topics_wikipedia.measure import PERMUTATIONS, Cooccurrence
from case_studies.topics_wikipedia.nine import nine_parts
from case_studies.topics_wikipedia.sections import (
    caveat,
    control_parts,
    cooccurrence_parts,
    head_parts,
    hidden_parts,
    over_seeds,
    permuted,
    random_parts,
    ratios_table,
    topics_table,
)
from case_studies.topics_wikipedia.stages_page import stage_parts
from case_studies.topics_wikipedia.tried import tried_parts
from case_studies.words import Cell
from interp.numbers import ABSENT, UNDEFINED, estimate, number, percent
from interp.stats import Estimate


def report(f: Findings, command: str) -> Page:
    """The report of the findings."""
    return Page(
        title="Topics in an encoder that read real text",
        asked=(
            f"Do words of one topic attend to each other more, and have more similar embeddings, in {f.model}? "
            f"{len(f.topics.share)} topics of {f.documents} articles ({f.corpus}) in the encoder's own tokens; "
            f"{f.trained.pieces} sequences read."
        ),
        said=[
            "In five pretrained encoders words attend more to words of their own topic, and have more alike "
            f"embeddings: in Bert {number(BERT['one'][FEWEST][2], 2)} and {number(BERT['one'][FEWEST][0], 2)} times as "
            f"much, {FEWEST} words per topic (Li et al. 2023, Tables 2.3, 2.4); in random ones 1.00 ± 0.01.",
            "Words that merely co-occur get more attention and have less similar embeddings (Table 2.5).",
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
            Section("One topic per word (Table 2.3)", [ratios_table(f, "one")]),
            Section("Several topics per word (Table 2.4)", [ratios_table(f, "several")]),
            Section("Every layer and head", head_parts(f)),
            Section("Nine words (Fig. 2.3)", nine_parts(f.nine, f.random_nine)),
            Section("Randomly initialised", random_parts(f)),
            Section("Co-occurrence (Table 2.5)", cooccurrence_parts(f)),
            Section("What was tried for Tables 2.4 and 2.5", tried_parts(f.shared, f.others)),
            Section("What else could raise the ratio", control_parts(f)),
            Section("Hidden states", hidden_parts(f)),
            Section("Two stages of a model of four layers (Fig. 2.9)", stage_parts(f.stages)),
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
        f"{estimate(row.attention.ratio, 2, n=True)} times as much as to a word of another topic ({FEWEST} words "
        f"per topic, {row.attention.ratio.n} articles; {permuted(row)} in {PERMUTATIONS} permutations of the topics "
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
        f"within a topic) and have {_word(c.cosine.difference, 'less', 'more')} similar embeddings (cosine "
        f"{estimate(c.cosine.different, 2, n=True)} against {estimate(c.cosine.same, 2, n=True)}); the thesis reports "
        "more attention and less similar embeddings."
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
            "attention ratio falls with more words per topic (2.3)",
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
        f"Ours, by words per topic ({', '.join(map(str, WORDS))}): yes or no where the interval of the difference of "
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
        mean = over_seeds([m.rows[words, "one"].attention.ratio.value for m in f.random])
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
        [
            "intervals",
            "delete-one jackknife over articles (attention) or words (embeddings); ratios by their logarithm",
        ],
    ]
    return Table(["setting", "value"], rows)
