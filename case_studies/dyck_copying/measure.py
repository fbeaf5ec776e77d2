"""What `dyck-copying` measures on each head: how interpretable its pattern looks, and what it costs to take it away."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from case_studies.looks import MASS, Fit, Looks, choose
from case_studies.populations import Family
from case_studies.study import Obtained
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population
from interp.recipe import Recipe
from interp.rng import generator
from interp.training.layout import IGNORE
from interp.worlds.dyck.evaluate import BracketSet
from interp.worlds.dyck.recipes import grammar_of, settings_of
from interp.worlds.dyck.task import in_distribution
from probes.relations import RELATIONS, Relation, bracket_tokens, complement

Array = NDArray[np.float64]
Hook = tuple[str, Callable[..., Tensor]]

STRINGS = 600  # drawn; the distinct ones are split into halves
ABLATIONS = {"zero": "zeroed", "mean": "mean output", "even": "even pattern"}
SHAM = "sham"  # a random change as large as zeroing
EDITS = {**ABLATIONS, SHAM: "as large, random"}
LINK = "link"  # the skip around attention cut in every layer: what the heads alone can do


@dataclass(frozen=True)
class Group:
    """Models of one depth and one block, and what the paper says of that depth.

    - `layers`: the depth; `block`: what the models are made of, in words.
    - `paper_accuracy`: a lower bound; `paper_useless`: which interpretable heads are called uninformative.
    - `paper_terms`: what is said of heads that fit one of `paper_terms`.
    - `closers`: whether the loss is on closing brackets alone, as in the released code; then only these are scored.
    """

    family: Family
    layers: int
    paper_accuracy: float
    paper_useless: str
    paper_terms: Mapping[str, str]
    block: str = "GPT-2's placement of norms"
    closers: bool = False

    @property
    def training(self) -> str:
        """Block and loss in words, for tables."""
        return f"{self.block}, loss on closers" if self.closers else self.block


CURRENT = "the current position (Fig. 6b)"
CLOSERS = "closing brackets (Figs. 4, 5, 6a)"
TYPE, ONE, TWO = "brackets of one type", "one bracket of the four", "two brackets of the four (Fig. 4)"
NEVER_TYPE, NEVER_ONE = "never one type", "never one bracket of the four (Fig. 4)"

DEPTHS = (
    Group(
        Family("4 layers", "dyck-copy"),
        4,
        0.96,
        "all (Fig. 4), some (Fig. 6)",
        {
            CURRENT: "common, solves the task",
            CLOSERS: "common, uninformative",
            TWO: "one shown, uninformative",
            NEVER_ONE: "one shown, uninformative",
        },
    ),
    Group(
        Family("1 layer", "dyck-copy", {"layers": 1}), 1, 0.90, "all (Fig. 5)", {CLOSERS: "one shown, uninformative"}
    ),
)
# The released repository holds no configuration for copying: the block is theirs (with their frozen one-hot tokens, the
# scalar i / 6000 as position and no bias at the end), and the task, its loss and its training are ours.
RELEASED_BLOCK = {
    "block": "authors",
    "embedding": "onehot",
    "unembed_bias": False,
    "positions": "scalar",
    "n_ctx": 6000,
}


def _released(group: Group) -> Group:
    family = group.family
    options = {**family.options, **RELEASED_BLOCK}
    family = replace(family, name=f"{family.name}, released block", options=options)
    return replace(group, family=family, block="released block")


def _encoder(group: Group) -> Group:
    """The released repository also holds an encoder, BERT's, attending in both directions, without settings."""
    family = replace(group.family, name=f"{group.family.name}, encoder", preset="dyck-copy-encoder")
    return replace(group, family=family, block="encoder")


def _on_closers(group: Group) -> Group:
    family = group.family
    options = {**family.options, "targets": "closers"}
    return replace(group, family=replace(family, name=f"{family.name}, loss on closers", options=options), closers=True)


RELEASED = tuple(map(_released, DEPTHS))
GROUPS = (*DEPTHS, *RELEASED, *map(_on_closers, RELEASED))
# Of the first seeds of this group 11 heads attend to the current position, too few to tell whether most are of use
# (Fig. 6b): twice as many further seeds are asked.
FURTHER = replace(RELEASED[0], family=replace(RELEASED[0].family, name=f"{RELEASED[0].family.name}, further seeds"))
# Added when the statements had been decided for the groups above: what is said of them is secondary.
ENCODERS = (*map(_encoder, DEPTHS), *(_on_closers(_encoder(depth)) for depth in DEPTHS))
LATER = (*ENCODERS, FURTHER)  # in no comparison that was named before the run, nor corrected with others


@dataclass(frozen=True)
class Cost:
    """What edits of one head cost, by edit.

    - `accuracy`: share of brackets lost; `margin`: share of the intact margin lost. NaN for an edit in `dead`, which
      moved no logit, and for the margin where the intact one is not positive.
    - `size`: mean norm of what the head adds over that of the residual stream it is added to.
    """

    accuracy: dict[str, float]
    margin: dict[str, float]
    dead: tuple[str, ...]
    size: float

    @property
    def worst_accuracy(self) -> float:
        """The most that any of the three ablations costs; NaN if one of them is."""
        return float(np.max([self.accuracy[a] for a in ABLATIONS]))

    @property
    def worst_margin(self) -> float:
        """As `worst_accuracy`, of the margin."""
        return float(np.max([self.margin[a] for a in ABLATIONS]))


@dataclass(frozen=True)
class Head:
    """One head of one model: the best of the registered mass relations, that of each of the paper's terms, the cost.

    `untrained`: the score before training of whatever relation fitted best then (chosen and scored likewise).
    """

    seed: int
    layer: int
    best: Fit
    terms: dict[str, Fit]
    untrained: float
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, one flat row."""
        row: dict[str, Any] = {"seed": self.seed, "layer": self.layer, "relation": self.best.relation}
        row |= {"score": self.best.score, "score_before_training": self.best.untrained, "size": self.cost.size}
        row |= {f"accuracy_lost_{edit}": value for edit, value in self.cost.accuracy.items()}
        row |= {f"margin_lost_{edit}": value for edit, value in self.cost.margin.items()}
        return {name: None if value != value else value for name, value in row.items()}


@dataclass(frozen=True)
class Model:
    """One model: intact accuracy and mean margin on the same strings, and what edits of all layers at once cost.

    `without`: accuracy and margin lost with all heads ablated, by ablation, and with the residual link cut (`LINK`).
    """

    seed: int
    accuracy: float
    margin: float
    without: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Measured:
    """One group: its models and their heads."""

    group: Group
    population: Population
    digest: str
    strings: "Strings"
    models: Sequence[Model]
    heads: Sequence[Head]

    @property
    def layers(self) -> int:
        return self.population.config.n_layers

    def at(self, layer: int) -> list[Head]:
        """The heads of one layer, a seed each."""
        return [head for head in self.heads if head.layer == layer]


@dataclass(frozen=True)
class Strings:
    """Held-out strings, each distinct one once, as model inputs; `data.weight` says how often it was drawn.

    The model is to repeat what it reads, at all brackets, or at closing ones alone where its loss is on these.
    `directions`: a random unit vector a position, for the sham.
    """

    data: BracketSet
    grammar: DyckGrammar
    width: int
    _directions: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @property
    def tokens(self) -> Tensor:
        return torch.from_numpy(self.data.inputs)

    @property
    def real(self) -> NDArray[np.bool_]:
        """[string, pos]: not PAD."""
        return np.asarray(self.data.inputs != self.grammar.pad)

    def directions(self, layer: int) -> Tensor:
        """[string, pos, d_model], the same for every model."""
        if layer not in self._directions:
            drawn = generator(0, "sham", layer).standard_normal((*self.data.inputs.shape, self.width))
            unit = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
            self._directions[layer] = torch.from_numpy(unit.astype(np.float32))
        return self._directions[layer]


def measure(group: Group, one: Obtained) -> Measured:
    """Every head of the group's models."""
    population, recipe = one.population, one.family.recipe
    strings = Strings(held_out(recipe), grammar_of(recipe), recipe.config.d_model)
    paper = paper_terms(strings.grammar)
    every = {r.name: r for r in [*MASS, *(r for options in paper.values() for r in options)]}
    causal = recipe.config.direction == "causal"
    looks = Looks(strings.data.inputs, strings.grammar, list(every.values()), causal)
    models, heads = [], []
    for seed, model, fresh in zip(population.seeds, population, population.untrained(), strict=True):
        whole, cost = costs(model, strings, seed)
        models.append(whole)
        for layer, (now, before) in enumerate(zip(looks.scores(model), looks.scores(fresh), strict=True)):
            terms = {term: choose(options, now, before) for term, options in paper.items()}
            best, alike = choose(MASS, now, before), choose(MASS, before, before)
            heads.append(Head(seed, layer, best, terms, alike.score, cost[layer]))
    return Measured(group, population, one.digest, strings, models, heads)


def held_out(recipe: Recipe) -> BracketSet:
    """Strings of the training law; where the loss is on closers alone, no other bracket is asked for."""
    data = in_distribution(recipe, STRINGS)
    if settings_of(recipe).targets != "closers":
        return data
    closing = (data.targets != IGNORE) & (data.targets % 2 == 1)
    return replace(data, targets=np.where(closing, data.targets, IGNORE))


# -- how a pattern looks ------------------------------------------------------------------------------------


def paper_terms(grammar: DyckGrammar) -> dict[str, list[Relation]]:
    """What the paper's captions call a pattern: term -> the relations it may mean."""
    brackets = range(2 * grammar.num_types)
    single = [bracket_tokens([i], f"the bracket {grammar.vocab[i]}") for i in brackets]
    pairs = [
        bracket_tokens(pair, f"the brackets {grammar.vocab[pair[0]]} and {grammar.vocab[pair[1]]}")
        for pair in combinations(brackets, 2)
    ]
    types = [RELATIONS["type-0"], RELATIONS["type-1"]]
    return {
        CURRENT: [RELATIONS["current"]],
        CLOSERS: [RELATIONS["closers"]],
        TYPE: types,
        ONE: single,
        TWO: pairs,
        NEVER_TYPE: [complement(r) for r in types],
        NEVER_ONE: [complement(r) for r in single],
    }


# -- what it costs to take a head away ----------------------------------------------------------------------


def costs(model: SandboxTransformer, strings: Strings, seed: int) -> tuple[Model, list[Cost]]:
    """Every edit of every head, and every ablation of all heads at once."""
    tokens, layers = strings.tokens, range(model.cfg.n_layers)
    read = ("attn.hook_z", "hook_attn_out", "hook_resid_pre")
    names = [f"blocks.{layer}.{part}" for layer in layers for part in read]
    with torch.no_grad():
        intact, cache = model.run_with_cache(tokens, names_filter=names)
        visible = model.visible_keys(tokens)
        even = visible / visible.sum(-1, keepdim=True)
        means = [mean_output(cache[f"blocks.{layer}.attn.hook_z"], strings) for layer in layers]
        accuracy, margin = copied(intact, strings)

        def lost(hooks: list[Hook]) -> tuple[float, float, bool]:
            edited = model.run_with_hooks(tokens, fwd_hooks=hooks)
            scored = strings.data.targets != IGNORE
            if not (edited - intact).abs().amax(-1).numpy()[scored].any():
                return float("nan"), float("nan"), True
            after, left = copied(edited, strings)
            return accuracy - after, (margin - left) / margin if margin > 0 else float("nan"), False

        def hook(edit: str, layer: int) -> Hook:
            return edit_hook(edit, layer, means[layer], even, strings.directions(layer))

        each = []
        for layer in layers:
            found = {edit: lost([hook(edit, layer)]) for edit in EDITS}
            each.append(
                Cost(
                    accuracy={edit: value[0] for edit, value in found.items()},
                    margin={edit: value[1] for edit, value in found.items()},
                    dead=tuple(edit for edit, value in found.items() if value[2]),
                    size=relative_size(cache, layer, strings),
                )
            )
        without = {edit: lost([hook(edit, layer) for layer in layers])[:2] for edit in ABLATIONS}
        without[LINK] = lost([one for layer in layers for one in cut_link(layer)])[:2]
    return Model(seed, accuracy, margin, without), each


def edit_hook(edit: str, layer: int, mean: Tensor, even: Tensor, directions: Tensor) -> Hook:
    """The hook that makes one edit of a layer's only head."""
    if edit == "zero":
        return f"blocks.{layer}.attn.hook_z", lambda z, hook: torch.zeros_like(z)
    if edit == "mean":
        return f"blocks.{layer}.attn.hook_z", lambda z, hook: mean.expand_as(z)
    if edit == "even":
        return f"blocks.{layer}.attn.hook_pattern", lambda pattern, hook: even.expand_as(pattern).to(pattern.dtype)
    return f"blocks.{layer}.hook_attn_out", lambda out, hook: out + directions * out.norm(dim=-1, keepdim=True)


def cut_link(layer: int) -> list[Hook]:
    """The hooks that leave the head's output alone in the stream after attention: what is added to it is taken off."""
    held: list[Tensor] = []

    def keep(stream: Tensor, hook: Any) -> Tensor:
        held[:] = [stream]
        return stream

    return [
        (f"blocks.{layer}.hook_resid_pre", keep),
        (f"blocks.{layer}.hook_attn_out", lambda out, hook: out - held[0]),
    ]


def mean_output(z: Tensor, strings: Strings) -> Tensor:
    """`z` [string, pos, head, d_head] averaged over all positions of all strings drawn, START included."""
    weight = torch.from_numpy(strings.real * strings.data.weight[:, None]).to(z.dtype)
    return (z * weight[..., None, None]).sum((0, 1)) / weight.sum()


def relative_size(cache: Any, layer: int, strings: Strings) -> float:
    """Mean norm of the head's output over the mean norm of the stream it is added to, over brackets."""
    scored = torch.from_numpy((strings.data.targets != IGNORE) * strings.data.weight[:, None])
    added, stream = (cache[f"blocks.{layer}.{name}"].norm(dim=-1) for name in ("hook_attn_out", "hook_resid_pre"))
    return float((added * scored).sum() / (stream * scored).sum())


def copied(logits: Tensor, strings: Strings) -> tuple[float, float]:
    """Share of brackets copied right, and mean of the right logit minus the best other one, over strings drawn."""
    target = torch.from_numpy(strings.data.targets)
    index = target.clamp(min=0)[..., None]
    right = logits.gather(-1, index)[..., 0]
    other = logits.scatter(-1, index, -torch.inf).amax(-1)
    weight = (target != IGNORE) * torch.from_numpy(strings.data.weight)[:, None]
    total = weight.sum()
    return float(((right > other) * weight).sum() / total), float(((right - other).double() * weight).sum() / total)
