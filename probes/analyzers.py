"""Which analyzers there are, what each measures and reads: for the command line and lists. No torch.

Another package declares its own by an entry point of the group `interp.analyzers`, whose object is an `Analyzer`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from interp.errors import RequestError, quoted
from interp.theirs import load_theirs

GROUP = "interp.analyzers"
# What `interp analyze` itself has: no analyzer can have such a flag.
TAKEN = ("analyzer", "checkpoint", "seed", "device", "json", "figure", "help", "model_config", "vocab", "run", "given")


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
MATRIX = Flag(
    "matrix",
    "matrix",
    "of `analyze topics`: default value, or embedding if learned",
    "it is for `analyze {readers}`, not {name}",
    choices=("value", "embedding", "attention"),
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
        return run(model, seed=seed, **how)


_BRACKETS = ("dyck", "copying", "brackets")
OURS: Sequence[Analyzer] = (
    Analyzer(
        "balance",
        "balance violation of the last attention layer, and of what the model predicts",
        "probes:analyze_balance",
        "untrained models, position control",
        worlds=_BRACKETS,
    ),
    Analyzer(
        "stack",
        "how far heads attend to the last unmatched open bracket",
        "probes:analyze_stack_likeness",
        "untrained models, permuted targets, rival heads",
        worlds=_BRACKETS,
        flags=(TEXT, TASK),
    ),
    Analyzer(
        "topics",
        "topic blocks in W_V, embeddings or attention",
        "probes:analyze_topic_blocks",
        "permuted topics",
        worlds=("topics",),
        foreign=False,
        flags=(MATRIX,),
    ),
    Analyzer(
        "variation",
        "how differently the models of a population attend",
        "probes:analyze_variation",
        "untrained, sharpness-matched and uniform random patterns",
        flags=(TEXT, TASK),
    ),
)


@cache
def find_analyzers() -> tuple[Mapping[str, Analyzer], Mapping[str, str]]:
    """(analyzers by name, ours first; those of other packages that cannot be used, each with the reason)."""
    found, broken = {one.name: one for one in OURS}, dict[str, str]()
    for point in entry_points(group=GROUP):
        try:
            theirs = load_theirs(point.load, RequestError)
        except RequestError as error:  # it must not end a command that is not about it
            broken[point.name] = str(error)
            continue
        if not isinstance(theirs, Analyzer) or theirs.name != point.name or point.name in found:
            broken[point.name] = f"{quoted(theirs)} is no Analyzer of this name, or the name is taken"
        elif wrong := _wrong_flags(theirs, found):
            broken[point.name] = wrong
        else:
            found[point.name] = theirs
    return found, broken


def _wrong_flags(one: Analyzer, others: Mapping[str, Analyzer]) -> str:
    """Why the command line cannot have the flags of another package's analyzer; "" where it can."""
    if not isinstance(one.flags, tuple) or not all(isinstance(flag, Flag) for flag in one.flags):
        return f"flags={quoted(one.flags)} is no tuple of Flags"
    known = {flag.dest: flag for other in others.values() for flag in other.flags}
    own = {flag.dest: flag for flag in one.flags}
    taken = [dest for dest, flag in own.items() if dest in TAKEN or known.get(dest, flag) != flag]
    if len(own) < len(one.flags):
        return "two of its flags have one name"
    return f"its flag {quoted(taken[0])} is another's" if taken else ""


def get_analyzer(name: str) -> Analyzer:
    """The analyzer of a name. Raises `RequestError` for an unknown or broken one."""
    found, broken = find_analyzers()
    if name in broken:
        raise RequestError(f"the analyzer {quoted(name)} cannot be used: {broken[name]}")
    if name not in found:
        raise RequestError(f"no analyzer {quoted(name)}; analyzers are {', '.join(found)}")
    return found[name]


def readers(flag: Flag) -> list[str]:
    """Names of the analyzers that read a flag."""
    return [one.name for one in find_analyzers()[0].values() if flag in one.flags]


def every_flag() -> list[Flag]:
    """The flags of all analyzers, each once."""
    found: dict[str, Flag] = {}
    for one in find_analyzers()[0].values():
        for flag in one.flags:
            found.setdefault(flag.dest, flag)
    return list(found.values())


def table() -> str:
    """Our analyzers as the manual lists them, in Markdown."""
    lines = ["| `interp analyze` | measures | beside it | models of | reads |", "|---|---|---|---|---|"]
    for one in OURS:
        whose = ", ".join(one.worlds) or "any world, or none"
        flags = ", ".join(f"`--{flag.dest.replace('_', '-')}`" for flag in one.flags)
        lines.append(f"| `{one.name}` | {one.about} | {one.null} | {whose} | {flags} |")
    return "\n".join(lines)
