"""The rules on the pattern: whether these inputs can decide, and what one head shows."""

import math
from dataclasses import dataclass

from interp.numbers import number, percent
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.conditions import ALWAYS, Bound, Given, Is, Not, Some, all_of, any_of
from probes.audit.pattern import Look
from probes.audit.rivals import Rival, Rivals, best_told, worst
from probes.audit.rules import Phrases, Rule, span
from probes.audit.stats import high, low
from probes.audit.tails import Tail
from probes.claims import Claim

# -- conditions that several rules or rows of the table speak of

BEATS = all_of(Bound("lead.high", "<", -t.LEAD), Bound("lead_a", "<", 0.0))  # a rival, for sure and in both halves
IN_SOME = all_of(Bound("share.low", ">", t.MIXED[0]), Bound("share.high", "<", t.MIXED[1]))
NOT_IN_SOME = any_of(Bound("share.low", ">=", t.MIXED[1]), Bound("share.high", "<=", t.MIXED[0]))
_BEATEN_BY = (("rival", Is("best_is_nearest", True)), ("better", Is("best_is_nearest", False)))


@dataclass(frozen=True)
class PatternEvidence:
    """What is known of one head's pattern, over half B.

    - `rows`, `sequences`: rows to which the relation applies, and the inputs that they are in.
    - `score`, `top1`, `share`, `within`, `when`: as of `Look`; `rivals`, `same`: as of `Rivals`; `tail`: where it
      fails all the same.
    - `inputs`: how many there are, of both halves.
    - `apart`: whether the largest weight is looked for without the first token; `on_first`: the weight on it, where
      that is more than on the claimed keys.
    - `p_value`: Holm-corrected, of the matched null; `untrained`: the best score of untrained heads, for claims of
      kind `mass`. None where there is none.
    """

    claim: Claim
    rows: int
    sequences: int
    score: Estimate
    top1: Estimate | None
    share: Estimate | None
    rivals: tuple[Rival, ...]
    p_value: float | None
    untrained: float | None
    when: tuple[str, float, int] | None
    same: tuple[str, ...] = ()
    within: Estimate | None = None
    tail: Tail | None = None
    inputs: int = 0
    apart: bool = False
    on_first: Estimate | None = None

    @property
    def remedy(self) -> str:
        """How many inputs would have enough rows, if any here has one."""
        if not self.rows or not self.sequences:
            return ": none has one"
        wanted = self.inputs * max(t.MIN_ROWS / self.rows, t.MIN_SEQUENCES / self.sequences)
        unit = 10 ** (len(str(int(wanted))) - 1)
        return f": about {math.ceil(wanted / unit) * unit:,} inputs of this kind would do"

    @property
    def least(self) -> float:
        """The score that the claim asks for."""
        return least_score(self.claim)

    @property
    def nearest(self) -> Rival | None:
        """The rival that comes nearest."""
        return worst(self.rivals)

    @property
    def best(self) -> Rival | None:
        """The rival that fits better for sure, in both halves; of several the surest."""
        return best_told([(high(r.lead), r) for r in self.rivals if r.lead is not None and BEATS(r)])

    @property
    def alike(self) -> Rival | None:
        """The rival that fewest rows tell from the claim, if they are too few."""
        few = [rival for rival in self.rivals if rival.different < t.MIN_DIFFERENT]
        return min(few, key=lambda rival: rival.different, default=None)

    @property
    def narrower(self) -> Rival | None:
        """The narrower description that comes nearest to the claim, if any scores about as high."""
        return self._nested("narrower", t.LEAD)

    @property
    def wider(self) -> Rival | None:
        """The wider description that scores higher for sure; of several the one that leads most."""
        return self._nested("wider", -t.LEAD)

    def _nested(self, kind: str, least: float) -> Rival | None:
        found = [(high(r.beside), r) for r in self.rivals if r.nested == kind and r.beside is not None]
        return best_told([pair for pair in found if pair[0] < least])

    @property
    def best_is_nearest(self) -> bool | None:
        """Whether the rival that fits better is the nearest one; None without one."""
        return None if self.best is None else self.best is self.nearest


def least_score(claim: Claim) -> float:
    """The score that a claim asks for."""
    if claim.relation.kind == "even":
        return t.EVEN
    return t.MAINLY if claim.mainly else t.SCORE


def pattern_evidence(
    claim: Claim, look: Look, rivals: Rivals, rows: int, sequences: int, p_value: float | None,
    untrained: Estimate | None, inputs: int = 0,
) -> PatternEvidence:  # fmt: skip
    """The evidence on the head that was looked at."""
    null = untrained.value if untrained is not None and claim.relation.kind != "even" else None
    return PatternEvidence(
        claim,
        rows,
        sequences,
        look.score,
        look.top1,
        look.share,
        rivals.rivals,
        p_value,
        null,
        look.when,
        rivals.same,
        look.within,
        inputs=inputs,
        apart=look.apart,
        on_first=look.on_sink if look.rests else None,
    )


ELIGIBILITY_RULES = (
    Rule(
        "few_rows",
        any_of(Bound("rows", "<", t.MIN_ROWS), Bound("sequences", "<", t.MIN_SEQUENCES)),
        "undecided",
        "the relation applies to {rows} rows of the half that decides ({MIN_ROWS} are needed) and to {sequences} of "
        "its inputs ({MIN_SEQUENCES} are needed){remedy}",
        (("rows", Bound("rows", "<", t.MIN_ROWS)), ("sequences", Bound("sequences", "<", t.MIN_SEQUENCES))),
    ),
)

PATTERN_RULES = (
    Rule(
        "low_score",
        Bound("score.high", "<", "least"),
        "fails",
        "{said}, below {least}{uniform}{instead}",
        ("score", *_BEATEN_BY),
    ),
    Rule(
        "not_on_top",
        Bound("top1.high", "<", t.TOP1),
        "fails",
        "{said}, but looks there most{apart} in {top1} of the rows only, less than {TOP1}{instead}{hint}",
        ("top1", *_BEATEN_BY),
    ),
    Rule(
        "rival_fits_better",
        Some("rivals", BEATS),
        "fails",
        "{said}, but {best} fits better where the two differ",
        _BEATEN_BY,
    ),
    Rule(
        "uneven_within",
        Bound("within.high", "<", t.EVEN),
        "fails",
        "{said}, but is spread among those keys with an evenness of {within} only, less than {EVEN}",
        ("within",),
    ),
    Rule("in_some_rows", IN_SOME, "fails", "{said}, but fits in {share} of the rows only", ("share",)),
    # What fails does so under either name; what holds would be said of both.
    Rule(
        "not_told_apart",
        Some("rivals", Bound("different", "<", t.MIN_DIFFERENT)),
        "undecided",
        "{relation} cannot be told from {alike} on these inputs: they differ in {different} rows, and {MIN_DIFFERENT} "
        "are needed",
        ("different",),
        joins=True,
    ),
    Rule(
        "score_in_doubt",
        Bound("score.low", "<", "least"),
        "undecided",
        "the score may be below {least}",
        ("score",),
        joins=True,
    ),
    Rule(
        "top_in_doubt",
        Bound("top1.low", "<", t.TOP1),
        "undecided",
        "it may look there most{apart} in less than {TOP1} of the rows ({top1})",
        ("top1",),
        joins=True,
    ),
    Rule(
        "within_in_doubt",
        all_of(Given("within"), Not(Bound("within.low", ">=", t.EVEN))),
        "undecided",
        "it may be spread among those keys less evenly than {EVEN} ({within})",
        ("within",),
        joins=True,
    ),
    Rule(
        "share_in_doubt",
        all_of(Given("share"), Not(NOT_IN_SOME)),
        "undecided",
        "the share of rows that fit ({share}) may be that of a claim that is right at times",
        ("share",),
        joins=True,
    ),
    Rule(
        "keys_alike",
        Bound("p_value", ">", t.ALPHA),
        "undecided",
        "keys of the same class at the same distance get as much (p = {p})",
        ("matched",),
        joins=True,
    ),
    Rule(
        "untrained_as_good",
        Bound("score.low", "<=", "untrained"),
        "undecided",
        "untrained models of this shape score {null}",
        ("untrained",),
        joins=True,
    ),
    Rule(
        "rival_as_good",
        Some("rivals", Bound("lead.low", "<=", 0.0)),
        "undecided",
        "{close} may fit as well{nested}",
        ("rival",),
        joins=True,
    ),
    Rule(
        "pattern_holds",
        ALWAYS,
        "holds",
        "{said}{top}{lead}{nested}{tail}",
        ("score", "top1", "share", "within", "matched", "untrained", "rival"),
    ),
)


def pattern_phrases(e: PatternEvidence) -> Phrases:
    """What the words of the rules on one head speak of."""
    near, words = e.nearest, e.claim.relation.words
    lead = f"; the nearest rival, {near.words}, fits {span(near.lead)} worse" if near and near.lead else ""
    close = best_told([(low(r.lead), r) for r in e.rivals if r.lead is not None and low(r.lead) <= 0])
    apart = " (the first token apart)" if e.apart else ""
    return Phrases(
        e,
        said=f"scores {span(e.score)} on {words}{_same(e)}{_on_first(e)}",
        apart=apart,
        least=f"{e.least:g}",
        uniform="" if e.top1 is None else " (a uniform head scores 0)",
        instead=f"; {e.best.words} fits better" if e.best else "",
        best=e.best.words if e.best else "",
        hint=_hint(e),
        relation=words,
        alike=e.alike.words if e.alike else "",
        different=str(e.alike.different) if e.alike else "",
        p=number(e.p_value, None),
        null=number(e.untrained, 2),
        close=close.words if close else "",
        top="" if e.top1 is None else f" and looks there most{apart} in {span(e.top1)} of the rows",
        lead=lead,
        nested=_nested(e),
        tail="" if e.tail is None else _tail(e.tail, apart),
    )


def _hint(e: PatternEvidence) -> str:
    """A condition under which it would fit in nearly all rows."""
    if e.when is None:
        return ""
    words, share, count = e.when
    return f"; it would fit in {percent(share)} of those where {words} (n={count} rows of the other half)"


def _same(e: PatternEvidence) -> str:
    """Other names of the same keys; a few, since any offset is some position where the query is always at one place."""
    return f" (which are the same keys here as {' and '.join(e.same[:3])})" if e.same else ""


def _on_first(e: PatternEvidence) -> str:
    """How much rests on the first token, which the largest weight is told without."""
    return "" if e.on_first is None else f", with more weight, {span(e.on_first)}, on the first token"


def _nested(e: PatternEvidence) -> str:
    """Wider and narrower descriptions that do as well: they refute nothing, and may be what is meant."""
    told = (("narrower", e.narrower, "describes it more narrowly"), ("wider", e.wider, "describes more of it"))
    return "".join(f"; {rival.words} {what}" for _, rival, what in told if rival is not None)


def _tail(tail: Tail, apart: str) -> str:
    """Where it fails all the same."""
    what = "scores" if tail.what == "score" else f"looks there most{apart} in"
    of = "" if tail.what == "score" else " of the rows"
    return f"; but not {tail.words}, where it {what} {span(tail.seen)}{of} only"
