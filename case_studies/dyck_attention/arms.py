"""The paper's numbers under three ways to train: ours, ours with the loss on closers only, and the released code's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from case_studies.dyck_attention import families as known
from case_studies.dyck_attention.measure import accuracy_of, prefix_variation
from case_studies.page import Table
from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.numbers import ABSENT, number
from interp.stats import Estimate
from probes.variation import PAPER_SENTENCE, analyze_variation

OURS, CLOSERS, RELEASED = "ours", "loss on closers", "released code"
WAYS = (OURS, CLOSERS, RELEASED)
# The released code reads all but the last token of a string: of START and the sentence's 16 brackets that leaves 16.
DROPPED = PAPER_SENTENCE[:-1]


@dataclass(frozen=True)
class Arm:
    """One family trained one way; variation of the last layer, and accuracy of the worst seed and rule.

    - `sentence`: on the paper's sentence; `dropped`: on all of it but the last bracket.
    - `prefixes`: mean over prefixes of 28 brackets, of models that are trained on such.
    """

    family: Family
    digest: str
    sentence: Estimate
    dropped: Estimate
    prefixes: Estimate | None
    least: float

    @property
    def measured(self) -> dict[str, Estimate]:
        """What was measured, by name."""
        found = {"sentence": self.sentence, "last bracket dropped": self.dropped, "prefixes": self.prefixes}
        return {name: e for name, e in found.items() if e is not None}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        own = {name.replace(" ", "_"): e.to_dict() for name, e in self.measured.items()}
        return {"family": self.family.name, "digest": self.digest, **own, "worst_seed": self.least}


Arms = Mapping[str, Mapping[str, Arm]]  # a family of the paper -> a way to train it -> what came out


def measure_arm(one: Obtained) -> Arm:
    """What a population says of the paper's number."""
    whole, dropped = (
        analyze_variation(one.population, [text], untrained=False).variation[-1] for text in (PAPER_SENTENCE, DROPPED)
    )
    of_prefixes = one.population.provenance["settings"]["data"] == "prefix"
    prefixes = prefix_variation(one.population).variation[-1] if of_prefixes else None
    return Arm(one.family, one.digest, whole, dropped, prefixes, accuracy_of(one.population).least)


def arms_of(ours: Sequence[Obtained], closers: Sequence[Obtained], released: Sequence[Obtained]) -> Arms:
    """The paper's families in the order in which all three are listed; a way of which none was trained is left out."""
    found: dict[str, dict[str, Arm]] = {one.family.name: {} for one in ours}
    for way, listing in zip(WAYS, (ours, closers, released), strict=True):
        for name, one in zip(found, listing, strict=False):
            found[name][way] = measure_arm(one)
    return found


def covering(name: str, ways: Mapping[str, Arm]) -> list[str]:
    """Where the paper's number of a family lies in the interval: "loss on closers (sentence)", ..."""
    paper = known.PAPER_VARIATION[name]
    return [
        f"{way} ({what})"
        for way, arm in ways.items()
        for what, e in arm.measured.items()
        if e.low is not None and e.high is not None and e.low <= paper <= e.high
    ]


def arm_parts(arms: Arms) -> list[str | Table]:
    """A table by what is measured, and the sentence that says where the paper's numbers lie."""
    if not any(set(ways) - {OURS} for ways in arms.values()):
        return []
    parts: list[str | Table] = [
        "The paper states neither its loss nor its data in full, and its released code has a block of its own: no norm "
        "before attention, an MLP with a skip, no final norm, frozen one-hot tokens, the scalar i / 6000 as position, "
        "one corpus of 100,000 tokens for all seeds, the loss on closing brackets only, a learning rate that moves "
        "once an epoch. It reads all but the last token of a string. Its generator cannot make the paper's complete "
        "strings (each would be one bracket long), so these follow the law that the paper states."
    ]
    for what, title in (
        ("sentence", f"Variation of the last layer on {PAPER_SENTENCE} (N = {len(PAPER_SENTENCE) + 1} with START)."),
        ("last bracket dropped", f"The same without the last bracket (N = {len(DROPPED) + 1} with START)."),
        ("prefixes", "The same, mean over prefixes of 28 brackets, of models that are trained on such."),
    ):
        rows: list[Row] = [
            [name, number(known.PAPER_VARIATION[name], 2)]
            + [Cell(ways[way].measured[what], 2) if way in ways else ABSENT for way in WAYS]
            for name, ways in arms.items()
            if what in ways[OURS].measured
        ]
        if rows:
            parts.append(Table(["family", "paper", *WAYS], rows, title))
    worst: list[Row] = [
        [name] + [number(ways[way].least) if way in ways else ABSENT for way in WAYS] for name, ways in arms.items()
    ]
    parts.append(Table(["family", *WAYS], worst, "Closing accuracy of the worst seed by the hardest rule."))
    parts.append(told(arms))
    return parts


def told(arms: Arms) -> str:
    """Which of the paper's numbers lie within an interval of ours, and which within none."""
    inside = {name: covering(name, ways) for name, ways in arms.items()}
    yes = [f"{number(known.PAPER_VARIATION[n], 2)} ({n}): {', '.join(where)}" for n, where in inside.items() if where]
    no = [f"{number(known.PAPER_VARIATION[n], 2)} ({n})" for n, where in inside.items() if not where]
    first = f"The paper's number lies within our interval of {'; '.join(yes)}. " if yes else ""
    second = f"Within none of them lie {', '.join(no)}." if no else "There is none that lies within no interval."
    return first + second


def to_dict(arms: Arms) -> dict[str, Any]:
    """JSON-ready: family -> {"paper", way -> what was measured}."""
    return {
        name: {"paper": known.PAPER_VARIATION[name], **{way: arm.to_dict() for way, arm in ways.items()}}
        for name, ways in arms.items()
    }
