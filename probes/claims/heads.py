"""How heads are named in a claim."""

import re
from collections.abc import Iterator

from interp.claims.general import whole

HEADS = ("L1H0", "1.0", "head 1.0", "L1.H0", "a1.h0", "layer 1 head 0", "layer-1 head 0", "attention head 0 in layer 1",
         "the head L1H0", "L0H1 and L1H0", "heads 0 and 1 of layer 0", "some head")  # fmt: skip
SOME = re.compile(
    r"(?:there is |there exists )?(?:some|a|an|one|at least one) (?:single )?(?:attention )?head(?: (?:that|which))?",
    re.IGNORECASE,
)
_MANY = r"(?P<{0}>\d+(?:(?:,? and|,) \d+)*)"  # 0, or 0 and 1, or 0, 1 and 2
_BETWEEN = re.compile(r"\s*,\s*and\s+|\s*,\s*|\s+and\s+|\s*&\s*", re.IGNORECASE)
_ONE = re.compile(
    r"(?:(?:the|both) )?(?:attention[ -])?(?:heads? )?(?:the )?(?:"
    r"[La](?P<l1>\d+)[.\s]?H(?P<h1>\d+)"
    r"|\(?(?P<l2>\d+)(?:\.|, ?(?=\d+\)))(?P<h2>\d+)\)?"
    rf"|(?:layer[ -]|L)(?P<l3>\d+)(?:,|'s)? (?:attention )?heads? {_MANY.format('h3')}"
    rf"|{_MANY.format('h4')},? (?:in|of) (?:the )?layer[ -](?P<l4>\d+)"
    r")(?![\d.])",
    re.IGNORECASE,
)


def heads_said(text: str) -> tuple[tuple[int, int], ...] | None:
    """Heads (layer, head), () for "some head", None where the text names none."""
    text = text.strip()
    if SOME.fullmatch(text):
        return ()
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        if at and not (gap := _BETWEEN.match(text, at)):
            return None
        start = gap.end() if at and gap else at
        if not (one := _ONE.match(text, start)):
            return None
        found += _pairs(one)
        at = one.end()
    return tuple(found) or None


def _pairs(found: re.Match[str]) -> Iterator[tuple[int, int]]:
    layer = next(part for part in (found[f"l{i}"] for i in range(1, 5)) if part)
    heads = next(part for part in (found[f"h{i}"] for i in range(1, 5)) if part)
    return ((whole(layer), whole(head)) for head in re.findall(r"\d+", heads))
