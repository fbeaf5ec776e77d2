"""The study end to end on two barely trained seeds; one head's numbers once more, string by string."""

import copy
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from case_studies.dyck_copying import measure as study
from case_studies.dyck_copying.compared import _above, beyond_random
from case_studies.dyck_copying.estimates import LOOKS, ZEROED, by_edit, crossing, others, over_seeds, useless
from case_studies.dyck_copying.measure import ENCODERS, GROUPS, Cost, Head
from case_studies.dyck_copying.study import FULL, populations, run
from case_studies.looks import Fit
from closeness import assert_close
from interp import load_checkpoint
from interp.presets import make_recipe
from interp.stats import POSITIVE, Estimate, holm
from intervals import INTERVAL, unnamed_of_page
from probes.claims import RELATIONS
from sizes import hold_out_few

pytestmark = pytest.mark.slow

DRAWN = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(study, "STRINGS", DRAWN)
    hold_out_few(patch)
    out = tmp_path_factory.mktemp("copying")
    run(out, seeds=2, steps=3, workers=1)
    yield out
    patch.undo()


def test_every_interval_says_its_n(folder):
    page = (folder / "index.html").read_text()
    assert INTERVAL.search(page)
    assert not unnamed_of_page(page)


@pytest.fixture(scope="module")
def results(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def model(folder):
    """The second of the models with four layers."""
    group = next(g for g in GROUPS if g.family.name == "4 layers")
    return load_checkpoint(replace(group.family, steps=3).file(folder / "populations", 2))[1]


def draws(model):
    """The held-out strings as they were drawn, START and brackets, no PAD."""
    grammar = model.grammar
    rows = grammar.sample(DRAWN, seed=0, mode="complete", min_length=2, max_length=26, stream="held-out")
    return [np.array([grammar.start, *(t for t in row.tolist() if t != grammar.pad)]) for row in rows]


def head_row(results, seed, layer):
    heads = results["groups"]["4 layers"]["heads"]
    at = [heads[k] for k in ("seed", "layer")]
    i = list(zip(*at, strict=True)).index((seed, layer))
    return {name: column[i] for name, column in heads.items()}


def margins(model, strings, edit=None):
    """Mean over all brackets of right minus best other logit, one string at a time; `edit(pos)` gives hooks."""
    out, right = [], []
    for tokens in strings:
        with torch.no_grad():
            hooks = [] if edit is None else edit(len(tokens))
            logits = model.run_with_hooks(torch.from_numpy(tokens)[None], fwd_hooks=hooks)[0].double().numpy()
        for position in range(1, len(tokens)):
            row = logits[position].copy()
            own = row[tokens[position]]
            row[tokens[position]] = -np.inf
            out.append(own - row.max())
            right.append(own > row.max())
    return np.mean(out), np.mean(right)


@pytest.mark.parametrize("layer", [0, 2])
def test_costs_are_those_of_edits_by_hand(model, results, layer):
    strings = draws(model)
    intact, accuracy = margins(model, strings)
    row = head_row(results, 1, layer)
    name = f"blocks.{layer}.attn"
    total, count = 0.0, 0
    for tokens in strings:
        _, cache = model.run_with_cache(torch.from_numpy(tokens)[None])
        total, count = total + cache[f"{name}.hook_z"][0].sum(0).detach(), count + len(tokens)

    def even(n):
        pattern = torch.tensor([[1 / (q + 1) if k <= q else 0.0 for k in range(n)] for q in range(n)])
        return [(f"{name}.hook_pattern", lambda p, hook: pattern[None, None].clone())]

    edits = {
        "zero": lambda n: [(f"{name}.hook_z", lambda z, hook: z * 0)],
        "mean": lambda n: [(f"{name}.hook_z", lambda z, hook: (total / count).expand(z.shape))],
        "even": even,
    }
    for edit, hooks in edits.items():
        left, after = margins(model, strings, hooks)
        largest = max(1, abs(left) / intact)
        assert_close(row[f"margin_lost_{edit}"], (intact - left) / intact, scale=largest, dtype=torch.float32)
        assert_close(row[f"accuracy_lost_{edit}"], accuracy - after, scale=1)


def test_the_best_relation_is_chosen_on_one_half_and_scored_on_the_other(model, results):
    grammar, layer = model.grammar, 1
    distinct = sorted({tuple(s.tolist()) for s in draws(model)}, key=lambda s: (len(s), *s))
    scores = {name: ([], []) for name, relation in RELATIONS.items() if relation.kind == "mass"}
    for index, string in enumerate(distinct):
        tokens = np.array(string)[None]
        n = tokens.shape[1]
        _, cache = model.run_with_cache(torch.from_numpy(tokens))
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0, 0].detach().double().numpy()
        for name, halves in scores.items():
            keys = RELATIONS[name].keys(tokens, grammar, np.tri(n, dtype=bool)[None])[0]
            rows = []
            for q in range(n):
                c = keys[q].sum() / (q + 1)
                if 0 < c < 1:
                    rows.append((sum(pattern[q, k] for k in range(q + 1) if keys[q, k]) - c) / (1 - c))
            if rows:
                halves[index % 2].append(np.mean(rows))
    best = max(scores, key=lambda name: np.mean(scores[name][0]))
    row = head_row(results, 1, layer)
    assert row["relation"] == best
    assert_close(row["score"], np.mean(scores[best][1]), scale=1, dtype=torch.float32)


def test_a_cut_residual_link_leaves_the_heads_alone(model, results):
    """By hand: attention, norms and MLPs once more, without the skip around attention."""
    right = []
    for tokens in draws(model):
        with torch.no_grad():
            x = model.embed(torch.from_numpy(tokens)[None])
            visible = model.visible_keys(torch.from_numpy(tokens)[None])
            for block in model.blocks:
                x = block.attn(block.ln1(x), visible)
                x = x + block.mlp(block.ln2(x))
            logits = model.unembed(model.ln_final(x))[0].numpy()
        right += [logits[i].argmax() == tokens[i] for i in range(1, len(tokens))]
    _, accuracy = margins(model, draws(model))
    strings = study.Strings(study.in_distribution(GROUPS[0].family.recipe, DRAWN), model.grammar, 50)
    whole, _ = study.costs(model, strings, 1)
    assert_close(whole.without["link"][0], accuracy - np.mean(right), scale=1)
    assert whole.without["link"][0] > 0.3


def test_an_edit_that_moves_nothing_is_no_evidence(model):
    """A head that writes nothing: every edit of it is dead, and no verdict is given."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.blocks[2].attn.W_O.zero_()
        model.blocks[2].attn.b_O.zero_()
    strings = study.Strings(study.in_distribution(GROUPS[0].family.recipe, DRAWN), model.grammar, 50)
    _, cost = study.costs(model, strings, 1)
    assert cost[2].dead == tuple(study.EDITS)
    assert cost[1].dead == ()
    assert useless(Head(1, 2, Fit("current", "", 0.9, 0.0), {}, 0.0, cost[2])) is None


def head(seed, score, accuracy, margin):
    cost = Cost(dict.fromkeys(study.EDITS, accuracy), dict.fromkeys(study.EDITS, margin), (), 1.0)
    return Head(seed, 0, Fit("current", "the current token", score, 0.0), {}, 0.0, cost)


def test_counts_of_made_up_heads():
    heads = [
        head(0, 0.9, 0.0, 0.01),  # looks, useless
        head(0, 0.6, 0.0, 0.20),  # looks, costs margin
        head(1, 0.5, 0.0, 0.049),  # looks, useless
        head(1, 0.1, 0.5, 0.60),  # does not look, used
        head(2, 0.1, 0.0, 0.00),  # does not look, useless
        head(3, 0.8, float("nan"), float("nan")),  # looks, not judged
    ]
    c = crossing(heads)
    found = {k: (round(e.value * e.n), e.n) for k, e in vars(c).items() if hasattr(e, "low")}
    assert found == {
        "interpretable": (4, 6),
        "useless": (2, 3),
        "others_useless": (1, 2),
        "seeds": (3, 4),
        "seeds_any": (2, 2),
        "seeds_all": (1, 2),
    }
    assert c.undecided == 1
    assert by_edit(heads)["zero"]["margin"].value == pytest.approx(3 / 5)
    assert by_edit(heads)["costliest"]["accuracy"].value == pytest.approx(4 / 5)
    assert over_seeds([0, 0, 1], [1.0, 3.0, 4.0], POSITIVE).value == 3.0


def test_results_carry_intervals_and_a_row_a_head(results):
    depths = {"4 layers": 4, "1 layer": 1}
    blocks = [f"{block}{loss}" for block in ("released block", "encoder") for loss in ("", ", loss on closers")]
    others = {f"{name}, {block}": n for name, n in depths.items() for block in blocks}
    again = "4 layers, released block, further seeds"
    assert set(results["groups"]) == {*depths, *others, again}
    assert set(results["groups"][again]["heads"]["seed"]) == {8, 9}  # after those of a quick run
    assert len(results["secondary"]) == 2 * 3 * (4 + 1)  # two comparisons a layer
    for name, layers in (depths | others).items():
        group = results["groups"][name]
        assert len(group["layers"]) == layers
        assert {len(column) for column in group["heads"].values()} == {2 * layers}
        assert group["dead_edits"] == 0
        assert group["crossing"][0]["interpretable"]["n"] == 2 * layers
        for layer in group["layers"]:
            assert layer["score"]["null"]["uniform"] == 0
            assert layer["score"]["n"] == 2
            assert layer["score"]["low"] is None  # of two seeds there is none
            assert "too few for an interval" in layer["score"]["reason"]


@pytest.mark.parametrize(
    "group", [group for group in GROUPS if group.block == "released block"], ids=lambda g: g.family.name
)
def test_the_released_block_is_that_of_the_released_preset(group):
    """All that a model is, but its labels: those of the same depth in the preset of the released code."""
    own = group.family.recipe.config
    assert own == make_recipe("dyck-authors", {"positions": "scalar", "layers": group.layers}).config
    (ours,) = (one for one in GROUPS if one.layers == group.layers and one.block != group.block)
    targets = "closers" if group.closers else "all"
    assert group.family.recipe.settings == replace(ours.family.recipe.settings, targets=targets)
    assert group.paper_terms == ours.paper_terms


@pytest.mark.parametrize("group", ENCODERS, ids=lambda g: g.family.name)
def test_the_encoder_differs_in_what_it_is_called_for(group):
    """BERT's block, both directions, learned positions, strings of one length: else what the first groups have."""
    (ours,) = (one for one in GROUPS if one.layers == group.layers and "GPT" in one.block)
    own, other = group.family.recipe, ours.family.recipe
    encoder = {"block": "bert", "direction": "bidirectional", "positions": "learned", "activation": "gelu_exact"}
    assert own.config == replace(other.config, **encoder)
    targets = "closers" if group.closers else "all"
    assert own.settings == replace(other.settings, data="prefix", targets=targets)
    assert group.paper_terms == ours.paper_terms


def test_further_seeds_are_trained_like_the_first_and_in_no_other_group():
    plan = populations(FULL)
    (more,) = plan["further"]
    (first,) = (one for one in plan["depths"] if one.family.name == "4 layers, released block")
    assert more.family.recipe == first.family.recipe
    assert more.chosen == tuple(range(40, 120))
    assert first.chosen == 40


def test_an_encoders_patterns_are_scored_over_keys_on_both_sides(folder):
    """Of one head by hand: the weight on closing brackets, row by row, against their share of all keys."""
    group = next(g for g in ENCODERS if g.layers == 1 and g.closers)
    model = load_checkpoint(replace(group.family, steps=3).file(folder / "populations", 2))[1]
    tokens = study.in_distribution(group.family.recipe, DRAWN).inputs[1::2]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(tokens))
    pattern = cache["blocks.0.attn.hook_pattern"][:, 0].double().numpy()
    length = int((tokens[0] != model.grammar.pad).sum())  # of every string
    assert (pattern[:, 3, 4:length] > 0).all()  # later keys are seen
    scores = []
    for row, weights in zip(tokens, pattern[:, :length], strict=True):
        closing = np.isin(row, [1, 3])
        share = closing.sum() / length
        scores.append(np.mean((weights[:, closing].sum(1) - share) / (1 - share)))
    fits = study.Looks(study.in_distribution(group.family.recipe, DRAWN).inputs, model.grammar, causal=False)
    assert_close(fits.scores(model)[0]["closers"][1], float(np.mean(scores)), scale=1)


def test_models_of_closers_are_asked_for_closers_alone():
    every, closing = (study.held_out(g.family.recipe) for g in GROUPS if g.block == "released block" and g.layers == 1)
    np.testing.assert_array_equal(every.inputs, closing.inputs)
    asked = every.targets != study.IGNORE
    closers = asked & (every.targets % 2 == 1)
    assert 0 < closers.sum() < asked.sum()
    np.testing.assert_array_equal(closing.targets, np.where(closers, every.targets, study.IGNORE))


def test_every_statement_stands_once_with_a_column_a_block(folder, results):
    page = (folder / "index.html").read_text()
    for words in ("1 layer: copied accuracy", "4 layers: models with a head to closing brackets"):
        rows = re.findall(rf"<tr><th scope=.row.[^>]*>{words}.*?</tr>", page)
        # Of the groups named before, and of encoders: the paper; of each way to train a number and a word.
        assert [len(re.findall("<td", row)) for row in rows] == [1 + 2 * 3, 1 + 2 * 2]
    assert page.count("Primary comparisons, over seeds") == page.count("not named before the run, over seeds") == 1
    for name in ("4 layers", "4 layers, released block"):
        heads = results["groups"][name]["heads"]
        lost = zip(
            *(heads[f"{what}_lost_{edit}"] for what in ("accuracy", "margin") for edit in study.ABLATIONS), strict=True
        )
        idle = {
            seed
            for seed, score, costs in zip(heads["seed"], heads["score"], lost, strict=True)
            if score >= 0.5 and max(costs[:3]) < 0.01 and max(costs[3:]) < 0.05
        }
        assert results["groups"][name]["idle_models"]["value"] == len(idle) / 2


def test_a_statement_holds_by_its_whole_interval():
    for low, high, word in ((0.97, 0.99, "holds"), (0.9, 0.96, "does not hold"), (0.95, 0.97, "undecided")):
        assert _above(Estimate(low, low, high, 8, "seeds"), 0.96) == word
    assert _above(Estimate(0.99, None, None, 2, "seeds", reason="few"), 0.96) == "no interval"


def test_the_secondary_comparisons_are_corrected_together(measured_alike):
    found = others(measured_alike)
    names = [f"4 layers, layer {layer}: {what}" for layer in (0, 1) for what in (ZEROED, LOOKS)]
    assert list(found) == names
    assert [found[name].finding for name in names[::2]] == ["above", "equivalent"]
    assert [found[name].bound for name in names] == [0.05, None] * 2
    adjusted = holm([c.p for c in found.values()])
    assert [c.adjusted for c in found.values()] == pytest.approx(adjusted)
    assert not any(c.primary for c in found.values())
    told = beyond_random(measured_alike)
    assert "in 1 of 2 layers, and less in 0 (corrected by Holm over 4 secondary comparisons, n=8" in told
    assert "in 1 the two are equivalent" in told
    assert told.endswith("In 0 nothing can be said.")


@pytest.fixture
def measured_alike():
    """One group of two layers and eight seeds: zeroing the first costs more than a random change, the second not."""
    rng = np.random.default_rng(0)
    heads = []
    for seed in range(8):
        for layer, more in enumerate((0.3, 0.0)):
            margin = dict.fromkeys(study.EDITS, 0.1) | {"zero": 0.1 + more + 0.01 * rng.normal()}
            cost = Cost(dict.fromkeys(study.EDITS, 0.0), margin, (), 1.0)
            heads.append(Head(seed, layer, Fit("current", "", rng.random(), 0.0), {}, 0.0, cost))
    return [study.Measured(GROUPS[0], Eight(config=SimpleNamespace(n_layers=2)), "", None, [], heads)]


class Eight(SimpleNamespace):
    """As much of a population as is asked for."""

    def __len__(self):
        return 8


def test_running_again_trains_nothing_and_gives_the_same_bytes(folder):
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*.safetensors")}
    pages = {name: (folder / name).read_bytes() for name in ("index.html", "results.json")}
    run(folder, seeds=2, steps=3, workers=1)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*.safetensors")} == before
    assert {name: (folder / name).read_bytes() for name in pages} == pages


def test_models_of_closers_are_scored_on_closers(results):
    for name, group in results["groups"].items():
        if "loss on closers" in name:
            assert group["long_copied"]["value"] is None
            assert "closing brackets alone" in group["long_copied"]["reason"]
        else:
            assert group["long_copied"]["value"] is not None
