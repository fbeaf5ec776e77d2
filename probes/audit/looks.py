"""An audit's looks at its inputs: one at all of them; or a part of them first, and all only for what that leaves open.

Each look spends its share of the error level (`SPENT`), on intervals and on p-values alike. So the intervals of both
looks cover together, for all claims at once, with probability 1 - `ALPHA`: the union bound, whatever the looks have in
common, and whichever claims go on. Those that do are still held to the level of all that were asked.

The first look has the same halves as the whole: what chooses there never decides later.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probes.audit import thresholds as t
from probes.audit.inputs import Ints
from probes.audit.kinds import by_kind
from probes.audit.labels import Labels, LaidOut
from probes.audit.model import Chosen, Nulls, Outcome, Setting, Subject, audit_model, layers_of
from probes.audit.pattern import Laid
from probes.audit.pattern_rules import least_score
from probes.audit.rivals import thin
from probes.audit.rows import Finding, deciding
from probes.audit.stats import spent
from probes.audit.tails import Tails
from probes.audit.tasks import NoTask, Task
from probes.claims import Claim

Pair = tuple[Outcome, Outcome]  # of the best candidate, and of the named heads
# Rules that no interval stands behind: nothing moved in any item. So few items as a first look has show too little.
UNMEASURED = ("still", "silent", "silent_unpaired")


@dataclass(frozen=True)
class Part:
    """The inputs of one look. `rows` [input]: which of all they are (None: all); `share` of the error level it spends.

    `last`: what is open here stays open.
    """

    laid: Laid
    rows: Ints | None = None
    share: float = 1.0
    last: bool = True


def parts_of(laid: Laid, seed: int, early: bool) -> tuple[Part, ...]:
    """All inputs; or first a drawn part of them, where there are enough for one."""
    count = len(laid.inputs.tokens)
    if not early or count < t.LEAST_EARLY:
        return (Part(laid),)
    rows = laid.inputs.draw(max(t.FIRST_INPUTS, int(t.FIRST_LOOK * count)), seed)
    return Part(Laid(laid.inputs.part(rows)), rows, t.SPENT[0], last=False), Part(laid, None, t.SPENT[1])


def tasks_of(
    about: "dict[Claim, Task | NoTask] | LaidOut | None", asked: Sequence[Claim], part: Part
) -> "dict[Claim, Task | NoTask]":
    """The task of each claim on some of the inputs: its own, or to tell their labels."""
    if isinstance(about, dict):
        return about
    assert about is not None
    labels = about if part.rows is None else about.part(part.rows)
    seen = part.laid.inputs.visible[np.arange(len(labels.tokens)), labels.read]
    return dict.fromkeys(asked, Labels(labels, seen))


@dataclass(frozen=True)
class Plan:
    """What is asked of all models: claims, on the parts of the inputs, one look after the other.

    `about`: what use is asked about, claim by claim, or inputs whose labels are; `untrained` makes the null models.
    """

    asked: list[Claim]
    parts: tuple[Part, ...]
    about: "dict[Claim, Task | NoTask] | LaidOut | None"
    untrained: Callable[[], Iterable[Any]]
    seed: int
    tails: Tails

    @property
    def looks(self) -> tuple[int, ...]:
        """The inputs of each look."""
        return tuple(len(part.laid.inputs.tokens) for part in self.parts)

    def tasks(self, part: Part) -> "dict[Claim, Task | NoTask]":
        """The task of each claim on these inputs."""
        return tasks_of(self.about, self.asked, part)

    def level(self, share: float = 1.0) -> float:
        """Of intervals, by the number of claims. A question with several kinds of minimal pair asks several times, and
        one kind is enough for `used`: it counts so often.
        """
        return spent(share, sum(len(by_kind(task)) for task in self.tasks(self.parts[-1]).values()))

    @property
    def level_of_seeds(self) -> float:
        """Of shares of seeds: each claim counts once, since a seed has one verdict however it is asked."""
        return spent(1.0, len(self.asked))

    def run(self, models: Sequence[Any], choose: bool, tick: Callable[[], None]) -> list[list[Pair]]:
        """By model and claim, what the look found that decided it, or the last one. `choose`: heads, in each model."""
        found: list[dict[Claim, Pair]] = [{} for _ in models]
        left = [self.asked for _ in models]
        for part in self.parts:
            now = [claim for claim in self.asked if any(claim in mine for mine in left) and self._can(part, claim)]
            if not now:
                continue
            setting = self._setting(part, now)
            for at, model in enumerate(models):
                claims = [claim for claim in now if claim in left[at]]
                if not claims:
                    continue
                past = {claim: best.tried for claim, (best, _) in found[at].items()}
                gone = sum(past.get(claim, _most(claim, choose)) for claim in self.asked if claim not in claims)
                said = one_model(model, claims, replace(setting, decided=gone), choose)
                found[at] |= said
                done = [claim for claim, (best, _) in said.items() if part.last or _clear(best)]
                left[at] = [claim for claim in left[at] if claim not in done]
                for _ in done:
                    tick()
        return [[of_model[claim] for claim in self.asked] for of_model in found]

    def _can(self, part: Part, claim: Claim) -> bool:
        """Whether this look can decide a claim: no rival is beyond it that all inputs could tell from the claim."""
        times = self.looks[-1] / len(part.laid.inputs.tokens)
        return part.last or not thin(part.laid, part.laid.asked(claim), times)

    def _setting(self, part: Part, claims: list[Claim]) -> Setting:
        """What all models share at a look at which these claims are open."""
        tasks = self.tasks(part)
        nulls = Nulls(part.laid, self.untrained(), claims)
        level, number = self.level(part.share), len(self.asked)
        return Setting(part.laid, nulls, lambda claim: tasks[claim], level, number, self.seed, self.tails, part.share)


def _clear(outcome: Outcome) -> bool:
    """Whether a look that is not the last decides.

    Heads together are used unless one of them is proven idle, for which so few inputs never do.
    """
    together = len(outcome.heads) > 1 and outcome.use.word in ("used", "redundant")
    return outcome.verdict != "undecided" and not together and outcome.use.rule not in UNMEASURED


def _most(claim: Claim, choose: bool) -> int:
    """The most hypotheses that a claim can make: one for each candidate."""
    return 1 if claim.heads and not choose else t.MOST_FITTING + 1


def one_model(model: Any, claims: list[Claim], setting: Setting, choose: bool) -> dict[Claim, Pair]:
    """Outcome of the best candidate, and of the named heads, by claim; the same twice if none is chosen."""
    subject = Subject(model, setting.laid, upto=layers_of(claims))
    options: dict[Claim, Chosen] = {}
    for claim in claims:
        named = claim.heads
        options[claim] = Chosen([named])
        if choose or not named:
            layers = sorted({layer for layer, _ in named}) if named else None
            found = subject.choose(setting.laid.asked(claim), max(1, len(named)), layers)
            # Heads of several layers: the best of one layer cannot stand for both.
            if not named or sorted(layer for layer, _ in found.heads[0]) == sorted(layer for layer, _ in named):
                options[claim] = found
    tried = {claim: [one for one in dict.fromkeys((*options[claim].heads, claim.heads)) if one] for claim in claims}
    pairs = [(claim, heads) for claim in claims for heads in tried[claim]]
    most = max(len(chosen.heads) for chosen in options.values())
    # One of several candidates is enough, so each is held to a stricter level.
    strict = replace(setting, level=1 - (1 - setting.level) / most, number=setting.number * most)
    outcomes = dict(zip(pairs, audit_model(model, pairs, strict, subject), strict=True))
    out = {}
    for claim in claims:
        best = min((outcomes[claim, heads] for heads in options[claim].heads), key=_rank)
        best = replace(best, tried=len(tried[claim]))
        out[claim] = with_left(best, claim, options[claim].left), outcomes.get((claim, claim.heads), best)
    return out


def with_left(best: Outcome, claim: Claim, left: int) -> Outcome:
    """What the best candidate says; nothing against the claim where `left` heads that may be meant were not audited."""
    if not left or best.verdict not in ("refuted", "misleading"):
        return best
    more = (
        f"{left} more head{'s' * (left > 1)}, beyond the {t.MOST_FITTING} that were audited, "
        f"score{'s' * (left == 1)} at least {least_score(claim):g} on the other half: this claim may be true of one."
    )

    def said(finding: Finding, opens: bool) -> Finding:
        rows = tuple(replace(row, decides=False) for row in finding.evidence)
        if not opens:
            return replace(finding, evidence=rows)
        rows = tuple(replace(row, finding=row.finding and "undecided") for row in rows)
        return Finding("undecided", f"{finding.because} {more}", rows, "heads_left")

    refuted = best.verdict == "refuted"
    pattern, use = said(best.pattern, refuted), said(best.use, not refuted)
    pattern, use = deciding(pattern, use, "undecided", claim.uses is not None)
    return replace(best, pattern=pattern, use=use, verdict="undecided")


def _rank(outcome: Outcome) -> tuple[int, int]:
    """Which of the candidates for "some head" decides: one is enough, best one that is used; open ones leave it so."""
    verdict = ("supported", "undecided", "misleading", "refuted").index(outcome.verdict)
    return verdict, ("used", "redundant", "undecided", "not asked", "unused").index(outcome.use.word)
