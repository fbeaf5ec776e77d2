"""The families of the claim bench: what a claim's model looks like, and what is true of it, by construction.

- *true*: the head attends as claimed, and what it reads there moves the answer.
- *decoy*: it attends as claimed, and what it reads there cannot move the answer, which the model finds another way.
- *false*: it attends otherwise.
- *undecidable*: the inputs do not tell.

Everything else about a model is drawn: world, direction and padding, language model or classifier, norms, layers,
heads, where the heads sit, how sharp their patterns are and where the rest goes, and what the other heads do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probes.audit.bench.drafts import CONTEXT, EXTRA, Draft
from probes.audit.bench.model import Norm, Script, Slot
from probes.claims import (
    BUILT_IN,
    BUILT_IN_CONDITIONS,
    Condition,
    Relation,
    depth_at_least,
    position,
    position_at_least,
    token,
)

Kind = Literal["true", "decoy", "false", "undecidable"]
Head = tuple[Slot, ...]
Told = tuple[Head, Relation, Condition | None]  # heads, relation and condition of the claim


@dataclass(frozen=True)
class Family:
    """`write` puts the heads in and says what is claimed. `needs`: heads, and layers, at the least.

    `norms`: those under which the construction is exact. `types`: how many it needs.
    """

    name: str
    kind: Kind
    write: Callable[[Draft], Told]
    needs: tuple[int, int] = (1, 1)
    norms: tuple[Norm, ...] = ("none", "final", "full")
    types: int | None = None


# -- true ---------------------------------------------------------------------------------------------------


def _solo(d: Draft) -> Told:
    return (d.voter(d.script(d.world.relation)),), d.world.relation, None


def _helped(d: Draft) -> Told:
    """Other heads say the same, so that a part of the margin is its own: 15 to 50 %."""
    own = d.between(0.15, 0.5)
    for share in (1 - own,) if d.n_layers * d.n_heads == 2 else ((1 - own) / 2, (1 - own) / 2):
        d.voter(d.script(d.world.relation), weight=share)
    return (d.voter(d.script(d.world.relation), weight=own),), d.world.relation, None


def _sink(d: Draft) -> Told:
    """More than half of the weight rests on the first token."""
    script = replace(d.script(d.world.relation, mass=d.between(0.42, 0.55)), rest="first")
    return (d.voter(script),), d.world.relation, None


def _when(d: Draft) -> Told:
    """Only in some rows; elsewhere the head rests."""
    if d.world.name == "brackets":
        condition = d.one_of((BUILT_IN_CONDITIONS["closing"], depth_at_least(2)))
    else:
        condition = position_at_least(int(d.rng.integers(6, 13)))
    return (d.voter(d.script((condition, d.world.relation))),), d.world.relation, condition


def _negative(d: Draft) -> Told:
    """Speaks against every other answer."""
    script, t = d.script(d.world.relation), d.world.num_types
    against = d.writes("votes", -1 / script.mass, 1 - np.eye(t))
    return (d.put(d.slot(), script, d.types(centred=False), against),), d.world.relation, None


def _pair(d: Draft) -> Told:
    """Each of two heads carries one of the two bits of a type."""
    bits = np.array([[1, 1, -1, -1], [1, -1, 1, -1]])
    slots = []
    for bit in bits:
        script = d.script(d.world.relation)
        slots.append(d.put(d.slot(), script, d.types(), d.writes("votes", 1 / script.mass, np.outer(bit, bit) / 4)))
    return tuple(sorted(slots)), d.world.relation, None


def _same(d: Draft) -> Told:
    """Three heads alike, of which any two are enough."""
    d.ramp = True
    slots = [d.voter(d.script(d.world.relation, mass=d.between(0.88, 0.97))) for _ in range(3)]
    return (slots[0],), d.world.relation, None


def _two_of_four(d: Draft) -> Told:
    """Four heads alike, of which any two are enough: two must go before the claimed one is missed."""
    d.ramp = True
    slots = [d.voter(d.script(d.world.relation, mass=d.between(0.9, 0.97)), weight=0.95) for _ in range(4)]
    return (slots[0],), d.world.relation, None


def _looks_better(d: Draft) -> Told:
    """Some head is said to: another than the one that is used looks more like it."""
    sharp, used = (
        d.script(d.world.relation, mass=d.between(0.92, 0.97)),
        d.script(d.world.relation, mass=d.between(0.65, 0.8)),
    )
    d.put(d.slot(), sharp, d.types(), np.zeros((d.width, d.layout.width)))
    d.voter(replace(used, vary=0.1))  # above one half in every row: else the pattern would hold in some rows only
    return (), d.world.relation, None


def _different(d: Draft) -> Told:
    """The answer is found another way, too: alone that way is enough, and with its mean in its place this one is.

    The ramp rises from 1.25 to 1.75. The claimed head votes 1, the detour 1.05 times the number of types, its mean
    1.05: an exchange gives the foil 1, which is nothing, but 2.05 once the detour is gone.
    """
    d.ramp = True
    d.detour(weight=1.05 * d.world.num_types, vary=0.0, rest="even")
    script = d.script(d.world.relation, mass=d.between(0.92, 0.97))
    return (d.voter(replace(script, vary=0.0, rest="even")),), d.world.relation, None


def _repaired(d: Draft) -> Told:
    """A later head stands by: it looks where the first one does not say what is there, and outvotes it."""
    script = replace(d.script(d.world.relation, mass=d.between(0.85, 0.95)), rest="first")
    slot = d.voter(script, layers=range(d.n_layers - 1))
    t, strength = d.world.num_types, 24.0
    opposed = np.eye(t) * strength**0.5
    pad = np.zeros((t, EXTRA))
    backup = Script(((None, d.world.relation),), 0.5, "first", vary=0.0)
    d.put(
        d.slot(range(slot[0] + 1, d.n_layers)), backup, d.types(), d.writes("votes", 2.0),
        query=d.layout.out_of("votes", np.concatenate([-opposed, pad], axis=1)),
        key=d.types()[:, :t] @ np.concatenate([opposed, pad], axis=1),
    )  # fmt: skip
    return (slot,), d.world.relation, None


# -- decoys -------------------------------------------------------------------------------------------------


def _no_output(d: Draft) -> Told:
    d.solver()
    slot = d.put(d.slot(), d.script(d.world.relation), d.types(), np.zeros((d.width, d.layout.width)))
    return (slot,), d.world.relation, None


def _unread(d: Draft) -> Told:
    """Writes where no later part reads, along the mean direction if norms take that away."""
    d.solver()
    slot = d.slot()
    write = d.writes("unread", d.between(0.3, 1.0))
    if d.norm != "none" and d.rng.random() < 0.5:
        d.mean[slot] = d.rng.standard_normal(d.width)
        write = np.zeros_like(write)
    return (d.put(slot, d.script(d.world.relation), d.types(), write),), d.world.relation, None


def _constant(d: Draft) -> Told:
    """Adds the same to every input."""
    d.solver()
    bias = np.concatenate([d.rng.uniform(-0.5, 0.5, d.world.num_types), np.zeros(EXTRA)])
    slot = d.put(
        d.slot(), d.script(d.world.relation), np.zeros((d.layout.width, d.width)), d.writes("votes", 0.3), bias=bias
    )
    return (slot,), d.world.relation, None


def _idle(d: Draft) -> Told:
    """Two heads are claimed together, and one of them does all of it."""
    used = d.voter(d.script(d.world.relation))
    idle = d.put(d.slot(), d.script(d.world.relation), d.types(), d.writes("unread", d.between(0.1, 0.6)))
    return tuple(sorted((used, idle))), d.world.relation, None


def _other_task(d: Draft) -> Told:
    """Moves other outputs than those the task is about."""
    d.solver()
    slot = d.put(d.slot(), d.script(d.world.relation), d.types(), d.writes("other", d.between(0.5, 1.5)))
    return (slot,), d.world.relation, None


def _cancelled(d: Draft) -> Told:
    """A later head takes away what this one adds."""
    d.solver()
    layers = [layer for layer in range(d.n_layers - 1) if any((layer, h) not in d.heads for h in range(d.n_heads))]
    layers = [
        a for a in layers if any((b, h) not in d.heads for b in range(a + 1, d.n_layers) for h in range(d.n_heads))
    ]
    slot = d.voter(d.script(d.world.relation), part="alt", layers=layers)
    undo = np.zeros((d.layout.width, d.width))
    undo[d.layout.parts["alt"], : d.world.num_types] = np.eye(d.world.num_types)
    itself = Script(((None, BUILT_IN["current"]),), 1.0, "even", vary=0.0)
    d.put(d.slot(range(slot[0] + 1, d.n_layers)), itself, undo, d.writes("alt", -1.0))
    return (slot,), d.world.relation, None


# -- false --------------------------------------------------------------------------------------------------


def _astray(d: Draft, script: Script) -> Told:
    """A head that attends by `script`, said to attend by the world's relation."""
    d.solver()
    part, gain = d.one_of((("votes", 0.3), ("unread", 1.0)))
    return (d.put(d.slot(), script, d.types(), d.writes(part, gain)),), d.world.relation, None


def _random(d: Draft) -> Told:
    return _astray(d, Script(rest="random", noise=int(d.rng.integers(2**31))))


def _uniform(d: Draft) -> Told:
    return _astray(d, Script())


def _tilted(d: Draft) -> Told:
    """A little more weight there than elsewhere."""
    return _astray(d, Script(((None, d.world.relation),), d.between(0.03, 0.15), "even", int(d.rng.integers(2**31))))


def _rival(d: Draft) -> Told:
    return _astray(d, d.script(d.one_of(d.world.rivals)))


def _half(d: Draft) -> Told:
    """As claimed in every other row."""
    even = Condition("even", "the position is even", "tokens", _even_rows)
    return _astray(d, d.script((even, d.world.relation)))


def _even_rows(tokens: Any, grammar: Any, keys: Any) -> NDArray[np.bool_]:
    return np.broadcast_to(np.arange(tokens.shape[1]) % 2 == 0, tokens.shape)


def _swapped(d: Draft) -> Told:
    """It is another head that does so."""
    d.voter(d.script(d.world.relation))
    script = d.one_of((d.script(), d.script(d.one_of(d.world.rivals)), Script()))
    slot = d.put(d.slot(), script, d.types(), d.writes("unread", 1.0))
    return (slot,), d.world.relation, None


def _drifting(d: Draft) -> Told:
    """As claimed early on, otherwise later."""
    turn = position_at_least(int(d.rng.integers(9, 14)))
    return _astray(d, d.script((turn, d.one_of(d.world.rivals)), d.world.relation))


def _other_edges(d: Draft) -> Told:
    """Used for the task said, but reading elsewhere."""
    return (d.detour()[1],), d.world.relation, None


# -- undecidable --------------------------------------------------------------------------------------------


def _never(d: Draft) -> Told:
    """Said of rows, or of keys, that the inputs do not have."""
    slot = d.voter(d.script(d.world.relation))
    if d.world.name == "brackets":
        return (slot,), d.world.relation, depth_at_least(d.world.grammar.max_depth + 1)
    return (slot,), position(CONTEXT - 5), None


def _alike(d: Draft) -> Told:
    """Two relations that are one and the same on these inputs: see `cases`."""
    relation = d.world.relation if d.world.name == "brackets" else token("[SEP]")
    slot = d.put(d.slot(), d.script(relation), d.types(), d.writes("votes", 1.0))
    return (slot,), relation, None


EXACT: tuple[Norm, ...] = ("none", "final")
FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family("solo", "true", _solo),
        Family("one of several", "true", _helped, (2, 1)),
        Family("redundant, same pattern", "true", _same, (3, 1), EXACT),
        Family("redundant, other pattern", "true", _different, (3, 2), EXACT),
        Family("any two of four", "true", _two_of_four, (4, 1), EXACT),
        Family("another looks better", "true", _looks_better, (2, 1)),
        Family("half the information each", "true", _pair, (2, 1), types=4),
        Family("strong sink", "true", _sink),
        Family("under a condition", "true", _when),
        Family("negative values", "true", _negative),
        Family("self-repaired", "true", _repaired, (2, 2), EXACT),
        Family("no output", "decoy", _no_output, (3, 2)),
        Family("unread", "decoy", _unread, (3, 2)),
        Family("constant", "decoy", _constant, (3, 2)),
        Family("for another task", "decoy", _other_task, (3, 2)),
        Family("cancelled", "decoy", _cancelled, (5, 2), EXACT),
        Family("one of two idle", "decoy", _idle, (2, 1)),
        Family("random", "false", _random, (3, 2)),
        Family("uniform", "false", _uniform, (3, 2)),
        Family("slightly tilted", "false", _tilted, (3, 2)),
        Family("a rival", "false", _rival, (3, 2)),
        Family("half of the rows", "false", _half, (3, 2)),
        Family("head swapped", "false", _swapped, (2, 1)),
        Family("drifting", "false", _drifting, (3, 2)),
        Family("along other edges", "false", _other_edges, (3, 2)),
        Family("never applies", "undecidable", _never),
        Family("alike", "undecidable", _alike),
    )
}
