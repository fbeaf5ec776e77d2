"""Other people's vocabularies of brackets: which id is which."""

from collections.abc import Sequence

from interp.errors import RequestError, quoted
from interp.world import Adopted
from interp.worlds.brackets.grammar import PAIRS, BracketStrings, bracket_ids
from interp.worlds.dyck.grammar import DyckGrammar

MOST_DEPTH = 10_000


def adopt(
    names: Sequence[str], grammar: DyckGrammar | None, max_depth: int | None, classifier: bool, longest: int
) -> Adopted | None:
    """A vocabulary of brackets as `grammar`, or as the one that its pairs make; None for any other.

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
        return None
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
