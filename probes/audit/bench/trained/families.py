"""The families of the trained bench: those of presets, and those of small tasks whose circuit is known beforehand."""

from collections.abc import Sequence
from pathlib import Path

from probes.audit.bench.trained import tasks as t
from probes.audit.bench.trained.cases import Family, Spoken, Subject
from probes.audit.bench.trained.make import own_model
from probes.audit.bench.trained.models import Frozen, Recipe
from probes.audit.bench.trained.presets import PRESET_FAMILIES, purpose, said
from probes.claims import BUILT_IN, offset, position, position_at_least, token_is

HEAD, SPARE = (0, 0), (0, 1)
LEARNED = 0.9
STACK_TOP, START = BUILT_IN["stack-top"], BUILT_IN["first"]


def _subject(recipe: Recipe, family: str, seed: int, folder: Path, claims: Sequence[Spoken]) -> Subject:
    """A model of the small tasks, audited on labelled inputs as a user has them."""
    model = own_model(recipe, family, seed, folder)
    inputs = t.labelled_inputs(recipe, seed)
    return Subject(model, tuple(claims), t.examples_of(recipe, seed), inputs, recipe.grammar, LEARNED)


def _frozen(seed: int, folder: Path) -> Subject:
    """The one head is frozen to the word that is asked for: nothing else could tell it."""
    (there,), uses = t.drawn_relations(seed, "frozen", 1), purpose(seed, "labels")
    recipe = t.reader(there, 1, {HEAD: Frozen(there, t.mass(seed, "frozen"))})
    others = t.others([there], 3, seed, "frozen")
    claims = [said(HEAD, there, "true", True, "used", uses)]
    claims += [said(HEAD, r, "false", False, "not asked", uses) for r in others]
    return _subject(recipe, "frozen", seed, folder, claims)


def _decoy(seed: int, folder: Path) -> Subject:
    """Head 0 is frozen to a word that says nothing of the answer; only head 1 can bring it."""
    (there, elsewhere), uses = t.drawn_relations(seed, "frozen-decoy", 2), purpose(seed, "labels")
    recipe = t.reader(there, 2, {HEAD: Frozen(elsewhere, t.mass(seed, "frozen-decoy"))})
    claims = [
        said(HEAD, elsewhere, "decoy", True, "unused", uses),
        said(SPARE, there, "true", True, "used", uses),
        said(HEAD, there, "false", False, "not asked", uses),
        said(SPARE, elsewhere, "false", False, "not asked", uses),
    ]
    return _subject(recipe, "frozen-decoy", seed, folder, claims)


def _heir(seed: int, folder: Path) -> Subject:
    """As `_decoy`, but head 0 looks where training on another task taught it to, whose embeddings it shares."""
    (there, elsewhere), uses = t.drawn_relations(seed, "other-task", 2), purpose(seed, "labels")
    claims = [
        said(HEAD, elsewhere, "decoy", True, "unused", uses),
        said(SPARE, there, "true", True, "used", uses),
        said(HEAD, there, "false", False, "not asked", uses),
        said(SPARE, elsewhere, "false", False, "not asked", uses),
    ]
    return _subject(t.heir(there, elsewhere), "other-task", seed, folder, claims)


def _copying(seed: int, folder: Path) -> Subject:
    """Asked is the class of the word itself, which the stream has without any head."""
    (one, two), uses = t.drawn_relations(seed, "copying", 2), purpose(seed, "labels")
    recipe = t.reader(None, 2, {h: Frozen(r, t.mass(seed, "copying")) for h, r in ((HEAD, one), (SPARE, two))})
    claims = [
        said(HEAD, one, "decoy", True, "unused", uses),
        said(SPARE, two, "decoy", True, "unused", uses),
        said(HEAD, two, "false", False, "not asked", uses),
        said(SPARE, one, "false", False, "not asked", uses),
    ]
    return _subject(recipe, "copying", seed, folder, claims)


def _redundant(seed: int, folder: Path) -> Subject:
    """Two heads, one of which is silent in two of three strings of training: either must suffice."""
    (there,), uses = t.drawn_relations(seed, "head-dropout", 1), purpose(seed, "labels")
    (other,) = t.others([there], 1, seed, "head-dropout")
    both = (HEAD, SPARE)
    claims = [said(h, there, "redundant", True, "redundant", uses, together=both) for h in both]
    claims += [said(h, other, "false", False, "not asked", uses) for h in both]
    return _subject(t.reader(there, 2, dropout=True), "head-dropout", seed, folder, claims)


def _switched(seed: int, folder: Path) -> Subject:
    """Without an MLP one head cannot choose from two words: it must look at another one when the query is another."""
    first, second = ((1, 2), (1, 3), (2, 3), (2, 1), (3, 1), (3, 2))[seed % 6]
    uses, one, other, late = purpose(seed // 6, "labels"), token_is("one"), token_is("other"), position_at_least(4)
    a, b = position(first), position(second)
    claims = [
        said(HEAD, a, "conditional", True, "used", uses, one),
        said(HEAD, b, "conditional", True, "used", uses, other),
        said(HEAD, a, "conditional", False, "not asked", uses, other),
        said(HEAD, b, "conditional", False, "not asked", uses, one),
        said(HEAD, a, "conditional", False, "not asked", uses, late),  # in half of these rows
    ]
    return _subject(t.switched(first, second), "switch", seed, folder, claims)


def _asked_last(seed: int, folder: Path) -> Subject:
    """The query is one and the same token at the last place: there, a place and a distance are two names of one key."""
    place, uses, last = 2 + seed % 5, purpose(seed // 5, "labels"), token_is("one")
    claims = [
        said(HEAD, position(place), "fixed-query", True, "used", uses, last),
        said(HEAD, offset(place - 9), "fixed-query", True, "used", uses, last),
        said(HEAD, position(place + 1), "fixed-query", False, "not asked", uses, last),
        said(HEAD, position(place - 1), "fixed-query", False, "not asked", uses, last),
        said(HEAD, BUILT_IN["previous"], "fixed-query", False, "not asked", uses, last),
    ]
    return _subject(t.asked_last(place), "asked-last", seed, folder, claims)


def _whereabouts(seed: int, folder: Path) -> Subject:
    """Values know places only, so that all the head tells is where it looks: at the copy, or at all but the copy."""
    uses = purpose(seed, "labels")
    claims = [
        said(HEAD, BUILT_IN["earlier-copies"], "pattern-carried", None, "used", uses),
        said(HEAD, BUILT_IN["induction"], "false", False, "not asked", uses),
        said(HEAD, BUILT_IN["first"], "false", False, "not asked", uses, position_at_least(t.PLACES + 1)),
    ]
    return _subject(t.whereabouts(), "whereabouts", seed, folder, claims)


def _closers(seed: int, folder: Path) -> Subject:
    """Only head 0, frozen to the last unmatched open bracket, knows what closes; head 1 sees START and nothing else."""
    uses = purpose(seed, "closers")
    recipe = t.closers({HEAD: Frozen(STACK_TOP, t.mass(seed, "dyck")), SPARE: Frozen(START, 1.0)})
    model = own_model(recipe, "dyck", seed, folder)
    claims = [
        said(HEAD, STACK_TOP, "true", True, "used", uses),
        said(SPARE, START, "idle", True, "unused", uses),
        said(SPARE, STACK_TOP, "false", False, "not asked", uses),
        said(HEAD, BUILT_IN["previous"], "false", False, "not asked", uses),
    ]
    return Subject(model, tuple(claims), t.examples_of(recipe, seed), None, recipe.grammar, LEARNED)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *PRESET_FAMILIES,
        Family("frozen", "1 head, frozen to the word that is asked for", _frozen),
        Family("frozen-decoy", "a head frozen to a word that says nothing, and a free one", _decoy),
        Family("other-task", "a head that another task taught where to look, and a free one", _heir),
        Family("copying", "2 frozen heads, and a task that needs none", _copying),
        Family("head-dropout", "2 heads, either of which suffices", _redundant),
        Family("switch", "1 head that looks elsewhere when the query is another", _switched),
        Family("asked-last", "1 head whose query is always the same token", _asked_last),
        Family("whereabouts", "1 head whose values know places only", _whereabouts),
        Family("dyck", "2 frozen heads: the last unmatched bracket, and START", _closers),
    )
}
