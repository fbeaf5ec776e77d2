"""Numbers as the reports write them."""

from interp.stats import Estimate


def number(e: Estimate, digits: int = 2) -> str:
    """Value and interval with so many decimals; no minus before a zero."""
    interval = "" if e.low is None or e.high is None else f" [{fixed(e.low, digits)}, {fixed(e.high, digits)}]"
    return fixed(e.value, digits) + interval


def number3(e: Estimate, digits: int = 3) -> str:
    """`number` with three decimals unless told otherwise."""
    return number(e, digits)


def fixed(value: float | None, digits: int) -> str:
    """One number with so many decimals."""
    return "undefined" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"
