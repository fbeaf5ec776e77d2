"""TransformerLens's own tools on our model: the native bridge, ActivationCache, patching, detect_head."""

import itertools

import pytest
import torch
from transformer_lens import ActivationCache, patching
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.head_detector import detect_head
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities import get_act_name
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from closeness import assert_close
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer

GRAMMAR = DyckGrammar(2, 4)
TEXTS = ["([()])", "[]((", ""]  # padded to one length: PAD is part of what is compared


def make(seed=0, **changes):
    """A model of small widths whose weights, biases and norm gains are all random and not small."""
    settings = {"d_model": 12, "d_head": 6, "n_heads": 2, "d_mlp": 10, "pad_token": 6, "n_ctx": 16}
    model = SandboxTransformer(TransformerConfig(7, **{**settings, **changes}), GRAMMAR, {"seed": seed})
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=source)
            p.copy_(1 + 0.3 * noise if name.endswith(".w") else 0.4 * noise)
    return model


# ---- the same weights in a native bridge -----------------------------------------------------------


def bridge_with_weights_of(model):
    c = model.config
    cfg = TransformerBridgeConfig(
        d_model=c.d_model,
        d_head=c.d_head,
        n_heads=c.n_heads,
        n_layers=c.n_layers,
        n_ctx=c.n_ctx,
        d_vocab=c.d_vocab,
        d_vocab_out=c.d_out,
        d_mlp=c.d_mlp,
        act_fn="gelu_new" if c.activation == "gelu" else "relu",
        normalization_type=c.norm,
        attn_only=c.mlp_depth == 0,
        attention_dir=c.direction,
        eps=c.norm_eps,
    )
    weights = dict(model.state_dict())
    if c.positions == "none":
        weights["pos_embed.W_pos"] = torch.zeros(c.n_ctx, c.d_model)
    if c.positions == "linear":
        del weights["pos_embed.w_pos"]
        weights["pos_embed.W_pos"] = model.pos_embed.W_pos.detach()
    if not c.biases:
        weights |= {n: b for n, b in model.named_buffers() if n.rsplit(".", 1)[-1].startswith("b_")}
    bridge = TransformerBridge.boot_native(cfg)
    result = bridge.load_state_dict(convert_tl_checkpoint(weights, cfg))
    assert not result.missing_keys
    assert not result.unexpected_keys
    return bridge.eval()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_layers": 1, "n_heads": 1, "d_head": 12, "positions": "learned"},
        {"n_layers": 2, "n_heads": 4, "d_head": 3, "norm": "LNPre"},
        {"n_layers": 3, "n_heads": 2, "activation": "relu", "positions": "learned"},
        {"n_layers": 3, "n_heads": 3, "d_head": 4, "activation": "relu", "norm": "LNPre", "norm_eps": 0.1},
        {"n_layers": 2, "mlp_depth": 0, "positions": "learned"},
        {"n_layers": 1, "mlp_depth": 0, "norm": "LNPre"},
        {"n_layers": 2, "biases": False},
        {"n_layers": 2, "positions": "linear"},
        {"n_layers": 2, "direction": "bidirectional", "positions": "learned"},
        {"n_layers": 1, "d_model": 48, "d_head": 24, "d_mlp": 40},  # wide enough for plain products
    ],
    ids=str,
)
def test_logits_of_a_native_bridge(changes):
    model = make(5, **changes)
    bridge = bridge_with_weights_of(model)
    tokens = model.to_tokens(["([()])", "[[]]()", "((()))"])  # no PAD: the native model has no mask for it
    with torch.no_grad():
        ours, theirs = model(tokens), bridge(tokens)
    assert ours.std() > 0.5  # logits that are all alike would agree by accident
    assert_close(ours, theirs)


def test_activations_of_a_native_bridge():
    """Not only the logits: everything both models name alike is alike."""
    model = make(6, positions="learned")
    bridge = bridge_with_weights_of(model)
    tokens = model.to_tokens(["([()])"])
    with torch.no_grad():
        ours, theirs = model.run_with_cache(tokens)[1], bridge.run_with_cache(tokens)[1]
    differ = {"hook_attn_scores"}  # theirs are not masked
    shared = [n for n in ours if n in theirs and n.rsplit(".", 1)[-1] not in differ]
    assert {"blocks.1.attn.hook_q", "blocks.0.attn.hook_pattern", "blocks.1.attn.hook_z"} <= set(shared)
    assert {"blocks.0.hook_resid_mid", "blocks.1.hook_mlp_out", "blocks.0.mlp.hook_post"} <= set(shared)
    for name in shared:
        a, b = ours[name], theirs[name]
        assert a.shape == b.shape, name
        assert_close(a, b)


# ---- ActivationCache -------------------------------------------------------------------------------

PRE_NORM = [
    {},
    {"norm": "LNPre", "positions": "learned", "n_layers": 3},
    {"norm": "unit", "positions": "linear", "scale_scores": False},
    {"norm": "none", "mlp_depth": 0},
    {"attention": "uniform", "mlp_depth": 4},
    {"attention": "linear"},
    {"biases": False, "positions": "learned", "direction": "bidirectional"},
]


@pytest.fixture(params=PRE_NORM, ids=str)
def cached(request):
    model = make(1, **request.param)
    with torch.no_grad():
        logits, cache = model.run_with_cache(TEXTS)
    assert isinstance(cache, ActivationCache)
    return model, logits, cache


def test_components_sum_to_the_residual_stream(cached):
    model, _, cache = cached
    last = model.config.n_layers
    for layer in range(last + 1):
        target = cache["resid_post", last - 1] if layer == last else cache["resid_pre", layer]
        assert_close(cache.decompose_resid(layer).sum(0), target)
        assert_close(cache.accumulated_resid(layer)[-1], target)
        for expand in (True, False):
            assert_close(cache.get_full_resid_decomposition(layer, expand_neurons=expand).sum(0), target)
    if model.config.mlp_depth:
        for layer in range(last):
            target = cache["resid_mid", layer]
            assert_close(cache.decompose_resid(layer, mlp_input=True).sum(0), target)
            assert_close(cache.get_full_resid_decomposition(layer, mlp_input=True).sum(0), target)


def test_head_results_and_biases_are_the_attention_output(cached):
    model, _, cache = cached
    heads = cache.stack_head_results()
    assert heads.shape[0] == model.config.n_layers * model.config.n_heads
    per_layer = heads.unflatten(0, (model.config.n_layers, model.config.n_heads)).sum(1)
    for layer, total in enumerate(per_layer):
        assert_close(total + model.blocks[layer].attn.b_O, cache["attn_out", layer])


def test_ln_applied_to_components_sums_to_what_the_norm_gives(cached):
    model, _, cache = cached
    last = model.config.n_layers
    with torch.no_grad():
        for layer in range(last + 1):
            norm = model.ln_final if layer == last else model.blocks[layer].ln1
            target = norm(cache.decompose_resid(layer).sum(0))
            if model.config.norm == "LN":  # TransformerLens leaves gain and bias to the next matrix
                target = (target - norm.b) / norm.w
            assert_close(cache.decompose_resid(layer, apply_ln=True).sum(0), target)


@pytest.mark.parametrize("norm", ["LNPre", "unit", "none"])
def test_logit_attributions_sum_to_the_logit(norm):
    model = make(2, norm=norm, positions="linear")
    with torch.no_grad():
        logits, cache = model.run_with_cache(TEXTS)
        stack, bias = cache.decompose_resid(), model.b_U
        for token, index in ((")", 1), (3, 3), (torch.tensor(3), 3)):
            assert_close(cache.logit_attrs(stack, token).sum(0) + bias[index], logits[..., index])
        assert_close(
            cache.logit_attrs(stack, "]", incorrect_tokens=")").sum(0) + bias[3] - bias[1],
            logits[..., 3] - logits[..., 1],
        )
        every = model.to_tokens(TEXTS)
        assert_close(cache.logit_attrs(stack, every).sum(0) + bias[every], logits.gather(-1, every[..., None])[..., 0])
        assert_close(cache.accumulated_resid(apply_ln=True)[-1] @ model.W_U + bias, logits)


POST_NORM = [
    {"block": "bert"},
    {"block": "bert", "mlp_depth": 0},
    {"block": "bert", "direction": "bidirectional", "positions": "learned", "final_norm": True},
    {"block": "paper", "n_heads": 1, "d_head": 12},
    {"block": "authors", "norm_added": True},
]


def cached_of(changes):
    model = make(4, **changes)
    with torch.no_grad():
        return model, *model.run_with_cache(TEXTS)


@pytest.mark.parametrize("changes", POST_NORM, ids=str)
def test_a_stream_that_is_no_sum_is_not_taken_apart(changes):
    """What embeddings, heads and MLPs write passes norms on its way: their sum is another vector."""
    model, _, whole = cached_of(changes)
    for cache in (whole, whole.apply_slice_to_batch_dim((0, 2))):
        with pytest.raises(RequestError, match=r"decompose_resid: the residual stream of block='\w+' is no sum"):
            cache.decompose_resid()
        with pytest.raises(RequestError, match="get_full_resid_decomposition: the residual stream"):
            cache.get_full_resid_decomposition()
    with pytest.raises(RequestError, match="accumulated_bias: the residual stream"):
        model.accumulated_bias(1)
    for layer in range(3):  # the stream itself is there, layer by layer
        target = whole["resid_post", 1] if layer == 2 else whole["resid_pre", layer]
        assert_close(whole.accumulated_resid(layer)[-1], target)


@pytest.mark.parametrize(
    "changes", [{"block": "bert", "norm": "none"}, {"block": "authors"}, {"final_norm": False}], ids=str
)
def test_other_streams_are_sums_too(changes):
    _, _, cache = cached_of(changes)
    assert_close(cache.decompose_resid().sum(0), cache["resid_post", 1])
    with torch.no_grad():
        assert_close(cache.get_full_resid_decomposition().sum(0), cache["resid_post", 1])


@pytest.mark.parametrize(
    ("changes", "normed"),
    [
        ({"block": "bert"}, []),
        ({"block": "bert", "final_norm": True}, [(2, False)]),
        ({"block": "authors"}, [(0, True), (1, True)]),
        ({"block": "authors", "final_norm": True, "norm": "LNPre"}, [(0, True), (1, True), (2, False)]),
        ({"final_norm": False}, [(0, False), (0, True), (1, False), (1, True)]),
        ({"final_norm": False, "norm": "none"}, []),
    ],
    ids=str,
)
def test_a_norm_that_would_be_left_out_is_refused(changes, normed):
    """Elsewhere nothing stands between the stream and what reads it, and the stream is what comes back."""
    model, logits, cache = cached_of(changes)
    for layer, mlp_input in [(0, False), (0, True), (1, False), (1, True), (2, False)]:
        plain = cache.accumulated_resid(layer, mlp_input=mlp_input)
        if (layer, mlp_input) in normed:
            with pytest.raises(RequestError, match=f"apply_ln at layer {layer} of 2: TransformerLens knows"):
                cache.accumulated_resid(layer, mlp_input=mlp_input, apply_ln=True)
            if layer:
                with pytest.raises(RequestError, match=f"apply_ln at layer {layer} of 2"):
                    cache.stack_neuron_results(
                        layer, apply_ln=True, mlp_input=mlp_input, project_output_onto=model.W_U[:, 0]
                    )
        else:
            assert_close(cache.accumulated_resid(layer, mlp_input=mlp_input, apply_ln=True), plain)
    if (2, False) not in normed:
        assert_close(cache.accumulated_resid(apply_ln=True)[-1] @ model.W_U + model.b_U, logits)


def test_cache_without_batch_dimension():
    model = make(positions="learned").requires_grad_(False)
    _, cache = model.run_with_cache("([])", remove_batch_dim=True)
    assert cache["pattern", 1].shape == (2, 5, 5)
    assert not cache.has_batch_dim
    assert_close(cache.decompose_resid().sum(0), cache["resid_post", -1])
    assert_close(cache.accumulated_resid(apply_ln=True)[-1] @ model.W_U + model.b_U, model("([])")[0])
    assert cache.stack_head_results().shape == (4, 5, 12)


def test_plain_dict_on_request():
    cache = make().run_with_cache("()", return_cache_object=False, names_filter=["hook_embed"])[1]
    assert type(cache) is dict
    assert list(cache) == ["hook_embed"]


def test_gradients_can_be_cached():
    model = make()
    _, cache = model.run_with_cache("([])", return_type="loss", incl_bwd=True)
    grad = cache["blocks.0.hook_resid_pre_grad"]
    assert grad.shape == (1, 5, 12)
    assert grad[0, 0].abs().max() > 0


# ---- patching --------------------------------------------------------------------------------------

CLEAN, CORRUPTED, CHANGED = "([()[", "((()[", 2  # one token differs, at position 2 (START is 0)


def metric(logits):
    """How much the model prefers ) to ] at the end."""
    return (logits[:, -1, 1] - logits[:, -1, 3]).mean()


@pytest.fixture(
    params=[
        {},
        {"attention": "uniform"},
        {"attention": "linear"},
        {"block": "paper", "norm": "unit"},
        {"positions": "learned"},
    ],
    ids=str,
)
def runs(request):
    model = make(3, **request.param)
    clean, corrupted = model.to_tokens(CLEAN), model.to_tokens(CORRUPTED)
    with torch.no_grad():
        logits, cache = model.run_with_cache(clean)
        worse, own = model.run_with_cache(corrupted)
    assert abs(metric(logits) - metric(worse)) > 0.05
    return model, corrupted, cache, own, metric(logits), metric(worse)


def test_patching_the_changed_position_restores_the_clean_metric(runs):
    model, corrupted, cache, _, clean, worse = runs
    found = patching.get_act_patch_resid_pre(model, corrupted, cache, metric)
    assert found.shape == (model.config.n_layers, 6)
    assert_close(found[0, CHANGED], clean)
    rest = [i for i in range(6) if i != CHANGED]
    assert_close(found[0, rest], worse.expand(5))  # elsewhere both runs read the same embedding
    assert (found[1] - worse).abs().max() > 1e-3


def test_patching_the_whole_stream_restores_the_clean_metric(runs):
    model, corrupted, cache, _, clean, _ = runs
    name = get_act_name("resid_pre", 0)
    patched = model.run_with_hooks(corrupted, fwd_hooks=[(name, lambda x, hook: cache[name])])
    assert_close(metric(patched), clean)


SWEEPS = {
    "resid_pre": patching.get_act_patch_resid_pre,
    "resid_mid": patching.get_act_patch_resid_mid,
    "attn_out": patching.get_act_patch_attn_out,
    "head_out": patching.get_act_patch_attn_head_out_all_pos,
    "head_out_by_pos": patching.get_act_patch_attn_head_out_by_pos,
    "head_v": patching.get_act_patch_attn_head_v_all_pos,
    "head_pattern": patching.get_act_patch_attn_head_pattern_all_pos,
    "head_pattern_by_pos": patching.get_act_patch_attn_head_pattern_by_pos,
}


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.slow
def test_patching_a_run_with_itself_changes_nothing(runs, name):
    model, corrupted, _, own, _, worse = runs
    found = SWEEPS[name](model, corrupted, own, metric)
    assert_close(found, worse.expand(found.shape))


def set_head(x, new, head, head_dim):
    """Copy of x with one head taken from `new`."""
    out = x.clone()
    index = [slice(None)] * x.ndim
    index[head_dim] = head
    out[tuple(index)] = new[tuple(index)]
    return out


@pytest.mark.parametrize(
    ("sweep", "hook", "head_dim"),
    [
        (patching.get_act_patch_attn_head_out_all_pos, "z", 2),
        (patching.get_act_patch_attn_head_pattern_all_pos, "pattern", 1),
        (patching.get_act_patch_attn_head_v_all_pos, "v", 2),
    ],
    ids=["z", "pattern", "v"],
)
def test_head_sweeps_touch_exactly_one_head(runs, sweep, hook, head_dim):
    """Each cell equals replacing that head by hand; the tool writes in place into what the hook gives."""
    model, corrupted, cache, _, _, worse = runs
    found = sweep(model, corrupted, cache, metric)
    assert found.shape == (2, 2)
    for layer, head in itertools.product(range(2), range(2)):
        name = get_act_name(hook, layer)
        edit = [(name, lambda x, hook, n=name, h=head: set_head(x, cache[n], h, head_dim))]
        with torch.no_grad():
            assert_close(found[layer, head], metric(model.run_with_hooks(corrupted, fwd_hooks=edit)))
    if hook == "pattern" and model.config.attention == "uniform":
        assert_close(found, worse.expand(2, 2))
    else:
        assert (found - worse).abs().max() > 1e-3


def test_one_head_of_a_frozen_pattern_can_be_patched_in_place():
    """Patterns of uniform attention are equal, but must not share memory between heads and rows."""
    model = make(4, attention="uniform")
    tokens = model.to_tokens(["([])", "[()]"])
    visible = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]

    def edit(x, hook):
        x[1, 0] = torch.eye(5)

    z = "blocks.0.attn.hook_z"
    for kwargs in ({}, {"visible": visible}):
        seen = {}
        keep = (z, lambda x, hook, to=seen: to.update(z=x.detach()))
        model.run_with_hooks(tokens, fwd_hooks=[keep], **kwargs)
        before = seen["z"]
        model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", edit), keep], **kwargs)
        changed = (seen["z"] - before).abs().amax(dim=(1, 3)) > 1e-4
        assert changed.tolist() == [[False, False], [True, False]]


def test_every_sweep_of_the_block_and_head_families_runs():
    model = make(3)
    clean, corrupted = model.to_tokens(CLEAN), model.to_tokens(CORRUPTED)
    cache = model.run_with_cache(clean)[1]
    with torch.no_grad():
        heads = patching.get_act_patch_attn_head_all_pos_every(model, corrupted, cache, metric)
        blocks = patching.get_act_patch_block_every(model, corrupted, cache, metric)
        by_pos = patching.get_act_patch_attn_head_by_pos_every(model, corrupted, cache, metric)
    assert (heads.shape, blocks.shape, by_pos.shape) == ((5, 2, 2), (3, 2, 6), (5, 2, 6, 2))
    assert_close(blocks[0], patching.get_act_patch_resid_pre(model, corrupted, cache, metric))


# ---- detect_head -----------------------------------------------------------------------------------


def previous_token_model():
    """Head 0 attends from i to i - 1 (and 0 to itself), head 1 evenly; nothing else happens."""
    config = TransformerConfig(
        7, n_layers=1, n_heads=2, d_model=16, d_head=16, n_ctx=16, mlp_depth=0, norm="none",
        positions="learned", pad_token=6,
    )  # fmt: skip
    model = SandboxTransformer(config, GRAMMAR)
    with torch.no_grad():
        model.pos_embed.W_pos.copy_(torch.eye(16))
        attn = model.blocks[0].attn
        attn.W_K[0] = torch.eye(16)
        attn.W_Q[0] = 1000 * torch.diag(torch.ones(15), -1)  # e_i -> e_{i-1}; e_0 -> 0
    return model


TEXT = "(())[()]"
N = len(TEXT) + 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (N - 1) / N),  # "mul": the share of attention on the named pairs; row 0 can only see itself
        ({"exclude_current_token": True}, 1.0),
        ({"exclude_bos": True}, 1.0),
        ({"error_measure": "abs"}, 1 - round(1 / N, 3)),  # 1 - mean |difference| x N: off by 1 in one cell
        ({"error_measure": "abs", "exclude_current_token": True}, 1.0),
    ],
    ids=str,
)
def test_previous_token_head_is_found(options, expected):
    scores = detect_head(previous_token_model(), TEXT, "previous_token_head", **options)
    assert scores.shape == (1, 2)
    assert_close(scores[0, 0], expected, scale=1)
    assert scores[0, 1] < 0.5


@pytest.mark.parametrize("name", ["previous_token_head", "duplicate_token_head", "induction_head"])
def test_even_head_scores_what_counting_gives(name):
    ids = [4, *GRAMMAR.parse(TEXT)]
    total = 0.0
    for i in range(N):
        if name == "previous_token_head":
            keys = [i - 1] if i else []
        elif name == "duplicate_token_head":
            keys = [j for j in range(i) if ids[j] == ids[i]]
        else:  # the key after an earlier copy of this token, itself excluded by the tool's diagonal
            keys = [j + 1 for j in range(i) if ids[j] == ids[i]]
        total += len(keys) / (i + 1)
    scores = detect_head(previous_token_model(), TEXT, name)
    assert_close(scores[0, 1], total / N, scale=1)


def test_detection_pattern_as_a_tensor_and_several_texts():
    model = previous_token_model()
    first = torch.zeros(N, N)
    first[:, 0] = 1
    scores = detect_head(model, TEXT, first)
    assert_close(scores[0, 0], 2 / N, scale=1)  # rows 0 and 1
    assert_close(scores[0, 1], sum(1 / (i + 1) for i in range(N)) / N, scale=1)
    both = detect_head(model, [TEXT, "()"], "previous_token_head")
    assert_close(both[0, 0], ((N - 1) / N + 2 / 3) / 2, scale=1)
    only = detect_head(model, TEXT, first, heads=[(0, 1)])
    assert only[0, 0] == -1


# ---- names -----------------------------------------------------------------------------------------


def test_hook_names_are_transformer_lens_names():
    model = make(positions="learned")
    canonical = {get_act_name(n) for n in ("embed", "pos_embed")}
    canonical |= {"ln_final.hook_scale", "ln_final.hook_normalized"}
    for layer in range(2):
        canonical |= {
            get_act_name(n, layer)
            for n in ("q", "k", "v", "z", "pattern", "attn_scores", "resid_pre", "resid_mid", "resid_post")
        }
        canonical |= {get_act_name(n, layer) for n in ("attn_out", "mlp_out")}
        canonical |= {get_act_name(n, layer, "mlp") for n in ("pre", "post")}
        canonical |= {get_act_name(n, layer, ln) for n in ("scale", "normalized") for ln in ("ln1", "ln2")}
    assert set(model.hook_dict) == canonical
    theirs = set(bridge_with_weights_of(model).hook_dict)
    assert canonical <= theirs
