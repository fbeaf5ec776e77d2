"""Conditions on evidence, as data: bounds on numbers that have names, and what is made of them.

A condition is called with the evidence and answers whether it holds. It also tells which fields of the evidence it
reads (`needs`), every bound that it is made of (`bounds`), and itself as text, so that tables of rules can be printed
and every bound can be tested from both sides.

The number "score.low" is the lower end of the interval of the evidence's field `score`; see `PARTS` for the others.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from interp.stats import Estimate
from probes.audit.stats import far, high, low, reach

Number = float | None

# What can be read of an estimate. No value counts as 0: nothing is seen to move.
PARTS: dict[str, Callable[[Estimate, float], float]] = {
    "value": lambda estimate, level: estimate.value or 0.0,
    "low": lambda estimate, level: low(estimate),
    "high": lambda estimate, level: high(estimate),
    "far": lambda estimate, level: far(estimate),
    "reach": reach,
}
SIDES: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
}  # fmt: skip


def number(evidence: Any, name: str) -> Number:
    """The number of this name, None where the evidence has no such piece."""
    field, _, part = name.partition(".")
    found = getattr(evidence, field)
    if found is None or not part:
        return found
    return PARTS[part](found, getattr(evidence, "level", 0.0))


class Condition:
    """Something that holds of evidence or does not."""

    parts: "tuple[Condition, ...]" = ()

    def __call__(self, evidence: Any) -> bool:
        """Whether it holds."""
        raise NotImplementedError

    @property
    def needs(self) -> frozenset[str]:
        """The fields of the evidence that are read."""
        return frozenset().union(*(part.needs for part in self.parts))

    @property
    def bounds(self) -> "Iterator[Bound]":
        """Every bound in it."""
        for part in self.parts:
            yield from part.bounds


@dataclass(frozen=True)
class Bound(Condition):
    """A number beside a limit: a constant, or another number of the evidence by its name.

    It does not hold where either number is missing.
    """

    number: str
    side: str
    limit: float | str

    def __call__(self, evidence: Any) -> bool:
        """Whether the number is on this side of the limit."""
        found = number(evidence, self.number)
        limit = number(evidence, self.limit) if isinstance(self.limit, str) else self.limit
        return found is not None and limit is not None and SIDES[self.side](found, limit)

    @property
    def needs(self) -> frozenset[str]:
        """The field of the number, and that of the limit."""
        names = [self.number, self.limit] if isinstance(self.limit, str) else [self.number]
        return frozenset(name.partition(".")[0] for name in names)

    @property
    def bounds(self) -> "Iterator[Bound]":
        """Itself."""
        yield self

    def __str__(self) -> str:
        limit = self.limit if isinstance(self.limit, str) else f"{self.limit:g}"
        return f"{self.number} {self.side} {limit}"


@dataclass(frozen=True)
class Given(Condition):
    """The evidence has this piece."""

    name: str

    def __call__(self, evidence: Any) -> bool:
        """Whether the field is not None."""
        return getattr(evidence, self.name) is not None

    @property
    def needs(self) -> frozenset[str]:
        """The field."""
        return frozenset((self.name,))

    def __str__(self) -> str:
        return f"{self.name} is there"


@dataclass(frozen=True)
class Is(Condition):
    """A field of the evidence is this word, or this truth value."""

    name: str
    value: str | bool

    def __call__(self, evidence: Any) -> bool:
        """Whether the field equals the value."""
        return bool(getattr(evidence, self.name) == self.value)

    @property
    def needs(self) -> frozenset[str]:
        """The field."""
        return frozenset((self.name,))

    def __str__(self) -> str:
        return f"{self.name} is {self.value}"


@dataclass(frozen=True)
class Some(Condition):
    """A condition holds of at least one member of a field, such as one of the rivals."""

    group: str
    part: Condition

    def __call__(self, evidence: Any) -> bool:
        """Whether any member meets the condition."""
        return any(self.part(member) for member in getattr(evidence, self.group))

    @property
    def needs(self) -> frozenset[str]:
        """The field of the members; the condition reads theirs."""
        return frozenset((self.group,))

    @property
    def bounds(self) -> Iterator[Bound]:
        """Those on the members."""
        yield from self.part.bounds

    def __str__(self) -> str:
        return f"one of {self.group}: {self.part}"


@dataclass(frozen=True)
class AllOf(Condition):
    """All parts hold; without any, it always holds."""

    parts: tuple[Condition, ...]

    def __call__(self, evidence: Any) -> bool:
        """Whether every part holds."""
        return all(part(evidence) for part in self.parts)

    def __str__(self) -> str:
        return " and ".join(_bracketed(part) for part in self.parts) or "always"


@dataclass(frozen=True)
class AnyOf(Condition):
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def __call__(self, evidence: Any) -> bool:
        """Whether some part holds."""
        return any(part(evidence) for part in self.parts)

    def __str__(self) -> str:
        return " or ".join(_bracketed(part) for part in self.parts)


@dataclass(frozen=True)
class Not(Condition):
    """The part does not hold."""

    part: Condition

    def __call__(self, evidence: Any) -> bool:
        """Whether the part fails."""
        return not self.part(evidence)

    @property
    def needs(self) -> frozenset[str]:
        """What the part reads."""
        return self.part.needs

    @property
    def bounds(self) -> Iterator[Bound]:
        """Those of the part."""
        yield from self.part.bounds

    def __str__(self) -> str:
        return f"not ({self.part})"


def all_of(*parts: Condition) -> AllOf:
    """All of these hold."""
    return AllOf(parts)


def any_of(*parts: Condition) -> AnyOf:
    """One of these holds."""
    return AnyOf(parts)


ALWAYS = AllOf(())


def _bracketed(part: Condition) -> str:
    return f"({part})" if isinstance(part, (AllOf, AnyOf)) and len(part.parts) > 1 else str(part)
