"""The truth beside the pattern: cells to box, and classes of positions to colour along the axes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from interp.checks import plain
from interp.errors import RequestError, quoted
from interp.plots.style import BOXES, INK, LEVELS, MUTED, PALETTE, escape, mix
from interp.registry import merged, world_of, worlds
from interp.world import Overlay

MOST_BOXES = 100_000  # cells that a user boxes
Cell = tuple[int, int]
Rectangle = tuple[int, int, int, int]  # query from, query to, key from, key to: half-open


@dataclass(frozen=True)
class Boxes:
    """Rectangles of cells in one colour. `corners`: half-open runs whose cells on and below the diagonal are framed."""

    rectangles: tuple[Rectangle, ...]
    colour: str
    corners: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Strip:
    """A class a position (its index in `colours`), drawn along both axes. `short`: names where there is little room."""

    classes: np.ndarray
    colours: tuple[str, ...]
    names: tuple[str, ...]
    short: tuple[str, ...]


@dataclass(frozen=True)
class Truth:
    """All overlays of a figure. `notes` are lines of HTML; `order` rearranges positions where that shows blocks."""

    boxes: tuple[Boxes, ...] = ()
    strip: Strip | None = None
    notes: tuple[str, ...] = ()
    order: np.ndarray | None = None


def usual_overlays(grammar: Any) -> list[str]:
    """What is drawn over a pattern of this grammar where nobody says what to draw."""
    world = world_of(grammar)
    return [] if world is None else [name for name, one in world.overlays.items() if one.usual]


def read_overlay(overlay: Any, tokens: np.ndarray | None, grammar: Any, n: int, causal: bool) -> Truth:
    """`overlay` as `attention_heatmap` takes it: a name, several, a list of cells, or None."""
    if overlay is None:
        return Truth()
    names = [overlay] if isinstance(overlay, str) else list(overlay) if isinstance(overlay, Sequence) else None
    if not isinstance(overlay, str) and (names is None or not all(isinstance(item, str) for item in names)):
        return Truth((Boxes(_cells(overlay, n), BOXES[0]),))
    assert names is not None
    for name in names:
        _check(name, tokens, grammar)
    known = {} if not names else world_of(grammar).overlays  # type: ignore[union-attr]
    boxes: list[Boxes] = []
    notes: list[str] = []
    strip, order = None, None
    kinds = ("targets", "levels", "groups")
    for name in sorted(names, key=lambda name: kinds.index(known[name].kind)):
        shown = known[name]
        values = np.asarray(shown.of(tokens, grammar))
        if shown.kind == "targets":
            colour = BOXES[len(boxes) % len(BOXES)]
            boxes.append(Boxes(_targets(values, causal), colour))
            notes.append(f"{_mark('□', colour)} {escape(shown.about)}")
            continue
        if strip is not None:
            raise RequestError(f"overlay={quoted(name)} colours the axes, and another overlay does: give one of them")
        if shown.kind == "levels":
            strip = _levels(values, shown)
            notes.append(_legend(f"axes coloured by {shown.about}", strip))
            continue
        strip = _groups(values, shown)
        if not causal:  # positions carry no order that a bidirectional pattern would need
            order = np.argsort(strip.classes, kind="stable")
            strip = replace(strip, classes=strip.classes[order])
        boxes.insert(0, _blocks(strip.classes, len(strip.colours) - 1, causal))  # below the boxes of single cells
        sorted_note = f", positions sorted by {shown.about}" if order is not None else ""
        notes.append(_legend(f"□ same {shown.about}{sorted_note}; axes coloured by {shown.about}", strip))
        if order is not None and len(boxes) > 1:
            raise RequestError(f"overlay {quoted(name)} sorts positions and goes with no other boxes")
    return Truth(tuple(boxes), strip, tuple(notes), order)


def _check(name: str, tokens: np.ndarray | None, grammar: Any) -> None:
    known = merged("overlays")
    if name not in known:
        own = None if grammar is None else world_of(grammar)
        named = known if own is None else own.overlays
        raise RequestError(f"overlay={quoted(name)} is not one of {', '.join(named)}, nor a list of cells (query, key)")
    if grammar is None:
        raise RequestError(
            f"overlay={quoted(name)} needs a grammar and the text that it reads: pass grammar=, and text_or_tokens= "
            "where it is missing"
        )
    if tokens is None:
        raise RequestError(
            f"overlay={quoted(name)} needs token ids, and a list of strings only names the positions: give the text as "
            "one string, or its ids [pos]"
        )
    world = world_of(grammar)
    if world is None or name not in world.overlays:
        whose = ", ".join(one.name for one in worlds() if name in one.overlays)
        here = "no overlay" if world is None or not world.overlays else f"the overlays {', '.join(world.overlays)}"
        raise RequestError(f"overlay={quoted(name)} is for {whose}: {type(grammar).__name__} has {here}")


def _cells(overlay: Any, n: int) -> tuple[Rectangle, ...]:
    if hasattr(overlay, "__len__") and len(overlay) > MOST_BOXES:
        raise RequestError(
            f"overlay of {len(overlay):,} cells: {MOST_BOXES:,} are the most, more than a picture can show"
        )
    wrong = RequestError(
        f"overlay={quoted(overlay)} is not one of {', '.join(merged('overlays'))}, nor a list of cells (query, key)"
    )
    try:
        cells = [(q, k) for q, k in overlay]
    except (TypeError, ValueError) as error:
        raise wrong from error
    for cell in cells:
        if not all(isinstance(at, (int, np.integer)) and not isinstance(at, bool) for at in cell):
            raise wrong
        if not all(0 <= at < n for at in cell):
            raise RequestError(f"overlay cell {quoted(tuple(map(plain, cell)))} lies outside the {n} positions")
    return tuple((int(q), int(q) + 1, int(k), int(k) + 1) for q, k in cells)


def _targets(keys: np.ndarray, causal: bool) -> tuple[Rectangle, ...]:
    """Cells of these keys; of a causal pattern those that a model can see."""
    cells = np.argwhere(keys) if keys.ndim == 2 else [(q, keys[q]) for q in np.flatnonzero(keys >= 0)]
    return tuple((int(q), int(q) + 1, int(k), int(k) + 1) for q, k in cells if k <= q or not causal)


def _levels(values: np.ndarray, shown: Overlay) -> Strip:
    most = int(values.max())
    shades = tuple(mix(LEVELS, level / max(most, 1)) for level in range(most + 1))
    names = tuple(map(shown.name, range(most + 1)))
    return Strip(values, shades, names, names)


def _groups(values: np.ndarray, shown: Overlay) -> Strip:
    """Classes that occur, and what belongs to none (a mask) last."""
    known = np.unique(values[values >= 0])
    classes = np.where(values >= 0, np.searchsorted(known, values), len(known))
    colours = tuple(PALETTE[i % len(PALETTE)] for i in range(len(known)))
    names = tuple(shown.name(int(one)) for one in known)
    return Strip(classes, (*colours, MUTED), (*names, "none"), (*map(str, known), "none"))


def _blocks(classes: np.ndarray, none: int, causal: bool) -> Boxes:
    """Query runs by key runs of one class, each pair once; class `none` is none.

    Of a causal pattern a run by itself is framed as far as its queries see: on and below the diagonal.
    """
    runs, at = [], 0
    for value, group in groupby(classes.tolist()):
        length = len(list(group))
        runs.append((value, at, at + length))
        at += length
    pairs = [(qa, qb, ka, kb) for v, qa, qb in runs for w, ka, kb in runs if v == w != none and ka <= qa]
    if not causal:
        return Boxes(tuple(pairs), INK)
    apart = tuple(pair for pair in pairs if pair[0] != pair[2])
    return Boxes(apart, INK, tuple((qa, qb) for v, qa, qb in runs if v != none))


def _legend(words: str, strip: Strip) -> str:
    shown = sorted(set(strip.classes.tolist()))
    if len(shown) > 10:
        return escape(words)
    marks = "  ".join(f"{_mark('■', strip.colours[c])} {escape(strip.names[c])}" for c in shown)
    return f"{escape(words)}: {marks}"


def _mark(sign: str, colour: str) -> str:
    return f'<span style="color:{colour}"><b>{sign}</b></span>'
