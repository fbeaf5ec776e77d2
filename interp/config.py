"""`TransformerConfig`: a model described by a few named choices. Imports no torch."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from interp.checks import one_of
from interp.constraints import Annotated, Interval, check_fields, doc
from interp.errors import ConfigError, quoted
from interp.numbers import power
from interp.registry import merged
from interp.world import Embedding as OracleEmbedding

Embedding = str  # "learned", "onehot", or an oracle first layer of a world: `interp.world.Embedding`
PLAIN_EMBEDDINGS = ("learned", "onehot")
Positions = Literal["none", "linear", "learned", "scalar", "onehot"]
AttentionKind = Literal["learned", "uniform", "linear"]
Direction = Literal["causal", "bidirectional"]
BlockKind = Literal["gpt2", "paper", "bare", "authors", "disentangled", "bert"]
Norm = Literal["LN", "LNPre", "unit", "none"]
Activation = Literal["gelu", "gelu_exact", "relu", "silu"]
UnembedKind = Literal["learned", "identity", "tied"]

CHOICES: dict[str, tuple[str, ...]] = {
    "positions": get_args(Positions),
    "attention": get_args(AttentionKind),
    "direction": get_args(Direction),
    "block": get_args(BlockKind),
    "norm": get_args(Norm),
    "activation": get_args(Activation),
    "unembed": get_args(UnembedKind),
}
# Added after the first checkpoints were written: left out of `to_dict` at their defaults, so that a config's
# bytes, and every digest over them, stay what they were.
_LATER = {
    "unembed": "learned", "attn_scale": None, "class_names": None, "norm_added": False, "final_norm": None,
    "unembed_bias": True,
}  # fmt: skip
_NEVER = object()
MAX_LAYERS, MAX_PARAMETERS = 256, 5 * 10**8


@dataclass(frozen=True)
class TransformerConfig:
    """What a `SandboxTransformer` is made of. Widths and lengths count numbers and tokens.

    - `embedding`: `learned` W_E; `onehot` (frozen: token i is the unit vector of coordinate i, and d_model >= d_vocab);
      or the oracle first layer of a world, which knows what a token means where it stands (such as `minimal`) and
      fixes d_model.
    - `positions`: `none`, `linear` (a learned direction times position / n_ctx, paper footnote 9), `scalar` (position /
      n_ctx is added to the last coordinate, as in the released code of Wen et al. 2023), `learned` (one vector per
      position) or `onehot` (frozen: position i is the unit vector of coordinate d_vocab + i, beside one-hot tokens).
    - `attention`: `learned` (softmax of the scores), `uniform` (frozen: equal weight on every visible key, no W_Q,
      W_K), or `linear` (the scores themselves are the weights, 0 on keys that are not visible: of either sign, and
      their sum is free).
    - `block`: `gpt2` (norm before attention and MLP, two residual links, final norm), `paper`
      (eq. 6: MLP(norm(attention) + x), no skip around the MLP, no output projection, no final
      norm), `bare` (norm(attention) alone: no residual, no output projection, no MLP), `authors` (the released code
      of Wen et al. 2023: h = x + attention(x), then h + MLP(norm(h)), no final norm), `disentangled` (Nichani et al.
      2024: x, and beside it what each head moves of x; only W_Q is learned, and scores are x W_Q x) or `bert` (h =
      norm(x + attention(x)), then norm(h + MLP(h)), and a norm on the embeddings; no final norm).
    - `norm_added`: in the block `authors`, the norm is added to what it reads: n = h + norm(h), then n + MLP(n).
    - `final_norm`: a norm before the unembedding; None: as the block has it (`gpt2` alone has one).
    - `norm`: `LN` (affine), `LNPre` (no affine), `unit` (eq. 7: centred, divided by its norm but by
      no less than `norm_eps`) or `none`.
    - `mlp_depth`: linear maps in an MLP (2 is the usual one, 0 removes it).
    - `unembed`: `learned` W_U, `identity` (frozen: what the last layer gives are the logits), `tied` (W_E transposed).
    - `activation`: `gelu` (the tanh form of GPT-2), `gelu_exact`, `relu` or `silu`.
    - `scale_scores`: divide scores by sqrt(d_head), or by `attn_scale` where one is given.
    - `biases`: attention, MLP and unembedding biases; the last only with `unembed_bias`.
    - `class_names`: what outputs are called that are no tokens, one each.
    - `num_types`, `max_depth`: how many types and levels an oracle first layer tells apart.

    A small model, for example:

        >>> from interp import SandboxTransformer, TransformerConfig
        >>> config = TransformerConfig(d_vocab=5, n_layers=1, n_heads=2, d_model=8, d_head=4, d_mlp=16)
        >>> model = SandboxTransformer.init(config, seed=0)
        >>> tuple(model.blocks[0].attn.W_Q.shape)  # [head, d_model, d_head]
        (2, 8, 4)

    Raises `ConfigError` for a value out of its range, for choices that contradict each other, and for a setting that
    the other ones leave unread.
    """

    d_vocab: Annotated[int, Interval(ge=1), doc("tokens")]
    n_layers: Annotated[int, Interval(ge=1), doc("layers")] = 2
    n_heads: Annotated[int, Interval(ge=1), doc("heads of each layer")] = 1
    d_model: Annotated[int, Interval(ge=1), doc("width of the residual stream")] = 50
    d_head: Annotated[int, Interval(ge=1), doc("width of a head")] = 50
    d_mlp: Annotated[int, Interval(ge=1), doc("width of the MLP")] = 50
    mlp_depth: Annotated[int, Interval(ge=0), doc("linear maps in an MLP")] = 2
    n_ctx: Annotated[int, Interval(ge=1), doc("largest number of positions")] = 512
    embedding: Annotated[Embedding, doc("learned, onehot, or an oracle first layer")] = "learned"
    positions: Annotated[Positions, doc("position embedding")] = "none"
    attention: AttentionKind = "learned"
    direction: Direction = "causal"
    block: Annotated[BlockKind, doc("where norms and residual links stand")] = "gpt2"
    norm: Norm = "LN"
    norm_eps: Annotated[float, Interval(ge=0, le=1e6), doc("what keeps a norm from dividing by 0")] = 1e-5
    activation: Activation = "gelu"
    scale_scores: Annotated[bool, doc("divide scores by the root of d_head")] = True
    biases: bool = True
    init_std: Annotated[float, Interval(ge=0, le=1e6), doc("standard deviation of the first weights")] = 0.02
    d_vocab_out: Annotated[int, Interval(ge=1)] | None = None
    pad_token: Annotated[int, Interval(ge=0)] | None = None
    num_types: Annotated[int, Interval(ge=1)] | None = None
    max_depth: Annotated[int, Interval(ge=1)] | None = None
    unembed: UnembedKind = "learned"
    attn_scale: Annotated[float, Interval(ge=1e-6, le=1e6)] | None = None
    class_names: tuple[str, ...] | None = None
    norm_added: Annotated[bool, doc("in block='authors': add the norm to what it reads")] = False
    final_norm: Annotated[bool, doc("a norm before the unembedding")] | None = None
    unembed_bias: Annotated[bool, doc("a bias at the unembedding")] = True

    def __post_init__(self) -> None:
        if not one_of(self.embedding, PLAIN_EMBEDDINGS) and self.oracle is None:
            known = ", ".join((*PLAIN_EMBEDDINGS, *merged("embeddings")))
            raise ConfigError(f"embedding={quoted(self.embedding)} is not one of {known}")
        check_fields(self, ConfigError)
        if self.mlp_depth == 1:
            raise ConfigError("mlp_depth=1 is a linear map, not an MLP: use 0 (none), 2, or more")
        self._check_later()
        if self.pad_token is not None and self.pad_token >= self.d_vocab:
            raise ConfigError(f"pad_token={self.pad_token} is outside the vocabulary of {self.d_vocab}")
        self._check_widths()
        self._check_size()

    def _check_later(self) -> None:
        if self.attn_scale is not None and not self.scale_scores:
            raise ConfigError(
                f"attn_scale={quoted(self.attn_scale)} divides scores, and scale_scores=False says that nothing does"
            )
        names = self.class_names
        if names is None:
            return
        if len(names) != self.d_out or len(set(names)) != len(names):
            raise ConfigError(f"class_names={quoted(list(names))} does not name each of {self.d_out} outputs once")

    def _check_size(self) -> None:
        """Refuse what no machine this is made for could hold, before anything is built."""
        if self.n_ctx > MAX_PARAMETERS:
            raise ConfigError(f"n_ctx={self.n_ctx} is more than {MAX_PARAMETERS}")
        if self.n_layers > MAX_LAYERS:
            raise ConfigError(f"n_layers={self.n_layers} is more than {MAX_LAYERS}: this is for small models")
        attention = 4 * self.n_heads * self.d_head * self.d_model
        mlp = 2 * self.d_model * self.d_mlp + max(0, self.mlp_depth - 2) * self.d_mlp**2
        count = self.n_layers * (attention + mlp) + self.d_vocab * self.d_model + self.d_final * self.d_out
        count += self.num_states * self.d_model if self.oracle else 0
        count += self.n_ctx * self.d_model if self.positions == "learned" else 0
        if count > MAX_PARAMETERS:
            raise ConfigError(
                f"about {power(count)} parameters (n_layers={self.n_layers}, d_model={self.d_model}, "
                f"d_mlp={self.d_mlp}, "
                f"n_heads={self.n_heads}, d_head={self.d_head}) exceed {power(MAX_PARAMETERS, 0)}: this is for small "
                "models"
            )

    def _check_widths(self) -> None:
        if self.oracle is not None:
            self.oracle.check(self)
            needed = self.oracle.width(self)
        elif self.embedding == "onehot":
            needed = max(self.d_vocab, self.d_model)
            if self.d_model < self.d_vocab:
                raise ConfigError(f"embedding='onehot' needs d_model >= d_vocab={self.d_vocab}, not {self.d_model}")
            if self.positions == "scalar" and self.d_model == self.d_vocab:
                raise ConfigError(f"positions='scalar' with embedding='onehot' needs d_model > {self.d_vocab}")
        else:
            needed = self.d_model
        if self.d_model != needed:
            raise ConfigError(f"embedding={quoted(self.embedding)} fixes d_model={needed}, not {self.d_model}")
        if self.positions == "onehot" and (self.embedding != "onehot" or self.d_model < self.d_vocab + self.n_ctx):
            least = self.d_vocab + self.n_ctx
            raise ConfigError(
                "positions='onehot' stand beside one-hot tokens: embedding='onehot' and d_model >= d_vocab + n_ctx = "
                f"{least} are needed, not embedding={quoted(self.embedding)}, d_model={self.d_model}"
            )
        if self.block == "disentangled":
            self._check_disentangled()
        self._check_unembed()
        if self.block == "bare" and (self.n_layers != 1 or self.mlp_depth != 0):
            raise ConfigError(
                f"block='bare' is one attention layer without an MLP, not n_layers={self.n_layers}, "
                f"mlp_depth={self.mlp_depth}"
            )
        if self.norm_added and (self.block != "authors" or self.norm == "none"):
            raise ConfigError(
                f"norm_added=True is for block='authors' with a norm, not block={quoted(self.block)}, "
                f"norm={quoted(self.norm)}"
            )
        if self.block == "paper" and self.n_heads * self.d_head != self.d_model:
            raise ConfigError(
                f"block='paper' has no output projection: n_heads x d_head = {self.n_heads} x {self.d_head} "
                f"must equal d_model={self.d_model}"
            )

    def _check_disentangled(self) -> None:
        needed: dict[str, Any] = {
            "embedding": "onehot",
            "positions": "onehot",
            "attention": "learned",
            "norm": "none",
            "mlp_depth": 0,
            "biases": False,
            "d_model": disentangled_width(self.d_vocab, self.n_ctx, self.n_layers, self.n_heads),
        }
        needed["d_head"] = needed["d_model"]
        for name, value in needed.items():
            if getattr(self, name) != value:
                raise ConfigError(
                    "block='disentangled' lays what heads move beside what they read of one-hot tokens and positions: "
                    f"{name}={quoted(getattr(self, name))} must be {quoted(value)}"
                )

    def _check_unembed(self) -> None:
        if self.unembed == "identity" and self.d_final != self.d_out:
            raise ConfigError(f"unembed='identity' needs a last layer of width {self.d_out}, not {self.d_final}")
        if self.unembed == "tied":
            if self.embedding != "learned":
                raise ConfigError(f"unembed='tied' needs embedding='learned', not {quoted(self.embedding)}")
            if self.d_final != self.d_model or self.d_out != self.d_vocab:
                raise ConfigError(
                    f"unembed='tied' maps d_model={self.d_model} to d_vocab={self.d_vocab}: the last layer has width "
                    f"{self.d_final} and d_vocab_out is {self.d_out}"
                )

    @property
    def oracle(self) -> OracleEmbedding | None:
        """The oracle first layer, None where tokens have vectors of their own."""
        if not isinstance(self.embedding, str) or self.embedding in PLAIN_EMBEDDINGS:
            return None
        return merged("embeddings").get(self.embedding)

    @property
    def bounded(self) -> bool:
        """Do positions end at n_ctx?"""
        return self.positions in ("learned", "onehot")

    @property
    def num_states(self) -> int:
        """Rows of the embedding's table: states that an oracle tells apart, else tokens."""
        return self.d_vocab if self.oracle is None else self.oracle.states(self)

    @property
    def d_out(self) -> int:
        """Size of the output vocabulary (or number of classes)."""
        return self.d_vocab if self.d_vocab_out is None else self.d_vocab_out

    @property
    def d_final(self) -> int:
        """Width of what the unembedding reads."""
        return self.n_heads * self.d_head if self.block == "bare" else self.d_model

    @property
    def ends_in_norm(self) -> bool:
        """Does a norm stand before the unembedding?"""
        return (self.block == "gpt2" if self.final_norm is None else self.final_norm) and self.norm != "none"

    @property
    def norms_embedding(self) -> bool:
        """Does a norm stand between the embeddings and the first block?"""
        return self.block == "bert" and self.norm != "none"

    @property
    def sums_parts(self) -> bool:
        """Is the residual stream the sum of what embeddings, heads and MLPs write to it?"""
        kept = {"gpt2": True, "disentangled": True, "authors": not self.norm_added, "bert": self.norm == "none"}
        return kept.get(self.block, False)

    @property
    def counts_suffice(self) -> bool:
        """Do logits depend on nothing but the own state and the counts of states seen (see `interp.model.counts`)?"""
        # The table of states ends in zero rows, which a norm without eps would divide by 0.
        safe = self.norm_eps > 0 or self.norm not in ("LN", "LNPre")
        plain = self.positions == "none" and self.direction == "causal" and self.attention != "linear"
        return self.n_layers == 1 and plain and safe and not self.norms_embedding

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: value for name, value in asdict(self).items() if _LATER.get(name, _NEVER) != value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TransformerConfig":
        """Inverse of `to_dict`; an unknown or missing key is a `ConfigError`."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ConfigError(f"unknown model setting {quoted(unknown[0])}; known are {', '.join(sorted(known))}")
        if "d_vocab" not in data:
            raise ConfigError("model setting 'd_vocab' is missing")
        return cls(**data)


def disentangled_width(d_vocab: int, n_ctx: int, n_layers: int, n_heads: int) -> int:
    """Width of the residual stream of a disentangled model: each layer adds n_heads copies of what there is."""
    return int((d_vocab + n_ctx) * (1 + n_heads) ** n_layers)
