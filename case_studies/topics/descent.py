"""How the mean of the block entries of W_V grows by gradient descent: in expectation, and in trained models.

Under even attention the squared loss is quadratic in W_V, so that the expectation of W_V over initial weights (of mean
0) and documents follows the mean gradient, and has a closed form at every step. It depends on neither the batch nor the
initial scale. Figs 2.5 and 2.6 (squared loss, SGD .01) are asked how many steps give their means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.topics.families import PAPER_FAINT, PAPER_FAINT_SPREAD
from interp.grammars import TopicGrammar
from interp.population import Population
from interp.stats import POSITIVE, REALS, Estimate, mean_over_seeds

RATE = 0.01
RELEASED_VOCABULARY = 104  # nn.MSELoss of the released code divides by it
RELEASED_EPOCH = 250  # batches of 40 in its 10,000 documents
DOCUMENTS = 4000  # behind the moments of what is shown
MOST_STEPS = 10**8
BLOCK_ENTRIES = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """What the thesis leaves open, or its released code does in another way.

    `bias`: a trained b_V (the thesis adds it back, L554). `chosen_attended`: positions that are to be predicted are
    attended to, as in the thesis's theory; the released code takes them out of attention. `averaged`: the squared
    loss is averaged over the vocabulary, as the released code's is, instead of summed.
    """

    name: str
    bias: bool = False
    chosen_attended: bool = True
    averaged: bool = False


SETTINGS = (
    Setting("as here: no bias, [MASK] attended to, loss summed"),
    Setting("with b_V", bias=True),
    Setting("with b_V, chosen positions not attended to", bias=True, chosen_attended=False),
    Setting(
        "the same, loss averaged over the vocabulary (released code)", bias=True, chosen_attended=False, averaged=True
    ),
)


@dataclass(frozen=True)
class Descent:
    """Expected gradient descent on W_V under even attention."""

    grammar: TopicGrammar
    setting: Setting
    rate: float = RATE

    @cached_property
    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """Eigenvalues of E y y^T, its eigenvectors, and E e_w y^T in their basis; y: shown shares, and 1 for a bias."""
        drawn = self.grammar.sample(DOCUMENTS, seed=0, stream="topic-descent")
        keys = drawn.words >= 0 if self.setting.chosen_attended else (drawn.words >= 0) & ~drawn.chosen
        asked = drawn.chosen.any(1)
        y, target = (
            _shares(tokens, where, self.grammar.vocab_size)[asked]
            for tokens, where in ((drawn.shown, keys), (drawn.words, drawn.chosen))
        )
        if self.setting.bias:
            y = np.concatenate([y, np.ones((len(y), 1))], axis=1)
        values, vectors = np.linalg.eigh(y.T @ y / len(y))
        return np.maximum(values, 0.0), vectors, target.T @ y / len(y) @ vectors

    def matrix(self, step: float) -> Floats:
        """Expected W_V [predicted, attended] after so many steps."""
        values, vectors, driven = self._moments
        rate = 2 * self.rate / (RELEASED_VOCABULARY if self.setting.averaged else 1)
        flat = values < 1e-14  # what no document shows does not move
        done = np.where(flat, 0.0, -np.expm1(step * np.log1p(-rate * values)) / np.where(flat, 1.0, values))
        size = self.grammar.vocab_size
        return np.asarray((driven * done @ vectors.T)[:, :size])

    def means(self, step: float) -> tuple[float, float]:
        """Mean of the block entries, and of the others, after so many steps."""
        block, other = block_means(self.matrix(step), self.grammar)
        return float(block), float(other)

    def step_of(self, block_mean: float) -> float | None:
        """The first step at which the block mean is at least this; None beyond `MOST_STEPS`."""
        if self.means(MOST_STEPS)[0] < block_mean:
            return None
        low, high = 0, MOST_STEPS
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.means(middle)[0] >= block_mean else (middle + 1, high)
        return low


@dataclass(frozen=True)
class Answer:
    """When a setting's expectation has the block means of the figures, and what the other entries are then.

    By figure. `steps`: None where never; `earliest`, `latest`: for the block means that 95 % of runs have there, of
    initial weights of the thesis's spread; `others`: mean of the other entries at that step. `p`: of the thesis's other
    means under these, both figures together (chi-square).
    """

    setting: Setting
    steps: Mapping[str, float | None]
    earliest: Mapping[str, float | None]
    latest: Mapping[str, float | None]
    others: Mapping[str, float | None]
    p: float | None


@dataclass(frozen=True)
class Growth:
    """Trained models: means of block entries and of others by step, and by figure the step at which they pass it."""

    family: Family
    digest: str
    block: Mapping[int, Estimate]
    other: Mapping[int, Estimate]
    passed: Mapping[str, Estimate]


def answers(grammar: TopicGrammar, settings: Sequence[Setting] = SETTINGS) -> list[Answer]:
    """Of every setting."""
    return [_answer(Descent(grammar, setting)) for setting in settings]


def _answer(descent: Descent) -> Answer:
    ends: dict[str, list[float | None]] = {"mid": [], "low": [], "high": []}
    others: list[float | None] = []
    for label, (block, _) in PAPER_FAINT.items():
        # A run's block mean has the initial weights' noise: of a mean of as many entries as the thesis's others.
        noise = 1.96 * PAPER_FAINT_SPREAD[label]
        for name, target in (("mid", block), ("low", block - noise), ("high", block + noise)):
            ends[name].append(descent.step_of(target))
        step = ends["mid"][-1]
        others.append(None if step is None else descent.means(step)[1])
    by_label = [dict(zip(PAPER_FAINT, column, strict=True)) for column in (*ends.values(), others)]
    return Answer(descent.setting, by_label[0], by_label[1], by_label[2], by_label[3], _p(by_label[3]))


def _p(others: Mapping[str, float | None]) -> float | None:
    total = 0.0
    for label, (_, paper) in PAPER_FAINT.items():
        found = others[label]
        if found is None:
            return None
        total += ((paper - found) / PAPER_FAINT_SPREAD[label]) ** 2
    return float(chi2.sf(total, len(PAPER_FAINT)))


def initial_scale(spread: float, grammar: TopicGrammar) -> float:
    """The initial scale at which a mean of 1000 of the other entries has this standard deviation over draws of them."""
    return float(spread / np.sqrt((1 / BLOCK_ENTRIES) * (1 - BLOCK_ENTRIES / _others(grammar))))


def spread_of_all(spread: float, grammar: TopicGrammar) -> float:
    """The standard deviation over runs that the mean of all other entries has at that scale."""
    return initial_scale(spread, grammar) / float(np.sqrt(_others(grammar)))


def _others(grammar: TopicGrammar) -> int:
    return grammar.num_words**2 - grammar.num_words * grammar.words_per_topic


def block_means(matrices: ArrayLike, grammar: TopicGrammar) -> tuple[Floats, Floats]:
    """Mean of the entries whose words share a topic (the diagonal included), and of the others; [MASK] left out."""
    w, topic = np.asarray(matrices, dtype=np.float64), grammar.topic_of
    same, word = topic[:, None] == topic, (topic[:, None] >= 0) & (topic >= 0)
    return np.asarray(w[..., same & word].mean(-1)), np.asarray(w[..., ~same & word].mean(-1))


def measure_growth(one: Obtained) -> Growth:
    """Means over the steps of a trained family."""
    population = one.population
    assert isinstance(population.grammar, TopicGrammar)
    steps = sorted(population.snapshots)
    each = [block_means(_values(population.at_step(step)), population.grammar) for step in steps]
    block = np.array([b for b, _ in each])  # [step, seed]
    passed = {
        label: mean_over_seeds([_passing(steps, column, paper) for column in block.T], support=POSITIVE)
        for label, (paper, _) in PAPER_FAINT.items()
    }
    by_step = [dict(zip(steps, (mean_over_seeds(x[k], support=REALS) for x in each), strict=True)) for k in (0, 1)]
    return Growth(one.family, one.digest, by_step[0], by_step[1], passed)


def _passing(steps: Sequence[int], values: Floats, target: float) -> float:
    """The step at which a seed's block mean passes the target, by a straight line between those looked at."""
    above = np.flatnonzero(values >= target)
    if len(above) == 0:
        return float("nan")
    at = int(above[0])
    if at == 0:
        return float(steps[0])
    share = (target - values[at - 1]) / (values[at] - values[at - 1])
    return float(steps[at - 1] + share * (steps[at] - steps[at - 1]))


def _shares(tokens: NDArray[np.int64], where: NDArray[np.bool_], size: int) -> Floats:
    """Share of each token among the positions of a document that `where` names, [document, size]."""
    out = np.zeros((len(tokens), size))
    np.add.at(out, (np.nonzero(where)[0], tokens[where]), 1.0)
    return np.asarray(out / np.maximum(out.sum(1, keepdims=True), 1.0))


def _values(population: Population) -> Floats:
    return np.asarray(population.params["blocks.0.attn.W_V"][:, 0].double().numpy().transpose(0, 2, 1))
