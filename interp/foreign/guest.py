"""Models that stay what they are: those of which only logits and patterns are known, and those of other token ids."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from interp.errors import CheckpointError, ConfigError, quoted
from interp.guests import guest_errors, name_of
from interp.model.hooks import NamedHooks

NEVER = 30.0  # logits by which a token that the foreign model does not have stays below the mean of the others
PROBE = 4  # tokens of the run that shows the sizes of an adapted model
SUM = 1e-3  # by how much a row of patterns may miss a sum of 1


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hook_pattern = HookPoint()  # [batch, head, query, key]


class Block(nn.Module):
    """A block that shows its pattern."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = _Attention()


class Adapted(NamedHooks):
    """Anybody's model behind a function: tokens [batch, pos] -> logits, or (logits, patterns [layer]).

    Its patterns can be looked at and not edited: what they are used for is no question that it answers.
    """

    @property
    def called(self) -> str:
        """What messages call it: the class of the module, or "this function"."""
        return type(self.run).__name__ if isinstance(self.run, nn.Module) else "this function"

    @property
    def shows_attention(self) -> bool:
        """Whether it gives patterns beside the logits."""
        return len(self.blocks) > 0

    def __repr__(self) -> str:
        size = f"patterns of {self.cfg.n_layers} layers of {self.cfg.n_heads} heads"
        return f"<{self.called}, through load_foreign: logits {f'and {size}' if self.shows_attention else 'alone'}>"

    def __init__(self, run: Callable[[Tensor], Any], settings: dict[str, Any]):
        super().__init__()
        self.run = run
        device = next((p.device for p in run.parameters()), "cpu") if isinstance(run, nn.Module) else "cpu"
        device = torch.device(settings.get("device") or device)
        length = min(PROBE, int(settings.get("n_ctx") or PROBE))
        with torch.no_grad(), guest_errors("load_foreign", self, f"fails on {length} tokens of id 0", CheckpointError):
            logits, patterns = self._parts(run(torch.zeros(1, length, dtype=torch.long, device=device)))
        if logits.ndim != 3 or tuple(logits.shape[:2]) != (1, length):
            raise CheckpointError(
                f"the adapter gives logits of shape {list(logits.shape)} for tokens of shape {[1, length]}: "
                "[batch, pos, d_vocab] is needed"
            )
        for layer, pattern in enumerate(patterns):
            _check_pattern(pattern, layer, length, patterns[0])
        causal = all(bool((pattern.triu(1) == 0).all()) for pattern in patterns)
        known = {
            "n_layers": len(patterns), "n_heads": patterns[0].shape[1] if patterns else 0,
            "attention_dir": settings.get("attention_dir", "causal" if causal else "bidirectional"),
        }  # fmt: skip
        for name, value in known.items():
            if settings.get(name, value) != value:
                raise ConfigError(f"config says {name}={quoted(settings[name])}, and the adapter gives {value}")
        size = int(logits.shape[-1])
        self.cfg: Any = SimpleNamespace(
            **known, n_ctx=settings.get("n_ctx"), d_vocab=settings.get("d_vocab", size), d_vocab_out=size,
            d_model=settings.get("d_model"), d_head=settings.get("d_head"), d_mlp=None, device=device,
            n_key_value_heads=None, attn_only=False, dtype=logits.dtype,
        )  # fmt: skip
        self.blocks = nn.ModuleList(Block() for _ in patterns)
        self.setup()
        self.eval()

    def forward(self, tokens: Tensor, return_type: str | None = "logits", **_: Any) -> Any:
        """Logits [batch, pos, d_vocab]; the patterns pass the hooks on the way."""
        logits, patterns = self._parts(self.run(tokens))
        for layer, pattern in enumerate(patterns):
            self.hook_dict[f"blocks.{layer}.attn.hook_pattern"](pattern)
        return logits if return_type is not None else None

    @staticmethod
    def _parts(given: Any) -> tuple[Tensor, list[Tensor]]:
        logits, patterns = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, [])
        if not isinstance(logits, Tensor):
            raise CheckpointError(
                f"the adapter gives {type(logits).__name__}: return logits, or (logits, [patterns of each layer])"
            )
        return logits, list(patterns)


def _check_pattern(pattern: Any, layer: int, length: int, first: Any) -> None:
    shape = getattr(pattern, "shape", None)
    if not isinstance(pattern, Tensor) or pattern.ndim != 4 or tuple(pattern.shape[2:]) != (length, length):
        raise CheckpointError(
            f"the adapter's patterns of layer {layer} are {quoted(shape or pattern)}, and [batch, head, query, key] is "
            "needed"
        )
    if pattern.shape[1] != first.shape[1]:
        raise CheckpointError(f"layer {layer} has {pattern.shape[1]} heads, and layer 0 {first.shape[1]}")
    if bool((pattern < 0).any()) or bool(((pattern.sum(-1) - 1).abs() > SUM).any()):
        raise CheckpointError(
            f"the adapter's patterns of layer {layer} are no shares: each row is at least 0 and sums to 1, as after "
            "the softmax"
        )


class Spoken:
    """A hooked model whose texts are in a grammar or vocabulary: token ids in and out are that language's.

    `order`: for each id of the language the model's own, None for one that it lacks; None: ids are the model's.
    All else is the model's own, hooks and weights included.
    """

    tokenizer = None  # the language reads texts

    def __init__(
        self,
        model: Any,
        grammar: Any,
        order: Sequence[int | None] | None,
        outputs: Sequence[int | None] | None,
        provenance: dict[str, Any],
    ):
        self.model, self.grammar, self.provenance = model, grammar, provenance
        self.order, self.outputs = order, outputs
        told = getattr(model.cfg, "d_vocab_out", None)
        self._size = told if isinstance(told, int) and told > 0 else model.cfg.d_vocab

    @property
    def called(self) -> str:
        """What messages call it: as the model itself."""
        return name_of(self.model)

    def __repr__(self) -> str:
        return f"<{self.called}, through load_foreign, in {quoted(self.grammar)}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "order"):  # not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self.model, name)

    @property
    def cfg(self) -> Any:
        """The model's, with the number of tokens that it is spoken to in."""
        if self.order is None:
            return self.model.cfg
        told = dict(getattr(self.model.cfg, "__dict__", {}))
        return SimpleNamespace(**told | {"d_vocab": len(self.order), "d_vocab_out": len(self.order)})

    def __call__(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._ours(self.model(self._theirs(tokens), *args, **kwargs))

    forward = __call__

    def run_with_cache(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        """As the model's, ids and logits in the language's order."""
        out, cache = self.model.run_with_cache(self._theirs(tokens), *args, **kwargs)
        return self._ours(out), cache

    def run_with_hooks(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        """As the model's, ids and logits in the language's order."""
        return self._ours(self.model.run_with_hooks(self._theirs(tokens), *args, **kwargs))

    def to_tokens(self, text: Any) -> Tensor:
        """Ids [batch, pos] of one text or several, in the language."""
        return torch.from_numpy(self.grammar.to_tokens(text)).to(self.model.cfg.device)

    def to_str_tokens(self, ids: Any) -> list[str]:
        """Names of a row of ids, or of a text's."""
        row = self.to_tokens(ids)[0] if isinstance(ids, str) else torch.as_tensor(ids).reshape(-1)
        return [self.grammar.vocab[i] for i in row.tolist()]

    def to(self, *where: Any, **how: Any) -> "Spoken":
        """On a device, or in a type: itself, as of every module."""
        self.model.to(*where, **how)
        return self

    def eval(self) -> "Spoken":
        """In eval mode."""
        self.model.eval()
        return self

    def train(self, mode: bool = True) -> "Spoken":
        """In training mode, or out of it."""
        self.model.train(mode)
        return self

    def _theirs(self, tokens: Tensor) -> Tensor:
        if self.order is None:
            return tokens
        ids = torch.tensor([0 if at is None else at for at in self.order], device=tokens.device)
        return ids[tokens]

    def _ours(self, out: Any) -> Any:
        if self.outputs is None or not isinstance(out, Tensor) or out.ndim != 3 or out.shape[-1] != self._size:
            return out
        here = [at for at in self.outputs if at is not None]
        never = out[..., here].mean(-1) - NEVER
        return torch.stack([never if at is None else out[..., at] for at in self.outputs], -1)
