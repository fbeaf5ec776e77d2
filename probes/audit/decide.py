"""From measurements to words. The thresholds are in `probes.audit.thresholds`; the rules are these."""

from collections.abc import Sequence
from dataclasses import replace

from interp.numbers import estimate as written
from interp.numbers import number, percent
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.effects import Effects
from probes.audit.inputs import Inputs
from probes.audit.pattern import Asked, Look, Rival, worst
from probes.audit.rows import Evidence, Finding, Use, Verdict, bound, counted, resting, use_rows, with_value
from probes.audit.stats import high, low
from probes.audit.tasks import Task
from probes.claims import Claim, heads_text


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


def eligible(asked: Asked, rivals: Sequence[Rival], inputs: Inputs) -> tuple[str, list[Evidence]] | None:
    """What keeps these inputs from deciding on the pattern, and the counts that say so; or None."""
    rows = asked.rows[inputs.half_b]
    count, sequences = int(rows.sum()), int(rows.any(1).sum())
    if count < t.MIN_ROWS or sequences < t.MIN_SEQUENCES:
        found = [
            _rows_there(count),
            counted("sequences", "inputs where the relation applies", sequences, t.MIN_SEQUENCES, "inputs"),
        ]
        return (
            f"the relation applies to {count} rows in {sequences} inputs of the half that decides, and "
            f"{t.MIN_ROWS} in {t.MIN_SEQUENCES} are needed"
        ), resting("undecided", found, [row.name for row in found if not row.met])
    alike = [rival for rival in rivals if rival.different < t.MIN_DIFFERENT]
    if alike:
        nearest = min(alike, key=lambda rival: rival.different)
        words = f"rows that tell it from {nearest.words}"
        found = [_rows_there(count), counted("different", words, nearest.different, t.MIN_DIFFERENT, "positions")]
        return (
            f"{asked.claim.relation.words} cannot be told from {nearest.words} on these inputs: they differ in "
            f"{nearest.different} rows, and {t.MIN_DIFFERENT} are needed"
        ), resting("undecided", found, ["different"])
    return None


def _rows_there(count: int) -> Evidence:
    return counted("rows", "rows where the relation applies", count, t.MIN_ROWS, "positions")


def decide_pattern(
    asked: Asked,
    looks: Sequence[tuple[tuple[int, int], Look]],
    p_value: float | None,
    untrained: Estimate | None,
    inputs: Inputs,
) -> Finding:
    """Holds iff it holds of every head, fails iff it fails of one. `p_value`: Holm-corrected, of the matched null."""
    if missing := eligible(asked, looks[0][1].rivals, inputs):
        why, rows = missing
        return Finding("undecided", f"The pattern cannot be decided: {why}.", tuple(rows))
    words, because, rests = [], [], []
    for _, look in looks:
        word, why, names = _one_head(asked.claim, look, p_value, untrained)
        words.append(word)
        because.append(why)
        rests.append(names)
    word = "fails" if "fails" in words else "holds" if set(words) == {"holds"} else "undecided"
    evidence, shown = [_rows_there(int(asked.rows[inputs.half_b].sum()))], []
    for (head, look), own, why, names in zip(looks, words, because, rests, strict=True):
        of_head = _pattern_rows(asked.claim, look, p_value, untrained)
        if own == word:
            shown.append(f"{heads_text([head])} {why}")
            of_head = resting(word, of_head, names)
        of_head = with_value(of_head)
        if len(looks) > 1:
            of_head = [replace(e, name=f"{e.name} {heads_text([head])}", words=f"{heads_text([head])}: {e.words}")
                       for e in of_head]  # fmt: skip
        evidence += of_head
    return Finding(word, ". ".join(shown) + ".", tuple(evidence))


def _least(claim: Claim) -> float:
    if claim.relation.kind == "even":
        return t.EVEN
    return t.MAINLY if claim.mainly else t.SCORE


def _one_head(claim: Claim, look: Look, p: float | None, untrained: Estimate | None) -> tuple[str, str, Sequence[str]]:
    """The word on one head, why, and the names of the rows that it rests on."""
    least, (few, most), score = _least(claim), t.MIXED, look.score
    said = f"scores {_span(score)} on {claim.relation.words}"
    better = _better(look)
    instead = f"; {better.words} fits better" if better else ""
    beaten = [_name_of(better, look)] if better else []
    if high(score) < least:
        uniform = "" if look.top1 is None else " (a uniform head scores 0)"
        return "fails", f"{said}, below {least:g}{uniform}{instead}", ["score", *beaten]
    if look.top1 is not None and high(look.top1) < t.TOP1:
        rows = f"{_span(look.top1)} of the rows only, less than {t.TOP1:g}"
        return "fails", f"{said}, but looks there most in {rows}{instead}", ["top1", *beaten]
    if better:
        return "fails", f"{said}, but {better.words} fits better where the two differ", beaten
    if low(look.share) > few and high(look.share) < most:
        hint = f"; it would fit in {percent(look.when[1])} of those where {look.when[0]}" if look.when else ""
        return "fails", f"{said}, but fits in {_span(look.share)} of the rows only{hint}", ["share"]
    doubts = {}
    if low(score) < least:
        doubts["score"] = f"the score may be below {least:g}"
    if look.top1 is not None and low(look.top1) < t.TOP1:
        doubts["top1"] = f"it may look there most in less than {t.TOP1:g} of the rows ({_span(look.top1)})"
    if not (low(look.share) >= most or high(look.share) <= few):
        doubts["share"] = (
            f"the share of rows that fit ({_span(look.share)}) may be that of a claim that is right at times"
        )
    if p is not None and p > t.ALPHA:
        doubts["matched"] = f"keys of the same class at the same distance get as much (p = {number(p, None)})"
    if claim.relation.kind == "mass" and untrained and low(score) <= (untrained.value or 0.0):
        doubts["untrained"] = f"untrained models of this shape score {number(untrained.value, 2)}"
    if close := [r for r in look.rivals if r.lead and low(r.lead) <= 0]:
        nearest = min(close, key=lambda r: low(r.lead) if r.lead else 0.0)
        doubts["rival"] = f"{nearest.words} may fit as well"
    if doubts:
        return "undecided", f"{said}, but {'; '.join(doubts.values())}", [*doubts]
    top = "" if look.top1 is None else f" and looks there most in {percent(look.top1.value)} of the rows"
    near = worst(look.rivals)
    lead = f"; the nearest rival, {near.words}, fits {number(near.lead.value, 2)} worse" if near and near.lead else ""
    return "holds", f"{said}{top}{lead}", ["score", "top1", "share", "matched", "untrained", "rival"]


def _better(look: Look) -> Rival | None:
    """The rival that fits better for sure, in both halves; of several the surest."""
    won = [r for r in look.rivals if r.lead and high(r.lead) < 0 and r.lead_a is not None and r.lead_a < 0]
    return min(won, key=lambda r: high(r.lead) if r.lead else 0.0) if won else None


def _name_of(rival: Rival, look: Look) -> str:
    """The row of a rival: of the nearest one, or of another that fits better."""
    return "rival" if rival is worst(look.rivals) else "better"


def _pattern_rows(claim: Claim, look: Look, p: float | None, untrained: Estimate | None) -> list[Evidence]:
    least, near, better = _least(claim), worst(look.rivals), _better(look)
    null = {"uniform": 0.0, "untrained": untrained.value if untrained else None}
    rows = [bound("pattern", "score", "claim score", look.score.with_null(null), least)]
    if look.top1 is not None:
        rows.append(bound("pattern", "top1", "largest weight on it, sink apart", look.top1, t.TOP1))
    fits = low(look.share) >= t.MIXED[1] or high(look.share) <= t.MIXED[0]
    mixed = low(look.share) > t.MIXED[0] and high(look.share) < t.MIXED[1]
    share = Evidence("pattern", "share", "share of rows that fit", look.share, "not in", t.MIXED[1])
    rows.append(replace(share, met=True if fits else False if mixed else None))
    if look.matched is not None:
        matched = Evidence("pattern", "matched", "above keys alike in class, distance",
                           look.matched.with_null({"p_value": p}), ">", 0.0)  # fmt: skip
        rows.append(replace(matched, met=True if p is not None and p <= t.ALPHA else None))
    if claim.relation.kind == "mass" and untrained is not None and untrained.value is not None:
        above = True if low(look.score) > untrained.value else None
        words = "claim score, beside untrained models"
        rows.append(Evidence("pattern", "untrained", words, look.score, ">", untrained.value, above))
    if near is not None and near.lead is not None:
        rows.append(bound("pattern", "rival", f"fits better than {near.words}", near.lead, 0.0))
    if better is not None and better is not near and better.lead is not None:
        rows.append(bound("pattern", "better", f"fits better than {better.words}", better.lead, 0.0))
    rows += [
        Evidence("pattern", "without_sink", "weight on it, sink apart", look.without_sink),
        Evidence("pattern", "sink", "weight on the first token", look.on_sink),
        Evidence("pattern", "by_value", "weight on it, by size of the values", look.by_value),
    ]
    return rows


# -- the use ------------------------------------------------------------------------------------------------


def decide_use(effects: Effects | None, task: Task, heads: str) -> Finding:
    """Used, redundant, unused, or undecided; see the issue's section 2 and the thresholds."""
    if effects is None or effects.items < t.MIN_SEQUENCES:
        count = 0 if effects is None else effects.items
        needs = getattr(task, "needs", "have a place to read")
        because = f"Use cannot be decided: {count} inputs {needs}, and {t.MIN_SEQUENCES} are needed."
        row = replace(counted("items", f"inputs that {needs}", count, t.MIN_SEQUENCES, "inputs"), group="power")
        return Finding("undecided", because, tuple(resting("undecided", [row], ["items"])))
    word, because, names = _use(effects, task, heads)
    if effects.idle and word in ("used", "redundant"):
        word, because, evidence = _with_idle(effects, task)
    else:
        evidence = use_rows(effects, word, names)
    if effects.unnatural > t.UNNATURAL:
        because += f" (edits took {percent(effects.unnatural)} of the residual norms out of the natural range)"
    return Finding(word, because + ".", tuple(evidence))


def _with_idle(e: Effects, task: Task) -> tuple[Use, str, list[Evidence]]:
    """A claim about several heads that holds without one of them; beside the rows of all those of the idle one."""
    together = use_rows(e)
    names = heads_text([head for head, _ in e.idle])
    said = f"Exchanging what they read there moves {_span(e.total)} of the margin, and as much without {names}" if (
        e.total
    ) else f"{names} adds nothing"  # fmt: skip
    for head, alone in e.idle:
        word, because, rests = _use(alone, task, heads_text([head]))
        if word == "unused":
            return "unused", f"{said}. {because}", [*together, *_of_one(head, alone, "unused", rests)]
    head, alone = e.idle[0]
    because = f"Use cannot be decided: {said[0].lower()}{said[1:]}, which may still be of use otherwise"
    return "undecided", because, [*together, *_of_one(head, alone, "undecided", ["effect"])]


def _of_one(head: tuple[int, int], alone: Effects, word: Use, names: Sequence[str]) -> list[Evidence]:
    """The rows about one of several claimed heads that the word rests on."""
    name = heads_text([head])
    rows = [row for row in use_rows(alone, word, names) if row.finding]
    return [replace(row, name=f"{row.name} {name}", words=f"{name} alone: {row.words}") for row in rows]


def _use(e: Effects, task: Task, heads: str) -> tuple[Use, str, Sequence[str]]:
    """The word on use, why, and the names of the rows that it rests on (see `use_rows`)."""
    if e.dead:
        return "undecided", f"Use cannot be decided: {e.dead}, so an edit of it proves nothing", ["edit"]
    if e.still:
        because = "The model's output is the same whatever it reads, so nothing that it attends to is used"
        return "unused", because, ["still"]
    if e.silent and e.aims:
        if not e.paired:
            return "unused", (
                "The answer does not move in its last bit when all that these edges read is exchanged for what another "
                "input has there: it is not used"
            ), ["silent"]  # fmt: skip
        return "unused", (
            f"The right answer to '{task.words}' turns on the token that is exchanged, and the model's does not move "
            "in its last bit: what is read there is not used"
        ), ["silent"]  # fmt: skip
    if low(e.margin) <= 0 or e.every is None or e.token is None:
        because = f"Use cannot be decided: the model does not {task.words} (margin {_span(e.margin)})"
        return "undecided", because, ["margin"]
    if not e.powerful:
        token = f"exchanging the token itself moves {_span(e.token)}"
        pairs = "minimal pairs" if e.paired else "donors"
        why = token if e.aims else f"the {pairs} do not change the tokens that are read there"
        return "undecided", (
            f"Use cannot be decided: exchanging the values of these edges in all heads moves {_span(e.every)} of the "
            f"margin, less than {t.POWER:g}, and {why}"
        ), ["every_head", "token" if e.aims else "aimed"]  # fmt: skip
    if e.total is None or e.raw is None or e.direct is None or e.fill is None:
        raise AssertionError("effects are measured wherever there is power")
    moved = f"exchanging what {heads} reads there moves {_span(e.total)} of the margin towards the other answer"
    if e.used_whole:
        because = f"To {task.words} the model uses it: {moved}, net of a sham of the same size"
        return "used", because, ["effect", "raw", "mean_fill"]
    if low(e.direct) >= t.USED and e.direct_fill is not None and (e.direct_fill.value or 0.0) > 0:
        return "used", (
            f"To {task.words} the model uses it, and what comes later makes up for a part: {moved}, and "
            f"{_span(e.direct)} with later patterns and the scales of norms frozen"
        ), ["direct", "direct_fill"]  # fmt: skip
    if low(e.total) >= t.USED:
        but, rests = f"filling in the mean there moves {_span(e.fill)}: not the same way", "mean_fill"
        if low(e.raw) < t.USED:
            but, rests = f"{_span(e.raw)} with what a sham of the same size moves", "raw"
        return "undecided", f"Use cannot be decided: {moved}, but {but}", [rests]
    held = e.held_with_partners
    if e.with_partners is not None and low(e.with_partners) >= t.USED and (held is None or low(held) >= t.USED):
        return "redundant", (
            f"To {task.words} the model can do without it, but not without it and {heads_text(e.partners)}: {moved}, "
            f"and {_span(e.with_partners)} once the others are ablated"
        ), ["with_partners", "held_with_partners"]  # fmt: skip
    alone = bool(e.nothing & {"total", "raw"})
    others = e.with_partners is None or bool(e.nothing & {"with_partners", "raw_with_partners"})
    if alone and others and high(e.direct) < t.USED and e.in_company is not None and "in_company" not in e.nothing:
        return "undecided", (
            f"Use cannot be decided: {moved}, but {_span(e.in_company)} while {heads_text(e.company)} give what they "
            "give for the donor: it may be one of many that say the same"
        ), ["in_company"]  # fmt: skip
    if alone and others and high(e.direct) < t.USED:
        if low(e.fill) >= t.USED:
            return "undecided", (
                f"Use cannot be decided: {moved}, but filling in the mean costs {_span(e.fill)}: what it reads there "
                "matters by something other than what the minimal pairs change"
            ), ["mean_fill"]  # fmt: skip
        also = f", nor with {heads_text(e.partners)} ablated" if e.partners else ""
        because = f"The model does not use it to {task.words}: {moved}{also}, less than {t.UNUSED:g}"
        return "unused", because, _nothing(e)
    because = f"Use cannot be decided: {moved}, neither {t.USED:g} for sure nor below {t.UNUSED:g}"
    open_ones = {"effect": not alone, "with_partners": not others, "direct": high(e.direct) >= t.USED}
    return "undecided", because, [name for name, there in open_ones.items() if there]


def _nothing(e: Effects) -> list[str]:
    """The rows that show no effect: alone, with partners, in company; net of the sham where that is no effect too."""
    shown = ["effect" if "total" in e.nothing else "raw", "direct"]
    if e.with_partners is not None:
        shown.append("with_partners" if "with_partners" in e.nothing else "raw_with_partners")
    return shown if e.in_company is None else [*shown, "in_company"]


def _span(estimate: Estimate) -> str:
    """ "0.97 [0.96, 0.98]"."""
    return written(estimate, 2, n=True)
