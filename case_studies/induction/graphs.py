"""Does the first layer of a model trained on a causal graph become the graph? (slides of seed 003, L2590-2731)

The slides say that gradient descent makes the first attention pattern the adjacency matrix A of the graph, that the
gradient of its weights is, to first order, minus the chi^2 information between tokens (so that each token turns to its
parent), and that kernels outside the prior's support are counted as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from case_studies.induction.measure import Array, Ints, over_snapshots
from case_studies.page import Table
from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.model import SandboxTransformer
from interp.numbers import number
from interp.patterns import attention_patterns
from interp.rng import generator
from interp.stats import REALS, SHARE, Estimate, mean_over_seeds, spearman
from interp.worlds.markov import CausalGraphGrammar
from interp.worlds.markov.counts import kernels

STRINGS = 500  # on which patterns are measured
ANSWERS = 4000  # on which losses are
KERNELS = 300  # over which information is averaged
BEYOND = (0.1, 5.0)  # beta of kernels that are rare under the trained one of .5
_STEPS = (0, 25, 50, 100, 200, 400, 800, 2000)

GRAPHS = (
    Family("random graph", "causal-graph", snapshots=_STEPS),
    Family("chain graph", "causal-graph", {"graph": "chain"}, snapshots=_STEPS),
    Family("random graph of 6 tokens", "causal-graph", {"length": 7}, snapshots=_STEPS),
    Family("random graph of 18 tokens", "causal-graph", {"length": 19}, snapshots=_STEPS),
    Family("two parents of two states", "causal-graph", {"order": 2, "states": 2, "length": 14}, snapshots=_STEPS),
)


@dataclass(frozen=True)
class Recovery:
    """A first layer [head, query, key] beside a graph, heads given to parents so that most weight agrees.

    - `argmax`: share of parents that are the key with the most weight (of earlier ones).  `mass`: weight on parents.
    - `furthest`: the largest |A - G| of an entry of a row that has parents, over all strings.
    """

    argmax: float
    mass: float
    furthest: float


@dataclass(frozen=True)
class Turn:
    """Where the gradient of the first layer's weights between positions turns a model, at one step.

    - `parent`: share of tokens whose parent is the earlier key that minus the gradient raises most.
    - `information`: rank correlation of minus the gradient with the chi^2 information, over the keys of rows.
    """

    parent: float
    information: float


@dataclass(frozen=True)
class GraphModel:
    """One model: its first layer and its untrained twin's, its loss over the exact law's, by step and elsewhere.

    - `moments`: by step, its first layer, and where its gradient turns it (None of several parents, or where it is 0).
    - `excess`: nats at the answer more than the add-beta count over the graph.  `beyond`: by beta of other kernels, the
      same with the count of the trained beta.
    """

    found: Recovery
    untrained: Recovery
    moments: Mapping[int, tuple[Recovery, Turn | None]]
    excess: float
    beyond: Mapping[float, float]


@dataclass(frozen=True)
class OfGraph:
    """One family and its models."""

    family: Family
    digest: str
    grammar: CausalGraphGrammar
    chance: float
    models: Sequence[GraphModel]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; intervals are over seeds."""
        return {name: e.to_dict() for name, e in self.estimates().items()} | {
            "digest": self.digest,
            "by_step": {
                str(step): {name: e.to_dict() for name, e in self.at(step).items()} for step in self.models[0].moments
            },
        }

    def at(self, step: int) -> dict[str, Estimate]:
        """First layer and gradient at a snapshot; models whose gradient is 0 there are left out, and n says so."""
        moments = [m.moments[step] for m in self.models]
        turns = [turn for _, turn in moments if turn is not None]
        found = {
            name: mean_over_seeds([getattr(first, name) for first, _ in moments], support=SHARE).with_null(null)
            for name, null in (("argmax", self.chance), ("mass", None))
        }
        if turns:
            found["parent"] = mean_over_seeds([t.parent for t in turns], support=SHARE).with_null(self.chance)
            found["information"] = mean_over_seeds([t.information for t in turns], support=REALS).with_null(0.0)
        return found

    def estimates(self) -> dict[str, Estimate]:
        """What the tables show."""

        def of(name: str) -> Estimate:
            null = float(np.mean([getattr(m.untrained, name) for m in self.models]))
            return mean_over_seeds([getattr(m.found, name) for m in self.models], support=SHARE).with_null(null)

        return {
            "argmax": of("argmax").with_null(self.chance),
            "mass": of("mass"),
            "furthest": of("furthest"),
            "excess": mean_over_seeds([m.excess for m in self.models], support=REALS).with_null(0.0),
            **{
                f"beyond {beta:g}": mean_over_seeds([m.beyond[beta] for m in self.models], support=REALS).with_null(0.0)
                for beta in BEYOND
            },
        }


def measure_graph(one: Obtained) -> OfGraph:
    """Everything, of every model of a population."""
    population, grammar = one.population, one.population.grammar
    assert isinstance(grammar, CausalGraphGrammar)
    tokens = grammar.draw(generator(0, "induction/graph"), STRINGS)
    answers = {beta: replace(grammar, beta=beta).draw(generator(0, "induction/answers"), ANSWERS) for beta in
               (grammar.beta, *BEYOND)}  # fmt: skip
    counted = {beta: _at_query(grammar, grammar.posterior(strings)) for beta, strings in answers.items()}
    information = chi_square_of_graph(grammar) if grammar.order == 1 else None

    def moment(model: SandboxTransformer) -> tuple[Recovery, Turn | None]:
        turned = None if information is None else turn(model, grammar, information)
        return recovery(model, grammar, tokens), turned

    at = over_snapshots(population, moment)
    models = []
    for place, (model, fresh) in enumerate(zip(population, population.untrained(), strict=True)):
        excess = {beta: excess_of(model, grammar, strings, counted[beta]) for beta, strings in answers.items()}
        models.append(
            GraphModel(
                recovery(model, grammar, tokens),
                recovery(fresh, grammar, tokens),
                {step: found[place] for step, found in at.items()},
                excess[grammar.beta],
                {beta: excess[beta] for beta in BEYOND},
            )
        )
    return OfGraph(one.family, one.digest, grammar, chance_of(grammar), models)


# -- the graph ----------------------------------------------------------------------------------------


def parents(grammar: CausalGraphGrammar) -> tuple[Ints, Ints]:
    """Tokens of the graph that have parents [row], and their parents [row, parent]."""
    every = grammar.parents_of(grammar.nodes)
    rows = np.flatnonzero((every >= 0).all(1))
    return rows, every[rows]


def chance_of(grammar: CausalGraphGrammar) -> float:
    """Share of parents that an earlier key chosen evenly would be."""
    rows, _ = parents(grammar)
    return float(np.mean(1 / rows))


def recovery(model: SandboxTransformer, grammar: CausalGraphGrammar, tokens: Ints) -> Recovery:
    """The first layer on `tokens` [string, pos] beside the graph."""
    with torch.no_grad():
        pattern = attention_patterns(model, torch.from_numpy(tokens))[0]
    return beside(np.asarray(pattern, dtype=float), grammar)


def beside(pattern: Array, grammar: CausalGraphGrammar) -> Recovery:
    """A pattern [string, head, query, key] beside the graph."""
    rows, of = parents(grammar)
    mean = pattern.mean(0)
    weight = np.array([[mean[head, rows, of[:, one]].mean() for one in range(of.shape[1])] for head in
                       range(mean.shape[0])])  # fmt: skip
    heads, ones = linear_sum_assignment(-weight)
    right, furthest = [], 0.0
    for head, one in zip(heads, ones, strict=True):
        right += [int(mean[head, row, :row].argmax()) == of[i, one] for i, row in enumerate(rows)]
        wanted = np.zeros((len(rows), pattern.shape[-1]))
        wanted[np.arange(len(rows)), of[:, one]] = 1.0
        furthest = max(furthest, float(np.abs(pattern[:, head, rows] - wanted).max()))
    return Recovery(float(np.mean(right)), float(weight[heads, ones].mean()), furthest)


def excess_of(model: SandboxTransformer, grammar: CausalGraphGrammar, tokens: Ints, counted: Array) -> float:
    """Nats at the answer more than `counted` [string]."""
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens))[:, grammar.length - 1].double()
    nats = -torch.log_softmax(logits, -1).numpy()[np.arange(len(tokens)), tokens[:, grammar.length]]
    return float((nats - counted).mean())


def _at_query(grammar: CausalGraphGrammar, nats: Array) -> Array:
    return nats[:, grammar.length - 1]


# -- information and the first gradient ----------------------------------------------------------------


def chi_square_of_graph(grammar: CausalGraphGrammar, count: int = KERNELS) -> Array:
    """Mean over kernels of the chi^2 information [node, node] between the tokens of a graph of one parent.

    I(i; j) = sum P(s, s')^2 / (P(s) P(s')) - 1 (slides, L2691); entries on and above the diagonal are 0.
    """
    states, n = grammar.states, grammar.nodes
    of = grammar.parents_of(n)[:, 0]
    kernel = kernels(generator(0, "induction/information"), count, states, states, grammar.beta)
    law = np.full((n, count, states), 1 / states)
    joint = np.zeros((n, n, count, states, states))  # [now, earlier, kernel, state now, state earlier]
    for i in range(n):
        if of[i] >= 0:
            law[i] = np.einsum("cp,cps->cs", law[of[i]], kernel)
        for j in range(i):
            if of[i] < 0:
                joint[i, j] = law[i][:, :, None] * law[j][:, None, :]
            elif of[i] == j:
                joint[i, j] = law[j][:, None, :] * kernel.transpose(0, 2, 1)
            else:
                between = joint[of[i], j] if of[i] > j else joint[j, of[i]].transpose(0, 2, 1)
                joint[i, j] = np.einsum("cps,cpt->cst", kernel, between)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = ((joint[i, j] ** 2) / (law[i][:, :, None] * law[j][:, None, :])).sum((1, 2)).mean() - 1
    return out


def first_gradient(model: SandboxTransformer, grammar: CausalGraphGrammar) -> Array:
    """Gradient [query, key] of the loss against laws in the first layer's weights between positions, over heads."""
    rng = generator(0, "induction/gradient")
    tokens = torch.from_numpy(grammar.draw(rng, ANSWERS))
    laws = torch.from_numpy(grammar.draw_laws(generator(0, "induction/gradient"), ANSWERS)).float()
    weights: Tensor = model.get_parameter("blocks.0.attn.W_Q")
    with torch.enable_grad():
        logits = model(tokens)[:, grammar.length - 1]
        loss = -(laws * torch.log_softmax(logits, -1)).sum(-1).mean()
        (found,) = torch.autograd.grad(loss, [weights])
    first = grammar.vocab_size
    return found.sum(0)[first : first + grammar.nodes, first : first + grammar.nodes].double().numpy()


def turn(model: SandboxTransformer, grammar: CausalGraphGrammar, information: Array) -> Turn | None:
    """Where minus the gradient points, and how that agrees with the information; None where there is no gradient.

    What a whole row has in common is taken off: a softmax does not see it.
    """
    ascent = -first_gradient(model, grammar)
    if not ascent.any():
        return None
    rows, of = parents(grammar)
    right = [int(ascent[row, :row].argmax()) == one for row, (one,) in zip(rows, of, strict=True)]
    pairs = [(i, j) for i in rows for j in range(i) if i > 1]
    ours, told = ([m[i, j] - float(np.mean(m[i, :i])) for i, j in pairs] for m in (ascent, information))
    value = spearman(ours, told).value
    return None if value is None else Turn(float(np.mean(right)), value)


# -- the page -----------------------------------------------------------------------------------------


def graph_parts(found: Sequence[OfGraph]) -> list[str | Table]:
    """A table of every family, one by step, and what may be said of them."""
    if not found:
        return []
    rows: list[Row] = []
    for one in found:
        e = one.estimates()
        rows.append(
            [
                one.family.name,
                Cell(e["argmax"]),
                number(one.chance, 2),
                Cell(e["mass"]),
                number(_plain(e["mass"].null), 2),
                Cell(e["furthest"]),
                Cell(e["excess"], 3),
                *(Cell(e[f"beyond {beta:g}"], 3) for beta in BEYOND),
            ]
        )
    note = (
        "Parent has most weight: how many parents have it among earlier keys. A: the attention of the first layer, G: "
        f"the adjacency matrix; the largest difference of an entry over {STRINGS} strings. Excess: nats at the answer "
        "more than counting over the graph, also on kernels of another beta."
    )
    words = {
        "argmax": "parent has most weight",
        "parent": "gradient turns to the parent",
        "information": "gradient agrees with information",
    }
    moments: list[Row] = []
    for one in found:
        for step in one.models[0].moments:
            told = one.at(step)
            moments.append([f"{one.family.name}, step {step}", *(Cell(told[n]) if n in told else "–" for n in words)])
    whole = [one.family.name for one in found if (one.estimates()["argmax"].low or 0.0) > 0.5]
    said = f"In {len(whole)} of {len(found)} families most parents have the most weight, by the whole interval" + (
        f" ({'; '.join(whole)})." if whole else "."
    )
    return [
        Table(
            ["models", "parent has most weight", "by chance", "weight on parents", "untrained", "largest |A - G|",
             "excess", *(f"excess, beta = {beta:g}" for beta in BEYOND)],
            rows,
            note,
        ),
        Table(
            ["models, step", *words.values()],
            moments,
            "Shares of tokens, and the rank correlation of minus the gradient in the first layer's weights between "
            "positions with the χ² information of the two tokens. Seeds whose gradient is 0 are left out.",
        ),
        said,
    ]  # fmt: skip


def _plain(null: Any) -> float:
    assert isinstance(null, float)
    return null
