"""What heads give on other inputs, and means over all of them: each beside a literal loop."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.config import TransformerConfig
from interp.model import SandboxTransformer
from probes.audit import thresholds as limits
from probes.audit.edits import z_change
from probes.audit.others import Others, _as_long
from probes.audit.side import Side, mean_by_place
from probes.audit.tasks import Items

HEADS, WIDTH, D_HEAD, LAYERS = 2, 5, 3, 2
CLAIMED = ((0, 1), (1, 0), (1, 1))


def items_of(read):
    each, none = np.arange(len(read)), np.zeros(len(read), dtype=int)
    tokens = np.zeros((len(read), WIDTH), dtype=int)
    return Items(each, tokens, tokens, np.array(read), None, none, none)


def kept(count, seed):
    """A run's cache at random: causal patterns, that of the first item blind for the first key."""
    rng = np.random.default_rng(seed)
    weights = rng.random((LAYERS, count, HEADS, WIDTH, WIDTH)) * np.tri(WIDTH)
    weights[:, 0, :, 1:, 0] = 0.0
    weights = torch.from_numpy(weights / weights.sum(-1, keepdims=True))
    v = torch.from_numpy(rng.normal(size=(LAYERS, count, WIDTH, HEADS, D_HEAD)))
    z = torch.einsum("lbhqk,lbkhd->lbqhd", weights, v)
    return SimpleNamespace(patterns=list(weights), v=list(v), z=list(z))


def edges_of(count, seed):
    return torch.from_numpy(
        (np.random.default_rng(seed).random((count, WIDTH, WIDTH)) < 0.3) & np.tri(WIDTH, dtype=bool)
    )


READ, ASIDE = [4, 3, 4, 2, 3, 4], [2, 4, 3]


def others_of(aside=True, seed=0, heads=None):
    """Others of six items with random runs; `aside`: beside three that were left out."""
    side = object.__new__(Side)
    side.model, side.items = SimpleNamespace(cfg=SimpleNamespace(n_layers=LAYERS)), items_of(READ)
    side.pairs, side.rows, side.tokens = side.items, torch.arange(len(READ)), torch.from_numpy(side.items.tokens)
    side.read, side.aside = torch.tensor(READ), items_of(ASIDE) if aside else None
    side.base, side.donor = (SimpleNamespace(cache=kept(len(READ), seed)) for seed in (1, 2))
    if aside:
        side.__dict__["aside_cache"] = kept(len(ASIDE), 3)
    keys, donors, out = (edges_of(count, seed) for count, seed in ((len(READ), 4), (len(READ), 5), (len(ASIDE), 6)))
    every = tuple((layer, head) for layer in range(LAYERS) for head in range(HEADS))
    return Others(side, every if heads is None else heads, keys, donors, out if aside else None, seed)


# -- which input --------------------------------------------------------------------------------------------


def test_another_input_is_of_the_same_length_or_of_the_next():
    pool = np.array([7, 3, 5, 3, 7, 5, 3])
    length = np.array([3] * 300 + [4] * 3 + [5] * 300 + [6] * 3 + [7] * 300 + [2, 8, 9])
    found = _as_long(length, pool, 0)
    for mine, drawn in ((3, {1, 3, 6}), (5, {2, 5}), (7, {0, 4})):
        times = np.bincount(found[length == mine], minlength=len(pool))
        assert set(np.flatnonzero(times)) == drawn
        five_errors = 5 * (300 / len(drawn) * (1 - 1 / len(drawn))) ** 0.5
        assert np.abs(times[list(drawn)] - 300 / len(drawn)).max() < five_errors
    assert {mine: set(pool[found[length == mine]]) for mine in (2, 4, 6, 8, 9)} == {
        2: {3}, 4: {5}, 6: {7}, 8: {7}, 9: {7},
    }  # fmt: skip
    assert (found == _as_long(length, pool, 0)).all()
    assert (found != _as_long(length, pool, 1)).any()


def test_a_pool_of_one_length_serves_all():
    assert set(_as_long(np.array([1, 4, 9] * 50), np.array([4, 4]), 0)) == {0, 1}
    assert _as_long(np.array([1, 4, 9]), np.array([4]), 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("aside", [False, True])
def test_others_are_donors_and_the_inputs_that_were_left_out(aside):
    met = set()
    for seed in range(60):
        others = others_of(aside, seed)
        side, drawn = others.side, others.drawn
        pools = [(side.donor_cache, others.donors, READ, "donor")]
        pools += [(side.aside_cache, others.aside, ASIDE, "aside")] if aside else []
        for item, read in enumerate(READ):
            whose = [
                (name, one)
                for cache, keys, reads, name in pools
                for one in range(len(reads))
                if reads[one] == read
                and torch.equal(drawn.keys[item], keys[one])
                and all(
                    torch.equal(getattr(drawn, part)[layer][item], getattr(cache, part)[layer][one])
                    for part in ("patterns", "v", "z")
                    for layer in range(LAYERS)
                )
            ]
            assert len(whose) == 1
            met.add((read, *whose[0]))
    expected = {(read, "donor", one) for one, read in enumerate(READ)}
    assert met == expected | {(read, "aside", one) for one, read in enumerate(ASIDE) if aside}


def test_the_inputs_that_were_left_out_are_run_as_they_are():
    cfg = TransformerConfig(9, d_model=8, d_head=4, n_heads=HEADS, n_layers=LAYERS, d_mlp=8)
    model, rng = SandboxTransformer.init(cfg, 0), np.random.default_rng(0)
    items = Items(
        np.arange(5), rng.integers(0, 9, (5, WIDTH)), rng.integers(0, 9, (5, WIDTH)), np.full(5, WIDTH - 1), None,
        np.zeros(5, dtype=int), np.ones(5, dtype=int),
    )  # fmt: skip
    side = Side(model, items.first(3), 0.95, 0.4, items.only([3, 4]))
    _, seen = model.run_with_cache(torch.from_numpy(items.tokens[3:]))
    for layer in range(LAYERS):
        assert_close(side.aside_cache.z[layer], seen[f"blocks.{layer}.attn.hook_z"])
        assert_close(side.aside_cache.v[layer], seen[f"blocks.{layer}.attn.hook_v"])
        assert_close(side.aside_cache.patterns[layer], seen[f"blocks.{layer}.attn.hook_pattern"])
    assert side.aside_cache is side.aside_cache


# -- what of it is given ------------------------------------------------------------------------------------


def changed(others, edits):
    """[layer] z once the edits are made, and of which heads."""
    cache = others.side.cache
    heads = [(one.layer, head) for one in edits for head in one.heads]
    z = [x.clone() for x in cache.z]
    for one in edits:
        z[one.layer][:, :, list(one.heads)] += z_change(one, cache.patterns[one.layer], cache.v[one.layer])
    return z, heads


def test_all_that_heads_give_is_what_they_give_there():
    others = others_of(heads=CLAIMED)
    z, heads = changed(others, others.output())
    assert sorted(heads) == sorted(CLAIMED)
    for layer in range(LAYERS):
        for head in range(HEADS):
            source = others.drawn if (layer, head) in CLAIMED else others.side.cache
            assert_close(z[layer][:, :, head], source.z[layer][:, :, head])


@pytest.mark.parametrize(("heads", "layers"), [(((1, 0),), {1}), (((0, 1), (0, 0)), {0})])
def test_of_layers_without_a_claimed_head_nothing_is_kept(heads, layers):
    drawn = others_of(heads=heads).drawn
    assert all(set(getattr(drawn, part)) == layers for part in ("patterns", "v", "z"))


@pytest.mark.parametrize("seed", range(3))
def test_off_the_claimed_edges_they_keep_their_weights_and_values_there(seed):
    """What is left of a row's weight is laid out as the other input's rest is, over keys that the query sees."""
    others = others_of(seed=seed, heads=CLAIMED)
    side, drawn = others.side, others.drawn
    z, heads = changed(others, others.unclaimed())
    assert sorted(heads) == sorted(CLAIMED)
    kinds = set()
    for layer, head in CLAIMED:
        for item, read in enumerate(READ):
            for q in range(WIDTH):
                own = side.cache.patterns[layer][item, head, q]
                mine, theirs = side.cache.v[layer][item, :, head], drawn.v[layer][item, :, head]
                weights, value = own.clone(), mine.clone()
                if q <= read:  # nothing later is read
                    sees = side.cache.patterns[layer][item, :, q].sum(0) > 0
                    other = torch.where(sees, drawn.patterns[layer][item, head, q], 0.0)
                    stays = others.keys[item, q] | drawn.keys[item, q]
                    rest = float(other[~stays].sum())
                    kinds.add((bool(stays.any()), rest > 0))
                    for k in range(WIDTH):
                        if not stays[k]:
                            weights[k] = float(own[~stays].sum()) * other[k] / rest if rest > 0 else own[k]
                            value[k] = theirs[k]
                expected = sum(weights[k] * value[k] for k in range(WIDTH))
                assert_close(z[layer][item, q, head], expected, scale=10.0)
                assert float(weights.sum()) == pytest.approx(1)
    assert kinds == {(False, True), (True, False), (True, True)}
    for layer in range(LAYERS):
        for head in {0, 1} - {head for at, head in CLAIMED if at == layer}:
            assert torch.equal(z[layer][:, :, head], side.cache.z[layer][:, :, head])


# -- means by place -----------------------------------------------------------------------------------------


def test_a_mean_by_place_needs_enough_items_there():
    """Of two runs 50 items have the first place, 49 the second, one the third and none the fourth."""
    x = torch.randn(2, 30, 4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    places = torch.zeros(2, 30, 4, dtype=torch.bool)
    places[0, :, 0] = places[1, 5:25, 0] = places[0, 1:, 1] = places[1, :20, 1] = places[1, 7, 2] = True
    assert places.sum((0, 1)).tolist() == [limits.MIN_SEQUENCES, limits.MIN_SEQUENCES - 1, 1, 0]
    runs = list(zip(x, places, strict=True))
    overall = torch.stack([x[r, b, q] for r, b, q in places.nonzero().tolist()]).mean(0)
    first = torch.stack([x[r, b, 0] for r, b, q in places.nonzero().tolist() if q == 0]).mean(0)
    found = mean_by_place(runs, True)
    assert found.shape == (4, 2, 3)
    assert_close(found[0], first)
    for place in range(4):
        assert place == 0 or torch.equal(found[place], found[1])
        assert_close(mean_by_place(runs, False)[place], overall)
    assert_close(found[1], overall)
