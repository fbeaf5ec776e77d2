"""A study: the populations it compares, what it measures on them, and a page. One runner does all else for all.

The runner does sizes, seeds, steps, training or loading, progress over the whole, and writing. A study's folder holds
a `Declaration` in its `__init__.py` (see `case_studies.declaration`) and a `Study` in its `study.py`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from case_studies.declaration import Declaration
from case_studies.page import Page, command_of, write_study
from case_studies.populations import Family, obtain
from interp import Population, load_checkpoint
from interp.checks import whole_number
from interp.errors import RequestError, quoted
from interp.files import make_folder
from interp.header import find_checkpoint, read_header
from interp.progress import progress_bar

Size = TypeVar("Size")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Wanted:
    """A population that a study compares: a family and a number of seeds.

    - `first`: the first seed; the others follow it.
    - `most`: so many seeds at most where a run asks for another number than the study's.
    - `bundled`: the name of a checkpoint of the package that serves, whole, where a run asks for no other number of
      seeds or steps.
    """

    family: Family
    seeds: int
    most: int | None = None
    bundled: str | None = None
    first: int = 0

    @property
    def chosen(self) -> int | tuple[int, ...]:
        """The seeds, as `train_population` takes them."""
        return tuple(range(self.first, self.first + self.seeds)) if self.first else self.seeds

    def asked(self, seeds: int | None, steps: int | None) -> "Wanted":
        """With what a run asks for in the place of the study's own numbers."""
        if seeds is None and steps is None:
            return self
        count = self.seeds if seeds is None else min(seeds, self.most or seeds)
        family = self.family if steps is None else self.family.in_steps(steps)
        first = max(self.first, count) if self.first else 0  # further seeds stay apart from the first
        return replace(self, family=family, seeds=count, bundled=None, first=first)

    def source(self, folder: Path, device: str) -> str:
        """Where the population comes from: what two of a plan share is trained once."""
        return self.bundled or str(self.family.file(folder, self.chosen, device))


Plan = Mapping[str, Sequence[Wanted]]  # groups of populations by name, in the order in which they are trained


def wanted(families: Sequence[Family], seeds: int, most: int | None = None, first: int = 0) -> tuple[Wanted, ...]:
    """A group of a plan: every family with `seeds` seeds from `first` on; empty with none."""
    return tuple(Wanted(family, seeds, most, first=first) for family in families) if seeds else ()


@dataclass(frozen=True)
class Obtained:
    """A population of the plan: trained or loaded, or the bundled one of this name. `digest` is its file's."""

    family: Family
    population: Population
    digest: str
    bundled: str | None = None


@dataclass(frozen=True)
class Run(Generic[Size]):
    """What `collect` gets: the size of the run, the folder of its files, and the populations of its plan.

    - `plan`: what `populations` of the study said, with the seeds and steps that were asked for.
    """

    size: Size
    folder: Path
    plan: Plan = field(default_factory=dict)
    workers: int | None = None
    device: str = "cpu"
    arrived: Callable[[str], None] = lambda source: None  # is told where each population came from

    @property
    def populations(self) -> Path:
        """The folder in which trained populations are kept."""
        return self.folder / "populations"

    def obtain(self, group: str) -> Iterator[Obtained]:
        """The populations of a group of the plan, each trained (or loaded) when it is asked for."""
        for one in self.group(group):
            if one.bundled is not None:
                population = cast(Population, load_checkpoint(one.bundled))
                digest = read_header(find_checkpoint(one.bundled))["digest"]
            else:
                population, digest = obtain(one.family, one.chosen, self.populations, self.workers, self.device)
            self.arrived(one.source(self.populations, self.device))
            yield Obtained(one.family, population, digest, one.bundled)

    def seeds(self, group: str) -> int:
        """The number of seeds of a group of the plan."""
        return max(one.seeds for one in self.group(group))

    def group(self, group: str) -> Sequence[Wanted]:
        """A group of the plan; `RequestError` for one that it has not."""
        if group not in self.plan:
            raise RequestError(f"no group {quoted(group)} of populations is planned; groups are {', '.join(self.plan)}")
        return self.plan[group]


def trains_nothing(size: Any) -> Plan:
    """`Study.populations` of a study without populations."""
    return {}


def without_options(size: Size) -> Size:
    """`Study.prepare` of a study without options of its own."""
    return size


@dataclass(frozen=True)
class Study(Generic[Size, Found]):
    """A study as data.

    - `quick`, `full`: its two sizes, of a type of its own.
    - `populations`: size -> `Plan`, all that it will train; the runner replaces seeds and steps in it.
    - `collect`: `Run` -> everything measured. `to_results`: of that, what results.json holds; `report`: of that and
      the command that rebuilds it, the `Page`.
    - `prepare`: the size, and the study's own options as keywords -> the size with them. It raises `RequestError`
      for a wrong request; nothing has been written by then.
    """

    declared: Declaration
    quick: Size
    full: Size
    collect: Callable[[Run[Size]], Found]
    to_results: Callable[[Found], Any]
    report: Callable[[Found, str], Page]
    populations: Callable[[Size], Plan] = trains_nothing
    prepare: Callable[..., Size] = without_options

    @property
    def name(self) -> str:
        """On the command line."""
        return self.declared.name

    def run(
        self,
        out: Path,
        full: bool = False,
        workers: int | None = None,
        seeds: int | None = None,
        steps: int | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> Path:
        """Train or load the populations, measure, and write index.html and results.json; return the page's path.

        - `full`: the paper's size instead of the quick one.
        - `seeds`, `steps`: of every population, in the place of what the size and the families say.
        - `workers`, `device`: as of `train_population`; measuring is done on the CPU.
        - `options`: the study's own.

        What is trained lies in `out`/populations and is not trained again. Raises `RequestError` for what cannot be
        done, before anything is written.
        """
        for name, value in (("seeds", seeds), ("steps", steps)):
            if value is not None:
                whole_number(name, value)
                if not self.declared.trains:
                    raise RequestError(f"{name}={quoted(value)} changes nothing here: {self.name} trains no population")
        size = self.prepare(self.full if full else self.quick, **options)
        plan = {
            group: tuple(one.asked(seeds, steps) for one in listed) for group, listed in self.populations(size).items()
        }
        run = Run(size, make_folder(out), plan, workers, device)
        with _progress(self.name, run) as arrived:
            found = self.collect(replace(run, arrived=arrived))
        own = {option.name: options.get(option.dest) for option in self.declared.options}
        given = {"seeds": seeds, "steps": steps, **own}
        told = {name: Path(str(value)).name if _is_file(value) else value for name, value in given.items()}
        asked = {"study": self.name, "size": "full" if full else "quick", **told}
        page = self.report(found, command_of(self.name, full, out, given))
        return write_study(self.to_results(found), page, run.folder, asked)


def _is_file(value: Any) -> bool:
    """Whether an option names a file, of which results tell the name alone."""
    return isinstance(value, Path) or (isinstance(value, str) and os.path.exists(value))


@contextmanager
def _progress(name: str, run: Run[Any]) -> Iterator[Callable[[str], None]]:
    """A bar over the populations of a run; what it yields is told of each, and counts a file once."""
    sources = {one.source(run.populations, run.device) for listed in run.plan.values() for one in listed}
    with progress_bar(total=len(sources), disable=not sources, desc=name, unit="populations") as bar:

        def arrived(source: str) -> None:
            if source in sources:
                sources.remove(source)
                bar.update()

        yield arrived
