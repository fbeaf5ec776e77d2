"""Words of reports: estimates in tables, which say level and n once where they can, and where lines may end."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from interp.numbers import Cells, absent, count, estimate, reasons
from interp.stats import CONFIDENCE, Estimate


@dataclass(frozen=True)
class Cell:
    """An estimate in a table of a report, with so many decimals; None where it does not apply.

    `counted`: a share, to be written as the count that it is of. `level`: of its interval. `beneath`: what stands on a
    line of its own below it, smaller.
    """

    estimate: Estimate | None
    digits: int | None = 2
    counted: bool = False
    level: float = CONFIDENCE
    beneath: str = ""


Row = Sequence[Any]  # of texts and Cells
# Where no line ends: "[0.91, 1.00]", "38 of 40", "n=40 seeds", "95 %", "1e-05", "p(a | r)", and formulas such as
# "p + q < 1" and "H d_h >= S", whose operands are some letters or a product of two, and no words.
_OPERAND = r"-?\d[\d.]*e[-+]\d+|\b[A-Za-z] [A-Za-z](?:_\w+)?\b|[^\W_][\w.|²()]{0,5}|[-.(|√][\w.|²()/√]{1,6}"
_WHOLE = re.compile(
    r"\[(?:no interval|[-\d.e]+, [-\d.e]+)\]|\b\d[\d,.]* of \d[\d,.]*\b|\bn=\d+ \w+|\d %"
    rf"|(?<![\w.])(?:{_OPERAND})(?: (?:[-+<>=≤≥±]) (?:{_OPERAND})(?!\w))+|\b[A-Za-z] [A-Za-z](?:_\w+)?\b"
    r"|\b\w\(\w \| [\w, ]+\)|^-?[\d.]+, -?[\d.]+$|\d[\d.]*e[-+]\d+"
)
_SIGNS = ((" >= ", " ≥ "), (" <= ", " ≤ "))


def typeset(text: str) -> str:
    """The text as HTML, escaped: signs of comparison, and no line that ends inside of an interval or a formula."""
    for typed, sign in _SIGNS:
        text = text.replace(typed, sign)
    out, at = [], 0
    for found in _WHOLE.finditer(text):
        whole = html.escape(found[0])
        out += [html.escape(text[at : found.start()]), f'<span class="whole">{whole}</span>']
        at = found.end()
    return "".join([*out, html.escape(text[at:])])


def written(head: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]], str]:
    """Head and rows as text, and what is to be said below: level and n of the intervals, why some are undefined.

    Estimates of one level and n have them said once: below the table, or else in the head of their column, or else
    beneath the name of their row; others say theirs at each.
    """
    given = [cell for row in rows for cell in row if isinstance(cell, Cell)]
    told, heads, shown = [], list(head), [[cell if isinstance(cell, str) else "" for cell in row] for row in rows]
    for counted in (False, True):
        whole = _over(cell for cell in given if cell.counted == counted)
        if len(whole) == 1:
            told.append(f"{'intervals of shares' if counted else 'intervals'}: {whole[0]}")
        places = [
            [j for j, cell in enumerate(row) if isinstance(cell, Cell) and cell.counted == counted] for row in rows
        ]
        columns = [_over(row[j] for row, at in zip(rows, places, strict=True) if j in at) for j in range(len(heads))]
        several = {j for j, over in enumerate(columns) if len(whole) > 1 and len(over) > 1}
        by_row = [_over(row[j] for j in at if j in several) for row, at in zip(rows, places, strict=True)]
        named = not counted and bool(several) and all(len(over) <= 1 for over in by_row)
        if named:
            told += _name_rows(shown, by_row)
        for j, over in enumerate(columns):
            if len(whole) > 1 and len(over) == 1:
                heads[j] += f" ({over[0]})"
        for i, at in enumerate(places):
            for j in at:
                shown[i][j] = _text(rows[i][j], j in several and not named)
    notes = ["; ".join(told), *reasons(cell.estimate for cell in given)]
    notes += absent(cell for row in shown for cell in row)
    return heads, shown, " ".join(f"{note[:1].upper()}{note[1:]}." for note in notes if note)


def _name_rows(shown: list[list[str]], by_row: Sequence[Sequence[str]]) -> list[str]:
    """Put level and n beneath the names of rows; what all rows share of them is said below instead."""
    parts = [over[0].split(", ") if over else [] for over in by_row]
    shared = [part for part in next(filter(None, parts)) if all(part in own for own in parts if own)]
    for row, own in zip(shown, parts, strict=True):
        own_only = ", ".join(part for part in own if part not in shared)
        row[0] = "\n".join(part for part in (row[0], own_only) if part)
    return [f"intervals: {', '.join(shared)}"] if shared else []


def _over(cells: Iterable[Cell]) -> list[str]:
    """Every level and n there is among these: ["95 %, n=40 seeds"]."""
    return list(dict.fromkeys(over for cell in cells if (over := _of(cell))))


def _of(cell: Cell) -> str:
    known = cell.estimate is not None and cell.estimate.value is not None
    return Cells([cell.estimate], level=cell.level).over if known else ""


def _text(cell: Cell, each: bool) -> str:
    return "\n".join(part for part in (_number(cell, each), cell.beneath) if part)


def _number(cell: Cell, each: bool) -> str:
    if cell.counted:
        text = count(cell.estimate, cell.digits or 2, whole=each)
        return f"{text} ({100 * cell.level:.4g} %)" if each and cell.level != CONFIDENCE else text
    text = estimate(cell.estimate, cell.digits)
    return f"{text} ({_of(cell)})" if each and _of(cell) else text
