"""The commands, one function each; `audit` has its own file. What needs torch is imported when it is needed."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interp.cli.files import (
    check_checkpoint,
    check_figure,
    check_outputs,
    content_of,
    deliver,
    each_of,
    find_each,
    is_foreign,
    load_each,
    no_such_seed,
)
from interp.cli.flags import refuse_unread
from interp.errors import RequestError, quoted
from interp.names import first_duplicate, nearest_name
from interp.numbers import number
from interp.text import entry, fold


def train(arguments: argparse.Namespace) -> int:
    """Train a population and write its checkpoint."""
    refuse_unread(arguments)
    from interp.presets import make_recipe

    recipe = make_recipe(
        arguments.preset,
        _options(arguments.options),
        steps=arguments.steps,
        batch=arguments.batch,
        snapshots=sorted(set(arguments.snapshot)),
    )
    out = arguments.out or Path(f"{arguments.preset}.safetensors")
    if arguments.out is None and os.path.exists(out) and not arguments.resume:
        raise RequestError(f"{str(out)!r} is there already: name another file with --out, or remove it")
    check_outputs(out, arguments.json)
    check_checkpoint(out)
    from interp.training.run import train_population

    population = train_population(
        recipe,
        range(arguments.first_seed, arguments.first_seed + arguments.seeds),
        out=out,
        resume=arguments.resume,
        workers=arguments.workers,
        device=arguments.device,
        progress=True,
        callback=_watchers(arguments),
    )
    said = [population.summary()]
    if population.timing:
        said.append(
            f"CPU seconds per seed: {number(population.timing['training_cpu_s_per_seed'], 2)} training, "
            f"{number(population.timing['evaluation_cpu_s_per_seed'], 2)} evaluation"
        )
    said.append(f"wrote {out}" if population.timing else f"{out} was finished already")
    from probes.core import OF, header_of_command

    asked = {"preset": arguments.preset, "seeds": len(population), "first_seed": arguments.first_seed}
    table = {
        OF: header_of_command("training", **asked),
        "recipe": recipe.to_dict(), "history": list(population.history), "timing": population.timing,
    }  # fmt: skip
    deliver("\n".join(said), arguments.json, table)
    return 0


def _watchers(arguments: argparse.Namespace) -> Any:
    """What the measures are shown by besides, None for nothing."""
    from interp.training.writers import TensorBoardWriter, WandbWriter

    each: list[Any] = [] if arguments.tensorboard is None else [TensorBoardWriter(arguments.tensorboard)]
    each += [] if arguments.wandb is None else [WandbWriter(arguments.wandb)]
    return (lambda rows: [write(rows) for write in each]) if each else None


def options_help() -> str:
    """What `--set` takes, by world, for the help: from the fields of grammars, models and settings."""
    from interp.presets import options_of
    from interp.registry import worlds

    told = [(", ".join(world.presets), options_of(next(iter(world.presets)))) for world in worlds() if world.presets]
    common = [item for item in told[0][1].items() if all(item in options.items() for _, options in told)]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {tuple(common): ["all presets"]}
    for presets, options in told:
        groups.setdefault(tuple(item for item in options.items() if item not in common), []).append(presets)
    said = ["Keys of --set"]
    for items, whose in groups.items():
        said += [f"of {', '.join(whose)}:", *(f"  {key}: {text}" for key, text in items)]
    return "\n" + fold(said) + "\n"


def _options(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := first_duplicate(key for key, _ in pairs)) is not None:
        raise RequestError(f"--set {twice}=... is given twice")
    return dict(pairs)


def analyze(arguments: argparse.Namespace) -> int:
    """Measure a checkpoint, or several together, with one analyzer."""
    from probes.analyzers import get_analyzer

    analyzer = get_analyzer(arguments.analyzer)
    check_figure(arguments.figure)
    refuse_unread(arguments)
    found = find_each(arguments, arguments.json, arguments.figure)
    for one, (_, meta) in zip(each_of(arguments), found, strict=True):  # before torch is loaded
        kind = (meta.get("grammar") or {}).get("kind")
        analyzer.check(str(one.checkpoint), kind, foreign=is_foreign(one))
    result = analyzer(load_each(arguments), arguments.seed, vars(arguments))
    deliver(result.summary(), arguments.json, content_of(result), arguments.figure, result)
    return 0


def heatmap(arguments: argparse.Namespace) -> int:
    """Draw attention patterns."""
    check_figure(arguments.out)
    refuse_unread(arguments)
    overlay: Any = arguments.overlay or []
    if "none" in overlay and len(overlay) > 1:
        other = next(name for name in overlay if name != "none")
        raise RequestError(f"--overlay none and --overlay {other} exclude each other: leave one out")
    from interp.registry import merged

    known = merged("overlays")
    if unknown := next((name for name in overlay if name not in (*known, "none")), None):
        near = nearest_name(unknown, list(known))
        told = "" if near is None else f"did you mean {near!r}? "
        raise RequestError(
            f"--overlay {quoted(unknown)} is none that a world has: {told}{_overlays_of(arguments)}, or none"
        )
    found = find_each(arguments, arguments.out)
    together = {"kind": "population", "seeds": [seed for _, meta in found for seed in meta["seeds"]]}
    refuse_unread(arguments, found[0][1] if len(found) == 1 else together)
    _seed_among(found[0][1]["seeds"] if len(found) == 1 else None, arguments)
    model: Any = load_each(arguments)
    from interp.plots import attention_heatmap, save_figure

    several = len(found) > 1 or found[0][1]["kind"] == "population"
    if several and (arguments.seed is not None or len(model) == 1):
        # Models of several files that are no shards of one recipe are counted as analyzers count them, from 0.
        seeds = list(getattr(model, "seeds", range(len(model))))
        _seed_among(seeds, arguments)
        model = model[0 if arguments.seed is None else seeds.index(arguments.seed)]
        several = False
    from interp.plots.overlays import usual_overlays

    overlay = overlay or usual_overlays(getattr(model, "grammar", None)) or ["none"]
    figure = attention_heatmap(
        model,
        arguments.text,
        layer=arguments.layer,
        head=arguments.head,
        overlay=None if "none" in overlay else overlay,
        null=arguments.null,
        population=(arguments.population or "grid") if several else "one",
        task_check=not arguments.no_task_check,
    )
    save_figure(figure, arguments.out)
    print(f"wrote {arguments.out}")
    return 0


def _overlays_of(arguments: argparse.Namespace) -> str:
    """The overlays of the checkpoint's world in words; of all worlds where that is not known."""
    from interp.registry import merged, world_of_kind

    kinds = {(meta.get("grammar") or {}).get("kind") for _, meta in find_each(arguments)}
    world = world_of_kind(kinds.pop()) if len(kinds) == 1 else None
    if world is None or not world.overlays:
        return f"one of {', '.join(merged('overlays'))}"
    return f"those of {world.name} are {', '.join(world.overlays)}"


def _seed_among(seeds: Sequence[int] | None, arguments: argparse.Namespace) -> None:
    """Raise `RequestError` for a --seed that is none of these (None: they are not known yet)."""
    if seeds is not None and arguments.seed is not None and arguments.seed not in seeds:
        raise no_such_seed(arguments.seed, list(seeds), arguments.checkpoints)


def prune(arguments: argparse.Namespace) -> int:
    """Prune a random network into the target."""
    check_figure(arguments.figure)
    from interp.header import find_checkpoint, read_header

    checkpoint = find_checkpoint(arguments.target)
    check_outputs(arguments.out, arguments.json, arguments.figure, keep=checkpoint)
    check_checkpoint(arguments.out)
    meta = read_header(checkpoint)
    from interp.checkpoints import load_checkpoint, save_checkpoint
    from probes import demonstrate_lottery_ticket

    model: Any = load_checkpoint(arguments.target)
    said = []
    if meta["kind"] == "population":
        model = model[0]
        said.append(f"target: seed {meta['seeds'][0]}, the first of {len(meta['seeds'])} models")
    result = demonstrate_lottery_ticket(model, candidates=arguments.candidates, seed=arguments.seed, progress=True)
    save_checkpoint(result.model, arguments.out)
    said += [result.summary(), f"wrote {arguments.out}"]
    deliver("\n".join(said), arguments.json, content_of(result), arguments.figure, result)
    return 0


def merge(arguments: argparse.Namespace) -> int:
    """Put shards of one recipe together, in the order of their seeds: the file that one run would have written."""
    refuse_unread(arguments)
    check_checkpoint(arguments.out)
    found = find_each(arguments, arguments.out)
    for name, (_, meta) in zip(arguments.checkpoints, found, strict=True):
        if meta["kind"] != "population":
            raise RequestError(f"{quoted(name)} holds one model, and populations are merged")
    from interp.checkpoints import load_checkpoint, save_checkpoint
    from interp.population import Population

    parts = [load_checkpoint(path) for path, _ in found]
    single = [one[i : i + 1] for one in parts if isinstance(one, Population) for i in range(len(one))]
    whole = Population.concat(sorted(single, key=lambda one: one.seeds))
    save_checkpoint(whole, arguments.out)
    print(f"wrote {arguments.out}: {len(whole)} models, seeds {_ranges(whole.seeds)}")
    return 0


def _ranges(seeds: Sequence[int]) -> str:
    """Ascending whole numbers in words: "0-3, 7"."""
    out: list[list[int]] = []
    for seed in seeds:
        if out and seed == out[-1][-1] + 1:
            out[-1] = [out[-1][0], seed]
        else:
            out.append([seed])
    return ", ".join("-".join(map(str, run)) for run in out)


def report(arguments: argparse.Namespace) -> int:
    """Run a case study."""
    from case_studies.registry import find_studies

    declared = find_studies()[arguments.study]
    refuse_unread(arguments)
    given = {option.dest: getattr(arguments, option.dest) for option in declared.options}
    from interp.devices import usable_device
    from interp.files import new_folder

    device = usable_device(arguments.device)
    with new_folder(arguments.out) as folder:
        check_outputs(folder / "index.html", folder / "results.json")
        how = {name: getattr(arguments, name) for name in ("full", "workers", "seeds", "steps")}
        page = declared.load().run(arguments.out, **how, device=device, **given)
    print(f"wrote {page}")
    return 0


def curves(arguments: argparse.Namespace) -> int:
    """Tell and draw learning curves."""
    check_figure(arguments.figure)
    refuse_unread(arguments)
    check_outputs(arguments.json, arguments.figure, keep=Path(arguments.file))
    from interp.curves import Curves
    from probes.core import OF, header_of_command

    found = Curves.read(arguments.file, arguments.measure)
    table = {OF: header_of_command("curves", file=arguments.file, measures=arguments.measure), **found.to_dict()}
    deliver(found.summary(), arguments.json, table, arguments.figure, found)
    return 0


def list_all(arguments: argparse.Namespace) -> int:
    """Print presets, studies and bundled checkpoints."""
    check_outputs(arguments.json)
    from case_studies.registry import find_studies
    from interp.header import PRETRAINED, list_pretrained, read_header
    from interp.registry import broken, get_world, list_worlds, presets
    from probes.analyzers import find_analyzers
    from probes.core import OF, header_of_command

    known = presets()
    bundled: dict[str, dict[str, Any]] = {}
    for name in list_pretrained():
        meta = read_header(PRETRAINED / f"{name}.safetensors")
        bundled[name] = {
            "models": len(meta["seeds"]),
            "about": meta["provenance"].get("about", ""),
            **worst_measures(meta),
        }
    said = ["Worlds (what models are trained on, and what is true there)"]
    worlds = {name: get_world(name).about for name in list_worlds() if name not in broken()}
    overlays = {name: list(get_world(name).overlays) for name in worlds}
    for name, about in worlds.items():
        said += entry(name, about)
        said += entry("", f"overlays: {', '.join(overlays[name])}") if overlays[name] else []
    said += _broken(broken())
    said.append("Presets (interp train PRESET)")
    said += [line for name, preset in known.items() for line in entry(name, preset.about)]
    said.append("Analyzers (interp analyze ANALYZER CHECKPOINT)")
    analyzers, unusable = find_analyzers()
    said += [line for name, one in analyzers.items() for line in entry(name, one.about)]
    said += _broken(unusable)
    said.append("Studies (interp report STUDY)")
    studies = find_studies()
    told = {name: declared.about for name, declared in studies.found.items()}
    said += [line for name, about in told.items() for line in entry(name, about)]
    said += _broken(studies.broken)
    said.append("Bundled checkpoints (load_checkpoint(NAME)); measures of the worst seed")
    for name, info in bundled.items():
        rules = ", ".join(f"{k} {number(v)}" for k, v in info.items() if isinstance(v, float))
        count = "1 model" if info["models"] == 1 else f"{info['models']} models"
        said += entry(name, f"{count}: {rules or info['about']}")
    data = {
        OF: header_of_command("list"),
        "worlds": {name: {"about": about, "overlays": overlays[name]} for name, about in worlds.items()},
        "presets": {name: preset.about for name, preset in known.items()},
        "analyzers": {name: {"about": one.about, "null": one.null} for name, one in analyzers.items()},
        "studies": told,
        "checkpoints": bundled,
    }
    deliver("\n".join(said), arguments.json, data)
    return 0


def _broken(reasons: Mapping[str, str]) -> list[str]:
    return [f"  {name:<20} cannot be used: {reason}" for name, reason in reasons.items()]  # a line each, to be found


def worst_measures(meta: dict[str, Any]) -> dict[str, float]:
    """Of the worst seed, at the last step, each measure that the world shows, from a checkpoint's header."""
    from interp.registry import world_of_kind

    rows = {row["seed"]: row for row in meta["history"]}
    world = world_of_kind((meta.get("grammar") or {}).get("kind"))
    return {
        rule: (min if column.best == "most" else max)(row[rule] for row in rows.values())
        for rule, column in ({} if world is None else world.shown).items()
        if rows and all(row.get(rule) is not None for row in rows.values())
    }
