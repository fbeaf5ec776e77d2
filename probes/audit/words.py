"""An audit and a scan as text for a terminal."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interp.numbers import ABSENT, UNDEFINED, absent, estimate, number, power, size
from interp.stats import Estimate
from probes.audit.rows import COUNTS, LOGITS, OUTPUTS, proves
from probes.audit.thresholds import MIXED

if TYPE_CHECKING:
    from probes.audit.analyzer import AuditResult, ScanResult

Row = dict[str, Any]
SIDES = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}
SCORED = "Claim score: mean of (m - c) / (1 - c) over every query to which the claim applies"
WIDTH = 80
SHOWN = 16  # seeds in the summary
NAME, CELL, SIZE, NEEDED = 31, 21, 9, 10  # columns of the table


def audit_summary(result: "AuditResult") -> str:
    """The verdict, the reason and the table, at most 80 columns."""
    lines = textwrap.wrap(result.claim, WIDTH)
    lines.append(f"Verdict: {result.verdict} (pattern {result.pattern}, use {result.use})")
    lines += textwrap.wrap(result.reason, WIDTH)
    lines += textwrap.wrap(f"Evidence: {evidence_line(result)}. {SCORED}. >: the verdict rests on it", WIDTH)
    units = {row["over"] for row in result.evidence if row["unit"] != COUNTS}
    over = units.pop() if len(units) == 1 else ""
    head = f"n {over}".rstrip()
    lines.append(f"  {'':<{NAME}}{'value [interval]':<{CELL}}{head:<{SIZE}}{'needed':<{NEEDED}}says")
    told = False
    for row in result.evidence:
        if row["over"] == "seeds" and row["group"] != "population" and not told:
            lines.append("  means over seeds:")
            told = True
        lines += _lines_of(row, over)
    if result.seeds:
        head = f"  {'seed':>6}  {'heads':<12}{'pattern':<11}{'use':<11}{'verdict':<11}{'claim score':>12}{'effect':>10}"
        seeds = [_seed_line(row) for row in result.seeds[:SHOWN]]
        lines += [head, *seeds, *absent(seeds)]
        if len(result.seeds) > SHOWN:
            lines.append(f"  ({SHOWN} of {len(result.seeds)} seeds)")
    return "\n".join(lines)


def scan_summary(result: "ScanResult") -> str:
    """Per head what came out as supported or misleading, and the relation of the highest score otherwise."""
    first = result.results[0]
    lines = [
        *textwrap.wrap(f"Every head against every relation: {evidence_line(first)}. {SCORED}", WIDTH),
        f"  {'head':<7}{'relation':<29}{'claim score':<21}{'verdict':<11}use",
    ]
    shown = []
    for head, audits in by_head(result.results).items():
        ranked = sorted(audits, key=lambda a: -(_value(a) or 0.0))
        shown += [(head, a) for a in ranked if a.verdict in ("supported", "misleading")] or [(head, ranked[0])]
    for head, audit in shown:
        relation = shortened(audit.claim.split(" to ", 1)[1], 28)
        score = score_of(audit)
        lines.append(f"  {head:<7}{relation:<29}{estimate(score, 2):<21}{audit.verdict:<11}{audit.use}")
        told = f"{f'{size(score)}; ' if score is not None else ''}rests on {rests_on(audit)}"
        lines += textwrap.wrap(told, WIDTH, initial_indent=" " * 9, subsequent_indent=" " * 11)
    return "\n".join([*lines, *absent(lines)])


def evidence_line(result: "AuditResult") -> str:
    """How many models and inputs, which of them decide, and the level of the intervals."""
    models = "one model" if result.num_models == 1 else f"{result.num_models} models"
    several = "" if result.num_claims == 1 else f" ({result.num_claims} claims together)"
    over = f"{models}, {result.num_inputs} inputs, one half chooses and the other decides"
    return f"{over}; intervals {100 * result.level:.4g} %{several}"


def rests_on(result: "AuditResult") -> str:
    """The rows that decide: what they are, their numbers, and what was needed."""
    rows = [row for row in result.evidence if row["decides"]]
    told = [f"{row['words']} {numbers_of(row)}{f' ({required(row)})' if needed(row) else ''}" for row in rows]
    return "; ".join(told)


def by_head(results: Sequence["AuditResult"]) -> dict[str, list["AuditResult"]]:
    """Audits by the head that their claim names."""
    out: dict[str, list[AuditResult]] = {}
    for audit in results:
        out.setdefault(audit.claim.split(" ", 1)[0], []).append(audit)
    return out


def score_of(audit: "AuditResult") -> Estimate | None:
    """The claim score; None where too few rows made one impossible."""
    row = next((row for row in audit.evidence if row["name"].split(" ")[0] == "score"), None)
    return None if row is None else Estimate.from_dict(row)


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
    """A row's number, interval, unit where it is no share, and n."""
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
    one = row["low"] is None and row["name"].split(" ")[0] in ("floor", "aimed")
    return number(row["value"], 2) if one else estimate(Estimate.from_dict(row), 2)


def shortened(text: str, width: int) -> str:
    """At most so many characters, the end left out."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -- inside -------------------------------------------------------------------------------------------------


def _lines_of(row: Row, unit: str) -> list[str]:
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


def _value(audit: "AuditResult") -> float | None:
    score = score_of(audit)
    return None if score is None else score.value


def _seed_line(row: Row) -> str:
    heads = ",".join(f"{layer}.{head}" for layer, head in row["heads"])
    return (
        f"  {row['seed']:>6}  {shortened(heads, 11):<12}{row['pattern']:<11}{row['use']:<11}{row['verdict']:<11}"
        f"{number(row['score'], 2, none=ABSENT):>12}{number(row['effect'], 2, none=ABSENT):>10}"
    )
