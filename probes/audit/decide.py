"""From measurements to words: evidence is laid before the tables of rules, and rows are marked that a finding rests on.

The rules are those of `probes.audit.pattern_rules`, `use_rules` and `verdicts`, the thresholds in
`probes.audit.thresholds`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Head
from probes.audit.effects import Effects
from probes.audit.inputs import Inputs
from probes.audit.pattern import Asked, Look
from probes.audit.pattern_rules import (
    ELIGIBILITY_RULES,
    IN_SOME,
    NOT_IN_SOME,
    PATTERN_RULES,
    PatternEvidence,
    pattern_evidence,
    pattern_phrases,
)
from probes.audit.rivals import Rival, Rivals
from probes.audit.rows import Evidence, Finding, bound, counted, items_row, resting, use_rows, with_value
from probes.audit.rules import Gather, Phrases, Rule, decide, first, joined, known
from probes.audit.stats import low
from probes.audit.tails import Tail
from probes.audit.tasks import Task
from probes.audit.use_rules import TOGETHER_RULES, USE_REMARKS, USE_RULES, Idle, Together, use_phrases
from probes.claims import heads_text

# -- the pattern --------------------------------------------------------------------------------------------


def decide_pattern(
    asked: Asked,
    looks: Sequence[tuple[Head, Look, Rivals]],
    p_value: float | None,
    untrained: Estimate | None,
    inputs: Inputs,
    tail_of: Callable[[Head], Tail | None] = lambda head: None,
) -> Finding:
    """Holds iff it holds of every head, fails iff it fails of one.

    `p_value`: Holm-corrected, of the matched null. `tail_of`: where a claim that holds of a head fails all the same.
    """
    rows = asked.rows[inputs.half_b]
    count, sequences = int(rows.sum()), int(rows.any(1).sum())
    seen = [
        pattern_evidence(asked.claim, look, rivals, count, sequences, p_value, untrained, len(asked.rows))
        for _, look, rivals in looks
    ]
    if rule := first(ELIGIBILITY_RULES, known(seen[0])):
        return _not_eligible(rule, seen[0])
    rules = [decide(PATTERN_RULES, known(evidence)) for evidence in seen]
    words = {rule.finding for rule in rules}
    word = "fails" if "fails" in words else "holds" if words == {"holds"} else "undecided"
    table, because = [_rows_there(count)], []
    for (head, look, _), evidence, rule in zip(looks, seen, rules, strict=True):
        if rule.finding == word == "holds":
            evidence = replace(evidence, tail=tail_of(head))
        of_head = _pattern_rows(look, evidence, untrained)
        if rule.finding == word:
            because.append(f"{heads_text([head])} {_of_pattern(rule, evidence)}")
            told = joined(PATTERN_RULES, rule, evidence)
            of_head = resting(word, of_head, [name for one in told for name in one.rows(evidence)])
        of_head = with_value(of_head)
        table += of_head if len(looks) == 1 else [_named(row, head) for row in of_head]
    decider = next(rule for rule in rules if rule.finding == word)
    return Finding(word, ". ".join(because) + ".", tuple(table), decider.name)


def _not_eligible(rule: Rule, evidence: PatternEvidence) -> Finding:
    """What keeps these inputs from deciding on the pattern, and the counts that say so."""
    over = "inputs where the relation applies"
    counts = [
        _rows_there(evidence.rows),
        counted("sequences", over, evidence.sequences, t.MIN_SEQUENCES, "inputs"),
    ]
    said = Phrases(evidence).say(rule.words)
    rows = resting(rule.finding, counts, rule.rows(evidence))
    return Finding(rule.finding, f"The pattern cannot be decided: {said}.", tuple(rows), rule.name)


def _rows_there(count: int) -> Evidence:
    return counted("rows", "rows where the relation applies", count, t.MIN_ROWS, "positions")


def _told_apart(alike: Rival) -> Evidence:
    words = f"rows that tell it from {alike.words}"
    return counted("different", words, alike.different, t.MIN_DIFFERENT, "positions")


def _of_pattern(rule: Rule, evidence: PatternEvidence) -> str:
    """Why the rule was found of one head; of doubts, all of them."""
    phrases = pattern_phrases(evidence)
    told = "; ".join(phrases.say(one.words) for one in joined(PATTERN_RULES, rule, evidence))
    return f"{phrases['said']}, but {told}" if rule.joins else told


def _named(row: Evidence, head: Head) -> Evidence:
    """A row of one head among several."""
    name = heads_text([head])
    return replace(row, name=f"{row.name} {name}", words=f"{name}: {row.words}")


def _pattern_rows(look: Look, e: PatternEvidence, untrained: Estimate | None) -> list[Evidence]:
    near, best = e.nearest, e.best
    # among all that is visible a uniform head is what an even claim says
    null = {"uniform": None if e.top1 is None else 0.0, "untrained": untrained.value if untrained else None}
    apart = e.alike
    rows = [] if apart is None else [_told_apart(apart)]
    rows += [bound("pattern", "score", "claim score", e.score.with_null(null), e.least)]
    if e.top1 is not None:
        rows.append(bound("pattern", "top1", "largest weight on it, sink apart", e.top1, t.TOP1))
    if e.within is not None:
        rows.append(bound("pattern", "within", "evenness among its keys", e.within, t.EVEN))
    if e.share is not None:
        share = Evidence("pattern", "share", "share of rows that fit", e.share, "not in", t.MIXED[1])
        rows.append(replace(share, met=True if NOT_IN_SOME(e) else False if IN_SOME(e) else None))
    if look.matched is not None:
        matched = Evidence("pattern", "matched", "above keys alike in class, distance",
                           look.matched.with_null({"p_value": e.p_value}), ">", 0.0)  # fmt: skip
        rows.append(replace(matched, met=True if e.p_value is not None and e.p_value <= t.ALPHA else None))
    if e.untrained is not None:
        above = True if low(e.score) > e.untrained else None
        words = "claim score, beside untrained models"
        rows.append(Evidence("pattern", "untrained", words, e.score, ">", e.untrained, above))
    if near is not None and near.lead is not None:
        rows.append(bound("pattern", "rival", f"fits better than {near.words}", near.lead, 0.0))
    if best is not None and best is not near and best.lead is not None:
        rows.append(bound("pattern", "better", f"fits better than {best.words}", best.lead, 0.0))
    if e.tail is not None:
        rows.append(Evidence("pattern", f"tail_{e.tail.what}", f"{e.tail.what} {e.tail.words}", e.tail.seen))
    return [
        *rows,
        Evidence("pattern", "without_sink", "weight on it, sink apart", look.without_sink),
        Evidence("pattern", "sink", "weight on the first token", look.on_sink),
        Evidence("pattern", "by_value", "weight on it, by size of the values", look.by_value),
    ]


# -- the use ------------------------------------------------------------------------------------------------


def decide_use(gather: Gather[Effects], task: Task, heads: str) -> Finding:
    """Used, redundant, unused, or undecided: the first of `USE_RULES` that holds says which.

    `gather` measures what the rules need; `heads`: the names of those that are claimed.
    """
    rule = decide(USE_RULES, gather)
    e = gather(rule.needs)
    because, table = use_phrases(e, task, heads).say(rule.words), _rows_of_use(rule, e, task)
    if rule.finding in ("used", "redundant"):
        idle = tuple(Idle(head, decide(USE_RULES, alone), alone) for head, alone in gather(frozenset({"idle"})).idle)
        unshown = gather(frozenset({"unshown"})).unshown
        if rule_of_all := first(TOGETHER_RULES, known(Together(idle, unshown))):
            rule = rule_of_all
            because, table = _with_idle(rule, e, idle, task) if idle else _with_unshown(rule, e, unshown)
    remarks = [use_phrases(e, task, heads).say(one.words) for one in USE_REMARKS if one.holds(e)]
    return Finding(rule.finding, "".join([because, *remarks, "."]), tuple(table), rule.name)


def _rows_of_use(rule: Rule, e: Effects, task: Task) -> list[Evidence]:
    """The numbers on use, or the count of items where they are too few for any number."""
    if "items" in rule.rests:
        return resting(rule.finding, [items_row(e.items, use_phrases(e, task, "")["needs"])], ["items"])
    return use_rows(e, rule.finding, rule.rows(e))


def _with_unshown(rule: Rule, e: Effects, unshown: Sequence[Head]) -> tuple[str, list[Evidence]]:
    """Why a claim about several heads is open while some of them are not shown to add to it."""
    because = Phrases(e, unshown=heads_text(unshown)).say(rule.words)
    return because, use_rows(e, rule.finding, rule.rows(e))


def _with_idle(rule: Rule, e: Effects, idle: Sequence[Idle], task: Task) -> tuple[str, list[Evidence]]:
    """Why a claim about several heads that holds without one of them is no more than that; the rows of all, and those
    of the idle one.
    """
    one = next((one for one in idle if one.finding == rule.finding == "unused"), idle[0])
    alone, name = one.effects(one.rule.needs), heads_text([one.head])
    said = use_phrases(alone, task, name).say(one.rule.words)
    because = Phrases(e, names=heads_text([each.head for each in idle]), alone=said).say(rule.words)
    rows = use_rows(alone, rule.finding, rule.rows(alone) or one.rule.rows(alone))
    of_one = [row for row in rows if row.finding]
    named = [replace(row, name=f"{row.name} {name}", words=f"{name} alone: {row.words}") for row in of_one]
    return because, [*use_rows(e), *named]
