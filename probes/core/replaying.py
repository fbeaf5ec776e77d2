"""Computing a result again from the header of its file, and saying whether it is the same."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from interp.errors import RequestError, quoted
from interp.sources import Part, digest_of
from probes.core.arguments import argument_from, parts_from
from probes.core.files import KEPT, OF, SEVERAL, file_of
from probes.core.kinds import get_kind
from probes.core.origin import Origin, release

MOST = 5  # places that are told


@dataclass(frozen=True)
class Replay:
    """What computing again showed: `differences` [(place, then, now)], none where all is the same."""

    kind: str
    by: str
    then: str  # the version that wrote the file
    differences: tuple[tuple[str, Any, Any], ...]

    @property
    def same(self) -> bool:
        """Whether every value came out as it was, to the last bit."""
        return not self.differences

    def summary(self) -> str:
        """A line, and one for each of the first places that differ."""
        versions = f" (written by version {self.then}, now {release()})" if self.then != release() else ""
        if self.same:
            return f"the same: {self.kind}, computed again by {self.by}{versions}"
        far = [abs(now - then) / max(abs(then), 1e-300) for _, then, now in self.differences if _numbers(then, now)]
        least = f", the numbers by {max(far):.2g} of themselves at most" if len(far) == len(self.differences) else ""
        lines = [f"not the same: {len(self.differences)} values of {self.kind} differ{least}{versions}"]
        lines += [f"  {place}: {quoted(then)} then, {quoted(now)} now" for place, then, now in self.differences[:MOST]]
        return "\n".join([*lines, *(["  ..."] if len(self.differences) > MOST else [])])


def replay(data: dict[str, Any], load_part: Callable[[Part], Any], checkpoint: str | None = None) -> Replay:
    """Compute a file's result (or results) again. `load_part`: loads the models of a file, all its seeds.

    `checkpoint`: another name for the file that was measured. Raises `RequestError` where the header does not say how,
    and where the weights are not those that were measured.
    """
    several = data[OF].get("kind") == SEVERAL
    origin = Origin.from_dict(data[OF])
    rows = data.get(SEVERAL) if several else [data]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and OF in row for row in rows):
        raise RequestError(f"{SEVERAL}={quoted(rows)} holds no results")
    kind = str(rows[0][OF].get("kind") if several else data[OF]["kind"])
    if origin.by is None or origin.arguments is None:
        raise RequestError(f"this {kind} does not say how it was computed, so it cannot be computed again")
    run = get_kind(kind).maker(origin.by)

    def load_guest(told: Any) -> Any:
        return _guest(told, load_part, checkpoint)

    how = {name: argument_from(value, name, load_guest) for name, value in origin.arguments.items()}
    if origin.seed not in (None, 0):
        how["seed"] = origin.seed
    if checkpoint is not None and origin.checkpoint is None:
        raise RequestError(f"--checkpoint {quoted(checkpoint)} changes nothing here: {origin.by} was given no models")
    given = [] if origin.checkpoint is None else [load_guest(origin.checkpoint)]
    try:
        found = run(*given, **how)
    except TypeError as error:  # a keyword that this version does not have
        raise RequestError(f"{origin.by} cannot be called as it was: {error}") from error
    now = found if isinstance(found, list) else [found]
    differences: list[tuple[str, Any, Any]] = []
    for i, row in enumerate(rows):
        at = Origin.from_dict(row[OF]).at
        place = 0 if at is None else at[0]
        if place >= len(now):
            raise RequestError(f"{origin.by} gave {len(now)} results, and this is number {place + 1}")
        differences += _differences(*_both(row, file_of(now[place])), f"{SEVERAL}[{i}]." if several else "")
    return Replay(kind, origin.by, origin.version, tuple(differences))


def _both(then: dict[str, Any], now: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file holds of a result, and the same of one that was computed again; not what commands put beside it."""
    kept, again = then.get(KEPT, {}), now.get(KEPT, {})
    one = {name: value for name, value in then.items() if name in now and name not in (OF, KEPT)}
    kept = {name: value for name, value in kept.items() if name in again}
    return {**one, KEPT: kept}, {**now, KEPT: again}


def _guest(told: Any, load_part: Callable[[Part], Any], checkpoint: str | None) -> Any:
    """The models that were measured. Raises `RequestError` where no file is known, or its weights are others."""
    if not isinstance(told, dict):
        raise RequestError(f"checkpoint {quoted(told)} is not of the form that results have")
    if told.get("files") is None and checkpoint is None:
        raise RequestError(
            "it was measured on models that came from no file: name one that holds them with --checkpoint"
        )
    parts = parts_from([{"file": checkpoint}] if told.get("files") is None else told["files"])
    if checkpoint is not None:
        if len(parts) > 1:
            raise RequestError(f"--checkpoint names one file, and this is of {len(parts)}")
        parts = (Part(checkpoint, parts[0].seeds, parts[0].step, parts[0].config, parts[0].vocab),)
    loaded = [_chosen(load_part(part), part) for part in parts]
    given = told.get("given")
    models = [model for one in loaded for model in (one if hasattr(one, "seeds") else [one])]
    guest = loaded[0] if len(loaded) == 1 and given == "population" else models
    if given == "population" and len(loaded) > 1:
        from interp.population import joined

        guest = joined(loaded)
    if given == "model":
        guest = models[0]
    if (now := digest_of(guest)) != told.get("digest"):
        names = ", ".join(part.file for part in parts)
        raise RequestError(
            f"{quoted(names)} holds other weights than those that were measured: digest {quoted(now)}, "
            f"not {quoted(told.get('digest'))}"
        )
    return guest


def _chosen(loaded: Any, part: Part) -> Any:
    """Of a file's models those that were measured."""
    if part.step is not None:
        loaded = loaded.at_step(part.step)
    if part.seeds is None:
        return loaded
    known = list(getattr(loaded, "seeds", ()))
    if not known:  # a file of one model
        return loaded
    if missing := [seed for seed in part.seeds if seed not in known]:
        raise RequestError(f"{quoted(part.file)} has no seed {missing[0]}; seeds are {known}")
    return type(loaded).concat([loaded[place : place + 1] for place in map(known.index, part.seeds)])


def _differences(then: Any, now: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places at which two trees of JSON are not alike; what only `now` has is no difference."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name, value in then.items():
            deeper = f"{place}.{name}" if place and not place.endswith(".") else f"{place}{name}"
            yield from _differences(value, now.get(name), deeper)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for i, (a, b) in enumerate(zip(then, now, strict=True)):
            yield from _differences(a, b, f"{place}[{i}]")
    elif then != now:
        yield place, then, now


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values)
