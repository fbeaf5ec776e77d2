"""`SandboxTransformer`: a small Transformer with TransformerLens's hooks, weights and tools."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from interp import html
from interp.checks import index_of, not_read, one_of, true_or_false
from interp.config import TransformerConfig
from interp.errors import ConfigError, RequestError, quoted
from interp.grammars import Grammar
from interp.model import masks
from interp.model.blocks import BLOCKS, Known
from interp.model.cache import ActivationCache, check_parts
from interp.model.hooks import NamedHooks, Names, check_slice, is_hooked
from interp.model.init import init_params
from interp.model.masks import Prepared, Trusted
from interp.model.parts import POSITIONS, Embed, TiedUnembed, Unembed, make_norm, through
from interp.model.texts import checked_ids, known_ids, read_texts
from interp.model.view import ConfigView, transformer_lens_view
from interp.registry import world_of
from interp.rng import check_seed
from interp.vocabulary import find_token
from interp.world import load

WHOLE = 16  # rows; of other tables a seed's bits would depend on where in a stack it lies


class SandboxTransformer(NamedHooks):
    """One hooked model. Comes back in eval mode, with zero weights until `init` or a checkpoint fills them.

    `config` says what it is made of, `grammar` what it was trained on (or None), `provenance` where
    its weights come from. `cfg` is the view of `config` that TransformerLens's tools read. Calling it gives logits
    [batch, pos, d_out] for token ids [batch, pos] or texts.

        >>> from interp import load_checkpoint
        >>> model = load_checkpoint("constructed/stack")
        >>> logits = model("([]")
        >>> tuple(logits.shape), model.grammar.vocab[int(logits[0, -1].argmax())]
        ((1, 4, 7), ')')

    Raises `RequestError` for what is no `TransformerConfig`, and `ConfigError` or `GrammarError` for a grammar that the
    config was not made for.
    """

    def __init__(
        self,
        config: TransformerConfig,
        grammar: Grammar | None = None,
        provenance: dict[str, Any] | None = None,
    ):
        super().__init__()
        if not isinstance(config, TransformerConfig):
            raise ConfigError(f"config={quoted(config)} is no TransformerConfig")
        if grammar is not None and not isinstance(getattr(grammar, "vocab_size", None), int):
            raise RequestError(
                f"grammar={quoted(grammar)} is not a grammar: pass one of a world, such as the model was "
                "trained on, or None"
            )
        if grammar is not None and config.d_vocab != grammar.vocab_size:
            raise ConfigError(f"d_vocab={config.d_vocab} does not fit the grammar's vocabulary of {grammar.vocab_size}")
        world = None if grammar is None else world_of(grammar)
        if world is not None and world.fits is not None:
            world.fits(config, grammar)
        self.config, self.grammar, self.provenance = config, grammar, dict(provenance or {})
        build(self, config)
        self.setup()
        self.eval()

    @classmethod
    def init(cls, config: TransformerConfig, seed: int = 0, grammar: Grammar | None = None) -> "SandboxTransformer":
        """An untrained model: its weights are a function of (config, seed) alone.

        Raises `RequestError` for a seed that is not a whole number of at least 0.
        """
        model = cls(config, grammar, {"seed": check_seed(seed), "trained": False})
        model.load_state_dict(init_params(model, config.init_std, config.n_layers, seed))
        return model

    # -- running ----------------------------------------------------------------------------------

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"] | str | Sequence[str],
        return_type: str | None = "logits",
        *,
        visible: Bool[Tensor, "#batch 1 query key"] | Prepared | None = None,
        positions: Int[Tensor, "#batch pos"] | Prepared | None = None,
        first: int = 0,
        stop_at_layer: int | None = None,
    ) -> Any:
        """Logits [batch, pos, d_out]; with return_type "loss" the mean next-token loss (nats), or None.

        `visible` says which keys each query may attend to (default: by `config.direction`, PAD never); each must see
        one. `positions` overrides 0, 1, 2, ..., counted from a row's first token that is not PAD, so that several
        strings can share a row; a model without positions reads none. With `first` > 0 only positions from that one
        on are returned, and the last block does no work (and runs no hooks) for those before. `stop_at_layer`, as in
        TransformerLens: the residual stream [batch, pos, d_model] below that block comes back, and no more is run.

        Raises `RequestError` for tokens that the vocabulary does not have, strings longer than `n_ctx`, an unknown
        `return_type`, a loss where outputs are no tokens, and a mask, positions or places that do not fit;
        `GrammarError` for a text that breaks the grammar.
        """
        if return_type is not None and not one_of(return_type, ("logits", "loss")):
            raise RequestError(f"return_type {quoted(return_type)} is not 'logits', 'loss' or None")
        if return_type == "loss" and self.config.d_out != self.config.d_vocab:
            raise RequestError(f"a model with d_vocab_out={self.config.d_out} has no next-token loss")
        # What comes with a mask or positions that their maker answers for is training's own, and not looked at again.
        tokens = self._ids(tokens, trusted=isinstance(visible, Prepared) or isinstance(positions, Prepared))
        n = tokens.shape[-1]
        if isinstance(first, bool) or not isinstance(first, (int, np.integer)) or not 0 <= first < max(1, n):
            raise RequestError(f"first={quoted(first)} is none of the {n} positions")
        if first and return_type == "loss":
            raise RequestError(f"first={first}: the loss is that of all positions")
        blocks = self.blocks if stop_at_layer is None else self.blocks[: self._stop(stop_at_layer, first)]
        seen = self._visible(visible, tokens)
        x = self.hook_embed(self.embed(tokens))
        places = self._positions(positions, tokens)
        if self.pos_embed is not None:
            x = x + self.hook_pos_embed(self.pos_embed(places.expand(tokens.shape)))
        x = self.ln_embed(x)
        known = self._known(tokens, visible)
        for i, block in enumerate(blocks, start=1):
            x = block(x, seen[..., first:, :] if first and i == len(self.blocks) else seen, known if i == 1 else None)
        if stop_at_layer is not None:
            return x
        if return_type is None:
            self.ln_final(x)
            return None
        logits = through(self.ln_final, x, self.unembed)
        return logits if return_type == "logits" else next_token_loss(logits, tokens, self.config.pad_token)

    def _stop(self, layer: int, first: int) -> int:
        if first:
            raise RequestError(f"first={first} is of logits, and stop_at_layer={quoted(layer)} ends before any")
        count = len(self.blocks)
        whole = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        return count if whole and layer == count else index_of("stop_at_layer", layer, count)

    def visible_keys(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch 1 query key"]:
        """Causal or not, and never PAD; every position sees itself, so that no row is empty."""
        return masks.visible_keys(self._ids(tokens), self.config)

    def _visible(self, visible: Any, tokens: Tensor) -> Any:
        if isinstance(visible, Prepared):
            return visible.ready()
        if visible is None:
            return masks.visible_keys(tokens, self.config)
        return masks.checked_visible(visible, tokens, self.config)

    def _positions(self, positions: Any, tokens: Tensor) -> Any:
        if isinstance(positions, Prepared):
            return positions.ready()
        if positions is not None:
            return masks.checked_positions(positions, tokens, self.config)
        return None if self.pos_embed is None else masks.counted_positions(tokens, self.config)

    def _known(self, tokens: Int[Tensor, "batch pos"], visible: Any) -> Known | None:
        """In training: what the first block reads, once a token instead of once a position, where that is all.

        Not with hooks, which are to see every position. What decides is the batch of one model, not how many there are.
        """
        if not isinstance(visible, Trusted) or self.pos_embed is not None or not isinstance(self.embed, Embed):
            return None
        if 2 * self.config.d_vocab > tokens.numel() or is_hooked(self):
            return None
        more = -self.config.d_vocab % WHOLE
        return Known(tokens, F.pad(self.ln_embed(self.embed.W_E), (0, 0, 0, more))[None])

    def run_with_cache(
        self,
        tokens: Int[Tensor, "batch pos"] | str | Sequence[str],
        *args: Any,
        return_cache_object: bool = True,
        names_filter: Names = None,
        device: str | torch.device | None = None,
        remove_batch_dim: bool = False,
        incl_bwd: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As TransformerLens: (output, `ActivationCache`), or a plain dict if asked for.

        What its tools would get wrong of a model's blocks they refuse (`interp.model.cache.ActivationCache`).
        Raises `RequestError` for a filter that names no hook, for several rows with `remove_batch_dim`, and for
        gradients of anything but return_type="loss".
        """
        return_cache_object = true_or_false("return_cache_object", return_cache_object)
        remove_batch_dim = true_or_false("remove_batch_dim", remove_batch_dim)
        incl_bwd = true_or_false("incl_bwd", incl_bwd)
        for name in ("reset_hooks_end", "clear_contexts"):
            true_or_false(name, kwargs.get(name, False))
        tokens = self._ids(tokens, trusted=True)  # looked at in `forward`
        check_slice(kwargs.get("pos_slice"), tokens.shape[-1])
        if remove_batch_dim and len(tokens) != 1:
            raise RequestError(f"remove_batch_dim=True is for one row, and {len(tokens)} are given")
        if incl_bwd and (args[0] if args else kwargs.get("return_type", "logits")) != "loss":
            raise RequestError('incl_bwd=True takes gradients of the loss: pass return_type="loss"')
        output, cache = super().run_with_cache(
            tokens,
            *args,
            names_filter=names_filter,
            device=device,
            remove_batch_dim=remove_batch_dim,
            incl_bwd=incl_bwd,
            **kwargs,
        )
        if return_cache_object:
            cache = ActivationCache(cache, self, has_batch_dim=not remove_batch_dim)
        return output, cache

    # -- tokens -----------------------------------------------------------------------------------

    def to_tokens(
        self,
        text: str | Sequence[str] | Tensor | NDArray[np.integer],
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        move_to_device: bool | None = None,
        truncate: bool = False,
    ) -> Int[Tensor, "batch pos"]:
        """Text (one or several) to ids on the model's device. Ids come back as they are, one row [pos] as [1, pos].

        - `prepend_bos`: whether START stands first; None: as the model's texts have it (`cfg.default_prepend_bos`).
        - `padding_side`: where PAD stands, "right" (None) or "left".
        - `move_to_device`: False leaves texts on the CPU, True moves ids to the model.
        - `truncate`: no more than n_ctx tokens, cut off at the end.

        Returns ids [batch, pos]. Raises `RequestError` for a text without a grammar or vocabulary to read it by, and
        for ids that the vocabulary does not have; `GrammarError` for a text that breaks the grammar.
        """
        truncate = true_or_false("truncate", truncate)
        if move_to_device is not None:
            move_to_device = true_or_false("move_to_device", move_to_device)
        if (isinstance(text, np.ndarray) and text.dtype.kind in "iu") or isinstance(text, Tensor):
            not_read("token ids are taken as they are", prepend_bos=prepend_bos, padding_side=padding_side)
            ids = self._ids(text)
            ids = ids.to(self.device) if move_to_device else ids
        else:
            if self.grammar is None:
                raise RequestError("this model carries no grammar or vocabulary: pass token ids instead of text")
            read = read_texts(self.grammar, text, prepend_bos, padding_side)
            ids = torch.from_numpy(read).to("cpu" if move_to_device is False else self.device)
        return ids[:, : self.config.n_ctx] if truncate else ids

    def _ids(self, given: Any, trusted: bool = False) -> Int[Tensor, "batch pos"]:
        """Ids of a text or of ids; those are looked at unless they are `trusted` (see `checked_ids`)."""
        if isinstance(given, np.ndarray) and given.dtype.kind in "iu":
            given = torch.from_numpy(given.astype(given.dtype.newbyteorder("=")))
        if isinstance(given, Tensor):
            return checked_ids(given, self.config.d_vocab, trusted)
        return self.to_tokens(given)

    def to_str_tokens(self, text: Any, prepend_bos: bool | None = None) -> Any:
        """Token strings of one text or one row of ids; of several texts, a list per text.

        Raises `RequestError` for several rows of ids, and as `to_tokens`.
        """
        if isinstance(text, (list, tuple)) and text and all(isinstance(one, str) for one in text):
            return [self.to_str_tokens(one, prepend_bos) for one in text]
        ids = self.to_tokens(text, prepend_bos)
        if len(ids) != 1:
            raise RequestError(f"to_str_tokens takes one row of ids, and {len(ids)} are given")
        names = None if self.grammar is None else self.grammar.vocab
        return [str(i) if names is None else names[i] for i in ids[0].tolist()]

    def to_single_token(self, token: str) -> int:
        """Id of one vocabulary string. Raises `RequestError` for what is not one token of it."""
        found = find_token(self.grammar, token) if isinstance(token, str) else None
        if found is None:
            raise RequestError(f"{quoted(token)} is not one token of this model's vocabulary")
        return found

    def tokens_to_residual_directions(self, tokens: Any) -> Tensor:
        """Columns of W_U for the given ids [...] or token string, [..., d_final]. Raises `RequestError` for neither."""
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        try:
            ids = torch.as_tensor(tokens)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise RequestError(f"tokens={quoted(tokens)} are neither a token's name nor token ids") from error
        return self.unembed.W_U.T[known_ids(ids, self.config.d_out)]

    # -- what tools ask for -----------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.unembed.W_U.device

    @property
    def cfg(self) -> ConfigView:
        """`config` under TransformerLens's names, to be read; setting anything in it is refused."""
        prepends = self.grammar is None or getattr(self.grammar, "has_start", False)
        return transformer_lens_view(self.config, self.device, self.unembed.W_U.dtype, prepends)

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Float[Tensor, " d_model"]:
        """Sum of the biases written to the residual stream before `layer`.

        `layer` n_layers is the end; with `mlp_input` those before the MLP of `layer`. Raises `RequestError` where the
        stream is no sum of what is written to it.
        """
        check_parts(self.config, "accumulated_bias")
        mlp_input = true_or_false("mlp_input", mlp_input)
        include_mlp_biases = true_or_false("include_mlp_biases", include_mlp_biases)
        layer = index_of("layer", layer, self.config.n_layers + (not mlp_input))
        total = torch.zeros(self.config.d_model, device=self.device, dtype=self.unembed.W_U.dtype)
        for i in range(min(layer + mlp_input, self.config.n_layers)):
            total = total + self.blocks[i].attn.b_O
            if include_mlp_biases and i < layer and self.config.mlp_depth:
                total = total + self.blocks[i].mlp.b_out
        return total

    def _repr_html_(self) -> str:
        c, told = self.config, self.provenance
        rows: dict[str, Any] = {
            "block, embedding, attention": f"{c.block}, {c.embedding}, {c.attention}",
            "layers, heads, d_model, d_head": f"{c.n_layers}, {c.n_heads}, {c.d_model}, {c.d_head}",
            "parameters": f"{sum(p.numel() for p in self.parameters()):,}",
            "grammar": self.grammar if self.grammar is not None else "none",
        }
        rows |= {key: told[key] for key in ("seed", "step") if key in told}
        return html.facts(str(told.get("name", type(self).__name__)), rows)

    def _stack(self, module: str, name: str) -> Tensor:
        parts = [getattr(block, module, None) for block in self.blocks]
        if not all(hasattr(part, name) for part in parts):
            setting = {"attn": "attention", "mlp": "mlp_depth"}[module]
            raise RequestError(f"this model has no {name}: {setting}={quoted(getattr(self.config, setting))}")
        return torch.stack([getattr(part, name) for part in parts])

    W_Q = property(lambda self: self._stack("attn", "W_Q"), doc="[layer, head, d_model, d_head]")
    W_K = property(lambda self: self._stack("attn", "W_K"), doc="[layer, head, d_model, d_head]")
    W_V = property(lambda self: self._stack("attn", "W_V"), doc="[layer, head, d_model, d_head]")
    W_O = property(lambda self: self._stack("attn", "W_O"), doc="[layer, head, d_head, d_model]")
    b_Q = property(lambda self: self._stack("attn", "b_Q"), doc="[layer, head, d_head]")
    b_K = property(lambda self: self._stack("attn", "b_K"), doc="[layer, head, d_head]")
    b_V = property(lambda self: self._stack("attn", "b_V"), doc="[layer, head, d_head]")
    b_O = property(lambda self: self._stack("attn", "b_O"), doc="[layer, d_model]")
    W_in = property(lambda self: self._stack("mlp", "W_in"), doc="[layer, d_model, d_mlp]")
    b_in = property(lambda self: self._stack("mlp", "b_in"), doc="[layer, d_mlp]")
    W_out = property(lambda self: self._stack("mlp", "W_out"), doc="[layer, d_mlp, d_model]")
    b_out = property(lambda self: self._stack("mlp", "b_out"), doc="[layer, d_model]")
    W_U = property(lambda self: self.unembed.W_U, doc="[d_final, d_vocab_out]")
    b_U = property(lambda self: self.unembed.b_U, doc="[d_vocab_out]")

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        """Embedding matrix; an oracle first layer has none."""
        if not hasattr(self.embed, "W_E"):
            raise RequestError(f"this model has no W_E: embedding={quoted(self.config.embedding)}")
        return self.embed.W_E


def build(model: SandboxTransformer, config: TransformerConfig) -> None:
    """Put the parts in: the only place where a config branches."""
    model.embed = load(config.oracle.build)(config) if config.oracle else Embed(config)
    model.hook_embed = HookPoint()  # [batch, pos, d_model]
    positions = POSITIONS[config.positions]
    model.pos_embed = positions(config) if positions else None
    if positions:
        model.hook_pos_embed = HookPoint()  # [batch, pos, d_model]
    model.ln_embed = make_norm(config, config.d_model) if config.norms_embedding else nn.Identity()
    model.blocks = nn.ModuleList(BLOCKS[config.block](config, layer) for layer in range(config.n_layers))
    model.ln_final = make_norm(config, config.d_final) if config.ends_in_norm else nn.Identity()
    model.unembed = TiedUnembed(config, model.embed) if config.unembed == "tied" else Unembed(config)


def next_token_loss(
    logits: Float[Tensor, "batch pos vocab"], tokens: Int[Tensor, "batch pos"], pad_token: int | None
) -> Float[Tensor, ""]:
    """Mean cross entropy in nats of each token given those before it; PAD is not predicted, nor predicts anything."""
    targets = tokens[:, 1:]
    ignore = -100 if pad_token is None else pad_token
    if pad_token is not None:
        targets = targets.masked_fill(tokens[:, :-1] == pad_token, ignore)
    if not bool((targets != ignore).any()):
        raise RequestError(f"tokens of shape {list(tokens.shape)} hold nothing to predict: the loss is undefined")
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten(), ignore_index=ignore)
