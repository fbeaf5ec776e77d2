"""`check_world`: the suite that every world passes, built in or of another package.

    check_world("parity")                     # all checks: a few seconds, or a minute where presets are many

    @pytest.mark.parametrize(("name", "check"), world_checks("parity"))
    def test_my_world(name, check):
        check()

A check is left out where the world has not what it looks at. Of a grammar are read, where it has them: `small()`, a
class method that gives a small instance; `draw(rng, count)` and `labels(tokens)`, as `TokenTask` reads them; `law_nll`,
`rungs` and `classes`, as `plain_set` does; `enumerate()` -> (tokens [n, length], probabilities [n]) of all strings;
`format(row)` and `to_tokens(texts)`; `counterfactual(tokens, positions)`, which says what changes with a flipped token.

What fails is a `WorldError` in one line, which names the check and what was found.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from interp.checking import claims, drawn, law, questions, reference, said, shown, training
from interp.checking.subject import Subject
from interp.checking.suite import chosen, named, run_those
from interp.errors import RequestError, WorldError, quoted
from interp.registry import get_world, list_worlds, trying
from interp.world import World


@dataclass(frozen=True)
class _Check:
    """`run` looks at worlds for which `there` holds; `slow`: it trains, which takes seconds."""

    run: Callable[[Subject], None]
    there: Callable[[World], object] = lambda world: True
    slow: bool = False


def _has(*methods: str) -> Callable[[World], bool]:
    return lambda world: any(hasattr(kind, method) for kind in world.grammars for method in methods)


def _says(part: str) -> Callable[[World], object]:
    return lambda world: world.claims is not None and getattr(world.load("claims"), part)


CHECKS = {
    "parts": _Check(said.check_parts),
    "grammars": _Check(said.check_grammars),
    "texts": _Check(said.check_texts, _has("format")),
    "settings": _Check(said.check_settings),
    "presets": _Check(said.check_presets, lambda world: world.presets),
    "unread": _Check(said.check_unread, lambda world: world.unread),
    "options": _Check(said.check_options, lambda world: world.options),
    "sampling": _Check(law.check_sampling, lambda world: world.presets),
    "labels": _Check(law.check_labels_of, lambda world: _has("labels")(world) or (world.presets and not world.task)),
    "draws": _Check(drawn.check_draws, lambda world: world.finite or _has("labels")(world)),
    "law": _Check(law.check_law, lambda world: world.finite or _has("enumerate", "law_nll")(world)),
    "rungs": _Check(law.check_rungs, lambda world: world.finite or _has("rungs")(world)),
    "reference": _Check(reference.check_reference, lambda world: world.reference),
    "inputs": _Check(claims.check_inputs, lambda w: w.inputs or _has("labels")(w) or _says("inputs")(w)),
    "relations": _Check(claims.check_relations, _says("relations")),
    "conditions": _Check(claims.check_conditions, lambda w: _says("conditions")(w) or _says("suggest")(w)),
    "wordings": _Check(claims.check_wordings, lambda w: _says("relations_made")(w) or _says("conditions_made")(w)),
    "questions": _Check(questions.check_questions, _says("questions")),
    "overlays": _Check(shown.check_overlays, lambda world: world.overlays),
    "embeddings": _Check(shown.check_embeddings, lambda world: world.embeddings),
    "vouch": _Check(shown.check_vouch, lambda world: world.vouch),
    "adopt": _Check(shown.check_adopt, lambda world: world.adopt),
    "constructed": _Check(shown.check_constructed, lambda world: world.constructed),
    "training": _Check(training.check_training, lambda world: world.presets, slow=True),
    "saving": _Check(training.check_saving, lambda world: world.presets, slow=True),
    "metrics": _Check(training.check_metrics, lambda world: world.presets, slow=True),
    "audit": _Check(training.check_audit, lambda world: world.presets and _says("relations")(world), slow=True),
}
SLOW = frozenset(name for name, check in CHECKS.items() if check.slow)


def world_checks(world: World | str) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, check) of every check that the world has a part for; a check raises `WorldError` where it fails.

    `world`: a `World`, declared by a package or not, or the name of one. Checks share what they train, so run them in
    one process. Raises `RequestError` for what is no world.
    """
    subject = Subject(_world(world))
    for name, check in CHECKS.items():
        if _is_there(subject.world, check):
            yield name, _named(name, check, subject)


def check_world(world: World | str, only: str | Sequence[str] | None = None) -> list[str]:
    """Run all checks of a world, or `only` some by name, and give the names of those that were run.

    Raises `WorldError`, which names the first check that fails and what it found, in one line; `RequestError` for what
    is no world, and for the name of no check.
    """
    return run_those(world_checks(world), chosen(only, CHECKS))


def _world(given: World | str) -> World:
    if isinstance(given, World):
        return given
    if not isinstance(given, str):
        raise RequestError(f"world={quoted(given)} is neither a World nor the name of one: {', '.join(list_worlds())}")
    return get_world(given)


def _is_there(world: World, check: _Check) -> bool:
    try:
        return bool(check.there(world))
    except Exception:  # a part that cannot be imported: `parts` says so
        return False


def _named(name: str, check: _Check, subject: Subject) -> Callable[[], None]:
    run = named(f"world {quoted(subject.world.name)}", name, lambda: check.run(subject), WorldError)

    def tried() -> None:
        with trying(subject.world):
            run()

    tried.__doc__ = check.run.__doc__
    return tried
