"""`check_audit`: what audits must be able to do in a world."""

from typing import Any

from interp.checking.subject import Subject
from interp.checking.suite import in_one_line
from interp.claims.register import claims_of, has_keys
from interp.errors import RequestError, WorldError, quoted
from interp.population import Population
from interp.registry import get_world, trying
from interp.world import World
from probes.audit import audit_claims
from probes.claims import Claim, question_for

AUDITED, LENGTH = 60, 10  # inputs of a trial audit, and their length


def check_audit(world: World | str) -> list[str]:
    """Audit untrained models of every preset: a claim about each relation, a use claim for each question; the claims.

    Each must be read back from its own words and get a verdict. Raises `WorldError` in one line where one does not.
    """
    if isinstance(world, str):
        world = get_world(world)
    elif not isinstance(world, World):
        raise RequestError(f"world={quoted(world)} is neither a World nor the name of one")
    audited: list[str] = []
    with trying(world):
        try:
            for name in world.presets:
                audited += _audited(Subject(world), name)
        except Exception as error:
            raise WorldError(f"world {quoted(world.name)} cannot be audited: {in_one_line(error)}") from error
    return audited


def _audited(subject: Subject, name: str) -> list[str]:
    preset = subject.world.presets[name]
    grammar: Any = next(one for one in subject.grammars if type(one) is preset.grammar)
    model = Population.init(preset.model(grammar), [0], grammar)[0]
    own = claims_of(grammar)
    relations = [relation for relation in own.relations if has_keys(relation, grammar)]
    claims = [Claim([(0, 0)], relation) for relation in relations]
    asked = own.questions if relations and own.question(grammar) is not None else ()
    # What a model that sees its answers is asked has to be named.
    named = model.config.direction != "causal" and not hasattr(grammar, "label_names")
    claims += [] if named else [Claim([(0, 0)], relations[0], uses=question.name) for question in asked]
    for claim in claims:
        if Claim.parse(claim.text) != claim:
            raise WorldError(
                f"the claim {quoted(claim.text)} is read as another: {quoted(Claim.parse(claim.text).text)}"
            )
    if not claims:
        return []
    how = {"num_inputs": AUDITED, "task_check": False, **_length(grammar)}
    audit_claims(model, claims, **how)
    for question in asked if named else ():
        claims.append(Claim([(0, 0)], relations[0], uses="task"))
        audit_claims(model, claims[-1:], task=question_for(grammar, question.name), **how)
    return [f"{name}: {claim.text}" for claim in claims]


def audit_once(population: Population) -> None:
    """A claim about the first relation of its world: any verdict will do. `check_world` calls it by its name."""
    relation = next(one for one in claims_of(population.grammar).relations if has_keys(one, population.grammar))
    claims = [Claim([(0, 0)], relation)]
    audit_claims(population, claims, num_inputs=AUDITED, task_check=False, **_length(population.grammar))


def _length(grammar: Any) -> dict[str, Any]:
    """Short strings, of a world that draws them of any length; the others have their own."""
    return {} if claims_of(grammar).inputs is None and hasattr(grammar, "draw") else {"length": LENGTH}
