"""What is said of attention heads, and where: each statement as the claims that an audit decides.

A statement may leave something open (which bracket, which head); it then becomes several claims, and `of_options`
says how their verdicts make one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from interp.grammars import DyckGrammar
from probes.claims import BUILT_IN, Claim, Relation, bracket_tokens, complement, offset, position, token

Layer = Literal["any", "first", "last"]
VERDICTS = ("supported", "misleading", "undecided", "refuted")


@dataclass(frozen=True)
class Statement:
    """One thing said of a model's heads.

    - `name`: short, for files; `words`: for tables.
    - `layer`: which layer it is about; `any`: some head of the model, chosen on half of the inputs.
    - `options`: the relations it may mean. `uses`: the task it is said to serve; `when`: a condition in words.
    - `primary`: whether a quick run asks it. All claims about a group are corrected together, and eight seeds of one
      verdict can be certain of more than half of such models with six claims at the most.
    """

    name: str
    words: str
    layer: Layer
    options: tuple[Relation, ...]
    uses: str | None = None
    when: str | None = None
    primary: bool = False

    def claims(self, layers: int) -> list[Claim]:
        """One claim an option about a model of so many layers; none where it lacks the layer.

        Where the first layer is an oracle, a model's only layer stands for the last one.
        """
        if self.layer == "first" and layers == 1:
            return []
        heads = {"any": [], "first": [(0, 0)], "last": [(layers - 1, 0)]}[self.layer]
        return [Claim(heads, relation, self.when, self.uses) for relation in self.options]


def of_options(verdicts: Sequence[str]) -> str:
    """The verdict on a statement that holds if one of its options does."""
    if "supported" in verdicts:
        return "supported"
    if "undecided" in verdicts:
        return "undecided"
    return "misleading" if "misleading" in verdicts else "refuted"


def _one(name: str, words: str, layer: Layer, relation: str, **more: Any) -> Statement:
    return Statement(name, words, layer, (BUILT_IN[relation],), **more)


# -- models of Dyck ---------------------------------------------------------------------------------------

CLOSING = "the current token is a closing bracket"
STACK, STACK_USED = "last-stack-top", "last-stack-top-used"
FIRST_EVEN, LAST_EVEN, LAST_EVEN_USED = "first-even", "last-even", "last-even-used"

DYCK = (
    _one("some-stack-top", "some head: last unmatched open bracket", "any", "stack-top", primary=True),
    _one(STACK, "last layer: last unmatched open bracket", "last", "stack-top", primary=True),
    _one("last-stack-top-closing", "last layer: last unmatched open bracket, at closing brackets", "last", "stack-top",
         when=CLOSING),
    _one(STACK_USED, "last layer: last unmatched open bracket, used to close", "last", "stack-top", uses="closers",
         primary=True),
    _one("last-unmatched", "last layer: all unmatched open brackets", "last", "unmatched"),
    _one(LAST_EVEN, "last layer: all visible tokens evenly", "last", "all", primary=True),
    _one(LAST_EVEN_USED, "last layer: all visible tokens evenly, used to close", "last", "all", uses="closers",
         primary=True),
    _one("last-same-depth", "last layer: tokens at the same depth", "last", "same-depth"),
    _one("last-same-type", "last layer: brackets of the same type", "last", "same-type"),
    _one("last-start", "last layer: START", "last", "start"),
    _one(FIRST_EVEN, "first layer: all visible tokens evenly", "first", "all", primary=True),
    _one("first-even-used", "first layer: all visible tokens evenly, used to close", "first", "all", uses="closers"),
    _one("first-same-depth", "first layer: tokens at the same depth", "first", "same-depth"),
    _one("first-same-type", "first layer: brackets of the same type", "first", "same-type"),
    Statement("first-not-same-depth", "first layer: never tokens at the same depth", "first",
              (complement(BUILT_IN["same-depth"]),)),
    Statement("first-not-same-type", "first layer: never brackets of the same type", "first",
              (complement(BUILT_IN["same-type"]),)),
    _one("first-start", "first layer: START", "first", "start"),
)  # fmt: skip


# -- copying models ---------------------------------------------------------------------------------------


def copying(grammar: DyckGrammar) -> tuple[Statement, ...]:
    """What App. B.1 of Wen et al. calls the patterns of copying models; `some head` in all of them."""
    vocab, types = grammar.vocab, range(grammar.num_types)
    single = [bracket_tokens([i], f"the bracket {vocab[i]}") for i in range(2 * grammar.num_types)]
    crossed = [
        bracket_tokens([2 * a, 2 * b + 1], f"the brackets {vocab[2 * a]} and {vocab[2 * b + 1]}")
        for a, b in product(types, types)
        if a != b
    ]
    return (
        _one("current", "some head: the current token", "any", "current", primary=True),
        _one("current-used", "some head: the current token, used to repeat it", "any", "current", uses="copies",
             primary=True),
        _one("closers", "some head: closing brackets", "any", "closers", primary=True),
        _one("closers-used", "some head: closing brackets, used to repeat the token", "any", "closers", uses="copies",
             primary=True),
        Statement("one-type", "some head: brackets of one type", "any", tuple(BUILT_IN[f"type-{t}"] for t in (0, 1))),
        Statement("one-bracket", "some head: one bracket of the four", "any", tuple(single)),
        Statement("crossed", "some head: one opening, one closing bracket of another type", "any", tuple(crossed)),
        Statement("never-one", "some head: never one bracket of the four", "any", tuple(complement(r) for r in single)),
        _one("same-type", "some head: brackets of the same type", "any", "same-type", primary=True),
        _one(
            "same-type-used",
            "some head: brackets of the same type, used to repeat the token",
            "any",
            "same-type",
            uses="copies",
            primary=True,
        ),
    )  # fmt: skip


# -- encoders ---------------------------------------------------------------------------------------------

ENCODER = (
    BUILT_IN["previous"],
    BUILT_IN["next"],
    BUILT_IN["current"],
    offset(-2),
    offset(2),
    BUILT_IN["first"],
    position(1),
    token("[CLS]"),
    token("[SEP]"),
    token("."),
    token(","),
    BUILT_IN["all"],
)


# -- who says so ------------------------------------------------------------------------------------------

WEN = "Wen et al. 2023"
EBRAHIMI = "Ebrahimi et al. 2020"
YAO = "Yao et al. 2021"
CLARK = "Clark et al. 2019"


@dataclass(frozen=True)
class Source:
    """What is said, by whom, and the statement and models it is held against here.

    `group`: a name of `groups`, or None for the encoder; `statement`: of a population, a name of a statement; of the
    encoder, a relation's.
    """

    who: str
    what: str
    group: str | None
    statement: str


SOURCES = (
    Source(f"{EBRAHIMI}, as cited by {WEN}", "heads attend to the last unmatched open bracket, like a stack",
           "standard, no positions", "some-stack-top"),
    Source(f"{YAO}, construction", "the second layer finds the last unmatched open bracket, and the output rests on it",
           "standard, linear positions", STACK_USED),
    Source(f"{YAO}, construction", "the first layer counts depth by attending to all tokens before",
           "standard, linear positions", FIRST_EVEN),
    Source(f"{WEN}, 4.1, Fig. 1", "second-layer patterns are not always stack-like",
           "standard, no positions", STACK),
    Source(f"{WEN}, 4.1, Fig. 1", "nor with linear positions", "standard, linear positions", STACK),
    Source(f"{WEN}, released code", "the models of the released code: not stack-like either",
           "released code, no positions", STACK),
    Source(f"{WEN}, Fig. 2", "with a minimal first layer most are not stack-like either",
           "minimal first layer (eq. 15)", STACK),
    Source(f"{WEN}, Corollary 1", "uniform attention in both layers can solve the task",
           "attention frozen uniform", LAST_EVEN_USED),
    Source(f"{WEN}, Fig. 4, 5, 6a", "copying: heads attend to closing brackets, which says nothing of the task",
           "copying, 4 layers", "closers"),
    Source(f"{WEN}, Fig. 5", "the same with one layer", "copying, 1 layer", "closers"),
    Source(f"{WEN}, Fig. 6b", "copying: heads attend to the current position, which solves the task",
           "copying, 4 layers", "current-used"),
    Source(f"{WEN}, Fig. 4", "copying: a head attends to two brackets, uninformative",
           "copying, 4 layers", "crossed"),
    Source(f"{WEN}, Fig. 4", "copying: a head never attends to one bracket, uninformative",
           "copying, 4 layers", "never-one"),
    Source(f"{CLARK}, BERT", "heads attend to positional offsets: the previous token", None, "previous"),
    Source(f"{CLARK}, BERT", "heads attend to positional offsets: the next token", None, "next"),
    Source(f"{CLARK}, BERT", "heads attend to delimiter tokens", None, "token-[SEP]"),
    Source(f"{CLARK}, BERT", "heads attend broadly over the whole sentence", None, "all"),
)  # fmt: skip
