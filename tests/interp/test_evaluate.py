"""Evaluation of a whole population against one model, one string, one prediction at a time."""

import collections
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.config import TransformerConfig
from interp.errors import GrammarError
from interp.functional import stacked_logits
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import make_recipe
from interp.training.run import train_population
from interp.worlds.dyck import batches as layout_module
from interp.worlds.dyck import evaluate as evaluate_module
from interp.worlds.dyck import grammar as dyck_module
from interp.worlds.dyck.batches import CompleteStrings
from interp.worlds.dyck.evaluate import (
    IGNORE,
    RULES,
    closing_rules,
    evaluate,
    evaluate_positions,
    held_out,
    rule_floors,
)
from interp.worlds.dyck.finite import BOUNDS, ShortStrings
from interp.worlds.dyck.shared import evaluate_shared, share_rows
from interp.worlds.dyck.task import data_source, final_eval_sets, in_distribution

SETS = {
    "complete": (DyckGrammar(2, 4), {"data": "complete"}),
    "three-types": (DyckGrammar(3, 3, 0.4, 0.3), {"data": "complete", "min_length": 5, "max_length": 14}),
    "prefix": (DyckGrammar(2, 3), {"data": "prefix", "length": 19}),
    "late": (DyckGrammar(2, 3), {"data": "prefix", "length": 23, "score_from": 13}),
    "one-type": (DyckGrammar(1, 3), {"data": "complete", "max_length": 12}),
    "flat": (DyckGrammar(2, 1), {"data": "complete", "max_length": 12}),
    "short": (DyckGrammar(4, 2), {"data": "complete", "max_length": 2}),
    "empty-string": (DyckGrammar(2, 2), {"data": "complete", "min_length": 0, "max_length": 4}),
}
COUNT = 40
every_set = pytest.mark.parametrize(("grammar", "options"), SETS.values(), ids=SETS.keys())


def random_models(grammar, count=2, **changes):
    config = TransformerConfig(
        grammar.vocab_size,
        **{"d_model": 16, "d_head": 16, "d_mlp": 16, "pad_token": grammar.pad, "init_std": 0.6, **changes},
    )
    return Population.init(config, range(count), grammar)


def sampled(grammar, options, count=COUNT):
    """The strings `held_out` evaluates, each draw on its own: lists of ids."""
    arguments = {k: v for k, v in options.items() if k not in ("data", "score_from")}
    if options["data"] == "complete":
        arguments = {"min_length": 2, "max_length": 26, **arguments}
    rows = grammar.sample(count, seed=0, mode=options["data"], stream="held-out", **arguments)
    return [[t for t in row if t != grammar.pad] for row in rows.tolist()]


def predictions(grammar, options, string):
    """[(inputs so far, target, distance of a closer target to its opener or 0)] of one string."""
    goals = [*string, grammar.end] if options["data"] == "complete" else string
    stack, found = [], []
    for i, goal in enumerate(goals):
        distance = 0
        if goal < grammar.start:
            if goal % 2 == 0:
                stack.append(i)
            else:
                distance = i - stack.pop()
        if i >= options.get("score_from", 0):
            found.append(([grammar.start, *string[:i]], goal, distance))
    return found


def literal(grammar, options, model):
    """All metrics by definition: one string and one prediction at a time, no deduplication."""
    sums, counts = collections.Counter(), collections.Counter()

    def add(name, value):
        sums[name] += value
        counts[name] += 1

    bounds = {k: v for k, v in options.items() if k in ("min_length", "max_length")}
    for string in sampled(grammar, options):
        with torch.no_grad():
            rows = model(torch.tensor([[grammar.start, *string]]))[0].double()
        for read, goal, distance in predictions(grammar, options, string):
            logits = rows[len(read) - 1]
            nll = -torch.log_softmax(logits, -1)[goal].item()
            law = grammar.next_token_probs(np.array(read), mode=options["data"], **bounds)[-1]
            add("loss", nll)
            add("excess", nll + math.log(law[goal]))
            if distance == 0 or grammar.num_types == 1:
                continue
            closers = logits[1 : grammar.start : 2]
            share = closers.exp()[goal // 2] / closers.exp().sum()
            rules = {
                "argmax": logits.argmax().item() == goal,
                "argmax_closers": 2 * closers.argmax().item() + 1 == goal,
                "mass": share.item() > 0.8,
            }
            for rule, right in rules.items():
                add(rule, right)
                if read[-1] < grammar.start and read[-1] % 2 == 1:
                    add(f"{rule}_nontrivial", right)
            add(f"mass@{distance}", rules["mass"])
    return {name: sums[name] / counts[name] for name in counts}


def by_shared_rows(template, params, data, by_distance=False):
    rows = share_rows(data.inputs, data.lengths, int(data.inputs.max()))
    return evaluate_shared(template, params, data, rows, by_distance)


@every_set
@pytest.mark.parametrize("positions", ["none", "learned"])
@pytest.mark.parametrize("evaluate", [evaluate, by_shared_rows, evaluate_positions])
@pytest.mark.slow
def test_metrics_equal_a_literal_loop(evaluate, grammar, options, positions):
    population = random_models(grammar, positions=positions, n_ctx=40)
    data = held_out(grammar, COUNT, **options)
    got = evaluate(SandboxTransformer(population.config), population.params, data, by_distance=True)
    for i, model in enumerate(population):
        expected = literal(grammar, options, model)
        defined = {name: values[i] for name, values in got.items() if not math.isnan(values[i])}
        assert defined.keys() == expected.keys()
        assert_close([defined[name] for name in expected], list(expected.values()), ulps=16, dtype=torch.float32)
    assert {len(v) for v in got.values()} == {2}
    plain = evaluate(SandboxTransformer(population.config), population.params, data)
    assert set(plain) == {n for n in got if "@" not in n}
    assert all(np.array_equal(plain[n], got[n], equal_nan=True) for n in plain)


def test_one_type_has_no_rules():
    grammar, options = SETS["one-type"]
    population = random_models(grammar)
    data = held_out(grammar, 20, **options)
    assert set(evaluate(SandboxTransformer(population.config), population.params, data)) == {"loss", "excess"}
    assert rule_floors(data) == {}


def test_depth_one_has_no_nontrivial_closers():
    grammar, options = SETS["flat"]
    population = random_models(grammar)
    got = evaluate(SandboxTransformer(population.config), population.params, held_out(grammar, 20, **options))
    for rule in RULES:
        assert np.isfinite(got[rule]).all()
        assert np.isnan(got[f"{rule}_nontrivial"]).all()


@pytest.mark.parametrize("evaluate", [evaluate, by_shared_rows, evaluate_positions])
@pytest.mark.slow
def test_a_seed_is_measured_the_same_alone_and_among_others(evaluate):
    grammar, options = SETS["complete"]
    population = random_models(grammar, 5, n_heads=5, d_head=7, d_model=35)
    template = SandboxTransformer(population.config)
    late = held_out(grammar, 3, data="prefix", length=61, score_from=40)
    for data in (held_out(grammar, 300, **options), held_out(grammar, 1, **options), late):
        together = evaluate(template, population.params, data)
        for i in range(5):
            alone = evaluate(template, population[i : i + 1].params, data)
            assert {n: v[i] for n, v in together.items()} == {n: v[0] for n, v in alone.items()}


def test_memory_bound_changes_nothing(monkeypatch):
    grammar, options = SETS["complete"]
    population = random_models(grammar)
    data = held_out(grammar, 200, **options)
    template = SandboxTransformer(population.config)
    whole = evaluate(template, population.params, data)
    positions = evaluate_positions(template, population.params, data)
    monkeypatch.setattr("interp.training.evaluation._CELLS", 100)
    monkeypatch.setattr("interp.worlds.dyck.shared._ROWS", 2)
    for parts in (
        evaluate(template, population.params, data),
        by_shared_rows(template, population.params, data),
        evaluate_positions(template, population.params, data),
        positions,
    ):
        assert parts.keys() == whole.keys()
        for name in whole:
            assert_close(parts[name], whole[name], ulps=8, scale=whole["loss"], dtype=torch.float32)


@every_set
def test_common_beginnings_lie_once_and_each_position_sees_its_own_string(grammar, options):
    data = held_out(grammar, COUNT, **options)
    lengths = data.lengths
    assert lengths.tolist() == [
        max((i + 1 for i, t in enumerate(row) if t != IGNORE), default=1) for row in data.targets
    ]
    rows = share_rows(data.inputs, lengths, grammar.pad)
    count, width = rows.tokens.shape
    assert count % 2 == 0
    assert width % 16 == 0
    used = set()
    for string, length, cells in zip(data.inputs, lengths, rows.cell, strict=True):
        assert (cells[:length] >= 0).all()
        assert (cells[length:] == -1).all()
        assert len({int(c) // width for c in cells[:length]}) == 1, "a string lies in one row"
        for i, cell in enumerate(cells[:length]):
            assert rows.tokens.flat[cell] == string[i]
            assert rows.position.flat[cell] == i
            seen = np.flatnonzero(rows.visible[cell // width, cell % width])
            np.testing.assert_array_equal(np.sort(seen), np.sort(cells[: i + 1] % width))
        used |= set(cells[:length].tolist())
    prefixes = {tuple(s[: i + 1]) for s, n in zip(data.inputs.tolist(), lengths, strict=True) for i in range(n)}
    assert len(prefixes) <= len(used) <= lengths.sum()
    if count == 2 and width >= len(prefixes) and "length" not in options:
        assert len(used) == len(prefixes), "one row holds every beginning once"


PREFIX = {"data": "prefix", "length": 28}
LONG = {"data": "prefix", "length": 130}
# (preset, options, held-out set, strings, path)
PATHS = {
    "strings that share": ("dyck-standard", {}, {"data": "complete"}, 400, "shared"),
    "learned positions": ("dyck-standard", {"positions": "learned", "n_ctx": 40}, {"data": "complete"}, 400, "shared"),
    "few strings, in one pass": ("dyck-standard", {}, {"data": "complete"}, 20, "shared"),
    "prefixes that share little": ("dyck-standard", {}, PREFIX, 100, "positions"),
    "too long to share": ("dyck-standard", {"k": 1}, {"data": "prefix", "length": 60}, 400, "positions"),
    "one layer": ("dyck-standard", {"layers": 1}, {"data": "complete"}, 4, "counted"),
    "minimal": ("dyck-minimal", {}, PREFIX, 10, "counted"),
    "many states of short prefixes": ("dyck-minimal-sum", {"k": 8, "depth": 7}, PREFIX, 100, "positions"),
    "many states of few strings": ("dyck-minimal-sum", {"k": 8, "depth": 7}, {"data": "complete"}, 20, "counted"),
    # an oracle counts brackets along its row, which is then no other string's
    "more states than pay": ("dyck-minimal-sum", {"k": 12, "depth": 9}, {"data": "complete"}, 400, "positions"),
    "long": ("dyck-minimal-sum", {"k": 12, "depth": 9}, LONG, 4, "positions"),
    "late": ("dyck-minimal-sum", {"k": 12, "depth": 9}, {**LONG, "score_from": 100}, 4, "counted"),
    "many states of one layer": ("dyck-standard", {"k": 200, "layers": 1}, PREFIX, 10, "positions"),
}


@pytest.mark.parametrize(("preset", "options", "law", "count", "path"), PATHS.values(), ids=PATHS.keys())
def test_each_set_takes_its_path(monkeypatch, preset, options, law, count, path):
    recipe = make_recipe(preset, options)
    template, data = SandboxTransformer(recipe.config), held_out(recipe.grammar, count, **law)
    params = Population.init(recipe.config, range(1), recipe.grammar).params
    taken = []
    for name in ("shared", "counted", "positions"):
        monkeypatch.setattr(evaluate_module, f"evaluate_{name}", lambda *_, name=name: taken.append(name))
    evaluate(template, params, data)
    assert taken == [path]
    with template.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", lambda x, hook: x)]):
        evaluate(template, params, data)
    assert taken == [path, "positions"], "an edit may speak of positions"


@pytest.mark.parametrize("hook", ["hook_z", "hook_v", "hook_q"])
def test_an_edit_of_the_last_block_is_told_absolute_positions(hook):
    """Only late positions are scored, and without hooks nothing else is computed there."""
    grammar = DyckGrammar(2, 3)
    population = random_models(grammar)
    template = SandboxTransformer(population.config)
    data = held_out(grammar, 6, data="prefix", length=80, score_from=60)

    def zero(x, hook):
        assert x.shape[-3] == 80
        x = x.clone()
        x[..., 62:, :, :] = 0
        return x

    plain = evaluate(template, population.params, data)
    with template.hooks(fwd_hooks=[("blocks.1.hook_resid_pre", lambda x, hook: x)]):
        same = evaluate(template, population.params, data)
    with template.hooks(fwd_hooks=[(f"blocks.1.attn.{hook}", zero)]):
        edited = evaluate(template, population.params, data)
    assert_close(same["loss"], plain["loss"], ulps=8, dtype=torch.float32)
    assert (np.abs(edited["loss"] - plain["loss"]) > 1e-4).all()


def test_learned_positions_that_just_fit_are_enough():
    """Widths are rounded up for speed; that must not ask for positions the model has not."""
    grammar = DyckGrammar(2, 2)
    options = {"data": "complete", "max_length": 4}
    population = random_models(grammar, positions="learned", n_ctx=5)
    got = evaluate(SandboxTransformer(population.config), population.params, held_out(grammar, COUNT, **options))
    for i, model in enumerate(population):
        expected = literal(grammar, options, model)
        assert_close(got["loss"][i], expected["loss"], ulps=8, dtype=torch.float32)


# ---- the three rules, by hand ----------------------------------------------------------------------


def rules_of(probabilities, target):
    logits = torch.log(torch.tensor(probabilities, dtype=torch.float64))[None]
    return {rule: bool(right[0]) for rule, right in closing_rules(logits, torch.tensor([target]), 2).items()}


#                (    )    [    ]   START END  PAD
RULE_CASES = [
    ([0.05, 0.85, 0.02, 0.02, 0.02, 0.02, 0.02], 1, (True, True, True)),
    ([0.05, 0.85, 0.02, 0.02, 0.02, 0.02, 0.02], 3, (False, False, False)),
    # the opener is likelier, but among closers the right one holds 0.9
    ([0.60, 0.27, 0.05, 0.03, 0.02, 0.02, 0.01], 1, (False, True, True)),
    # the right closer leads, with 0.75 of the closers' mass only
    ([0.02, 0.60, 0.05, 0.20, 0.05, 0.05, 0.03], 1, (True, True, False)),
    ([0.10, 0.20, 0.10, 0.30, 0.10, 0.10, 0.10], 1, (False, False, False)),
    ([0.00, 0.801, 0.00, 0.199, 0.00, 0.00, 0.00], 1, (True, True, True)),
    ([0.00, 0.199, 0.00, 0.801, 0.00, 0.00, 0.00], 3, (True, True, True)),
    ([0.00, 0.799, 0.00, 0.201, 0.00, 0.00, 0.00], 1, (True, True, False)),
    # a tie goes to the lower id, by both argmax rules alike
    ([0.00, 0.50, 0.00, 0.50, 0.00, 0.00, 0.00], 1, (True, True, False)),
    ([0.00, 0.50, 0.00, 0.50, 0.00, 0.00, 0.00], 3, (False, False, False)),
]


@pytest.mark.parametrize(("probabilities", "target", "expected"), RULE_CASES)
def test_closing_rules_by_hand(probabilities, target, expected):
    got = rules_of(probabilities, target)
    assert tuple(got[rule] for rule in RULES) == expected


def test_exactly_four_fifths_of_the_mass_is_not_more_than_that():
    """Logits ln 4 and 0 share the mass 4 : 1; float32's 0.8 is a little above 0.8 and must not count."""
    logits = torch.full((401, 7), -5.0)
    logits[:, 1] = math.log(4) + torch.linspace(-2e-5, 2e-5, 401)
    logits[:, 3] = 0.0
    share = logits[:, [1, 3]].softmax(-1)[:, 0]
    got = closing_rules(logits, torch.ones(401, dtype=torch.long), 2)["mass"]
    assert torch.equal(got, share > torch.tensor(0.8))
    assert (share == torch.tensor(0.8)).any()
    assert not got[share == torch.tensor(0.8)].any()
    assert not got[0]
    assert got[-1]


def test_closing_rules_broadcast_over_seeds():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 5, 9, generator=generator)
    target = torch.randint(0, 9, (4, 5), generator=generator)
    got = closing_rules(logits, target, 3)
    for s in range(3):
        for rule, right in closing_rules(logits[s], target, 3).items():
            assert torch.equal(got[rule][s], right)


# ---- floors ----------------------------------------------------------------------------------------


@every_set
def test_rule_floors_are_what_the_naive_guesser_scores(grammar, options):
    data = held_out(grammar, COUNT, **options)
    right, total, nontrivial = 0.0, 0, 0
    for string in sampled(grammar, options):
        for read, _, distance in predictions(grammar, options, string):
            if distance:
                total += 1
                trivial = read[-1] % 2 == 0
                nontrivial += not trivial
                right += 1 if trivial else 1 / grammar.num_types
    floors = rule_floors(data)
    if grammar.num_types == 1:
        assert floors == {}
        return
    assert floors["argmax"] == pytest.approx(right / total)
    assert floors["argmax_closers"] == pytest.approx(right / total)
    assert floors["mass"] == pytest.approx((total - nontrivial) / total)
    assert floors["argmax_nontrivial"] == floors["argmax_closers_nontrivial"] == 1 / grammar.num_types
    assert floors["mass_nontrivial"] == 0


def test_the_floor_of_the_default_law():
    """About two thirds of closers follow their opener, so that closing what was just opened goes far."""
    floors = rule_floors(held_out(DyckGrammar(2, 4), 20_000))
    assert floors["argmax_closers"] == pytest.approx(0.817, abs=0.01)  # absolute: shares of the closers of
    assert floors["mass"] == pytest.approx(0.634, abs=0.02)  # absolute: 20,000 strings


# ---- held-out data ---------------------------------------------------------------------------------


@every_set
def test_held_out_holds_each_distinct_string_once_with_its_count(grammar, options):
    data = held_out(grammar, COUNT, **options)
    counts = collections.Counter(tuple(s) for s in sampled(grammar, options))
    assert data.weight.sum() == COUNT
    found = {}
    for inputs, weight in zip(data.inputs.tolist(), data.weight, strict=True):
        assert inputs[0] == grammar.start
        string = tuple(t for t in inputs if t < grammar.start)
        assert inputs[1 : 1 + len(string)] == list(string)
        assert set(inputs[1 + len(string) :]) <= {grammar.pad}
        assert string not in found
        found[string] = weight
    assert found == counts


@every_set
def test_targets_distances_and_law_of_held_out_strings(grammar, options):
    data = held_out(grammar, COUNT, **options)
    bounds = {k: v for k, v in options.items() if k in ("min_length", "max_length")}
    for i, inputs in enumerate(data.inputs.tolist()):
        string = [t for t in inputs if t < grammar.start]
        expected = {len(read) - 1: (goal, d) for read, goal, d in predictions(grammar, options, string)}
        for j in range(data.targets.shape[1]):
            goal, distance = expected.get(j, (IGNORE, 0))
            assert data.targets[i, j] == goal
            assert data.distance[i, j] == distance
            assert data.closer[i, j] == (0 <= goal < grammar.start and goal % 2 == 1)
            after_closer = inputs[j] < grammar.start and inputs[j] % 2 == 1
            assert data.nontrivial[i, j] == (data.closer[i, j] and after_closer)
            if goal == IGNORE:
                assert data.law_nll[i, j] == 0
        if not options.get("score_from"):
            row = np.array(string or [grammar.pad])
            assert -data.law_nll[i].sum() == pytest.approx(grammar.log_prob(row, mode=options["data"], **bounds))


@pytest.mark.parametrize("num_types", [1, 2])
def test_rungs_of_brackets_against_the_list_of_all_strings(num_types):
    """Of who knows what is legal, and of who knows how deep it is and where, but not which types are open."""
    grammar = ShortStrings(num_types, 2)
    strings, chances = grammar.enumerate()
    data = held_out(grammar, 300, data="complete", **BOUNDS)
    assert sorted(data.rungs) == ["any legal token", "depth without types"]
    after, shallow = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    depths, goals = grammar.depth(strings), grammar.labels(strings)
    for row, chance, depth, goal in zip(strings.tolist(), chances, depths.tolist(), goals.tolist(), strict=True):
        for at, label in enumerate(goal):
            if label != IGNORE:
                after[tuple(row[: at + 1])][label] += chance
                shallow[at, depth[at]][label] += chance
    asked = 0
    for i, (row, depth) in enumerate(zip(data.inputs.tolist(), grammar.depth(data.inputs).tolist(), strict=True)):
        for at in np.flatnonzero(data.targets[i] != IGNORE):
            label, seen = data.targets[i, at], shallow[at, depth[at]]
            legal = len(after[tuple(row[: at + 1])])
            assert data.rungs["any legal token"][i, at] == pytest.approx(math.log(legal))
            literal = -math.log(seen[label] / sum(seen.values()))
            assert data.rungs["depth without types"][i, at] == pytest.approx(literal)
            asked += 1
    losses = data.rung_losses()
    assert asked > 30
    assert losses["law"] <= losses["depth without types"] + 1e-12  # absolute: rounding of a mean of order 1
    assert all((rung[data.targets == IGNORE] == 0).all() for rung in data.rungs.values())


def test_a_copys_rung_is_any_bracket():
    data = held_out(make_recipe("dyck-copy").grammar, 20)
    assert data.rung_losses() == {"law": 0.0, "any bracket": pytest.approx(math.log(4))}


@pytest.mark.parametrize("pad_token", [6, None])
def test_an_encoder_is_measured_on_whole_strings(pad_token):
    """Strings that begin alike are not read once, as what follows changes what a position gives; PAD is never read."""
    recipe = make_recipe("dyck-copy-encoder", {"layers": 1, "length": 5})
    model = SandboxTransformer.init(replace(recipe.config, init_std=0.4, pad_token=pad_token), 0, recipe.grammar)
    data = held_out(recipe.grammar, 200, data="prefix", length=5)
    params = {name: p.detach()[None] for name, p in model.named_parameters()}
    found = evaluate(model, params, data)
    right, losses, weight = 0.0, 0.0, 0.0
    for row, targets, count in zip(data.inputs, data.targets, data.weight, strict=True):
        asked = targets != IGNORE
        with torch.no_grad():
            logits = model(torch.from_numpy(row[row != recipe.grammar.pad])[None])[0].double()
        for at in np.flatnonzero(asked):
            right += count * float(logits[at].argmax() == targets[at])
            losses -= count * float(logits[at].log_softmax(-1)[targets[at]])
            weight += count
    assert_close(found["copied"], np.array([right / weight]), scale=1)
    assert_close(found["loss"], np.array([losses / weight]), ulps=16, dtype=torch.float32)


@pytest.mark.parametrize("preset", ["dyck-copy", "dyck-copy-encoder", "dyck-standard"])
def test_prefixes_are_measured_at_the_positions_that_training_reads(preset):
    """Of a prefix training reads all but the last bracket, which is a target where the next token is asked for."""
    recipe = make_recipe(preset, {"data": "prefix", "length": 9, "positions": "learned", "n_ctx": 9})
    inputs, _ = data_source(recipe).draw(0, range(1))
    data = in_distribution(recipe, 20)
    starts = int((inputs == recipe.grammar.start).sum())
    assert int((inputs != recipe.grammar.pad).sum()) == starts * 9
    assert (data.lengths == 9).all()


@pytest.mark.parametrize("positions", ["learned", "onehot"])
@pytest.mark.parametrize(("preset", "n_ctx"), [("dyck-standard", 500), ("dyck-copy", 501)])
def test_long_strings_are_measured_where_there_is_a_position_for_each(preset, n_ctx, positions):
    shape = {"embedding": "onehot", "width": 7 + n_ctx} if positions == "onehot" else {}
    for fits in (False, True):
        options = {"positions": positions, "n_ctx": n_ctx - 1 + fits, **shape}
        sets = dict(final_eval_sets(make_recipe(preset, options)))
        assert ("long_" in sets) == fits
    assert sets["long_"].lengths.max() == n_ctx


@pytest.mark.parametrize("preset", ["dyck-minimal", "dyck-copy", "topic-joint"])
def test_rungs_stand_beside_the_loss_in_history_and_summary(preset):
    """On the same strings at each evaluation: the excess over the law is the loss less that of the law."""
    trained = train_population(preset, 2, steps=2, workers=1)
    for row in trained.history:
        rungs = {name: value for name, value in row.items() if name.startswith("rung/")}
        assert len(rungs) >= 1
        assert all(math.isfinite(value) for value in rungs.values())
        if "excess" in row:
            assert row["excess"] == pytest.approx(row["loss"] - row["rung/law"], abs=1e-6)  # absolute: float32
    told = trained.summary().replace("\n    ", " ")
    assert "loss on the same strings of" in told
    assert all(name.removeprefix("rung/") in told for name in rungs if name != "rung/law")


def test_score_from_leaves_out_the_early_targets_only():
    grammar = DyckGrammar(2, 3)
    whole = held_out(grammar, 30, data="prefix", length=20)
    late = held_out(grammar, 30, data="prefix", length=20, score_from=12)
    np.testing.assert_array_equal(whole.inputs, late.inputs)
    assert (late.targets[:, :12] == IGNORE).all()
    np.testing.assert_array_equal(late.targets[:, 12:], whole.targets[:, 12:])
    np.testing.assert_array_equal(late.law_nll[:, 12:], whole.law_nll[:, 12:])
    assert (late.law_nll[:, :12] == 0).all()
    assert (late.targets != IGNORE).sum(1).tolist() == [8] * len(late.inputs)


@pytest.mark.parametrize(
    ("grammar", "options"),
    [
        (DyckGrammar(2, 4), {"data": "complete"}),
        (DyckGrammar(3, 2, 0.3, 0.2), {"data": "complete", "min_length": 4, "max_length": 12}),
        (DyckGrammar(2, 4), {"data": "prefix", "length": 28}),
    ],
    ids=str,
)
@pytest.mark.slow
def test_the_law_on_a_large_sample_is_near_the_entropy_floor(grammar, options):
    data = held_out(grammar, 20_000, **options)
    scored = (data.targets != IGNORE) * data.weight[:, None]
    bounds = {k: v for k, v in options.items() if k != "data"}
    floor = grammar.entropy_floor(mode=options["data"], **bounds)
    assert (data.law_nll * scored).sum() / scored.sum() == pytest.approx(floor, rel=0.01)


def test_held_out_strings_come_from_a_stream_of_their_own(monkeypatch):
    asked = []
    original = dyck_module.generator

    def spy(seed, stream, step=0):
        asked.append(stream)
        return original(seed, stream, step)

    monkeypatch.setattr(dyck_module, "generator", spy)
    monkeypatch.setattr(layout_module, "generator", spy)
    grammar = DyckGrammar(2, 4)
    first = held_out(grammar, 10)
    held_out(grammar, 10, data="prefix")
    assert asked == ["held-out", "held-out"]
    CompleteStrings(grammar, 4, 2, 26).draw(0, range(3))
    assert asked[2:] == ["train"] * 3
    again, other = held_out(grammar, 10), held_out(grammar, 10, seed=1)
    np.testing.assert_array_equal(first.inputs, again.inputs)
    assert first.inputs.shape != other.inputs.shape or (first.inputs != other.inputs).any()


# ---- stacked logits --------------------------------------------------------------------------------


def test_stacked_logits_are_each_models_own():
    grammar = DyckGrammar(2, 3)
    population = random_models(grammar, 3)
    template = SandboxTransformer(population.config)
    shared = torch.from_numpy(grammar.to_tokens(["([])", "()[]"]))
    own = torch.stack([shared, shared.flip(0), torch.from_numpy(grammar.to_tokens(["[[]]", "[()]"]))])
    with torch.no_grad():
        for i, model in enumerate(population):
            assert_close(stacked_logits(template, population.params, shared)[i], model(shared))
            assert_close(stacked_logits(template, population.params, own, own_tokens=True)[i], model(own[i]))


def test_copying_scores_every_bracket_against_itself():
    """A model whose logits are the one-hot of its input copies perfectly; one that is off by a token never."""
    recipe = make_recipe("dyck-copy", {"layers": 1})
    data = held_out(recipe.grammar, 30)
    brackets = data.inputs < 2 * recipe.grammar.num_types
    np.testing.assert_array_equal(data.targets[brackets], data.inputs[brackets])
    assert (data.targets[~brackets] == IGNORE).all()
    model = SandboxTransformer(recipe.config, recipe.grammar)  # all weights zero but norms
    with torch.no_grad():
        model.embed.W_E[:, : model.config.d_vocab] = 9 * torch.eye(model.config.d_vocab)
        model.unembed.W_U[: model.config.d_vocab] = torch.eye(model.config.d_vocab)
    params = {n: p[None] for n, p in model.named_parameters()}
    assert evaluate(model, params, data)["copied"] == 1
    params["unembed.W_U"] = params["unembed.W_U"].roll(1, -1)
    assert evaluate(model, params, data)["copied"] == 0
    assert rule_floors(data) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"length": 20}, "length=20 changes nothing with mode='complete'"),
        ({"data": "prefix", "min_length": 4}, "min_length=4 changes nothing with mode='prefix'"),
        ({"data": "prefix", "max_length": 4}, "max_length=4 changes nothing with mode='prefix'"),
        ({"data": "junk"}, "mode='junk' is unknown"),
    ],
    ids=str,
)
def test_held_out_strings_have_no_option_that_changes_nothing(options, said):
    with pytest.raises(GrammarError, match=re.escape(said)):
        held_out(DyckGrammar(), 3, **options)
