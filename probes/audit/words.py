"""The rows of an audit as text for a terminal."""

import textwrap
from typing import Any

from interp.numbers import ABSENT, UNDEFINED, estimate, number, power, size
from interp.stats import Estimate
from probes.audit.rows import COUNTS, LOGITS, OUTPUTS, proves, stem
from probes.audit.thresholds import MIXED

Row = dict[str, Any]
SIDES = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}
SCORED = "Claim score: mean of (m - c) / (1 - c) over every query to which the claim applies"
WIDTH = 80
SHOWN = 16  # seeds in the summary
NAME, CELL, SIZE, NEEDED = 31, 21, 9, 10  # columns of the table


def needed(row: Row) -> str:
    """What was required of a row: ">= 0.25"."""
    if row["threshold"] is None:
        return ""
    if row["side"] == "within":
        return f"in ±{row['threshold']:g}"
    if row["side"] == "not in":
        return "not " + "-".join(f"{end:g}".lstrip("0") for end in MIXED)
    least = row["threshold"]
    written = f"{least:.3g}" if least == 0 or abs(least) >= 1e-4 else power(least, 0)
    return f"{SIDES[row['side']]} {written}"


def numbers_of(row: Row) -> str:
    """A row's number, interval, unit where it is not a share, and n."""
    if row["unit"] == COUNTS:
        return cell(row)
    unit = " logits" if row["unit"] == LOGITS else ""
    return f"{cell(row)}{unit} ({size(Estimate.from_dict(row))})"


def required(row: Row) -> str:
    """The same with what it is required for: "holds if ≥ 0.25", "unused if ≤ 1e-5"; empty where nothing is."""
    return f"{proves(row)} if {needed(row)}" if needed(row) else ""


def cell(row: Row) -> str:
    """A row's number and interval; counts and bounds have none."""
    if row["value"] is None:
        return UNDEFINED
    if row["unit"] == COUNTS:
        return number(row["value"], 0)
    if row["unit"] == OUTPUTS:
        return number(row["value"], None)
    one = row["low"] is None and stem(row["name"]) in ("floor", "aimed")
    return number(row["value"], 2) if one else estimate(Estimate.from_dict(row), 2)


def shortened(text: str, width: int) -> str:
    """At most so many characters, the end left out."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -- inside -------------------------------------------------------------------------------------------------


def lines_of(row: Row, unit: str) -> list[str]:
    """A row of the table in lines of at most 80 columns; `unit`: what n counts, where the head of the table says it."""
    words = f"{row['words']}, logits" if row["unit"] == LOGITS else row["words"]
    first, *rest = textwrap.wrap(words, NAME - 1) or [""]
    over = "" if row["unit"] == COUNTS else str(row["n"]) if row["over"] == unit else f"{row['n']} {row['over']}"
    tail = f"{over:<{SIZE}}{needed(row):<{NEEDED - 1}} {row['says'] or ''}".rstrip()
    mark = "> " if row["decides"] else "  "
    lines = [f"{mark}{first:<{NAME}}{cell(row):<{CELL}}{tail}".rstrip()]
    if len(cell(row)) >= CELL or len(lines[0]) > WIDTH:  # a long number has a line of its own
        lines = [f"{mark}{first}", f"    {cell(row):<{NAME + CELL - 2}}{tail}".rstrip()]
        rest, lines = [], [lines[0], *(f"    {more}" for more in rest), lines[1]]
    return [*lines, *(f"    {more}" for more in rest), *(f"    {null}" for null in _nulls(row))]


def _nulls(row: Row) -> list[str]:
    """What the number would be if there were nothing to see; and what is shown by a row that meets its threshold."""
    null = row["null"] if isinstance(row["null"], dict) else {}
    said = {"uniform": "a uniform head", "untrained": "untrained models at most", "p_value": "permutation p"}
    told = [f"{said.get(name, name)} {number(value, None)}" for name, value in null.items() if value is not None]
    if row["decides"] and row["says"] == "against" and row["met"]:  # what is met speaks against the claim
        told.append(required(row))
    return [f"({', '.join(told)})"] if told else []


def seed_line(row: Row) -> str:
    """One seed of a population: its heads, findings and verdict."""
    heads = ",".join(f"L{layer}H{head}" for layer, head in row["heads"])
    return (
        f"  {row['seed']:>6}  {shortened(heads, 11):<12}{row['pattern']:<11}{row['use']:<11}{row['verdict']:<11}"
        f"{number(row['score'], 2, none=ABSENT):>12}{number(row['effect'], 2, none=ABSENT):>10}"
    )
