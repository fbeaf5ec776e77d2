"""State dicts of the GPT-2 family as TransformerLens names its tensors: Hugging Face, nanoGPT, minGPT, the lecture's.

Sizes follow from the tensors. What does not (heads, activation, epsilon) the config says, by the names of either
code; without it the usual value of that code is taken, and said.
"""

from typing import Any

import torch
from torch import Tensor

from interp.checks import whole_number
from interp.errors import CheckpointError, ConfigError, quoted
from interp.foreign.files import State, check_numbers
from interp.foreign.lens import per_head
from interp.names import nearest_name

Settings = dict[str, Any]
Converted = tuple[State, Settings, str]
# What the sizes are called in the configs of these codes, and what else they say that changes no logit.
_CALLED = {
    "n_heads": ("n_heads", "n_head", "num_attention_heads", "num_heads"),
    "n_layers": ("n_layers", "n_layer", "num_hidden_layers"),
    "d_model": ("d_model", "n_embd", "hidden_size", "n_embed"),
    "n_ctx": ("n_ctx", "block_size", "n_positions", "max_position_embeddings"),
    "d_vocab": ("d_vocab", "vocab_size"),
    "d_mlp": ("d_mlp", "n_inner", "intermediate_size"),
    "d_head": ("d_head", "head_size"),
    "act_fn": ("act_fn", "activation_function", "hidden_act", "activation"),
    "eps": ("eps", "layer_norm_epsilon", "layer_norm_eps"),
}
MEANS = {called: name for name, all_called in _CALLED.items() for called in all_called}
IDLE = (
    "bias", "dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop", "model_type", "device", "compile", "dtype",
    "batch_size", "learning_rate", "max_iters", "eval_interval", "eval_iters", "pad_token", "max_depth", "class_names",
    "default_prepend_bos", "default_padding_side", "attention_dir", "weight_tying", "tie_weights",
)  # fmt: skip
# Of a Hugging Face config: what our blocks do not compute, with the values that change nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "scale_attn_by_inverse_layer_idx": (False, None), "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
}  # fmt: skip


class _Source:
    """Tensors that are taken one by one; what is left at the end belongs to no part of the model."""

    def __init__(self, state: State, source: str):
        self.state, self.source = dict(state), source

    def take(self, name: str, *more: str) -> Tensor:
        for one in (name, *more):
            if (tensor := self.get(one)) is not None:
                return tensor
        raise CheckpointError(f"{self.source}: tensor {quoted(name)} is missing")

    def get(self, name: str) -> Tensor | None:
        """Checked under the name that its owner knows."""
        if name not in self.state:
            return None
        check_numbers(name, self.state[name], self.source)
        return self.state.pop(name)

    def drop(self, name: str) -> None:
        """A buffer that says nothing."""
        self.state.pop(name, None)

    def fail(self, name: str, shape: Any, right: str) -> CheckpointError:
        return CheckpointError(f"{self.source}: tensor {quoted(name)} of shape {list(shape)} is not {right}")

    def close(self) -> None:
        if self.state:
            name, tensor = next(iter(self.state.items()))
            raise CheckpointError(
                f"{self.source}: tensor {quoted(name)} {list(tensor.shape)} does not belong to a model of this format"
            )


def convert_gpt2(state: State, config: Settings | None, source: str) -> Converted:
    """GPT-2's names: of Hugging Face (maps as [in, out]), of nanoGPT and of minGPT (as torch has them, [out, in])."""
    s = _Source({_without(name): x for name, x in state.items()}, source)
    wte, wpe = s.take("wte.weight"), s.take("wpe.weight")
    layers, d = _layers(state, "h."), _width(wte, "wte.weight", s)
    turned = _turned(state, d)
    head = s.get("lm_head.weight")
    tied = head is None or _same(head, wte)
    # Only minGPT unties its head, and it has GPT-2's first form of the activation; nanoGPT has torch's.
    usual = "gelu_new" if turned or not tied else "gelu"
    told = _read(config, source, {"act_fn": usual, "eps": 1e-5})
    heads = _heads(told, d, source)
    out: State = {"embed.W_E": wte, "pos_embed.W_pos": wpe}
    direction = None
    for layer in range(layers):
        there, here = f"h.{layer}.", f"blocks.{layer}."
        seen = _direction(s, f"{there}attn.bias")
        direction = direction or seen
        s.drop(f"{there}attn.masked_bias")
        w, b = _linear(s, f"{there}attn.c_attn", d, 3 * d, turned)
        for name, x, bias in zip("QKV", w.split(d, 1), b.split(d), strict=True):
            out |= _attention(here, name, x, bias, heads, source)
        w, b = _linear(s, f"{there}attn.c_proj", d, d, turned)
        out |= {f"{here}attn.W_O": per_head(f"{there}attn.c_proj", w, heads, source), f"{here}attn.b_O": b}
        m = _inner(s, f"{there}mlp.c_fc.weight", d, turned)
        out |= _mlp(
            here, *_linear(s, f"{there}mlp.c_fc", d, m, turned), *_linear(s, f"{there}mlp.c_proj", m, d, turned)
        )
        out |= _norm(s, f"{there}ln_1", f"{here}ln1") | _norm(s, f"{there}ln_2", f"{here}ln2")
    out |= _norm(s, "ln_f", "ln_final")
    out |= {"unembed.W_U": (wte if head is None else head).T}
    bias = s.get("lm_head.bias")
    out |= {"unembed.b_U": torch.zeros(len(out["unembed.W_U"].T)) if bias is None else bias}
    s.close()
    return out, _settings(told, out, direction), _supposed(config, told)


def convert_mingpt(state: State, config: Settings | None, source: str) -> Converted:
    """minGPT of 2020: key, query and value apart."""
    s = _Source(state, source)
    wte, wpe = s.take("tok_emb.weight"), s.take("pos_emb")
    d = _width(wte, "tok_emb.weight", s)
    told = _read(config, source, {"act_fn": "gelu", "eps": 1e-5})
    heads = _heads(told, d, source)
    out: State = {"embed.W_E": wte, "pos_embed.W_pos": wpe.reshape(-1, d)}
    direction = None
    for layer in range(_layers(state, "blocks.")):
        at = f"blocks.{layer}."
        direction = _direction(s, f"{at}attn.mask") or direction
        for name, part in (("Q", "query"), ("K", "key"), ("V", "value")):
            out |= _attention(at, name, *_linear(s, f"{at}attn.{part}", d, d), heads, source)
        w, b = _linear(s, f"{at}attn.proj", d, d)
        out |= {f"{at}attn.W_O": per_head(f"{at}attn.proj", w, heads, source), f"{at}attn.b_O": b}
        m = _inner(s, f"{at}mlp.0.weight", d)
        out |= _mlp(at, *_linear(s, f"{at}mlp.0", d, m), *_linear(s, f"{at}mlp.2", m, d))
        out |= _norm(s, f"{at}ln1", f"{at}ln1") | _norm(s, f"{at}ln2", f"{at}ln2")
    out |= _norm(s, "ln_f", "ln_final") | _head(s, "head", d)
    s.close()
    return out, _settings(told, out, direction), _supposed(config, told)


def convert_lecture(state: State, config: Settings | None, source: str) -> Converted:
    """The lecture's code: one small module a head. Its keys tell the heads."""
    s = _Source(state, source)
    wte, wpe = s.take("token_embedding_table.weight"), s.take("position_embedding_table.weight")
    d = _width(wte, "token_embedding_table.weight", s)
    told = _read(config, source, {"act_fn": "relu", "eps": 1e-5})
    heads = len({name.split(".")[4] for name in state if name.startswith("blocks.0.sa.heads.")})
    if told.setdefault("n_heads", heads) != heads:
        raise ConfigError(f"config says {told['n_heads']} heads, and {source} holds {heads}")
    out: State = {"embed.W_E": wte, "pos_embed.W_pos": wpe}
    direction = None
    for layer in range(_layers(state, "blocks.")):
        at = f"blocks.{layer}."
        size = len(state[f"{at}sa.heads.0.query.weight"])
        for name, part in (("Q", "query"), ("K", "key"), ("V", "value")):
            each = [_linear(s, f"{at}sa.heads.{h}.{part}", d, size) for h in range(heads)]
            out[f"{at}attn.W_{name}"] = torch.stack([w for w, _ in each])
            out[f"{at}attn.b_{name}"] = torch.stack([b for _, b in each])
        for h in range(heads):
            direction = _direction(s, f"{at}sa.heads.{h}.tril") or direction
        w, b = _linear(s, f"{at}sa.proj", heads * size, d)
        out |= {f"{at}attn.W_O": per_head(f"{at}sa.proj", w, heads, source), f"{at}attn.b_O": b}
        m = _inner(s, f"{at}ffwd.net.0.weight", d)
        out |= _mlp(at, *_linear(s, f"{at}ffwd.net.0", d, m), *_linear(s, f"{at}ffwd.net.2", m, d))
        out |= _norm(s, f"{at}ln1", f"{at}ln1") | _norm(s, f"{at}ln2", f"{at}ln2")
    out |= _norm(s, "ln_f", "ln_final") | _head(s, "lm_head", d)
    s.close()
    return out, _settings(told, out, direction), _supposed(config, told)


# -- parts --------------------------------------------------------------------------------------------------


def _without(name: str) -> str:
    """A head's name without what stands before it: it lies beside the blocks, not among them."""
    return next((end for end in ("lm_head.weight", "lm_head.bias") if name.endswith(f".{end}")), name)


def _layers(state: State, begin: str) -> int:
    numbers = {name.removeprefix(begin).split(".")[0] for name in state if name.startswith(begin)}
    return len(numbers)


def _width(embedding: Tensor, name: str, s: _Source) -> int:
    if embedding.ndim != 2:
        raise s.fail(name, embedding.shape, "[d_vocab, d_model]")
    return int(embedding.shape[1])


def _turned(state: State, d: int) -> bool:
    """Whether maps lie as [in, out], as in Hugging Face's Conv1D: most of those that are not square say it."""
    votes = 0
    for name, x in state.items():
        wider = name.endswith((".attn.c_attn.weight", ".mlp.c_fc.weight"))
        if x.ndim == 2 and x.shape[0] != x.shape[1] and (wider or name.endswith(".mlp.c_proj.weight")):
            votes += 1 if (x.shape[0] == d) == wider else -1
    return votes > 0


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one, other))


def _linear(s: _Source, name: str, n_in: int, n_out: int, turned: bool = False) -> tuple[Tensor, Tensor]:
    """(weight [in, out], bias [out]) of a linear map; zeros where it has no bias."""
    w, b = s.take(f"{name}.weight"), s.get(f"{name}.bias")
    right = (n_in, n_out) if turned else (n_out, n_in)
    if tuple(w.shape) != right:
        also = ", and is so transposed, unlike the others" if tuple(w.shape) == right[::-1] else ""
        raise s.fail(f"{name}.weight", w.shape, f"of shape {list(right)}{also}")
    if b is not None and tuple(b.shape) != (n_out,):
        raise s.fail(f"{name}.bias", b.shape, f"of shape {[n_out]}")
    return w if turned else w.T, torch.zeros(n_out) if b is None else b


def _inner(s: _Source, name: str, d: int, turned: bool = False) -> int:
    """Width of an MLP."""
    if name not in s.state or s.state[name].ndim != 2:
        raise CheckpointError(f"{s.source}: tensor {quoted(name)} is missing, or no matrix")
    return int(s.state[name].shape[1 if turned else 0])


def _attention(at: str, name: str, w: Tensor, b: Tensor, heads: int, source: str) -> State:
    """W [in, heads x d_head] and its bias, head by head."""
    per = per_head(f"{at}attn.{name}", w.T, heads, source).transpose(1, 2)
    return {f"{at}attn.W_{name}": per, f"{at}attn.b_{name}": per_head(f"{at}attn.{name}", b, heads, source)}


def _mlp(at: str, w_in: Tensor, b_in: Tensor, w_out: Tensor, b_out: Tensor) -> State:
    return {f"{at}mlp.W_in": w_in, f"{at}mlp.b_in": b_in, f"{at}mlp.W_out": w_out, f"{at}mlp.b_out": b_out}


def _norm(s: _Source, name: str, ours: str) -> State:
    w, b = s.take(f"{name}.weight"), s.get(f"{name}.bias")
    return {f"{ours}.w": w, f"{ours}.b": torch.zeros_like(w) if b is None else b}


def _head(s: _Source, name: str, d: int) -> State:
    size = _inner(s, f"{name}.weight", d)
    w, b = _linear(s, name, d, size)
    return {"unembed.W_U": w, "unembed.b_U": b}


def _direction(s: _Source, name: str) -> str | None:
    """What a buffer of visible keys [..., query, key] says; None without one, or where it is a bias."""
    if name not in s.state or s.state[name].ndim < 2:
        return None
    mask = s.state.pop(name)
    n = mask.shape[-1]
    square = mask.reshape(-1, n, n)[0].bool() if mask.shape[-2] == n and mask.numel() == n * n else None
    if square is not None and bool(square.all()) and n > 1:
        return "bidirectional"
    if square is None or not bool((square == torch.ones(n, n, dtype=torch.bool).tril()).all()):
        raise CheckpointError(
            f"{s.source}: the mask {quoted(name)} lets queries see neither all keys up to their own nor all there are: "
            "our blocks have no other; pass the model through an adapter"
        )
    return "causal"


def _read(config: Settings | None, source: str, usual: Settings) -> Settings:
    """The config's settings by TransformerLens's names, the usual ones where it says nothing."""
    told = {**usual, "called": {}}
    foreign = "model_type" in (config or {}) and "architectures" in (config or {})  # Hugging Face says much more
    for name, value in (config or {}).items():
        if name in NEUTRAL and value not in NEUTRAL[name]:
            raise ConfigError(f"config setting {name}={quoted(value)} is not supported: our blocks do not compute it")
        if name in ("scale_attn_weights", "use_attn_scale"):
            told["use_attn_scale"] = value
        elif name in MEANS and value is not None:
            told[MEANS[name]] = value
            told["called"][MEANS[name]] = name
        elif name == "attention_dir":
            told[name] = value
        elif name not in (*IDLE, *NEUTRAL) and value is not None and not foreign:
            near = nearest_name(name, MEANS)
            hint = f"known are {', '.join(sorted(MEANS))}" if near is None else f"did you mean {near!r}?"
            raise ConfigError(f"config setting {quoted(name)}={quoted(value)} of {source} is unknown: {hint}")
    return told


def _heads(told: Settings, d: int, source: str) -> int:
    heads = told.get("n_heads")
    cure = (
        "give config={'n_head': N} (on the command line --model-config FILE.json); its tensors are the same whatever N "
        "is"
    )
    if heads is None:
        raise ConfigError(f"{source} does not say how many heads it has: {cure}")
    heads = whole_number(_called(told, "n_heads"), heads, error=ConfigError)
    if d % heads:
        raise ConfigError(f"{source} has width {d}, no multiple of {heads} heads: {cure}")
    return heads


def _called(told: Settings, name: str) -> str:
    """A setting as the user's config calls it."""
    return str(told["called"].get(name, name))


def _settings(told: Settings, state: State, direction: str | None) -> Settings:
    """TransformerLens's settings of the converted tensors; where the config says a size too, it must be theirs."""
    heads, d, size = state["blocks.0.attn.W_Q"].shape
    sizes = {
        "n_layers": sum(name.endswith(".attn.W_Q") for name in state), "n_heads": heads, "d_model": d, "d_head": size,
        "n_ctx": len(state["pos_embed.W_pos"]), "d_vocab": len(state["embed.W_E"]),
        "d_mlp": state["blocks.0.mlp.W_in"].shape[1],
    }  # fmt: skip
    for name, value in sizes.items():
        if told.get(name, value) != value:
            raise ConfigError(f"config says {_called(told, name)}={quoted(told[name])}, and the tensors {value}")
    if told.get("attention_dir", direction or "causal") != (direction or told.get("attention_dir", "causal")):
        raise ConfigError(
            f"config says attention_dir={quoted(told['attention_dir'])}, and the mask {quoted(direction)}"
        )
    return {
        **sizes, "normalization_type": "LN", "act_fn": told["act_fn"], "eps": told["eps"],
        "attention_dir": direction or told.get("attention_dir", "causal"),
        "use_attn_scale": told.get("use_attn_scale", True), "d_vocab_out": state["unembed.W_U"].shape[1],
    }  # fmt: skip


def _supposed(config: Settings | None, told: Settings) -> str:
    """What nobody said and was taken: the activation, which no tensor shows."""
    if any(name in (config or {}) for name in _CALLED["act_fn"]):
        return ""
    what = {"gelu": "torch's GELU, as in nanoGPT", "gelu_new": "GPT-2's GELU (tanh)", "relu": "ReLU"}[told["act_fn"]]
    return f"its activation is taken to be {what}; config={{'act_fn': ...}} says another"
