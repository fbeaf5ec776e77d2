"""The use of a head among other heads: which can stand in for it, and with which it would matter after all.

All searches are on a few items of half A, by what happens to the margin, never by how patterns look. What they find is
measured on all of half B: a search may miss a partner, but it cannot make one.

A partner stands in for the claimed heads. One whose loss, norms held, makes the model surer of the right answer works
against them: what they write, it takes away again, and to be taken away is no use. Such a head is no partner and no
company, unless it carries the answer where they are gone: then they stand in for it with a louder voice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, combinations

import numpy as np

from interp.rng import generator
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Edges, Head
from probes.audit.screen import screened
from probes.audit.side import Side
from probes.audit.stats import low

Swap = Callable[[Side], list[Edges]]  # the interchange of the claimed edges, on a side's items
SwapOf = Callable[[tuple[Head, ...]], list[Edges]]  # that of some of the claimed heads


def other_heads(side: Side, heads: Sequence[Head]) -> list[Head]:
    """All heads beside the claimed ones."""
    cfg = side.model.cfg
    return [(layer, h) for layer in range(cfg.n_layers) for h in range(cfg.n_heads) if (layer, h) not in heads]


def candidates(side: Side, swap: Swap, heads: Sequence[Head]) -> list[Head]:
    """The heads beside the claimed ones, at most `CANDIDATES`: beside whose ablation the interchange matters most.

    One that stands in for the claimed head may move nothing while that head is there. Of a model of up to `RANKED`
    heads each is tried; of more, slopes say which come first.
    """
    others = other_heads(side, heads)
    if len(others) <= t.CANDIDATES:
        return others
    few = searched(side)
    if few.margin.mean() <= 0:
        return others[: t.CANDIDATES]
    edges = swap(few)
    effect = _Effect(few, edges)
    gains = screened(few, edges, others) if has_many_heads(side) else {h: effect((h,)) for h in others}
    return sorted(others, key=lambda head: -gains[head])[: t.CANDIDATES]


def has_many_heads(side: Side) -> bool:
    """Whether the model has more heads than can each be tried."""
    return side.model.cfg.n_layers * side.model.cfg.n_heads > t.RANKED


def searched(side: Side) -> Side:
    """The items of a search: fewer where the heads are so many that a run of the model takes its time."""
    return side.part(t.FEW_ITEMS if has_many_heads(side) else t.SEARCH_ITEMS)


def find_partners(side: Side, swap: Swap, others: Sequence[Head], seed: int) -> tuple[Head, ...]:
    """The set of up to `PARTNERS` heads whose ablation makes the interchange matter most.

    Head by head while that gains anything; and where it comes to nothing, since two may have to go at once before
    anything moves, sets drawn at random too. Of very many heads, which are many runs of a large model: halves of the
    candidates, each of which holds two of them in 23 % of the draws, and of one that gains the heads that matter.
    """
    few, many = searched(side), has_many_heads(side)
    if not others or few.margin.mean() <= 0:
        return ()
    effect = _Effect(few, swap(few))
    chosen: tuple[Head, ...] = ()
    best = effect(()) if many else -np.inf
    for _ in range(min(t.PARTNERS, len(others))):
        sets = ((*chosen, h) for h in others if h not in chosen)
        pairs = sorted(((effect(one), one) for one in sets if _leaves_some(few, one)), reverse=True)
        better = (pair for pair in pairs if pair[0] >= best + t.GAIN)
        found = next((pair for pair in better if _none_against(effect, pair[1])), None)
        if found is None:
            break
        best, chosen = found
    if best >= t.USED or len(others) < 2:
        return _needed(effect, chosen)
    halves = _halves(few, others, seed) if many else []
    # Where most halves cost the whole margin, smaller sets are what can be tried.
    drawn = halves if len(halves) > t.FEW_SETS / 2 else _sets(_friends(effect, others), seed)
    for group in filter(partial(_leaves_some, few), drawn):
        if effect(group) < max(best, t.UNUSED) + t.GAIN:
            continue
        if many:  # of a half, the few that matter and are for the answer
            group = group if _none_against(effect, group) else tuple(_friends(effect, group))
            group = _at_most(effect, _needed(effect, group), t.PARTNERS)
        enough = effect(group) >= max(best, t.UNUSED) + t.GAIN and _leaves_some(few, group)
        if enough and _none_against(effect, group):
            best, chosen = effect(group), group
    return _needed(effect, chosen)


def find_company(side: Side, swap: Swap, others: Sequence[Head], seed: int) -> tuple[Head, ...]:
    """The set of other heads in whose company the interchange matters most: they give what the donor's run gives.

    One of many that say the same moves nothing alone, nor when a few are gone; with enough of the others on the
    donor's side, it does. Sets of all sizes are tried.
    """
    few = searched(side)
    if few.margin.mean() <= 0:
        return ()
    edges, rng = swap(few), generator(seed, "audit/company")
    friends = list(others) if has_many_heads(side) else _friends(_Effect(few, edges), others)
    if not friends:
        return ()
    sets = [tuple(friends)]
    for place in range(t.FEW_SETS if has_many_heads(side) else t.SEARCH_SETS):
        share = (0.25, 0.5, 0.75)[place % 3]
        sets.append(tuple(head for head in friends if rng.random() < share))
    sizes = [abs(float(company_change(few, edges, group).mean())) for group in sets]
    return sets[int(np.argmax(sizes))]


def company_change(side: Side, edges: list[Edges], group: Sequence[Head]) -> np.ndarray:
    """What the interchange takes off the margin [item] while these heads give the donor run's z."""
    given = {(layer, head): side.donor_cache.z[layer][:, :, head] for layer, head in group}
    rest = side.margin_of(side.edited([], ablated=given))
    return rest - side.margin_of(side.edited(edges, ablated=given))


def added(side: Side, swap_of: SwapOf, heads: Sequence[Head]) -> dict[Head, Estimate]:
    """What each of heads claimed together adds to the interchange: alone, or to all the others, whichever is more."""
    margin, every = _margins(side, swap_of), tuple(sorted(heads))
    out = {}
    for head in heads:
        rest = tuple(other for other in every if other != head)
        changes = (margin(()) - margin((head,)), margin(rest) - margin(every))
        out[head] = max((side.share(change) for change in changes), key=low)
    return out


def idle_heads(side: Side, swap_of: SwapOf, heads: Sequence[Head]) -> list[Head]:
    """Of heads claimed together, those that add nothing to any of the others: less than `UNUSED`, for sure."""
    margin = _margins(side, swap_of)
    out = []
    for head in heads:
        rest = [other for other in heads if other != head]
        sizes = range(len(rest) + 1) if len(rest) <= t.PARTNERS else (0, 1, len(rest))
        groups = chain.from_iterable(combinations(rest, size) for size in sizes)
        changes = (margin(group) - margin(tuple(sorted((*group, head)))) for group in groups)
        if all(side.nothing(side.share(change)) for change in changes):
            out.append(head)
    return out


# -- inside -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Effect:
    """Effect of an interchange, as a share of the intact margin, once a set of heads is mean-ablated."""

    side: Side
    edges: list[Edges]
    tried: dict[tuple[Head, ...], float] = field(default_factory=dict)

    @property
    def claimed(self) -> tuple[Head, ...]:
        """The heads in which it is made."""
        return tuple(dict.fromkeys((one.layer, head) for one in self.edges for head in one.heads))

    def carries(self, head: Head, rest: tuple[Head, ...]) -> bool:
        """Whether a head carries the right answer once the claimed ones, and `rest`, are gone: its loss, norms held,
        then costs some of it.
        """
        without = partial(self.side.without, held=True)
        lost = without((*rest, *self.claimed)) - without((*rest, head, *self.claimed))
        return float(lost.mean()) >= t.USED * float(self.side.margin.mean())

    def __call__(self, group: tuple[Head, ...]) -> float:
        key = tuple(sorted(group))
        if key not in self.tried:
            side = self.side
            rest = side.without(group) if group else side.margin
            done = side.edited(self.edges, ablated=side.fill(group))
            self.tried[key] = float((rest - side.margin_of(done)).mean()) / float(side.margin.mean())
        return self.tried[key]


def _margins(side: Side, swap_of: SwapOf) -> Callable[[tuple[Head, ...]], np.ndarray]:
    """Margins [item] once the interchange is made in some of the claimed heads; each set is run once."""

    @cache
    def margin(group: tuple[Head, ...]) -> np.ndarray:
        return side.margin_of(side.edited(swap_of(group))) if group else side.margin

    return margin


def _needed(effect: _Effect, group: tuple[Head, ...]) -> tuple[Head, ...]:
    """Of these heads those without which the interchange matters less; none where it matters as much by itself.

    A head that adds nothing is no partner: the claimed one is not what the model falls back on once it is gone.
    """
    for one in group:
        rest = tuple(head for head in group if head != one)
        if effect(group) < effect(rest) + t.GAIN:
            return _needed(effect, rest)
    return group


def _at_most(effect: _Effect, group: tuple[Head, ...], count: int) -> tuple[Head, ...]:
    """So many of these heads, the rest of which matters least."""
    while len(group) > count:
        without = (tuple(head for head in group if head != one) for one in group)
        group = max(without, key=effect)
    return group


def _leaves_some(side: Side, group: tuple[Head, ...]) -> bool:
    """Whether something is left of the margin once `group` is ablated: what the claimed heads could then carry."""
    return float(side.without(group).mean()) >= t.UNUSED * float(side.margin.mean())


def _none_against(effect: _Effect, group: tuple[Head, ...]) -> bool:
    """Whether no head of the set takes away what the others, or the claimed heads, write.

    The loss of one that does, norms held, makes the right answer surer beside the rest of the set. So does that of one
    which the claimed heads stand in for with a louder voice; but that one carries the answer where they are gone.
    """
    side = effect.side
    gone = float(side.without(group, held=True).mean())
    least = gone - t.UNUSED * float(side.margin.mean())
    for one in group:
        rest = tuple(head for head in group if head != one)
        left = float((side.without(rest, held=True) if rest else side.margin).mean())
        if left < least and not effect.carries(one, rest):
            return False
    return True


def _friends(effect: _Effect, others: Sequence[Head]) -> list[Head]:
    """Without the heads that work against the answer: see `_none_against`."""
    return [head for head in others if _none_against(effect, (head,))]


def _sets(others: Sequence[Head], seed: int) -> list[tuple[Head, ...]]:
    """Sets of `PARTNERS` heads (of fewer where there are no more): every one, or as many as are searched."""
    every = list(combinations(sorted(others), min(t.PARTNERS, len(others))))
    if 2 < len(others) <= t.PARTNERS:
        every += combinations(sorted(others), 2)
    if len(every) <= t.SEARCH_SETS:
        return every
    drawn = generator(seed, "audit/partners").permutation(len(every))[: t.SEARCH_SETS]
    return [every[i] for i in sorted(drawn)]


def _halves(side: Side, others: Sequence[Head], seed: int) -> list[tuple[Head, ...]]:
    """Of `FEW_SETS` random halves of the heads those whose loss leaves something; none of so few that sets are all."""
    if len(others) <= 2 * t.PARTNERS:
        return []
    rng = generator(seed, "audit/halves")
    drawn = (rng.permutation(len(others))[: len(others) // 2] for _ in range(t.FEW_SETS))
    return [half for half in (tuple(sorted(others[i] for i in one)) for one in drawn) if _leaves_some(side, half)]
