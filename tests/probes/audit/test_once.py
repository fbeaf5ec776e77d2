"""Inputs that are read at several places are run once: the same numbers as one run an item."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.claims.language import NEXT_TOKEN
from interp.config import TransformerConfig
from interp.model import SandboxTransformer
from probes.audit.exchanges import interchange, resampled
from probes.audit.side import Side, _once
from probes.audit.tasks import Items

HEADS, LAYERS, WIDTH, VOCABULARY = 2, 2, 9, 11
CONFIG = TransformerConfig(VOCABULARY, d_model=8, d_head=4, n_heads=HEADS, n_layers=LAYERS, d_mlp=8)


def drawn_model(seed, **config):
    """In float64, with weights large enough that every edit moves something."""
    model = SandboxTransformer.init(replace(CONFIG, **config), seed).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5)
    return model


def texts(count, seed=0):
    return np.random.default_rng(seed).integers(0, VOCABULARY, (count, WIDTH))


def asked(count=12, positions=2, seed=0):
    """Items of the next token, at up to so many places of each text."""
    tokens = texts(count, seed)
    question = replace(NEXT_TOKEN, positions=positions)
    return question.items(tokens, None, np.ones(tokens.shape, dtype=bool), seed)


def made(texts, donors, read, **more):
    """Items of these numbers of texts."""
    of, none = np.arange(WIDTH * 4).reshape(4, WIDTH), np.zeros(len(texts), dtype=int)
    return Items(np.array(texts), of[texts], of[donors], np.array(read), None, none, none, **more)


def test_each_input_with_its_donor_is_run_once_up_to_its_last_place():
    items = made([2, 0, 2, 1, 0, 0], [1, 1, 1, 0, 1, 2], [5, 3, 2, 4, 7, 6])
    pairs, rows = _once(items, True)
    assert pairs.sequence.tolist() == [2, 0, 1, 0]  # as they come; the last has another donor
    assert (pairs.donors == items.donors[[0, 1, 3, 5]]).all()
    assert pairs.read.tolist() == [5, 7, 4, 6]
    assert rows.tolist() == [0, 1, 0, 2, 1, 3]


@pytest.mark.parametrize("why", ["not causal", "of places of their own", "all differ"])
def test_all_others_are_run_item_by_item(why):
    items = made([0, 0, 1], [1, 1, 0], [2, 3, 4])
    if why == "of places of their own":
        items = replace(items, seen=np.ones((3, WIDTH), dtype=bool))
    if why == "all differ":
        items = items.only(np.array([2, 1]))
    pairs, rows = _once(items, why != "not causal")
    assert pairs is items
    assert rows.tolist() == list(range(len(items)))


def test_texts_that_differ_in_length_alone_are_no_one_pair():
    """Where nothing says which token fills up, the claimed edges of each are its own."""
    items = replace(made([0, 0], [1, 1], [1, 2]), sequence=np.arange(2))
    assert _once(items, True)[1].tolist() == [0, 1]


def edits(side, seed=0):
    """Edited runs of every kind: values along edges, whole heads, constants in their place, frozen and not."""
    tri = torch.from_numpy(np.tri(WIDTH, k=-1, dtype=bool)).expand(len(side.pairs), -1, -1)
    swap = interchange(side.donor_cache, tri, ((0, 1), (1, 0)))
    given = {(0, 0): torch.full((WIDTH, 4), 0.3), (1, 1): torch.zeros(4)}
    return {
        "values": side.edited(swap),
        "direct": side.edited(swap, frozen=side.cache),
        "beside": side.edited(swap, ablated=given),
        "donor": side.donor,
        "own": side.base,
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("positions", [1, 2, 4])
def test_a_run_for_all_items_of_a_text_is_as_one_for_each(seed, positions):
    model, items = drawn_model(seed), asked(positions=positions, seed=seed)
    side = Side(model, items, 0.95)
    assert len(side.pairs) == len(side.tokens) == len(np.unique(items.sequence))
    assert len(side.margin) == len(items)
    together = edits(side)
    for item in range(len(items)):
        alone = edits(Side(model, items.only(np.array([item])), 0.95))
        for name, run in alone.items():
            assert_close(together[name].logits[item], run.logits[0], scale=10.0)
            assert_close(together[name].norm[item], run.norm[0], scale=10.0)


def test_what_an_item_reads_is_exchanged_for_itself_alone():
    """The tokens of one place of a text that another place must not see exchanged."""
    model, items = drawn_model(0), asked(seed=1)
    side, places = Side(model, items, 0.95), np.random.default_rng(0).random(items.tokens.shape) < 0.4
    found = side.mixed(places)
    for item in range(len(items)):
        tokens = np.where(places[item], items.donors[item], items.tokens[item])
        logits = model(torch.from_numpy(tokens)[None])[0, items.read[item]]
        assert_close(found.logits[item], logits.detach(), scale=10.0)


def test_places_that_live_are_those_of_any_item_of_the_text():
    items = made([1, 0, 1], [0, 1, 0], [2, 4, 6])
    side = Side(drawn_model(0), items, 0.95)
    assert [row.nonzero().flatten().tolist() for row in side.lives(True)] == [[2, 6], [4]]
    assert side.lives(False).sum(1).tolist() == [7, 5]


def test_inputs_that_were_left_out_are_run_once_too():
    items = made([0, 1, 2, 2], [1, 2, 0, 0], [3, 4, 5, 7])
    side = Side(drawn_model(0, d_vocab=40), items.only(np.arange(2)), 0.95, 0.5,
                items.only(np.arange(2, 4)))  # fmt: skip
    assert side.aside.read.tolist() == [7]
    assert side.aside_cache.z[0].shape[0] == 1


def test_no_run_is_made_before_it_is_asked_for():
    """Of the half in which is searched a part alone is run."""
    model, counted = drawn_model(0), []
    model.blocks[0].register_forward_hook(lambda *_: counted.append(1))
    side = Side(model, asked(), 0.95)
    part = side.part(4)
    assert not counted
    part.margin  # noqa: B018
    assert len(counted) == 1
    side.donor_cache  # noqa: B018
    assert len(counted) == 2


def test_whole_heads_are_exchanged_by_text():
    items = asked(seed=2)
    side = Side(drawn_model(0), items, 0.95)
    (one,) = resampled(side, ((1, 0),), 0)
    assert one.add.shape[0] == len(side.pairs) < len(items)
    given = side.cache.z[1] + one.add
    far = (given[:, None] - side.donor_cache.z[1]).flatten(2).norm(dim=-1)
    assert sorted(far.argmin(1).tolist()) == list(range(len(side.pairs)))
    assert_close(far.amin(1), torch.zeros(len(far)), scale=10.0)


def test_units_are_still_the_texts():
    side = Side(drawn_model(0), asked(seed=3), 0.95)
    assert len(side.by_unit(side.margin)) == len(side.pairs)
    assert side.mean_margin().n == len(side.pairs)
