"""SandboxTransformer against slow, literal implementations in float64, and its promises as a module."""

import copy
import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.config import TransformerConfig
from interp.errors import ConfigError, GrammarError, RequestError
from interp.functional import stack_params, stacked_logits
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.model.parts import UnitNorm
from interp.worlds.dyck.oracle import oracle_states, oracle_table
from interp.worlds.dyck.oracles import oracle_width

GRAMMAR = DyckGrammar(2, 4)
START, END, PAD = 4, 5, 6


def config_of(**changes):
    settings = {"d_model": 12, "d_head": 6, "n_heads": 2, "d_mlp": 10, "pad_token": PAD, "n_ctx": 24}
    settings |= {"num_types": 2, "max_depth": 4, **changes}
    if settings.get("embedding", "").startswith("minimal"):
        settings["d_model"] = oracle_width(settings["embedding"], 2, 4)
    return TransformerConfig(7, **settings)


def make(seed=0, scale=0.4, **changes):
    """Weights, biases and norm gains all random and not small."""
    model = SandboxTransformer(config_of(**changes), GRAMMAR)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=source)
            p.copy_(1 + 0.3 * noise if name.endswith(".w") else scale * noise)
    return model


BARE = {"block": "bare", "n_layers": 1, "mlp_depth": 0}
PAPER = {"block": "paper", "norm": "unit", "scale_scores": False, "biases": False, "activation": "relu"}
AUTHORS = {"block": "authors", "embedding": "onehot", "positions": "scalar", "unembed_bias": False}
BERT = {"block": "bert", "direction": "bidirectional", "positions": "learned"}
# 7 tokens and 24 positions, tripled by the two heads of each of two layers
DISENTANGLED = {
    "block": "disentangled", "embedding": "onehot", "positions": "onehot", "norm": "none", "mlp_depth": 0,
    "biases": False, "d_model": 279, "d_head": 279, "n_heads": 2, "n_layers": 2,
}  # fmt: skip
CONFIGS = {
    "gpt2": {},
    "gpt2 one head, relu, learned": {
        "n_heads": 1,
        "d_head": 5,
        "activation": "relu",
        "positions": "learned",
    },
    "gpt2 LNPre, linear": {"norm": "LNPre", "positions": "linear", "n_layers": 1},
    "gpt2 no norm, no bias, unscaled": {"norm": "none", "biases": False, "scale_scores": False},
    "gpt2 unit": {"norm": "unit", "norm_eps": 0.7},
    "gpt2 mlp 4": {"mlp_depth": 4},
    "gpt2 mlp 6, relu": {"mlp_depth": 6, "activation": "relu"},
    "gpt2 mlp 3, no bias": {"mlp_depth": 3, "biases": False},
    "gpt2 attention only": {"mlp_depth": 0},
    "gpt2 onehot": {"embedding": "onehot", "d_model": 7},
    "gpt2 classifier": {"d_vocab_out": 3},
    "gpt2 wide": {"d_model": 20, "d_head": 18, "d_mlp": 24},
    "uniform": {"attention": "uniform"},
    "uniform bidirectional": {"attention": "uniform", "direction": "bidirectional"},
    "linear": {"attention": "linear"},
    "linear bidirectional": {"attention": "linear", "direction": "bidirectional", "scale_scores": False},
    "bidirectional": {"direction": "bidirectional", "positions": "learned"},
    "paper": PAPER,
    "paper clamped": {**PAPER, "norm_eps": 3.0},
    "paper mlp 6": {**PAPER, "mlp_depth": 6, "biases": True},
    "paper no mlp": {**PAPER, "mlp_depth": 0, "n_heads": 1, "d_head": 12},
    "paper LN": {**PAPER, "norm": "LN", "biases": True},
    "paper uniform": {**PAPER, "attention": "uniform"},
    "paper linear": {**PAPER, "attention": "linear"},
    "bare": {**BARE, "embedding": "minimal"},
    "bare unit": {**BARE, "norm": "unit", "embedding": "minimal-sum", "n_heads": 3},
    "bare angle": {**BARE, "norm": "none", "embedding": "minimal-angle", "n_heads": 1},
    "bare uniform": {**BARE, "embedding": "minimal-sum", "attention": "uniform"},
    "authors": AUTHORS,
    "authors, norm added": {**AUTHORS, "norm_added": True, "positions": "none"},
    "authors, norm added, no mlp": {**AUTHORS, "norm_added": True, "mlp_depth": 0},
    "authors no mlp": {**AUTHORS, "mlp_depth": 0, "embedding": "learned"},
    "authors, final norm": {**AUTHORS, "final_norm": True, "unembed_bias": True},
    "disentangled": DISENTANGLED,
    "disentangled, bidirectional": {**DISENTANGLED, "direction": "bidirectional", "scale_scores": False},
    "bert": BERT,
    "bert LNPre, no mlp": {**BERT, "norm": "LNPre", "mlp_depth": 0, "direction": "causal"},
    "bert without positions": {**BERT, "positions": "none", "n_layers": 1, "final_norm": True},
    "bert, no norm": {**BERT, "norm": "none", "biases": False},
    "gpt2 onehot positions": {"embedding": "onehot", "positions": "onehot", "d_model": 31},
    "gpt2, no final norm": {"final_norm": False},
    "paper, final norm": {**PAPER, "final_norm": True},
    "bare, final norm": {**BARE, "embedding": "minimal", "final_norm": True},
}
CAUSAL = {n: c for n, c in CONFIGS.items() if c.get("direction") != "bidirectional"}


@pytest.fixture
def model(request):
    return make(1, **CONFIGS[request.param])


every_config = pytest.mark.parametrize("model", CONFIGS, indirect=True)
every_causal = pytest.mark.parametrize("model", CAUSAL, indirect=True)

TOKENS = torch.tensor(
    [
        [START, 0, 2, 3, 1, END, PAD, PAD],
        [START, 2, 0, 0, 1, 1, 3, 2],
        [START, 0, 0, 2, 2, 3, PAD, PAD],
    ]
)

# ---- the slow implementation -----------------------------------------------------------------------


class Literal:
    """One row at a time, one position at a time, vectors as numpy float64. `p` holds weights by name."""

    def __init__(self, model):
        self.c = model.config
        self.p = {n: x.detach().numpy().astype(np.float64) for n, x in model.named_parameters()}

    def get(self, name):
        return self.p.get(name, 0.0)

    def logits(self, tokens):
        return np.array([self.row([int(t) for t in row]) for row in tokens])

    def row(self, ids):
        c = self.c
        xs = [self.embed(ids, i) + self.position(i) for i in range(len(ids))]
        if c.block == "bert":
            xs = [self.norm("ln_embed.", x) for x in xs]
        for layer in range(c.n_layers):
            xs = self.block(f"blocks.{layer}.", xs, ids)
        if c.block == "gpt2" if c.final_norm is None else c.final_norm:
            xs = [self.norm("ln_final.", x) for x in xs]
        return [x @ self.p["unembed.W_U"] + self.get("unembed.b_U") for x in xs]

    def embed(self, ids, i):
        c, token = self.c, ids[i]
        if c.embedding == "learned":
            return self.p["embed.W_E"][token]
        if c.embedding == "onehot":
            return np.eye(c.d_vocab, c.d_model)[token]
        k, depth_bound = c.num_types, c.max_depth
        vector = np.zeros(c.d_model)
        if token == 2 * k:
            vector[-1] = 1
        if token >= 2 * k:
            return vector
        d = pair_depths(ids, k)[i]
        if c.embedding == "minimal":
            vector[token * depth_bound + d - 1] = 1
        elif c.embedding == "minimal-sum":
            vector[token], vector[2 * k + d - 1] = 1, 1
        else:
            theta = math.atan(d / (depth_bound + 2 - d))
            vector[token], vector[2 * k], vector[2 * k + 1] = 1, math.cos(theta), math.sin(theta)
        return vector

    def position(self, i):
        if self.c.positions == "learned":
            return self.p["pos_embed.W_pos"][i]
        if self.c.positions == "linear":
            return i / self.c.n_ctx * self.p["pos_embed.w_pos"]
        if self.c.positions == "onehot":
            return np.eye(self.c.d_model)[self.c.d_vocab + i]
        if self.c.positions == "scalar":
            return np.array([0.0] * (self.c.d_model - 1) + [i / self.c.n_ctx])
        return 0.0

    def norm(self, at, x):
        c = self.c
        centred = x - sum(x) / len(x)
        if c.norm == "none":
            return x
        if c.norm == "unit":  # eq. 7
            return centred / max(math.sqrt(sum(centred**2)), c.norm_eps)
        scaled = centred / math.sqrt(sum(centred**2) / len(x) + c.norm_eps)
        return scaled if c.norm == "LNPre" else scaled * self.p[f"{at}w"] + self.p[f"{at}b"]

    def block(self, at, xs, ids):
        if self.c.block == "disentangled":
            return self.laid_beside(f"{at}attn.", xs, ids)
        if self.c.block == "bert":
            attended = self.attention(f"{at}attn.", xs, ids)
            mid = [self.norm(f"{at}ln1_post.", x + a) for x, a in zip(xs, attended, strict=True)]
            return [self.norm(f"{at}ln2_post.", x + self.mlp(f"{at}mlp.", x)) for x in mid] if self.c.mlp_depth else mid
        if self.c.block == "bare":
            return [self.norm(f"{at}ln1_post.", a) for a in self.attention(f"{at}attn.", xs, ids)]
        if self.c.block == "paper":  # eq. 6
            attended = self.attention(f"{at}attn.", xs, ids)
            mid = [x + self.norm(f"{at}ln1_post.", a) for x, a in zip(xs, attended, strict=True)]
            return [self.mlp(f"{at}mlp.", x) for x in mid] if self.c.mlp_depth else mid
        read = xs if self.c.block == "authors" else [self.norm(f"{at}ln1.", x) for x in xs]
        mid = [x + a for x, a in zip(xs, self.attention(f"{at}attn.", read, ids), strict=True)]
        if self.c.norm_added:
            mid = [x + self.norm(f"{at}ln2.", x) for x in mid]
        if not self.c.mlp_depth:
            return mid
        if self.c.norm_added:
            return [x + self.mlp(f"{at}mlp.", x) for x in mid]
        return [x + self.mlp(f"{at}mlp.", self.norm(f"{at}ln2.", x)) for x in mid]

    def laid_beside(self, at, xs, ids):
        """Vectors that grow: what there was, and behind it what each head moves of it; zeros to the last width."""
        c = self.c
        used = (c.d_vocab + c.n_ctx) * (1 + c.n_heads) ** int(at.split(".")[1])
        out = []
        for i in range(len(ids)):
            parts, keys = [xs[i][:used]], self.keys(ids, i)
            for h in range(c.n_heads):
                scores = [xs[i] @ self.p[f"{at}W_Q"][h] @ xs[j] for j in keys]
                raised = [math.exp(s / (math.sqrt(c.d_model) if c.scale_scores else 1)) for s in scores]
                parts.append(sum(r / sum(raised) * xs[j][:used] for r, j in zip(raised, keys, strict=True)))
            grown = np.concatenate(parts)
            out.append(np.concatenate([grown, np.zeros(c.d_model - len(grown))]))
        return out

    def keys(self, ids, i):
        places = range(len(ids))
        return [j for j in places if (j <= i or self.c.direction == "bidirectional") and (ids[j] != PAD or j == i)]

    def attention(self, at, xs, ids):
        c, out = self.c, []
        for i in range(len(ids)):
            keys = self.keys(ids, i)
            heads = []
            for h in range(c.n_heads):
                share = self.shares(at, h, xs, i, keys)
                values = [xs[j] @ self.p[f"{at}W_V"][h] + self.bias(f"{at}b_V", h) for j in keys]
                heads.append(sum(s * v for s, v in zip(share, values, strict=True)))
            if c.block in ("gpt2", "authors", "bert"):
                out.append(sum(z @ self.p[f"{at}W_O"][h] for h, z in enumerate(heads)) + self.get(f"{at}b_O"))
            else:
                out.append(np.concatenate(heads))
        return out

    def bias(self, name, head):
        return self.p[name][head] if name in self.p else 0.0

    def shares(self, at, h, xs, i, keys):
        c = self.c
        if c.attention == "uniform":
            return [1 / len(keys)] * len(keys)
        q = xs[i] @ self.p[f"{at}W_Q"][h] + self.bias(f"{at}b_Q", h)
        ks = [xs[j] @ self.p[f"{at}W_K"][h] + self.bias(f"{at}b_K", h) for j in keys]
        scores = [q @ k / (math.sqrt(c.d_head) if c.scale_scores else 1) for k in ks]
        if c.attention == "linear":
            return scores
        raised = [math.exp(score) for score in scores]
        return [r / sum(raised) for r in raised]

    def act(self, x):
        if self.c.activation == "relu":
            return np.array([max(v, 0.0) for v in x])
        c = math.sqrt(2 / math.pi)
        return np.array([0.5 * v * (1 + math.tanh(c * (v + 0.044715 * v**3))) for v in x])

    def mlp(self, at, x):
        names = ["in", *(f"hid_{i}" for i in range(1, self.c.mlp_depth - 1)), "out"]
        assert len(names) == self.c.mlp_depth
        for n, name in enumerate(names):
            x = self.act(x) if n else x
            x = x @ self.p[f"{at}W_{name}"] + self.get(f"{at}b_{name}")
        return x


def pair_depths(ids, k):
    """Depth of each bracket's pair by a stack that is emptied at START; 0 for other tokens."""
    stack, out = [], []
    for token in ids:
        if token == 2 * k:
            stack = []
        if token < 2 * k and token % 2 == 0:
            stack.append(token)
            out.append(len(stack))
        elif token < 2 * k:
            out.append(len(stack))
            stack.pop()
        else:
            out.append(0)
    return out


@every_config
def test_logits_equal_the_literal_implementation(model):
    expected = Literal(model).logits(TOKENS)
    assert expected.std() > 0.05  # random weights that make a difference
    dtype = torch.float32 if model.config.embedding == "minimal-angle" else torch.float64  # its table is float32
    assert_close(model.double()(TOKENS), expected, dtype=dtype)


@every_config
def test_float32_is_close_to_float64(model):
    single = model(TOKENS)
    assert single.dtype == torch.float32
    assert_close(single, copy.deepcopy(model).double()(TOKENS))


@pytest.mark.parametrize("clamp", [0.0, 1e-5, 1.0, 50.0])
def test_equation_6_in_the_papers_own_notation(clamp):
    """f(X) = g(LN_C(W_V X softmax(C + (W_K X)^T W_Q X)) + X), columns as positions, one head."""
    model = make(4, n_layers=1, n_heads=1, d_head=12, **{**PAPER, "norm_eps": clamp}).double()
    x = model.embed.W_E[TOKENS[1]].T.detach().numpy()
    block, n = model.blocks[0], len(TOKENS[1])
    w_q, w_k, w_v = (getattr(block.attn, f"W_{w}")[0].T.detach().numpy() for w in "QKV")
    mask = np.array([[-np.inf if i > j else 0.0 for j in range(n)] for i in range(n)])
    scores = np.exp(mask + (w_k @ x).T @ (w_q @ x))
    attended = w_v @ x @ (scores / scores.sum(axis=0, keepdims=True))
    projection = np.eye(12) - np.ones((12, 12)) / 12
    columns = [projection @ attended[:, j] for j in range(n)]
    norms = [np.linalg.norm(column) for column in columns]
    normed = np.stack([c / max(size, clamp) for c, size in zip(columns, norms, strict=True)], axis=1)
    w_in, w_out = (w.T.detach().numpy() for w in (block.mlp.W_in, block.mlp.W_out))
    out = w_out @ np.maximum(w_in @ (normed + x), 0)
    if clamp == 50:
        assert max(norms) < clamp
    cache = model.run_with_cache(TOKENS[1:2])[1]
    assert_close(cache["blocks.0.hook_attn_out"][0].T, normed)
    assert_close(cache["blocks.0.hook_resid_post"][0].T, out)


@pytest.mark.parametrize(
    ("c", "vector", "expected"),
    [
        (0.0, [3.0, -1.0, -2.0, 0.0], np.array([3, -1, -2, 0]) / math.sqrt(14)),
        (0.0, [5.0, 1.0, 0.0, 2.0], np.array([3, -1, -2, 0]) / math.sqrt(14)),  # centred first
        (10.0, [5.0, 1.0, 0.0, 2.0], np.array([0.3, -0.1, -0.2, 0.0])),  # norm sqrt 14 < C
        (math.sqrt(14), [3.0, -1.0, -2.0, 0.0], np.array([3, -1, -2, 0]) / math.sqrt(14)),
        (1e-5, [7.0, 7.0, 7.0, 7.0], np.zeros(4)),
        (0.0, [7.0, 7.0, 7.0, 7.0], np.zeros(4)),  # 0/0 in the equation
    ],
)
def test_unit_norm_by_hand(c, vector, expected):
    x = torch.tensor([[vector]], dtype=torch.float64, requires_grad=True)
    y = UnitNorm(c)(x)
    assert_close(y[0, 0], expected, ulps=4, scale=vector)
    y.sum().backward()
    assert x.grad.isfinite().all()


# ---- oracle embeddings -----------------------------------------------------------------------------


def embed(embedding, text_or_ids, k=2, depth=2):
    config = TransformerConfig(
        2 * k + 3, d_model=oracle_width(embedding, k, depth), embedding=embedding, num_types=k, max_depth=depth
    )
    ids = text_or_ids
    if isinstance(ids, str):
        ids = [2 * k, *DyckGrammar(k, depth).parse(ids)]
    return SandboxTransformer(config).embed(torch.tensor([ids]))[0]


def test_oracle_tables_by_hand():
    """k = 2, D = 2. `([])[`: types ( [ ] ) [ and pair depths 1 2 2 1 1, after START."""
    onehot = embed("minimal", "([])[")
    assert onehot.shape == (6, 9)
    assert onehot.argmax(-1).tolist() == [8, 0, 5, 7, 2, 4]
    assert onehot.sum(-1).tolist() == [1] * 6

    both = embed("minimal-sum", "([])[")
    assert both.tolist() == [
        # ( ) [ ]  d1 d2  START
        [0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 1, 0, 0],
        [0, 0, 1, 0, 0, 1, 0],
        [0, 0, 0, 1, 0, 1, 0],
        [0, 1, 0, 0, 1, 0, 0],
        [0, 0, 1, 0, 1, 0, 0],
    ]

    angle = embed("minimal-angle", "([])[")
    one, two = (1 / 3, 2 / 2)  # tan of the angle at depth 1 and 2 = d / (D + 2 - d)
    c1, s1 = 1 / math.sqrt(1 + one**2), one / math.sqrt(1 + one**2)
    c2, s2 = 1 / math.sqrt(1 + two**2), two / math.sqrt(1 + two**2)
    expected = [
        [0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, c1, s1, 0],
        [0, 0, 1, 0, c2, s2, 0],
        [0, 0, 0, 1, c2, s2, 0],
        [0, 1, 0, 0, c1, s1, 0],
        [0, 0, 1, 0, c1, s1, 0],
    ]
    assert_close(angle, expected, ulps=1)


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("d_tested", [1, "D"])
def test_angles_of_equation_17(depth, d_tested):
    d = depth if d_tested == "D" else 1
    k = 2
    row = oracle_table("minimal-angle", k, depth)[d - 1]
    assert_close(math.atan2(row[2 * k + 1], row[2 * k]), math.atan(d / (depth + 2 - d)), ulps=4, dtype=row.dtype)


@pytest.mark.parametrize("embedding", ["minimal", "minimal-sum", "minimal-angle"])
@pytest.mark.parametrize(("k", "depth"), list(itertools.product((1, 2, 3), (1, 2, 3, 4, 5))))
def test_all_states_and_start_are_told_apart(embedding, k, depth):
    """Chains t^D t'^D visit every (type, depth) of both partners: 2kD vectors and START, all distinct."""
    ids = [2 * k]
    for t in range(k):
        ids += [2 * t] * depth + [2 * t + 1] * depth
    vectors = embed(embedding, ids, k, depth)
    assert len(ids) == 2 * k * depth + 1
    distance = torch.cdist(vectors.double(), vectors.double()) + 9 * torch.eye(len(ids))
    assert distance.min() > 0.01
    if embedding == "minimal":
        assert torch.equal(vectors @ vectors.T, torch.eye(len(ids)))


@pytest.mark.parametrize(("k", "depth"), list(itertools.product((1, 2, 3), (1, 2, 3, 4, 5))))
def test_equation_15_as_printed_collides(k, depth):
    """Index (t - 1) D + d with t = 2j - 1 for openers at 1..D, t = 2j for closers at 0..D - 1."""
    states = [(2 * j - 1, d) for j in range(1, k + 1) for d in range(1, depth + 1)]
    states += [(2 * j, d) for j in range(1, k + 1) for d in range(depth)]
    printed = {}
    for t, d in states:
        printed.setdefault((t - 1) * depth + d, []).append((t, d))
    clashes = sorted(v for v in printed.values() if len(v) > 1)
    assert clashes == [[(2 * j - 1, depth), (2 * j, 0)] for j in range(1, k + 1)]
    table = oracle_table("minimal", k, depth)
    for j in range(1, k + 1):  # ours: opener j at D, and the closer whose pair is at depth 1
        opener, closer = table[(2 * j - 2) * depth + depth - 1], table[(2 * j - 1) * depth]
        assert opener @ closer == 0
        assert opener.sum() == closer.sum() == 1


@pytest.mark.parametrize("embedding", ["minimal", "minimal-sum", "minimal-angle"])
def test_oracle_depends_on_type_and_pair_depth_only(embedding):
    grammar = DyckGrammar(2, 4)
    rows = grammar.sample(60, mode="prefix", length=20, seed=3)
    rows = np.concatenate([np.full((60, 1), grammar.start), rows], axis=1).astype(np.int64)
    vectors = SandboxTransformer(config_of(embedding=embedding)).embed(torch.from_numpy(rows)).numpy()
    seen = {}
    for row, out in zip(rows, vectors, strict=True):
        for token, d, vector in zip(row, pair_depths(row, 2), out, strict=True):
            key = (int(token), d)
            assert np.array_equal(seen.setdefault(key, vector), vector), key
    assert len(seen) == 2 * 2 * 4 + 1
    for t, d in itertools.product(range(2), range(1, 5)):  # partners share the depth's coordinates
        opener, closer = seen[2 * t, d], seen[2 * t + 1, d]
        if embedding != "minimal":
            assert np.array_equal(opener[4:], closer[4:])


def test_depth_is_recomputed_for_every_string_of_a_packed_row():
    strings = ["(([", "[()]", "", "((((", "[]"]
    packed = [t for s in strings for t in (START, *GRAMMAR.parse(s))]
    alone = [oracle_states(torch.from_numpy(GRAMMAR.to_tokens(s)), 2, 4)[0] for s in strings]
    assert oracle_states(torch.tensor([packed]), 2, 4)[0].tolist() == torch.cat(alone).tolist()


def test_specials_and_unknown_ids_of_the_oracle():
    vectors = embed("minimal-sum", [4, 0, 5, 6])
    assert vectors[2].abs().sum() == vectors[3].abs().sum() == 0
    for wrong in (7, 100, -1):
        with pytest.raises(IndexError):
            embed("minimal-sum", [4, 0, wrong])


# ---- hooks -----------------------------------------------------------------------------------------


def norm_hooks(at, batch, pos, width):
    return {f"{at}.hook_scale": (batch, pos, 1), f"{at}.hook_normalized": (batch, pos, width)}


def expected_hooks(c, b, n):
    """Every hook and its shape, written out from the documentation of the blocks."""
    stream, h = (b, n, c.d_model), c.n_heads
    shapes = {"hook_embed": stream}
    if c.positions != "none":
        shapes["hook_pos_embed"] = stream
    if (c.block == "gpt2" if c.final_norm is None else c.final_norm) and c.norm != "none":
        shapes |= norm_hooks("ln_final", b, n, h * c.d_head if c.block == "bare" else c.d_model)
    if c.block == "bert" and c.norm != "none":
        shapes |= norm_hooks("ln_embed", b, n, c.d_model)
    for layer in range(c.n_layers):
        at = f"blocks.{layer}"
        shapes |= {f"{at}.attn.hook_{x}": (b, n, h, c.d_head) for x in "vz"}
        shapes[f"{at}.attn.hook_pattern"] = (b, h, n, n)
        if c.attention != "uniform":
            shapes |= {f"{at}.attn.hook_{x}": (b, n, h, c.d_head) for x in "qk"}
            shapes[f"{at}.attn.hook_attn_scores"] = (b, h, n, n)
        shapes[f"{at}.hook_resid_pre"] = stream
        shapes[f"{at}.hook_attn_out"] = (b, n, h * c.d_head) if c.block == "bare" else stream
        if c.norm != "none":
            late = ["ln2"] if c.mlp_depth or c.norm_added else []
            after = ["ln1_post", *(["ln2_post"] if c.mlp_depth else [])]
            names = {"gpt2": ["ln1", *late], "authors": late, "bert": after}.get(c.block, ["ln1_post"])
            width = h * c.d_head if c.block == "bare" else c.d_model
            for name in names:
                shapes |= norm_hooks(f"{at}.{name}", b, n, width)
        if c.mlp_depth:
            shapes |= {f"{at}.mlp.hook_{x}": (b, n, c.d_mlp) for x in ("pre", "post")}
        if c.block != "bare":
            shapes[f"{at}.hook_resid_post"] = stream
        if c.block == "paper" or c.norm_added or (c.block != "bare" and c.mlp_depth):
            shapes[f"{at}.hook_resid_mid"] = stream
        if c.block in ("gpt2", "authors", "bert") and c.mlp_depth:
            shapes[f"{at}.hook_mlp_out"] = stream
    return shapes


@every_config
def test_every_hook_runs_once_with_its_shape(model):
    expected = expected_hooks(model.config, *TOKENS.shape)
    assert set(model.hook_dict) == set(expected)
    calls = []
    model.run_with_hooks(
        TOKENS,
        return_type=None,
        fwd_hooks=[(lambda name: True, lambda x, hook: calls.append((hook.name, tuple(x.shape))))],
    )
    assert sorted(calls) == sorted(expected.items())


def test_hooks_mean_what_their_names_say():
    """Relations between activations that define them."""
    model = make(2)
    c = model.run_with_cache(TOKENS)[1]
    attn, mlp = model.blocks[0].attn, model.blocks[0].mlp
    with torch.no_grad():
        read = model.blocks[0].ln1(c["resid_pre", 0])
        relations = [
            (c["normalized", 0, "ln1"] * model.blocks[0].ln1.w + model.blocks[0].ln1.b, read),
            (c["q", 0], torch.einsum("bpd,hde->bphe", read, attn.W_Q) + attn.b_Q),
            (c["k", 0], torch.einsum("bpd,hde->bphe", read, attn.W_K) + attn.b_K),
            (c["v", 0], torch.einsum("bpd,hde->bphe", read, attn.W_V) + attn.b_V),
            (c["pattern", 0], c["attn_scores", 0].softmax(-1)),
            (c["z", 0], torch.einsum("bhqk,bkhe->bqhe", c["pattern", 0], c["v", 0])),
            (c["attn_out", 0], torch.einsum("bphe,hed->bpd", c["z", 0], attn.W_O) + attn.b_O),
            (c["resid_mid", 0], c["resid_pre", 0] + c["attn_out", 0]),
            (c["resid_post", 0], c["resid_mid", 0] + c["mlp_out", 0]),
            (c["mlp_out", 0], c["post", 0, "mlp"] @ mlp.W_out + mlp.b_out),
            (c["resid_pre", 1], c["resid_post", 0]),
        ]
    for a, b in relations:
        assert_close(a, b)
    future = c["attn_scores", 0][1, 0].triu(1)[0, 1:]
    assert torch.isinf(future).all()


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_mlp_hooks_are_the_last_hidden_layer(depth):
    model = make(2, mlp_depth=depth)
    c = model.run_with_cache(TOKENS)[1]
    mlp = model.blocks[1].mlp
    assert_close(c["post", 1, "mlp"] @ mlp.W_out + mlp.b_out, c["mlp_out", 1])
    assert_close(mlp.act(c["pre", 1, "mlp"]), c["post", 1, "mlp"])


def hook_counts(model):
    return {n: (len(p.fwd_hooks), len(p.bwd_hooks)) for n, p in model.hook_dict.items()}


@pytest.mark.parametrize("name", ["gpt2", "uniform", "paper", "bare", "bare uniform", "paper uniform"])
def test_editing_a_pattern_changes_the_output_and_leaves_no_hook(name):
    model = make(1, **CONFIGS[name])
    plain = model(TOKENS)
    edit = [("blocks.0.attn.hook_pattern", lambda x, hook: torch.eye(x.shape[-1]).expand_as(x))]
    edited = model.run_with_hooks(TOKENS, fwd_hooks=edit)
    assert (edited - plain).abs().max() > 1e-2
    assert torch.equal(edited[:, 0], plain[:, 0])  # the first position sees itself only anyway
    assert set(hook_counts(model).values()) == {(0, 0)}
    assert torch.equal(model(TOKENS), plain)


@pytest.mark.parametrize(
    "hook", ["attn.hook_attn_scores", "attn.hook_q", "attn.hook_z", "hook_resid_mid", "mlp.hook_post"]
)
def test_other_edits_reach_the_output(hook):
    model = make(1)
    edited = model.run_with_hooks(TOKENS, fwd_hooks=[(f"blocks.0.{hook}", lambda x, hook: 0.3 * x)])
    assert (edited - model(TOKENS)).abs().max() > 1e-2


def test_an_exception_in_a_hook_leaves_no_hook():
    model = make(1)

    def stop(x, hook):
        raise ValueError("stop")

    mine = []
    model.add_hook("blocks.1.hook_resid_post", lambda x, hook: mine.append(1))
    before = hook_counts(model)
    for run in (model.run_with_hooks, model.run_with_cache):
        kwargs = {"fwd_hooks": [("blocks.0.hook_attn_out", stop)]} if run == model.run_with_hooks else {}
        with pytest.raises(ValueError if kwargs else RequestError):
            run(TOKENS if kwargs else TOKENS + 50, **kwargs)
        assert hook_counts(model) == before


# ---- who sees whom ---------------------------------------------------------------------------------


@every_causal
def test_later_tokens_never_change_earlier_logits(model):
    for cut in (1, 3, 6):
        changed = TOKENS.clone()
        changed[:, cut:] = torch.tensor([3, 0, 1, 2, 2, 0, 3])[: 8 - cut]
        assert torch.equal(model(changed)[:, :cut], model(TOKENS)[:, :cut])
        assert (model(changed)[:, cut:] - model(TOKENS)[:, cut:]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["bidirectional", "uniform bidirectional"])
def test_bidirectional_sees_later_tokens(name):
    model = make(1, **CONFIGS[name])
    changed = TOKENS.clone()
    changed[:, 3] = 1
    difference = (model(changed) - model(TOKENS)).abs().amax(-1)
    assert (difference[1] > 1e-3).all()


@every_config
def test_padding_changes_nothing(model):
    short = TOKENS[:, :6]
    long = torch.cat([short, torch.full((3, 5), PAD)], dim=1)
    assert_close(model(long)[:, :6], model(short))


@every_config
def test_only_padding_is_no_nan(model):
    tokens = torch.full((2, 6), PAD)
    tokens[0, 0] = START
    assert model(tokens).isfinite().all()


@pytest.mark.parametrize("direction", ["causal", "bidirectional"])
def test_visible_keys_by_hand(direction):
    model = make(0, direction=direction)
    tokens = torch.tensor([[START, 0, PAD], [START, 0, 1]])
    padded, full = model.visible_keys(tokens)[:, 0].int().tolist()
    if direction == "causal":
        assert full == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
        assert padded == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    else:
        assert full == [[1, 1, 1]] * 3
        assert padded == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]


def test_without_a_pad_token_every_token_is_seen():
    model = make(0, pad_token=None)
    changed = TOKENS.clone()
    changed[0, 6] = 2
    assert (model(changed) - model(TOKENS))[0, 7].abs().max() > 1e-3


PACKED = [
    {"positions": "none"},
    {"positions": "linear"},
    {"positions": "learned"},
    {"direction": "bidirectional", "positions": "learned"},
    BERT,
    {"attention": "uniform"},
    {"attention": "linear"},
    PAPER,
    {**BARE, "embedding": "minimal"},
    {**BARE, "embedding": "minimal-angle", "attention": "uniform"},
]


@pytest.mark.parametrize("changes", PACKED, ids=str)
def test_strings_packed_in_one_row_give_the_logits_of_each_alone(changes):
    """Incomplete strings first, so that anything that leaks from one to the next shows."""
    model = make(3, **changes)
    strings = [[START, 0, 0, 2], [START, 2, 0, 1, 3], [START], [START, 0, 1, END], [START, 2, 2, 3]]
    row = torch.tensor([[t for s in strings for t in s]])
    owner = torch.tensor([i for i, s in enumerate(strings) for _ in s])
    positions = torch.tensor([[j for s in strings for j in range(len(s))]])
    visible = owner[:, None] == owner[None, :]
    if model.config.direction == "causal":
        visible = visible.tril()
    with torch.no_grad():
        packed = model(row, visible=visible[None, None], positions=positions)[0]
        for i, s in enumerate(strings):
            assert_close(packed[owner == i], model(torch.tensor([s]))[0])
        assert (packed[owner == 4] - model(row)[0, owner == 4]).abs().max() > 1e-3


@pytest.mark.parametrize("first", [0, 1, 5, 7])
@every_config
def test_from_a_first_position_on_the_logits_are_the_same_and_no_more_is_done(model, first):
    with torch.no_grad():
        whole = model(TOKENS)
        late, cache = model.run_with_cache(TOKENS, first=first)
    assert_close(late, whole[:, first:])
    last = model.config.n_layers - 1
    assert cache["pattern", last].shape[2:] == (8 - first, 8)
    if last:
        assert cache["pattern", 0].shape[2:] == (8, 8), "its keys are read by the last block"


@pytest.mark.parametrize(
    ("first", "kind", "said"),
    [
        *((first, "logits", "is none of the 8 positions") for first in (8, -1, 1.0, True, None, "1")),
        (2, "loss", "is that of all positions"),
    ],
)
def test_a_first_position_that_cannot_be_is_refused(first, kind, said):
    with pytest.raises(RequestError, match=f"first={first!r}.* {said}"):
        make()(TOKENS, kind, first=first)


@every_config
def test_one_mask_of_keys_stands_for_all_queries(model):
    keys = TOKENS != PAD
    with torch.no_grad():
        whole = model(TOKENS, visible=keys[:, None, None].expand(-1, -1, 8, -1))
        assert_close(model(TOKENS, visible=keys[:, None, None]), whole)
        assert_close(model(TOKENS, visible=keys[:, None, None], first=6), whole[:, 6:])


# ---- many models as one ----------------------------------------------------------------------------


@pytest.mark.parametrize("own_tokens", [False, True])
@every_config
def test_stacked_logits_are_those_of_each_model_alone(model, own_tokens):
    models = [SandboxTransformer.init(replace(model.config, init_std=0.5), seed) for seed in (8, 9)] + [model]
    params = stack_params([dict(m.named_parameters()) for m in models])
    tokens = torch.stack([TOKENS, TOKENS.flip(0), TOKENS.roll(1, 0)]) if own_tokens else TOKENS
    with torch.no_grad():
        stacked = stacked_logits(SandboxTransformer(model.config), params, tokens, own_tokens)
        for i, m in enumerate(models):
            alone = m(tokens[i] if own_tokens else tokens)
            assert_close(stacked[i], alone)


# ---- initial weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "bidirectional", "paper mlp 6", "bare", "gpt2 LNPre, linear"])
def test_init_is_a_function_of_config_and_seed(name):
    config = config_of(**CONFIGS[name])
    torch.manual_seed(1)
    first = SandboxTransformer.init(config, 7).state_dict()
    torch.manual_seed(2)
    np.random.seed(5)
    again = SandboxTransformer.init(config, 7, GRAMMAR).state_dict()
    other = SandboxTransformer.init(config, 8).state_dict()
    assert list(first) == list(again)
    for n, weight in first.items():
        assert torch.equal(weight, again[n])
        if n.rsplit(".", 1)[-1].startswith(("W_", "w_")):
            assert not torch.equal(weight, other[n])
    same_shape = [(a, b) for a, b in itertools.combinations(first.values(), 2) if a.shape == b.shape and a.std()]
    assert not any(torch.equal(a, b) for a, b in same_shape)  # a stream of its own for every tensor


def test_global_random_state_is_untouched():
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    model = SandboxTransformer.init(config_of(positions="learned"), 3, GRAMMAR)
    model(TOKENS, return_type="loss").backward()
    model.run_with_cache(TOKENS)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_init_follows_gpt2():
    wide = {"d_model": 160, "d_head": 80, "d_mlp": 200, "n_layers": 3, "init_std": 0.05, "mlp_depth": 4}
    config = config_of(**wide, positions="learned", n_ctx=200)
    small = 0.05 / math.sqrt(6)
    leaves = set()
    for name, p in SandboxTransformer.init(config, 0).named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        leaves.add(leaf)
        if leaf == "w":
            assert (p == 1).all()
        elif leaf.startswith("b"):
            assert (p == 0).all()
        else:
            std = small if leaf in ("W_O", "W_out") else 0.05
            assert p.std().item() == pytest.approx(std, rel=6 / math.sqrt(2 * p.numel())), name
            assert abs(p.mean()) < 6 * std / math.sqrt(p.numel())
    assert leaves >= {"W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_hid_1", "W_hid_2", "W_out", "W_U"}
    assert leaves >= {"w", "b", "b_Q", "b_O", "b_in", "b_hid_1", "b_out", "b_U"}


def test_configs_that_share_a_tensor_start_it_alike():
    a = SandboxTransformer.init(config_of(), 4).state_dict()
    b = SandboxTransformer.init(config_of(positions="learned", norm="LNPre", mlp_depth=4), 4).state_dict()
    for name in ("embed.W_E", "blocks.1.attn.W_Q", "blocks.0.mlp.W_in", "unembed.W_U"):
        assert torch.equal(a[name], b[name])


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", None, True])
def test_bad_seed(seed):
    with pytest.raises(RequestError, match="seed"):
        SandboxTransformer.init(config_of(), seed)


def test_new_model_is_in_eval_mode_and_keeps_what_it_was_given():
    model = SandboxTransformer.init(config_of(), 3, GRAMMAR)
    assert not any(m.training for m in model.modules())
    assert (model.grammar, model.config) == (GRAMMAR, config_of())
    assert model.provenance == {"seed": 3, "trained": False}


def test_grammar_must_fit():
    with pytest.raises(ConfigError, match=r"d_vocab=7 .* 9"):
        SandboxTransformer(config_of(), DyckGrammar(3, 4))


# ---- weights ---------------------------------------------------------------------------------------


def test_weight_shapes_are_transformer_lens_shapes():
    model = make(0, n_layers=3, d_vocab_out=5, d_head=4)
    shapes = {
        "W_Q": (3, 2, 12, 4), "W_K": (3, 2, 12, 4), "W_V": (3, 2, 12, 4), "W_O": (3, 2, 4, 12),
        "b_Q": (3, 2, 4), "b_K": (3, 2, 4), "b_V": (3, 2, 4), "b_O": (3, 12),
        "W_in": (3, 12, 10), "b_in": (3, 10), "W_out": (3, 10, 12), "b_out": (3, 12),
        "W_E": (7, 12), "W_U": (12, 5), "b_U": (5,),
    }  # fmt: skip
    assert {n: tuple(getattr(model, n).shape) for n in shapes} == shapes
    for layer in range(3):
        assert torch.equal(model.W_Q[layer], model.blocks[layer].attn.W_Q)
        assert torch.equal(model.W_out[layer], model.blocks[layer].mlp.W_out)


@pytest.mark.parametrize(
    ("changes", "weight", "because"),
    [
        ({"attention": "uniform"}, "W_Q", "attention='uniform'"),
        ({"attention": "uniform"}, "b_K", "attention='uniform'"),
        ({"mlp_depth": 0}, "W_in", "mlp_depth=0"),
        ({**PAPER, "mlp_depth": 0}, "W_out", "mlp_depth=0"),
        ({**BARE, "embedding": "minimal"}, "W_E", "embedding='minimal'"),
        ({**BARE, "embedding": "minimal"}, "b_in", "mlp_depth=0"),
    ],
)
def test_weights_that_are_not_there(changes, weight, because):
    with pytest.raises(RequestError, match=f"no {weight}: {because}"):
        getattr(make(0, **changes), weight)


@pytest.mark.parametrize("name", ["paper", "bare"])
def test_without_output_projection_w_o_lays_heads_side_by_side(name):
    model = make(0, **CONFIGS[name])
    z = model.run_with_cache(TOKENS)[1]["z", 0]
    assert_close(torch.einsum("bphe,hed->bpd", z, model.W_O[0]), z.flatten(2), ulps=1)
    assert (model.b_O == 0).all()
    assert not any("W_O" in n or "b_O" in n for n in model.state_dict())


def test_a_config_without_biases_has_none_to_train():
    model = make(0, biases=False, norm="LNPre")
    assert not any(n.rsplit(".", 1)[-1].startswith("b") for n, _ in model.named_parameters())
    assert (model.b_Q == 0).all()


@every_config
def test_state_dict_holds_the_parameters_and_nothing_else(model):
    state = model.state_dict()
    assert set(state) == {n for n, _ in model.named_parameters()}
    other = SandboxTransformer(model.config, GRAMMAR)
    other.load_state_dict(state)
    assert torch.equal(other(TOKENS), model(TOKENS))


@every_config
def test_every_parameter_matters(model):
    """A weight that no gradient reaches would train to nothing."""
    model.double()
    (model(TOKENS) * torch.linspace(-1, 1, model.config.d_out, dtype=torch.float64)).square().sum().backward()
    largest = max(p.grad.abs().max() for p in model.parameters() if p.grad is not None)
    dead = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-9 * largest]
    assert all(n.endswith("b_K") for n in dead), dead  # a key bias shifts a row's scores alike


# ---- text and loss ---------------------------------------------------------------------------------


def test_text_and_ids_give_the_same_logits():
    model = make(0)
    ids = torch.tensor([[START, 0, 2, 3, 1], [START, 2, 3, PAD, PAD]])
    assert torch.equal(model.to_tokens(["([])", "[]"]), ids)
    assert torch.equal(model(["([])", "[]"]), model(ids))
    assert torch.equal(model("([])"), model(ids[:1]))
    assert torch.equal(model(ids[0]), model(ids[:1]))  # one row without a batch axis
    assert torch.equal(model.to_tokens(ids), ids)
    assert torch.equal(model.to_tokens("[]", prepend_bos=False), torch.tensor([[2, 3]]))


def test_token_strings():
    model = make(0)
    assert model.to_str_tokens("([])") == ["START", "(", "[", "]", ")"]
    assert model.to_str_tokens("([])", prepend_bos=False) == ["(", "[", "]", ")"]
    assert model.to_str_tokens(torch.tensor([START, 1, END, PAD])) == ["START", ")", "END", "PAD"]
    assert [model.to_single_token(t) for t in ("(", ")", "[", "]", "START", "END", "PAD")] == list(range(7))


@pytest.mark.parametrize(
    ("text", "position"), [("(])", 1), ("()x", 2), ("((((([", 4), (["()", "[)"], 1), (["()", ")"], 0)]
)
def test_bad_text_names_the_position(text, position):
    with pytest.raises(GrammarError, match=f"position {position}"):
        make(0)(text)


@pytest.mark.parametrize("token", ["x", "()", "", "{"])
def test_no_such_token(token):
    with pytest.raises(RequestError, match="is not one token"):
        make(0).to_single_token(token)


def test_bad_requests():
    model = make(0)
    with pytest.raises(RequestError, match="'logit' is not"):
        model(TOKENS, return_type="logit")
    with pytest.raises(RequestError, match=r"\[1, 3, 8\]"):
        model(TOKENS[None])
    with pytest.raises(RequestError, match="no grammar"):
        SandboxTransformer(config_of())("()")
    with pytest.raises(RequestError, match="d_vocab_out=3"):
        make(0, d_vocab_out=3)(TOKENS, return_type="loss")
    with pytest.raises(RequestError, match=r"25 tokens .* n_ctx=24"):
        make(0, positions="learned")(torch.zeros(1, 25, dtype=torch.long))
    assert make(0, positions="linear")(torch.zeros(1, 25, dtype=torch.long)).isfinite().all()


@pytest.mark.parametrize("pad_token", [PAD, None])
def test_loss_equals_a_literal_loop(pad_token):
    model = make(0, pad_token=pad_token).double()
    logits = model(TOKENS).detach().numpy()
    terms = []
    for b, i in itertools.product(range(3), range(7)):
        target = int(TOKENS[b, i + 1])
        if target == pad_token:
            continue
        terms.append(math.log(sum(math.exp(x) for x in logits[b, i])) - logits[b, i, target])
    assert len(terms) == (17 if pad_token else 21)
    assert_close(model(TOKENS, return_type="loss"), sum(terms) / len(terms))
    assert model(TOKENS, return_type=None) is None


def test_residual_directions():
    model = make(0)
    w = model.W_U
    assert torch.equal(model.tokens_to_residual_directions(3), w[:, 3])
    assert torch.equal(model.tokens_to_residual_directions("]"), w[:, 3])
    assert torch.equal(model.tokens_to_residual_directions(torch.tensor([[1, 2]])), w[:, [1, 2]].T[None])


# ---- sizes and copies ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (1, 1), (2, 1)])
@every_config
def test_odd_shapes(model, shape):
    tokens = torch.full(shape, START)
    logits, cache = model.run_with_cache(tokens)
    assert logits.shape == (*shape, model.config.d_out)
    assert cache["pattern", 0].shape == (shape[0], model.config.n_heads, shape[1], shape[1])
    assert logits.isfinite().all()


@pytest.mark.parametrize("changes", [{"n_heads": 1}, {**BARE, "embedding": "minimal", "n_heads": 1}])
def test_long_input(changes):
    """Far beyond n_ctx, which binds learned positions only; one position checked against its own history."""
    model = make(0, **changes)
    brackets = torch.tensor([0, 2, 3, 1]).repeat(750)
    tokens = torch.cat([torch.tensor([START]), brackets])[None]
    with torch.no_grad():
        logits = model(tokens)
        assert logits.shape == (1, 3001, 7)
        assert_close(logits[:, :40], model(tokens[:, :40]))
    assert logits.isfinite().all()


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
@every_config
def test_copies_are_independent(model, how):
    other = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(pickle.dumps(model))
    before = model(TOKENS)
    assert torch.equal(other(TOKENS), before)
    assert (other.config, other.grammar, other.provenance) == (model.config, model.grammar, model.provenance)
    seen = []
    other.add_hook("blocks.0.attn.hook_z", lambda x, hook: seen.append(0 * x) or 0 * x)
    with torch.no_grad():
        other.unembed.W_U.zero_()
    assert torch.equal(model(TOKENS), before)
    assert not seen
    other(TOKENS)
    assert len(seen) == 1


def test_other_devices_and_dtypes():
    model = make(0, attention="uniform", biases=False, embedding="onehot", d_model=7).to("meta")
    assert model(torch.zeros(2, 3, dtype=torch.long, device="meta")).shape == (2, 3, 7)
    assert model.cfg.device == model.device == torch.device("meta")
    half = make(0, norm="unit").to(torch.bfloat16)
    assert half(TOKENS).dtype == half.cfg.dtype == torch.bfloat16
    assert half(TOKENS).isfinite().all()


def test_cfg_is_what_transformer_lens_reads():
    cfg = make(0, n_layers=3, d_vocab_out=5).cfg
    assert (cfg.n_layers, cfg.n_heads, cfg.d_model, cfg.d_head, cfg.d_mlp, cfg.n_ctx) == (3, 2, 12, 6, 10, 24)
    assert (cfg.d_vocab, cfg.d_vocab_out, cfg.attn_only, cfg.n_key_value_heads) == (7, 5, False, None)
    assert make(0, mlp_depth=0).cfg.attn_only


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, "LN"), ({"norm": "LNPre"}, "LNPre"), ({"norm": "unit"}, "LNPre"), ({"norm": "none"}, None), (PAPER, None)],
)
def test_normalization_type_is_one_whose_arithmetic_holds(changes, expected):
    """`unit` is centred and divided by its hook_scale, which is all TransformerLens assumes of LNPre."""
    assert make(0, **changes).cfg.normalization_type == expected


# ---- BERT --------------------------------------------------------------------------------------------


def bert_with_weights_of(model):
    """Hugging Face's model, without its pooler; its one embedding of a token type is 0."""
    transformers = pytest.importorskip("transformers")
    c, state, at = model.config, model.state_dict(), "embeddings."
    weights = {
        f"{at}word_embeddings.weight": state["embed.W_E"],
        f"{at}position_embeddings.weight": state["pos_embed.W_pos"],
        f"{at}token_type_embeddings.weight": torch.zeros(1, c.d_model),
    }
    norms = {f"{at}LayerNorm": "ln_embed"}
    for layer in range(c.n_layers):
        ours, theirs = f"blocks.{layer}.", f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            letter = part[0].upper()
            weights[f"{theirs}attention.self.{part}.weight"] = state[f"{ours}attn.W_{letter}"].mT.flatten(0, 1)
            weights[f"{theirs}attention.self.{part}.bias"] = state[f"{ours}attn.b_{letter}"].flatten()
        weights[f"{theirs}attention.output.dense.weight"] = state[f"{ours}attn.W_O"].flatten(0, 1).mT
        weights[f"{theirs}attention.output.dense.bias"] = state[f"{ours}attn.b_O"]
        for part, name in (("intermediate", "in"), ("output", "out")):
            weights[f"{theirs}{part}.dense.weight"] = state[f"{ours}mlp.W_{name}"].mT
            weights[f"{theirs}{part}.dense.bias"] = state[f"{ours}mlp.b_{name}"]
        norms |= {
            f"{theirs}attention.output.LayerNorm": f"{ours}ln1_post",
            f"{theirs}output.LayerNorm": f"{ours}ln2_post",
        }
    weights |= {f"{theirs}.weight": state[f"{ours}.w"] for theirs, ours in norms.items()}
    weights |= {f"{theirs}.bias": state[f"{ours}.b"] for theirs, ours in norms.items()}
    shape = {
        "vocab_size": c.d_vocab, "hidden_size": c.d_model, "num_hidden_layers": c.n_layers, "type_vocab_size": 1,
        "num_attention_heads": c.n_heads, "intermediate_size": c.d_mlp, "max_position_embeddings": c.n_ctx,
    }  # fmt: skip
    config = transformers.BertConfig(**shape, hidden_act="gelu", layer_norm_eps=c.norm_eps, pad_token_id=c.pad_token)
    bert = transformers.BertModel(config, add_pooling_layer=False)
    bert.load_state_dict(weights)  # every one
    return bert.to(state["embed.W_E"].dtype).eval()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_stream_of_block_bert_is_that_of_bert(seed):
    """After the embeddings and after each layer, PAD behind short strings included."""
    model = make(seed, **BERT, n_layers=3, activation="gelu_exact", norm_eps=1e-3)
    tokens = torch.randint(0, 6, (4, 11), generator=torch.Generator().manual_seed(seed))
    tokens[1, 7:] = tokens[2, 3:] = PAD
    with torch.no_grad():
        states = bert_with_weights_of(model)(tokens, (tokens != PAD).long(), output_hidden_states=True).hidden_states
        _, cache = model.run_with_cache(tokens)
    ours = [*(cache["resid_pre", layer] for layer in range(3)), cache["resid_post", 2]]
    for given, expected in zip(ours, states, strict=True):
        assert expected.std() > 0.5
        assert_close(given[tokens != PAD], expected[tokens != PAD])
