"""Flags that a request gives in vain: those that what else it says leaves unread are refused by name, in one table."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from interp.errors import RequestError, quoted


class Given:
    """Of an action of argparse: note in the namespace's `given` that it was used, so that a default is no request.

    Of a flag that is given twice the last counts, as everywhere: command lines are written to be added to.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if option_string is not None:
            given: frozenset[str] = getattr(namespace, "given", frozenset())
            namespace.given = given | {cast(argparse.Action, self).dest}
        super().__call__(parser, namespace, values, option_string)  # type: ignore[misc]


class Store(Given, argparse._StoreAction):
    """`store`."""


class StoreTrue(Given, argparse._StoreTrueAction):
    """`store_true`."""


class Append(Given, argparse._AppendAction):
    """`append`."""


ACTIONS: Mapping[str | None, type[argparse.Action]] = {
    None: Store,
    "store": Store,
    "store_true": StoreTrue,
    "append": Append,
}


@dataclass(frozen=True)
class Unread:
    """Flags (by `dest`) that a command does not read where `why` gives a reason.

    `why` is asked twice: before any file is opened, with an empty `meta`, and with the checkpoint's header.
    """

    flags: tuple[str, ...]
    why: Callable[[argparse.Namespace, Mapping[str, Any]], str | None]
    cure: str = "leave it out"


def _of_bench(a: argparse.Namespace, _: Mapping[str, Any]) -> str | None:
    return "--bench brings its own models, inputs and claims" if a.bench else None


def _elsewhere(a: argparse.Namespace) -> bool:
    return not a.device.startswith("cpu")


def _of_ours(a: argparse.Namespace, _: Mapping[str, Any]) -> str | None:
    from interp.header import is_ours

    for name in map(str, a.checkpoints):
        if a.model_config is None and is_ours(name):
            return f"it names the tokens of other people's models, and {quoted(name)} is of ours"
    return None


def _on_device(a: argparse.Namespace, _: Mapping[str, Any]) -> str | None:
    return f"with --device {a.device} all seeds train in one process" if _elsewhere(a) else None


def _one_model(a: argparse.Namespace, meta: Mapping[str, Any]) -> str | None:
    if "seed" in a.given:
        return "--seed chooses one model, and this says how to show several"
    alone = bool(meta) and (meta["kind"] == "model" or len(meta["seeds"]) == 1)
    return f"{str(a.checkpoints[0])!r} is one model, and this says how to show several" if alone else None


def _no_seeds(a: argparse.Namespace, meta: Mapping[str, Any]) -> str | None:
    alone = bool(meta) and meta["kind"] == "model"
    return f"it chooses a model of a population, and {str(a.checkpoints[0])!r} is one model" if alone else None


VOCAB = Unread(("vocab",), _of_ours)
TABLE: dict[str, tuple[Unread, ...]] = {
    "train": (Unread(("workers",), _on_device),),
    "analyze": (VOCAB,),
    "audit": (
        Unread(("per_family",), lambda a, _: None if a.bench else "it is of --bench, which is not asked for"),
        Unread(("per_family",), lambda a, _: "it is of --bench written" if a.bench == "trained" else None),
        Unread(("half", "models", "runs"), lambda a, _: None if a.bench == "trained" else "it is of --bench trained"),
        Unread(("runs",), lambda a, _: "runs of the judging half are counted" if a.half == "develop" else None),
        Unread(
            (
                "checkpoints",
                "claim",
                "claims",
                "relations",
                "inputs",
                "num_inputs",
                "model_config",
                "vocab",
                "model_seed",
                "strict",
                "no_task_check",
                "early",
            ),
            _of_bench,
        ),
        Unread(("num_inputs",), lambda a, _: "--inputs gives the inputs" if a.inputs is not None else None),
        Unread(("device",), lambda a, _: "--bench runs on the CPU" if a.bench and _elsewhere(a) else None),
        VOCAB,
    ),
    "scan": (
        Unread(("num_inputs",), lambda a, _: "--inputs gives the inputs" if a.inputs is not None else None),
        VOCAB,
    ),
    "heatmap": (Unread(("population",), _one_model), Unread(("seed",), _no_seeds), VOCAB),
    "merge": (),
    "prune": (),
    "report": (Unread(("workers",), _on_device),),
    "curves": (),
    "replay": (),
    "list": (),
}


def rules(command: str) -> tuple[Unread, ...]:
    """The table's rows of a command, and those that follow from what studies and analyzers declare."""
    declared = {"report": _of_studies, "analyze": _of_analyzers}.get(command, tuple)
    return (*declared(), *TABLE[command])


def _of_analyzers() -> Iterator[Unread]:
    from probes.analyzers import every_flag, get_analyzer, readers

    def why(flag: Any, a: argparse.Namespace, _: Mapping[str, Any]) -> str | None:
        if flag in get_analyzer(a.analyzer).flags:
            return None
        return str(flag.unread).format(name=a.analyzer, readers=" and ".join(readers(flag)))

    for flag in every_flag():
        yield Unread((flag.dest,), partial(why, flag))


def _of_studies() -> Iterator[Unread]:
    from case_studies.registry import find_studies

    studies = find_studies()
    for dest, readers in studies.reading().items():
        yield Unread((dest,), partial(_of_another_study, [declared.name for declared in readers]))
    trains = {name: declared.trains for name, declared in studies.found.items()}
    none = "trains no population"
    yield Unread(("workers", "seeds", "steps"), lambda a, _: None if trains[a.study] else f"{a.study} {none}")
    yield Unread(("device",), lambda a, _: f"{a.study} {none}" if not trains[a.study] and _elsewhere(a) else None)


def _of_another_study(readers: Sequence[str], a: argparse.Namespace, _: Mapping[str, Any]) -> str | None:
    return None if a.study in readers else f"it is for {' and '.join(readers)}, not {a.study}"


def refuse_unread(arguments: argparse.Namespace, meta: Mapping[str, Any] | None = None) -> None:
    """Raise `RequestError` for the first flag that was given and that the command will not read."""
    for rule in rules(arguments.command):
        for dest in rule.flags:
            given = dest in arguments.given or (dest == "checkpoints" and bool(getattr(arguments, dest)))
            if given and (reason := rule.why(arguments, meta or {})):
                flag = _shown(dest, getattr(arguments, dest))
                raise RequestError(f"{flag} changes nothing here: {reason}; {rule.cure}")


def _shown(dest: str, value: Any) -> str:
    """A flag as it was written, with its (first) value."""
    first = value[0] if isinstance(value, list) else value
    if dest == "checkpoints":
        return quoted(str(first))
    flag = f"--{dest.replace('_', '-')}"
    return flag if first is True else f"{flag} {first if isinstance(first, (int, float)) else quoted(str(first))}"
