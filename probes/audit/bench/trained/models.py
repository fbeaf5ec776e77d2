"""Models of the trained bench that no preset makes: what is frozen in them, and a loop that trains one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import TrainingError
from interp.model import SandboxTransformer
from interp.model.init import init_params
from interp.rng import generator
from interp.threads import one_thread
from probes.audit.bench.model import Scripted, ScriptedAttention
from probes.audit.bench.trained.cases import NO_LABEL, Examples, Head, Ints
from probes.claims import Relation

HELD = 4  # batches whose frozen weights are kept


@dataclass(frozen=True)
class Frozen:
    """Where a frozen head attends: `mass` evenly on the relation's keys, the rest on the first token.

    In a row without a key everything lies on the first token.
    """

    relation: Relation
    mass: float

    def weights(self, tokens: Ints, grammar: Any) -> np.ndarray:
        """[batch, query, key], rows summing to 1."""
        n = tokens.shape[1]
        seen = np.broadcast_to(np.tri(n, dtype=bool), (len(tokens), n, n))
        keys = self.relation.keys(tokens, grammar, seen)
        size = keys.sum(-1, keepdims=True)
        share = np.where(size > 0, self.mass, 0.0)
        out = share * keys / np.maximum(size, 1)
        out[..., 0] += (1 - share)[..., 0]
        return np.asarray(out)


class FrozenModel(SandboxTransformer):
    """A causal model of one layer, some of whose heads attend by a relation whatever is learned.

    Scores of a frozen head are the logs of its weights; those of the others are its queries times its keys.
    """

    def __init__(self, config: TransformerConfig, grammar: Any, frozen: Mapping[Head, Frozen]):
        super().__init__(config, grammar, {"trained": True})
        self.frozen = dict(frozen)
        self._held: dict[bytes, Scripted] = {}
        for layer, block in enumerate(self.blocks):
            block.attn = ScriptedAttention(config, layer)
        self.setup()
        self.eval()

    def forward(self, tokens: Any, return_type: str | None = "logits", **how: Any) -> Any:
        """As a `SandboxTransformer`."""
        tokens = self.to_tokens(tokens)
        return super().forward(tokens, return_type, **{**how, "visible": self.scripted(tokens)})

    def scripted(self, tokens: Tensor) -> Scripted:
        """Log weights [batch, head, query, key] of each layer: 0 for what a free head may see."""
        ids = tokens.cpu().numpy()
        key = ids.tobytes() + bytes(str(ids.shape), "ascii")
        if key not in self._held:
            while len(self._held) >= HELD:
                del self._held[next(iter(self._held))]
            layers = []
            for layer in range(self.config.n_layers):
                heads = [self._weights(ids, (layer, head)) for head in range(self.config.n_heads)]
                with np.errstate(divide="ignore"):
                    layers.append(torch.from_numpy(np.log(np.stack(heads, axis=1))).float())
            self._held[key] = Scripted(layers)
        return self._held[key]

    def _weights(self, ids: Ints, head: Head) -> np.ndarray:
        if head in self.frozen:
            return self.frozen[head].weights(ids, self.grammar)
        n = ids.shape[1]
        return np.broadcast_to(np.tri(n), (len(ids), n, n))


@dataclass(frozen=True)
class Recipe:
    """How a model of our own is made and trained.

    - `draw(rng, count)`: strings with their labels.
    - `frozen`: heads that attend by a relation.  `dropout`: in two of three strings one head of two is silent.
    - `blind`: coordinates of the stream that no value reads (those of token identity, say).
    - `inherits`: the recipe of a model of one head, trained before, whose embeddings, norm, queries and keys are head
      0's here and stay as they are: it looks where that task taught it to, and serves this one with its values only.
    """

    config: TransformerConfig
    grammar: Any
    draw: Callable[[np.random.Generator, int], Examples]
    steps: int = 250
    batch: int = 64
    lr: float = 1e-2
    frozen: Mapping[Head, Frozen] = field(default_factory=dict)
    dropout: bool = False
    blind: slice | None = None
    inherits: "Recipe | None" = None

    def build(self) -> SandboxTransformer:
        """The model, its weights zero."""
        if self.frozen:
            return FrozenModel(self.config, self.grammar, self.frozen)
        return SandboxTransformer(self.config, self.grammar, {"trained": True})


def train(recipe: Recipe, seed: int) -> SandboxTransformer:
    """The model of a seed: a function of (recipe, seed). Raises `TrainingError` if the loss is not finite."""
    model = recipe.build()
    model.load_state_dict(init_params(model, recipe.config.init_std, recipe.config.n_layers, seed))
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.lr)
    silence = _silence(model, seed) if recipe.dropout else None
    elder = None if recipe.inherits is None else train(recipe.inherits, seed)
    _keep_frozen(model, recipe, elder)
    with one_thread(), torch.enable_grad():
        for step in range(recipe.steps):
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr * min(1.0, (step + 1) / 20, 3 * (1 - step / recipe.steps))
            made = recipe.draw(generator(seed, "bench/trained/data", step), recipe.batch)
            logits = model(torch.from_numpy(made.tokens))
            loss = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(made.labels).flatten(), ignore_index=NO_LABEL)
            if not bool(loss.isfinite()):
                raise TrainingError(f"the loss of seed {seed} is not finite at step {step}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            _keep_frozen(model, recipe, elder)
    if silence is not None:
        silence.remove()
    return model


def _keep_frozen(model: Any, recipe: Recipe, elder: Any = None) -> None:
    """Put weights back that are not to be learned: queries and keys of frozen heads, values of blind coordinates,
    and what comes from an elder model."""
    with torch.no_grad():
        if elder is not None:
            given, own = elder.blocks[0], model.blocks[0]
            for name in ("W_Q", "W_K", "b_Q", "b_K"):
                getattr(own.attn, name)[0] = getattr(given.attn, name)[0]
            for whole, part in ((elder.embed, model.embed), (elder.pos_embed, model.pos_embed), (given.ln1, own.ln1)):
                part.load_state_dict(whole.state_dict())
        for layer, head in recipe.frozen:
            attn = model.blocks[layer].attn
            for weight in (attn.W_Q, attn.W_K, attn.b_Q, attn.b_K):
                weight[head] = 0.0
        if recipe.blind is not None:
            for block in model.blocks:
                block.attn.W_V[:, recipe.blind] = 0.0


def _silence(model: Any, seed: int) -> Any:
    """A hook that silences head 0, head 1 or none in each string."""
    rng = generator(seed, "bench/trained/dropout")

    def hook(module: Any, args: Any, z: Tensor) -> Tensor:
        silent = torch.from_numpy(rng.integers(0, 3, len(z)))
        keep = (silent[:, None] != torch.arange(2)).to(z.dtype)
        return z * keep[:, None, :, None]

    return model.blocks[0].attn.hook_z.register_forward_hook(hook)
