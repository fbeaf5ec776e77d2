"""Whether a head matters at all: everything that it gives is exchanged for what it gives in the donor's run.

One edit a head and kind of minimal pair, whatever the head attends to: its z at all positions becomes that of the
donor's run. This tells heads through which the answer passes from idle ones before anything is claimed of them. It is
no audit of use: nothing says along which edges, another head may stand in for one that moves nothing alone, and there
is no sham, so that a head whose output is merely out of place may move the margin too. Of a model of very many heads
those are tried that slopes put first; the others are left open, and say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Head, reaches_output
from probes.audit.exchanges import seen_items
from probes.audit.inputs import Inputs
from probes.audit.kinds import by_kind, key_of
from probes.audit.partners import searched
from probes.audit.rules import span
from probes.audit.screen import exchanged
from probes.audit.side import Side
from probes.audit.stats import high, low
from probes.audit.tasks import NoTask, Task

Word = Literal["used", "not moved", "open"]


@dataclass(frozen=True)
class Moved:
    """What one kind of minimal pair shows of a head: share of the intact margin that the exchange takes off.

    `kind`: empty for a question with one kind of pair. `why`: what leaves it open, where that is not the interval.
    """

    kind: str
    share: Estimate
    word: Word
    why: str = ""


@dataclass(frozen=True)
class Matters:
    """What a whole-head interchange shows: `used` if one kind of pair moves the margin, `not moved` if none does.

    `open` as well where none does and the head's mean loses right answers, which no pair of these asks for.

    `share`: of the kind of pair that moves it most.
    """

    word: Word
    share: Estimate
    kinds: tuple[Moved, ...]


def whole_interchange(
    model: Any, heads: Sequence[Head], inputs: Inputs, task: Task | NoTask, level: float, seed: int
) -> dict[Head, Matters]:
    """What each head's exchange does to the margin, on the items of half B; empty where there is no task."""
    if isinstance(task, NoTask):
        return {}
    found: dict[Head, list[Moved]] = {head: [] for head in heads}
    sides: list[Side | None] = []
    for one in by_kind(task):
        rows = np.zeros(inputs.tokens.shape, dtype=bool)
        rows[inputs.half_b] = True
        items = seen_items(one.items(inputs.tokens, inputs.grammar, rows, seed), model, inputs.visible)
        side = Side(model, items, level) if len(items) > 1 else None
        kind, why = key_of(one)[1], "there are fewer than two items" if side is None else _powerless(side)
        tried = heads if side is None else _tried(side, heads)
        reaches = cache(partial(reaches_output, model, side.tokens)) if side is not None else None
        for head in heads:
            if side is None or reaches is None:
                moved = _open(kind, why)
            elif head not in tried:
                moved = _open(kind, why or f"not tried: slopes put {len(tried)} of {len(heads)} heads before it")
            else:
                share = side.share(side.margin - side.margin_of(_exchanged(side, head)))
                why_not = why or ("" if reaches(head[0]) else LOST)
                moved = Moved(kind, share, "open" if why_not else word_of(share, side), why_not)
            found[head].append(moved)
        sides.append(side)
    return {head: _of_all(_unless_lost(kinds, sides, head)) for head, kinds in found.items()}


def word_of(share: Estimate, side: Side) -> Word:
    """`used` where at least `USED` of the margin moves, to either side, for sure; `not moved` below `UNUSED`."""
    if low(share) >= t.USED or high(share) <= -t.USED:
        return "used"
    return "not moved" if side.nothing(share) else "open"


# -- inside -------------------------------------------------------------------------------------------------

LOST = "what is written to its hook_z does not reach the output"


def _tried(side: Side, heads: Sequence[Head]) -> Sequence[Head]:
    """The heads that are exchanged: all, or of very many the `RANKED` that move the margin most by slopes."""
    if len(heads) <= t.RANKED:
        return heads
    moved = exchanged(searched(side), heads)
    return sorted(heads, key=lambda head: -abs(moved[head]))[: t.RANKED]


def _open(kind: str, why: str) -> Moved:
    return Moved(kind, Estimate.undefined(why, 0, "inputs"), "open", why)


def _exchanged(side: Side, at: Head) -> Any:
    layer, head = at
    return side.edited([], ablated={at: side.donor_cache.z[layer][:, :, head]})


def _unless_lost(kinds: list[Moved], sides: Sequence[Side | None], head: Head) -> list[Moved]:
    """A head that moves no margin may matter all the same: where its mean loses right answers it is left open."""
    if any(one.word != "not moved" for one in kinds):
        return kinds
    out = []
    for one, side in zip(kinds, sides, strict=True):
        assert side is not None
        share = side.share_of_items(side.lost(side.edited([], ablated=side.fill((head,)))))
        why = f"its mean in its place turns over {span(share)} of the right answers"
        out.append(replace(one, word="open", why=why) if low(share) >= t.USED else one)
    return out


def _powerless(side: Side) -> str:
    """Why nothing that moves, or does not, would mean anything: the model does not tell the items from their donors."""
    if not np.isfinite(side.margin).all():
        return "the logit of an answer or a foil is not finite"
    if not low(side.mean_margin()) > 0:
        return "the model does not do the task: its margin may be 0"
    donated = side.share(side.margin - side.margin_of(side.donor))
    return "" if low(donated) >= t.POWER else "the donors themselves hardly move the margin"


def _of_all(kinds: list[Moved]) -> Matters:
    words = {one.word for one in kinds}
    word: Word = "used" if "used" in words else "not moved" if words == {"not moved"} else "open"
    most = max(kinds, key=lambda one: (one.word == word, abs(one.share.value or 0.0)))
    return Matters(word, most.share, tuple(kinds))
