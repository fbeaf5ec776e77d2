"""What `topics` measures: structure of matrices, attention by relation, stages, landscapes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.topics.families import BLOCK, EXACT_STEPS, Group, Triple
from case_studies.topics.lookup import Relations, released_labels, share_on_one_word
from case_studies.topics.readings import RELEASED, WHOLE, preset_readings
from interp.grammars import TopicGrammar
from interp.population import Population
from interp.stats import POSITIVE, REALS, SHARE, Estimate, mean_over_seeds
from interp.worlds.topics import attended
from interp.worlds.topics.theory import TopicTheory
from probes.topics import (
    PairSums,
    TopicBlocksResult,
    TwoStageResult,
    analyze_topic_blocks,
    analyze_two_stages,
    attention_sums,
    documents,
)

LANDSCAPE = TopicTheory(100, 300)  # L674
TAUS = (20, 40, 60, 80)


@dataclass(frozen=True)
class Arm:
    """One panel of a figure."""

    family: Family
    digest: str
    loss: Estimate
    result: TopicBlocksResult
    block_mean: Estimate  # mean of the entries in block positions, diagonal included, as the thesis takes it
    other_mean: Estimate


@dataclass(frozen=True)
class GroupResult:
    """Four panels."""

    group: Group
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class AttentionRow:
    """Attention by relation of jointly trained models, and what their W_V look like.

    `right`: by the topics of the words; `released`: by what the released code looks up (`case_studies.topics.lookup`);
    `whole`: the same in documents of any length that are not rescaled (`case_studies.topics.readings`).
    """

    family: Family
    digest: str
    loss: Estimate
    right: Relations
    released: Relations
    whole: Relations
    one_word: Estimate  # of the attention within a topic, what its most attended word gets
    value: TopicBlocksResult
    structures: dict[str, int]  # how many seeds
    paper: Triple | None


@dataclass(frozen=True)
class StageRow:
    """Stage 2: attention by relation at steps of training, W_V frozen."""

    family: Family
    digest: str
    curve: dict[int, Estimate]  # step -> ratio
    relations: Relations  # at the end
    optima: "Optima | None"


@dataclass(frozen=True)
class Optima:
    """Best same-topic by different-topic attention of the block W_V, two topics per document, infinite documents.

    `kept`: [MASK] keeps its share of what is attended to whatever words gain (the thesis's loss); `attended`: it is
    attended to as a word of another topic is; `free`: with the weight that is best for it, `free_weight`.
    """

    kept: float
    attended: float
    free: float
    free_weight: float

    @classmethod
    def of(cls, grammar: TopicGrammar, topics: int = 2) -> "Optima":
        """Of documents of so many topics."""
        theory = TopicTheory.from_grammar(grammar)
        free = attended.best_block(theory, topics, None)
        whole = attended.best_block(theory, topics)
        return cls(theory.best_block(topics).gamma, whole.gamma, free.gamma, free.mask_weight)


@dataclass(frozen=True)
class ExactRow:
    """Stage 1 on the exact law: where a run lands."""

    name: str
    digest: str | None
    excess: Estimate  # loss above the least possible
    largest: Estimate  # largest relative error of W_same, W_diff, W_i0
    row_zero: Estimate  # largest absolute entry of row 0, which should be 0
    family: Estimate  # relative distance to the family of optima


@dataclass(frozen=True)
class StageBoundary:
    """Fig. 2.4: one setting's runs."""

    family: Family
    digest: str
    result: TwoStageResult


def measure_group(group: Group, panels: Iterable[Obtained]) -> GroupResult:
    """The four panels of a figure."""
    return GroupResult(group, tuple(_arm(group, one) for one in panels))


def _arm(group: Group, one: Obtained) -> Arm:
    population = one.population
    result = analyze_topic_blocks(population, matrix=group.matrix)
    matrices = value_maps(population) if group.matrix == "value" else grams(population)
    topic = _grammar(population).topic_of
    same = (topic[:, None] == topic) & (topic >= 0)[:, None]
    other = (topic[:, None] != topic) & (topic >= 0)[:, None] & (topic >= 0)
    return Arm(
        one.family,
        one.digest,
        final_loss(population),
        result,
        mean_over_seeds(matrices[:, same].mean(-1), support=REALS),
        mean_over_seeds(matrices[:, other].mean(-1), support=REALS),
    )


def measure_row(one: Obtained, paper: Triple | None) -> AttentionRow:
    """A row of Tables 2.1 and 2.2: attention of models trained jointly."""
    population = one.population
    pairs, grammar = attention_of(population), _grammar(population)
    value = analyze_topic_blocks(population, matrix="value")
    structures = [analyze_topic_blocks(model, matrix="value").structure for model in population]
    return AttentionRow(
        one.family,
        one.digest,
        final_loss(population),
        Relations.of(pairs, grammar.topic_of),
        Relations.of(pairs, released_labels(grammar)),
        preset_readings(population).relations[RELEASED, WHOLE],
        mean_over_seeds([share_on_one_word(p, grammar.topic_of) for p in pairs], support=SHARE).with_null(
            1 / grammar.words_per_topic
        ),
        value,
        {str(s): structures.count(s) for s in dict.fromkeys(structures)},
        paper,
    )


def measure_stage(one: Obtained) -> StageRow:
    """Stage 2 with W_V frozen."""
    population, grammar = one.population, _grammar(one.population)
    steps = sorted(population.snapshots)
    each = {step: Relations.of(attention_of(population.at_step(step)), grammar.topic_of) for step in steps}
    best = Optima.of(grammar) if one.family.name == BLOCK.name else None
    return StageRow(one.family, one.digest, {s: r.ratio for s, r in each.items()}, each[steps[-1]], best)


def attention_of(population: Population) -> list[PairSums]:
    """Attention of each seed on held-out documents without masks, summed by pairs of words."""
    tokens = documents(None, population[0], _grammar(population), seed=0)
    return [attention_sums(model, tokens, -1, None) for model in population]


def measure_exact(one: Obtained) -> ExactRow:
    """Where one way of training lands on the exact law."""
    return exact_row(one.family.name, one.digest, value_maps(one.population), _grammar(one.population))


def value_maps(population: Population) -> np.ndarray:
    """W^V of one-hot models, [S, predicted, attended]."""
    return np.asarray(population.params["blocks.0.attn.W_V"][:, 0].double().numpy().transpose(0, 2, 1))


def grams(population: Population) -> np.ndarray:
    """W_E W_E^T of each seed, [S, word, word]."""
    embeddings = population.params["embed.W_E"].double().numpy()
    return np.asarray(embeddings @ embeddings.transpose(0, 2, 1))


def exact_row(name: str, digest: str | None, values: np.ndarray, grammar: TopicGrammar) -> ExactRow:
    """Distances of matrices [S, vocab, vocab] (thesis orientation) to what the theorems say."""
    theory = TopicTheory.from_grammar(grammar)
    target = theory.value_matrix()
    tau = grammar.topics_per_document
    excess = np.atleast_1d(theory.stage_one_loss(values, tau)) - theory.least_stage_one_loss(tau)
    return ExactRow(
        name,
        digest,
        mean_over_seeds(excess, support=REALS),
        mean_over_seeds(np.abs(values[:, 1:] / target[1:] - 1).max((1, 2)), support=POSITIVE),
        mean_over_seeds(np.abs(values[:, 0]).max(1), support=POSITIVE),
        mean_over_seeds([theory.project(v).relative or 0.0 for v in values], support=POSITIVE),
    )


def exact_descent(grammar: TopicGrammar, steps: int = EXACT_STEPS, rate: float = 20.0) -> np.ndarray:
    """W^V [1, vocab, vocab] by gradient descent from zero on the exact squared loss, in float64.

    E |W y - e_w|^2 over documents and words w has the gradient 2 E (W y - P_w) y^T: y are the shown frequencies.
    """
    law = grammar.word_law()
    shown = grammar.shown_law(law)
    w = np.zeros((grammar.vocab_size, grammar.vocab_size))
    for _ in range(steps):
        w -= rate * 2 * (shown @ w.T - law).T @ shown / len(law)
    return w[None]


def measure_boundary(one: Obtained) -> StageBoundary:
    """Norms over training of one setting of Fig. 2.4."""
    return StageBoundary(one.family, one.digest, analyze_two_stages(one.population))


def final_loss(population: Population) -> Estimate:
    """Held-out loss of the last step."""
    return mean_over_seeds([row["loss"] for row in population.final_metrics()], support=POSITIVE)


def landscapes() -> dict[str, dict[int, Any]]:
    """Loss [alpha, beta] of Figs 2.7 (diagonal) and 2.8 (block) by number of topics per document."""
    axis = np.logspace(-4, 7, 56)
    return {kind: {tau: LANDSCAPE.landscape(kind, tau, axis, axis) for tau in TAUS} for kind in ("diagonal", "block")}


def optima() -> dict[str, Sequence[Any]]:
    """The best ratios of each landscape."""
    return {
        "block": [LANDSCAPE.best_block(tau) for tau in TAUS],
        "diagonal": [LANDSCAPE.best_diagonal(tau) for tau in TAUS],
    }


def _grammar(population: Population) -> TopicGrammar:
    assert isinstance(population.grammar, TopicGrammar)
    return population.grammar
