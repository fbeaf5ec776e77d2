"""Numbers that a text tells, and whether results hold them: at the digits shown, an interval with its value."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PLAIN = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d+(?:e-?\d+)?"
NUMBER = rf"(?<![\w.]){PLAIN}(?![\w])"
REFERENCES = (  # sections, theorems, figures, also as first cells of a table about figures; the level of intervals
    r"(?:[Ss]ections?|Theorems?|Thms?\.?|Tables?|Figs?\.?|App\.|[Ee]qs?\.|Lemma|Prop\.|Corollary|Cor\.) ?"
    r"[\d.]+[a-z]?(?:(?:, | and |-|, and | to )[\d.]+[a-z]?(?![\d%]))*",
    r"(?m)^\| \d\.\d+,",
    r"(?i)intervals are 95 %|95 % (?:exact )?intervals?",
    r"\b\d{4}\.\d{5}\b",  # a paper's number at arXiv
)
KINDS = {  # in this order; what one has found the next does not see
    "verdicts": r"(?<![\d/])\d+(?:/\d+){3}(?![\d/])",
    "count": rf"(?<![\w.,-])(\d+) of (\d[\d,]*)(?:\s*\|?\s*\[({PLAIN}),\s+({PLAIN})\])?",
    "interval": rf"(?<![\w.])({PLAIN})(?: %| points)?\s*\|?\s*\[({PLAIN}),\s+({PLAIN})\]",
    "number": NUMBER,
}
WORDS = ("supported", "misleading", "undecided", "refuted")  # the order in which verdicts are told
LONGEST_LIST = 12  # longer ones are of each seed or head: nobody copies them, and anything would be found among them
ENDS = ("low", "high", "n")  # told with their value or not at all
SHORTEST_KEY = 5  # of results that a row of a table can be about


@dataclass(frozen=True)
class Told:
    """One thing told: its kind, numbers as written, where it stands, and what is said around it.

    `scale`: 100 for shares that are told in per cent. `about`: the first cell of its row, or "".
    """

    kind: str
    parts: tuple[str, ...]
    start: int
    end: int
    scale: float
    about: str
    context: str


def prose(text: str) -> str:
    """`text` without what is no sentence or table: code, addresses, and blocks that a script writes."""
    for pattern in (r"```.*?```", r"<!-- ([\w ]+): begin.*?<!-- \1: end -->|<!-- bench: begin.*?<!-- bench: end -->"):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`code`", text))
    for pattern in REFERENCES:
        text = re.sub(pattern, lambda match: "|" if match[0].startswith("|") else "there", text)
    return text


def told(text: str) -> list[Told]:
    """All that a text of `prose` tells in numbers: whole ones only as counts, verdicts, intervals and per cent."""
    out, left = [], text
    for kind, pattern in KINDS.items():
        for match in re.finditer(pattern, left):
            percent = re.search(r" ?(%|points)", text[match.start() : match.end() + 8].split("|")[0].split(",")[0])
            parts = tuple(part for part in match.groups() if part) or (match[0],)
            if kind == "number" and not (percent or "." in match[0] or "e" in match[0]):
                continue
            row = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            about = row.split("|")[1].strip() if row.startswith("|") else ""
            context = text[max(match.start() - 60, 0) : match.end() + 30].replace("\n", " ")
            out.append(Told(kind, parts, match.start(), match.end(), 100.0 if percent else 1.0, about, context))
        left = re.sub(pattern, lambda m: " " * len(m[0]), left)
    return sorted(out, key=lambda one: one.start)


def fits(written: str, number: Any, scale: float = 1.0) -> bool:
    """Whether `number` times `scale` is what is written, at the digits that are shown; its sign may be in words."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    mantissa, _, power = written.replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(power or 0) - decimals)
    shown = float(f"{mantissa}e{power or 0}")
    nearest = min(abs(number * scale - shown), abs(number * scale + shown))
    return nearest <= unit * (0.5 + 1e-6)  # of the last digit shown; halves are rounded either way


@dataclass(frozen=True)
class Pool:
    """What results hold: numbers, intervals (value, low, high, n) and verdicts."""

    numbers: tuple[float, ...]
    intervals: tuple[tuple[float, float | None, float | None, int], ...]
    verdicts: frozenset[str]

    @classmethod
    def of(cls, results: Sequence[Any]) -> "Pool":
        """All that stands in `results`, however deep."""
        nodes = [node for one in results for node in walk(one)] + [list(results)]
        objects = [node for node in nodes if isinstance(node, dict)]
        below = [value for node in objects for key, value in node.items() if key not in ENDS]
        below += [value for node in nodes if isinstance(node, list) for value in node]
        numbers = {node for node in below if isinstance(node, int | float) and not isinstance(node, bool)}
        verdicts, intervals = set(), []
        for node in objects:
            middle = node.get("value", node.get("mean"))
            if middle is not None and "low" in node:
                intervals += _each(middle, node["low"], node["high"], node.get("n", 0))
            if {*WORDS, "n"} <= set(node):
                counts = [node[word] if isinstance(node[word], dict) else {"count": node[word]} for word in WORDS]
                verdicts.add("/".join(str(one["count"]) for one in counts))
                size = node["n"]
                intervals += [(one["count"] / size, one.get("low"), one.get("high"), size) for one in counts]
        return cls(tuple(numbers), tuple(intervals), frozenset(verdicts))

    def holds(self, one: Told) -> bool:
        """Whether it is in here."""
        if one.kind == "verdicts":
            return one.parts[0] in self.verdicts
        if one.kind == "number":
            return any(fits(one.parts[0], number, one.scale) for number in self.numbers)
        value, *ends = one.parts
        if one.kind == "count":
            count, size = int(value), int(ends.pop(0).replace(",", ""))
            near = [i for i in self.intervals if i[3] == size and round(i[0] * size) == count]
            return any(_ends_fit(ends, i, 1.0) for i in near)
        return any(fits(value, i[0], one.scale) and _ends_fit(ends, i, one.scale) for i in self.intervals)


def _each(value: Any, low: Any, high: Any, size: int) -> list[tuple[float, float | None, float | None, int]]:
    """One interval, or those of an array of estimates."""
    if isinstance(value, list):
        return [one for parts in zip(value, low, high, strict=True) for one in _each(*parts, size)]
    return [(value, low, high, size)]


def _ends_fit(ends: list[str], found: tuple[float, float | None, float | None, int], scale: float) -> bool:
    return not ends or (fits(ends[0], found[1], scale) and fits(ends[1], found[2], scale))


def walk(node: Any) -> Iterator[Any]:
    """`node` and everything below it, long lists of numbers left out."""
    if isinstance(node, list) and len(node) > LONGEST_LIST and all(isinstance(x, int | float) for x in node):
        return
    yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(value)


def _layer(about: str) -> str:
    found = re.search(r", layer \d+$", about)
    return found[0] if found else ""


def below(results: Any, about: str) -> list[Any]:
    """The parts of `results` that a row is about: those under the key that `about` is, or that it names a layer of."""
    keys = {key for node in walk(results) if isinstance(node, dict) for key in node}
    named = [key for key in keys if len(key) >= SHORTEST_KEY and about in (key, f"{key}{_layer(about)}")]
    if not named:
        return []
    longest = max(named, key=len)
    return [node[longest] for node in walk(results) if isinstance(node, dict) and longest in node]
