"""What saves work, beside what it stands for: norms in one kernel, gains inside weights, maps once a token."""

import itertools

import pytest
import torch
from torch import nn

from closeness import assert_close
from interp.config import TransformerConfig
from interp.functional import stacked_logits
from interp.model import SandboxTransformer
from interp.model.masks import Trusted
from interp.model.parts import LayerNorm, through

GPT2 = {"block": "gpt2"}
AUTHORS = {"block": "authors"}
BLOCKS = {
    "gpt2": GPT2,
    "gpt2, several heads": {**GPT2, "n_heads": 3, "d_head": 4},
    "gpt2, gains only in part": {**GPT2, "norm": "LNPre"},
    "gpt2, no norm": {**GPT2, "norm": "none"},
    "gpt2, attention only": {**GPT2, "mlp_depth": 0},
    "gpt2, deep MLP": {**GPT2, "mlp_depth": 4},
    "gpt2, classifier": {**GPT2, "d_vocab_out": 3},
    "gpt2, tied": {**GPT2, "unembed": "tied"},
    "uniform": {**GPT2, "attention": "uniform"},
    "linear": {**GPT2, "attention": "linear"},
    "paper": {"block": "paper", "norm": "unit"},
    "paper, LN": {"block": "paper"},
    "bare": {"block": "bare", "n_layers": 1, "mlp_depth": 0},
    "bidirectional": {**GPT2, "direction": "bidirectional"},
    "authors": AUTHORS,
    "authors, norm added": {**AUTHORS, "norm_added": True},
    "one-hot": {**AUTHORS, "embedding": "onehot"},
    "bert": {"block": "bert", "direction": "bidirectional"},
    "bert, causal, attention only": {"block": "bert", "mlp_depth": 0},
}
every_block = pytest.mark.parametrize("changes", BLOCKS.values(), ids=BLOCKS.keys())


def make(seed=0, **changes):
    """Float64, every weight random, gains near 1."""
    settings = {"n_layers": 2, "d_model": 12, "d_head": 12, "n_heads": 1, "d_mlp": 9, "pad_token": 6, **changes}
    model = SandboxTransformer(TransformerConfig(7, **settings)).double()
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=source, dtype=p.dtype)
            p.copy_(1 + 0.3 * noise if name.endswith(".w") else 0.4 * noise)
    return model


def tokens_of(seed, rows=3, pos=8):
    return torch.randint(0, 6, (rows, pos), generator=torch.Generator().manual_seed(seed))


def gradients(model, output):
    names, params = zip(*model.named_parameters(), strict=True)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return dict(zip(names, torch.autograd.grad((output * weights).sum(), params), strict=True))


def assert_same_gradients(given, expected):
    """Of one scale for all: that of a key's bias is 0, as the difference of numbers as large as the others'."""
    scale = max(float(grad.abs().max()) for grad in expected.values())
    assert given.keys() == expected.keys()
    for name, grad in given.items():
        assert_close(grad, expected[name], scale=scale)


# -- the norm --------------------------------------------------------------------------------------------


def literal_norm(norm, x, scale=None):
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() if scale is None else scale
    return centred / scale * norm.w + norm.b if norm.affine else centred / scale


def norm_of(affine):
    norm = LayerNorm(6, 1e-3, affine).double()
    for i, p in enumerate(norm.parameters()):
        nn.init.normal_(p, generator=torch.Generator().manual_seed(i))
    return norm


@pytest.mark.parametrize("affine", [True, False])
def test_the_norm_is_the_literal_one_with_its_gradients(affine):
    norm, x = norm_of(affine), torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    got, expected = norm(x), literal_norm(norm, x)
    assert_close(got, expected, scale=1.0)
    inputs = [x, *norm.parameters()]
    weights = torch.linspace(-1, 1, 60, dtype=torch.float64).view_as(x)
    pairs = zip(*(torch.autograd.grad((out * weights).sum(), inputs) for out in (got, expected)), strict=True)
    # Most of a gradient cancels: what enters are weights of up to 1 over the deviation of each row.
    entered = float(1 / x.detach().std(-1, correction=0).min())
    for a, b in pairs:
        assert_close(a, b, scale=max(entered, float(b.abs().max())))


EDITS = {
    "another": lambda scale, hook: 2 * scale,
    "in place": lambda scale, hook: scale.mul_(2),
    "in place, nothing returned": lambda scale, hook: [scale.mul_(2), None][1],
    "a constant": lambda scale, hook: torch.full_like(scale, 0.7),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_scale_is_what_divides(edit):
    """Its gradient is that of a division by a given number: a norm that is held fixed is linear."""
    norm, x = norm_of(True), torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    plain = (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).add(norm.eps).sqrt().detach()
    scale = torch.full_like(plain, 0.7) if edit == "a constant" else 2 * plain
    norm.hook_scale.add_hook(EDITS[edit])
    got, expected = norm(x), literal_norm(norm, x, scale)
    assert_close(got, expected, scale=1.0)
    a, b = (torch.autograd.grad(out.square().sum(), x)[0] for out in (got, expected))
    assert_close(a, b, scale=float(b.abs().max()))


def test_a_cached_norm_gives_the_same_bits():
    norm, x = norm_of(True).float(), torch.randn(2, 5, 6)
    plain, seen = norm(x), []
    norm.hook_scale.add_hook(lambda scale, hook: seen.append(scale))
    norm.hook_normalized.add_hook(lambda out, hook: seen.append(out))
    assert torch.equal(norm(x), plain)
    centred = x - x.mean(-1, keepdim=True)
    assert_close(seen[1] * seen[0], centred, scale=float(centred.abs().max()))


# -- gains inside the next map ---------------------------------------------------------------------------


@every_block
def test_gains_inside_the_weights_change_nothing(changes):
    """Hooks of torch on norms see what goes in and out of them, so there each is a step of its own."""
    model, tokens = make(**changes), tokens_of(1)
    plain = model(tokens)
    inside = gradients(model, plain)
    seen = []
    for name, part in model.named_modules():
        if isinstance(part, LayerNorm):
            part.register_forward_hook(lambda module, given, out, name=name: seen.append((name, module, given, out)))
    apart = model(tokens)
    assert_close(apart, plain, scale=float(plain.detach().abs().max()))
    assert_same_gradients(inside, gradients(model, apart))
    assert len(seen) == sum(isinstance(part, LayerNorm) for part in model.modules())
    for _, module, (given,), out in seen:
        assert_close(out, literal_norm(module, given), scale=float(out.detach().abs().max()))


def test_a_hook_of_torch_on_the_map_sees_what_it_is_given():
    norm, then = norm_of(True), nn.Linear(6, 4).double()
    seen = []
    then.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert_close(through(norm, x, then), then(literal_norm(norm, x)), scale=1.0)
    assert_close(seen[0], literal_norm(norm, x), scale=1.0)


# -- maps once a token -----------------------------------------------------------------------------------


def in_training(model, tokens, visible=None):
    """As training calls a model: with a mask that it answers for."""
    seen = model.visible_keys(tokens) if visible is None else visible
    return model(tokens, visible=Trusted(seen))


@every_block
def test_maps_once_a_token_are_maps_once_a_position(changes):
    model, tokens = make(**changes), tokens_of(2)
    known = model._known(tokens, Trusted(model.visible_keys(tokens)))
    assert known is not None
    assert len(known.of_token[0]) % 16 == 0
    plain, once = model(tokens), in_training(model, tokens)
    assert_close(once, plain, scale=float(plain.detach().abs().max()))
    assert_same_gradients(gradients(model, once), gradients(model, plain))


def test_maps_are_once_a_token_only_where_tokens_tell_all():
    tokens = tokens_of(3)
    told = Trusted(make().visible_keys(tokens))
    assert make()._known(tokens, told) is not None
    assert make()._known(tokens, make().visible_keys(tokens)) is None  # anybody else's mask: as the hooks say
    for positions in ("linear", "learned", "scalar"):
        assert make(positions=positions, n_ctx=20)._known(tokens, told) is None
    placed = make(positions="onehot", embedding="onehot", n_ctx=20, d_model=27)
    assert placed._known(tokens, told) is None
    states = {"embedding": "minimal", "num_types": 2, "max_depth": 2, "d_model": 9, **BLOCKS["bare"]}
    assert make(**states)._known(tokens, told) is None  # the depth is read too
    few = tokens_of(3, rows=1, pos=13)
    assert make()._known(few, told) is None  # 13 positions, 7 tokens: no saving
    assert make()._known(tokens_of(3, rows=1, pos=14), told) is not None


def test_hooks_see_every_position_also_in_training():
    tokens, shapes = tokens_of(4), {}
    model = make()
    model.add_hook(lambda name: "blocks.0" in name, lambda x, hook: shapes.setdefault(hook.name, x.shape) and None)
    plain = in_training(model, tokens)
    assert_close(plain, make()(tokens), scale=float(plain.detach().abs().max()))
    assert shapes["blocks.0.ln1.hook_normalized"] == shapes["blocks.0.hook_resid_pre"] == (3, 8, 12)
    assert shapes["blocks.0.attn.hook_q"] == (3, 8, 1, 12)


@pytest.mark.parametrize(("heads", "width", "vocabulary"), list(itertools.product((1, 2, 3), (12, 24, 50), (5, 7, 23))))
def test_a_model_keeps_its_bits_wherever_it_lies_in_a_stack(heads, width, vocabulary):
    """Of the maps once a token: float32, five models at once and each alone."""
    config = TransformerConfig(
        vocabulary, n_layers=1, n_heads=heads, d_model=width, d_head=width // heads, d_mlp=width, mlp_depth=2
    )
    models = [SandboxTransformer.init(config, seed) for seed in range(5)]
    for model in models:
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.add_(0.3 if name.endswith(".b") else 0.0)
    stacked = {n: torch.stack([dict(m.named_parameters())[n].detach() for m in models]) for n in models[0].state_dict()}
    tokens = torch.randint(0, vocabulary, (4, 16), generator=torch.Generator().manual_seed(0))
    seen = Trusted(models[0].visible_keys(tokens))
    with torch.no_grad():
        together = stacked_logits(models[0], stacked, tokens, visible=seen)
        for i in range(5):
            alone = stacked_logits(models[0], {n: p[i : i + 1] for n, p in stacked.items()}, tokens, visible=seen)
            assert torch.equal(together[i], alone[0])
