"""Running a model with some attention edges exchanged: the one place where an audit edits a model.

Everything is written through `hook_z`. An exchange of values is z[query] += sum over keys of pattern[query, key]
(new[key] - v[key]): the pattern stays and nothing is renormalised. An exchange of patterns takes whole rows.
Editing `hook_pattern` or the scores does nothing in some models (BERT-type bridges), and such a dead edit looks like a
head that is not used. `reaches_output` proves that an edit of z counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from interp.errors import AnalysisError
from interp.guests import undisturbed
from interp.patterns import values_of_heads

Head = tuple[int, int]  # layer, head
Writer = Callable[[Tensor], Tensor | None]  # what a hook point passes on instead; None: the same


@dataclass(frozen=True)
class Edges:
    """In one layer, what `heads` read along `keys`, or what they give at some queries.

    - `keys` [batch, query, key]: the edges, bool.
    - `values` [batch, key, head, d_head]: what is read there instead of v; or
    - `shift`, the same shape: what is added to v.
    - `patterns` [batch, head, query, key], of all heads of the layer: what stands in the place of the pattern, at the
      queries `rows` [batch, query].
    - `add` [batch, query, head, d_head]: what is added to z.
    """

    layer: int
    heads: tuple[int, ...]
    keys: Tensor
    values: Tensor | None = None
    shift: Tensor | None = None
    patterns: Tensor | None = None
    rows: Tensor | None = None
    add: Tensor | None = None


@dataclass(frozen=True)
class Cache:
    """One run: [layer] patterns [batch, head, query, key], v and z [batch, pos, head, d_head]; norm scales by hook.

    `blocks`: what each block but the last gave, whatever that is, for runs that begin above it.
    """

    patterns: list[Tensor]
    v: list[Tensor]
    z: list[Tensor]
    scales: dict[str, Tensor]
    blocks: list[Any] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Run:
    """Logits [item, d_out] and the norm [item] of the last residual stream, both at the positions read."""

    logits: Tensor
    norm: Tensor
    cache: Cache | None = field(default=None, repr=False)


def centred(logits: Tensor) -> Tensor:
    """Logits [item, d_out] less the largest: what is added to all of an item's says nothing.

    Not less their median, which is the mask's where half of the outputs are masked.
    """
    return logits - logits.amax(dim=-1, keepdim=True)


def z_shift(pattern: Tensor, keys: Tensor, change: Tensor) -> Tensor:
    """Sum over edges of pattern [batch, head, query, key] x change [batch, key, head, d]: [batch, query, head, d]."""
    on_edges = pattern * keys[:, None].to(pattern.dtype)
    return (on_edges @ change.transpose(1, 2)).transpose(1, 2)


def z_change(one: Edges, pattern: Tensor, v: Tensor) -> Tensor:
    """What an edit adds to z of its heads [batch, query, head, d], of pattern [batch, head, query, key] and v."""
    heads = list(one.heads)
    own = pattern[:, heads]
    out = torch.zeros_like(v[:, :, heads]) if one.add is None else one.add[:, :, heads]
    if one.patterns is not None:
        assert one.rows is not None
        new = torch.where(one.rows[:, None, :, None], one.patterns[:, heads], own)
        out = out + ((new - own) @ v[:, :, heads].transpose(1, 2)).transpose(1, 2)
        own = new
    change = one.shift if one.values is None else one.values - v
    return out if change is None else out + z_shift(own, one.keys, change[:, :, heads])


def run(
    model: Any,
    tokens: Tensor,
    read: Tensor,
    edges: Sequence[Edges] = (),
    *,
    rows: Tensor | None = None,
    ablated: Mapping[Head, Tensor] | None = None,
    frozen: Cache | None = None,
    begun: Cache | None = None,
    keep: bool = False,
) -> Run:
    """Logits at `read` [item] with edges edited, and heads `ablated` to a constant z [d_head].

    `rows` [item]: the row of the batch that each is read in; without it item i is row i.
    `frozen`: patterns above the first edited layer, and every norm's scale, are those of that run: the direct effect.
    `begun`: an intact run on the same tokens; blocks below the first edit are not run again.
    `keep`: the run's patterns, values and scales come back too.
    """
    editing = _Editing(model, tokens, edges, ablated or {}, frozen)
    writers = {**editing.writers(keep), **editing.scale_writers(keep)}
    last = _at(model.cfg.n_layers - 1, "hook_resid_post")
    if last not in model.hook_dict:  # a block without a residual stream
        last = _at(model.cfg.n_layers - 1, "hook_attn_out")
    writers[last] = editing.keeps(last)
    blocks: list[Any] = []
    below = _remembered(model, blocks) if keep else _resumed(model, begun, editing.first)
    rows = torch.arange(len(read), device=read.device) if rows is None else rows
    with undisturbed(model), torch.no_grad(), hooked(model, writers), below, unembedded_at(model, rows, read):
        at_read = logits_at(model(tokens), rows, read)
    norm = editing.seen[last][rows, read].double().norm(dim=-1)
    return Run(at_read.double(), norm, editing.cache(blocks) if keep else None)


def logits_at(logits: Tensor, rows: Tensor, read: Tensor) -> Tensor:
    """Logits [item, d_out] of these rows and positions, of which a model may have given no others."""
    return logits[:, 0] if logits.shape[1] == 1 else logits[rows, read]


def writers_of(model: Any, tokens: Tensor, edges: Sequence[Edges]) -> dict[str, Writer]:
    """What a run with edges edited writes at the hook points, for runs of another kind than `run`'s."""
    return _Editing(model, tokens, edges, {}, None).writers(keep=False)


class _Editing:
    """What one run writes at the hook points, and what it has seen there."""

    def __init__(
        self, model: Any, tokens: Tensor, edges: Sequence[Edges], ablated: Mapping[Head, Tensor], frozen: Cache | None
    ):
        self.model, self.tokens, self.ablated, self.frozen = model, tokens, ablated, frozen
        self.layers = range(model.cfg.n_layers)
        self.by_layer: dict[int, list[Edges]] = {}
        for one in edges:
            self.by_layer.setdefault(one.layer, []).append(one)
        self.lowest = min(self.by_layer, default=model.cfg.n_layers)
        self.first = min([self.lowest, *(layer for layer, _ in ablated)])
        self.touched = {*self.by_layer, *(layer for layer in self.layers if self._is_frozen(layer))}
        self.seen: dict[str, Tensor] = {}

    def writers(self, keep: bool) -> dict[str, Writer]:
        """What is written at the hook points of attention."""
        out: dict[str, Writer] = {}
        late = ("attn.hook_q", "attn.hook_k") if getattr(self.model, "late_patterns", False) else ()
        for layer in self.layers:
            if keep or layer in self.touched:
                out[_at(layer, "attn.hook_pattern")] = self.keeps(_at(layer, "attn.hook_pattern"))
                for part in ("attn.hook_v", *late):
                    out[_at(layer, part)] = self._keeps_of_heads(_at(layer, part))
            if layer in self.touched or any(at == layer for at, _ in self.ablated):
                out[_at(layer, "attn.hook_z")] = partial(self._edit_z, layer)
            elif keep:
                out[_at(layer, "attn.hook_z")] = partial(self._keep_z, layer)
        return out

    def scale_writers(self, keep: bool) -> dict[str, Writer]:
        """What is written at the scales of norms: those of the frozen run, if there is one."""
        scales = self._scales()
        if self.frozen is not None:
            return {name: _gives(self.frozen.scales[name]) for name in scales if name in self.frozen.scales}
        return {name: self.keeps(name) for name in scales} if keep else {}

    def keeps(self, name: str) -> Writer:
        """Passes on what comes, and keeps it."""

        def write(x: Tensor) -> None:
            self.seen.setdefault(name, x)

        return write

    def _keeps_of_heads(self, name: str) -> Writer:
        """The same of queries, keys or values: of grouped heads each keeps what it reads."""

        def write(x: Tensor) -> None:
            self.seen.setdefault(name, values_of_heads(x, self.model.cfg.n_heads))

        return write

    def cache(self, blocks: list[Any]) -> Cache:
        """What was kept."""
        patterns, v, z = (
            [self.seen[_at(layer, f"attn.hook_{part}")] for layer in self.layers] for part in ("pattern", "v", "z")
        )
        # A norm that is not reached (a readout of hidden states ends before the head) has no scale to keep.
        scales = {name: self.seen[name] for name in self._scales() if name in self.seen}
        return Cache(patterns, v, z, scales, blocks)

    def _is_frozen(self, layer: int) -> bool:
        """Whether the pattern of this layer is that of the frozen run."""
        return self.frozen is not None and layer > self.lowest

    def _scales(self) -> list[str]:
        return [name for name in self.model.hook_dict if name.endswith("hook_scale")]

    def _pattern(self, layer: int) -> Tensor:
        """The pattern. Some bridges show it only when z has passed: then it is made from queries and keys."""
        name = _at(layer, "attn.hook_pattern")
        if name not in self.seen:
            q, k = (self.seen[_at(layer, f"attn.hook_{part}")] for part in "qk")
            scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) / q.shape[-1] ** 0.5
            self.seen[name] = scores.masked_fill(~self.model.visible_keys(self.tokens), -torch.inf).softmax(-1)
        return self.seen[name]

    def _keep_z(self, layer: int, z: Tensor) -> None:
        self.seen[_at(layer, "attn.hook_z")] = z
        self._pattern(layer)

    def _edit_z(self, layer: int, z: Tensor) -> Tensor:
        out = z.clone()
        if layer in self.touched:
            pattern, v = self._pattern(layer), self.seen[_at(layer, "attn.hook_v")]
        if self.frozen is not None and self._is_frozen(layer):
            pattern = self.frozen.patterns[layer]
            out = (pattern @ v.transpose(1, 2)).transpose(1, 2)
        for one in self.by_layer.get(layer, []):
            out[:, :, list(one.heads)] += z_change(one, pattern, v)
        for (at, head), constant in self.ablated.items():
            if at == layer:
                out[:, :, head] = constant
        return out


def reaches_output(model: Any, tokens: Tensor, layer: int) -> bool:
    """Whether the logits are computed from what `hook_z` of a layer passes on.

    By the graph of the computation, not by a number that changes: a head whose output matrix is zero moves nothing
    and yet is connected (that is a finding about the head), while an edit that the model throws away is not.
    """
    leaves: list[Tensor] = []

    def cut(z: Tensor) -> Tensor:
        leaves[:] = [z.detach().clone().requires_grad_()]
        return leaves[0]

    with undisturbed(model), torch.inference_mode(False), torch.enable_grad(), differentiable(model):
        with hooked(model, {_at(layer, "attn.hook_z"): cut}):
            logits = model(tokens[:1].clone())
        if not leaves or not logits.requires_grad:
            return False
        (gradient,) = torch.autograd.grad(logits.sum(), leaves[0], allow_unused=True)
    return gradient is not None


def is_pattern_times_values(cache: Cache, layer: int) -> bool:
    """Whether z is pattern @ v, as the edit supposes."""
    made = (cache.patterns[layer] @ cache.v[layer].transpose(1, 2)).transpose(1, 2)
    z = cache.z[layer]
    return bool(made.shape == z.shape and (made - z).abs().max() <= 1e-4 * z.abs().max().clamp(min=1e-6))


@contextmanager
def hooked(model: Any, writers: Mapping[str, Writer]) -> Iterator[None]:
    """Hooks for one run, taken off by their own handles: the user's hooks are never touched."""
    points = model.hook_dict  # a bridge makes it anew whenever it is asked
    missing = [name for name in writers if name not in points]
    if missing:
        raise AnalysisError(f"this model has no {missing[0]}: its attention cannot be edited")
    with ExitStack() as stack:
        for name, writer in writers.items():
            handle = points[name].register_forward_hook(_converted(points[name], writer))
            stack.callback(handle.remove)
        yield


@contextmanager
def _remembered(model: Any, blocks: list[Any]) -> Iterator[None]:
    """Into `blocks` what each block but the last gives."""
    with ExitStack() as stack:
        for block in list(model.blocks)[:-1]:
            stack.callback(block.register_forward_hook(lambda module, given, out: blocks.append(out)).remove)
        yield


@contextmanager
def _resumed(model: Any, begun: Cache | None, first: int) -> Iterator[None]:
    """Blocks below `first` give what they gave in the run `begun`, without being run; the last block always is."""
    gave = [] if begun is None else begun.blocks[:first]
    with ExitStack() as stack:
        for block, out in zip(model.blocks, gave, strict=False):
            stack.callback(_with_forward, block, block.__dict__.get("forward"))  # some tools put another there
            _with_forward(block, partial(_gave, out))
        yield


def _with_forward(block: Any, forward: Callable[..., Any] | None) -> None:
    """Put a forward of its own into a block; None: that of its class."""
    if forward is None:
        block.__dict__.pop("forward", None)
    else:
        block.__dict__["forward"] = forward


def _gave(out: Any, *_: Any, **__: Any) -> Any:
    return out


@contextmanager
def unembedded_at(model: Any, rows: Tensor, read: Tensor) -> Iterator[None]:
    """Logits [item, 1, d_out] of what is read alone: of a large vocabulary the others cost most of a run."""
    unembed = getattr(model, "unembed", None)
    if not isinstance(unembed, torch.nn.Module):
        yield
        return

    def cut(module: Any, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not given or not isinstance(given[0], Tensor) or given[0].ndim != 3:
            return None
        return (given[0][rows, read][:, None], *given[1:])

    handle = unembed.register_forward_pre_hook(cut)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def differentiable(model: Any) -> Iterator[None]:
    """Copies in the place of tensors made in inference mode, which no gradient passes; the model's own come back."""
    own: list[tuple[dict[str, Any], str, Tensor]] = []
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            own += [(held, name, x) for name, x in held.items() if x is not None and x.is_inference()]
    try:
        for held, name, x in own:
            copy = x.detach().clone()
            held[name] = torch.nn.Parameter(copy, x.requires_grad) if isinstance(x, torch.nn.Parameter) else copy
        yield
    finally:
        for held, name, x in own:
            held[name] = x


def _converted(point: Any, writer: Writer) -> Callable[..., Tensor | None]:
    """`writer` as torch calls it. A bridge's hook point may hold heads side by side, and knows how to part them."""
    conversion = getattr(point, "hook_conversion", None)

    def hook(module: Any, given: Any, out: Tensor) -> Tensor | None:
        written = writer(out if conversion is None else conversion.convert(out))
        return written if written is None or conversion is None else conversion.revert(written)

    return hook


def _at(layer: int, part: str) -> str:
    return f"blocks.{layer}.{part}"


def _gives(constant: Tensor) -> Writer:
    return lambda x: constant
