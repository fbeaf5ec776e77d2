"""How numbers are written: one way everywhere, for plain numbers, shares, counts and every `Estimate`.

    estimate(e)              0.972 [0.968, 0.976]
    estimate(e, 2, n=True)   0.97 [0.97, 0.98] (n=8 seeds)
    number(-0.0004)          0.000
    number(None)             undefined

- A number that rounds to 0 has no sign. What is not finite is undefined, and every undefined number reads `UNDEFINED`.
- `ABSENT` stands where there is no number because none was asked for: a null that was not measured, a cell that does
  not apply. That is not the same as undefined.
- An interval names its n, at the number (`n=True`) or, where a whole table has one n, once in its head or caption:
  `Cells` decides which.
- Numbers that users write, in flags, claims and variables of the environment, are read by `written_whole` and
  `written_number` everywhere.

Imports neither torch nor numpy.
"""

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interp.stats import Estimate

UNDEFINED = "undefined"
ABSENT = "–"
NO_INTERVAL = "[no interval]"
LARGE = 1e5  # from here on decimals say nothing: four significant digits
SMALL = 1e-2  # below it three decimals show too little
MOST_DIGITS = 1000  # of a number that is read; Python reads no more than 4300
_WHOLE = re.compile(r"[+-]?[0-9]+")  # and not what `int` reads besides: 2_0, blanks, digits of other scripts
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Written(str):
    """A value as the command line writes it: whether it is a number is known with the field that it is for."""


def written_whole(text: str) -> int | None:
    """The whole number that `text` writes in the digits 0 to 9, a sign before them or not; None for any other text."""
    return int(text) if _WHOLE.fullmatch(text) and len(text) <= MOST_DIGITS else None


def written_number(text: str) -> float | None:
    """The number that `text` writes as 3, 0.5 or 1e-3; None for any other text, infinities and NaN among them."""
    return float(text) if _NUMBER.fullmatch(text) and math.isfinite(float(text)) else None


def number(value: float | None, digits: int | None = 3, *, none: str = UNDEFINED) -> str:
    """`value` with so many decimals; `None`: three, or four significant digits where three decimals show too little.

    `none`: what stands for a missing value; `ABSENT` where it was not asked for.
    """
    if value is None or not math.isfinite(value):
        return none if value is None else UNDEFINED
    if digits is None:
        if 0 < abs(value) < SMALL:
            return f"{value:.4g}"
        digits = 3
    if abs(value) >= LARGE:
        return f"{value:.4g}"
    return _unsigned(f"{value:.{digits}f}")


def percent(value: float | None, digits: int = 0, *, none: str = UNDEFINED) -> str:
    """A share as "37 %"."""
    if value is None or not math.isfinite(value):
        return none if value is None else UNDEFINED
    return f"{_unsigned(f'{100 * value:.{digits}f}')} %"


def power(value: float | None, digits: int = 1, *, none: str = UNDEFINED) -> str:
    """One digit, so many decimals and a power of ten: errors, which lie orders of magnitude apart."""
    if value is None or not math.isfinite(value):
        return none if value is None else UNDEFINED
    return f"{value + 0.0:.{digits}e}"


def significant(value: float | None, digits: int = 3, *, none: str = UNDEFINED) -> str:
    """So many significant digits, trailing zeros left out; a power of ten for the very large and the very small."""
    if value is None or not math.isfinite(value):
        return none if value is None else UNDEFINED
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value + 0.0:.{digits}g}"
    return f"{value:.{digits - 1}e}"


def interval(low: float | None, high: float | None, digits: int | None = 3) -> str:
    """ "[0.968, 0.976]", or `NO_INTERVAL`."""
    if low is None or high is None:
        return NO_INTERVAL
    return f"[{number(low, digits)}, {number(high, digits)}]"


def size(e: "Estimate") -> str:
    """What an interval is over: "n=8 seeds"."""
    return f"n={e.n} {e.over if e.n != 1 else e.over.removesuffix('s')}"


def estimate(e: "Estimate | None", digits: int | None = 3, *, n: bool = False) -> str:
    """Value and interval, and with `n` how many of what; None: `ABSENT`."""
    if e is None:
        return ABSENT
    text = UNDEFINED if e.value is None else f"{number(e.value, digits)} {interval(e.low, e.high, digits)}"
    return f"{text} ({size(e)})" if n else text


def count(e: "Estimate | None", digits: int = 2, *, whole: bool = True) -> str:
    """A share as the count it comes from and its interval: "12 of 160 [0.04, 0.13]"; not `whole`: "12 [0.04, 0.13]"."""
    if e is None:
        return ABSENT
    found = round((e.value or 0.0) * e.n)
    of = f" of {e.n}" if whole else ""
    return f"{found}{of}" if e.low is None or e.high is None else f"{found}{of} {interval(e.low, e.high, digits)}"


class Cells:
    """The estimates of one table as text. One n for all of them is said once, where they differ each says its own.

    cells = Cells(estimates, 2)
    head = f"score [{cells.over}]"      # "95 %, n=8 seeds", or "95 %" where the cells name n
    row = [cells(e) for e in estimates]
    """

    def __init__(self, estimates: Iterable["Estimate | None"], digits: int | None = 3, level: float = 0.95):
        sizes = {size(e) for e in estimates if e is not None and e.value is not None}
        self.digits, self.level = digits, level
        self.n = sizes.pop() if len(sizes) == 1 else ""
        self.each = bool(sizes)

    @property
    def over(self) -> str:
        """Level, and the n of all cells where there is one."""
        level = f"{100 * self.level:.4g} %"
        return f"{level}, {self.n}" if self.n else level

    def __call__(self, e: "Estimate | None", digits: int | None = -1) -> str:
        """One cell; `digits` where they are not those of the table."""
        return estimate(e, self.digits if digits == -1 else digits, n=self.each and e is not None)


def reasons(estimates: Iterable["Estimate | None"]) -> list[str]:
    """Why some of a table's estimates have no value or no interval: a line a reason, to stand below the table."""
    out: dict[str, None] = {}
    for e in estimates:
        if e is not None and e.value is None:
            out[f"{UNDEFINED}: {e.reason}"] = None
        elif e is not None and e.reason is not None and (e.low is None or e.high is None):
            out[f"no interval: {e.reason}"] = None
    return list(out)


def absent(lines: Iterable[str]) -> list[str]:
    """What `ABSENT` means, as a line to stand below a table in which it occurs."""
    lines = list(lines)
    if not any(ABSENT in line for line in lines):
        return []
    null = "; untrained models are measured where it is known how the model began"
    return [f"{ABSENT}: not measured, or it does not apply{null if any('untrained' in one for one in lines) else ''}"]


def _unsigned(text: str) -> str:
    """Without the minus of a number that rounds to 0."""
    return text.lstrip("-") if not text.strip("-0.") else text
