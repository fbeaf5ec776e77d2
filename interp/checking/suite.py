"""What suites of checks share: how a check fails, how some are chosen by name, how all are run."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from interp.errors import InterpError, RequestError, quoted


def must(good: Any, said: str) -> None:
    """Raise an `InterpError` with what was found, unless all is well; `named` says of which check."""
    if not good:
        raise InterpError(said)


def in_one_line(error: Exception) -> str:
    """What an exception says: our own as it is, other people's behind its type, cut short."""
    if isinstance(error, InterpError):
        return str(error)
    told = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {told[:200]}"


def named(who: str, name: str, check: Callable[[], None], kind: type[InterpError]) -> Callable[[], None]:
    """A check whose failure, whatever it is, is one line of `kind` that says whose it is and of which check."""

    def run() -> None:
        try:
            check()
        except Exception as error:  # of other people's code too
            raise kind(f"{who} fails the check {quoted(name)}: {in_one_line(error)}") from error

    return run


def chosen(only: str | Sequence[str] | None, known: Collection[str]) -> list[str]:
    """The names of the checks that are asked for. Raises `RequestError` for the name of none."""
    names: Any = known if only is None else [only] if isinstance(only, str) else only
    fine = only is None or isinstance(names, Sequence)
    if not fine or not all(isinstance(name, str) and name in known for name in names):
        raise RequestError(f"only={quoted(only)} is not a check, nor a list of them; checks are {', '.join(known)}")
    return list(names)


def run_those(checks: Iterable[tuple[str, Callable[[], None]]], names: Collection[str]) -> list[str]:
    """Run the checks of these names, in their order, and give the names of those that were there."""
    done = []
    for name, check in checks:
        if name in names:
            check()
            done.append(name)
    return done
