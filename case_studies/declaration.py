"""What a study says of itself before it runs: its name, a line for lists, and the options that it reads. No torch."""

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interp.errors import RequestError, quoted
from interp.names import first_duplicate
from interp.plugins import check_words
from interp.theirs import load_theirs

if TYPE_CHECKING:
    from case_studies.study import Study

# What `interp report` gives to every study; no study can have an option of such a name for itself.
COMMON = ("study", "quick", "full", "out", "workers", "device", "seeds", "steps", "help", "run", "command", "given")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Option:
    """An option of one study: `interp report STUDY --name METAVAR`; the study gets a text, or None without it."""

    name: str
    metavar: str
    help: str

    def __post_init__(self) -> None:
        check_words(self, "name", "metavar", "help")
        _check_name("option", self.name)
        if self.dest in COMMON:
            raise RequestError(f"an option of a study cannot be named {quoted(self.name)}: every study has that one")

    @property
    def dest(self) -> str:
        """The name as a keyword of Python."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Declaration:
    """A study as the command line knows it.

    - `name`: on the command line, lower-case words joined by hyphens; `about`: a line for `interp list`.
    - `study`: where its `Study` is, as "package.module:NAME"; imported when it runs.
    - `trains`: whether it trains populations, and so reads `--workers`, `--device`, `--seeds` and `--steps`.
    - `options`: what it reads besides.

    Raises `RequestError` for a declaration that the command line could not show.
    """

    name: str
    about: str
    study: str
    trains: bool = True
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        check_words(self, "name", "about", "study")
        _check_name("study", self.name)
        module, colon, name = self.study.partition(":")
        if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise RequestError(f"study={quoted(self.study)} is not of the form package.module:NAME")
        if not isinstance(self.options, tuple) or not all(isinstance(option, Option) for option in self.options):
            raise RequestError(
                f"options={quoted(self.options)} of the study {quoted(self.name)} is not a tuple of Options"
            )
        if (twice := first_duplicate(option.dest for option in self.options)) is not None:
            raise RequestError(f"the study {quoted(self.name)} has two options {quoted(twice)}")

    def load(self) -> "Study[Any, Any]":
        """The study itself; `RequestError` where it cannot be imported or is none."""
        from case_studies.study import Study

        module, _, name = self.study.partition(":")
        what = f"the study {quoted(self.name)} cannot be loaded"
        study = load_theirs(lambda: getattr(import_module(module), name), RequestError, what)
        if not isinstance(study, Study) or study.declared != self:
            raise RequestError(f"{quoted(self.study)} is not the Study that {quoted(self.name)} declares")
        return study


def _check_name(what: str, name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise RequestError(f"{quoted(name)} is not a name of a {what}: use lower-case words joined by hyphens")
