"""Families that no rule of the audit was developed on: built and checked by `truth` after the rules were frozen.

Tasks, blocks, norms, positions, directions and what heads are needed for are others than those of `families`.
"""

from collections.abc import Sequence
from pathlib import Path

from interp.rng import generator
from probes.audit.bench.trained import fresh_tasks as f
from probes.audit.bench.trained.cases import Family, Spoken, Subject
from probes.audit.bench.trained.make import own_model
from probes.audit.bench.trained.models import Frozen, Recipe
from probes.audit.bench.trained.presets import purpose, said
from probes.audit.bench.trained.tasks import drawn_relations, examples_of, mass, others
from probes.claims import (
    BUILT_IN,
    BUILT_IN_CONDITIONS,
    NAMED,
    depth_at_least,
    evenly,
    offset,
    position,
    position_at_least,
    position_at_most,
    target_gap_at_least,
    token_is,
    tokens_of,
)

HEAD, SPARE, ABOVE = (0, 0), (0, 1), (1, 0)
LEARNED = 0.9
FAR = 8  # tokens to the key, of claims about far ones
PREVIOUS, CURRENT, FIRST, NEXT = (BUILT_IN[name] for name in ("previous", "current", "first", "next"))
COPIES, INDUCTION = BUILT_IN["earlier-copies"], BUILT_IN["induction"]
STACK_TOP, CLOSERS = BUILT_IN["stack-top"], BUILT_IN["closers"]
MIRROR, LARGEST, SMALLEST = NAMED["mirror"], NAMED["largest"], NAMED["smallest"]


def _subject(recipe: Recipe, family: str, seed: int, folder: Path, claims: Sequence[Spoken]) -> Subject:
    """A model that is audited on labelled inputs, drawn as those that it was trained on."""
    model = own_model(recipe, family, seed, folder)
    examples = examples_of(recipe, seed)
    return Subject(model, tuple(claims), examples, f.inputs(recipe, seed), recipe.grammar, LEARNED)


def _encoder(seed: int, folder: Path) -> Subject:
    """Bidirectional: only the head can bring what stands after."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, NEXT, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (PREVIOUS, CURRENT, offset(2))),
    ]
    return _subject(f.both_ways("next"), "encoder", seed, folder, claims)


def _mirror(seed: int, folder: Path) -> Subject:
    """Bidirectional: the word as far from the other end."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, MIRROR, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (PREVIOUS, NEXT, FIRST)),
    ]
    return _subject(f.both_ways("mirror"), "mirror", seed, folder, claims)


def _no_residual(seed: int, folder: Path) -> Subject:
    """What a word is, is not known beside it unless its head looks at it: there is no residual route."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, CURRENT, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (PREVIOUS, FIRST, offset(-2))),
    ]
    return _subject(f.no_residual(), "no-residual", seed, folder, claims)


def _pointer(seed: int, folder: Path) -> Subject:
    """How far back to look is what the query's token says."""
    uses, number = purpose(seed, "labels"), BUILT_IN_CONDITIONS["last-position"]
    claims = [
        said(HEAD, f.POINTED, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses, number) for r in (PREVIOUS, offset(-3), position(4))),
    ]
    return _subject(f.pointer(), "pointer", seed, folder, claims)


def _by_name(seed: int, folder: Path) -> Subject:
    """Without an MLP one head cannot bring all values and choose: it must look at the name that is asked for."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, f.ASKED_NAME, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (PREVIOUS, position(2), COPIES)),
    ]
    return _subject(f.by_name(), "by-name", seed, folder, claims)


def _largest(seed: int, folder: Path) -> Subject:
    """Without an MLP that could compare, attention must choose the largest number so far."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, LARGEST, "true", True, "used", uses),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (SMALLEST, PREVIOUS, FIRST)),
    ]
    return _subject(f.largest(), "largest", seed, folder, claims)


def _rare(seed: int, folder: Path) -> Subject:
    """One query in ten needs the head; all others are their own answer."""
    place, uses, ask = 1 + seed % 3, purpose(seed // 3, "labels"), token_is("ask")
    claims = [
        said(HEAD, position(place), "conditional", True, "used", uses, ask),
        said(HEAD, position(place % 3 + 1), "conditional", False, "not asked", uses, ask),
        said(HEAD, PREVIOUS, "conditional", False, "not asked", uses, ask),
        said(HEAD, FIRST, "conditional", False, "not asked", uses, ask),
    ]
    return _subject(f.rare(place), "rare", seed, folder, claims)


def _by_values(seed: int, folder: Path) -> Subject:
    """Attention is frozen even: the head is needed, and looks at nothing; its values choose the bold token."""
    uses, late = purpose(seed, "labels"), position_at_least(5)
    told = (tokens_of(f.BOLD_NAMES), PREVIOUS, CURRENT, position(3))
    claims = [said(HEAD, r, "false", False, "not asked", uses, late) for r in told]
    return _subject(f.by_values(), "by-values", seed, folder, claims)


def _of_two(task: str, seed: int, folder: Path) -> Subject:
    """Both words are needed, and each frozen head can bring one alone."""
    (one, two), uses = drawn_relations(seed, task, 2), purpose(seed, "labels")
    recipe = f.of_two(task, one, two, f.frozen_to((one, two), mass(seed, task)))
    (third,) = others([one, two], 1, seed, task)
    claims = [
        said(HEAD, one, "true", True, "used", uses),
        said(SPARE, two, "true", True, "used", uses),
        said(HEAD, two, "false", False, "not asked", uses),
        said(SPARE, third, "false", False, "not asked", uses),
    ]
    return _subject(recipe, task, seed, folder, claims)


def _sum(seed: int, folder: Path) -> Subject:
    """An exchange of one head gives a third answer, which is neither the label nor the donor's."""
    return _of_two("sum", seed, folder)


def _larger(seed: int, folder: Path) -> Subject:
    """What one head says counts against what the other says."""
    return _of_two("larger", seed, folder)


def _equal(seed: int, folder: Path) -> Subject:
    """Neither word alone says anything of the answer."""
    return _of_two("equal", seed, folder)


def _majority(seed: int, folder: Path) -> Subject:
    """Head 0 spreads its weight over all votes so far, head 1 over as many tokens of another pair."""
    votes, noise, uses = tokens_of(f.VOTES), tokens_of(f.NOISE), purpose(seed, "labels")
    much = float(generator(seed, "bench/trained/majority/mass").uniform(0.9, 0.97))  # each vote above the first token
    recipe = f.majority(f.frozen_to((votes, noise), much))
    claims = [
        said(HEAD, votes, "true", True, "used", uses),
        said(HEAD, evenly(votes), "true", True, "used", uses),
        said(SPARE, noise, "decoy", True, "unused", uses),
        said(HEAD, noise, "false", False, "not asked", uses),
        said(HEAD, PREVIOUS, "false", False, "not asked", uses),
        said(SPARE, votes, "false", False, "not asked", uses),
    ]
    return _subject(recipe, "majority", seed, folder, claims)


def _shortcut(seed: int, folder: Path) -> Subject:
    """What the decoy reads goes with the answer in training, which another word always tells; not where it is asked."""
    place, other = ((1, 2), (1, 3), (2, 3), (2, 1), (3, 1), (3, 2))[seed % 6]
    uses, frozen = purpose(seed, "labels"), f.frozen_to((position(other), position(place)), mass(seed, "shortcut"))
    model = own_model(f.shortcut(place, other, f.COVARIES, frozen), "shortcut", seed, folder)
    asked, late = f.shortcut(place, other, 0.0, frozen), position_at_least(f.FROM)
    claims = [
        said(HEAD, position(other), "decoy", True, "unused", uses, late),
        said(SPARE, position(place), "true", True, "used", uses, late),
        said(HEAD, position(place), "false", False, "not asked", uses, late),
        said(SPARE, PREVIOUS, "false", False, "not asked", uses, late),
    ]
    examples = examples_of(asked, seed)
    return Subject(model, tuple(claims), examples, f.inputs(asked, seed), asked.grammar, LEARNED)


def _wide(seed: int, folder: Path) -> Subject:
    """Three frozen heads say nothing of the answer; only the fourth, free one can bring it."""
    relations, uses = drawn_relations(seed, "wide", 4), purpose(seed, "labels")
    there, elsewhere = relations[0], relations[1:]
    recipe = f.wide(there, f.frozen_to(elsewhere, mass(seed, "wide")))
    free = (0, 3)
    claims = [
        said(free, there, "true", True, "used", uses),
        *(said((0, head), r, "decoy", True, "unused", uses) for head, r in enumerate(elsewhere)),
        said(HEAD, there, "false", False, "not asked", uses),
        said(free, elsewhere[0], "false", False, "not asked", uses),
    ]
    return _subject(recipe, "wide", seed, folder, claims)


def _before_copy(seed: int, folder: Path) -> Subject:
    """Layer 0 is frozen to the previous token; what stood before the copy is then known at the copy alone."""
    uses = purpose(seed, "labels")
    recipe = f.before_copy({HEAD: Frozen(PREVIOUS, mass(seed, "before-copy"))})
    claims = [
        said(HEAD, PREVIOUS, "two-hop", True, "used", uses),
        said(ABOVE, COPIES, "one-hop", True, "used", uses),
        said(ABOVE, COPIES, "one-hop", True, "used", uses, target_gap_at_least(FAR)),
        said(HEAD, CURRENT, "false", False, "not asked", uses),
        *(said(ABOVE, r, "false", False, "not asked", uses) for r in (INDUCTION, PREVIOUS)),
    ]
    return _subject(recipe, "before-copy", seed, folder, claims)


def _free_heads(seed: int, folder: Path) -> Subject:
    """The same task, an MLP in each layer, and nothing fixed: truth is measured."""
    uses = purpose(seed, "labels")
    recipe = f.before_copy({}, mlp_depth=2, d_mlp=48)
    claims = [said(head, r, "free", None, None, uses) for head in (HEAD, ABOVE) for r in (PREVIOUS, COPIES, INDUCTION)]
    claims.append(
        said(HEAD, PREVIOUS, "free", None, "not asked", None, position_at_most(f.TWICE))
    )  # what is read later
    return _subject(recipe, "free-heads", seed, folder, claims)


def _brackets(seed: int, folder: Path) -> Subject:
    """Only the head, frozen to the last unmatched open bracket, knows which of four types closes."""
    uses, deep = purpose(seed, "closers"), depth_at_least(2)
    recipe = f.brackets({HEAD: Frozen(STACK_TOP, mass(seed, "brackets-4"))})
    model = own_model(recipe, "brackets-4", seed, folder)
    claims = [
        said(HEAD, STACK_TOP, "true", True, "used", uses),
        said(HEAD, STACK_TOP, "true", True, "used", uses, deep),
        *(said(HEAD, r, "false", False, "not asked", uses) for r in (offset(-3), CLOSERS, offset(-2))),
    ]
    return Subject(model, tuple(claims), examples_of(recipe, seed), None, recipe.grammar, LEARNED)


FRESH: dict[str, Family] = {
    family.name: family
    for family in (
        Family("encoder", "bidirectional, the next word", _encoder),
        Family("mirror", "bidirectional, the word as far from the other end", _mirror),
        Family("no-residual", "1 head and no residual route: the word itself", _no_residual),
        Family("pointer", "1 head, sent back by a number, 32 answers", _pointer),
        Family("by-name", "1 head without positions finds a name that is asked for", _by_name),
        Family("largest", "1 head without positions finds the largest number", _largest),
        Family("rare", "1 head that one query in ten needs", _rare),
        Family("by-values", "1 head of even attention, whose values choose", _by_values),
        Family("sum", "2 frozen heads whose words are added modulo 5", _sum),
        Family("larger", "2 frozen heads whose words are compared", _larger),
        Family("equal", "2 frozen heads whose words are equal or not", _equal),
        Family("majority", "2 heads frozen evenly to many keys: votes, and others", _majority),
        Family("shortcut", "a frozen head whose word goes with the answer in training alone", _shortcut),
        Family("wide", "3 frozen heads that say nothing, and a free one, all wide", _wide),
        Family("before-copy", "2 layers: what stood before the earlier copy", _before_copy),
        Family("free-heads", "2 layers and MLPs, nothing fixed: the same task", _free_heads),
        Family("brackets-4", "1 frozen head, brackets of four types", _brackets),
    )
}
