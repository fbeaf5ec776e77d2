"""Topic blocks: does a matrix of word pairs hold the topics, as blocks or only as a diagonal?

Li, Li, Risteski 2023 look at heatmaps of W^V, of W^E^T W^E and of average attention (thesis section 2.1.5). Without L2
only the sums over a topic's columns are identified, up to an offset a row (Theorems 2.1.1, 2.1.4), so everything here
is taken within rows: same-topic less different-topic entries, as a share of the row's variance. A diagonal matrix is
as good an optimum as a block matrix and tells nothing about topics; the two are told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from interp.checks import not_read, one_of, true_or_false, whole_number
from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import check_precision, grammar_of, hosting, untrained_of
from interp.rng import check_seed
from interp.stats import Estimate
from interp.worlds.topics.theory import TopicTheory
from probes.core import recorded
from probes.topics.aim import Aim, aim_of, outside_theory
from probes.topics.attention import PairSums, attention_sums, documents, relations
from probes.topics.blocks_result import TopicBlocksResult
from probes.topics.clusters import Spectrum, adjusted_rand, estimate_count, rand_estimate
from probes.topics.inputs import check_size, finite, members, stack, value_map, weight
from probes.topics.permutations import (
    ALPHA,
    FEWEST_PERMUTATIONS,
    MOST_PERMUTATIONS,
    diagonal_test,
    p_value,
    relabellings,
    structure_of,
    topic_test,
    unit_of,
)
from probes.topics.rows import estimate_of, nulls_of, ratios_of, rows_of
from probes.topics.words import Array, Kind, Words, words_of

FIELDS = ("contrast", "contrast_off_diagonal", "raw_contrast", "raw_contrast_off_diagonal", "uniformity")
NO_LABELS = "no topic labels were given: pass labels=, one topic a row"


@recorded
@hosting("topic blocks")
def analyze_topic_blocks(
    model: Any,
    *,
    labels: ArrayLike | None = None,
    grammar: Any = None,
    matrix: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
    seed: int = 0,
    permutations: int = 2000,
    theory: TopicTheory | None = None,
    inputs: ArrayLike | None = None,
    untrained: bool = True,
) -> TopicBlocksResult:
    """Topic structure of a model, a population (or list of models), a matrix [n, n] or a stack [S, n, n] of seeds.

    `labels`
        Topic of each row [n], any whole numbers; below 0: left out ([MASK] and other specials). Default: the grammar's.
        A matrix without labels gets the blind recovery and the diagonality alone.
    `matrix`
        Of a model: "value", from the attended token to logits, (W_E W_V W_O W_U)^T [predicted, attended], which is W^V
        itself where embedding and unembedding are identities; "embedding", W_E W_E^T; "attention", the weight
        [query, key] averaged by pairs of words. Default: "value" for one-hot embeddings, else "embedding". Beside an
        array it says what the array is (default "value"), which decides on the theory.
    `layer`, `head`
        Which, from 0, or negative from the end; `layer=None`: the last; `head=None`: the sum of all heads' maps, the
        mean of their attention. An embedding and a given array have none.
    `theory`
        Default: that of the grammar, for arrays and for models of even attention not trained with another loss than
        the squared one. It applies where [MASK] is the one row left out and topics have equal sizes.
    `inputs`
        For "attention": token ids [batch, pos]. Default: 500 unmasked documents of the grammar, all cut to one length.
    `untrained`
        Measures the config and seeds before training as well, where they can be rebuilt. A given array has none.

        >>> import numpy as np
        >>> from probes import analyze_topic_blocks
        >>> blocks = np.kron(np.eye(3), np.ones((4, 4)))  # three topics of four words
        >>> print(analyze_topic_blocks(blocks, labels=np.repeat(range(3), 4)).contrast)
        1.000 [1.000, 1.000] (n=12 words)

    Source: Li et al. 2023, Theorems 2.1.1 to 2.1.4; contrast and its tests are ours.

    Raises `RequestError` or `AnalysisError` for labels that do not fit, fewer than two topics, a topic of one word, a
    matrix that is not square or not finite, or a model without the weights asked for.
    """
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    permutations = whole_number("permutations", permutations, FEWEST_PERMUTATIONS, MOST_PERMUTATIONS)
    if matrix is not None and not one_of(matrix, get_args(Kind)):
        raise RequestError(f"matrix={quoted(matrix)} is not one of {', '.join(get_args(Kind))}")
    pick = _Pick(matrix, layer, head, seed, inputs, grammar, untrained)
    if theory is not None and not isinstance(theory, TopicTheory):
        raise RequestError(f"theory={quoted(theory)} is {type(theory).__name__}, and a TopicTheory is needed")
    check_size(model, matrix == "attention", permutations)
    source = _source(model, pick)
    words = words_of(labels, source.grammar, source.matrices.shape[-1])
    start = None
    fresh = untrained_of(model) if untrained and source.models is not None else None
    if fresh is not None:
        start = _headline(_source(fresh, replace(pick, matrix=source.kind)).matrices, words, seed)
    outside = None if source.models is None else outside_theory(model, source.models)
    aim = aim_of(theory, source.kind, source.grammar, words, outside)
    return _result(source, words, start, aim, seed, permutations)


# -- from what was given to matrices ---------------------------------------------------------------


@dataclass(frozen=True)
class _Pick:
    matrix: Kind | None
    layer: int | None
    head: int | None
    seed: int
    inputs: Any
    grammar: Any
    untrained: bool


@dataclass(frozen=True)
class _Source:
    """`matrices` [S, n, n], of `kind` as far as the theory goes, `name`d so in the result.

    `biases` [S, n]: what the models add to each output; `models`: None for arrays.

    `pairs`: for attention, sums and counts by pair of words, one a matrix.
    """

    matrices: Array
    kind: Kind
    name: str
    grammar: Any
    biases: Array | None = None
    models: Sequence[Any] | None = None
    pairs: tuple[PairSums, ...] = ()
    notes: tuple[str, ...] = ()


def _source(model: Any, pick: _Pick) -> _Source:
    models = members(model)
    if models is None:
        off = None if pick.untrained else False
        not_read("a matrix was given", layer=pick.layer, head=pick.head, inputs=pick.inputs, untrained=off)
        return _Source(stack(model), pick.matrix or "value", pick.matrix or "given", pick.grammar)
    for one in [models] if hasattr(models, "params") else models:
        weights = one.params.items() if hasattr(one, "params") else getattr(one, "named_parameters", tuple)()
        check_precision(weights, "topic blocks")
    grammar = grammar_of(model, models, pick.grammar, "topic blocks")
    layer = -1 if pick.layer is None else pick.layer
    config = getattr(models[0], "config", None)
    kind: Kind = pick.matrix or ("embedding" if getattr(config, "embedding", "onehot") == "learned" else "value")
    notes: tuple[str, ...] = ()
    if kind == "attention":
        tokens = documents(pick.inputs, models[0], grammar, pick.seed)
        pairs = tuple(attention_sums(one, tokens, layer, pick.head) for one in models)
        means = finite(np.stack([p.means() for p in pairs]), AnalysisError)
        return _Source(means, kind, kind, grammar, None, models, pairs)
    not_read(f"only matrix='attention' reads inputs, and this is {quoted(kind)}", inputs=pick.inputs)
    if kind == "embedding":
        not_read("an embedding has neither", layer=pick.layer, head=pick.head)
        embeddings = [weight(one, "W_E") for one in models]
        notes = ("W_E is a fixed identity",) if getattr(config, "embedding", None) == "onehot" else ()
        return _Source(stack([e @ e.T for e in embeddings]), kind, kind, grammar, None, models, (), notes)
    if getattr(config, "norm", "none") != "none" or getattr(config, "block", "bare") != "bare":
        notes = ("norms, residual links and MLPs are left out of the map",)
    maps = [value_map(one, layer, pick.head) for one in models]
    biases = np.stack([b for _, b in maps])
    return _Source(stack([m for m, _ in maps]), kind, kind, grammar, biases, models, (), notes)


# -- the result ------------------------------------------------------------------------------------


def _headline(matrices: Array, words: Words, seed: int) -> dict[str, Estimate]:
    """Contrast, diagonality and ARI, without permutations."""
    rows = rows_of(matrices, words.kept)
    ratios = ratios_of(rows, words)
    names = [name for name in ("contrast", "diagonality") if name in ratios]
    out: dict[str, Estimate] = {name: estimate_of(ratios[name], seed) for name in names}
    if words.topic is not None:
        clusters = [Spectrum(off, len(words.sizes)).clusters(len(words.sizes)) for off in rows.off]
        out["ari"] = rand_estimate(words.topic, clusters)
    return out


def _result(
    source: _Source,
    words: Words,
    start: dict[str, Estimate] | None,
    aim: Aim,
    seed: int,
    permutations: int,
) -> TopicBlocksResult:
    rows = rows_of(source.matrices, words.kept)
    size, count = rows.size, len(rows.off)
    ratios, nulls = ratios_of(rows, words), nulls_of(rows, words)
    unit: Any = "words" if count == 1 else "seeds"
    number = size if count == 1 else count
    estimates = {
        name: estimate_of(ratios[name], seed) if name in ratios else Estimate.undefined(NO_LABELS, number, unit)
        for name in (*FIELDS, "diagonality")
    }
    for name, null in nulls.items():
        before = None if start is None or name not in start else start[name].value
        extra = {"untrained": before} if name in ("contrast", "diagonality") else {}
        if name.startswith("raw") and aim.theory is not None:
            extra = {"theory": aim.theory.c3 / aim.theory.words_per_topic}
        estimates[name] = estimates[name].with_null({**null, **extra})
    unit_off = unit_of(rows.spread_off, size - 1)[:, None]
    even = replace(rows, off=rows.off / unit_off[..., None])
    mean = even.off.mean(0)
    found = estimate_count(mean, seed) if words.topic is None else len(words.sizes)
    clusters = [Spectrum(off, found).clusters(found) for off in rows.off]
    per_seed: dict[str, list[Any]] = {
        name: np.ldexp(ratio.values(), ratio.exponent).tolist() for name, ratio in ratios.items()
    }
    p_topics, structure = None, None
    notes = list(source.notes)
    # Clusters are found without the diagonal, which may therefore be tested against them.
    group = Spectrum(mean, found).clusters(found) if words.topic is None else words.topic
    unit_all = unit_of(rows.spread, size)[:, None]
    excess, exchanged = diagonal_test(rows, group, seed, permutations)
    excess, exchanged = excess / unit_all[:, 0], exchanged / unit_all
    p_diagonal = p_value(excess, exchanged)
    per_seed["p_diagonal"] = [p_value(excess[[s]], exchanged[[s]]) for s in range(count)]
    if words.topic is not None:
        gap, relabelled = topic_test(even, words, seed, permutations)
        p_topics = p_value(gap, relabelled)
        per_seed["p_value"] = [p_value(gap[[s]], relabelled[[s]]) for s in range(count)]
        gap = gap * (unit_off / unit_all)[:, 0]  # beside the excess, in one unit
        structure = structure_of(p_topics, p_diagonal, float(gap.mean()), float(excess.mean()))
        per_seed["structure"] = [
            structure_of(p, q, float(c), float(e))
            for p, q, c, e in zip(per_seed["p_value"], per_seed["p_diagonal"], gap, excess, strict=True)
        ]
        if (least := 1 / relabellings(words.sizes)) > ALPHA:
            notes.append(f"too few words for a p-value below {least:.2g}")
    if words.topic is None:
        ari = Estimate.undefined(NO_LABELS, number, unit)
    else:
        before = None if start is None else start["ari"].value
        ari = rand_estimate(words.topic, clusters).with_null({"chance": 0.0, "untrained": before})
        per_seed["ari"] = [adjusted_rand(words.topic, one) for one in clusters]
    placed = np.full((count, len(words.kept)), -1, dtype=np.int64)
    placed[:, words.kept] = clusters
    same = None if words.topic is None else int((words.sizes * (words.sizes - 1)).sum())
    unseen = [int((p.counts[np.ix_(words.kept, words.kept)] == 0).sum()) for p in source.pairs]
    if any(unseen):
        notes.append(f"{max(unseen)} pairs of words never met: they stand at the mean of their row")
    return TopicBlocksResult(
        **{name: estimates[name] for name in FIELDS},
        diagonality=estimates["diagonality"],
        ari=ari,
        p_value=p_topics,
        p_diagonal=p_diagonal,
        structure=structure,
        theory=aim.distances(source.matrices, source.biases, seed),
        theory_reason=aim.reason,
        relations=relations(source.pairs, words) if source.pairs and words.topic is not None else None,
        untrained=start,
        matrix=source.name,
        num_models=count,
        num_words=size,
        num_topics=None if words.topic is None else len(words.sizes),
        excluded=int((~words.kept).sum()),
        same_pairs=same,
        different_pairs=None if same is None else size * (size - 1) - same,
        num_clusters=found,
        clusters_from="estimated" if words.topic is None else "labels",
        permutations=permutations,
        notes=tuple(notes),
        per_seed=per_seed,
        labels=None if words.all_labels is None else tuple(words.all_labels.tolist()),
        clusters=placed,
        values=source.matrices.mean(0),
    )
