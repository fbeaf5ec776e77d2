"""Decoders with rotary positions, RMS norms, gated MLPs and grouped heads: as plain PyTorch says, in every analyzer."""

import numpy as np
import pytest
import torch
from transformer_lens.model_bridge.sources import build_bridge_from_module

from closeness import assert_close
from interp.errors import AnalysisError
from interp.patterns import attention_patterns, patterns_and_norms, values_of_heads, written_norms
from interp.plots import attention_heatmap
from plain_decoder import plain_decoder, small_decoder
from probes import analyze_variation, audit_claim, scan_heads
from probes.audit.bridge import View
from probes.audit.edits import Edges, run
from probes.audit.labels import LabelledInput

KINDS = ["llama", "qwen2", "gemma"]
TOKENS = torch.randint(3, 23, (4, 11), generator=torch.Generator().manual_seed(0))
NEAR = 300  # roundings: two layers of norms and products, in another order of sums


def bridge_of(kind, **how):
    model = small_decoder(kind, **how)
    return build_bridge_from_module(model, type(model).__name__, hf_config=model.config)


@pytest.mark.parametrize("kind", KINDS)
def test_patterns_values_and_logits_are_those_of_plain_pytorch(kind):
    bridge, (logits, patterns, values) = bridge_of(kind), plain_decoder(small_decoder(kind), TOKENS)
    with torch.no_grad():
        assert_close(bridge(TOKENS), logits, ulps=NEAR)
    for found, expected in zip(attention_patterns(bridge, TOKENS), patterns, strict=True):
        assert_close(found, expected.double(), ulps=NEAR, dtype=torch.float32)
    w = small_decoder(kind).state_dict()
    for layer, found in enumerate(patterns_and_norms(View(bridge, None), TOKENS)[1]):
        out = w[f"model.layers.{layer}.self_attn.o_proj.weight"]
        by_hand = [(values[layer][:, :, h] @ out[:, 4 * h : 4 * h + 4].T).norm(dim=-1) for h in range(9)]
        assert_close(found, torch.stack(by_hand, -1).double(), ulps=NEAR, dtype=torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exchange_of_values_in_some_heads_of_a_group_is_that_of_plain_pytorch(kind):
    """Heads 3 and 5 share a value with head 4, which keeps its own."""
    bridge, plain = bridge_of(kind), small_decoder(kind)
    donors = TOKENS.flip(0)
    keys = torch.ones(4, 11, 11).tril(-1).bool()
    other = plain_decoder(plain, donors)[2][0]

    def on_z(layer, pattern, v, z):
        if layer:
            return z
        z = z.clone()
        for h in (3, 5):
            z[:, :, h] += (pattern[:, h] * keys) @ (other[:, :, h] - v[:, :, h])
        return z

    expected = plain_decoder(plain, TOKENS, on_z)[0]
    read = torch.full((4,), 10)
    kept = run(bridge, donors, read, keep=True).cache
    found = run(bridge, TOKENS, read, [Edges(0, (3, 5), keys, values=kept.v[0])]).logits
    assert_close(found, expected[:, -1].double(), ulps=NEAR, dtype=torch.float32)
    intact = plain_decoder(plain, TOKENS)[0][:, -1]
    assert (found - intact).abs().max() > 0.01 * intact.abs().max()  # the edit is no empty one


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_scales_of_a_run_are_its_own(kind):
    """What the direct effect rests on: with the norms' scales of the same run nothing changes."""
    bridge, read = bridge_of(kind), torch.full((4,), 10)
    intact = run(bridge, TOKENS, read, keep=True)
    with pytest.warns(UserWarning, match="hook_scale"):
        again = run(bridge, TOKENS, read, [Edges(0, (3,), torch.zeros(4, 11, 11).bool())], frozen=intact.cache)
    assert_close(again.logits, intact.logits, ulps=NEAR, dtype=torch.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [3, 1])
def test_analyzers_take_grouped_heads(kind, groups, tmp_path):
    bridge = bridge_of(kind, groups=groups)
    rng = np.random.default_rng(0)
    rows = rng.integers(3, 23, (40, 9))
    inputs = [LabelledInput([int(i) for i in row], label=int(row[2])) for row in rows]
    result = audit_claim(bridge, "L0H4 attends to the previous token", inputs)
    assert result.verdict in ("refuted", "undecided", "partial", "supported", "pattern only")
    used = audit_claim(bridge, "L1H7 uses position 2", inputs)
    assert "Error" not in used.reason
    other = bridge_of(kind, groups=groups, seed=1)
    scan = scan_heads(bridge, ["the previous token", "the first token"], inputs)
    assert scan.num_heads == 18
    assert all(np.isfinite(e.value) for e in analyze_variation([bridge, other], TOKENS).variation)
    attention_heatmap(bridge, TOKENS[:1])


def test_heads_that_do_not_share_evenly_are_refused():
    with pytest.raises(AnalysisError, match="9 heads share 2 values, and not evenly"):
        values_of_heads(torch.zeros(1, 2, 2, 4), 9)


def test_values_of_ungrouped_heads_come_back_as_they_are():
    v = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    assert values_of_heads(v, 4) is v
    grouped = v[:, :, :2]
    out = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(2))
    twice = torch.stack([grouped[:, :, h // 2] @ out[h] for h in range(4)], 2).norm(dim=-1)
    assert_close(written_norms(grouped, out), twice.double(), dtype=torch.float32)
