"""Training on counts: the same numbers as the hooked model on tokens, position by position."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from closeness import assert_close
from interp import SandboxTransformer, TopicGrammar, load_checkpoint, train_population
from interp.presets import PRESETS, make_recipe
from interp.worlds.topics.task import (
    TopicTask,
    count_pairs,
    exact_pairs,
    pair_logits,
    row_capacity,
    start_params,
)

TOPIC_PRESETS = [name for name in PRESETS if name.startswith("topic-")]
TINY = {"topics": 3, "words": 2, "min_length": 6, "max_length": 9, "mask_prob": 0.5}


def literal_loss(model, documents, kind):
    """One document and one chosen position at a time, through the hooked model."""
    losses = []
    for words, shown, chosen in zip(documents.words, documents.shown, documents.chosen, strict=True):
        inside = words >= 0
        logits = model(torch.from_numpy(shown[inside])[None])[0]
        each = []
        for j in np.flatnonzero(chosen[inside]):
            truth = F.one_hot(torch.tensor(words[j]), logits.shape[-1]).to(logits.dtype)
            nll, square = -(logits[j].log_softmax(-1) * truth).sum(), (logits[j] - truth).square().sum()
            each.append(nll if kind == "ce" else square)
        if each:
            losses.append(torch.stack(each).mean())
        else:
            losses.append(torch.zeros((), dtype=logits.dtype))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("preset", TOPIC_PRESETS)
@pytest.mark.parametrize("kind", ["ce", "mse"])
def test_loss_and_gradient_equal_a_literal_loop(preset, kind):
    recipe = make_recipe(preset, {**TINY, "loss": kind, "init_std": 0.7})
    model = SandboxTransformer.init(recipe.config, 3, recipe.grammar).double()
    documents = recipe.grammar.sample(7, seed=1)
    task = TopicTask(model, recipe, "cpu")
    pairs = count_pairs(documents, recipe.grammar, task.merge, row_capacity(recipe.grammar, 7, task.merge))
    batch = [torch.from_numpy(a) for a in (pairs.shown, pairs.document, pairs.query, pairs.target)]
    batch = [b.double() if b.is_floating_point() else b for b in batch]
    params = {n: p.detach().clone()[None].requires_grad_() for n, p in model.named_parameters()}
    task.buffers = {n: b.double() for n, b in task.buffers.items()}
    ours = task(params, *[b[None] for b in batch])
    literal = literal_loss(model, documents, kind)
    assert_close(ours[0], literal, dtype=torch.float32)  # counts are stored in it
    grads = torch.autograd.grad(ours.sum(), list(params.values()), allow_unused=True)
    expected = torch.autograd.grad(literal, list(model.parameters()), allow_unused=True)
    largest = [b.abs().max() for b in expected if b is not None]
    for name, a, b in zip(params, grads, expected, strict=True):
        if b is None:
            assert a is None or not a.any(), name
        else:
            assert_close(a[0], b, scale=largest, dtype=torch.float32)


@pytest.mark.slow
def test_exact_law_is_the_limit_of_long_documents():
    """Sampled documents of 10,000 words: their mean loss within Monte-Carlo error of the exact one."""
    options = {"topics": 3, "words": 2, "law": "idealised", "init_std": 0.5, "loss": "mse"}
    recipe = make_recipe("topic-joint", {**options, "data": "exact"})
    long = TopicGrammar(3, 2, law="idealised", min_length=10_000, max_length=10_000)
    model = SandboxTransformer.init(recipe.config, 0)
    task = TopicTask(model, recipe, "cpu")
    params = {n: p.detach()[None] for n, p in model.named_parameters()}
    exact = float(task.metrics(params, True)["loss"][0])
    pairs = count_pairs(long.sample(300, seed=0), long, merge=False)
    logits = pair_logits(
        recipe.config,
        task.buffers,
        {n: p[0] for n, p in params.items()},
        [torch.from_numpy(a) for a in (pairs.shown, pairs.document, pairs.query)],
    )
    target = torch.from_numpy(pairs.target)
    row = (logits.square().sum(-1) + 1) * target.sum(-1) - 2 * (logits * target).sum(-1)
    each = np.bincount(pairs.document, weights=row.detach().numpy()) * 300
    assert abs(each.mean() - exact) < 5 * each.std(ddof=1) / np.sqrt(300)


@pytest.mark.parametrize("merge", [True, False])
def test_weights_sum_to_one(merge):
    grammar = TopicGrammar()
    pairs = count_pairs(grammar.sample(40, seed=0), grammar, merge, row_capacity(grammar, 40, merge))
    assert_close(pairs.target.sum(), 1)
    assert_close(pairs.shown.sum(1), 1)
    assert_close(exact_pairs(TopicGrammar(law="idealised"), merge).target.sum(), 1)


@pytest.mark.parametrize("preset", TOPIC_PRESETS)
@pytest.mark.slow
def test_a_seed_is_the_same_bit_for_bit_alone_and_among_others(preset):
    together = train_population(preset, 3, steps=12, workers=1)
    alone = train_population(preset, [2], steps=12, workers=1)
    for name, p in together.params.items():
        assert torch.equal(p[2], alone.params[name][0]), name
    assert together.final_metrics()[2]["loss"] == alone.final_metrics()[0]["loss"]


def test_resume_gives_the_same_bytes(tmp_path, monkeypatch):
    options = {"eval_every": 5}
    train_population("topic-joint", 2, options=options, steps=15, workers=1, out=tmp_path / "whole.safetensors")
    from interp.training import run

    original = run.write_state

    def stop(path, state, *rest):
        original(path, state, *rest)
        if state.step == 10:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "write_state", stop)
    out = tmp_path / "parts.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train_population("topic-joint", 2, options=options, steps=15, workers=1, out=out)
    monkeypatch.setattr(run, "write_state", original)
    train_population("topic-joint", 2, options=options, steps=15, workers=1, out=out, resume=True)
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("preset", "options", "learn"),
    [
        ("topic-joint", {"trained": "attention"}, {"blocks.0.attn.W_Q", "blocks.0.attn.W_K"}),
        ("topic-embedding", {}, {"embed.W_E"}),
        ("topic-joint", {}, {"blocks.0.attn.W_Q", "blocks.0.attn.W_K", "blocks.0.attn.W_V"}),
    ],
)
def test_only_what_is_trained_moves(preset, options, learn):
    population = train_population(preset, 2, options={**options, "init_std": 0.1}, steps=8, workers=1)
    recipe = make_recipe(preset, {**options, "init_std": 0.1})
    for name, p in population.params.items():
        for i, seed in enumerate(population.seeds):
            model = SandboxTransformer.init(recipe.config, seed)
            first = start_params({n: q.detach() for n, q in model.named_parameters()}, recipe)[name]
            assert torch.equal(p[i], first) == (name not in learn), name


def test_l2_counts_trained_weights_only():
    """The gradient of the penalty alone, at the minimum of nothing: loss differences by hand."""
    plain = make_recipe("topic-joint", {**TINY, "trained": "attention"})
    heavy = make_recipe("topic-joint", {**TINY, "trained": "attention", "l2": 0.5})
    model = SandboxTransformer.init(plain.config, 0)
    params = {n: p.detach()[None] for n, p in model.named_parameters()}
    tasks = [TopicTask(model, r, "cpu") for r in (plain, heavy)]
    batch = [torch.from_numpy(a[0])[None] for a in tasks[0].draw(0, range(1))]
    squares = sum(float(p.square().sum()) for n, p in params.items() if n.endswith(("W_Q", "W_K")))
    light, heavy = (task(params, *batch) for task in tasks)
    assert_close(heavy - light, [0.25 * squares], scale=heavy)


def test_starts():
    identity = make_recipe("topic-embedding")
    model = SandboxTransformer.init(identity.config, 0)
    start = start_params({n: p.detach() for n, p in model.named_parameters()}, identity)
    assert torch.equal(start["blocks.0.attn.W_V"][0], torch.eye(101))
    assert start["unembed.b_U"][0] == 0
    assert float(start["unembed.b_U"][1]) == pytest.approx(-0.15 * 0.1 / 0.865 / 100)
    block = make_recipe("topic-joint", {"start": "block"})
    model = SandboxTransformer.init(block.config, 0)
    value = start_params({n: p.detach() for n, p in model.named_parameters()}, block)["blocks.0.attn.W_V"][0]
    # x @ W_V: a row is the attended word, a column the predicted one
    assert float(value[0, 5]) == pytest.approx(0.0541908, rel=1e-5)
    assert float(value[5, 0]) == 0
    assert float(value[1, 2]) == pytest.approx(0.108020, rel=1e-5)
    assert float(value[1, 12]) == pytest.approx(-0.00758671, rel=1e-5)


@pytest.mark.slow
def test_gradient_descent_from_zero_finds_the_minimum_norm_optimum():
    """Theorem 2.1.2: squared loss, exact law, W^V alone."""
    from interp.worlds.topics.theory import TopicTheory

    options = {"law": "idealised", "data": "exact", "loss": "mse", "optimizer": "sgd", "start": "zero", "lr": 20}
    population = train_population("topic-value", 1, options=options, steps=1500, workers=1)
    found = population.params["blocks.0.attn.W_V"][0, 0].double().numpy().T
    expected = TopicTheory(10, 10).value_matrix()
    assert np.abs(found[0]).max() < 1e-3 * expected.max()
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0.01)  # as far as 1,500 steps come


def test_checkpoints_and_hooks_of_a_topic_model(tmp_path):
    train_population("topic-joint", 1, steps=2, workers=1, out=tmp_path / "t.safetensors")
    population = load_checkpoint(tmp_path / "t.safetensors")
    assert population.grammar == TopicGrammar()
    model = population[0]
    text = "t0w0 t0w1 [MASK] t3w2"
    logits, cache = model.run_with_cache(text)
    pattern = cache["blocks.0.attn.hook_pattern"]
    assert pattern.shape == (1, 1, 4, 4)
    assert_close(pattern.sum(-1), 1)
    assert bool((pattern > 0).all())  # bidirectional
    assert logits.shape == (1, 4, 101)
    assert model.to_str_tokens(text) == text.split()


def test_a_tied_unembedding_is_the_embedding():
    recipe = make_recipe("topic-full", TINY)
    model = SandboxTransformer.init(recipe.config, 0)
    assert torch.equal(model.W_U, model.W_E.T)
    assert "unembed.W_U" not in dict(model.named_parameters())


def test_documents_with_nothing_to_predict_do_not_dilute_the_loss():
    """A zero model says ln(vocab) everywhere, however many documents have an empty M."""
    options = {"topics": 3, "words": 2, "min_length": 1, "max_length": 3, "start": "zero", "lr": 1e-30}
    population = train_population("topic-value", 1, options=options, steps=1, workers=1)
    for row in population.history:
        assert row["loss"] == pytest.approx(np.log(7), rel=1e-5)


def test_the_merged_exact_law_is_the_sum_over_queries():
    grammar = TopicGrammar(4, 3, law="idealised")
    whole, merged = exact_pairs(grammar, merge=False), exact_pairs(grammar, merge=True)
    sets = len(merged.target)
    assert_close(whole.target.reshape(sets, -1, grammar.vocab_size).sum(1), merged.target)
