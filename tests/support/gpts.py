"""Decoders as people write them, each in the shape of a known code base: nanoGPT, minGPT of 2020, the lecture's."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class NanoNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class NanoAttention(nn.Module):
    def __init__(self, width, heads, length, bias, mask):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.heads = heads
        if mask:
            self.register_buffer("bias", torch.ones(length, length).tril()[None, None])

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
        self.pattern = scores.softmax(-1)
        return self.c_proj((self.pattern @ v).transpose(1, 2).reshape(b, t, c))


class NanoMLP(nn.Module):
    def __init__(self, width, bias, tanh):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)
        self.act = nn.GELU(approximate="tanh" if tanh else "none")

    def forward(self, x):
        return self.c_proj(self.act(self.c_fc(x)))


class NanoBlock(nn.Module):
    def __init__(self, width, heads, length, bias, mask, tanh):
        super().__init__()
        self.ln_1, self.ln_2 = NanoNorm(width, bias), NanoNorm(width, bias)
        self.attn, self.mlp = NanoAttention(width, heads, length, bias, mask), NanoMLP(width, bias, tanh)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    """nanoGPT's model.py; with tied=False, tanh=True and mask=True that of minGPT."""

    def __init__(self, vocab=7, layers=2, heads=2, width=12, length=24, bias=False, mask=False, tied=True, tanh=False):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, width),
                "wpe": nn.Embedding(length, width),
                "h": nn.ModuleList(NanoBlock(width, heads, length, bias, mask, tanh) for _ in range(layers)),
                "ln_f": NanoNorm(width, bias),
            }
        )
        self.lm_head = nn.Linear(width, vocab, bias=False)
        if tied:
            self.transformer["wte"].weight = self.lm_head.weight
        self.args = {
            "n_layer": layers, "n_head": heads, "n_embd": width, "block_size": length, "bias": bias,
            "vocab_size": vocab, "dropout": 0.0,
        }  # fmt: skip

    def forward(self, tokens):
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](torch.arange(tokens.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


class MinAttention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.key, self.query, self.value, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.register_buffer("mask", torch.ones(length, length).tril()[None, None])
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
        pattern = scores.masked_fill(self.mask[:, :, :t, :t] == 0, -torch.inf).softmax(-1)
        return self.proj((pattern @ v).transpose(1, 2).reshape(b, t, c))


class MinBlock(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = MinAttention(width, heads, length)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class MinGPT(nn.Module):
    """minGPT of 2020."""

    def __init__(self, vocab=7, layers=2, heads=3, width=12, length=24):
        super().__init__()
        self.tok_emb = nn.Embedding(vocab, width)
        self.pos_emb = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.Sequential(*(MinBlock(width, heads, length) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.args = {"n_head": heads}

    def forward(self, tokens):
        x = self.tok_emb(tokens) + self.pos_emb[:, : tokens.shape[1]]
        return self.head(self.ln_f(self.blocks(x)))


class LectureHead(nn.Module):
    def __init__(self, width, size, length):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.ones(length, length).tril())

    def forward(self, x):
        t = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * self.key(x).shape[-1] ** -0.5
        return scores.masked_fill(self.tril[:t, :t] == 0, -torch.inf).softmax(-1) @ self.value(x)


class LectureHeads(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = nn.ModuleList(LectureHead(width, width // heads, length) for _ in range(heads))
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class LectureForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        return self.net(x)


class LectureBlock(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.sa, self.ffwd = LectureHeads(width, heads, length), LectureForward(width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class Lecture(nn.Module):
    """The code that the lecture "Let's build GPT" ends with."""

    def __init__(self, vocab=7, layers=2, heads=3, width=12, length=24):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab, width)
        self.position_embedding_table = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(LectureBlock(width, heads, length) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab)
        self.args = None

    def forward(self, tokens):
        x = self.token_embedding_table(tokens) + self.position_embedding_table(torch.arange(tokens.shape[1]))
        return self.lm_head(self.ln_f(self.blocks(x)))


def spread(model, seed=0, size=0.3):
    """Random weights that depend on the seed alone, in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = size * torch.randn(parameter.shape, generator=generator)
        parameter.data = noise if parameter.ndim > 1 else 0.5 + noise
    return model.eval()


def nano_state(model, own, length=64):
    """A model of ours as nanoGPT would save it; `own`: the id that each id of its grammar has there."""
    w, d = model.state_dict(), model.config.d_model
    here = torch.tensor(sorted(range(len(own)), key=lambda i: own[i]))
    state = {"wte.weight": w["embed.W_E"][here], "wpe.weight": torch.zeros(length, d)}
    for layer in range(model.config.n_layers):
        a, b = f"blocks.{layer}.", f"h.{layer}."
        maps = [w[f"{a}attn.W_{x}"].transpose(1, 2).reshape(-1, d) for x in "QKV"]
        state[f"{b}attn.c_attn.weight"] = torch.cat(maps)
        state[f"{b}attn.c_attn.bias"] = torch.cat([w[f"{a}attn.b_{x}"].reshape(-1) for x in "QKV"])
        state[f"{b}attn.c_proj.weight"] = w[f"{a}attn.W_O"].reshape(-1, d).T
        state[f"{b}attn.c_proj.bias"] = w[f"{a}attn.b_O"]
        for name, x in (("c_fc", "in"), ("c_proj", "out")):
            state[f"{b}mlp.{name}.weight"], state[f"{b}mlp.{name}.bias"] = w[f"{a}mlp.W_{x}"].T, w[f"{a}mlp.b_{x}"]
        for name, x in (("ln_1", "ln1"), ("ln_2", "ln2")):
            state[f"{b}{name}.weight"], state[f"{b}{name}.bias"] = w[f"{a}{x}.w"], w[f"{a}{x}.b"]
    state |= {"ln_f.weight": w["ln_final.w"], "ln_f.bias": w["ln_final.b"]}
    state |= {"lm_head.weight": w["unembed.W_U"].T[here], "lm_head.bias": w["unembed.b_U"][here]}
    return {name: x.clone() for name, x in state.items()}
