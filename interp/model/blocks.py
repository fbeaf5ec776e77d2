"""The blocks. Each declares exactly the hooks that mean in it what TransformerLens means by them.

`visible` may have fewer queries than there are keys: then these are the last positions, and only they come out.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from interp.config import TransformerConfig
from interp.model.parts import (
    MLP,
    Attention,
    CopyingAttention,
    LinearAttention,
    UniformAttention,
    last,
    make_norm,
    through,
)


@dataclass(frozen=True)
class Known:
    """What the first block reads where the stream holds nothing but token embeddings."""

    tokens: Int[Tensor, "batch pos"]
    of_token: Float[Tensor, "1 d_vocab d_model"]


def tokens_of(known: Known | None) -> Tensor | None:
    """The tokens, where they tell all that is read."""
    return None if known is None else known.tokens


ATTENTION: dict[str, type[UniformAttention]] = {
    "learned": Attention,
    "uniform": UniformAttention,
    "linear": LinearAttention,
}


def make_attention(config: TransformerConfig, project_output: bool) -> UniformAttention:
    """The attention that a config names."""
    return ATTENTION[config.attention](config, project_output)


class PreNormBlock(nn.Module):
    """GPT-2: x + attn(norm(x)), then x + mlp(norm(x)). The residual stream is a sum of its parts."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.ln1 = make_norm(config, config.d_model)
        self.attn = make_attention(config, project_output=True)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model], as all hooks of a block
        self.hook_attn_out = HookPoint()
        self.has_mlp = config.mlp_depth > 0
        if self.has_mlp:
            self.ln2 = make_norm(config, config.d_model)
            self.mlp = MLP(config)
            self.hook_resid_mid = HookPoint()
            self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        visible: Bool[Tensor, "#batch 1 query key"],
        known: Known | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        x = self.hook_resid_pre(x)
        attended = through(self.ln1, x if known is None else known.of_token, self.attn, visible, tokens_of(known))
        return self.finish(last(x, attended.shape[-2]), attended)

    def read(self, x: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos d_model"]:
        """What the attention reads of the stream, position by position (as in every block)."""
        return self.ln1(x)

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_model"]:
        """All that follows the attention, position by position (as in every block)."""
        x = x + self.hook_attn_out(attended)
        if self.has_mlp:
            x = self.hook_resid_mid(x)
            x = x + self.hook_mlp_out(through(self.ln2, x, self.mlp))
        return self.hook_resid_post(x)


class PlainReader(nn.Module):
    """A block whose attention reads the stream as it is; what follows the attention is `finish`."""

    hook_resid_pre: HookPoint
    attn: UniformAttention
    finish: Callable[[Tensor, Tensor], Tensor]

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        visible: Bool[Tensor, "#batch 1 query key"],
        known: Known | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        x = self.hook_resid_pre(x)
        attended = self.attn(x if known is None else known.of_token, visible, tokens_of(known))
        return self.finish(last(x, attended.shape[-2]), attended)

    def read(self, x: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos d_model"]:
        return x


class PaperBlock(PlainReader):
    """Wen et al. 2023, eq. 6: g(LN(W_V X A) + X), where g is an MLP with no skip around it.

    There is no `hook_mlp_out`: the MLP's output *is* the residual stream (`hook_resid_post`).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.attn = make_attention(config, project_output=False)
        self.ln1_post = make_norm(config, config.d_model)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model], as all hooks of a block
        self.hook_attn_out = HookPoint()  # after the norm: what is added to the stream
        self.hook_resid_mid = HookPoint()
        self.mlp = MLP(config) if config.mlp_depth > 0 else nn.Identity()
        self.hook_resid_post = HookPoint()

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_model"]:
        x = self.hook_resid_mid(x + self.hook_attn_out(self.ln1_post(attended)))
        return self.hook_resid_post(self.mlp(x))


class BareAttention(nn.Module):
    """norm(attention(x)) and nothing else: the second layer of the minimal-first-layer experiments.

    The output has width n_heads * d_head and is not a residual stream, so no `hook_resid_post`.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.attn = make_attention(config, project_output=False)
        self.ln1_post = make_norm(config, config.d_final)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model]
        self.hook_attn_out = HookPoint()  # [batch, pos, n_heads * d_head], after the norm

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        visible: Bool[Tensor, "#batch 1 query key"],
        known: Known | None = None,
    ) -> Float[Tensor, "batch query d_final"]:
        x = self.hook_resid_pre(x)
        attended = self.attn(x if known is None else known.of_token, visible, tokens_of(known))
        return self.finish(last(x, attended.shape[-2]), attended)

    def read(self, x: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos d_model"]:
        return x

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_final"]:
        return self.hook_attn_out(self.ln1_post(attended))


class AuthorsBlock(PreNormBlock):
    """The released code of Wen et al. 2023: h = x + attn(x), then h + mlp(norm(h)). The attention reads no norm.

    With `norm_added` (their flag `another_first_residual`) n = h + norm(h) takes the place of h: n + mlp(n). None of
    their shipped configurations sets it.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.ln1 = nn.Identity()
        self.norm_added = config.norm_added
        if self.norm_added and not self.has_mlp:
            self.ln2 = make_norm(config, config.d_model)
            self.hook_resid_mid = HookPoint()

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_model"]:
        if not self.norm_added:
            return super().finish(x, attended)
        x = self.hook_resid_mid(x + self.hook_attn_out(attended))
        x = x + self.ln2(x)
        if self.has_mlp:
            x = x + self.hook_mlp_out(self.mlp(x))
        return self.hook_resid_post(x)


class PostNormBlock(PlainReader):
    """BERT: norm(x + attn(x)), then norm(h + mlp(h)). Each norm's output *is* the residual stream from there on.

    A norm on the embeddings, before the first block, belongs to it (`SandboxTransformer.ln_embed`). Source: Vaswani et
    al. 2017, section 3.1; Devlin et al. 2019; the encoder in the released code of Wen et al. 2023.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.attn = make_attention(config, project_output=True)
        self.ln1_post = make_norm(config, config.d_model)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model], as all hooks of a block
        self.hook_attn_out = HookPoint()
        self.has_mlp = config.mlp_depth > 0
        if self.has_mlp:
            self.mlp = MLP(config)
            self.ln2_post = make_norm(config, config.d_model)
            self.hook_resid_mid = HookPoint()  # after the norm: what the MLP reads, and is added to
            self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_model"]:
        x = self.ln1_post(x + self.hook_attn_out(attended))
        if self.has_mlp:
            x = self.hook_resid_mid(x)
            x = self.ln2_post(x + self.hook_mlp_out(self.mlp(x)))
        return self.hook_resid_post(x)


class DisentangledBlock(nn.Module):
    """Nichani et al. 2024: x becomes (x, what head 0 moves of x, what head 1 moves, ...).

    The stream has its last width from the start, with zeros where nothing is written yet, so that it is a sum of its
    parts as in every Transformer: laying side by side is adding where the other is zero.
    """

    def __init__(self, config: TransformerConfig, layer: int):
        super().__init__()
        self.attn = CopyingAttention(config, layer)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model], as all hooks of a block
        self.hook_attn_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        visible: Bool[Tensor, "#batch 1 query key"],
        known: Known | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        x = self.hook_resid_pre(x)
        attended = self.attn(x, visible)
        return self.finish(last(x, attended.shape[-2]), attended)

    def read(self, x: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos d_model"]:
        return x

    def finish(self, x: Float[Tensor, "*pos d_model"], attended: Tensor) -> Float[Tensor, "*pos d_model"]:
        return self.hook_resid_post(x + self.hook_attn_out(attended))


BLOCKS: dict[str, Callable[[TransformerConfig, int], nn.Module]] = {
    "gpt2": lambda config, layer: PreNormBlock(config),
    "paper": lambda config, layer: PaperBlock(config),
    "bare": lambda config, layer: BareAttention(config),
    "authors": lambda config, layer: AuthorsBlock(config),
    "disentangled": DisentangledBlock,
    "bert": lambda config, layer: PostNormBlock(config),
}
