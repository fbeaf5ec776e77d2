"""What an analyzer says of itself: its name, what it measures and reads. Imports no torch."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from interp.errors import RequestError, quoted
from interp.plugins import check_words
from interp.theirs import load_theirs

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class Flag:
    """An option that some analyzers read.

    - `dest`: its name on the command line, as a keyword of Python; `keyword`: what the analyzer is given it as.
    - `choices`, `metavar`, `many` (repeatable): as in argparse.  `negates`: the flag says False.
    - `unread`: what an analyzer that does not read it does instead, in words; `{name}` and `{readers}` are filled in.
    """

    dest: str
    keyword: str
    help: str
    unread: str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    many: bool = False
    negates: bool = False

    def __post_init__(self) -> None:
        check_words(self, "dest", "keyword", "help", "unread", *(() if self.metavar is None else ("metavar",)))
        for name in (self.dest, self.keyword):
            if _NAME.fullmatch(name) is None:
                raise RequestError(
                    f"{quoted(name)} is not a name of a flag: use lower-case words joined by underscores"
                )
        choices = self.choices
        if choices is not None and not (isinstance(choices, tuple) and all(isinstance(one, str) for one in choices)):
            raise RequestError(f"choices={quoted(choices)} of the flag {quoted(self.dest)} is not a tuple of texts")


TEXT = Flag(
    "text",
    "inputs",
    "input (repeatable, equal lengths)",
    "`analyze {name}` draws its own inputs: it is for {readers}",
    metavar="STRING",
    many=True,
)
TASK = Flag(
    "no_task_check",
    "task_check",
    "measure a model that does not do its grammar's task, too (an untrained one, say)",
    "`analyze {name}` asks no task of a model",
    negates=True,
)


@dataclass(frozen=True)
class Analyzer:
    """An analyzer as the command line knows it.

    - `run`: "module:function" (model or population, keywords of its flags, seed=) -> result with `summary()`,
      `to_dict()` and `figure()`.
    - `about`: what it measures; `null`: what stands beside the number.
    - `worlds`: whose truth it needs; none: any model's.  `foreign`: it takes models whose grammar a file does not say.
    - `flags`: what it reads besides `--seed`.
    """

    name: str
    about: str
    run: str
    null: str
    worlds: tuple[str, ...] = ()
    foreign: bool = True
    flags: tuple[Flag, ...] = (TASK,)

    def __post_init__(self) -> None:
        check_words(self, "name", "about", "run", "null")

    def check(self, source: str, kind: str | None, foreign: bool) -> None:
        """Raise `RequestError` for a checkpoint that it cannot measure: `kind` of grammar in its header, if any."""
        if not self.worlds or (kind is None and self.foreign):
            return
        from interp.registry import world_of_kind  # numpy with it, which `--help` does without

        whose = " and ".join(self.worlds)
        if foreign:
            raise RequestError(
                f"`analyze {self.name}` is for models of {whose}, and a foreign state dict is none of ours"
            )
        world = world_of_kind(kind)
        name = "no world" if world is None else world.name
        if name not in self.worlds:
            raise RequestError(f"`analyze {self.name}` is for models of {whose}, and {quoted(source)} is of {name}")

    def __call__(self, model: Any, seed: int, given: Mapping[str, Any]) -> Any:
        """The result; `given` holds the values of flags by their names on the command line."""
        from interp.world import load

        how: dict[str, Any] = {}
        for flag in self.flags:
            value = given.get(flag.dest)
            how[flag.keyword] = not value if flag.negates else value
        what = f"the analyzer {quoted(self.name)} cannot be loaded"
        run: Callable[..., Any] = load_theirs(lambda: load(self.run), RequestError, what)
        takes = signature(run).parameters
        for flag in self.flags:
            needed = flag.keyword in takes and takes[flag.keyword].default is Parameter.empty
            if needed and how[flag.keyword] in (None, []):
                raise RequestError(f"`analyze {self.name}` needs --{flag.dest.replace('_', '-')}: {flag.help}")
        from probes.core import recorded

        return recorded(run)(model, seed=seed, **how)
