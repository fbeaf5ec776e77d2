"""Transformers whose heads are written down: the models of the claim bench.

A `BenchModel` is a `SandboxTransformer` but for one thing: the weights of its attention are given by a `Script`, a
function of the tokens, times whatever its queries and keys add. Values, output matrices, norms, MLP and unembedding
are those of any Transformer. So it is known what every head attends to, and what becomes of it.

The residual stream has named parts (`Layout`), turned by a random rotation, so that no coordinate means anything;
no part has a component along the mean direction, which a LayerNorm removes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interp.config import TransformerConfig
from interp.model import SandboxTransformer
from interp.model.masks import Prepared
from interp.model.parts import Attention, LayerNorm
from interp.rng import generator
from probes.audit.inputs import visible_keys
from probes.claims import Condition, Pairs, Relation, Tokens

Floats = NDArray[np.float64]
Norm = Literal["none", "final", "full"]  # no norm at all, the last one only, or one before every part too
Slot = tuple[int, int]  # layer, head
HELD = 8  # batches whose scripts are kept


@dataclass(frozen=True)
class Script:
    """Where a head attends: `mass` on the keys of the first branch whose condition holds, `rest` elsewhere.

    In rows without such a key everything is `rest`: `even`ly over what is visible, on the `first` token, or at
    `random` (a fixed draw by position and token, keyed by `noise`). The mass varies by row, by up to 10 %.
    """

    branches: tuple[tuple[Condition | None, Relation], ...] = ()
    mass: float = 0.9
    rest: Literal["even", "first", "random"] = "even"
    noise: int = 0
    vary: float = 0.1

    def weights(self, tokens: Tokens, grammar: Any, seen: Pairs, own: Pairs) -> Floats:
        """[batch, query, key], rows summing to 1; `seen`: for relations; `own`: what the model sees, never empty."""
        rng = generator(self.noise, "bench/script")
        n = tokens.shape[1]
        mass = self.mass * (1 + self.vary * (rng.random(64)[:n] - 1))
        chosen = np.zeros_like(seen)
        open_rows = np.ones(tokens.shape, dtype=bool)
        for condition, relation in self.branches:
            keys = relation.keys(tokens, grammar, seen)
            rows = open_rows if condition is None else open_rows & condition.rows(tokens, grammar, keys)
            chosen |= keys & rows[..., None]
            open_rows = open_rows & ~rows
        size = chosen.sum(-1, keepdims=True)
        rest = self._rest(tokens, own, rng)
        share = np.where(size > 0, mass[None, :, None], 0.0)
        return np.asarray(share * chosen / np.maximum(size, 1) + (1 - share) * rest)

    def _rest(self, tokens: Tokens, own: Pairs, rng: np.random.Generator) -> Floats:
        n = tokens.shape[1]
        if self.rest == "even":
            scores = np.zeros(own.shape)
        elif self.rest == "first":
            scores = np.where(own[:, :, :1], np.where(np.arange(n) == 0, 0.0, -np.inf), 0.0)
        else:
            scores = (
                1.5 * rng.standard_normal((64, 64))[:n, :n]
                + rng.standard_normal((64, 64))[tokens[:, :, None] % 64, tokens[:, None, :] % 64]
            )
        scores = np.where(own, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(weights / weights.sum(-1, keepdims=True))


@dataclass(frozen=True)
class HeadPlan:
    """One head: what it reads from the stream [width, d_head] and writes to it [d_head, width], by parts.

    `bias`: added to every value [d_head]. `query`, `key` [width, d_head]: scores added to the script's.
    """

    script: Script
    read: Floats
    write: Floats
    bias: Floats | None = None
    query: Floats | None = None
    key: Floats | None = None


@dataclass(frozen=True)
class Layout:
    """Parts of the residual stream, by name: their columns among `width`."""

    parts: Mapping[str, slice]

    @classmethod
    def of(cls, **sizes: int) -> "Layout":
        ends = np.cumsum([0, *sizes.values()])
        return cls({name: slice(int(a), int(b)) for name, a, b in zip(sizes, ends[:-1], ends[1:], strict=True)})

    @property
    def width(self) -> int:
        return max(part.stop for part in self.parts.values())

    def into(self, name: str, matrix: Floats) -> Floats:
        """`matrix` [d, size of the part] as a map [d, width] that writes there."""
        out = np.zeros((len(matrix), self.width))
        out[:, self.parts[name]] = matrix
        return out

    def out_of(self, name: str, matrix: Floats) -> Floats:
        """`matrix` [size of the part, d] as a map [width, d] that reads there."""
        return self.into(name, matrix.T).T


@dataclass(frozen=True)
class Plan:
    """A whole model. `unembed` [width, d_out]; `ramp`: see `step_mlp`; `mean`: what a head writes along the mean.

    `positions` [n_ctx, width]: what each position adds to the embedding; `bias` [d_out]: of the unembedding.
    """

    layout: Layout
    heads: Mapping[Slot, HeadPlan]
    n_layers: int
    n_heads: int
    norm: Norm
    embed: Floats
    unembed: Floats
    positions: Floats
    direction: Literal["causal", "bidirectional"]
    ramp: tuple[str, str] | None = None
    mean: Mapping[Slot, Floats] | None = None
    bias: Floats | None = None


@dataclass(frozen=True)
class Scripted(Prepared):
    """What the blocks are told about keys: log weights [head, batch, query, key] of each layer."""

    layers: list[Tensor]

    def __getitem__(self, at: Any) -> "Scripted":
        """Of some queries, as of a mask of visible keys."""
        return Scripted([weights[at] for weights in self.layers])


class ScriptedAttention(Attention):
    """Scores are the log of a script's weights, plus query times key."""

    def __init__(self, config: TransformerConfig, layer: int):
        super().__init__(config, project_output=True)
        self.layer = layer

    def attend(
        self, x: Tensor, visible: Any, tokens: Tensor | None = None, norm: LayerNorm | None = None
    ) -> tuple[Tensor, Tensor]:
        script = visible.layers[self.layer]
        q, k, v = self.read(x, script.shape[-2], tokens, norm)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) + script
        return self.hook_attn_scores(scores).softmax(-1), v


class BenchModel(SandboxTransformer):
    """A model built from a `Plan`."""

    def __init__(self, plan: Plan, grammar: Any, seed: int):
        width = plan.layout.width + 2
        super().__init__(_config(plan, grammar, width), grammar, {"seed": seed, "trained": False})
        self.plan = plan
        self._held: dict[bytes, Scripted] = {}
        for layer, block in enumerate(self.blocks):
            block.attn = ScriptedAttention(self.config, layer)
            if plan.norm == "final":
                block.ln1, block.ln2 = nn.Identity(), nn.Identity()
        _fill(self, plan, generator(seed, "bench/rotation"))
        self.setup()
        self.eval()

    def forward(self, tokens: Any, return_type: str | None = "logits", **how: Any) -> Any:
        """As a `SandboxTransformer`."""
        tokens = self.to_tokens(tokens)
        return super().forward(tokens, return_type, **{**how, "visible": self.scripted(tokens)})

    def scripted(self, tokens: Tensor) -> Scripted:
        """The scripts of all heads on these tokens."""
        ids = tokens.cpu().numpy()
        key = ids.tobytes() + bytes(str(ids.shape), "ascii")
        if key not in self._held:
            while len(self._held) >= HELD:
                del self._held[next(iter(self._held))]
            seen = visible_keys(self, ids, self.grammar)
            own = self.visible_keys(tokens)[:, 0].cpu().numpy()
            made: dict[Script, Floats] = {}
            for head in self.plan.heads.values():
                if head.script not in made:
                    made[head.script] = head.script.weights(ids, self.grammar, seen, own)
            with np.errstate(divide="ignore"):
                logs = [
                    np.stack([np.log(made[self.plan.heads[layer, h].script]) for h in range(self.plan.n_heads)], axis=1)
                    for layer in range(self.plan.n_layers)
                ]
            self._held[key] = Scripted([torch.from_numpy(x).float() for x in logs])
        return self._held[key]


def step_mlp(layout: Layout, source: str, target: str) -> tuple[Floats, Floats, Floats]:
    """(W_in, b_in, W_out) of an MLP of ReLUs that is 0 up to 1.25 and 1 from 1.75 on, coordinate by coordinate.

    With it, three votes of weight 1 (or two of weights 1 and 2) give what any two of them give: a majority.
    """
    size = layout.parts[source].stop - layout.parts[source].start
    eye = np.eye(size)
    w_in = layout.out_of(source, np.concatenate([eye, eye], axis=1))
    b_in = np.concatenate([np.full(size, -1.25), np.full(size, -1.75)])
    return w_in, b_in, layout.into(target, np.concatenate([2 * eye, -2 * eye]))


def _config(plan: Plan, grammar: Any, width: int) -> TransformerConfig:
    d_head = next(iter(plan.heads.values())).read.shape[1]
    return TransformerConfig(
        d_vocab=grammar.vocab_size, n_layers=plan.n_layers, n_heads=plan.n_heads, d_model=width, d_head=d_head,
        d_mlp=2 * (plan.layout.parts["votes"].stop - plan.layout.parts["votes"].start),
        mlp_depth=2 if plan.ramp else 0, n_ctx=len(plan.positions), positions="learned", activation="relu",
        norm="none" if plan.norm == "none" else "LNPre", direction=plan.direction,
        d_vocab_out=plan.unembed.shape[1], pad_token=grammar.pad, scale_scores=False,
    )  # fmt: skip


def _fill(model: BenchModel, plan: Plan, rng: np.random.Generator) -> None:
    """Weights from parts: `turn` [width, d_model] has orthonormal rows without a mean."""
    d_model = model.config.d_model
    square = np.concatenate([np.ones((d_model, 1)), rng.standard_normal((d_model, d_model - 1))], axis=1)
    basis = np.linalg.qr(square)[0].T
    turn, mean = basis[1 : plan.layout.width + 1], np.full(d_model, d_model**-0.5)
    # Values are read through a norm that makes the stream's square mean 1.
    loud = d_model**-0.5 if plan.norm == "full" else 1.0

    def put(weight: Tensor, value: Floats) -> None:
        weight.data.copy_(torch.from_numpy(np.ascontiguousarray(value)).float())

    put(model.embed.W_E, plan.embed @ turn)
    put(model.pos_embed.W_pos, plan.positions @ turn)
    put(model.unembed.W_U, turn.T @ plan.unembed)
    if plan.bias is not None:
        put(model.unembed.b_U, plan.bias)
    for (layer, h), head in plan.heads.items():
        attn, d_head = model.blocks[layer].attn, head.read.shape[1]
        mix = np.linalg.qr(rng.standard_normal((d_head, d_head)))[0]  # no coordinate of a head means anything either
        put(attn.W_V[h], turn.T @ head.read @ mix * loud)
        along = np.zeros((d_head, d_model))
        if plan.mean and (layer, h) in plan.mean:
            along = np.outer(plan.mean[layer, h], mean)
        put(attn.W_O[h], mix.T @ (head.write @ turn + along))
        if head.bias is not None:
            put(attn.b_V[h], head.bias @ mix)
        if head.query is not None and head.key is not None:
            put(attn.W_Q[h], turn.T @ head.query * loud)
            put(attn.W_K[h], turn.T @ head.key * loud)
    if plan.ramp:
        w_in, b_in, w_out = step_mlp(plan.layout, *plan.ramp)
        last = model.blocks[-1].mlp
        put(last.W_in, turn.T @ w_in)
        put(last.b_in, b_in)
        put(last.W_out, w_out @ turn)
