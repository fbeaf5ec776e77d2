"""A model of the bench being drawn up: heads are put into free slots, and what is left over is filled."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.audit.bench.model import BenchModel, HeadPlan, Layout, Norm, Plan, Script, Slot
from probes.audit.bench.worlds import World
from probes.claims import Condition, Relation

Floats = NDArray[np.float64]
CONTEXT, EXTRA, UNREAD = 40, 3, 6  # positions; what values carry beside types; coordinates that nothing reads


@dataclass
class Draft:
    """A model being drawn up: free slots, and the heads put in so far."""

    rng: np.random.Generator
    world: World
    n_layers: int
    n_heads: int
    norm: Norm
    heads: dict[Slot, HeadPlan] = field(default_factory=dict)
    mean: dict[Slot, Floats] = field(default_factory=dict)
    ramp: bool = False
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        t = self.world.num_types
        self.layout = Layout.of(
            token=self.world.grammar.vocab_size, place=4, votes=t, alt=t, below=t, out=t, other=t, unread=UNREAD
        )

    # -- drawing ------------------------------------------------------------------------------------

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def slot(self, layers: Sequence[int] | None = None) -> Slot:
        """A free place, in one of these layers."""
        free = [
            (layer, head)
            for layer in (range(self.n_layers) if layers is None else layers)
            for head in range(self.n_heads)
            if (layer, head) not in self.heads
        ]
        chosen: Slot = self.one_of(free)
        return chosen

    def script(self, *branches: Relation | tuple[Condition | None, Relation], mass: float | None = None) -> Script:
        """Mostly where the branches say, the rest anywhere."""
        pairs = tuple(b if isinstance(b, tuple) else (None, b) for b in branches)
        mass = self.between(0.65, 0.97) if mass is None else mass
        rest, noise = self.one_of(("even", "first", "random")), int(self.rng.integers(2**31))
        return Script(pairs, mass, rest, noise, vary=self.between(0.0, 0.25))

    # -- circuits -----------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.world.num_types + EXTRA

    def types(self, centred: bool = True) -> Floats:
        """Reads the type of a token off its embedding [stream, d_head]; what else it reads, nothing writes on."""
        t, kinds = self.world.num_types, self.world.types
        table = np.where(kinds[:, None] == np.arange(t), 1.0, 0.0)
        if centred:
            table[kinds >= 0] -= 1 / t
        extra = 0.3 * self.rng.standard_normal((len(kinds), EXTRA))
        return self.layout.out_of("token", np.concatenate([table, extra], axis=1))

    def fetched(self) -> Floats:
        """Reads a type that an earlier head has put into `below` [stream, d_head]."""
        return self.layout.out_of("below", np.eye(self.world.num_types, self.width))

    def writes(self, part: str, gain: float, code: Floats | None = None) -> Floats:
        """Writes the type to a part of the stream [d_head, stream]."""
        t = self.world.num_types
        matrix = np.zeros((self.width, t))
        matrix[:t] = gain * (np.eye(t) if code is None else code)
        if part == "unread":
            matrix = matrix @ self.rng.standard_normal((t, UNREAD)) / UNREAD**0.5
        return self.layout.into(part, matrix)

    def put(self, slot: Slot, script: Script, read: Floats, write: Floats, **more: Any) -> Slot:
        self.heads[slot] = HeadPlan(script, read, write, **more)
        return slot

    def voter(
        self, script: Script, *, weight: float = 1.0, part: str = "votes", layers: Sequence[int] | None = None
    ) -> Slot:
        """A head that votes for the type of what it attends to."""
        read = self.types(centred=not self.ramp)
        return self.put(self.slot(layers), script, read, self.writes(part, weight / script.mass))

    def detour(self, weight: float = 1.0, **more: Any) -> tuple[Slot, Slot]:
        """Two heads that find the answer another way: see `World.detour`. `more`: of their scripts."""
        first, second = self.world.detour
        early = self.slot(range(self.n_layers - 1))
        sharp = [replace(self.script(r, mass=self.between(0.85, 0.97)), **more) for r in (first, second)]
        read = self.types(centred=not self.ramp)
        one = self.put(early, sharp[0], read, self.writes("below", 1 / sharp[0].mass))
        late = self.slot(range(early[0] + 1, self.n_layers))
        return one, self.put(late, sharp[1], self.fetched(), self.writes("votes", weight / sharp[1].mass))

    def solver(self) -> None:
        """Whatever makes the model right, without the claimed head."""
        if self.rng.random() < 0.5:
            self.detour()
        else:
            self.voter(self.script(self.world.relation, mass=self.between(0.8, 0.97)))

    # -- the model ----------------------------------------------------------------------------------

    def build(self, seed: int) -> BenchModel:
        """Other heads put in wherever there is room; all of them write where nothing reads."""
        rng, world = self.rng, self.world
        for layer in range(self.n_layers):
            for head in range(self.n_heads):
                if (layer, head) in self.heads:
                    continue
                kinds = (self.script(), self.script(self.one_of(world.rivals)), Script(rest="even"))
                read = self.types() + 0.1 * rng.standard_normal((self.layout.width, self.width))
                self.put((layer, head), self.one_of(kinds), read, self.writes("unread", self.between(0.1, 0.6)))
        t, scale = world.num_types, self.between(2.0, 6.0)
        bias = np.zeros(world.num_outputs)
        unembed = np.zeros((self.layout.width, world.num_outputs))
        for part in ("out",) if self.ramp else ("votes", "alt"):
            unembed[self.layout.parts[part], world.answers] = np.eye(t) * scale
        rest = np.setdiff1d(np.arange(world.num_outputs), world.answers)
        unembed[self.layout.parts["other"]][:, rest] = 0.0
        for i in range(t):
            unembed[self.layout.parts["other"].start + i, rest[i % len(rest)]] = scale
        if rng.random() < 0.2:  # an output that never comes, as decoders mask them
            bias[rest[int(rng.integers(len(rest)))]] = -(10.0 ** rng.integers(4, 10))
        embed = self.layout.into("token", np.eye(world.grammar.vocab_size))
        places = self.layout.into("place", 0.3 * rng.standard_normal((CONTEXT, 4)))
        plan = Plan(
            self.layout, dict(self.heads), self.n_layers, self.n_heads, self.norm, embed, unembed, places,
            world.direction, ("votes", "out") if self.ramp else None, dict(self.mean) or None, bias,
        )  # fmt: skip
        return BenchModel(plan, world.grammar, seed)
