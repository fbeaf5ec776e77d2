"""The models that are audited, group by group: trained, untrained and constructed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from case_studies.dyck_attention.families import LINEAR, MINIMAL, OTHERS, RELEASED, STANDARD, TABLE
from case_studies.dyck_copying.measure import RELEASED_BLOCK
from case_studies.head_claims.said import (
    DYCK,
    FIRST_EVEN,
    LAST_EVEN,
    LAST_EVEN_USED,
    STACK,
    STACK_USED,
    Statement,
    copying,
)
from case_studies.populations import Family
from case_studies.study import Obtained
from interp import Population, load_checkpoint
from interp.worlds.dyck.recipes import grammar_of
from interp.worlds.dyck.task import in_distribution
from probes.claims import Claim

OWN_STRINGS = 1200  # held-out strings drawn where a group is audited on those it is trained on; distinct ones count
CONSTRUCTED = "constructed"


@dataclass(frozen=True)
class Models:
    """Models under audit and what they are: a digest of their weights, or their name where these are set by hand."""

    models: Any
    identity: str


@dataclass(frozen=True)
class Group:
    """Models under one name.

    - `kind`: `dyck` and `copying` are trained, `null` is a trained family before training, `control` is constructed.
    - `family`: of all but controls; `bundled`: a checkpoint that serves a run with few seeds.
    - `own_strings`: audited on held-out strings of the training law, not on prefixes of one length.
    - `known`: of controls, verdicts that follow from the construction, by statement.
    - `settings`: audited again in other settings, in a study of how much of a verdict they decide.
    """

    name: str
    kind: Literal["dyck", "copying", "null", "control"]
    family: Family | None = None
    bundled: str | None = None
    own_strings: bool = False
    known: tuple[tuple[str, str], ...] = ()
    settings: bool = True

    @property
    def copies(self) -> bool:
        """Whether the models repeat their input."""
        return self.family is not None and grammar_of(self.family.recipe).copies

    def models(self, one: Obtained) -> Models:
        """The models of a population, before training where the group is a null."""
        if self.kind == "null":
            return Models(one.population.untrained(), f"{one.bundled or one.digest}, untrained")
        return Models(one.population, f"{one.bundled}, bundled" if one.bundled else one.digest)

    def constructed(self) -> Models:
        """The model that a control is."""
        return Models(load_checkpoint(self.name), self.name)

    def inputs(self) -> NDArray[np.int64] | None:
        """Token ids [input, pos] where the group has its own; None: prefixes drawn by the audit."""
        if not self.own_strings:
            return None
        assert self.family is not None
        return np.asarray(in_distribution(self.family.recipe, OWN_STRINGS).inputs, np.int64)


def _control(name: str, *known: tuple[str, str]) -> Group:
    return Group(f"{CONSTRUCTED}/{name}", "control", known=known)


COPY_FOUR = Family("copying, 4 layers", "dyck-copy")
COPY_ONE = Family("copying, 1 layer", "dyck-copy", {"layers": 1})
# Trained in `dyck-copying` too: the block of the paper's released code.
COPY_RELEASED = Family("copying, 4 layers, released block", "dyck-copy", RELEASED_BLOCK)
PAPER = replace(TABLE[0].family, name="paper's block (eq. 6)")
UNIFORM = OTHERS[-1]

GROUPS = (
    Group(STANDARD.name, "dyck", STANDARD, "dyck-standard"),
    Group(f"{STANDARD.name}, strings as trained", "dyck", STANDARD, "dyck-standard", own_strings=True),
    Group(LINEAR.name, "dyck", LINEAR),
    Group(PAPER.name, "dyck", PAPER),
    Group(RELEASED[0].name, "dyck", RELEASED[0]),
    Group(MINIMAL.name, "dyck", MINIMAL, "dyck-minimal"),
    Group(UNIFORM.name, "dyck", UNIFORM),
    Group(f"{STANDARD.name}, untrained", "null", STANDARD, "dyck-standard"),
    # What each is proven to do: layer 0 of `stack` is even, its layer 1 reads the last unmatched open bracket, and
    # the law rests on it; `constant` shows the same patterns and ignores them; `uniform` and `balanced` read all.
    _control("stack", (STACK, "supported"), (STACK_USED, "supported"), (FIRST_EVEN, "supported"),
             (LAST_EVEN, "refuted")),
    _control("constant", (STACK, "supported"), (STACK_USED, "misleading"), (FIRST_EVEN, "supported"),
             (LAST_EVEN, "refuted")),
    _control("uniform", (STACK, "refuted"), (FIRST_EVEN, "supported"), (LAST_EVEN, "supported"),
             (LAST_EVEN_USED, "supported")),
    _control("balanced", (STACK, "refuted")),
    Group(COPY_FOUR.name, "copying", COPY_FOUR),
    Group(COPY_ONE.name, "copying", COPY_ONE),
    Group(f"{COPY_FOUR.name}, untrained", "null", COPY_FOUR),
    Group(COPY_RELEASED.name, "copying", COPY_RELEASED, settings=False),
)  # fmt: skip


def quick_groups() -> Sequence[Group]:
    """What needs no training but that of small copying models."""
    return [g for g in GROUPS if (g.bundled and not g.own_strings) or g.family is None or g.name == COPY_ONE.name]


def statements_of(
    group: Group, grammar: Any, copying: Callable[[Any], tuple[Statement, ...]], quick: bool = False
) -> tuple[Statement, ...]:
    """What is asked of a group; `quick`: the primary statements, so few that eight seeds can decide them."""
    asked = copying(grammar) if group.copies else DYCK
    return tuple(s for s in asked if s.primary) if quick else asked


def primary_claims(group: Group, population: Population) -> list[tuple[Statement, list[Claim]]]:
    """The primary statements about a group of models, each as the claims that an audit decides."""
    asked = statements_of(group, population.grammar, copying, quick=True)
    pairs = [(statement, statement.claims(population.config.n_layers)) for statement in asked]
    return [(statement, claims) for statement, claims in pairs if claims]
