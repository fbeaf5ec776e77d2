"""One model under audit: its patterns once, then every claim about it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from interp.claims.asking import rows_of
from interp.errors import AnalysisError
from interp.patterns import patterns_and_norms
from interp.stats import Estimate, holm
from probes.audit import thresholds as t
from probes.audit.decide import decide_pattern, decide_use
from probes.audit.edits import Head as HeadAt
from probes.audit.kinds import by_kind, enough, key_of, together
from probes.audit.pattern import Asked, Head, Laid, Look, fits_when
from probes.audit.pattern_rules import least_score
from probes.audit.rivals import Rivals, rivals_of
from probes.audit.rows import Finding, Verdict, deciding
from probes.audit.stats import Floats, held_to, high, low, sign_flips
from probes.audit.tails import Tail, Tails, worst_tail
from probes.audit.tasks import NoTask, Task
from probes.audit.use import Used
from probes.audit.verdicts import verdict_of
from probes.claims import Claim, heads_text, suggestions

NULL_MODELS = 4  # untrained models of the same config


@dataclass(frozen=True)
class Outcome:
    """What one model says to one claim. `level`: of its intervals; `num_inputs`: of the look that said so; `tried`:
    how many heads were, or sets of them.
    """

    heads: tuple[HeadAt, ...]
    pattern: Finding
    use: Finding
    verdict: Verdict
    level: float
    num_inputs: int = 0
    tried: int = 1


@dataclass(frozen=True)
class Chosen:
    """Who "some head" may be: sets of heads that are audited, and how many `left` fit as well and are not."""

    heads: list[tuple[HeadAt, ...]]
    left: int = 0


class Subject:
    """Patterns of the heads of one model on the inputs of an audit: of all layers, or of those below `upto`."""

    def __init__(self, model: Any, laid: Laid, *, values: bool = True, upto: int | None = None):
        self.model, self.laid, self.upto = model, laid, upto
        self._elsewhere: dict[str, Subject] | None = None
        tokens = torch.from_numpy(laid.inputs.tokens).to(model.cfg.device)
        layers = list(range(model.cfg.n_layers))[:upto]
        patterns, norms = patterns_and_norms(model, tokens, layers, norms=values)
        self.heads = {
            (layer, head): Head(laid, pattern[:, head], None if norms is None else norms[layer][:, :, head])
            for layer, pattern in enumerate(patterns)
            for head in range(pattern.shape[1])
        }

    def elsewhere(self, tails: Tails | None) -> "dict[str, Subject]":
        """The same model on inputs of other laws, run when it is first asked for."""
        if self._elsewhere is None:
            laid = {} if tails is None else tails.laid
            run = partial(Subject, self.model, values=False, upto=self.upto)
            self._elsewhere = {words: run(one) for words, one in laid.items()}
        return self._elsewhere

    def choose(self, asked: Asked, count: int, layers: Sequence[int] | None) -> Chosen:
        """Who "some head" (or `count` of them) of these layers (None: all) may be, by fit in half A.

        The best, and of single heads every other that fits at all, up to `SOME_HEADS`, and up to `MOST_FITTING` what
        scores as the claim asks for: the best looking need not be the one that is used.
        """
        options = [head for head in self.heads if layers is None or head[0] in layers]
        fit = {head: self.heads[head].score_on_a(asked) for head in options}
        ranked = sorted(options, key=lambda head: -fit[head])
        if count > 1:
            return Chosen([tuple(sorted(ranked[:count]))])
        least = [-math.inf, *[t.SCORE] * (t.SOME_HEADS - 1)]
        wanted = [*least, *[least_score(asked.claim)] * len(ranked)]
        fitting = [head for head, score in zip(ranked, wanted, strict=False) if fit[head] >= score]
        return Chosen([(head,) for head in fitting[: t.MOST_FITTING]], max(len(fitting) - t.MOST_FITTING, 0))

    def score(self, asked: Asked, head: HeadAt) -> float:
        """Mean score in half B."""
        rows = self.heads[head].score_rows(asked)[self.laid.inputs.half_b]
        return float(np.nanmean(rows)) if np.isfinite(rows).any() else -1.0


def layers_of(claims: Iterable[Claim]) -> int | None:
    """How many layers have to be run for the patterns of the heads that these claims name; None: all of them."""
    heads = [claim.heads for claim in claims]
    return 1 + max(layer for each in heads for layer, _ in each) if heads and all(heads) else None


class Nulls:
    """Untrained models of the same config, on the same inputs: what any head of theirs scores on each claim.

    `models` may be a generator: each model is scored and dropped before the next is made, so that the patterns of one
    are held at a time. `claims`: all that `highest` will be asked about.
    """

    def __init__(self, laid: Laid, models: Iterable[Any], claims: Sequence[Claim]):
        self.count, upto = 0, layers_of(claims)
        self._best: dict[Any, dict[HeadAt, float | None]] = {}  # over the models; None: in one there is no score
        for model in models:
            try:
                subject = Subject(model, laid, values=False, upto=upto)
            except AnalysisError:  # some configs give no finite pattern before training
                continue
            self.count += 1
            done: set[Any] = set()
            for claim in claims:
                self._add(subject, claim, done)
            del subject, model

    def _add(self, subject: Subject, claim: Claim, done: set[Any]) -> None:
        """Count in one model's heads, those of the claim's layers, unless `done` holds them."""
        asked = subject.laid.asked(claim)  # of all claims with this relation and condition, whatever the heads
        layers, key = {layer for layer, _ in claim.heads}, (claim.relation, claim.when)
        best = self._best.setdefault(key, {})
        for head in subject.heads:
            if (layers and head[0] not in layers) or (key, head) in done:
                continue
            done.add((key, head))
            try:
                score = subject.score(asked, head)
            except AnalysisError:
                best[head] = None
                continue
            other = best.get(head, score)
            best[head] = None if other is None else max(other, score)

    def highest(self, asked: Asked, heads: Sequence[HeadAt]) -> Estimate | None:
        """The best score that any head of these layers has on a claim: any of them might have been chosen."""
        layers = {layer for layer, _ in heads}
        best = self._best.get((asked.claim.relation, asked.claim.when), {})
        scores = [score for head, score in best.items() if head[0] in layers]
        known = [score for score in scores if score is not None]
        if not known or len(known) < len(scores):
            return None
        reason = f"the largest of {self.count} untrained models"
        return Estimate(max(known), None, None, self.count, "seeds", reason=reason)


@dataclass(frozen=True)
class Setting:
    """What all models of an audit share.

    `level` of intervals; `number` of claims audited together; `tails`: rarer inputs, where the audit draws its own.
    `share`: of the error level that this look at the inputs spends; `decided`: hypotheses of claims that an earlier
    look has decided, which still count in Holm's correction.
    """

    laid: Laid
    nulls: Nulls
    task: Callable[[Claim], Task | NoTask]
    level: float
    number: int
    seed: int
    tails: Tails | None = None
    share: float = 1.0
    decided: int = 0

    @property
    def draws(self) -> int:
        """Sign flips enough for the least p-value to pass Holm's correction ten times over; of a share, four times."""
        return max(1999, math.ceil(max(200, 80 / self.share) * self.number) - 1)


def audit_model(
    model: Any, asked: Sequence[tuple[Claim, tuple[HeadAt, ...]]], setting: Setting, subject: Subject
) -> list[Outcome]:
    """Every claim of one model, with the heads it is about."""
    inputs = setting.laid.inputs
    looks: list[tuple[Asked, list[tuple[HeadAt, Look, Rivals]]]] = []
    for claim, heads in asked:
        laid = setting.laid.asked(claim)
        each = [(head, subject.heads[head]) for head in heads]
        level = setting.level
        looks.append((laid, [(at, look_at(head, laid, setting), rivals_of(head, laid, level)) for at, head in each]))
    corrected = corrected_p([[look for _, look, _ in pairs] for _, pairs in looks], setting)
    users: dict[tuple[str, str], Used] = {}
    out = []
    for (claim, heads), (laid, pairs), p in zip(asked, looks, corrected, strict=True):
        tail_of = partial(tail_of_head, subject, laid, setting)
        pattern = decide_pattern(laid, pairs, p, setting.nulls.highest(laid, heads), inputs, tail_of)
        task = setting.task(claim)
        if isinstance(task, NoTask):
            use = Finding("not asked", task.reason, ())
        elif pattern.word == "holds" or claim.uses is not None:
            kinds = by_kind(task)
            for one in kinds:
                if key_of(one) not in users:
                    users[key_of(one)] = Used(model, inputs, one, setting.level, setting.seed)
            gathers = [users[key_of(one)].evidence(laid, heads) for one in kinds]
            kinds, gathers = enough(kinds, gathers)
            found = [decide_use(gather, one, heads_text(heads)) for one, gather in zip(kinds, gathers, strict=True)]
            use = together(kinds, found)
        else:
            use = Finding("not asked", "Use is not asked, since the pattern is not shown to hold.", ())
        verdict = verdict_of(pattern.word, use.word, claim)
        pattern, use = deciding(pattern, use, verdict, claim.uses is not None)
        out.append(Outcome(heads, pattern, use, verdict, setting.level, len(inputs.tokens)))
    return out


def tail_of_head(subject: Subject, asked: Asked, setting: Setting, at: HeadAt) -> Tail | None:
    """Where a claim that holds of a head fails all the same."""
    others = {}
    for words, other in subject.elsewhere(setting.tails).items():
        others[words] = other.heads[at], other.laid.asked(asked.claim)
    return worst_tail(subject.heads[at], asked, others, least_score(asked.claim), setting.level)


def look_at(head: Head, asked: Asked, setting: Setting) -> Look:
    """What is seen of a head, with a condition to suggest where the largest weight is on the relation in some rows."""
    look = head.look(asked, setting.level)
    failing = look.top1 is not None and low(look.top1) > t.MIXED[0] and high(look.top1) < t.TOP1
    if not failing or asked.claim.when is not None:  # a claim has one condition
        return look
    inputs = setting.laid.inputs
    found = []
    for condition in suggestions(inputs.grammar, inputs.tokens.shape[1]):
        share, count = fits_when(head, asked, rows_of(condition, inputs.tokens, inputs.grammar, asked.keys))
        if share >= t.MIXED[1]:
            found.append((share, count, condition))
    for share, count, condition in sorted(found, key=lambda one: -one[0]):
        if can_be_told(head, setting.laid.asked(replace(asked.claim, when=condition)), setting.level):
            return replace(look, when=(condition.words, share, count))
    return look


def can_be_told(head: Head, asked: Asked, level: float) -> bool:
    """Whether these inputs have enough rows for the claim, and tell it from every rival."""
    rows = asked.rows[head.laid.inputs.half_b]
    enough = rows.sum() >= t.MIN_ROWS and rows.any(1).sum() >= t.MIN_SEQUENCES
    return bool(enough) and all(r.different >= t.MIN_DIFFERENT for r in rivals_of(head, asked, level).rivals)


def corrected_p(looks: list[list[Look]], setting: Setting) -> list[float | None]:
    """Holm-corrected p-values of the matched null, None where there is none. Of several heads, the weakest counts."""
    columns: list[Floats] = [look.matched_rows for group in looks for look in group]
    if not columns:
        return []
    raw = sign_flips(np.stack(columns, axis=1), setting.draws, setting.seed).tolist()
    values = [max(raw.pop(0) for _ in group) if group else 1.0 for group in looks]
    tested = [any(look.matched is not None for look in group) for group in looks]
    some = holm([p for p, there in zip(values, tested, strict=True) if there] + [1.0] * setting.decided).tolist()
    return [held_to(setting.share, some.pop(0)) if there else None for there in tested]
