"""The rows of an audit's table: numbers, what was required of them, what they say of the claim, and which decide."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.effects import Effects
from probes.audit.stats import far, high, low
from probes.audit.use_rules import AIMS
from probes.claims import heads_text

Pattern = Literal["holds", "fails", "undecided"]
Use = Literal["used", "redundant", "unused", "undecided", "not asked"]
Verdict = Literal["supported", "misleading", "refuted", "undecided"]
Says = Literal["for", "against", "open"]

# What a finding or verdict says of the claim, and so what the rows that it rests on say.
SAYS: dict[str, Says] = {
    "holds": "for", "used": "for", "redundant": "for", "supported": "for",
    "fails": "against", "unused": "against", "refuted": "against", "misleading": "against",
    "undecided": "open", "not asked": "open",
}  # fmt: skip

SCORES, LOGITS, MARGINS = "score or share", "logits", "share of the margin"
SEEDS, COUNTS, OUTPUTS = "share of seeds", "count", "share of the output"
_UNITS = {
    "rows": COUNTS, "sequences": COUNTS, "different": COUNTS, "items": COUNTS,
    "margin": LOGITS, "aimed": SCORES, "turned": SCORES, "whole_turned": SCORES,
    "given_turned": SCORES, "given_lost": SCORES, "still": OUTPUTS, "silent": OUTPUTS,
}  # fmt: skip
_UNITS_OF_GROUPS = {
    "eligibility": COUNTS, "pattern": SCORES, "power": MARGINS, "use": MARGINS, "population": SEEDS,
}  # fmt: skip


HIDDEN = ("direct_fill", "fill_lost", "raw_with_partners", "look_", "both_")  # shown where a word rests on them


@dataclass(frozen=True)
class Evidence:
    """One line of an audit's table.

    - `group`: eligibility, pattern, power, use or population; `name` for files, `words` for readers.
    - `estimate`: the number; `threshold` with `side` (">=", "<=", "<", ...), or None where nothing is required.
      "within": the bounds lie within the threshold, either way; "not in": outside `MIXED`.
    - `met`: whether it is, for sure; None where that is open, or nothing is required.
    - `finding`: the word (holds, unused, ...) of the finding that rests on this row; None for all other rows.
    - `decides`: whether the verdict rests on it.
    """

    group: str
    name: str
    words: str
    estimate: Estimate
    side: str | None = None
    threshold: float | None = None
    met: bool | None = None
    finding: str | None = None
    decides: bool = False

    @property
    def says(self) -> Says | None:
        """Whether the row speaks for the claim, against it, or leaves it open; None: it says nothing by itself.

        What a finding rests on says what the finding says. Besides, what the pattern is required to be speaks for or
        against it. A use may show in one way or another, so that no single row is required: rows of use on which the
        finding does not rest say nothing; nor do those of what makes a claim decidable at all.
        """
        if self.finding is not None:
            return SAYS[self.finding]
        required = self.group == "pattern" or (self.group == "population" and self.name == "supported")
        if self.threshold is None or not required:
            return None
        if self.side == "not in" and self.met and low(self.estimate) < t.MIXED[1]:
            return None  # few rows fit, all alike: no claim that is right of some rows only, and not right of most
        return "open" if self.met is None else "for" if self.met else "against"

    @property
    def unit(self) -> str:
        """What the number counts or is a share of: numbers of different units share no axis."""
        return _UNITS.get(stem(self.name), _UNITS_OF_GROUPS[self.group])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, one flat row."""
        row = {"group": self.group, "name": self.name, "words": self.words, **self.estimate.to_dict()}
        row |= {"side": self.side, "threshold": self.threshold, "met": self.met}
        return {**row, "unit": self.unit, "says": self.says, "decides": self.decides}


@dataclass(frozen=True)
class Finding:
    """A word, why, what it rests on, and the name of the rule that decided; empty where none was asked."""

    word: str
    because: str
    evidence: tuple[Evidence, ...]
    rule: str = ""


def stem(name: str) -> str:
    """What a row of this name measures, whichever head or kind of minimal pair it is of: "score L0H1" -> "score"."""
    return name.split(" ")[0].split("/")[0]


def resting(word: str, rows: Iterable[Evidence], names: Iterable[str]) -> list[Evidence]:
    """The rows, those of these names marked as what the finding `word` rests on."""
    chosen = set(names)
    return [replace(row, finding=word) if row.name in chosen else row for row in rows]


def deciding(pattern: Finding, use: Finding, verdict: Verdict, asks_use: bool) -> tuple[Finding, Finding]:
    """Both findings, the rows marked on which the verdict rests: at least one, whatever the verdict.

    A pattern that fails or is open decides alone; a misleading claim is so by a pattern that holds and is of no use; a
    supported one by its pattern, and by the use if that was claimed.
    """
    of_pattern = verdict in ("supported", "misleading") or pattern.word != "holds"
    of_use = pattern.word == "holds" and (asks_use or verdict == "misleading")
    return _marked(pattern, "pattern", of_pattern), _marked(use, "use", of_use)


def _marked(finding: Finding, group: str, decides: bool) -> Finding:
    if not decides:
        return finding
    rows = list(finding.evidence)
    if not any(row.finding for row in rows):  # nothing could be measured: the reason is all there is
        none = Estimate.undefined(finding.because, 0, "inputs")
        rows.append(Evidence(group, "nothing", f"{group}: nothing measured", none, finding=finding.word))
    return replace(finding, evidence=tuple(replace(row, decides=row.finding is not None) for row in rows))


def proves(row: dict[str, Any]) -> str:
    """What a row of `Evidence.to_dict` is required for: the word that its number shows once it meets the threshold."""
    group, name, least = row["group"], stem(row["name"]), row["side"] in (">", ">=")
    if group == "pattern":
        return "holds"
    if group == "population" and name != "floor":
        return str(name)
    if group == "use":
        return "unused" if not least else "redundant" if name.endswith("with_partners") else "used"
    return "decidable"


def bound(group: str, name: str, words: str, estimate: Estimate, least: float) -> Evidence:
    """A number that is to be at least so large."""
    met = True if low(estimate) >= least else False if high(estimate) < least else None
    return Evidence(group, name, words, estimate, ">=", least, met)


def counted(name: str, words: str, number: int, least: int, over: Any) -> Evidence:
    """How many there are, and how many are needed for a decision."""
    estimate = Estimate(float(number), None, None, number, over, reason="a count")
    return Evidence("eligibility", name, words, estimate, ">=", least, number >= least)


def with_value(rows: Sequence[Evidence]) -> list[Evidence]:
    """Without the rows that have no number, unless a finding rests on that."""
    return [row for row in rows if row.estimate.value is not None or row.finding is not None]


# -- the use ------------------------------------------------------------------------------------------------


def use_rows(e: Effects, word: str = "", names: Iterable[str] = ()) -> list[Evidence]:
    """What the edits of a claim did, the rows of these names marked as what the word on use rests on.

    A use may show in any of several effects. So besides what makes an edit mean something, and the effect itself, a
    number is required only of rows that the word rests on: that there is an effect, or, if unused, that there is none.
    """
    chosen = set(names)
    rows = [*_power_rows(e, chosen), *_silence_rows(e, chosen)]
    for name, words, estimate in _effects(e):
        shown = name in chosen or name.endswith("_beside") or not name.startswith(HIDDEN)
        row = Evidence("use", name, words, estimate) if estimate is not None and shown else None
        rows += [] if row is None else [_required(row, word) if name in chosen or name == "effect" else row]
    return with_value(resting(word, rows, chosen) if chosen else rows)


def _effects(e: Effects) -> list[tuple[str, str, Estimate | None]]:
    """Every effect that a word on use may rest on: its name in files, its words, the number."""
    return [
        ("effect", "effect of the exchange, less sham", e.total),
        ("raw", "the exchange as it is", e.raw),
        ("sham", "the sham alone", e.sham),
        ("direct", "direct effect (later patterns frozen)", e.direct),
        ("mean_fill", "their mean filled in instead", e.fill),
        ("fill_lost", "right answers that this turns over", e.fill_lost),
        ("direct_fill", "the same, later patterns frozen", e.direct_fill),
        ("turned", "answers that the exchange turns over", e.turned),
        ("with_partners", f"effect with {heads_text(e.partners)} ablated", e.with_partners),
        ("raw_with_partners", "the same, the exchange as it is", e.raw_with_partners),
        ("left_beside", f"margin left with {heads_text(e.partners)} ablated", e.left_beside),
        ("held_with_partners", "the same, later patterns frozen", e.held_with_partners),
        ("fill_beside", "mean filled in, the same ablated", e.fill_beside),
        ("look", "the donor's pattern, own values", e.look),
        ("look_raw", "the same, the exchange as it is", e.look_raw),
        ("both", "the donor's pattern and values", e.both),
        ("both_raw", "the same, the exchange as it is", e.both_raw),
        ("gone", "the mean of all that it gives instead", e.gone),
        ("look_beside", f"the donor's pattern, {heads_text(e.look_partners)} ablated", e.look_beside),
        ("both_beside", "pattern and values, the same ablated", e.both_beside),
        ("left_look_beside", f"margin left, {heads_text(e.look_partners)} ablated", e.left_look_beside),
        ("look_beside_raw", "the donor's pattern, the exchange as it is", e.look_beside_raw),
        ("both_beside_raw", "pattern and values, the exchange as it is", e.both_beside_raw),
        ("gone_beside", "the mean of all that it gives, the same ablated", e.gone_beside),
        ("whole", "all that it gives, of another input", e.whole),
        ("whole_turned", "answers that this turns over", e.whole_turned),
        ("whole_lost", "right answers that its mean turns over", e.whole_lost),
        ("whole_beside", f"all of another input, {heads_text(e.whole_partners)} ablated", e.whole_beside),
        ("whole_in_company", f"the same while {heads_text(e.whole_company)} give the donor's", e.whole_in_company),
        ("given", "all that it gives, of any other input", e.given),
        ("given_turned", "answers that this turns over", e.given_turned),
        ("given_lost", "right answers that this loses", e.given_lost),
        ("elsewhere", "the same off the claimed edges alone", e.elsewhere),
        ("in_company", f"effect while {heads_text(e.company)} give the donor's", e.in_company),
    ]


def items_row(count: int, needs: str) -> Evidence:
    """How many items there are; `needs`: what inputs must have to be one."""
    return replace(counted("items", f"inputs that {needs}", count, t.MIN_SEQUENCES, "inputs"), group="power")


def _power_rows(e: Effects, chosen: set[str]) -> list[Evidence]:
    """What makes an edit mean something."""
    rows = [Evidence("power", "margin", "intact margin", e.margin, ">", 0.0, met=low(e.margin) > 0)]
    for name, words, estimate in (
        ("every_head", "these edges exchanged in all heads", e.every),
        ("token", "the token itself exchanged", e.token),
    ):
        if estimate is not None:
            met = (estimate.value or 0.0) >= t.POWER
            rows.append(Evidence("power", name, words, estimate, ">=", t.POWER, met))
    if "aimed" in chosen:
        aimed = Estimate(e.aimed, None, None, e.items, "inputs", reason="a count")
        rows.append(Evidence("power", "aimed", "inputs where these edges read it", aimed, ">=", t.AIMED, AIMS(e)))
    if "edit" in chosen:
        dead = Estimate.undefined(str(e.dead), e.items, "inputs")
        rows.append(Evidence("power", "edit", "an edit that reaches the output", dead))
    return rows


def _silence_rows(e: Effects, chosen: set[str]) -> list[Evidence]:
    """The largest changes of the output, where the word rests on there being none."""
    rows = []
    for name, words, change in (
        ("still", "most that any output moves", e.output_change),
        ("silent", "most that the answer moves", e.answer_change),
    ):
        if name in chosen:
            most = Estimate(change, None, None, e.items, "inputs", reason="a largest value")
            rows.append(Evidence("use", name, words, most, "<=", t.EXACT, met=True))
    return rows


def _required(row: Evidence, word: str) -> Evidence:
    """What the word on use asks of a row."""
    e = row.estimate
    if row.name.endswith("fill"):
        if word == "undecided" and low(e) >= t.USED:  # unused but for this
            return replace(row, side="<", threshold=t.USED, met=False)
        return bound(row.group, row.name, row.words, e, t.UNUSED)
    if row.name == "gone" or (row.name == "fill_lost" and word in ("used", "undecided") and low(e) < t.USED):
        return bound(row.group, row.name, row.words, e, t.UNUSED)
    if word == "used" and row.name in ("effect", "raw", "turned"):  # what is left of a use that is made up for in part
        least = t.TURNED if row.name == "turned" else t.USED
        return bound(row.group, row.name, row.words, e, t.UNUSED if t.UNUSED <= low(e) < least else least)
    if row.name in ("in_company", "turned") or word == "unused":
        if row.name == "direct":
            return replace(row, side="<", threshold=t.USED, met=high(e) < t.USED)
        met = far(e) < t.UNUSED
        return replace(row, side="within", threshold=t.UNUSED, met=True if met else None)
    return bound(row.group, row.name, row.words, e, t.USED)
