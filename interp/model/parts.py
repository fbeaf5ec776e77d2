"""The parts a model is built from. Each is written for one model; `torch.vmap` adds the seeds.

Weights have TransformerLens's names and shapes. A part declares only hooks that mean what their
name says. Biases that a config switches off are zero buffers, so that tools which add them still work.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from interp.config import TransformerConfig, disentangled_width
from interp.model.hooks import hooked
from interp.model.products import times

DTYPE = torch.float32  # of a new model, whatever torch's default: the same seed is the same model everywhere


def weight(*shape: int) -> nn.Parameter:
    """An uninitialised weight; values come from `interp.model.init` or a checkpoint."""
    return nn.Parameter(torch.zeros(shape, dtype=DTYPE))


def bias(module: nn.Module, name: str, learned: bool, *shape: int) -> None:
    """Give `module` a bias: a parameter, or a zero buffer that no checkpoint holds."""
    if learned:
        setattr(module, name, weight(*shape))
    else:
        module.register_buffer(name, torch.zeros(shape, dtype=DTYPE), persistent=False)


def last(x: Float[Tensor, "*batch pos width"], count: int) -> Float[Tensor, "*batch last width"]:
    """The last `count` positions: those that a model was asked about (all of them costs nothing)."""
    return x if x.shape[-2] == count else x[..., -count:, :]


class LayerNorm(nn.Module):
    """Centred, divided by its standard deviation; `affine` adds TransformerLens's w and b."""

    def __init__(self, width: int, eps: float, affine: bool):
        super().__init__()
        self.eps, self.affine = eps, affine
        if affine:
            self.w = nn.Parameter(torch.ones(width, dtype=DTYPE))
            self.b = weight(width)
        self.hook_scale = HookPoint()  # [batch, pos, 1]
        self.hook_normalized = HookPoint()  # [batch, pos, width], before w and b

    def normalize(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos width"]:
        """x without its mean, over its standard deviation: all but w and b."""
        out, _, inverse = torch.native_layer_norm(x, (x.shape[-1],), None, None, self.eps)
        scale = inverse.detach().reciprocal()
        version = scale._version
        given = self.hook_scale(scale)
        if given is not scale or scale._version != version:  # an edited scale, or one whose gradient is asked for
            out = (x - x.mean(-1, keepdim=True)) / given
        return self.hook_normalized(out)

    def forward(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos width"]:
        x = self.normalize(x)
        return torch.addcmul(self.b, x, self.w) if self.affine else x


def through(norm: nn.Module, x: Tensor, then: nn.Module, *more: Any) -> Tensor:
    """then(norm(x), *more), where the linear map that comes first in `then` takes in the norm's w and b.

    Not where one of both carries hooks of torch, which see what goes in and what comes out.
    """
    if not isinstance(norm, LayerNorm) or not norm.affine or hooked(norm) or hooked(then):
        return then(norm(x), *more)
    return then(norm.normalize(x), *more, norm=norm)


def linear(
    x: Float[Tensor, "*batch pos d_in"],
    w: Float[Tensor, "d_in d_out"],
    b: Float[Tensor, " d_out"],
    norm: LayerNorm | None = None,
) -> Float[Tensor, "*batch pos d_out"]:
    """(x * norm.w + norm.b) @ w + b, where w and b are changed instead of x: they are fewer numbers than positions."""
    if norm is not None:
        b = b + (norm.b[:, None] * w).sum(0)  # as a product of one row its gradient's bits know the stack of seeds
        w = norm.w[:, None] * w
    return times(x, w) + b


class Embed(nn.Module):
    """W_E [d_vocab, d_model], learned or frozen one-hot."""

    W_E: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        if config.embedding == "onehot":
            self.register_buffer("W_E", torch.eye(config.d_vocab, config.d_model, dtype=DTYPE), persistent=False)
        else:
            self.W_E = weight(config.d_vocab, config.d_model)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return F.embedding(tokens, self.W_E)


class LinearPositions(nn.Module):
    """Position i adds (i / n_ctx) w_pos to the residual stream (paper footnote 9, T_max = n_ctx)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.n_ctx = config.n_ctx
        self.w_pos = weight(config.d_model)

    @property
    def W_pos(self) -> Float[Tensor, "n_ctx d_model"]:
        steps = torch.arange(self.n_ctx, device=self.w_pos.device, dtype=self.w_pos.dtype)
        return (steps / self.n_ctx)[:, None] * self.w_pos

    def forward(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return (positions.to(self.w_pos.dtype) / self.n_ctx)[..., None] * self.w_pos


class ScalarPositions(nn.Module):
    """Position i adds i / n_ctx to the last coordinate of the residual stream; nothing is learned."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.n_ctx = config.n_ctx
        last = torch.zeros(config.d_model, dtype=DTYPE)
        last[-1] = 1
        self.register_buffer("direction", last, persistent=False)

    direction: Tensor

    @property
    def W_pos(self) -> Float[Tensor, "n_ctx d_model"]:
        steps = torch.arange(self.n_ctx, device=self.direction.device, dtype=self.direction.dtype)
        return (steps / self.n_ctx)[:, None] * self.direction

    def forward(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return (positions.to(self.direction.dtype) / self.n_ctx)[..., None] * self.direction


class LearnedPositions(nn.Module):
    """W_pos [n_ctx, d_model]: one vector a position."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.W_pos = weight(config.n_ctx, config.d_model)

    def forward(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return F.embedding(positions, self.W_pos)


class OneHotPositions(nn.Module):
    """Position i adds the unit vector of coordinate d_vocab + i, beside one-hot tokens; nothing is learned."""

    W_pos: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        places = torch.zeros(config.n_ctx, config.d_model, dtype=DTYPE)
        places[:, config.d_vocab : config.d_vocab + config.n_ctx] = torch.eye(config.n_ctx, dtype=DTYPE)
        self.register_buffer("W_pos", places, persistent=False)

    def forward(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return F.embedding(positions, self.W_pos)


POSITIONS: dict[str, Callable[[TransformerConfig], nn.Module] | None] = {
    "none": None,
    "linear": LinearPositions,
    "learned": LearnedPositions,
    "scalar": ScalarPositions,
    "onehot": OneHotPositions,
}


class UnitNorm(nn.Module):
    """LN_C of Wen et al. 2023, eq. 7: centred and divided by max(its 2-norm, C). No affine."""

    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps
        self.hook_scale = HookPoint()  # [batch, pos, 1]
        self.hook_normalized = HookPoint()  # [batch, pos, width]

    def forward(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos width"]:
        x = x - x.mean(-1, keepdim=True)
        # The tiny term keeps the gradient of the norm finite at exactly 0.
        norm = (x.square().sum(-1, keepdim=True) + 1e-30).sqrt()
        return self.hook_normalized(x * self.hook_scale(norm.clamp(min=self.eps)).reciprocal())


def make_norm(config: TransformerConfig, width: int) -> nn.Module:
    """The norm a config names, for vectors of `width`."""
    if config.norm == "none":
        return nn.Identity()
    if config.norm == "unit":
        return UnitNorm(config.norm_eps)
    return LayerNorm(width, config.norm_eps, affine=config.norm == "LN")


class UniformAttention(nn.Module):
    """Equal weight on every visible key; only values (and the output projection) are learned."""

    W_V: Tensor
    b_V: Tensor
    W_O: Tensor
    b_O: Tensor

    def __init__(self, config: TransformerConfig, project_output: bool):
        super().__init__()
        h, d, e = config.n_heads, config.d_model, config.d_head
        self.project_output = project_output
        self.W_V = weight(h, d, e)
        bias(self, "b_V", config.biases, h, e)
        if project_output:
            self.W_O = weight(h, e, d)
        else:  # heads are laid side by side: W_O is a fixed selection, kept for tools that read it
            heads = torch.eye(h * e, dtype=DTYPE).reshape(h, e, h * e)
            self.register_buffer("W_O", heads, persistent=False)
        bias(self, "b_O", config.biases and project_output, d if project_output else h * e)
        self.hook_v = HookPoint()  # [batch, pos, head, d_head]
        self.hook_pattern = HookPoint()  # [batch, head, query, key]
        self.hook_z = HookPoint()  # [batch, pos, head, d_head]

    def attend(
        self, x: Tensor, visible: Any, tokens: Tensor | None = None, norm: LayerNorm | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pattern [batch, head, query, key] and values [batch, pos, head, d_head]."""
        v = self.hook_v(heads_in(x, self.W_V, self.b_V, tokens, norm))
        share = visible.to(v.dtype)
        share = share / share.sum(-1, keepdim=True)
        # Contiguous: a hook that edits one head in place must not reach the others.
        return share.expand(v.shape[0], self.W_V.shape[0], -1, -1).contiguous(), v

    def pattern(
        self, x: Float[Tensor, "batch pos d_model"], visible: Bool[Tensor, "#batch 1 query key"]
    ) -> Float[Tensor, "batch head query key"]:
        """The weight of each key for each query."""
        return self.attend(x, visible)[0]

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        visible: Bool[Tensor, "#batch 1 query key"],
        tokens: Int[Tensor, "batch pos"] | None = None,
        norm: LayerNorm | None = None,
    ) -> Float[Tensor, "batch pos d_out"]:
        """What the heads move and project. `norm` as in `through`.

        With `tokens`, x is what there is to read of each token of the vocabulary [1, d_vocab, d_model], and a
        position reads that of its token: the maps are then applied once a token instead of once a position.
        """
        pattern, v = self.attend(x, visible, tokens, norm)
        z = (self.hook_pattern(pattern) @ v.transpose(1, 2)).transpose(1, 2)
        return self.project(self.hook_z(z))

    def project(self, z: Float[Tensor, "*pos head d_head"]) -> Float[Tensor, "*pos d_out"]:
        """Heads side by side, through W_O where the block has one."""
        flat = z.flatten(-2)
        if not self.project_output:
            return flat
        return linear(flat, self.W_O.flatten(0, 1), self.b_O)


class Attention(UniformAttention):
    """Softmax attention with learned queries and keys."""

    unseen = -torch.inf  # score of a key that is not visible
    W_Q: Tensor
    b_Q: Tensor
    W_K: Tensor
    b_K: Tensor

    def __init__(self, config: TransformerConfig, project_output: bool):
        super().__init__(config, project_output)
        h, d, e = config.n_heads, config.d_model, config.d_head
        self.attn_scale = (config.attn_scale or math.sqrt(e)) if config.scale_scores else 1.0
        for name in ("Q", "K"):
            setattr(self, f"W_{name}", weight(h, d, e))
            bias(self, f"b_{name}", config.biases, h, e)
        self.hook_q = HookPoint()  # [batch, pos, head, d_head]
        self.hook_k = HookPoint()  # [batch, pos, head, d_head]
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key], masked

    def attend(
        self, x: Tensor, visible: Any, tokens: Tensor | None = None, norm: LayerNorm | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pattern [batch, head, query, key] and values [batch, pos, head, d_head]."""
        q, k, v = self.read(x, visible.shape[-2], tokens, norm)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * (1 / self.attn_scale)
        scores = self.hook_attn_scores(scores.masked_fill(~visible, self.unseen))
        return self.weigh(scores), v

    def weigh(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        """What values are multiplied by, from masked scores."""
        return scores.softmax(-1)

    def read(
        self, x: Tensor, queries: int, tokens: Tensor | None = None, norm: LayerNorm | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the last positions, keys and values of all, each [batch, pos, head, d_head]."""
        late = (last(x, queries), None) if tokens is None else (x, tokens[..., tokens.shape[-1] - queries :])
        q = self.hook_q(heads_in(late[0], self.W_Q, self.b_Q, late[1], norm))
        k = self.hook_k(heads_in(x, self.W_K, self.b_K, tokens, norm))
        return q, k, self.hook_v(heads_in(x, self.W_V, self.b_V, tokens, norm))


class LinearAttention(Attention):
    """Attention without softmax: z = sum over visible keys of score times value.

    The pattern, what values are multiplied by, is the masked scores themselves: weights of either sign whose sum is
    free. `interp.patterns.attention_patterns` makes shares of them.
    """

    unseen = 0.0

    def weigh(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        """The scores, as a tensor of its own: a hook that edits the pattern must not reach them."""
        return scores.clone()


class CopyingAttention(Attention):
    """Attention of a disentangled layer: score x W_Q x; each head moves all that there is to coordinates of its own.

    W_K and W_V are frozen identities, W_O a frozen shift; they are kept for tools that read them, and never multiplied.
    `layer`: how many are before this one; `used`: width of what these have written.
    """

    W_K: Tensor
    W_V: Tensor

    def __init__(self, config: TransformerConfig, layer: int):
        nn.Module.__init__(self)
        h, d = config.n_heads, config.d_model
        self.project_output = True
        self.attn_scale = (config.attn_scale or math.sqrt(d)) if config.scale_scores else 1.0
        self.used = disentangled_width(config.d_vocab, config.n_ctx, layer, h)
        self.W_Q = weight(h, d, d)
        for name in ("K", "V"):
            self.register_buffer(f"W_{name}", torch.eye(d, dtype=DTYPE).expand(h, d, d), persistent=False)
        shift = torch.zeros(h, d, d, dtype=DTYPE)
        for head in range(h):
            begin = self.used * (1 + head)
            shift[head, : self.used, begin : begin + self.used] = torch.eye(self.used, dtype=DTYPE)
        self.register_buffer("W_O", shift, persistent=False)
        for name, shape in (("Q", (h, d)), ("K", (h, d)), ("V", (h, d)), ("O", (d,))):
            bias(self, f"b_{name}", False, *shape)
        self.hook_q, self.hook_k, self.hook_v, self.hook_z = (HookPoint() for _ in range(4))  # [batch, pos, head, d]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch, head, query, key]

    def read(
        self, x: Tensor, queries: int, tokens: Tensor | None = None, norm: LayerNorm | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the last positions, and what there is at all of them as keys and values."""
        q = self.hook_q(heads_in(last(x, queries), self.W_Q, self.b_Q))
        # A copy a head: a hook that edits one in place must not reach the others.
        same = x[..., None, :].repeat_interleave(self.W_Q.shape[0], -2)
        return q, self.hook_k(same), self.hook_v(same.clone())

    def project(self, z: Float[Tensor, "*pos head d_model"]) -> Float[Tensor, "*pos d_model"]:
        """What each head moves, behind what there was."""
        moved = z[..., : self.used].flatten(-2)
        return F.pad(moved, (self.used, z.shape[-1] - self.used - moved.shape[-1]))


def heads_in(
    x: Float[Tensor, "batch pos d_model"],
    w: Float[Tensor, "head d_model d_head"],
    b: Float[Tensor, "head d_head"],
    tokens: Int[Tensor, "batch pos"] | None = None,
    norm: LayerNorm | None = None,
) -> Float[Tensor, "batch pos head d_head"]:
    """x W + b for every head in one matrix product; with `tokens` as in `UniformAttention.forward`."""
    h, d, e = w.shape
    out = linear(x, w.transpose(0, 1).reshape(d, h * e), b.flatten(), norm)
    return (out if tokens is None else F.embedding(tokens, out[0])).unflatten(-1, (h, e))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": partial(F.gelu, approximate="tanh"),
    "gelu_exact": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


class MLP(nn.Module):
    """`depth` linear maps with the activation between them; TransformerLens's names for depth 2.

    `hook_pre` and `hook_post` are the last hidden layer, so that hook_post @ W_out + b_out is the
    output at every depth. Hidden-to-hidden maps of deeper MLPs are W_hid_1, W_hid_2, ...
    """

    b_in: Tensor
    b_out: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.depth = config.mlp_depth
        self.act = ACTIVATIONS[config.activation]
        self.W_in = weight(config.d_model, config.d_mlp)
        bias(self, "b_in", config.biases, config.d_mlp)
        for i in range(1, self.depth - 1):
            setattr(self, f"W_hid_{i}", weight(config.d_mlp, config.d_mlp))
            bias(self, f"b_hid_{i}", config.biases, config.d_mlp)
        self.W_out = weight(config.d_mlp, config.d_model)
        bias(self, "b_out", config.biases, config.d_model)
        self.hook_pre = HookPoint()  # [batch, pos, d_mlp]
        self.hook_post = HookPoint()  # [batch, pos, d_mlp]

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], norm: LayerNorm | None = None
    ) -> Float[Tensor, "batch pos d_model"]:
        x = linear(x, self.W_in, self.b_in, norm)
        for i in range(1, self.depth - 1):
            x = linear(self.act(x), getattr(self, f"W_hid_{i}"), getattr(self, f"b_hid_{i}"))
        return linear(self.hook_post(self.act(self.hook_pre(x))), self.W_out, self.b_out)


class Unembed(nn.Module):
    """W_U [d_final, d_vocab_out], learned or a frozen identity, and b_U."""

    W_U: Tensor
    b_U: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        if config.unembed == "identity":
            self.register_buffer("W_U", torch.eye(config.d_out, dtype=DTYPE), persistent=False)
        else:
            self.W_U = weight(config.d_final, config.d_out)
        bias(self, "b_U", config.biases and config.unembed_bias, config.d_out)

    def forward(
        self, x: Float[Tensor, "batch pos d_final"], norm: LayerNorm | None = None
    ) -> Float[Tensor, "batch pos d_out"]:
        return linear(x, self.W_U, self.b_U, norm)


class TiedUnembed(nn.Module):
    """W_U is the embedding's W_E transposed; b_U is its own."""

    b_U: Tensor

    def __init__(self, config: TransformerConfig, embed: Embed):
        super().__init__()
        self._embed = (embed,)  # in a tuple: a submodule would list W_E twice among the parameters
        bias(self, "b_U", config.biases and config.unembed_bias, config.d_out)

    @property
    def W_U(self) -> Float[Tensor, "d_final d_vocab_out"]:
        return self._embed[0].W_E.T

    def forward(
        self, x: Float[Tensor, "batch pos d_final"], norm: LayerNorm | None = None
    ) -> Float[Tensor, "batch pos d_out"]:
        return linear(x, self.W_U, self.b_U, norm)
