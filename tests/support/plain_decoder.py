"""A decoder with rotary positions, RMS norms, gated MLPs and grouped heads, written out in plain PyTorch.

From a state dict and config of transformers, and nothing of its code: what bridges and edits are held against.
"""

import torch
from torch.nn import functional as F


def plain_decoder(model, tokens, on_z=None):
    """(logits, [layer] patterns [batch, head, query, key], [layer] values [batch, key, head, d_head]).

    `on_z(layer, pattern, v, z)`, if given, returns what goes on in the place of z [batch, query, head, d_head].
    """
    c, w = model.config, model.state_dict()
    gemma = c.model_type == "gemma"
    heads, groups, size = c.num_attention_heads, c.num_key_value_heads, c.head_dim
    act = {"silu": F.silu, "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh")}[
        getattr(c, "hidden_activation", None) or c.hidden_act
    ]

    def norm(x, name):
        gain = w[f"model.{name}.weight"] + (1 if gemma else 0)
        return gain * x / (x.pow(2).mean(-1, keepdim=True) + c.rms_norm_eps).sqrt()

    def linear(x, name):
        return F.linear(x, w[f"model.{name}.weight"], w.get(f"model.{name}.bias"))

    n = tokens.shape[1]
    theta = c.rope_parameters["rope_theta"]
    angle = torch.arange(n)[:, None] * theta ** (-torch.arange(0, size, 2) / size)[None]
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]  # [pos, 1, d_head / 2]

    def turned(x):
        left, right = x[..., : size // 2], x[..., size // 2 :]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    x = w["model.embed_tokens.weight"][tokens] * (c.hidden_size**0.5 if gemma else 1)
    patterns, values = [], []
    for layer in range(c.num_hidden_layers):
        b = f"layers.{layer}."
        y = norm(x, f"{b}input_layernorm")
        q, k, v = (
            linear(y, f"{b}self_attn.{part}_proj").reshape(*y.shape[:2], count, size)
            for part, count in (("q", heads), ("k", groups), ("v", groups))
        )
        q, k = turned(q), turned(k)
        pattern = torch.zeros(len(tokens), heads, n, n)
        z = torch.zeros(len(tokens), n, heads, size)
        own = torch.stack([v[:, :, h // (heads // groups)] for h in range(heads)], 2)
        for h in range(heads):
            g = h // (heads // groups)
            scores = q[:, :, h] @ k[:, :, g].transpose(1, 2) / size**0.5
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
            pattern[:, h] = scores.softmax(-1)
            z[:, :, h] = pattern[:, h] @ v[:, :, g]
        patterns.append(pattern)
        values.append(own)
        if on_z is not None:
            z = on_z(layer, pattern, own, z)
        x = x + linear(z.flatten(2), f"{b}self_attn.o_proj")
        y = norm(x, f"{b}post_attention_layernorm")
        x = x + linear(act(linear(y, f"{b}mlp.gate_proj")) * linear(y, f"{b}mlp.up_proj"), f"{b}mlp.down_proj")
    return norm(x, "norm") @ w["lm_head.weight"].T, patterns, values


def small_decoder(kind, heads=9, groups=3, vocab=23, seed=0, **more):
    """A random "llama", "qwen2" or "gemma" of transformers, in eval mode, with weights that make patterns differ."""
    import transformers

    name = {"llama": "Llama", "qwen2": "Qwen2", "gemma": "Gemma"}[kind]
    shape = {
        "vocab_size": vocab, "hidden_size": 36, "intermediate_size": 40, "num_hidden_layers": 2, "head_dim": 4,
        "num_attention_heads": heads, "num_key_value_heads": groups, "max_position_embeddings": 32,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.4, **more,
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**shape))
        for parameter in model.parameters():  # gains and biases too: at their first values they would hide a mistake
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()
