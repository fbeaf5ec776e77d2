"""Of very many heads, which are tried as partners: slopes against small steps, and a partner planted among eighty."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import DyckGrammar, SandboxTransformer, TransformerConfig
from interp.claims.register import questions
from probes import audit_claim
from probes.audit import partners
from probes.audit import thresholds as limits
from probes.audit.edits import Edges, hooked, writers_of
from probes.audit.inputs import make_inputs
from probes.audit.screen import changes, exchanged, screened
from probes.audit.side import Side
from probes.audit.tasks import Items
from probes.audit.whole import whole_interchange
from toys import GRAMMAR, STACK, TOP, TYPE, Toy, onto

HEADS = [(layer, head) for layer in range(2) for head in range(3)]


@pytest.fixture(scope="module")
def side():
    """Five items of a small model with random weights, in double precision."""
    config = TransformerConfig(7, pad_token=6, n_ctx=12, n_layers=2, n_heads=3, d_model=9, d_head=4, init_std=0.4)
    model = SandboxTransformer.init(config, 0, DyckGrammar(2, 3)).double()
    rng = np.random.default_rng(0)
    draw = {name: rng.integers(0, 6, (5, 10)) for name in ("tokens", "donors")}
    answer = rng.integers(0, 3, 5)
    items = Items(
        **draw, sequence=np.arange(5), read=np.array([9, 4, 6, 8, 9]), flipped=None, answer=answer, foil=answer + 3
    )
    return Side(model, items, 0.95)


def edited(side):
    """Values of half of the keys exchanged in one head of the lower layer."""
    keys = torch.zeros(5, 10, 10, dtype=torch.bool)
    keys[:, :, ::2] = True
    return [Edges(0, (1,), keys, values=side.donor_cache.v[0])]


def to_mean(side):
    return lambda layer: side.mean_of(layer)


def to_donor(side):
    return lambda layer: side.donor_cache.z[layer]


def margin_after_a_step(side, edges, head, becomes, size):
    """The mean margin once z of a head has gone `size` of the way to what it becomes, by plain hooks."""
    layer, index = head
    end = becomes(layer)[..., index, :]

    def step(module, given, z):
        out = z.clone()
        out[:, :, index] += size * (end - z[:, :, index])
        return out

    with torch.no_grad(), hooked(side.model, writers_of(side.model, side.tokens, edges)):
        handle = side.model.hook_dict[f"blocks.{layer}.attn.hook_z"].register_forward_hook(step)
        logits = side.model(side.tokens)[torch.arange(5), side.read].numpy()
        handle.remove()
    return float((logits[np.arange(5), side.items.answer] - logits[np.arange(5), side.items.foil]).mean())


@pytest.mark.parametrize("to", [to_mean, to_donor])
@pytest.mark.parametrize("of", [lambda side: [], edited], ids=["intact", "edited"])
def test_slopes_are_those_of_small_steps(side, of, to):
    edges, becomes, step = of(side), to(side), 1e-5
    found = changes(side, becomes, edges)
    for layer, head in HEADS:
        up, down = (margin_after_a_step(side, edges, (layer, head), becomes, size) for size in (step, -step))
        # A difference of two margins over the step: their roundings count 1 / step times, and step^2 is below that.
        assert_close(found[layer, head], (up - down) / (2 * step), scale=side.margin, ulps=32 / step)
    assert found.abs().min() > 0


def test_an_exchange_is_what_the_margin_loses(side):
    found = changes(side, to_donor(side))
    assert exchanged(side, HEADS) == {head: -float(found[head]) for head in HEADS}


def test_the_interchange_counts_as_far_as_it_changes_the_slopes(side):
    edges = edited(side)
    found = screened(side, edges, HEADS)
    expected = changes(side, side.mean_of) - changes(side, side.mean_of, edges)
    assert found == {head: float(expected[head]) for head in HEADS}
    assert set(screened(side, [], HEADS).values()) == {0.0}  # nothing exchanged, nothing gained


def test_gradients_leave_no_trace(side):
    before = {name: p.detach().clone() for name, p in side.model.named_parameters()}
    asked = {name: p.requires_grad for name, p in side.model.named_parameters()}
    changes(side, side.mean_of, edited(side))
    for name, parameter in side.model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
        assert parameter.requires_grad == asked[name]
    assert not any(point._forward_hooks for point in side.model.hook_dict.values())


def among(count, places):
    """One layer of `count` heads: the first and those at `places` tell the same, any two of which are enough."""
    heads = [(onto("previous"), np.roll((0, 1, 0, -1, 0, 0, 0), at)) for at in range(count)]
    for at in (0, *places):
        heads[at] = (TOP, TYPE)
    return Toy([heads], lambda a: torch.tanh(3 * a[..., [0, *places]].sum(-1)))


@pytest.mark.slow
def test_partners_among_eighty_heads_are_found_by_slopes(monkeypatch):
    tried, screen = [], partners.screened
    monkeypatch.setattr(partners, "screened", lambda *given: tried.append(given) or screen(*given))
    result = audit_claim(among(80, (23, 57)), STACK, num_inputs=240, length=20, task_check=False)
    assert (result.pattern, result.use) == ("holds", "redundant"), result.reason
    assert f"({79 - limits.CANDIDATES} other heads were not tried as partners)" in result.reason
    gains = screen(*tried[0])
    assert sorted(gains, key=gains.get)[-2:] == [(0, 23), (0, 57)]
    assert len(tried[0][0].items) == limits.FEW_ITEMS


BOTH_SIDES = [(limits.RANKED, limits.SEARCH_ITEMS), (limits.RANKED + 1, limits.FEW_ITEMS)]


@pytest.mark.parametrize(("heads", "items"), BOTH_SIDES)
def test_a_search_reads_fewer_items_where_the_heads_are_many(heads, items):
    cfg = SimpleNamespace(n_layers=1, n_heads=heads)
    assert partners.searched(SimpleNamespace(model=SimpleNamespace(cfg=cfg), part=lambda count: count)) == items


@pytest.mark.parametrize(("count", "left"), [(limits.RANKED, 0), (limits.RANKED + 6, 6)])
def test_of_very_many_heads_those_that_slopes_put_first_are_exchanged(count, left):
    """One that decides alone is among them; what is not tried is open, and says so."""
    heads = [(onto("previous"), np.roll((0, 1, 0, -1, 0, 0, 0), at)) for at in range(count)]
    heads[-1] = (TOP, TYPE)
    toy = Toy([heads], lambda a: a[..., -1])
    inputs = make_inputs(toy, GRAMMAR, None, 200, 16, 0)
    every = [(0, head) for head in range(count)]
    found = whole_interchange(toy, every, inputs, questions()["closers"], 0.95, 0)
    assert found[0, count - 1].word == "used"
    words = [found[head].word for head in every[:-1]]
    assert (words.count("not moved"), words.count("open")) == (count - 1 - left, left)
    whys = {kind.why for one in found.values() for kind in one.kinds if kind.why}
    assert whys == ({f"not tried: slopes put {limits.RANKED} of {count} heads before it"} if left else set())
