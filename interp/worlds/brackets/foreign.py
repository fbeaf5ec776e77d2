"""Other people's vocabularies of brackets: which id is which."""

from collections.abc import Sequence

from interp.errors import RequestError, quoted
from interp.names import nearest_name
from interp.vocabulary import special_meaning
from interp.world import Adopted
from interp.worlds.brackets.grammar import PAIRS, BracketStrings, bracket_ids
from interp.worlds.dyck.grammar import DyckGrammar

MOST_DEPTH = 10_000


def adopt(
    names: Sequence[str], grammar: DyckGrammar | None, max_depth: int | None, classifier: bool, longest: int
) -> Adopted | str | None:
    """A vocabulary of brackets as `grammar`, or as the one that its pairs make; None for any other.

    In words what is wrong with one that holds brackets and is none of these.

    `max_depth`: default 4 of a language model, `longest` of a classifier, whose inputs need not be balanced.
    Raises `RequestError` where `grammar` is given and the vocabulary does not fit it.
    """
    found = bracket_ids(names)
    if found is None:
        if grammar is not None:
            raise RequestError(
                f"vocab {' '.join(names[:12])!r} is not one of brackets: it needs START ([start], <s>, BOS), whole "
                "pairs of ()[]{}<>, and nothing else but END and PAD"
            )
        return _wrong(names)
    order, pairs = found
    if grammar is not None:
        if grammar.num_types != len(pairs):
            raise RequestError(
                f"vocab has {len(pairs)} bracket types, and grammar={quoted(grammar)} {grammar.num_types}"
            )
        return Adopted(order, grammar)
    usual = min(longest, MOST_DEPTH) if classifier else DyckGrammar().max_depth
    depth = usual if max_depth is None else max_depth
    if not classifier and tuple(pairs) == PAIRS[: len(pairs)]:
        return Adopted(order, DyckGrammar(len(pairs), depth))
    plain = DyckGrammar(len(pairs)).vocab
    spelled = tuple(plain[i] if at is None else names[at] for i, at in enumerate(order))
    ends = classifier and order[-2] is not None
    return Adopted(order, BracketStrings(len(pairs), depth, names=spelled, append_end=ends))


def _wrong(names: Sequence[str]) -> str | None:
    """What keeps names with brackets among them from being a vocabulary of brackets; None without any bracket."""
    brackets = [bracket for pair in PAIRS for bracket in pair]
    whole = [(pair[0], pair[1]) for pair in PAIRS]
    half = [(one, other) for a, b in whole for one, other in ((a, b), (b, a)) if one in names and other not in names]
    meanings = [special_meaning(name) for name in names]
    if not any(bracket in names for bracket in brackets):
        return None
    said = [f"{other} is missing beside {one}" for one, other in half]
    if "start" not in meanings:
        said.append("START is missing")
    for kind in ("start", "end", "pad"):
        called = [name for name, meaning in zip(names, meanings, strict=True) if meaning == kind]
        if len(called) > 1:
            said.append(f"{' and '.join(map(quoted, called[:3]))} both mean {kind.upper()}")
    strange = [name for name, meaning in zip(names, meanings, strict=True) if meaning is None and name not in brackets]
    if strange:
        near = nearest_name(strange[0].upper(), ("START", "END", "PAD"))
        hint = "" if near is None else f" (did you mean {near}?)"
        rest = f" and {len(strange) - 1} more are no tokens" if len(strange) > 1 else " is not a token"
        said.append(f"{quoted(strange[0])}{hint}{rest} of brackets")
    return "; ".join(said)
