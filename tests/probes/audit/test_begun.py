"""Runs that begin above the blocks no edit touches, logits of the positions read, patterns of the layers asked for."""

from functools import partial

import numpy as np
import pytest
import torch
from transformer_lens.model_bridge.sources import build_bridge_from_module

from closeness import assert_close
from interp import DyckGrammar, SandboxTransformer, TransformerConfig
from interp.errors import RequestError
from interp.patterns import attention_patterns, patterns_and_norms
from plain_decoder import small_decoder
from probes import audit_claim, audit_claims
from probes.audit import model as audited
from probes.audit.bridge import View, seen_of
from probes.audit.edits import Edges, hooked, run
from probes.audit.model import layers_of
from probes.claims import Claim

GENERATOR = torch.Generator().manual_seed(0)
TOKENS = torch.randint(0, 6, (5, 12), generator=GENERATOR)
READ = torch.tensor([11, 3, 7, 5, 9])
NEAR = 300  # roundings: norms and products of three layers, in another order of sums


def ours():
    config = TransformerConfig(7, pad_token=6, n_ctx=16, n_layers=3, n_heads=2, d_model=8, d_head=4, init_std=0.5)
    return SandboxTransformer.init(config, 0, DyckGrammar(2, 3))


def bridged(kind):
    model = small_decoder(kind)
    return View(build_bridge_from_module(model, type(model).__name__, hf_config=model.config), None)


MODELS = {"ours": ours, **{kind: partial(bridged, kind) for kind in ("llama", "qwen2", "gemma")}}


@pytest.fixture(params=list(MODELS))
def model(request):
    return MODELS[request.param]()


def counted(model, do):
    """How often each block is run."""
    times = [0] * model.cfg.n_layers
    originals = [type(block).forward for block in model.blocks]

    def counting(at):
        def forward(self, *given, **how):
            times[list(model.blocks).index(self)] += 1
            return originals[at](self, *given, **how)

        return forward

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.blocks[0]), "forward", counting(0))
        out = do()
    return out, times


def edits_of(model, cache, layer):
    keys = torch.zeros(5, 12, 12, dtype=torch.bool)
    keys[:, :, 1] = True
    values = torch.zeros_like(cache.v[layer])
    return {
        "values": ([Edges(layer, (0,), keys, values=values)], {}),
        "ablated": ([], {"ablated": {(layer, 1): cache.z[layer][:, :, 1] * 0}}),
        "frozen": ([Edges(layer, (0,), keys, values=values)], {"frozen": cache}),
        "nothing": ([], {}),
    }


@pytest.mark.parametrize("edit", ["values", "ablated", "frozen", "nothing"])
def test_a_run_that_begins_above_the_blocks_left_alone_gives_the_same(model, edit):
    base = run(model, TOKENS, READ, keep=True)
    last = model.cfg.n_layers - 1
    for layer in range(model.cfg.n_layers):
        edges, how = edits_of(model, base.cache, layer)[edit]
        whole, times = counted(model, partial(run, model, TOKENS, READ, edges, **how))
        assert times == [1] * len(times)
        begun, times = counted(model, lambda e=edges, how=how: run(model, TOKENS, READ, e, begun=base.cache, **how))
        assert times == [int(at >= (last if edit == "nothing" else layer)) for at in range(last + 1)]
        if edit == "frozen":  # a norm whose scale is given is computed in another order
            assert_close(begun.logits, whole.logits, ulps=NEAR, dtype=torch.float32)
        else:
            assert torch.equal(begun.logits, whole.logits)
            assert torch.equal(begun.norm, whole.norm)
        if edit != "nothing":
            assert not torch.equal(begun.logits, base.logits)
    assert not any("forward" in block.__dict__ for block in model.blocks)


def test_a_forward_that_somebody_put_into_a_block_comes_back():
    model = ours()
    base = run(model, TOKENS, READ, keep=True)
    own = model.blocks[0].forward
    model.blocks[0].forward = own
    run(model, TOKENS, READ, begun=base.cache)
    assert model.blocks[0].__dict__["forward"] is own


def test_logits_are_those_of_the_positions_read(model):
    with torch.no_grad():
        every = model(TOKENS)
    assert_close(run(model, TOKENS, READ).logits, every[torch.arange(5), READ].double(), ulps=NEAR, dtype=torch.float32)
    shapes = []
    handle = model.unembed.register_forward_hook(lambda module, given, out: shapes.append(out.shape[1]))
    run(model, TOKENS, READ)
    model(TOKENS)
    handle.remove()
    assert shapes == [1, 12]


def test_a_model_that_keeps_a_state_is_run_from_the_start(monkeypatch):
    """Its blocks give another thing the second time, so that what they gave is not where a run may begin."""
    from probes.audit import side

    model, ran = ours(), []
    monkeypatch.setattr(side, "is_bridge", lambda model: True)
    last = model.blocks[-1]
    forward = type(last).forward

    def drifting(*given, **how):
        ran.append(1)
        return forward(last, *given, **how) * (1 + 0.01 * len(ran))

    last.forward = drifting

    def intact():
        found = object.__new__(side.Side)
        found.model, found.tokens, found.read, found.rows = model, TOKENS, READ, torch.arange(len(READ))
        return found.base.cache.blocks

    assert intact() == []
    last.__dict__.pop("forward")
    assert len(intact()) == 2


# -- patterns -----------------------------------------------------------------------------------------------


def test_patterns_and_norms_of_some_layers_are_those_of_all(model):
    patterns, norms = patterns_and_norms(model, TOKENS)
    for layers in ([0], [1, 0]):
        some, of_values = patterns_and_norms(model, TOKENS, layers)
        for at, layer in enumerate(layers):
            assert np.array_equal(some[at], patterns[layer])
            assert np.array_equal(of_values[at], norms[layer])
    assert all(np.array_equal(*pair) for pair in zip(attention_patterns(model, TOKENS), patterns, strict=True))


@pytest.mark.parametrize("layers", [[0], [1, 0], [2]])
def test_our_own_model_is_run_up_to_the_layers_asked_for(layers):
    model = ours()
    _, times = counted(model, lambda: attention_patterns(model, TOKENS, layers))
    assert times == [int(at <= max(layers)) for at in range(3)]


def test_a_run_ends_where_all_is_seen_that_was_asked_for():
    model, ran = ours(), []
    name = "blocks.0.attn.hook_pattern"
    with hooked(model, {"blocks.1.hook_resid_post": ran.append}):
        seen = seen_of(model, [name], lambda: model(TOKENS))
    assert set(seen) == {name}
    assert not ran


def test_stop_at_layer_is_that_of_transformer_lens():
    model = ours()
    kept = {}
    with torch.no_grad():
        for layer in range(3):
            model.blocks[layer].register_forward_pre_hook(lambda m, given, layer=layer: kept.update({layer: given[0]}))
        model.blocks[2].register_forward_hook(lambda m, given, out: kept.update({3: out}))
        model(TOKENS)
        for stop in (0, 1, 2, 3, -1):
            assert torch.equal(model(TOKENS, stop_at_layer=stop), kept[stop % 3 if stop < 0 else stop])
    for wrong in (4, -4, True, 1.5, "1"):
        with pytest.raises(RequestError, match="stop_at_layer"):
            model(TOKENS, stop_at_layer=wrong)
    with pytest.raises(RequestError, match="ends before any"):
        model(TOKENS, stop_at_layer=1, first=2)


@pytest.mark.parametrize(
    ("heads", "upto"), [([[(0, 1)]], 1), ([[(0, 0)], [(1, 0), (0, 1)]], 2), ([[(2, 0)], []], None), ([], None)]
)
def test_layers_are_run_up_to_the_highest_that_is_claimed(heads, upto):
    assert layers_of([Claim(each, "first") for each in heads]) == upto


def test_a_claim_about_a_low_layer_says_what_it_says_in_company_of_a_high_one(monkeypatch):
    model = ours()
    how = {"num_inputs": 240, "length": 12, "task_check": False, "seed": 0}
    runs = []
    original = audited.patterns_and_norms
    monkeypatch.setattr(
        audited,
        "patterns_and_norms",
        lambda m, t, layers, **more: runs.append(layers) or original(m, t, layers, **more),
    )
    alone = audit_claim(model, "L0H1 attends to the previous token", **how)
    assert runs
    assert all(layers == [0] for layers in runs)
    runs.clear()
    both = audit_claims(model, ["L0H1 attends to the previous token", "L2H0 attends to the previous token"], **how)[0]
    assert [0, 1, 2] in runs
    names = ("score", "beside_untrained")
    one, other = ({row["name"]: row["value"] for row in result.evidence} for result in (alone, both))
    assert all(one[name] == other[name] for name in names if name in one)
    assert names[0] in one
