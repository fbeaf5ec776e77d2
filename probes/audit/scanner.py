"""Every head against every relation: scores of all pairs, then the rules of the audit on the best of each head.

An audit of each pair would look for use and rivals some hundred times where the score alone says no. So a scan
measures score, largest weight and null of every pair (corrected for all of them), applies the rules on patterns to the
best relation of each kind, and asks of every head once whether it matters at all (`probes.audit.whole`). "The token n
before" and "position p" are families without end: as among rivals, each head is tried on the one that fits best in
half A.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import not_read, true_or_false
from interp.errors import RequestError, quoted
from interp.guests import hosting
from interp.stats import CONFIDENCE
from probes.audit import thresholds as t
from probes.audit.analyzer import MOST_CLAIMS, Prepared, asked_of, audit_claims, prepared, progress_of
from probes.audit.decide import decide_pattern
from probes.audit.fits import COLUMNS, Fit, LayerShare, ScannedHead, column_of
from probes.audit.kinds import by_kind
from probes.audit.model import Nulls, Setting, Subject, corrected_p, look_at, tail_of_head
from probes.audit.pattern import Asked, Head, Laid, Look
from probes.audit.pattern_rules import least_score
from probes.audit.population_rules import binomial
from probes.audit.rivals import rivals_of
from probes.audit.scan import ScanResult
from probes.audit.stats import high
from probes.audit.tasks import NoTask
from probes.audit.whole import whole_interchange
from probes.claims import NAMED, Claim, Own, Relation, has_keys, offset, position, same_relation
from probes.core import recorded

HeadAt = tuple[int, int]


@recorded
def scan_heads(
    model: Any, relations: Sequence[Relation | str] | None = None, inputs: Any = None, **how: Any
) -> ScanResult:
    """Hold every head against every relation (default: all built-in ones that have keys in the inputs).

    Relations by name, words or as `Relation`, each once; other arguments as for `audit_claims`. Of one model: the
    best relation of each kind of every head, with the word of the audit's rules, and whether the head matters.
    Of several, where the numbering of heads means nothing: in which share of seeds the best head of a layer (chosen
    on half A) has a relation. Scores are corrected for all heads x relations (p-values by Holm), effects for all heads
    x kinds of minimal pair, shares of seeds for all layers x relations (x 2 where use is told; a distance or position
    also for all others). Of a model of more than 64 heads those 64 are exchanged that slopes put first.
    Raises `RequestError` or `AnalysisError` as `audit_claims` does.
    """
    given = signature(audit_claims).bind(model, [], inputs, **how)  # a wrong keyword is Python's own error
    given.apply_defaults()
    rest = {name: value for name, value in given.arguments.items() if name not in ("model", "claims", "inputs")}
    own = {name: rest.pop(name) for name in ("relations", "conditions", "questions")}
    not_read("a scan reads no sentences", **{name: value or None for name, value in own.items()})
    not_read("a scan looks at all inputs at once", early=true_or_false("early", rest.pop("early")) or None)
    return _scan(model, relations, inputs, **rest)


# -- inside -------------------------------------------------------------------------------------------------


@hosting("audit")
def _scan(
    model: Any, relations: Sequence[Relation | str] | None, inputs: Any, *, progress: bool, **how: Any
) -> ScanResult:
    progress = true_or_false("progress", progress)
    ready = prepared(model, partial(_claims, relations), inputs, **how)
    scan = _Scan(ready, families=relations is None)
    with progress_of(len(ready.models) * len(scan.heads), progress, "scan", "heads") as tick:
        found = [scan.of_model(view, at, tick) for at, view in zip(ready.seeds, ready.views(), strict=True)]
    several = len(ready.models) > 1
    return ScanResult(
        fits=tuple(fit for fits, _ in found for fit in fits),
        heads=tuple(head for _, heads in found for head in heads),
        layers=tuple(scan.layers(found)) if several else (),
        task=None if isinstance(scan.task, NoTask) else scan.task.words,
        no_task=scan.task.reason if isinstance(scan.task, NoTask) else "",
        level=scan.setting.level,
        effect_level=scan.effect_level,
        share_level=scan.share_level if several else None,
        num_heads=len(scan.heads),
        num_relations=scan.count,
        num_models=len(ready.models),
        num_inputs=len(ready.laid.inputs.tokens),
        seed=ready.seed,
        task_check=ready.checked,
        drawn=ready.drawn,
    )


def _claims(relations: Sequence[Relation | str] | None, model: Any, grammar: Any) -> list[Claim]:
    """A claim for every relation, of whichever head; refused where they would be too many for all heads."""
    if relations is None:
        chosen: list[Relation | str] = [r for r in NAMED.values() if has_keys(r, grammar)]
    elif not isinstance(relations, Iterable) or isinstance(relations, (str, bytes)):
        raise RequestError(f"relations={quoted(relations)} is not a list of relations or their words")
    elif not (chosen := list(relations)):
        raise RequestError("relations=[] names none: leave it out to try all that are built in")
    heads = model.cfg.n_layers * model.cfg.n_heads
    if heads * len(chosen) > MOST_CLAIMS:
        raise RequestError(
            f"{heads} heads and {len(chosen):,} relations make more than {MOST_CLAIMS:,} claims, the most that "
            "one audit corrects for: give fewer relations"
        )
    return asked_of([Claim([(0, 0)], relation) for relation in chosen], Own(), model, grammar)


class _Scan:
    """One scan: relations and what all models share.

    `heads`; `relations`, those that have keys here; `count` of relations a head is held against, each family as one.
    """

    def __init__(self, ready: Prepared, families: bool):
        cfg, self.laid, self.ready = ready.models[0].cfg, ready.laid, ready
        self.heads = [(layer, head) for layer in range(cfg.n_layers) for head in range(cfg.n_heads)]
        claims = list(ready.tasks)
        self.task = ready.tasks[claims[0]]
        if families:  # a causal model cannot see what lies ahead, nor these inputs hold every token
            claims = [claim for claim in claims if self.laid.asked(claim).rows.any()]
            if not claims:
                raise RequestError(
                    "scan: no relation applies to these inputs: each token sees itself alone, so that no head has a "
                    "choice; give longer inputs"
                )
        self.relations = [claim.relation for claim in claims]
        self.families = _families(self.laid, self.relations) if families else []
        self.count = len(self.relations) + len(self.families)
        effects = 0 if isinstance(self.task, NoTask) else len(self.heads) * len(by_kind(self.task))
        self.effect_level = _level(effects) if effects else None
        every = [*self.relations, *(one.relation for family in self.families for one in family)]
        several = len(ready.models) > 1
        nulls = Nulls(self.laid, ready.untrained(), [Claim([], r) for r in every]) if several else None
        pairs = len(self.heads) * self.count
        self.setting = Setting(
            self.laid, nulls or Nulls(self.laid, (), []), lambda claim: self.task, _level(pairs), pairs, ready.seed,
            ready.tails,
        )  # fmt: skip
        self.shares = cfg.n_layers * self.count * (1 if self.effect_level is None else 2)
        self.share_level = _level(self.shares)
        self._members = {one.relation: len(family) for family in self.families for one in family}
        self._apart: dict[tuple[str, str], int] = {}

    def of_model(self, model: Any, seed: int, tick: Callable[[], None]) -> tuple[list[Fit], list[ScannedHead]]:
        """All fits of one model, and of each head the best ones and whether it matters."""
        subject, several = Subject(model, self.laid), len(self.ready.models) > 1
        tried = {head: [*self.relations, *self._of_families(subject.heads[head])] for head in self.heads}
        looks: dict[tuple[HeadAt, Relation], Look] = {}
        for at in self.heads:
            for relation in tried[at]:
                looks[at, relation] = subject.heads[at].look(self._asked(relation), self.setting.level)
            tick()
        p_values = dict(zip(looks, corrected_p([[look] for look in looks.values()], self.setting), strict=True))
        fits = {}
        for (at, relation), look in looks.items():
            asked = self._asked(relation)
            rows = int(asked.rows[self.laid.inputs.half_b].sum())
            fits[at, relation] = Fit(
                seed, *at, relation.name, relation.words, column_of(relation), rows, look.score, look.top1,
                p_values[at, relation],
            )  # fmt: skip
        best = {(at, kind): self._best(at, kind, tried[at], fits) for at in self.heads for kind in COLUMNS}
        if several:
            wanted = self._best_of_layers(subject, tried)
            chosen = [pair for pair in wanted if _may_hold(looks[pair], pair[1])]
        else:
            wanted = chosen = [(at, relation) for (at, _), relation in best.items() if relation is not None]
        for at, relation in wanted:
            fits[at, relation] = replace(fits[at, relation], best_of_layer=several)
        for at, relation in set(wanted) - set(chosen):
            if _somewhere(looks[at, relation]):
                fits[at, relation] = self._hinted(fits[at, relation], subject, at, relation)
        setting = self._with_nulls([relation for _, relation in chosen])
        for at, relation in chosen:
            fits[at, relation] = self._decided(fits[at, relation], subject, at, relation, setting)
        matters = whole_interchange(
            model, self.heads, self.laid.inputs, self.task, self.effect_level or CONFIDENCE, self.setting.seed
        )
        heads = []
        for at in self.heads:
            mass, even = (fits[at, r] if (r := best[at, kind]) is not None else None for kind in COLUMNS)
            second = self._second(at, best[at, "mass"], tried[at], fits)
            heads.append(ScannedHead(seed, *at, mass, second, even, matters.get(at)))
        return list(fits.values()), heads

    def layers(self, found: Sequence[tuple[list[Fit], list[ScannedHead]]]) -> list[LayerShare]:
        """In how many seeds the best head of a layer has a relation; of those that any seed has, most seeds first."""
        held: dict[tuple[int, str], list[tuple[Fit, bool]]] = {}
        for fits, heads in found:
            moved = {(one.layer, one.head): one.matters for one in heads}
            for fit in fits:
                if fit.best_of_layer and fit.pattern == "holds":
                    matters = moved[fit.layer, fit.head]
                    is_used = matters is not None and matters.word == "used"
                    held.setdefault((fit.layer, fit.relation), []).append((fit, is_used))
        out = []
        for (layer, name), seeds in held.items():
            level = self._level_of(name)
            share = binomial(len(seeds), len(found), level)
            used = binomial(sum(is_used for _, is_used in seeds), len(found), level) if self.effect_level else None
            out.append(LayerShare(layer, name, seeds[0][0].words, seeds[0][0].kind, share, used, level))
        return sorted(out, key=lambda one: (one.layer, one.kind != "mass", -(one.share.value or 0.0)))

    def _level_of(self, name: str) -> float:
        """Of one relation's shares: a family has the part of one relation, and its members share that."""
        return _level(self.shares * next((size for one, size in self._members.items() if one.name == name), 1))

    # -- one model ----------------------------------------------------------------------------------

    def _asked(self, relation: Relation) -> Asked:
        return self.laid.asked(Claim([(0, 0)], relation))

    def _of_families(self, head: Head) -> list[Relation]:
        """Of each family the relation that fits this head best in half A."""
        return [max(family, key=lambda one: one.on_a(head)).relation for family in self.families]

    def _best(
        self, at: HeadAt, kind: str, tried: Sequence[Relation], fits: dict[tuple[HeadAt, Relation], Fit]
    ) -> Relation | None:
        """The relation of a kind with the highest score; of those within it that score about as high, the narrowest.

        All weight on one key is all weight on any set that holds it, too.
        """
        ranked = self._ranked(at, kind, tried, fits)
        if not ranked:
            return None
        first = ranked[0]
        least = (fits[at, first].score.value or 0.0) - t.LEAD
        near = [r for r in ranked[1:] if (fits[at, r].score.value or 0.0) >= least and kind == "mass"]
        inside = [r for r in near if self._within(r, first)]
        return min((first, *inside), key=self._size)

    def _second(
        self, at: HeadAt, first: Relation | None, tried: Sequence[Relation],
        fits: dict[tuple[HeadAt, Relation], Fit],
    ) -> Fit | None:  # fmt: skip
        """The next relation of mass that names other keys than the best: neither set holds the other."""
        ranked = [] if first is None else self._ranked(at, "mass", tried, fits)
        return next((fits[at, r] for r in ranked if r != first and self._rows_apart(r, first) >= t.MIN_DIFFERENT), None)

    def _ranked(
        self, at: HeadAt, kind: str, tried: Sequence[Relation], fits: dict[tuple[HeadAt, Relation], Fit]
    ) -> list[Relation]:
        """Relations of a kind by score; those that apply to enough rows to be decided come first."""

        def rank(relation: Relation) -> tuple[bool, bool, float]:
            value, rows = fits[at, relation].score.value, fits[at, relation].rows
            return value is None, rows < t.MIN_ROWS, -(value or 0.0)

        return sorted((r for r in tried if column_of(r) == kind), key=rank)

    def _rows_apart(self, one: Relation, other: Relation | None) -> int:
        """Rows of half B in which each of the two names a key that the other does not."""
        assert other is not None
        key = (min(one.name, other.name), max(one.name, other.name))
        if key not in self._apart:
            a, b = (self._asked(r).keys[self.laid.inputs.half_b] for r in (one, other))
            self._apart[key] = int(((a & ~b).any(-1) & (b & ~a).any(-1)).sum())
        return self._apart[key]

    def _within(self, one: Relation, other: Relation) -> bool:
        """Whether `one` describes the same more narrowly, in half of the rows at least."""
        rows = [self._asked(r).rows[self.laid.inputs.half_b].sum() for r in (one, other)]
        return self._rows_apart(one, other) < t.MIN_DIFFERENT and 2 * rows[0] >= rows[1]

    def _size(self, relation: Relation) -> float:
        """How many keys it names where it names any."""
        asked = self._asked(relation)
        return float(asked.keys.sum() / max(asked.rows.sum(), 1))

    def _best_of_layers(self, subject: Subject, tried: dict[HeadAt, list[Relation]]) -> list[tuple[HeadAt, Relation]]:
        """Of each layer and relation the head that fits best in half A; of a family, the member with it."""
        out = []
        for layer in sorted({layer for layer, _ in self.heads}):
            mine = [head for head in self.heads if head[0] == layer]
            for place in range(self.count):
                fit = {
                    at: subject.heads[at].score_on_a(self._asked(tried[at][place]))
                    for at in (mine if len(mine) > 1 else ())
                }
                at = max(fit, key=lambda head: fit[head]) if fit else mine[0]
                out.append((at, tried[at][place]))
        return out

    def _with_nulls(self, relations: Sequence[Relation]) -> Setting:
        """With untrained models' scores on these relations; of a population they were measured once for all."""
        if len(self.ready.models) > 1:
            return self.setting
        claims = [Claim([], relation) for relation in dict.fromkeys(relations)]
        return replace(self.setting, nulls=Nulls(self.laid, self.ready.untrained(), claims))

    def _decided(self, fit: Fit, subject: Subject, at: HeadAt, relation: Relation, setting: Setting) -> Fit:
        """With the word of the audit's rules on patterns."""
        asked, head = self._asked(relation), subject.heads[at]
        look, rivals = look_at(head, asked, setting), rivals_of(head, asked, setting.level)
        null = setting.nulls.highest(asked, [at])
        tail_of = partial(tail_of_head, subject, asked, setting)
        found = decide_pattern(asked, [(at, look, rivals)], fit.p_value, null, self.laid.inputs, tail_of)
        untrained = None if null is None else null.value
        when = "" if look.when is None or found.word == "holds" else look.when[0]
        return replace(fit, pattern=found.word, reason=found.because, untrained=untrained, when=when)

    def _hinted(self, fit: Fit, subject: Subject, at: HeadAt, relation: Relation) -> Fit:
        """With the condition that an audit would suggest."""
        look = look_at(subject.heads[at], self._asked(relation), self.setting)
        return fit if look.when is None else replace(fit, when=look.when[0])


def _level(together: int) -> float:
    """Of each of so many intervals that are to hold together."""
    return 1 - (1 - CONFIDENCE) / together


def _somewhere(look: Look) -> bool:
    """Whether the largest weight may be there in some rows and not in the others."""
    return look.top1 is not None and high(look.top1) > t.MIXED[0]


def _may_hold(look: Look, relation: Relation) -> bool:
    """Whether the score and the largest weight are not below what a claim asks for, for sure."""
    top = look.top1 is None or high(look.top1) >= t.TOP1
    return top and high(look.score) >= least_score(Claim([(0, 0)], relation))


@dataclass(frozen=True)
class _Member:
    """One relation of a family, which names one key in each row: `target` [query], in `rows` [input, query]."""

    relation: Relation
    target: NDArray[np.int64]
    rows: NDArray[np.bool_]

    def on_a(self, head: Head) -> float:
        """Mean score in half A, as `Head.score_on_a` has it."""
        half, places = head.laid.inputs.half_a, np.arange(len(self.target))
        rows = self.rows[half]
        chance = 1 / np.maximum(head.laid.inputs.visible[half].sum(-1), 2)
        scores = (head.weights[half[:, None], places, self.target] - chance) / (1 - chance)
        return float(scores[rows].mean()) if rows.any() else -1.0


def _families(laid: Laid, named: Sequence[Relation]) -> list[list[_Member]]:
    """Offsets and positions that apply to enough rows and have no name of their own."""
    visible, b = laid.inputs.visible, laid.inputs.half_b
    width = visible.shape[1]
    places = np.arange(width)
    out = []
    for family in (
        [(offset(step), places + step) for step in range(1 - width, width)],
        [(position(place), np.full(width, place)) for place in range(width)],
    ):
        members = []
        for relation, target in family:
            inside = np.clip(target, 0, width - 1)
            rows = (target == inside) & visible[:, places, inside] & (visible.sum(-1) > 1)
            enough = rows[b].sum() >= t.MIN_ROWS and rows[b].any(1).sum() >= t.MIN_SEQUENCES
            if enough and not any(same_relation(relation, other) for other in named):
                members.append(_Member(relation, inside, rows))
        out += [members] if members else []
    return out
