"""The truth beside the pattern: cells to box, and classes of positions to colour along the axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from interp.checks import plain
from interp.errors import RequestError, quoted
from interp.plots.style import BOXES, DEPTHS, INK, MUTED, PALETTE, escape, mix

OVERLAYS = {
    "stack_top": "last unmatched opening bracket (top of the true stack)",
    "partner": "the bracket that a closer closes",
    "depth": "depth after each token",
    "topic_blocks": "topic of each word",
}
MOST_BOXES = 100_000  # cells that a user boxes
Cell = tuple[int, int]
Rectangle = tuple[int, int, int, int]  # query from, query to, key from, key to: half-open


@dataclass(frozen=True)
class Boxes:
    """Rectangles of cells in one colour."""

    rectangles: tuple[Rectangle, ...]
    colour: str


@dataclass(frozen=True)
class Strip:
    """A class a position (its index in `colours`), drawn along both axes."""

    classes: np.ndarray
    colours: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Truth:
    """All overlays of a figure. `notes` are lines of HTML; `order` rearranges positions where that shows blocks."""

    boxes: tuple[Boxes, ...] = ()
    strip: Strip | None = None
    notes: tuple[str, ...] = ()
    order: np.ndarray | None = None


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
    boxes: list[Boxes] = []
    notes: list[str] = []
    for name in (name for name in names if name in ("stack_top", "partner")):
        colour = BOXES[len(boxes) % len(BOXES)]
        boxes.append(Boxes(_targets(name, tokens, grammar), colour))
        notes.append(f"{_mark('□', colour)} {OVERLAYS[name]}")
    strip, order = None, None
    if "depth" in names:
        depth = np.asarray(grammar.depth(tokens))
        deepest = int(depth.max())
        shades = tuple(mix(DEPTHS, d / max(deepest, 1)) for d in range(deepest + 1))
        strip = Strip(depth, shades, tuple(map(str, range(deepest + 1))))
        notes.append(_legend("axes coloured by depth", strip))
    if "topic_blocks" in names:
        strip = _topics(tokens, grammar)
        if not causal:  # positions carry no order that a bidirectional pattern would need
            order = np.argsort(strip.classes, kind="stable")
            strip = Strip(strip.classes[order], strip.colours, strip.names)
        boxes.append(Boxes(_blocks(strip.classes, len(strip.colours) - 1), INK))
        sorted_note = ", positions sorted by topic" if order is not None else ""
        notes.append(_legend(f"□ same topic{sorted_note}; axes coloured by topic", strip))
    if order is not None and len(boxes) > 1:
        raise RequestError("overlay 'topic_blocks' sorts positions and goes with no other boxes")
    return Truth(tuple(boxes), strip, tuple(notes), order)


def _check(name: str, tokens: np.ndarray | None, grammar: Any) -> None:
    if name not in OVERLAYS:
        raise RequestError(
            f"overlay={quoted(name)} is not one of {', '.join(OVERLAYS)}, nor a list of cells (query, key)"
        )
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
    if not hasattr(grammar, "topic_of" if name == "topic_blocks" else name):
        kind = "topics" if name == "topic_blocks" else "brackets"
        raise RequestError(
            f"overlay={quoted(name)} is for {kind}: {type(grammar).__name__} has none; give cells or None"
        )


def _cells(overlay: Any, n: int) -> tuple[Rectangle, ...]:
    if hasattr(overlay, "__len__") and len(overlay) > MOST_BOXES:
        raise RequestError(
            f"overlay of {len(overlay):,} cells: {MOST_BOXES:,} are the most, more than a picture can show"
        )
    wrong = RequestError(
        f"overlay={quoted(overlay)} is not one of {', '.join(OVERLAYS)}, nor a list of cells (query, key)"
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


def _targets(name: str, tokens: Any, grammar: Any) -> tuple[Rectangle, ...]:
    rule: Callable[[Any], Any] = getattr(grammar, name)
    targets = np.asarray(rule(tokens))
    if name == "partner":
        targets = np.where(targets < np.arange(len(targets)), targets, -1)  # closers only
    return tuple((int(q), int(q) + 1, int(targets[q]), int(targets[q]) + 1) for q in np.flatnonzero(targets >= 0))


def _topics(tokens: Any, grammar: Any) -> Strip:
    """Topics that occur, and what belongs to none (a mask) last."""
    topic = np.asarray(grammar.topic_of)[tokens]
    known = np.unique(topic[topic >= 0])
    classes = np.where(topic >= 0, np.searchsorted(known, topic), len(known))
    colours = tuple(PALETTE[i % len(PALETTE)] for i in range(len(known)))
    return Strip(classes, (*colours, MUTED), (*(f"topic {t}" for t in known), "none"))


def _blocks(classes: np.ndarray, none: int) -> tuple[Rectangle, ...]:
    """Query runs by key runs of one topic, each pair once; class `none` is no topic."""
    runs, at = [], 0
    for value, group in groupby(classes.tolist()):
        length = len(list(group))
        runs.append((value, at, at + length))
        at += length
    return tuple((qa, qb, ka, kb) for v, qa, qb in runs for w, ka, kb in runs if v == w != none and ka <= qa)


def _legend(words: str, strip: Strip) -> str:
    shown = sorted(set(strip.classes.tolist()))
    if len(shown) > 10:
        return escape(words)
    marks = "  ".join(f"{_mark('■', strip.colours[c])} {escape(strip.names[c])}" for c in shown)
    return f"{escape(words)}: {marks}"


def _mark(sign: str, colour: str) -> str:
    return f'<span style="color:{colour}"><b>{sign}</b></span>'
