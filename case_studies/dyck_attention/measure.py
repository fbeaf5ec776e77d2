"""What `dyck-attention` measures on each population: accuracy, variation, stack-likeness, cost of even attention."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from case_studies.dyck_attention.families import PAPER_ACCURACY, Cell
from case_studies.populations import Family
from case_studies.study import Obtained
from interp.grammars import DyckGrammar
from interp.patterns import attention_patterns
from interp.plots.arrays import as_array
from interp.population import Population
from interp.presets import make_recipe
from interp.stats import GAP, POSITIVE, REALS, SHARE, Estimate, jackknife_pairs, mean_over_seeds
from interp.worlds.dyck.evaluate import RULES, evaluate
from interp.worlds.dyck.recipes import grammar_of
from interp.worlds.dyck.task import FINAL_STRINGS, in_distribution, long_prefixes
from probes.stack import StackResult, analyze_stack_likeness
from probes.variation import PAPER_SENTENCE, TABLE_LENGTH, VariationResult, analyze_variation

EDITED_STRINGS = 1000
TABLE_SENTENCES = 40
PREFIX_LENGTH = 28


@dataclass(frozen=True)
class Accuracy:
    """Closing accuracy of a population's seeds, rule by rule."""

    mean: dict[str, Estimate]  # rule, rule_nontrivial, long_rule, ... and excess
    worst: dict[str, float]  # the least over seeds
    short: dict[str, list[int]]  # rule -> seeds below the paper's 97 %

    @property
    def least(self) -> float:
        """Of the worst seed under the hardest of the three rules."""
        return min(self.worst[rule] for rule in RULES)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "accuracy": {k: e.to_dict() for k, e in self.mean.items()},
            "worst_seed": {**self.worst, "n": self.mean[RULES[0]].n},
            "seeds_below_97": self.short,
        }


@dataclass(frozen=True)
class Measured:
    """One family: its models, what they score, and how their attention varies."""

    family: Family
    population: Population
    digest: str
    accuracy: Accuracy
    by_distance: dict[int, Estimate]
    variation: VariationResult
    stack: StackResult
    even: dict[str, Estimate]  # loss of closing accuracy when the last layer is made to attend evenly

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: every number of the report with its interval and n."""
        return {
            "preset": self.family.preset,
            "options": dict(self.family.options),
            "digest": self.digest,
            **self.accuracy.to_dict(),
            "mass_by_distance": {str(d): e.to_dict() for d, e in self.by_distance.items()},
            "variation": [e.to_dict() for e in self.variation.variation],
            "normalised": [e.to_dict() for e in self.variation.normalised],
            "stack_score": [row[0].to_dict() for row in self.stack.score],
            "stack_top1": [row[0].to_dict() for row in self.stack.top1],
            "lost_with_even_attention": {k: e.to_dict() for k, e in self.even.items()},
            "diverged": self.population.provenance["diverged"],
        }


@dataclass(frozen=True)
class TableRow:
    """One row of Table 1, ours."""

    cell: Cell
    digest: str
    population: Population
    accuracy: Accuracy
    variation: VariationResult
    sentence: Estimate  # of the last layer on the paper's one sentence
    stack: StackResult

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `sd_over_inputs` is what the paper prints in parentheses."""
        return {
            "digest": self.digest,
            **self.accuracy.to_dict(),
            "variation": [e.to_dict() for e in self.variation.variation],
            "normalised": [e.to_dict() for e in self.variation.normalised],
            "sd_over_inputs": [float(x.std(ddof=1)) for x in self.variation.by_input],
            "sentence": self.sentence.to_dict(),
            "stack_score": [row[0].to_dict() for row in self.stack.score],
            "paper": [mean for mean, _ in self.cell.paper],
        }


@dataclass(frozen=True)
class Variant:
    """One setting changed: variation on the paper's sentence and the worst seed."""

    family: Family
    digest: str
    accuracy: Accuracy
    variation: Estimate  # last layer
    loss: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"digest": self.digest, "variation": self.variation.to_dict(), **self.accuracy.to_dict()}


def accuracy_of(population: Population) -> Accuracy:
    """From the population's last evaluation."""
    rows = population.final_metrics()
    there = [name for name in rows[0] if name not in ("seed", "step") and rows[0][name] is not None]
    names = [name for name in there if not name.startswith("rung/")]
    mean = {n: mean_over_seeds([r[n] for r in rows], support=SHARE) for n in names if "loss" not in n}
    mean |= {n: mean_over_seeds([r[n] for r in rows], support=REALS) for n in names if "excess" in n}
    worst = {n: min(float(r[n]) for r in rows) for n in names if "excess" not in n and "loss" not in n}
    short = {rule: [int(r["seed"]) for r in rows if r[rule] < PAPER_ACCURACY] for rule in RULES}
    return Accuracy(mean, worst, short)


def measure(one: Obtained) -> Measured:
    """One family's numbers, each over its seeds."""
    family, population = one.family, one.population
    return Measured(
        family,
        population,
        one.digest,
        accuracy_of(population),
        distances(population, family),
        analyze_variation(population),
        analyze_stack_likeness(population),
        cost_of_even_attention(population, family),
    )


def measure_cell(cell: Cell, one: Obtained) -> TableRow:
    """One row of Table 1: variation on the same 40 sentences of 19 brackets for every row."""
    variation = analyze_variation(one.population, table_sentences())
    sentence = analyze_variation(one.population, untrained=False).variation[-1]
    stack = analyze_stack_likeness(one.population)
    return TableRow(cell, one.digest, one.population, accuracy_of(one.population), variation, sentence, stack)


def measure_variant(one: Obtained) -> Variant:
    """Last-layer variation on the paper's sentence."""
    result = analyze_variation(one.population, untrained=False)
    loss = float(np.mean([row["loss"] for row in one.population.final_metrics()]))
    return Variant(one.family, one.digest, accuracy_of(one.population), result.variation[-1], loss)


def table_sentences() -> list[str]:
    """40 prefixes of 19 brackets of Dyck(2, 4), which every grammar of the table allows."""
    grammar = DyckGrammar(2, 4)
    rows = grammar.sample(TABLE_SENTENCES, mode="prefix", length=TABLE_LENGTH, seed=0, stream="variation-inputs")
    return [grammar.format(row) for row in rows]


def prefix_variation(population: Population) -> VariationResult:
    """Variation on 40 prefixes of 28 brackets, the length that App. D.2 trains on."""
    grammar = DyckGrammar(2, 4)
    rows = grammar.sample(TABLE_SENTENCES, mode="prefix", length=PREFIX_LENGTH, seed=0, stream="variation-inputs")
    return analyze_variation(population, [grammar.format(row) for row in rows])


def counting_start(population: Population) -> dict[str, Estimate]:
    """Last-layer variation on the paper's sentence with START's column counted, dropped, and dropped with the rest
    of each row rescaled to sum to 1."""
    tokens = population[0].to_tokens(PAPER_SENTENCE)
    patterns = np.stack([as_array(attention_patterns(model, tokens)[-1])[0, 0] for model in population])
    dropped = patterns[:, 1:, 1:]
    rescaled = dropped / dropped.sum(-1, keepdims=True)
    kinds = {"counted": patterns, "column dropped": dropped, "column dropped, rows rescaled": rescaled}
    return {name: jackknife_pairs(squared_distances(p), support=POSITIVE) for name, p in kinds.items()}


def squared_distances(patterns: np.ndarray) -> np.ndarray:
    """Squared Frobenius distances [S, S] of patterns [S, query, key]."""
    flat = patterns.reshape(len(patterns), -1)
    return np.asarray(np.square(flat[:, None] - flat[None]).sum(-1))


def cost_of_even_attention(population: Population, family: Family) -> dict[str, Estimate]:
    """Closing accuracy lost, rule by rule over seeds, when the last layer's pattern is replaced by an even one."""
    data = in_distribution(family.recipe, EDITED_STRINGS)
    template = population[0]
    before = evaluate(template, population.params, data)
    name = f"blocks.{population.config.n_layers - 1}.attn.hook_pattern"

    def even(pattern: Any, hook: Any) -> Any:
        visible = (pattern > 0).to(pattern.dtype)
        return visible / visible.sum(-1, keepdim=True)

    with template.hooks(fwd_hooks=[(name, even)]):
        after = evaluate(template, population.params, data)
    return {rule: mean_over_seeds(before[rule] - after[rule], support=GAP) for rule in (*RULES, "mass_nontrivial")}


def distances(population: Population, family: Family) -> dict[int, Estimate]:
    """Accuracy by open-close distance (`mass` rule), over seeds."""
    data = in_distribution(family.recipe, FINAL_STRINGS)
    values = evaluate(population[0], population.params, data, by_distance=True)
    found = {int(k.removeprefix("mass@")): v for k, v in values.items() if k.startswith("mass@")}
    return {d: mean_over_seeds(found[d], support=SHARE) for d in sorted(found)}


def constructed_uniform() -> dict[str, float]:
    """Closing accuracy of the constructed uniform-attention solver on the training law and at length 400-500."""
    import torch

    from interp import SandboxTransformer, load_checkpoint

    model = load_checkpoint("constructed/uniform")
    assert isinstance(model, SandboxTransformer)
    recipe = make_recipe("dyck-standard")
    params = {name: p.detach()[None] for name, p in model.named_parameters()}
    out: dict[str, float] = {}
    with torch.no_grad():
        for prefix, data in (
            ("", in_distribution(recipe, FINAL_STRINGS)),
            ("long_", long_prefixes(grammar_of(recipe))),
        ):
            values = evaluate(model, params, data)
            out |= {f"{prefix}{name}": float(v[0]) for name, v in values.items() if name.startswith(RULES)}
    return out
