"""`Population`: S models of one config, as stacked tensors with their provenance."""

import contextlib
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, isfinite, log10
from typing import Any, overload

import numpy as np
import torch

from interp import html
from interp.checks import plain
from interp.config import TransformerConfig
from interp.devices import known_device, usable_device
from interp.errors import CheckpointError, PlaceError, RequestError, quoted
from interp.functional import Params, stack_params
from interp.grammars import Grammar
from interp.limits import check_memory
from interp.model import SandboxTransformer
from interp.names import first_duplicate, printable
from interp.numbers import ABSENT, estimate, number, significant
from interp.registry import world_of
from interp.settings import first_seed
from interp.sources import Part, source_of, with_source
from interp.stats import Estimate, mean_over_seeds
from interp.text import counted, fold
from interp.torch_modes import ordinary_torch
from interp.world import Column, of_strings


@dataclass(frozen=True, eq=False, repr=False)
class Population(Sequence[SandboxTransformer]):
    """Models that differ in their seed only: a sequence of `SandboxTransformer`s.

    - `params`: every parameter stacked, name -> [S, ...].
    - `history`: a tidy table, one dict per seed and evaluated step ("seed", "step", "loss", ...).
    - `snapshots`: step -> parameters stacked as in `params`.
    - `provenance`: recipe name, training settings, versions, seeds that diverged; "seeded" False where seeds are mere
      numbers, since it is not known from which first weights the models come.
    - `timing`: CPU seconds per seed, where this process trained it. Never saved: files stay reproducible.

    `population[i]` is the model at place i, a copy; `population[2:5]` a population; iteration gives the models.

        >>> import torch
        >>> from interp import Population, TransformerConfig
        >>> config = TransformerConfig(d_vocab=5, n_layers=1, d_model=8, d_head=8, d_mlp=16)
        >>> population = Population.init(config, seeds=[0, 1, 2])
        >>> len(population), tuple(population.params["unembed.W_U"].shape)
        (3, (3, 8, 5))
        >>> tuple(population[1](torch.tensor([[0, 1, 2]])).shape)  # [batch, pos, d_vocab]
        (1, 3, 5)

    Raises `RequestError` for parameters that are not those of the config, or seeds that are no distinct whole numbers;
    `PlaceError` for a place that it does not have.
    """

    config: TransformerConfig
    grammar: Grammar | None
    params: Params
    seeds: tuple[int, ...]
    provenance: dict[str, Any] = field(default_factory=dict)
    history: tuple[dict[str, Any], ...] = ()
    snapshots: dict[int, Params] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", seeds_of(self.seeds))
        check_params(self.config, self.params, len(self.seeds), self.grammar)

    @classmethod
    def init(cls, config: TransformerConfig, seeds: Sequence[int], grammar: Grammar | None = None) -> "Population":
        """Untrained models, one per seed.

        Raises `RequestError` for seeds that are no distinct whole numbers, and for more than memory holds.
        """
        seeds = seeds_of(seeds)
        with torch.device("meta"):
            _check_size(len(seeds), SandboxTransformer(config))
        models = [SandboxTransformer.init(config, seed, grammar) for seed in seeds]
        return cls.from_models(models)

    @classmethod
    def from_models(cls, models: Sequence[SandboxTransformer]) -> "Population":
        """Copies of several models of one config and grammar.

        Raises `RequestError` for no model, for what is no `SandboxTransformer`, and for models of different configs.
        """
        given: list[Any] = list(models) if isinstance(models, Sequence) else [models]
        if not given:
            raise RequestError("a population needs at least one model, got none")
        for i, model in enumerate(given):
            if not isinstance(model, SandboxTransformer):
                raise RequestError(
                    f"model {i} is {type(model).__name__!r}, and a list of SandboxTransformers is needed"
                )
        models = given
        first = models[0]
        for i, model in enumerate(models):
            if model.config != first.config or model.grammar != first.grammar:
                raise RequestError(f"model {i} has another config or grammar than model 0: one population has one")
        _check_size(len(models), first)
        params = stack_params([{n: p.detach().clone() for n, p in m.named_parameters()} for m in models])
        told = [plain(m.provenance.get("seed", i)) for i, m in enumerate(models)]
        known = all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in told)
        # Two models of one seed (or of none) are told apart by their place.
        seeds = tuple(told) if known and len(set(told)) == len(told) else tuple(range(len(models)))
        provenance: dict[str, Any] = {"trained": any(m.provenance.get("trained", True) for m in models)}
        if not all(seeded(m) for m in models):
            provenance["seeded"] = False
        return cls(first.config, first.grammar, params, seeds, provenance)

    @classmethod
    def concat(cls, parts: Sequence["Population"]) -> "Population":
        """Populations of one recipe as one, in their order: shards of seeds become what one run would have trained.

        Raises `RequestError` for parts that one run could not have trained together: another config, grammar, settings
        or versions, other steps, or a seed that two of them have.
        """
        given: list[Any] = (
            list(parts) if isinstance(parts, Sequence) and not isinstance(parts, (str, Population)) else []
        )
        if not given or not all(isinstance(part, Population) for part in given):
            raise RequestError(
                f"parts={quoted(parts)} is not a list of populations: a population of all is made of them"
            )
        first = given[0]
        for i, part in enumerate(given):
            _check_same_run(part, first, i)
        seeds = tuple(seed for part in given for seed in part.seeds)
        if (twice := first_duplicate(seeds)) is not None:
            raise RequestError(f"two of the populations hold seed {twice}: each seed counts once")
        _check_size(len(seeds), first[0])
        place = {seed: i for i, seed in enumerate(seeds)}
        rows = (row for part in given for row in part.history)
        told = (item for part in given for item in part.provenance.get("diverged", {}).items())
        diverged = {seed: step for seed, step in told if int(seed) in place}
        provenance = dict(first.provenance)
        if "diverged" in provenance:
            provenance["diverged"] = dict(sorted(diverged.items(), key=lambda item: int(item[0])))
        whole = cls(
            first.config,
            first.grammar,
            {name: torch.cat([part.params[name] for part in given]) for name in first.params},
            seeds,
            provenance,
            tuple(sorted(rows, key=lambda row: (row["step"], place[row["seed"]]))),
            {
                step: {name: torch.cat([part.snapshots[step][name] for part in given]) for name in first.params}
                for step in first.snapshots
            },
        )
        sources = [source_of(part) for part in given]
        named = [
            replace(one, seeds=one.seeds or part.seeds)
            for part, source in zip(given, sources, strict=True)
            for one in source or ()
        ]
        return with_source(whole, tuple(named) if all(sources) else None)

    def untrained(self) -> "Population":
        """The same config and seeds before training: the null of every analyzer."""
        first = [first_seed(self.provenance, seed) for seed in self.seeds]
        models = [SandboxTransformer.init(self.config, seed, self.grammar) for seed in first]
        return replace(Population.from_models(models), seeds=self.seeds).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.params.values())).device

    def to(self, device: str | torch.device) -> "Population":
        """The same population with its weights and snapshots on `device`. Raises `RequestError` for an unusable one."""
        device = known_device(device)
        if device == self.device:
            return self
        if device.type != "meta":
            usable_device(device)
        params = {n: p.to(device) for n, p in self.params.items()}
        snapshots = {step: {n: p.to(device) for n, p in ps.items()} for step, ps in self.snapshots.items()}
        return with_source(replace(self, params=params, snapshots=snapshots), source_of(self))

    def at_step(self, step: int) -> "Population":
        """The population as it was at a snapshot step. Raises `RequestError` for a step that was not kept."""
        step = plain(step)
        if isinstance(step, bool) or not isinstance(step, int) or step not in self.snapshots:
            have = ", ".join(map(str, sorted(self.snapshots))) or "none"
            raise RequestError(f"no snapshot of step {quoted(step)}; snapshots are {have}")
        then = Population(
            self.config, self.grammar, self.snapshots[step], self.seeds, {**self.provenance, "step": step}
        )
        return with_source(then, tuple(replace(part, step=step) for part in source_of(self) or ()))

    def __len__(self) -> int:
        return len(self.seeds)

    @overload
    def __getitem__(self, index: int) -> SandboxTransformer: ...

    @overload
    def __getitem__(self, index: slice) -> "Population": ...

    @ordinary_torch()
    def __getitem__(self, index: int | slice) -> "SandboxTransformer | Population":
        """Copy one seed into a model, or cut out some seeds (with their history and snapshots)."""
        if isinstance(index, slice):
            try:
                seeds = self.seeds[index]
            except (TypeError, ValueError) as error:
                raise RequestError(f"{quoted(index)} of a population of {len(self)}: {error}") from error
            if not seeds:
                raise RequestError(f"slice {quoted(index.start)}:{quoted(index.stop)} of {len(self)} models is empty")
            chosen, those = list(range(len(self)))[index], set(seeds)  # tensors know no negative step
            cut = Population(
                self.config,
                self.grammar,
                {name: p[chosen].clone() for name, p in self.params.items()},
                seeds,
                self.provenance,
                tuple(row for row in self.history if row["seed"] in those),
                {s: {n: p[chosen].clone() for n, p in ps.items()} for s, ps in self.snapshots.items()},
            )
            return with_source(cut, self._source_of(seeds))
        try:
            place: Any = None if isinstance(index, (bool, np.bool_)) else index
            index = operator.index(place)
        except TypeError as error:
            raise RequestError(
                f"index {quoted(index)} of a population of {len(self)} is not a whole number: p[0] is its first model, "
                "p[:2] its first two"
            ) from error
        if not -len(self) <= index < len(self):
            raise PlaceError(f"index {quoted(index)} of a population of {len(self)}")  # ends iteration
        seed = self.seeds[index]
        like = next(iter(self.params.values()))
        model = SandboxTransformer(self.config, self.grammar, {**self.provenance, "seed": seed})
        model = model.to(like.device, like.dtype)  # before loading: float64 weights keep their last bits
        model.load_state_dict({name: p[index].detach().clone() for name, p in self.params.items()})
        return with_source(model, self._source_of((seed,)))

    def _source_of(self, seeds: Sequence[int]) -> tuple[Part, ...]:
        """Where models of these seeds are from, part by part in their order; nowhere where that is not known."""
        parts, out = source_of(self) or (), list[Part]()
        for seed in seeds:
            part = parts[0] if len(parts) == 1 else next((p for p in parts if seed in (p.seeds or ())), None)
            if part is None:
                return ()
            if out and replace(out[-1], seeds=None) == replace(part, seeds=None):
                out[-1] = replace(part, seeds=(*(out[-1].seeds or ()), seed))
            else:
                out.append(replace(part, seeds=(seed,)))
        return tuple(out)

    def __iter__(self) -> Iterator[SandboxTransformer]:
        return (self[i] for i in range(len(self)))

    def final_metrics(self) -> list[dict[str, Any]]:
        """The last row of `history` of each seed, in the order of `seeds`."""
        last = {row["seed"]: row for row in self.history}
        return [last[seed] for seed in self.seeds if seed in last]

    def summary(self) -> str:
        """A few lines: what it is, and how well each seed does."""
        c, name = self.config, self.provenance.get("name", "population")
        count = counted(len(self), "model")
        lines = [f"{name}: {count}, {c.n_layers} layer(s), {c.n_heads} head(s), d_model {c.d_model}"]
        if self.grammar is not None:
            lines.append(f"grammar: {self.grammar}")
        rows = self.final_metrics()
        heads = {"seed": "seed", "step": "step"} | {key: column.head for key, column in self._columns().items()}
        shown = [key for key in heads if any(key in row for row in rows)]
        if rows:
            wide = {key: max(_WIDTHS.get(key, 10), len(heads[key]) + 2) for key in shown}
            lines.append("".join(f"{heads[key]:>{wide[key]}}" for key in shown))
        for row in rows:
            cells = {key: _short(row[key]) if key in row else ABSENT for key in shown}
            lines.append("".join(f" {cell:>{wide[key] - 1}}" for key, cell in cells.items()))
        if len(rows) > 1:
            means = ", ".join(f"{heads[key]} {estimate(mean, 4)}" for key, mean in self._means(rows).items())
            lines.append(f"mean of {len(rows)} seeds and its 95 % interval: {means}")
        rungs = {key.removeprefix("rung/"): value for key, value in (rows[0] if rows else {}).items() if "rung/" in key}
        told = [f"the exact law {_short(rungs.pop('law'))}"] if "law" in rungs else []
        if rungs:
            told.append("simpler predictors " + ", ".join(f"{name} {_short(value)}" for name, value in rungs.items()))
        if told:
            lines.append("loss on the same strings of " + ", of ".join(told))
        for seed, step in self.provenance.get("diverged", {}).items():
            if int(seed) not in self.seeds:
                continue  # a slice keeps the provenance of the whole
            lines.append(f"  seed {seed} diverged at step {step}: its last good weights are kept")
        return fold(lines)

    def __repr__(self) -> str:
        return printable(f"<Population of {len(self)} {self.provenance.get('name', 'models')}>")

    def _repr_html_(self) -> str:
        c, rows = self.config, self.final_metrics()
        heads = {"seed": "seed", "step": "step"} | {key: column.head for key, column in self._columns().items()}
        shown = [key for key in heads if any(key in row for row in rows)]
        facts = {
            "layers, heads, d_model": f"{c.n_layers}, {c.n_heads}, {c.d_model}",
            "grammar": self.grammar if self.grammar is not None else "none",
            "trained": "yes" if self.provenance.get("trained", True) else "no",
        }
        diverged = {s: step for s, step in self.provenance.get("diverged", {}).items() if int(s) in self.seeds}
        if diverged:
            facts["diverged"] = ", ".join(f"seed {s} at step {step}" for s, step in diverged.items())
        page = html.facts(f"{self.provenance.get('name', 'Population')}: {counted(len(self), 'model')}", facts)
        if not rows:
            return page
        cells = [[_short(row[k]) if k in row else ABSENT for k in shown] for row in rows]
        if len(rows) > 1:
            means = self._means(rows)
            cells.append(["mean, 95 %", *(estimate(means.get(k), 4) if k in means else "" for k in shown[1:])])
        return page + html.table([heads[key] for key in shown], cells)

    def _columns(self) -> dict[str, Column]:
        """What a table shows of each model: its loss, and what its world shows."""
        world = world_of(self.grammar)
        return {"loss": Column.of("loss", "loss")} | ({} if world is None else world.shown)

    def _means(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
        """Of each shown measure that every seed has, the mean over seeds; not of what the strings alone decide."""
        found = {
            key: [row[key] for row in rows] for key in self._columns() if all(row.get(key) is not None for row in rows)
        }
        return {
            key: mean_over_seeds(values, support=(self._columns()[key].least, self._columns()[key].most))
            for key, values in found.items()
            if not of_strings(key, values)
        }


def _check_same_run(part: Population, first: Population, i: int) -> None:
    """Raise `RequestError` unless one run could have trained both."""
    facts: dict[str, tuple[Any, Any]] = {
        "config": (part.config, first.config),
        "grammar": (part.grammar, first.grammar),
        "device": (part.device, first.device),
        "snapshots": (sorted(part.snapshots), sorted(first.snapshots)),
        "steps measured": ({row["step"] for row in part.history}, {row["step"] for row in first.history}),
    }
    for name in sorted(part.provenance.keys() | first.provenance.keys()):
        if name != "diverged":
            facts[name] = (part.provenance.get(name), first.provenance.get(name))
    for name, (own, other) in facts.items():
        if own != other:
            raise RequestError(
                f"population {i} has {name} {quoted(_apart(own, other))}, and population 0 "
                f"{quoted(_apart(other, own))}: only shards of one recipe make one population"
            )


def _apart(own: Any, other: Any) -> Any:
    """What of a mapping, or a dataclass, is not the same in another; all of it where that cannot be told."""
    tables = [one.to_dict() if hasattr(one, "to_dict") else one for one in (own, other)]
    if not all(isinstance(table, dict) for table in tables):
        return own
    return {name: value for name, value in tables[0].items() if value != tables[1].get(name)} or own


def seeds_of(given: Any) -> tuple[int, ...]:
    """Seeds as they were given, plain numbers. Raises `RequestError` for what is no list of whole numbers."""
    listed = isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, (str, bytes))
    seeds = tuple(map(plain, given)) if listed and getattr(given, "ndim", 1) == 1 else ("",)
    if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise RequestError(f"seeds={quoted(given)} is not a list of seeds, one per model")
    return seeds


_WIDTHS = {"seed": 7, "step": 7}


def _short(value: Any) -> str:
    """Four decimals, and more where they would turn a small error into none: 0.999984 and 1.6e-05."""
    if value is not None and not isinstance(value, float):
        return str(value)
    short = number(value, 4)
    if value is None or not isfinite(value) or value in (0.0, 1.0):
        return short
    if short in ("0.0000", "-0.0000"):
        return significant(value, 2)
    return number(value, min(9, 1 - floor(log10(abs(1 - value))))) if short == "1.0000" else short


def _check_size(count: int, model: SandboxTransformer) -> None:
    """Refuse more copies of a model than memory holds, where each is held twice while they are stacked."""
    weights = list(model.parameters())
    size = sum(p.numel() for p in weights)
    what = f"a population of {count} models of {size:,} weights"
    held = sum(p.numel() * p.element_size() for p in weights)
    check_memory(what, 2 * count * held, "make fewer models, or smaller ones")


def check_params(config: TransformerConfig, params: Params, count: int, grammar: Grammar | None = None) -> None:
    """Raise `CheckpointError`, naming the tensor, unless `params` fit `count` models of `config`.

    A grammar that does not fit the config is a `ConfigError`, as in a single model.
    """
    with torch.device("meta"):
        expected = dict(SandboxTransformer(config, grammar).named_parameters())
    for name in expected:
        if name not in params:
            raise CheckpointError(f"tensor {quoted(name)} is missing")
    for name, tensor in params.items():
        if name not in expected:
            raise CheckpointError(f"tensor {quoted(name)} does not belong to this config")
        if not tensor.is_floating_point():
            raise CheckpointError(f"tensor {quoted(name)} holds {tensor.dtype}, and weights are floating-point numbers")
        shape = (count, *expected[name].shape)
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"tensor {quoted(name)} has shape {list(tensor.shape)}; the config needs {list(shape)}"
            )


def seeded(model: SandboxTransformer) -> bool:
    """Whether its seed is the one its first weights were drawn with, and no number that it got later."""
    return "seed" in model.provenance and bool(model.provenance.get("seeded", True))


def joined(loaded: Sequence[Any]) -> Any:
    """The models of several files: a population where they are shards of one recipe or of one config, else a list."""
    if len(loaded) == 1:
        return loaded[0]
    if all(isinstance(one, Population) for one in loaded):
        with contextlib.suppress(RequestError):
            return Population.concat(list(loaded))
    models = [model for one in loaded for model in (one if isinstance(one, Population) else [one])]
    if all(isinstance(model, SandboxTransformer) for model in models):
        with contextlib.suppress(RequestError):
            return with_source(Population.from_models(models), source_of(models))
    return models
