"""Write docs/reproduction.md: every number and statement of the papers, ours beside it, and whether they agree.

    python docs/reproduction.py [--check] [--list STATUS]

The rows are in docs/reproduction.toml, our numbers in the studies' results.json; neither is typed here. `--check`
writes nothing and fails where the page is not what the data gives; `--list open` names the rows of one status.

A row has an `id`, the `study` and `source`, `what` is asked, the `paper`'s value as it stands there, the paths of
`ours` and of further numbers `beside` them, and a `rule` that says when both agree. Its status follows:

- reproduced: the rule holds for ours;
- in range: the rule holds, and the row says that it asks for no more than the `range` of other models' numbers;
- differs: it does not, and holds for one of the row's `arms`, by the same rule: where a row lists several numbers, one
  setting gives them all. An arm with a rule of its own is told and decides nothing: what fits by another rule is no
  cause. It also differs where the source's `own` numbers, as printed, do not pass the rule that its sentence makes;
- open: it holds for none of them; an arm that no results hold yet is awaited, and so is ours where the row says that
  it is `awaited`;
- missing: nothing is measured.

Where no rule can be stated the row says `status` and `why`, and for what a test shows, which (`shown_by`).
Needs neither torch nor numpy.
"""

import argparse
import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from interp.numbers import UNDEFINED, interval, number, power

ROOT = Path(__file__).resolve().parents[1]
DATA, PAGE = ROOT / "docs" / "reproduction.toml", ROOT / "docs" / "reproduction.md"
SEPARATOR = " > "  # between the keys of a path
STATUSES = ("reproduced", "in range", "differs", "open", "missing")
SHOWN = 4  # numbers of one cell that are written out; of more, the least and the greatest
DIGITS = 3
LONG = 160  # characters of an item that is cut into clauses
MOST_POSITIONS = 100  # of a matrix of random rows
NORMAL = 1.96  # 0.975 quantile of the normal law
STUDENT = {3: 4.3027, 7: 2.4469}  # 0.975 quantile of Student's t on one degree of freedom less than there are runs
Results = Mapping[str, Any]  # a study's folder -> its results.json


@dataclass(frozen=True)
class Reading:
    """One number (or word) of a results.json, with its interval where it has one.

    `n` without `over`: the number is no estimate, as the least of so many seeds is not.
    """

    value: float | bool | str | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    over: str = ""

    @property
    def least(self) -> float:
        """The lower end of the interval; of an exact number itself; NaN of an estimate without an interval."""
        return math.nan if self.over and self.low is None else _float(self.value if self.low is None else self.low)

    @property
    def most(self) -> float:
        """The upper end, likewise."""
        return math.nan if self.over and self.high is None else _float(self.value if self.high is None else self.high)

    def text(self, digits: int = DIGITS) -> str:
        """As the page writes it: value, interval, n."""
        if self.value is None:
            return UNDEFINED
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, int):
            return f"{self.value:,}"
        known = [x for x in (self.value, self.low, self.high) if x is not None]
        if 0 < max(abs(x) for x in known) < 5 * 10**-digits:
            shown, ends = power(self.value), f"[{power(self.low)}, {power(self.high)}]"
        else:
            shown, ends = number(self.value, digits), interval(self.low, self.high, digits)
        told = self.n is not None and (self.low is not None or not self.over)
        size = f" (n={self.n}{' ' if self.over else ''}{self.over})" if told else ""
        return shown + (f" {ends}" if self.low is not None else "") + size


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def load_results(root: Path = ROOT) -> dict[str, Any]:
    """Every study's committed results, by folder; those of another corpus (results-NAME.json) as FOLDER_NAME."""
    found = sorted((root / "case_studies").glob("*/results*.json"))
    names = [path.parent.name + path.stem.removeprefix("results").replace("-", "_") for path in found]
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in zip(names, found, strict=True)}


def load_rows(path: Path = DATA) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows, and the beginnings of paths that results to come will have."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return data["row"], data["to_come"]


def read(path: str, results: Results) -> Reading | None:
    """What stands at `path`; None where the results hold nothing there."""
    above: Any = None
    here: Any = results
    for key in path.split(SEPARATOR):
        above = here
        try:
            here = here[int(key)] if isinstance(here, list) else here[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    if isinstance(here, dict):
        if "value" in here:
            return Reading(here["value"], here["low"], here["high"], here["n"], here["over"])
        if "count" in here:  # of a verdict: a share of the seeds of its group
            return Reading(here["count"] / above["n"], here.get("low"), here.get("high"), above["n"], "seeds")
        return None
    if isinstance(here, list):
        return None
    counted = isinstance(above, dict) and "value" not in above and isinstance(here, float)
    return Reading(here, n=above.get("n") if counted else None)  # the worst seed's of so many, say


# -- rules: when ours and the paper's agree ---------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """`holds(readings, argument)`, and in words for the page with `{}` for the argument."""

    words: str
    holds: Callable[[Sequence[Reading], Any], bool]


def _each(test: Callable[[Reading, Any], bool]) -> Callable[[Sequence[Reading], Any], bool]:
    return lambda readings, wanted: all(test(r, wanted) for r in readings)


def _falling(readings: Sequence[Reading], _: Any) -> bool:
    return all(a.least > b.most for a, b in pairwise(readings))


def _near(readings: Sequence[Reading], share: float) -> bool:
    *ours, other = readings
    centre = _float(other.value)
    return all(centre * (1 - share) <= one.least and one.most <= centre * (1 + share) for one in ours)


def _times(readings: Sequence[Reading], factor: float) -> bool:
    first, second = (abs(_float(r.value)) for r in readings)
    return first >= factor * second


def _above_last(readings: Sequence[Reading], _: Any) -> bool:
    *first, last = readings
    return bool(first) and all(one.least > last.most for one in first)


def _pairs_falling(readings: Sequence[Reading], _: Any) -> bool:
    return len(readings) % 2 == 0 and all(a.least > b.most for a, b in zip(readings[::2], readings[1::2], strict=True))


def _more(readings: Sequence[Reading], _: Any) -> bool:
    first, second = (_float(r.value) for r in readings)
    return first > second


def _contains(readings: Sequence[Reading], _: Any) -> bool:
    first, second = readings
    return first.low is not None and first.least <= _float(second.value) <= first.most


def _meets_mean(readings: Sequence[Reading], wanted: Sequence[float]) -> bool:
    low, high = mean_of_paper(*wanted)
    return all(r.least <= high and r.most >= low for r in readings)


def mean_of_paper(mean: float, deviation: float, runs: int) -> tuple[float, float]:
    """The 95 % interval of a mean that is printed with its standard deviation over so many runs (Student's t)."""
    half = STUDENT[int(runs)] * deviation / math.sqrt(runs)
    return mean - half, mean + half


def _meets_quotient(readings: Sequence[Reading], wanted: Sequence[Any]) -> bool:
    low, high = quotient_of_paper(*wanted)
    return all(r.least <= high and r.most >= low for r in readings)


def quotient_of_paper(first: Sequence[float], second: Sequence[float], runs: int) -> tuple[float, float]:
    """The 95 % interval of the quotient of two such means: of its logarithm, whose deviation is that of both together.

    Both as if independent. Two means of attention of the same runs move against each other, since all attention sums
    to 1, so that their quotient varies more than this says.
    """
    (above, one), (below, other) = first, second
    half = STUDENT[int(runs)] * math.hypot(one / above, other / below) / math.sqrt(runs)
    return above / below * math.exp(-half), above / below * math.exp(half)


def _meets_entries(readings: Sequence[Reading], wanted: Mapping[str, Any]) -> bool:
    low, high = entries_of_paper(**wanted)
    return all(r.least <= high and r.most >= low for r in readings)


def entries_of_paper(mean: float, deviation: float, drawn: int, of: int) -> tuple[float, float]:
    """The 95 % interval, over runs, of a mean of all `of` entries of one run's matrix.

    It is printed with the standard deviation that a mean of so many `drawn` of them, without replacement, has over
    draws, which says that of an entry, and that the error of the mean of all.
    """
    entry = deviation * math.sqrt(drawn / (1 - drawn / of))
    half = NORMAL * entry / math.sqrt(of)
    return mean - half, mean + half


def _most(readings: Sequence[Reading], _: Any) -> bool:
    pairs = list(zip(readings[::2], readings[1::2], strict=True))
    return 2 * sum(a.least > b.most for a, b in pairs) > len(pairs)


def _all(readings: Sequence[Reading], rules: Sequence[Mapping[str, Any]]) -> bool:
    return len(readings) == len(rules) and all(holds(rule, [r]) for rule, r in zip(rules, readings, strict=True))


def _random_rows(readings: Sequence[Reading], wanted: Mapping[str, Any]) -> bool:
    (ours,) = readings
    for positions in range(2, MOST_POSITIONS):  # ours is exact, so that it tells how many there are
        mean, deviation = random_rows(positions, wanted["matrices"])
        if math.isclose(_float(ours.value), mean, rel_tol=1e-6):
            return abs(wanted["paper"] - mean) <= 2 * deviation
    return False


def random_rows(positions: int, matrices: int) -> tuple[float, float]:
    """Mean and standard deviation of the mean squared distance of so many causal matrices with uniformly random rows.

    A row of k keys is Dirichlet(1, ..., 1). The mean over pairs is a U-statistic, whose variance is that of |X|^2 given
    one matrix and of |X - Y|^2 = |X|^2 + |Y|^2 - 2 X.Y given both; their terms are uncorrelated.
    """
    mean = one = both = 0.0
    for k in range(1, positions + 1):
        square = (4 * k + 20) / ((k + 1) * (k + 2) * (k + 3)) - (2 / (k + 1)) ** 2  # variance of |X|^2
        product = (k + 3) / (k * (k + 1) ** 2) - 1 / k**2  # variance of X.Y
        mean += 2 * (k - 1) / (k * (k + 1))
        one += square
        both += 2 * square + 4 * product
    return mean, math.sqrt((4 * (matrices - 2) * one + 2 * both) / (matrices * (matrices - 1)))


RULES = {
    "inside": Rule("{} lies in our interval", _each(lambda r, x: r.low is not None and r.least <= x <= r.most)),
    "quotient_inside": Rule("{} lies in our interval", _each(lambda r, x: r.least <= x[0] / x[1] <= r.most)),
    "meets_mean": Rule("interval meets {}", _meets_mean),
    "meets_quotient": Rule("interval meets {}", _meets_quotient),
    "meets_entries": Rule("interval meets {}", _meets_entries),
    "at_least": Rule("at least {}", _each(lambda r, x: r.least >= x)),
    "above": Rule("above {}, with the whole interval", _each(lambda r, x: r.least > x)),
    "below": Rule("below {}, with the whole interval", _each(lambda r, x: r.most < x)),
    "above_value": Rule("above {}", _each(lambda r, x: _float(r.value) > x)),
    "below_value": Rule("below {}", _each(lambda r, x: _float(r.value) < x)),
    "within": Rule("interval wholly within {}", _each(lambda r, x: r.least >= x[0] and r.most <= x[1])),
    "meets": Rule("interval meets {}", _each(lambda r, x: r.least <= x[1] and r.most >= x[0])),
    "equals": Rule("is {}", _each(lambda r, x: r.value == x)),
    "one_of": Rule("one of {}", _each(lambda r, x: r.value in x)),
    "falling": Rule("each above the next, intervals apart", _falling),
    "above_last": Rule("all but the last above the last, intervals apart", _above_last),
    "pairs_falling": Rule("the first of each two above the second, intervals apart", _pairs_falling),
    "more": Rule("the first is more than the second", _more),
    "contains": Rule("the interval of the first holds the second", _contains),
    "most": Rule("the first of a pair above the second, intervals apart, in more than half of the pairs", _most),
    "all": Rule("{}", _all),
    "near": Rule("the intervals of all but the last lie within a share of {} of the last", _near),
    "times": Rule("the first at least {} times the second", _times),
    "random_rows": Rule(
        "{} lies within two standard deviations of what that many random matrices of our size give", _random_rows
    ),
}


def holds(rule: Mapping[str, Any], readings: Sequence[Reading]) -> bool:
    """Whether the row's rule holds."""
    ((name, argument),) = rule.items()
    return bool(readings) and RULES[name].holds(readings, argument)


def in_words(rule: Mapping[str, Any]) -> str:
    """The rule as the page says it."""
    ((name, argument),) = rule.items()
    if name == "random_rows":
        argument = f"{argument['paper']}, of {argument['matrices']} matrices,"
    if name == "quotient_inside":
        argument = f"{argument[0]} / {argument[1]} = {number(argument[0] / argument[1], 3)}"
    if name == "meets_mean":
        low, high = mean_of_paper(*argument)
        argument = f"{low:.3g} to {high:.3g} (the paper's mean over {argument[2]} runs)"
    if name == "meets_quotient":
        low, high = quotient_of_paper(*argument)
        argument = f"{low:.3g} to {high:.3g} (quotient of the paper's means over {argument[2]} runs)"
    if name == "meets_entries":
        low, high = entries_of_paper(**argument)
        argument = f"{low:.3g} to {high:.3g} (the paper's mean over {argument['of']:,} entries of one run)"
    if name == "all":
        argument = "; ".join(map(in_words, argument))
    if isinstance(argument, list):
        argument = " to ".join(map(str, argument)) if name in ("within", "meets") else ", ".join(map(str, argument))
    return RULES[name].words.format(argument)


# -- status -----------------------------------------------------------------------------------------------


Part = tuple[str, tuple[str, ...]]  # a lead ("not with") and what follows it


@dataclass(frozen=True)
class Outcome:
    """A row's status, and what the page says of it besides: `text` in one line, `parts` for a list."""

    status: str
    text: str
    not_so: bool = field(default=False, compare=False)  # whether an arm that was tried does not agree
    parts: tuple[Part, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, status: str, *parts: Part, not_so: bool = False) -> "Outcome":
        """An outcome from its parts; those that hold nothing are left out."""
        held = tuple(part for part in parts if part[1])
        return cls(status, ". ".join(f"{lead} {'; '.join(items)}".strip() for lead, items in held), not_so, held)


def readings_of(paths: Sequence[str], results: Results) -> list[Reading] | None:
    """What stands at all of `paths`; None if one is not there."""
    found = [read(path, results) for path in paths]
    return None if None in found else [r for r in found if r is not None]


def outcome(row: Mapping[str, Any], results: Results) -> Outcome:
    """Status of a row, from its rule and arms."""
    if "status" in row:
        shown = f" ([{row['shown_by']}](../{row['shown_by']}))" if "shown_by" in row else ""
        return Outcome.of(row["status"], ("", (f"{row['why']}{shown}",)))
    ours = readings_of(row["ours"], results)
    if ours is None and "awaited" in row:
        return Outcome.of("open", ("awaited:", (row["awaited"],)))
    if ours is None:
        raise KeyError(f"{row['id']}: no results at {next(p for p in row['ours'] if read(p, results) is None)!r}")
    digits = row.get("digits", DIGITS)
    held: list[str] = []
    failed: list[str] = []
    awaited: list[str] = []
    for arm in row.get("arms", ()):
        there = readings_of(arm["path"], results)
        if there is None:
            awaited.append(arm["setting"])
            continue
        agrees = "rule" not in arm and holds(row["rule"], there)
        (held if agrees else failed).append(f"{arm['setting']}: {cell(there, digits)}")
    not_so = ("not with", tuple(failed))
    if holds(row["rule"], ours):
        status = "in range" if row.get("range") else "reproduced"
        null = row.get("range") and holds(row["rule"], [Reading(1.0)])
        says = ("so would be no effect, a ratio of 1",) if null else ()
        return Outcome.of(status, ("", says), ("also with", tuple(held)), not_so, not_so=bool(failed))
    if held:
        return Outcome.of("differs", ("", tuple(held)), not_so)
    if "own" in row and not holds(row["rule"], [Reading(value) for value in row["own"]]):
        own = ", ".join(map(str, row["own"]))
        return Outcome.of("differs", ("", (f"the source's own numbers contradict its sentence: {own}",)))
    tried = (row["tried"],) if row.get("tried") else ()
    return Outcome.of("open", ("with", tuple(failed)), ("awaited:", tuple(awaited)), ("tried:", tried))


# -- the page ---------------------------------------------------------------------------------------------


def cell(readings: Sequence[Reading], digits: int = DIGITS) -> str:
    """Numbers of one cell; of many, how many and their least and greatest value."""
    if len(readings) <= SHOWN:
        return ", ".join(r.text(digits) for r in readings)
    values = [_float(r.value) for r in readings]
    if any(math.isnan(v) for v in values):
        return f"{len(readings)} times " + ", ".join(sorted({r.text(digits) for r in readings}))
    low, high = (Reading(end).text(digits) for end in (min(values), max(values)))
    sizes = {f"n={r.n} {r.over}".rstrip() for r in readings if r.low is not None or (r.n is not None and not r.over)}
    return f"{low} to {high} ({len(readings)} numbers" + (f", {sizes.pop()} each)" if len(sizes) == 1 else ")")


def line(row: Mapping[str, Any], results: Results) -> str:
    """One row of the page's table."""
    ours = cell(readings_of(row.get("ours", ()), results) or [], row.get("digits", DIGITS)) or "–"
    cells = (row["id"], row["what"], row["paper"], ours, f"**{outcome(row, results).status}**")
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


LEADS = {  # of an outcome's parts, as the list below a table has them; an empty one by status
    "also with": "Also holds with",
    "not with": "Does not hold with",
    "with": "Does not hold either with",
    "awaited:": "Awaited",
    "tried:": "Tried",
    "differs": "Holds with",
    "": "Note",
}


def clauses(text: str) -> tuple[str, ...]:
    """A text cut at its semicolons, those in brackets apart."""
    return tuple(re.split(r"; (?![^()]*\))", text))


def details(row: Mapping[str, Any], results: Results) -> list[str]:
    """What a row's cells leave out, as a list: the source, the rule, further numbers, the setting, what was tried."""
    found, digits = outcome(row, results), row.get("digits", DIGITS)
    beside = readings_of(row.get("beside", ()), results) or []
    told: list[Part] = [
        ("Holds if", (in_words(row["rule"]),) if "rule" in row else ()),
        ("Beside it", (cell(beside, digits),) if beside else ()),
        ("Setting", (row["setting"],) if row.get("setting") else ()),
    ]
    for lead, items in found.parts:
        by_status = found.status if not lead and row.get("arms") else lead
        told.append((LEADS.get(by_status, LEADS[""]), items))
    out = [f"- **{row['id']}** ({row['source']}): {found.status}"]
    for lead, items in told:
        if len(items) == 1 and len(items[0]) > LONG:
            items = clauses(items[0])
        if len(items) == 1:
            out.append(f"    - {lead}: {items[0]}")
        elif items:
            out += [f"    - {lead}:", *(f"        - {item}" for item in items)]
    return out


HEADER = """# What the papers say, and our results beside it

This page is written by `python docs/reproduction.py` from [reproduction.toml](reproduction.toml) and the `results.json`
of the studies; no number is typed by hand. Of {rows} numbers and statements {counts}.

"""
LEGEND = """
Each table has the paper's number beside ours. The list under it, closed at first, gives for each row the source, the
rule by which both agree, how our setting differs, and which other settings (*arms*) were tried.

- **reproduced**: the rule holds for our number. Intervals are 95 %; where there is none, the rule is applied to the
  number itself.
- **in range**: our number lies within the range of the paper's numbers, which are from other models than ours. This is
  the weaker statement.
- **differs**: the rule does not hold for our number, and holds for an arm with another setting, which is named with its
  number. With several arms one may fit by chance. Arms were chosen for a reason, and where none fits all of them are
  named. Where a row lists several numbers, only an arm that gives all of them counts. Most arms were run after our
  number was known to disagree: an arm that fits shows a setting that gives the number, and does not prove that the
  paper used it. A sentence that the source's own printed numbers contradict is counted here as well.
- **open**: no arm gives the paper's number; the list names what was tried, and what has not been measured yet.
- **missing**: nothing here measures it, or no number can be compared.

Whatever the status, arms that were tried and do not agree are listed.

Numbers of the papers are given as printed. Where a paper uses a word ("close", "most", "common"), "Setting" says how it
is read. The encoders of Tables 2.3 and 2.4 were not available: there the rule asks whether another encoder lies within
their range, and not for any single number. For Table 2.5 it asks for the ratio of two printed numbers, and for their
order.
"""
IN_WORDS = (
    "reproduced",
    "in the range of other models' numbers",
    "different, and agree in an arm with another setting or are contradicted by their own source",
    "open",
    "missing",
)
COLUMNS = ("id", "what", "paper", "ours", "status")
SUMMARY = "Row by row: source, rule, setting, and what was tried"


def table(head: Sequence[str], lines: Sequence[str]) -> list[str]:
    """A Markdown table of rows that are written already."""
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines]


def page(rows: Sequence[Mapping[str, Any]], results: Results) -> str:
    """The whole page."""
    studies = list(dict.fromkeys(row["study"] for row in rows))
    counts = {name: Counter(outcome(r, results).status for r in rows if r["study"] == name) for name in studies}
    total = sum(counts.values(), Counter())
    each = zip(STATUSES, IN_WORDS, strict=True)
    said = (f"{total[status]} {'is' if total[status] == 1 else 'are'} {words}" for status, words in each)
    summary = [
        f"| {name} | " + " | ".join(str(found[s]) for s in STATUSES) + f" | {sum(found.values())} |"
        for name, found in {**counts, "all": total}.items()
    ]
    out = table(("study", *STATUSES, "rows"), summary) + LEGEND.splitlines()
    for name in studies:
        out += [
            "",
            f"## {name}",
            "",
            *table(COLUMNS, [line(row, results) for row in rows if row["study"] == name]),
            "",
            f'<details markdown="1"><summary>{SUMMARY}</summary>',
            "",
            *(text for row in rows if row["study"] == name for text in details(row, results)),
            "",
            "</details>",
        ]
    beside = [outcome(row, results) for row in rows]
    some = sum(o.status == "reproduced" and o.not_so for o in beside)
    counted = f"{', '.join(said)}. {some} of the reproduced ones fail in another arm that was tried"
    return HEADER.format(rows=len(rows), counts=counted) + "\n".join(out) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or check it, or list rows."""
    parser = argparse.ArgumentParser(description="Write docs/reproduction.md from its data and the studies' results.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page would change")
    parser.add_argument("--list", choices=STATUSES, metavar="STATUS", help="name the rows of one status")
    args = parser.parse_args(argv)
    (rows, _), results = load_rows(), load_results()
    if args.list:
        for row in rows:
            found = outcome(row, results)
            if found.status == args.list:
                print(f"{row['id']}: {found.text}".rstrip(": "))
        return 0
    made = page(rows, results)
    if args.check:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
        stale = "docs/reproduction.md is stale: run python docs/reproduction.py"
        print("the page is what the data gives" if same else stale)
        return 0 if same else 1
    PAGE.write_text(made, encoding="utf-8")
    print(f"{len(rows)} rows -> {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
