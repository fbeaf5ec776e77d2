"""From measurements to words. The thresholds are in `_audit_thresholds`; the rules are these."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from interp.stats import Estimate
from probes import _audit_thresholds as t
from probes._audit_inputs import Inputs
from probes._audit_pattern import Asked, Look, Rival, worst
from probes._audit_stats import high, low
from probes._audit_tasks import Task
from probes._audit_use import Effects
from probes.claims import Claim, heads_text

Pattern = Literal["holds", "fails", "undecided"]
Use = Literal["used", "redundant", "unused", "undecided", "not asked"]
Verdict = Literal["supported", "misleading", "refuted", "undecided"]


@dataclass(frozen=True)
class Evidence:
    """One line of an audit's table.

    - `group`: eligibility, pattern, power, use or population; `name` for files, `words` for readers.
    - `estimate`: the number; `threshold` with `side` (">=", "<=", "<", ...), or None where nothing is required.
    - `met`: whether it is, for sure; None where that is open, or nothing is required.
    """

    group: str
    name: str
    words: str
    estimate: Estimate
    side: str | None = None
    threshold: float | None = None
    met: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, one flat row."""
        row = {"group": self.group, "name": self.name, "words": self.words, **self.estimate.to_dict()}
        return {**row, "side": self.side, "threshold": self.threshold, "met": self.met}


@dataclass(frozen=True)
class Finding:
    """A word, why, and what it rests on. `when`: a condition that would make a mixed claim right."""

    word: str
    because: str
    evidence: tuple[Evidence, ...]


def verdict_of(pattern: str, use: str, claim: Claim) -> Verdict:
    """One word from two findings.

    A claim about attention alone stands or falls with the pattern; but a pattern that is proven to be of no use is
    misleading, whoever shows it. A claim of use needs the use.
    """
    if pattern == "fails":
        return "refuted"
    if pattern != "holds":
        return "undecided"
    if use == "unused":
        return "misleading"
    if claim.uses is None or use in ("used", "redundant"):
        return "supported"
    return "undecided"


# -- the pattern --------------------------------------------------------------------------------------------


def eligible(asked: Asked, rivals: Sequence[Rival], inputs: Inputs) -> str | None:
    """What keeps these inputs from deciding on the pattern, or None."""
    rows = asked.rows[inputs.half_b]
    count, sequences = int(rows.sum()), int(rows.any(1).sum())
    if count < t.MIN_ROWS or sequences < t.MIN_SEQUENCES:
        return (
            f"the relation applies to {count} rows in {sequences} inputs of the half that decides, and "
            f"{t.MIN_ROWS} in {t.MIN_SEQUENCES} are needed"
        )
    alike = [rival for rival in rivals if rival.different < t.MIN_DIFFERENT]
    if alike:
        nearest = min(alike, key=lambda rival: rival.different)
        return (
            f"{asked.claim.relation.words} cannot be told from {nearest.words} on these inputs: they differ in "
            f"{nearest.different} rows, and {t.MIN_DIFFERENT} are needed"
        )
    return None


def decide_pattern(
    asked: Asked,
    looks: Sequence[tuple[tuple[int, int], Look]],
    p_value: float | None,
    untrained: Estimate | None,
    inputs: Inputs,
) -> Finding:
    """Holds iff it holds of every head, fails iff it fails of one. `p_value`: Holm-corrected, of the matched null."""
    rows = int(asked.rows[inputs.half_b].sum())
    counted = Evidence("eligibility", "rows", "rows where the relation applies", _count(rows), ">=", t.MIN_ROWS)
    counted = replace(counted, met=rows >= t.MIN_ROWS)
    if missing := eligible(asked, looks[0][1].rivals, inputs):
        return Finding("undecided", f"The pattern cannot be decided: {missing}.", (counted,))
    evidence, words, because = [counted], [], []
    for head, look in looks:
        rows_of = _pattern_rows(asked.claim, look, p_value, untrained)
        if len(looks) > 1:
            rows_of = [replace(e, name=f"{e.name} {heads_text([head])}", words=f"{heads_text([head])}: {e.words}")
                       for e in rows_of]  # fmt: skip
        word, why = _one_head(asked.claim, look, p_value, untrained)
        evidence += rows_of
        words.append(word)
        because.append(f"{heads_text([head])} {why}")
    word = "fails" if "fails" in words else "holds" if set(words) == {"holds"} else "undecided"
    shown = [b for w, b in zip(words, because, strict=True) if w == word]
    return Finding(word, ". ".join(shown) + ".", tuple(evidence))


def _least(claim: Claim) -> float:
    if claim.relation.kind == "even":
        return t.EVEN
    return t.MAINLY if claim.mainly else t.SCORE


def _one_head(claim: Claim, look: Look, p: float | None, untrained: Estimate | None) -> tuple[str, str]:
    least, (few, most), score = _least(claim), t.MIXED, look.score
    said = f"scores {_span(score)} on {claim.relation.words}"
    won = [r for r in look.rivals if r.lead and high(r.lead) < 0 and r.lead_a is not None and r.lead_a < 0]
    better = min(won, key=lambda r: high(r.lead) if r.lead else 0.0).words if won else None
    instead = f"; {better} fits better" if better else ""
    if high(score) < least:
        uniform = "" if look.top1 is None else " (a uniform head scores 0)"
        return "fails", f"{said}, below {least:g}{uniform}{instead}"
    if look.top1 is not None and high(look.top1) < t.TOP1:
        rows = f"{_span(look.top1)} of the rows only, less than {t.TOP1:g}"
        return "fails", f"{said}, but looks there most in {rows}{instead}"
    if better:
        return "fails", f"{said}, but {better} fits better where the two differ"
    if low(look.share) > few and high(look.share) < most:
        hint = f"; it would fit in {look.when[1]:.0%} of those where {look.when[0]}" if look.when else ""
        return "fails", f"{said}, but fits in {_span(look.share)} of the rows only{hint}"
    doubts = []
    if low(score) < least:
        doubts.append(f"the score may be below {least:g}")
    if look.top1 is not None and low(look.top1) < t.TOP1:
        doubts.append(f"it may look there most in less than {t.TOP1:g} of the rows ({_span(look.top1)})")
    if not (low(look.share) >= most or high(look.share) <= few):
        doubts.append(f"the share of rows that fit ({_span(look.share)}) may be that of a claim that is right at times")
    if p is not None and p > t.ALPHA:
        doubts.append(f"keys of the same class at the same distance get as much (p = {p:.2g})")
    if claim.relation.kind == "mass" and untrained and low(score) <= (untrained.value or 0.0):
        doubts.append(f"untrained models of this shape score {untrained.value:.2f}")
    if close := [r for r in look.rivals if r.lead and low(r.lead) <= 0]:
        nearest = min(close, key=lambda r: low(r.lead) if r.lead else 0.0)
        doubts.append(f"{nearest.words} may fit as well")
    if doubts:
        return "undecided", f"{said}, but {'; '.join(doubts)}"
    top = "" if look.top1 is None else f" and looks there most in {look.top1.value:.0%} of the rows"
    near = worst(look.rivals)
    lead = f"; the nearest rival, {near.words}, fits {near.lead.value:.2f} worse" if near and near.lead else ""
    return "holds", f"{said}{top}{lead}"


def _pattern_rows(claim: Claim, look: Look, p: float | None, untrained: Estimate | None) -> list[Evidence]:
    least, near = _least(claim), worst(look.rivals)
    null = {"uniform": 0.0, "untrained": untrained.value if untrained else None}
    rows = [_bound("pattern", "score", "score", look.score.with_null(null), least)]
    if look.top1 is not None:
        rows.append(_bound("pattern", "top1", "largest weight on it, sink apart", look.top1, t.TOP1))
    fits = low(look.share) >= t.MIXED[1] or high(look.share) <= t.MIXED[0]
    mixed = low(look.share) > t.MIXED[0] and high(look.share) < t.MIXED[1]
    share = Evidence("pattern", "share", "share of rows that fit", look.share, "not in", t.MIXED[1])
    rows.append(replace(share, met=True if fits else False if mixed else None))
    if look.matched is not None:
        matched = Evidence("pattern", "matched", "above keys alike in class, distance",
                           look.matched.with_null({"p_value": p}), ">", 0.0)  # fmt: skip
        rows.append(replace(matched, met=p is not None and p <= t.ALPHA))
    if near is not None and near.lead is not None:
        rows.append(_bound("pattern", "rival", f"fits better than {near.words}", near.lead, 0.0))
    rows += [
        Evidence("pattern", "without_sink", "weight on it, sink apart", look.without_sink),
        Evidence("pattern", "sink", "weight on the first token", look.on_sink),
        Evidence("pattern", "by_value", "weight on it, by size of the values", look.by_value),
    ]
    return [row for row in rows if row.estimate.value is not None]


# -- the use ------------------------------------------------------------------------------------------------


def decide_use(effects: Effects | None, task: Task, heads: str) -> Finding:
    """Used, redundant, unused, or undecided; see the issue's section 2 and the thresholds."""
    if effects is None or effects.items < t.MIN_SEQUENCES:
        count = 0 if effects is None else effects.items
        needs = getattr(task, "needs", "have a place to read")
        because = f"Use cannot be decided: {count} inputs {needs}, and {t.MIN_SEQUENCES} are needed."
        return Finding("undecided", because, ())
    evidence = tuple(_use_rows(effects))
    word, because = _use(effects, task, heads)
    if effects.idle and word in ("used", "redundant"):
        word, because = _with_idle(effects, task)
    if effects.unnatural > t.UNNATURAL:
        because += f" (edits took {effects.unnatural:.0%} of the residual norms out of the natural range)"
    return Finding(word, because + ".", evidence)


def _with_idle(e: Effects, task: Task) -> tuple[Use, str]:
    """A claim about several heads that holds without one of them."""
    names = heads_text([head for head, _ in e.idle])
    said = f"Exchanging what they read there moves {_span(e.total)} of the margin, and as much without {names}" if (
        e.total
    ) else f"{names} adds nothing"  # fmt: skip
    for head, alone in e.idle:
        word, because = _use(alone, task, heads_text([head]))
        if word == "unused":
            return "unused", f"{said}. {because}"
    return "undecided", f"Use cannot be decided: {said[0].lower()}{said[1:]}, which may still be of use otherwise"


def _use(e: Effects, task: Task, heads: str) -> tuple[Use, str]:
    if e.dead:
        return "undecided", f"Use cannot be decided: {e.dead}, so an edit of it proves nothing"
    if e.still:
        return "unused", "The model's output is the same whatever it reads, so nothing that it attends to is used"
    if e.silent and e.aims:
        if not e.paired:
            return "unused", (
                "The answer does not move in its last bit when all that these edges read is exchanged for what another "
                "input has there: it is not used"
            )
        return "unused", (
            f"The right answer to '{task.words}' turns on the token that is exchanged, and the model's does not move "
            "in its last bit: what is read there is not used"
        )
    if low(e.margin) <= 0 or e.every is None or e.token is None:
        return "undecided", f"Use cannot be decided: the model does not {task.words} (margin {_span(e.margin)})"
    if not e.powerful:
        token = f"exchanging the token itself moves {_span(e.token)}"
        pairs = "minimal pairs" if e.paired else "donors"
        why = token if e.aims else f"the {pairs} do not change the tokens that are read there"
        return "undecided", (
            f"Use cannot be decided: exchanging the values of these edges in all heads moves {_span(e.every)} of the "
            f"margin, less than {t.POWER:g}, and {why}"
        )
    if e.total is None or e.raw is None or e.direct is None or e.fill is None:
        raise AssertionError("effects are measured wherever there is power")
    moved = f"exchanging what {heads} reads there moves {_span(e.total)} of the margin towards the other answer"
    if e.used_whole:
        return "used", f"To {task.words} the model uses it: {moved}, net of a sham of the same size"
    if low(e.direct) >= t.USED and e.direct_fill is not None and (e.direct_fill.value or 0.0) > 0:
        return "used", (
            f"To {task.words} the model uses it, and what comes later makes up for a part: {moved}, and "
            f"{_span(e.direct)} with later patterns and the scales of norms frozen"
        )
    if low(e.total) >= t.USED:
        but = f"filling in the mean there moves {_span(e.fill)}: not the same way"
        if low(e.raw) < t.USED:
            but = f"{_span(e.raw)} with what a sham of the same size moves"
        return "undecided", f"Use cannot be decided: {moved}, but {but}"
    held = e.held_with_partners
    if e.with_partners is not None and low(e.with_partners) >= t.USED and (held is None or low(held) >= t.USED):
        return "redundant", (
            f"To {task.words} the model can do without it, but not without it and {heads_text(e.partners)}: {moved}, "
            f"and {_span(e.with_partners)} once the others are ablated"
        )
    alone = bool(e.nothing & {"total", "raw"})
    others = e.with_partners is None or bool(e.nothing & {"with_partners", "raw_with_partners"})
    if alone and others and high(e.direct) < t.USED and e.in_company is not None and "in_company" not in e.nothing:
        return "undecided", (
            f"Use cannot be decided: {moved}, but {_span(e.in_company)} while {heads_text(e.company)} give what they "
            "give for the donor: it may be one of many that say the same"
        )
    if alone and others and high(e.direct) < t.USED:
        if low(e.fill) >= t.USED:
            return "undecided", (
                f"Use cannot be decided: {moved}, but filling in the mean costs {_span(e.fill)}: what it reads there "
                "matters by something other than what the minimal pairs change"
            )
        also = f", nor with {heads_text(e.partners)} ablated" if e.partners else ""
        return "unused", f"The model does not use it to {task.words}: {moved}{also}, less than {t.UNUSED:g}"
    return "undecided", f"Use cannot be decided: {moved}, neither {t.USED:g} for sure nor below {t.UNUSED:g}"


def _use_rows(e: Effects) -> list[Evidence]:
    rows = [Evidence("power", "margin", "intact margin, logits", e.margin, ">", 0.0, met=low(e.margin) > 0)]
    for name, words, estimate in (
        ("every_head", "these edges exchanged in all heads", e.every),
        ("token", "the token itself exchanged", e.token),
    ):
        if estimate is not None:
            met = (estimate.value or 0.0) >= t.POWER
            rows.append(Evidence("power", name, words, estimate, ">=", t.POWER, met))
    if e.total is not None:
        rows.append(_bound("use", "effect", "effect of the exchange, less sham", e.total, t.USED))
    for name, words, estimate in (
        ("raw", "the exchange as it is", e.raw),
        ("sham", "the sham alone", e.sham),
        ("direct", "direct effect (later patterns frozen)", e.direct),
        ("mean_fill", "their mean filled in instead", e.fill),
        ("with_partners", f"effect with {heads_text(e.partners)} ablated", e.with_partners),
        ("held_with_partners", "the same, later patterns frozen", e.held_with_partners),
        ("in_company", f"effect while {heads_text(e.company)} give the donor's", e.in_company),
    ):
        if estimate is not None:
            rows.append(Evidence("use", name, words, estimate))
    return [row for row in rows if row.estimate.value is not None]


def _bound(group: str, name: str, words: str, estimate: Estimate, least: float) -> Evidence:
    met = True if low(estimate) >= least else False if high(estimate) < least else None
    return Evidence(group, name, words, estimate, ">=", least, met)


def _count(number: int) -> Estimate:
    return Estimate(float(number), None, None, number, "positions", reason="a count")


def _span(estimate: Estimate) -> str:
    """ "0.97 [0.96, 0.98]"."""
    if estimate.value is None:
        return "nothing"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value + 0.0:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-0.00", "0.00")
