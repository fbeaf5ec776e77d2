"""A given Transformer inside a random one: which target is covered, how wide the random one must be, the masks.

Theorem 2 of Wen et al. 2023: the random network has 4L layers. Two of them make one of the target's (Lemmas 3,
14), the *link* and the *working* layer:

    link      values masked; its MLP maps x to x at the places `outputs` of the stream and D^-1 P W_V x at
              `inputs`, both of the next layer's value matrix
    working   values D (Lemma 9): they add P W_V x to the stream at `outputs`, averaged by an attention whose
              scores are the target's (Lemma 7), after the norm; its MLP is the target's (Lemma 6)

The other 2L are *idle*: values masked, the MLP made the identity, queries and keys whatever one likes.
Embedding, positions and unembedding are the target's own, copied and padded with zeros.

The theorem asks for spectral norms of at most 1. Nothing needs that here: what is too large for one sum is
brought down by others (`_subset_sum`), at the price of width, up to `LARGEST`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from interp.config import MAX_PARAMETERS, TransformerConfig
from interp.errors import AnalysisError, RequestError
from interp.model import SandboxTransformer
from interp.rng import check_seed, generator
from probes._pruning import (
    IDENTITY,
    LARGEST,
    Diagonal,
    Index,
    Pruning,
    as_mlp,
    mlp_units,
    prune_mlp,
    prune_scores,
    prune_value,
    units_needed,
)
from probes._subset_sum import MAX_CANDIDATES, Array, Mask
from probes._ticket_target import Layer, Target

Weights = NDArray[np.float32]
Patterns = Mapping[int, Array | None]  # by layer: scores [key, query] to show, or None for none at all
STREAM = "lottery"  # of the random numbers
ATTENTION, MLPS = ("attn.W_Q", "attn.W_K", "attn.W_V"), ("mlp.W_in", "mlp.W_hid_1", "mlp.W_hid_2", "mlp.W_out")
MATRICES = (*ATTENTION, *MLPS)
SPARE = 64  # MLP units beyond what is needed: the last places are filled with whatever sign comes
LEAST_CANDIDATES = 4


# -- how wide -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Widths of a random network. The model class has one width for stream and head, so d_model = d_head."""

    d_model: int
    d_mlp: int


def sizes_needed(target: Target, candidates: int, patterns: Patterns | None = None) -> Sizes:
    """The least widths that the pruners ask for: linear in n = `candidates`, which makes error exponential in width."""
    m = target.width
    scores = [layer.scores for layer in target.layers]
    scores += [s for s in (patterns or {}).values() if s is not None]
    head = max(units_needed(s.T, candidates, IDENTITY) for s in scores)
    link = as_mlp(np.ones((m, 2)))  # entries of the map are 1 and at most 1/2 over D's 1/2
    mlps = [link, *((layer.v1, layer.v2) for layer in target.layers)]
    return Sizes(max(head, 16 * m), max(mlp_units(*mlp, candidates) for mlp in mlps) + SPARE)


def sizes_used(
    target: Target, candidates: int, d_model: int | None, d_mlp: int | None, patterns: Patterns | None = None
) -> Sizes:
    """What was asked for, if wide enough; else what is needed, rounded up to eights."""
    needed = sizes_needed(target, candidates, patterns)
    given = {"d_model": d_model, "d_mlp": d_mlp}
    for name, value in given.items():
        least = getattr(needed, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise AnalysisError(
                f"lottery ticket: {name}={value!r} is too narrow for this target with {candidates} candidates an "
                f"entry: at least {least} is needed"
            )
    sizes = Sizes(d_model or -(-needed.d_model // 8) * 8, d_mlp or -(-needed.d_mlp // 8) * 8)
    layers = 4 * len(target.layers)
    count = layers * (3 * sizes.d_model**2 + 2 * sizes.d_model * sizes.d_mlp + 2 * sizes.d_mlp**2)
    if count > 0.98 * MAX_PARAMETERS:
        raise AnalysisError(
            f"lottery ticket: a random network of {layers} layers, d_model={sizes.d_model}, d_mlp={sizes.d_mlp} has "
            f"{count:.1e} weights, more than {MAX_PARAMETERS:.0e}: take fewer candidates or a smaller target"
        )
    return sizes


def check_candidates(candidates: object) -> int:
    """`candidates` as a whole number that can be searched."""
    if isinstance(candidates, bool) or not isinstance(candidates, (int, np.integer)):
        raise RequestError(f"candidates={candidates!r} is not a whole number")
    if not LEAST_CANDIDATES <= candidates <= MAX_CANDIDATES:
        raise RequestError(f"candidates={candidates} is not within {LEAST_CANDIDATES}..{MAX_CANDIDATES}")
    return int(candidates)


# -- the random network and its masks ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Ticket:
    """A random network, drawn once, and the masks that make it the target.

    - `random`, `masks`: every matrix of the blocks by its name in the model. The pruned one is their product.
    - `copied`: what is not drawn but the target's: embedding, positions, unembedding, padded with zeros.
    - `working`: for each layer of the target the random layer whose attention and MLP are its own; the link
      is the one before. All other layers are idle.
    - `gaps`: errors of the entries of each pruned product, by the names of its two matrices.
    """

    config: TransformerConfig
    seed: int
    random: dict[str, Weights]
    masks: dict[str, Mask]
    copied: dict[str, torch.Tensor]
    working: tuple[int, ...]
    gaps: dict[str, Array]
    target: Target = field(repr=False)
    candidates: int

    @property
    def idle(self) -> tuple[int, ...]:
        """Layers that are the identity."""
        busy = {at for w in self.working for at in (w - 1, w)}
        return tuple(i for i in range(self.config.n_layers) if i not in busy)

    @property
    def density(self) -> dict[str, float]:
        """Kept share of each kind of matrix, over all layers."""
        return {
            kind: float(np.mean([self.masks[f"blocks.{i}.{kind}"].mean() for i in range(self.config.n_layers)]))
            for kind in MATRICES
        }

    def entry_errors(self) -> Array:
        """|error| of every entry that is not simply masked."""
        return np.abs(np.concatenate([gap[gap != 0] for gap in self.gaps.values()] or [np.zeros(0)]))

    def weights(self, name: str) -> Weights:
        """A pruned matrix: random times mask, 0 exactly where masked."""
        return np.where(self.masks[name], self.random[name], np.float32(0))

    def without_arrays(self) -> "Ticket":
        """For keeping many: no matrices, no masks, no gaps."""
        return replace(self, random={}, masks={}, gaps={})

    def with_masks(self, masks: Mapping[str, Mask]) -> "Ticket":
        """The same random network under other masks (controls)."""
        return replace(self, masks={**self.masks, **masks})

    def model(self) -> SandboxTransformer:
        """The pruned network as a model: `save_checkpoint` writes it, every probe takes it."""
        about = {
            "name": "lottery-ticket",
            "trained": False,
            "seed": self.seed,
            "candidates": self.candidates,
            "stream": STREAM,
            "working": list(self.working),
            "idle": list(self.idle),
            "copied": sorted(self.copied),
            "target": str(self.target.model.provenance.get("name", "")),
        }
        if "settings" in (known := self.target.model.provenance):
            about["settings"] = known["settings"]
        model = SandboxTransformer(self.config, self.target.model.grammar, about)
        pruned = {name: torch.from_numpy(self.weights(name)) for name in self.masks}
        model.load_state_dict({**pruned, **self.copied})
        return model


def draw_network(config: TransformerConfig, seed: int) -> dict[str, Weights]:
    """Every matrix of the blocks from U(-1, 1), float32: a function of (shapes, seed), with a stream a matrix."""
    d, e, w = config.d_model, config.d_head, config.d_mlp
    shapes = {**dict.fromkeys(ATTENTION, (1, d, e)), "mlp.W_in": (d, w), "mlp.W_out": (w, d)}
    shapes |= dict.fromkeys(("mlp.W_hid_1", "mlp.W_hid_2"), (w, w))
    out = {}
    for i in range(config.n_layers):
        for kind in MATRICES:
            name = f"blocks.{i}.{kind}"
            source = generator(seed, f"{STREAM}/{name}")
            out[name] = (2 * source.random(shapes[kind], dtype=np.float32) - 1).astype(np.float32)
    return out


def random_config(target: Target, sizes: Sizes) -> TransformerConfig:
    """The random network's architecture: the target's, 4 times as deep, 4-layer MLPs, wider."""
    c = target.model.config
    return replace(
        c,
        n_layers=4 * c.n_layers,
        d_model=sizes.d_model,
        d_head=sizes.d_model,
        d_mlp=sizes.d_mlp,
        mlp_depth=4,
        attention="learned",
        embedding="learned",
        unembed="learned",
        norm_eps=target.scale * c.norm_eps,
        scale_scores=False,
    )


def place_layers(layers: int, working: Sequence[int] | None) -> tuple[int, ...]:
    """The working layers: as given, if each has a link before it; by default 1, 3, ..., 2L - 1."""
    if working is None:
        return tuple(range(1, 2 * layers, 2))
    given = list(working) if isinstance(working, Sequence) else [working]
    whole = all(isinstance(w, (int, np.integer)) and not isinstance(w, bool) for w in given)
    apart = whole and all(b - a >= 2 for a, b in zip([-1, *given], given, strict=False))
    if len(given) != layers or not apart or given[-1] >= 4 * layers:
        raise RequestError(
            f"working={given}: {layers} layers from 1 to {4 * layers - 1} are needed, ascending, each with a layer "
            "of its own before it"
        )
    return tuple(int(w) for w in given)


def check_patterns(patterns: Patterns | None, target: Target, places: Sequence[int]) -> None:
    """Refuse scores for layers whose attention is the target's, and scores that no sum reaches."""
    m = target.width
    for at, scores in (patterns or {}).items():
        if at in places or not 0 <= at < 4 * len(target.layers):
            raise RequestError(
                f"patterns: layer {at} has no free attention; layers are 0 to {4 * len(target.layers) - 1}, and "
                f"{', '.join(map(str, places))} are the target's"
            )
        if scores is None:
            continue
        if np.shape(scores) != (m, m) or not np.isfinite(scores).all():
            raise RequestError(f"patterns: layer {at} needs finite scores of shape ({m}, {m}), not {np.shape(scores)}")
        if (size := float(np.abs(scores).max())) > LARGEST:
            raise RequestError(f"patterns: scores of {size:.3g} for layer {at} are out of reach (at most {LARGEST:g})")


def prune_network(
    target: Target,
    candidates: int,
    seed: int,
    sizes: Sizes,
    *,
    working: Sequence[int] | None = None,
    patterns: Patterns | None = None,
) -> Ticket:
    """Theorem 2: draw the random network and find the masks.

    `patterns`: for idle layers the scores [m, m] (key, query) that their attention should have, or None
    for queries and keys wholly masked; those not named keep all of W_Q and W_K.
    """
    config = random_config(target, sizes)
    random = draw_network(config, check_seed(seed))
    places = place_layers(len(target.layers), working)
    masks: dict[str, Mask] = {name: np.zeros(w.shape, dtype=bool) for name, w in random.items()}
    gaps: dict[str, Array] = {}
    stream = np.arange(target.width)

    def mlp(at: int, v1: Array, v2: Array, rows: Index, columns: Index) -> None:
        names = [f"blocks.{at}.{kind}" for kind in MLPS]
        found = prune_mlp(v1, v2, [random[n] for n in names], candidates=candidates, rows=rows, columns=columns)
        for half, pruning in enumerate(found):
            keep(names[2 * half], names[2 * half + 1], pruning)

    def keep(first: str, second: str, pruning: Pruning) -> None:
        masks[first], masks[second] = pruning.first, pruning.second
        gaps[f"{first} {second}"] = pruning.gap

    def scores(at: int, wanted: Array, rows: Index) -> None:
        q, k = f"blocks.{at}.attn.W_Q", f"blocks.{at}.attn.W_K"
        mask_k, mask_q, found = prune_scores(wanted, random[k][0], random[q][0], candidates=candidates, rows=rows)
        masks[k], masks[q], gaps[f"{q} {k}"] = mask_k[None], mask_q[None], found.gap

    for layer, at in zip(target.layers, places, strict=True):
        name = f"blocks.{at}.attn.W_V"
        diagonal = prune_value(random[name][0], target.width)
        masks[name] = diagonal.mask[None]
        mlp(at - 1, *as_mlp(_link(layer, diagonal)), stream, np.concatenate([diagonal.outputs, diagonal.inputs]))
        scores(at, layer.scores, diagonal.outputs)
        mlp(at, layer.v1, layer.v2, diagonal.outputs, stream)
    ticket = Ticket(config, seed, random, masks, _copied(target, sizes.d_model), places, gaps, target, candidates)
    for at in ticket.idle:
        mlp(at, *as_mlp(np.eye(target.width)), stream, stream)
    unattended = [*ticket.idle, *(at - 1 for at in places)]
    for at in unattended:
        wanted = (patterns or {}).get(at, "kept")
        if isinstance(wanted, np.ndarray):
            scores(at, wanted, stream)
        elif wanted is not None:
            masks[f"blocks.{at}.attn.W_Q"][:] = masks[f"blocks.{at}.attn.W_K"][:] = True
    return ticket


def _link(layer: Layer, diagonal: Diagonal) -> Array:
    """[m, 2m]: x itself, and what the value matrix D must read to give P W_V x."""
    return np.concatenate([np.eye(len(layer.values)), layer.values / diagonal.kept], axis=1)


def _copied(target: Target, width: int) -> dict[str, torch.Tensor]:
    """Embedding, positions and unembedding of the target, with zeros in the coordinates that it has not."""
    model, extra = target.model, width - target.width
    with torch.no_grad():
        out = {
            "embed.W_E": torch.nn.functional.pad(model.embed.W_E.float(), (0, extra)),
            "unembed.W_U": torch.nn.functional.pad(model.unembed.W_U.float(), (0, 0, 0, extra)),
        }
        if model.pos_embed is not None:
            for name, p in model.pos_embed.named_parameters():
                out[f"pos_embed.{name}"] = torch.nn.functional.pad(p.float(), (0, extra))
    return {name: tensor.detach().clone() for name, tensor in out.items()}


def foreign_entries(model: SandboxTransformer) -> int:
    """Entries of a pruned network that are neither 0 nor the random network's, redrawn from its provenance: 0."""
    random = draw_network(model.config, model.provenance["seed"])
    wrong = 0
    for name, p in model.named_parameters():
        if name in random:
            found = p.detach().cpu().numpy()
            wrong += int(((found != 0) & (found != random[name])).sum())
    return wrong
