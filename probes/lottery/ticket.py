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
brought down by others (`probes.lottery.subset_sum`), at the price of width, up to `LARGEST`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.checks import whole_number
from interp.config import TransformerConfig
from interp.errors import AnalysisError, RequestError, quoted
from interp.model import SandboxTransformer
from interp.numbers import power
from interp.numeric_arrays import real_array
from interp.rng import check_seed, generator
from probes.lottery.pruning import (
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
from probes.lottery.subset_sum import MAX_CANDIDATES, Array, Mask
from probes.lottery.target import Layer, Target

Weights = NDArray[np.float32]
Patterns = Mapping[int, Any]  # by layer: scores [key, query] to show, or None for none at all
Scores = Mapping[int, Array | None]  # the same, read by `read_patterns`
STREAM = "lottery"  # of the random numbers
ATTENTION, MLPS = ("attn.W_Q", "attn.W_K", "attn.W_V"), ("mlp.W_in", "mlp.W_hid_1", "mlp.W_hid_2", "mlp.W_out")
MATRICES = (*ATTENTION, *MLPS)
SPARE = 64  # MLP units beyond what is needed: the last places are filled with whatever sign comes
LEAST_CANDIDATES = 4
MOST_WEIGHTS = 10**8  # of a network that is built and pruned here: beyond, a mask costs more than the target
LARGEST_NETWORK = 0.98 * MOST_WEIGHTS  # weights of the blocks: embedding and unembedding come on top


# -- how wide -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Widths of a random network. The model class has one width for stream and head, so d_model = d_head."""

    d_model: int
    d_mlp: int


def sizes_needed(target: Target, candidates: int, patterns: Scores | None = None) -> Sizes:
    """The least widths that the pruners ask for: linear in n = `candidates`, which makes error exponential in width."""
    m = target.width
    scores = [layer.scores for layer in target.layers]
    scores += [s for s in (patterns or {}).values() if s is not None]
    head = max(units_needed(s.T, candidates, IDENTITY) for s in scores)
    link = as_mlp(np.ones((m, 2)))  # entries of the map are 1 and at most 1/2 over D's 1/2
    mlps = [link, *((layer.v1, layer.v2) for layer in target.layers)]
    return Sizes(max(head, 16 * m), max(mlp_units(*mlp, candidates) for mlp in mlps) + SPARE)


def sizes_used(
    target: Target, candidates: int, d_model: Any = None, d_mlp: Any = None, patterns: Scores | None = None
) -> Sizes:
    """What was asked for, if wide enough; else what is needed, rounded up to eights."""
    needed = sizes_needed(target, candidates, patterns)
    asked: dict[str, int | None] = {"d_model": None, "d_mlp": None}
    for name, value in (("d_model", d_model), ("d_mlp", d_mlp)):
        if value is None:
            continue
        least, asked[name] = getattr(needed, name), whole_number(name, value)
        if value < least:
            raise AnalysisError(
                f"lottery ticket: {name}={quoted(value)} is too narrow for this target with {candidates} candidates an "
                f"entry: at least {least} is needed"
            )
    sizes = _rounded(needed, asked)
    if (count := network_weights(target, sizes)) > LARGEST_NETWORK:
        raise AnalysisError(
            f"lottery ticket: a random network of {4 * len(target.layers)} layers, d_model={sizes.d_model}, "
            f"d_mlp={sizes.d_mlp} has {power(count)} weights, more than {power(LARGEST_NETWORK)}: "
            f"{_what_fits(target, candidates, asked, patterns)}"
        )
    return sizes


def _rounded(needed: Sizes, asked: Mapping[str, int | None]) -> Sizes:
    return Sizes(
        asked["d_model"] or -(-needed.d_model // 8) * 8,
        asked["d_mlp"] or -(-needed.d_mlp // 8) * 8,
    )


def network_weights(target: Target, sizes: Sizes) -> int:
    """How many weights the blocks of a random network have."""
    layer = 3 * sizes.d_model**2 + 2 * sizes.d_model * sizes.d_mlp + 2 * sizes.d_mlp**2
    return 4 * len(target.layers) * layer


def _what_fits(target: Target, candidates: int, asked: Mapping[str, int | None], patterns: Scores | None) -> str:
    """The largest number of candidates below `candidates` whose network can be built."""
    for n in range(candidates - 1, LEAST_CANDIDATES - 1, -1):
        if network_weights(target, _rounded(sizes_needed(target, n, patterns), asked)) <= LARGEST_NETWORK:
            return f"{n} candidates per entry fit, or a smaller target"
    hint = ", or leave d_model and d_mlp out" if any(asked.values()) else ""
    return f"no number of candidates (at least {LEAST_CANDIDATES}) fits: take a smaller target{hint}"


def check_candidates(candidates: object) -> int:
    """`candidates` as a whole number that can be searched."""
    return whole_number("candidates", candidates, LEAST_CANDIDATES, MAX_CANDIDATES)


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
    given = list(working) if isinstance(working, (Sequence, np.ndarray)) else [working]
    whole = all(isinstance(w, (int, np.integer)) and not isinstance(w, bool) for w in given)
    apart = whole and all(b - a >= 2 for a, b in zip([-1, *given], given, strict=False))
    if len(given) != layers or not apart or given[-1] >= 4 * layers:
        raise RequestError(
            f"working={quoted(given)}: {layers} layers from 1 to {4 * layers - 1} are needed, ascending, each with a "
            "layer of its own before it"
        )
    return tuple(int(w) for w in given)


def read_patterns(patterns: Patterns | None, target: Target, places: Sequence[int]) -> dict[int, Array | None]:
    """`patterns` as {layer: float64 scores [m, m] or None}, or what is wrong with it.

    Layers are whole numbers, numpy's too; scores anything that is an array of real numbers, such as lists and tensors.
    Refuses layers whose attention is the target's, and scores that no sum reaches.
    """
    if patterns is None:
        return {}
    if not isinstance(patterns, Mapping):
        raise RequestError(f"patterns: {type(patterns).__name__!r} given, and a dict from layer to scores is needed")
    m, layers, found = target.width, 4 * len(target.layers), {}
    for at, given in patterns.items():
        if isinstance(at, (bool, np.bool_)) or not isinstance(at, (int, np.integer)):
            raise RequestError(f"patterns: {quoted(at)} is not a layer: whole numbers from 0 to {layers - 1} are")
        if at in places or not 0 <= at < layers:
            raise RequestError(
                f"patterns: layer {at} has no free attention; layers are 0 to {layers - 1}, and "
                f"{', '.join(map(str, places))} are the target's"
            )
        found[int(at)] = None if given is None else _real_scores(given, int(at), m)
    return found


def _real_scores(given: Any, at: int, m: int) -> Array:
    scores = real_array(given, f"patterns: scores of layer {at}", RequestError)
    if scores.shape != (m, m) or not np.isfinite(scores).all():
        raise RequestError(f"patterns: layer {at} needs finite scores of shape ({m}, {m}), not {scores.shape}")
    if (size := float(np.abs(scores).max())) > LARGEST:
        raise RequestError(f"patterns: scores of {size:.3g} for layer {at} are out of reach (at most {LARGEST:g})")
    return scores


def prune_network(
    target: Target,
    candidates: int,
    seed: int,
    sizes: Sizes,
    *,
    working: Sequence[int] | None = None,
    patterns: Patterns | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Ticket:
    """Theorem 2: draw the random network and find the masks.

    `patterns`: for idle layers the scores [m, m] (key, query) that their attention should have, or None
    for queries and keys wholly masked; those not named keep all of W_Q and W_K. `progress` is called after each
    pair of matrices, `pairs_to_prune` times.
    """
    config = random_config(target, sizes)
    places = place_layers(len(target.layers), working)
    shown = read_patterns(patterns, target, places)
    random = draw_network(config, check_seed(seed))
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
        progress()

    def scores(at: int, wanted: Array, rows: Index) -> None:
        q, k = f"blocks.{at}.attn.W_Q", f"blocks.{at}.attn.W_K"
        mask_k, mask_q, found = prune_scores(wanted, random[k][0], random[q][0], candidates=candidates, rows=rows)
        masks[k], masks[q], gaps[f"{q} {k}"] = mask_k[None], mask_q[None], found.gap
        progress()

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
        if at not in shown:
            masks[f"blocks.{at}.attn.W_Q"][:] = masks[f"blocks.{at}.attn.W_K"][:] = True
        elif (wanted := shown[at]) is not None:
            scores(at, wanted, stream)
    return ticket


def pairs_to_prune(target: Target, patterns: Scores) -> int:
    """How often `prune_network` calls `progress`: two pairs an MLP, one for each attention that is asked for."""
    layers = len(target.layers)
    return 2 * 4 * layers + layers + sum(scores is not None for scores in patterns.values())


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
