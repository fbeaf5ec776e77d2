"""attention_patterns: the right arrays, from both kinds of model, and the model left as it was."""

import copy

import numpy as np
import pytest
import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from closeness import assert_close
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.patterns import attention_patterns

TOKENS = torch.tensor([[4, 0, 2, 3, 1], [4, 2, 2, 0, 6]])


def make(**changes):
    settings = {"d_model": 12, "d_head": 6, "n_heads": 2, "d_mlp": 9, "pad_token": 6, "init_std": 0.6}
    return SandboxTransformer.init(TransformerConfig(7, **{**settings, **changes}), 3, DyckGrammar(2, 4))


def bridge_of(model):
    c = model.config
    cfg = TransformerBridgeConfig(
        d_model=c.d_model, d_head=c.d_head, n_heads=c.n_heads, n_layers=c.n_layers, n_ctx=c.n_ctx,
        d_vocab=c.d_vocab, d_mlp=c.d_mlp, act_fn="gelu_new", normalization_type="LN",
    )  # fmt: skip
    bridge = TransformerBridge.boot_native(cfg)
    bridge.load_state_dict(convert_tl_checkpoint(model.state_dict(), cfg))
    return bridge.eval()


def hook_counts(model):
    return {name: (len(p.fwd_hooks), len(p.bwd_hooks)) for name, p in model.hook_dict.items()}


def literal_patterns(model, layer, tokens):
    """softmax(q k / sqrt(d_head)) row by row from what the layer reads, PAD and later keys left out."""
    stream = model.run_with_cache(tokens)[1][f"blocks.{layer}.ln1.hook_normalized"].double().numpy()
    attn = model.blocks[layer].attn
    w = {n: getattr(attn, n).detach().double().numpy() for n in ("W_Q", "b_Q", "W_K", "b_K")}
    batch, length, _ = stream.shape
    out = np.zeros((batch, len(w["W_Q"]), length, length))
    for b, h, i in np.ndindex(batch, len(w["W_Q"]), length):
        keys = [j for j in range(i + 1) if tokens[b, j] != 6 or j == i]
        q = stream[b, i] @ w["W_Q"][h] + w["b_Q"][h]
        k = [stream[b, j] @ w["W_K"][h] + w["b_K"][h] for j in keys]
        score = np.array([q @ x for x in k]) / np.sqrt(len(q))
        share = np.exp(score - score.max())
        out[b, h, i, keys] = share / share.sum()
    return out


def test_patterns_are_query_by_key_and_equal_the_literal_softmax():
    model = make()
    found = attention_patterns(model, TOKENS)
    assert [p.shape for p in found] == [(2, 2, 5, 5)] * 2
    assert all(p.dtype == np.float64 for p in found)
    for layer, pattern in enumerate(found):
        assert_close(pattern, literal_patterns(model, layer, TOKENS), dtype=torch.float32)
        assert_close(pattern.sum(-1), 1, dtype=torch.float32)
        assert np.ptp(pattern[0, :, -1]) > 0.05  # a test on flat patterns would show nothing


def test_uniform_patterns_by_hand():
    model = make(attention="uniform", n_layers=1)
    (pattern,) = attention_patterns(model, TOKENS[1:])
    rows = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    expected = np.array(rows) / np.array([[1], [2], [3], [4], [5]])
    assert_close(pattern, np.stack([expected, expected])[None], ulps=1, dtype=torch.float32)


def test_shares_of_linear_attention_are_of_absolute_weights():
    """Weights are q k / sqrt(d_head) as they are; a row of zeros is shared evenly by what is visible."""
    model = make(attention="linear", n_layers=1)
    _, cache = model.run_with_cache(TOKENS)
    (found,) = attention_patterns(model, TOKENS)
    weights = cache["pattern", 0].double().numpy()
    assert_close(weights, cache["attn_scores", 0].double().numpy(), ulps=1, dtype=torch.float32)
    assert (weights < 0).any()
    assert not np.triu(weights, 1).any()
    assert_close(found, np.abs(weights) / np.abs(weights).sum(-1, keepdims=True), scale=1)
    with torch.no_grad():
        for name in ("W_Q", "b_Q"):
            getattr(model.blocks[0].attn, name).zero_()
    (even,) = attention_patterns(model, TOKENS)
    assert_close(even, attention_patterns(make(attention="uniform", n_layers=1), TOKENS)[0], dtype=torch.float32)


def test_linear_weights_are_the_masked_scores_times_values():
    """z = sum of score times value, by hand; and the scores are not touched where the pattern is edited in place."""
    model = make(attention="linear", n_layers=1)
    seen = {}

    def edit(pattern, hook):
        pattern[:, 0] = 0.0

    hooks = [("blocks.0.attn.hook_attn_scores", lambda x, hook: seen.update(scores=x))]
    model.run_with_hooks(TOKENS, fwd_hooks=[*hooks, ("blocks.0.attn.hook_pattern", edit)])
    assert seen["scores"][:, 0].abs().max() > 0.01
    _, cache = model.run_with_cache(TOKENS)
    z = np.einsum("bhqk,bkhd->bqhd", cache["attn_scores", 0].numpy(), cache["v", 0].numpy())
    assert_close(cache["z", 0].numpy(), z, dtype=torch.float32)


@pytest.mark.parametrize("layers", [[1], [1, 0], [0, 0], []])
def test_layers_come_in_the_order_asked_for(layers):
    model = make()
    every = attention_patterns(model, TOKENS)
    found = attention_patterns(model, TOKENS, layers)
    assert len(found) == len(layers)
    for layer, pattern in zip(layers, found, strict=True):
        assert np.array_equal(pattern, every[layer])


@pytest.mark.parametrize("layer", [2, -1])
def test_no_such_layer(layer):
    with pytest.raises(AnalysisError, match=rf"no layer {layer}: .*0\.\.1"):
        attention_patterns(make(), TOKENS, [layer])


def test_model_without_patterns():
    model = make()
    del model.hook_dict["blocks.1.attn.hook_pattern"]
    with pytest.raises(AnalysisError, match=r"no blocks\.1\.attn\.hook_pattern"):
        attention_patterns(model, TOKENS)


def test_bridge_gives_the_same_patterns_and_is_left_alone():
    model = make(positions="learned", n_ctx=8)
    bridge = bridge_of(model)
    tokens = TOKENS[:1]
    seen = []
    bridge.add_hook("blocks.0.attn.hook_z", lambda x, hook: seen.append(hook.name))
    bridge.train()
    modes = {name: module.training for name, module in bridge.named_modules()}
    hooks = hook_counts(bridge)
    for ours, theirs in zip(attention_patterns(model, tokens), attention_patterns(bridge, tokens), strict=True):
        assert_close(ours, theirs, dtype=torch.float32)
    assert hook_counts(bridge) == hooks
    assert {name: module.training for name, module in bridge.named_modules()} == modes
    seen.clear()
    bridge(tokens)
    assert len(seen) == 1


def test_model_is_left_as_it_was():
    model = make()
    model.train()
    model.blocks[1].mlp.eval()  # a mode per module, not one for all
    model(TOKENS, return_type="loss").backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters()}
    seen = []
    model.add_hook("blocks.0.attn.hook_pattern", lambda x, hook: seen.append(1))
    model.add_hook("blocks.1.hook_resid_post", lambda x, hook: seen.append(1), is_permanent=True)
    modes = [m.training for m in model.modules()]
    weights, hooks = copy.deepcopy(model.state_dict()), hook_counts(model)
    attention_patterns(model, TOKENS)
    assert [m.training for m in model.modules()] == modes
    assert hook_counts(model) == hooks
    assert all(torch.equal(model.state_dict()[n], w) for n, w in weights.items())
    for name, p in model.named_parameters():
        assert p.requires_grad
        assert torch.equal(p.grad, grads[name])
    seen.clear()
    model(TOKENS)
    assert len(seen) == 2


@pytest.mark.parametrize("wrong", ["hook", "tokens"])
def test_model_is_left_as_it_was_when_it_raises(wrong):
    model = make()
    model.train()
    model.ln_final.eval()

    def stop(x, hook):
        raise ValueError("stop")

    if wrong == "hook":
        model.add_hook("blocks.1.hook_resid_mid", stop)
    modes, hooks = [m.training for m in model.modules()], hook_counts(model)
    with pytest.raises(InterpError, match="stop" if wrong == "hook" else "the model knows ids 0 to 6") as caught:
        attention_patterns(model, TOKENS if wrong == "hook" else TOKENS + 5)
    assert wrong == "tokens" or isinstance(caught.value.__cause__, ValueError)
    assert [m.training for m in model.modules()] == modes
    assert hook_counts(model) == hooks
    assert torch.is_grad_enabled()


def test_runs_in_eval_mode_without_gradients():
    model, seen = make(), []
    model.train()
    model.add_hook("blocks.1.hook_resid_post", lambda x, hook: seen.append((model.training, x.requires_grad)))
    attention_patterns(model, TOKENS)
    assert seen == [(False, False)]


def test_users_own_edits_are_seen():
    """A hook that rewrites the pattern of layer 0 is part of the model that was passed in."""
    model = make()
    plain = attention_patterns(model, TOKENS)
    model.add_hook("blocks.0.attn.hook_pattern", lambda x, hook: torch.eye(5).expand_as(x))
    edited = attention_patterns(model, TOKENS)
    assert np.array_equal(edited[0][1, 1], np.eye(5))
    assert np.abs(edited[1] - plain[1]).max() > 1e-3


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_what_a_bridge_wraps_is_in_eval_mode_too(kind, tmp_path):
    """Its `modules()` do not list those: dropout would go on, and every number would be another one each time."""
    import transformers

    shape = {"vocab_size": 7, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}
    if kind == "gpt2":
        made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, bos_token_id=4, eos_token_id=5))
    else:
        made = transformers.BertForMaskedLM(transformers.BertConfig(**shape, intermediate_size=8))
    made.save_pretrained(tmp_path)
    bridge = TransformerBridge.boot_transformers(
        str(tmp_path), tokenizer=None, device="cpu", trust_remote_code=False
    ).eval()
    in_eval = attention_patterns(bridge, TOKENS)
    bridge.train()
    wrapped = [name for name, module in bridge.original_model.named_modules() if module.training]
    before = torch.get_rng_state()
    for given, expected in zip(attention_patterns(bridge, TOKENS), in_eval, strict=True):
        np.testing.assert_array_equal(given, expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert [name for name, module in bridge.original_model.named_modules() if module.training] == wrapped != []
