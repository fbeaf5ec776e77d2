"""Which analyzers there are, what each measures and reads: for the command line and lists. No torch.

Ours stand in `probes.declared`. Another package declares its own by an entry point of the group `interp.analyzers`,
whose object is an `Analyzer`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from interp.errors import RequestError, quoted
from interp.plugins import find
from probes.declaration import TASK as TASK
from probes.declaration import TEXT as TEXT
from probes.declaration import Analyzer as Analyzer
from probes.declaration import Flag as Flag
from probes.declared import OURS as OURS

GROUP = "interp.analyzers"
# What `interp analyze` itself has: no analyzer can have such a flag.
TAKEN = (
    "analyzer", "checkpoint", "checkpoints", "seed", "device", "json", "figure", "help", "model_config", "vocab", "run",
    "given", "command",
)  # fmt: skip


def find_analyzers() -> tuple[Mapping[str, Analyzer], Mapping[str, str]]:
    """(analyzers by name, ours first; those of other packages that cannot be used, each with the reason)."""
    return find("analyzer", GROUP, _ours, _wrong)


def _ours() -> Mapping[str, Callable[[], Analyzer]]:
    return {one.name: partial(_itself, one) for one in OURS}


def _itself(one: Analyzer) -> Analyzer:
    return one


def _wrong(name: str, one: Any, others: Mapping[str, Any]) -> str:
    if not isinstance(one, Analyzer) or one.name != name:
        return f"{quoted(one)} is no Analyzer of this name"
    return _wrong_flags(one, others)


def _wrong_flags(one: Analyzer, others: Mapping[str, Analyzer]) -> str:
    """Why the command line cannot have the flags of another package's analyzer; "" where it can."""
    if not isinstance(one.flags, tuple) or not all(isinstance(flag, Flag) for flag in one.flags):
        return f"flags={quoted(one.flags)} is not a tuple of Flags"
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
