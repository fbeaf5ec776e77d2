"""Estimates in tables of reports: where all of a table have one n it is said below, where they differ at each."""

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


def written(head: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]], str]:
    """Head and rows as text, and what is to be said below: level and n of the intervals, why some are undefined.

    Estimates of one level and n have them said once: below the table, or else in the head of their column; others say
    theirs at each.
    """
    given = [cell for row in rows for cell in row if isinstance(cell, Cell)]
    told, heads, shown = [], list(head), [[cell if isinstance(cell, str) else "" for cell in row] for row in rows]
    for counted in (False, True):
        whole = _over(cell for cell in given if cell.counted == counted)
        if len(whole) == 1:
            told.append(f"{'intervals of shares' if counted else 'intervals'}: {whole[0]}")
        for j in range(len(heads)):
            at = [i for i, row in enumerate(rows) if isinstance(row[j], Cell) and row[j].counted == counted]
            column = _over(rows[i][j] for i in at)
            if len(whole) > 1 and len(column) == 1:
                heads[j] += f" ({column[0]})"
            for i in at:
                shown[i][j] = _text(rows[i][j], len(whole) > 1 and len(column) > 1)
    notes = ["; ".join(told), *reasons(cell.estimate for cell in given)]
    notes += absent(cell for row in shown for cell in row)
    return heads, shown, " ".join(f"{note[:1].upper()}{note[1:]}." for note in notes if note)


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
