"""Constructed models: exact laws to length 500, on random and adversarial prefixes; every step of the proofs."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from closeness import assert_close, rounding
from interp import load_checkpoint, save_checkpoint
from interp.errors import RequestError
from interp.functional import stack_params
from interp.grammars import DyckGrammar
from interp.header import find_checkpoint, list_pretrained, read_header
from interp.worlds.dyck.constructed import balanced, constant, construct, stack, uniform
from interp.worlds.dyck.evaluate import RULES, evaluate, held_out
from interp.worlds.dyck.oracle import oracle_states, oracle_table
from interp.worlds.dyck.recipes import CONSTRUCTED
from probes.balance import analyze_balance, balance_table, head_states

LENGTH = 500
GRAMMARS = [
    DyckGrammar(k, depth, open_prob=q)
    for k, depth, q in [(1, 1, 0.5), (1, 6, 0.5), (2, 1, 0.5), (2, 4, 0.5), (3, 2, 0.8), (4, 6, 0.3)]
]
BUILDERS = {
    "balanced": balanced,
    "balanced, another attention": lambda g, **kw: balanced(g, seed=3, **kw),
    "balanced, a=0": lambda g, **kw: balanced(g, spread=0, **kw),
    "uniform": uniform,
    "stack": stack,
}
DTYPES = (torch.float32, torch.float64)


def prefixes(grammar, count=20, length=LENGTH, seed=0):
    """START and `length` (even) brackets: sampled ones, and long runs of pairs and of nests, of every type."""
    k, depth = grammar.num_types, grammar.max_depth
    rows = list(np.asarray(grammar.sample(count, seed=seed, mode="prefix", length=length), dtype=np.int64))
    for t in range(k):
        pair, other = [2 * t, 2 * t + 1], (t + 1) % k
        for below in {0, depth // 2, depth - 1}:  # pairs on top of open brackets of another type, which are closed late
            run = [2 * other] * below + pair * (length // 2)
            rows.append(np.array(run[: length - below - 6] + [2 * other + 1] * below + pair * 3))
        nest = [2 * t] * depth + [2 * t + 1] * depth
        mixed = [2 * ((t + d) % k) for d in range(depth)]
        mixed += [token + 1 for token in reversed(mixed)]
        rows += [np.array((unit * length)[:length]) for unit in (nest, mixed, nest + mixed)]
    return np.concatenate([np.full((len(rows), 1), grammar.start), np.stack(rows)], axis=1)


def probabilities(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens)).softmax(-1).double().numpy()


def law_error(model, tokens):
    worst = 0.0
    for part in np.array_split(tokens, -(-len(tokens) // 10)):  # attention of 10 strings fits a cache
        want = model.grammar.next_token_probs(part, mode="prefix")
        worst = max(worst, np.abs(probabilities(model, part) - want)[part != model.grammar.pad].max())
    return worst


def assert_law(model, tokens, dtype=None, ulps=16):
    """To what the module says: e^-30 for each impossible token, and some roundings of 1."""
    bound = (2 * model.grammar.num_types + 3) * math.exp(-30)
    bound += ulps * rounding(dtype=dtype or model.unembed.W_U.dtype)
    assert law_error(model, tokens) < bound, bound


def pattern(model, tokens, layer):
    name = f"blocks.{layer}.attn.hook_pattern"
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(tokens), names_filter=[name])
    assert cache[name].shape[1] == 1
    return cache[name][:, 0].double().numpy()


def beta(model):
    """On the model as it is: `analyze_balance` would measure a copy."""
    layer = model.config.n_layers - 1
    (head,) = head_states(model, layer, model.grammar)
    return balance_table(head.vectors).beta


# ---- the law ----------------------------------------------------------------------------------------


def test_the_prefixes_are_legal_long_and_visit_every_state():
    for grammar in GRAMMARS:
        tokens = prefixes(grammar)
        depth = grammar.depth(tokens)  # raises for an illegal one
        assert tokens.shape[1] == LENGTH + 1
        assert (tokens < grammar.start)[:, 1:].all()
        assert (depth[:, 400:] == 0).any()
        assert (depth[:, 400:] == grammar.max_depth).any()
        assert set(range(2 * grammar.num_types)) <= set(tokens[:, 400:].ravel().tolist())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.slow
def test_exact_law_to_length_500(name, dtype):
    for grammar in GRAMMARS:
        model = BUILDERS[name](grammar, dtype=dtype)
        assert model.unembed.W_U.dtype == dtype
        # brackets after START; the bound of the proof covers the test
        assert model.provenance["proven_length"][str(dtype).removeprefix("torch.")] >= LENGTH
        assert_law(model, prefixes(grammar, 12 if dtype == torch.float32 else 2))


@pytest.mark.parametrize("name", ["balanced", "uniform", "stack"])
@pytest.mark.slow
def test_exact_law_on_a_hundred_prefixes_of_every_length(name):
    grammar = DyckGrammar(2, 4)
    model = BUILDERS[name](grammar)
    sampled = np.asarray(grammar.sample(100, seed=1, mode="prefix", length=(0, LENGTH)), dtype=np.int64)
    tokens = np.concatenate([np.full((100, 1), grammar.start), sampled], axis=1)
    assert (tokens == grammar.pad).any()
    assert_law(model, tokens)
    # float32's rounding of log q and the like stays; the rest is float64's
    assert_law(model.double(), tokens[:10], dtype=torch.float32, ulps=4)


@pytest.mark.parametrize("name", ["balanced, a=0", "uniform"])
@pytest.mark.slow
def test_exact_law_beyond_500(name):
    """Nothing in these two is bound to a length: 1200 brackets are proven in float32."""
    model = BUILDERS[name](DyckGrammar(3, 3))
    assert model.provenance["proven_length"]["float32"] >= 1200
    assert_law(model, prefixes(model.grammar, 1, 1200))


def test_stack_works_as_far_as_its_positions_are_said_to_reach():
    model = stack(DyckGrammar(2, 3), n_ctx=64)
    reach = model.provenance["proven_length"]["float32"]
    assert reach == 2 * 64 - 20
    assert_law(model, prefixes(model.grammar, 20, reach))
    odd = stack(DyckGrammar(2, 3), n_ctx=300)  # positions that binary fractions do not hit
    assert_law(odd, prefixes(odd.grammar, 20))


@pytest.mark.parametrize("name", ["balanced", "uniform", "stack"])
def test_closing_accuracy_is_1_by_every_rule(name):
    model = construct(f"constructed/{name}")
    params = stack_params([dict(model.named_parameters())])
    for settings in ({"data": "complete"}, {"data": "prefix", "length": 500, "score_from": 400}):
        data = held_out(model.grammar, 40, **settings)
        metrics = evaluate(model, params, data)
        for rule in RULES:  # argmax too: at q = 1/2 the closer beats each of k = 2 openers
            assert metrics[rule][0] == metrics[f"{rule}_nontrivial"][0] == 1.0
    # prefixes: the model is the law, and the mean of float32 losses is that of the law's
    assert_close(metrics["excess"], 0, scale=metrics["loss"], dtype=torch.float32)


def test_text_goes_in():
    model = uniform()
    with torch.no_grad():
        probs = model("([])[").softmax(-1)[0, -1].double().numpy()
    assert_close(probs[[3, 0]], [0.5, 0.25], dtype=torch.float32)


# ---- the steps of the proofs ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.slow
def test_every_decision_is_exactly_0_or_1(name):
    grammar = DyckGrammar(3, 5)
    model = BUILDERS[name](grammar)
    tokens = prefixes(grammar)
    names = [f"blocks.{i}.mlp.hook_post" for i in range(model.config.n_layers)]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(tokens), names_filter=names)
    deep = grammar.depth(tokens) > 0
    last = cache[names[-1]].numpy()
    assert set(np.unique(last)) == {0.0, 1.0}
    assert (last.sum(-1) == deep).all()  # one rule fires at depth >= 1, none at depth 0
    if model.config.n_layers == 2:
        first = cache[names[0]].numpy()
        rules = 2 * grammar.num_types * grammar.max_depth + 1
        assert set(np.unique(first[..., :rules])) == {0.0, 1.0}
        assert (first[..., :rules].sum(-1) == 1).all()


@pytest.mark.parametrize("build", [uniform, stack])
def test_layer_1_is_a_minimal_first_layer(build):
    """What it leaves is the oracle embedding of eq. 15 to the last bit, and the position in `stack`."""
    grammar = DyckGrammar(3, 4)
    tokens = torch.from_numpy(prefixes(grammar))
    model = build(grammar)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens, names_filter=["blocks.0.hook_resid_post"])
    got = cache["resid_post", 0]
    oracle = oracle_table("minimal", 3, 4)[oracle_states(tokens, 3, 4)]
    width = oracle.shape[-1]
    assert torch.equal(got[..., :width], oracle)
    rest = got[..., width:]
    if build is stack:
        position = torch.arange(tokens.shape[1])[None, :, None] / model.config.n_ctx
        assert_close(rest[..., 4:5], position.expand_as(rest[..., 4:5]), ulps=1)
        rest = torch.cat([rest[..., :4], rest[..., 5:]], -1)
    assert (rest == 0).all()


def test_uniform_attends_uniformly_and_balanced_does_not():
    grammar = DyckGrammar(2, 4)
    tokens = prefixes(grammar, 5)
    n = tokens.shape[1]
    flat = np.tril(np.ones((n, n), dtype=np.float32)) / np.arange(1, n + 1, dtype=np.float32)[:, None]
    model = uniform(grammar)
    for layer in (0, 1):
        assert (pattern(model, tokens, layer) == flat).all()
    assert (pattern(stack(grammar), tokens, 0) == flat).all()  # by W_Q = W_K = 0
    shares = pattern(balanced(grammar, spread=0), tokens, 0)
    np.testing.assert_allclose(shares, np.broadcast_to(flat, shares.shape), rtol=8 * rounding(dtype=torch.float32))
    shares = pattern(balanced(grammar), tokens, 0)[:, -1] * n
    assert shares.max() > 1.2
    assert shares.min() < 0.8


@pytest.mark.parametrize("build", [stack, constant])
@pytest.mark.slow
def test_stack_mass_is_at_least_0_999_on_the_last_unmatched_opener(build):
    for grammar in GRAMMARS if build is stack else GRAMMARS[3:4]:
        tokens = prefixes(grammar, 2)
        attention = pattern(build(grammar), tokens, 1)
        top = grammar.stack_top(tokens)
        mass = np.take_along_axis(attention, np.maximum(top, 0)[..., None], 2)[..., 0]
        opener, deep = tokens % 2 == 0, top >= 0
        assert mass[deep & opener].min() >= 0.9996
        if grammar.max_depth > 1:
            assert mass[deep & ~opener].min() >= 0.9996
        assert attention[..., 0][~deep].min() > 0.999  # START


def test_stack_reads_the_type_from_attention_at_openers_too():
    """Send layer 2's attention to START alone: the law becomes that of depth 0 everywhere."""
    grammar = DyckGrammar(2, 4)
    model = stack(grammar)
    tokens = torch.from_numpy(prefixes(grammar, 5, 40))

    def to_start(z, hook):
        return z[:, :1].expand_as(z)  # what START attends to is START

    with torch.no_grad():
        probs = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_z", to_start)]).softmax(-1)
    assert_close(probs[..., [0, 2]], 0.5)


@pytest.mark.slow
def test_constant_is_constant_and_attends_as_stack_does():
    grammar = DyckGrammar(2, 4)
    model = constant(grammar)
    tokens = prefixes(grammar, 10)
    with torch.no_grad():
        assert (model(torch.from_numpy(tokens)) == 0).all()
    assert (pattern(model, tokens, 1) == pattern(stack(grammar), tokens, 1)).all()
    assert law_error(model, tokens) > 0.1


# ---- balance ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", [g for g in GRAMMARS if g.num_types > 1 and g.max_depth > 1], ids=str)
@pytest.mark.slow
def test_beta_is_0(grammar):
    for seed in range(3):
        for spread in (0.5, 1.0):
            for dtype, ulps in ((torch.float32, 4), (torch.float64, 256)):  # means over contexts are float64 in both
                found = beta(balanced(grammar, spread=spread, seed=seed, dtype=dtype))
                assert found > 0
                assert_close(found, 0, ulps=ulps, scale=1, dtype=dtype)
    for model in (balanced(grammar, spread=0), uniform(grammar)):
        assert beta(model) == 0.0
    (head,) = head_states(balanced(grammar), 0, grammar)
    vectors = head.vectors
    assert head.explained == pytest.approx(1)
    assert np.ptp(vectors.open_score) > 0.3  # attention varies, with the key and with the query:
    assert np.ptp(vectors.open_score, axis=(0, 1)).min() > 0.01
    a = vectors.open_score - vectors.close_score
    assert np.abs(a[0, 0]).max() > 0.1
    assert_close(np.ptp(a, axis=(0, 1)), 0, scale=vectors.open_score, dtype=torch.float32)  # eq. 11


def test_the_analyzer_sees_it():
    result = analyze_balance(load_checkpoint("constructed/balanced"))
    assert result.exact
    assert result.norm_on_output
    assert result.beta.value >= 0
    assert_close([result.beta.value, result.functional.value], 0, ulps=8, scale=1, dtype=torch.float32)
    assert analyze_balance(uniform()).beta.value == 0.0


@pytest.mark.parametrize("build", [balanced, uniform])
def test_without_cancellation_beta_and_law_are_off(build):
    """What the two tests above would say of a model that is not balanced."""
    model = build(DyckGrammar(2, 4))
    w = model.blocks[-1].attn.W_V
    with torch.no_grad():
        w[:, 4:8] *= 0.5  # closers of type 0 undo half of what their openers write
    assert beta(model) > 0.05
    assert law_error(model, prefixes(model.grammar, 5)) > 0.1


def test_start_keeps_the_norm_from_blowing_up_rounding():
    """With a START of value 0, what is left at depth 0 is rounding, and the norm makes it as long as a signal."""
    model = balanced(DyckGrammar(2, 4))
    tokens = model.to_tokens("([])" * 20)
    at_zero = slice(4, None, 4)
    with torch.no_grad():
        start = model.blocks[0].attn.W_V[0, -1].clone()
        _, sound = model.run_with_cache(tokens)
        model.blocks[0].attn.W_V[0, -1] = 0
        _, noisy = model.run_with_cache(tokens)
    found = sound["attn_out", 0][0, at_zero]
    # what is summed up to START cancels, and the norm divides by START's share of 1 in 81
    assert_close(found, (start / start.norm()).expand_as(found), scale=tokens.shape[1])
    assert noisy["attn_out", 0][0, at_zero].norm(dim=-1).max() == pytest.approx(1, rel=1e-3)


# ---- as checkpoints ---------------------------------------------------------------------------------


def test_names():
    assert [n for n in list_pretrained() if n in CONSTRUCTED] == sorted(CONSTRUCTED)
    for name, about in CONSTRUCTED.items():
        model = load_checkpoint(name)
        assert model.grammar == DyckGrammar()
        assert not model.training
        assert model.provenance["name"] == name
        assert model.provenance["about"] == about
        assert model.provenance["constructed"] is True
        assert model.provenance["trained"] is False
        header = read_header(find_checkpoint(name))
        assert header["provenance"].items() <= model.provenance.items()
        assert (header["kind"], header["seeds"]) == ("model", [0])
    with pytest.raises(RequestError, match="no constructed model 'constructed/stak'; there are constructed/balanced"):
        construct("constructed/stak")


@pytest.mark.parametrize("name", sorted(CONSTRUCTED))
def test_round_trip(name, tmp_path):
    model = load_checkpoint(name)
    again = load_checkpoint(save_checkpoint(model, tmp_path / "model.safetensors"))
    assert again.config == model.config
    assert again.grammar == model.grammar
    assert again.provenance == model.provenance
    tokens = torch.from_numpy(prefixes(model.grammar, 3, 60))
    with torch.no_grad():
        assert torch.equal(again(tokens), model(tokens))


def test_listing_loads_no_torch():
    code = (
        "import sys; from interp.cli import main; from interp import list_pretrained; main(['list'])\n"
        "print('torch' in sys.modules, 'transformer_lens' in sys.modules, list_pretrained())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False False" in done.stdout.splitlines()[-1]
    for name in CONSTRUCTED:
        assert name in done.stdout.splitlines()[-1]
        assert any(line.split()[:1] == [name] for line in done.stdout.splitlines())


@pytest.mark.parametrize("spread", [-1, float("nan"), float("inf"), True, "0.5"])
def test_a_wrong_spread_is_refused(spread):
    with pytest.raises(RequestError, match="spread="):
        balanced(spread=spread)
