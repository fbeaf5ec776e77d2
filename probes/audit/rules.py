"""How a table of rules is read: from top to bottom, and the first rule that holds decides.

The tables are those of `probes.audit.pattern_rules`, `use_rules`, `population_rules` and `verdicts`;
`probes.audit.tables` prints them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from interp.numbers import estimate as written
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.conditions import Condition
from probes.claims import heads_text

E = TypeVar("E")
Gather = Callable[[frozenset[str]], E]  # evidence in which the fields of these names have been measured
Rest = str | tuple[str, Condition]


@dataclass(frozen=True)
class Rule:
    """A condition, and what is found where it holds.

    - `name`: for results and tests; `holds`: the condition; `finding`: the word, such as "holds" or "unused".
    - `words`: why, with the names of phrases and of fields in braces (see `Phrases`).
    - `rests`: names of the rows of the audit's table on which the finding rests; of a pair, only where the condition
      beside the name holds.
    - `joins`: one doubt among others. If it decides, those of the later rules that join and hold are told with it.
    """

    name: str
    holds: Condition
    finding: str
    words: str = ""
    rests: tuple[Rest, ...] = ()
    joins: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """The fields of the evidence that must have been measured before the rule can be asked."""
        return self.holds.needs

    def rows(self, evidence: Any) -> list[str]:
        """Names of the rows that the finding rests on."""
        pairs = [(rest, None) if isinstance(rest, str) else rest for rest in self.rests]
        return [name for name, condition in pairs if condition is None or condition(evidence)]


def first(rules: Sequence[Rule], gather: Gather[Any]) -> Rule | None:
    """The first rule that holds; each asks for what it needs and nothing is measured for the rules after it."""
    return next((rule for rule in rules if rule.holds(gather(rule.needs))), None)


def decide(rules: Sequence[Rule], gather: Gather[Any]) -> Rule:
    """The same for a table whose last rule always holds."""
    rule = first(rules, gather)
    assert rule is not None, "the last rule of a table always holds"
    return rule


def joined(rules: Sequence[Rule], rule: Rule, evidence: Any) -> list[Rule]:
    """The rule that decides and, if it joins, the later ones that are told with it."""
    if not rule.joins:
        return [rule]
    later = rules[rules.index(rule) + 1 :]
    return [rule, *(other for other in later if other.joins and other.holds(evidence))]


def known(evidence: E) -> Gather[E]:
    """A gather of evidence in which everything is measured already."""
    return lambda needs: evidence


class Phrases:
    """What the braces in the words of a rule stand for.

    In this order: a phrase made for the table, a threshold (a name in capitals), a field of the evidence: an estimate
    with its interval and n, heads by their names, anything else as it is.
    """

    def __init__(self, evidence: Any, **own: str):
        self.evidence, self.own = evidence, own

    def __getitem__(self, name: str) -> str:
        if name in self.own:
            return self.own[name]
        if name.isupper():
            return f"{getattr(t, name):g}"
        found = getattr(self.evidence, name)
        if isinstance(found, tuple):
            return heads_text(found)
        return span(found) if found is None or isinstance(found, Estimate) else str(found)

    def say(self, words: str) -> str:
        """The words with everything filled in."""
        return words.format_map(self)


def span(estimate: Estimate | None) -> str:
    """ "0.97 [0.96, 0.98] (n=200 inputs)"."""
    return written(estimate, 2, n=True)
