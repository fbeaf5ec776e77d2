"""All tables of rules by name, and as text for a manual."""

from collections.abc import Mapping, Sequence

from probes.audit.named import CONDITIONS, NUMBERS
from probes.audit.pattern_rules import ELIGIBILITY_RULES, PATTERN_RULES
from probes.audit.population_rules import SEED_PATTERN_RULES, SEED_USE_RULES, SEED_VERDICT_RULES
from probes.audit.rules import Rule
from probes.audit.thresholds import EVEN, MAINLY, SCORE
from probes.audit.use_rules import TOGETHER_RULES, USE_REMARKS, USE_RULES
from probes.audit.verdicts import VERDICTS

# What each table is about, and the table.
TABLES: Mapping[str, tuple[str, Sequence[Rule]]] = {
    "inputs": ("Inputs that cannot decide on a pattern", ELIGIBILITY_RULES),
    "pattern": ("The pattern of one head", PATTERN_RULES),
    "use": ("The use of the claimed heads", USE_RULES),
    "together": ("Heads claimed together that are used or redundant", TOGETHER_RULES),
    "remarks": ("Said after the words on use", USE_REMARKS),
    "seeds: pattern": ("The pattern in a population", SEED_PATTERN_RULES),
    "seeds: use": ("The use in a population", SEED_USE_RULES),
    "seeds: verdict": ("The verdict on a population", SEED_VERDICT_RULES),
}

_READING = (
    "Each table is read from top to bottom, and the first rule that holds decides. A number is named by what is "
    "measured and the part of it that counts: `low` and `high` are the ends of its interval, `value` is the number "
    "itself, `far` is the end that is farther from 0, and `reach` is how far from 0 it may lie: that end or, with n "
    "items, the share 1 - (1 - level)^(1/n) that so few could not have shown. A bound on a number that was not "
    "measured does not hold. Braces stand for numbers with their intervals, for names, and for the thresholds of "
    "`probes/audit/thresholds.py`. Rules marked + are doubts: of those that hold, all are told. A pattern holds of "
    "several heads if it holds of each, and fails if it fails of one. `least` is the claim score that is asked for: "
    f'{SCORE:g}, of "mainly" {MAINLY:g}, of "evenly" {EVEN:g}.'
)


def rules_table() -> str:
    """The rules of an audit in Markdown: of each its name, what it needs, its bounds, the finding and its words.

    Written from the tables that the audit reads, so it says what the audit does.
    """
    named = [f"*{name}* stands for: {condition}." for name, condition in CONDITIONS.items()]
    parts = ["## The audit's rules", _READING, *named]
    for title, rules in TABLES.values():
        told = any(rule.words for rule in rules)
        rows = [_row(rule, told) for rule in rules]
        parts += [f"### {title}", _table(["rule", "needs", "holds if", "finding", *(["words"] if told else [])], rows)]
    verdicts = [[row.pattern, ", ".join(row.uses), row.attention, row.use] for row in VERDICTS]
    heads = ["pattern", "use", "a claim about attention", "a claim about use"]
    parts += ["### The verdict", _table(heads, verdicts)]
    for title, (of, numbers) in NUMBERS.items():
        parts += [
            f"### {title}",
            of,
            _table(["number", "what it is"], [[f"`{n}`", said] for n, said in numbers.items()]),
        ]
    return "\n\n".join(parts) + "\n"


def _row(rule: Rule, told: bool) -> list[str]:
    """A rule as cells of a table; `told`: its words too."""
    needs = ", ".join(sorted(rule.needs)) or "nothing"
    holds = str(rule.holds)
    for name, condition in CONDITIONS.items():
        holds = holds.replace(f"({condition})", f"*{name}*").replace(str(condition), f"*{name}*")
    cells = [f"`{rule.name}`{' +' if rule.joins else ''}", needs, holds, rule.finding or "as it was"]
    return [*cells, rule.words] if told else cells


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)
