"""The trained bench: its truths are told without the audit, each error is counted from both sides, and it runs."""

import ast
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

import interp
from closeness import assert_close
from interp.errors import CheckpointError, RequestError
from interp.model import SandboxTransformer
from interp.training.run import train_population
from probes.audit.bench.digest import auditor
from probes.audit.bench.trained import FAMILIES, make, run_trained_bench, truth
from probes.audit.bench.trained import tasks as t
from probes.audit.bench.trained.cases import (
    ABOUT,
    DEVELOP,
    JUDGE,
    KINDS,
    NO_LABEL,
    Examples,
    Kind,
    Spoken,
    Subject,
    seeds_of_half,
)
from probes.audit.bench.trained.errors import ERRORS, Told, grouped, models_from_json, models_to_json, rate, row, rows
from probes.audit.bench.trained.families import HEAD, SPARE
from probes.audit.bench.trained.history import HISTORY, read_runs, runs_of
from probes.audit.bench.trained.make import own_model, preset_population
from probes.audit.bench.trained.models import Frozen, train
from probes.audit.bench.trained.truth import Moved, Pattern, pattern_of, pattern_truth, use_truth
from probes.claims import BUILT_IN, Claim, offset

ROOT = Path(interp.__file__).parents[1]
PREVIOUS, TWO_BACK = BUILT_IN["previous"], offset(-2)


# -- models -------------------------------------------------------------------------------------------------


def test_a_population_is_trained_once_however_many_ask_at_once(tmp_path, monkeypatch):
    """From an empty folder, as a bench of several processes does; a run into a folder that trains is refused."""
    trained = []

    def slow(preset, seeds, **how):
        trained.append(preset)
        time.sleep(0.2)
        return train_population(preset, seeds, steps=2, **how)

    monkeypatch.setattr(make, "train_population", slow)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: preset_population("dyck-minimal", tmp_path, (3, 5)), range(3)))
    assert trained == ["dyck-minimal"]
    assert [one.seeds for one in found] == [(3, 5)] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["dyck-minimal.safetensors"]


# -- truths come from elsewhere -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module", ["truth", "cases", "models", "tasks", "presets", "families", "make", "fresh", "fresh_tasks"]
)
def test_truths_are_made_and_checked_without_the_audits_decisions(module):
    source = (ROOT / "probes" / "audit" / "bench" / "trained" / f"{module}.py").read_text(encoding="utf-8")
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    audit = {name for name in names if name.startswith("probes.audit")}
    allowed = ("probes.audit.bench.trained", "probes.audit.bench.model", "probes.audit.labels")
    assert all(name.startswith(allowed) for name in audit), audit
    assert not {name for name in names if name.startswith(allowed[0]) and name.endswith((".run", ".errors"))}


# -- patterns, by hand --------------------------------------------------------------------------------------


def weights_on(keys, mass):
    """[input, query, key]: `mass` on the keys, the rest on the query itself; all on itself without a key."""
    size = keys.sum(-1, keepdims=True)
    share = np.where(size > 0, mass, 0.0)
    return share * keys / np.maximum(size, 1) + (1 - share) * np.eye(keys.shape[1])


def previous_keys(count, n):
    return np.broadcast_to(np.eye(n, k=-1, dtype=bool), (count, n, n))


def test_a_pattern_is_measured_beyond_chance():
    keys, rows = previous_keys(60, 5), np.ones((60, 5), dtype=bool)
    found = pattern_of(weights_on(keys, 0.75), keys, rows)
    # Row q sees q + 1 keys, so that chance is 1 / (q + 1) in rows 1 to 4; row 0 has no key.
    chance = np.array([1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert found.rows == 240
    assert_close(found.chance, chance.mean(), scale=1)
    assert_close(found.score, ((0.75 - chance) / (1 - chance)).mean(), scale=1)
    assert found.top1 == 1.0
    assert pattern_truth(found) is True


def test_rows_all_of_whose_keys_are_meant_say_nothing():
    keys, rows = np.broadcast_to(np.tri(4, dtype=bool), (60, 4, 4)), np.ones((60, 4), dtype=bool)
    found = pattern_of(weights_on(keys, 1.0), keys, rows)
    assert found.rows == 0
    assert pattern_truth(found) is None


@pytest.mark.parametrize(
    ("score", "top1", "share", "split", "there"),
    [
        (0.5, 0.8, 1.0, 1.0, True),
        (0.499, 1.0, 1.0, 0.0, None),
        (0.9, 0.799, 0.8, 1.0, None),
        (0.15, 0.5, 0.0, 1.0, False),
        (0.151, 0.5, 0.2, 1.0, None),
        (0.15, 0.501, 0.2, 1.0, None),
        (0.45, 0.5, 0.5, 0.9, False),
        (0.45, 0.5, 0.5, 0.899, None),
        (0.45, 0.5, 0.25, 1.0, False),
        (0.45, 0.5, 0.75, 1.0, False),
        (0.45, 0.5, 0.249, 1.0, None),
        (0.49, 0.7, 0.751, 1.0, None),
    ],
)
def test_each_bound_of_a_pattern(score, top1, share, split, there):
    assert pattern_truth(Pattern(score, top1, 0.1, share, split, truth.LEAST_ROWS)) is there
    assert pattern_truth(Pattern(score, top1, 0.1, share, split, truth.LEAST_ROWS - 1)) is None


@pytest.mark.parametrize(
    ("effect", "loss", "use"),
    [
        (0.25, 0.10, "used"),
        (0.249, 0.5, None),
        (2.0, 0.099, None),
        (0.03, 0.03, "unused"),
        (-0.03, -0.03, "unused"),
        (0.031, 0.0, None),
        (-0.031, 0.0, None),
        (0.0, 0.031, None),
        (np.nan, 0.5, None),
    ],
)
def test_each_bound_of_use(effect, loss, use):
    assert use_truth(Moved(effect, loss, truth.LEAST_ROWS)) == use
    assert use_truth(Moved(effect, loss, truth.LEAST_ROWS - 1)) is None


# -- use, on heads that are known ---------------------------------------------------------------------------


def everywhere(examples):
    return np.ones(examples.tokens.shape, dtype=bool)


def test_a_head_that_brings_the_answer_is_used_and_one_that_says_nothing_is_not(readers_of_the_previous_word):
    recipe, model = readers_of_the_previous_word((1.0, 0.0))
    examples = t.examples_of(recipe, 0)
    assert truth.accuracy(model, examples) == 1.0
    used = truth.moved(model, examples, [HEAD], everywhere(examples), 0)
    assert_close(used.effect, 2.0, scale=2, dtype=torch.float32)
    assert used.loss > 0.9
    assert use_truth(used) == "used"
    idle = truth.moved(model, examples, [SPARE], everywhere(examples), 0)
    assert (idle.effect, idle.loss) == (0.0, 0.0)
    assert use_truth(idle) == "unused"


def test_heads_that_say_the_same_are_redundant_together(readers_of_the_previous_word):
    recipe, model = readers_of_the_previous_word((1.0, 1.0))
    examples = t.examples_of(recipe, 0)
    claim = Claim([HEAD], PREVIOUS)
    spoken = Spoken(claim, "redundant", True, "redundant", together=(HEAD, SPARE))
    _, kept, lost = truth.check_subject(Subject(model, (spoken,), examples, grammar=recipe.grammar, least=0.9), 0)
    assert lost == []
    assert kept[0].use == "redundant"
    assert kept[0].measured["alone"] <= truth.SPARE_LOSES < truth.BOTH_LOSE <= kept[0].measured["both"]
    _, alone = readers_of_the_previous_word((1.0, 0.0))  # here the first one is needed
    assert truth.check_subject(Subject(alone, (spoken,), examples, grammar=recipe.grammar), 0)[2] == ["grey"]


def test_truths_that_the_check_denies_and_models_that_learned_nothing_are_dropped(readers_of_the_previous_word):
    recipe, model = readers_of_the_previous_word((1.0, 0.0))
    examples = t.examples_of(recipe, 0)
    right = Spoken(Claim([HEAD], PREVIOUS), "true", True, "used")
    spoken = (
        right,
        Spoken(Claim([SPARE], PREVIOUS), "decoy", True, "unused"),
        Spoken(Claim([HEAD], TWO_BACK), "true", True, "used"),  # no such pattern
        Spoken(Claim([SPARE], PREVIOUS, uses="labels"), "true", True, "used"),  # no such use
        Spoken(Claim([HEAD], TWO_BACK, uses="labels"), "false", False, "used"),  # use is no part of it
    )
    accuracy, kept, lost = truth.check_subject(Subject(model, spoken, examples, grammar=recipe.grammar, least=0.9), 0)
    assert accuracy == 1.0
    assert [(c.pattern, c.use) for c in kept] == [(True, "used"), (True, "unused"), (False, "not asked")]
    assert lost == ["contradicted", "contradicted"]
    _, silent = readers_of_the_previous_word((0.0, 0.0))
    low, none, lost = truth.check_subject(Subject(silent, (right,), examples, grammar=recipe.grammar, least=0.9), 0)
    assert low < 0.9
    assert (none, lost) == ([], ["unlearned"])


def test_the_check_leaves_the_model_as_it_was(readers_of_the_previous_word):
    recipe, model = readers_of_the_previous_word((1.0, 0.0))
    examples = t.examples_of(recipe, 0)
    before = model(torch.from_numpy(examples.tokens[:4]))
    truth.moved(model, examples, [HEAD, SPARE], everywhere(examples), 0)
    assert torch.equal(model(torch.from_numpy(examples.tokens[:4])), before)
    assert not any(point._forward_hooks for point in model.hook_dict.values())


# -- models -------------------------------------------------------------------------------------------------


def test_frozen_heads_attend_as_they_are_told_whatever_was_learned():
    recipe = t.reader(TWO_BACK, 2, {HEAD: Frozen(PREVIOUS, 0.8)})
    model = train(replace(recipe, steps=3), 0)
    tokens = t.examples_of(recipe, 0).tokens[:8]
    weights = truth.patterns_of(model, tokens)[0][:, 0]
    n = tokens.shape[1]
    expected = 0.8 * np.eye(n, k=-1) + 0.2 * (np.arange(n) == 0)
    expected[0], expected[1] = np.arange(n) == 0, np.arange(n) == 0  # nothing before it; and the rest lies there too
    assert_close(weights, np.broadcast_to(expected, weights.shape), scale=1, dtype=torch.float32)


def test_an_heir_looks_where_its_elder_did_and_values_of_places_know_no_token():
    recipe = t.heir(PREVIOUS, TWO_BACK)
    short = replace(recipe, steps=3, inherits=replace(recipe.inherits, steps=3))
    model, elder = train(short, 1), train(short.inherits, 1)
    tokens = t.examples_of(recipe, 0).tokens[:8]
    mine, its = (truth.patterns_of(one, tokens)[0][:, 0] for one in (model, elder))
    assert_close(mine, its, scale=1, dtype=torch.float32)
    blind = t.whereabouts()
    places = train(replace(blind, steps=3), 0)
    assert not places.blocks[0].attn.W_V[:, : t.VOCABULARY.vocab_size].any()
    assert places.blocks[0].attn.W_V[:, t.VOCABULARY.vocab_size :].any()


def test_a_model_is_kept_and_another_recipe_of_that_name_refused(tmp_path):
    recipe = t.asked_last(3)
    short = replace(recipe, steps=3)
    made, read = own_model(short, "asked-last", 0, tmp_path), own_model(short, "asked-last", 0, tmp_path)
    assert isinstance(read, SandboxTransformer)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), read.parameters(), strict=True))
    with pytest.raises(CheckpointError, match="trained otherwise"):
        own_model(recipe, "asked-last", 0, tmp_path)


def test_labels_are_those_of_the_task():
    made = t.look_up(TWO_BACK)(np.random.default_rng(0), 4)
    for words, labels in zip(made.tokens.tolist(), made.labels.tolist(), strict=True):
        named = [words[at - 2] if at >= 2 else t.START for at in range(len(words))]
        assert labels == [word % t.CLASSES if word < t.WORDS else NO_LABEL for word in named]
    last = t.whereabouts().draw(np.random.default_rng(0), 4)
    for words, labels in zip(last.tokens.tolist(), last.labels.tolist(), strict=True):
        assert words.index(words[-1]) == labels[-1] + 1
        assert set(labels[:-1]) == {NO_LABEL}


# -- counting -----------------------------------------------------------------------------------------------


def told(pattern=True, use="used", said=("holds", "used", "supported"), asks=True, **more):
    base = {"family": "f", "seed": 0, "cluster": "f/0", "claim": "a claim", "kind": "true", "measured": {}}
    return Told(
        **{**base, **more}, pattern=pattern, use=use, asks=asks, said_pattern=said[0], said_use=said[1],
        verdict=said[2],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        (told(), "right"),
        (told(said=("holds", "redundant", "supported")), "right"),
        (told(use="redundant"), "right"),
        (told(said=("fails", "used", "refuted")), "missed pattern"),
        (told(said=("holds", "unused", "misleading")), "missed use"),
        (told(use="redundant", said=("holds", "unused", "misleading")), "missed use"),
        (told(said=("holds", "undecided", "undecided")), "undecided"),
        (told(said=("holds", "not asked", "supported")), "undecided"),
        (told(said=("undecided", "used", "undecided")), "undecided"),
        (told(use="not asked", said=("holds", "undecided", "supported"), asks=False), "right"),
        (told(False, "not asked", ("fails", "used", "refuted")), "right"),
        (told(False, "not asked", ("holds", "used", "supported")), "false support"),
        (told(False, "not asked", ("undecided", "used", "undecided")), "undecided"),
        (told(False, "unused", ("fails", "undecided", "refuted")), "right"),
        (told(False, "unused", ("fails", "used", "refuted")), "false support"),
        (told(True, "unused", ("holds", "unused", "misleading")), "right"),
        (told(True, "unused", ("holds", "unused", "supported"), asks=False), "right"),
        (told(True, "unused", ("holds", "unused", "supported")), "false support"),
        (told(True, "unused", ("holds", "used", "supported")), "false support"),
        (told(True, "unused", ("holds", "redundant", "supported"), asks=False), "false support"),
        (told(True, "unused", ("fails", "unused", "refuted")), "missed pattern"),
        (told(True, "unused", ("holds", "undecided", "undecided")), "undecided"),
    ],
)
def test_each_error_from_both_sides(case, outcome):
    assert case.outcome == outcome
    assert outcome == "right" or outcome in case.counted().at_risk
    assert case.named is (None if not (case.pattern and case.use == "unused") else case.said_pattern == "holds"
                          and case.said_use == "unused")  # fmt: skip


def test_rates_count_claims_and_independent_models():
    wrong = ("fails", "used", "refuted")
    several = grouped([
        told(said=wrong), told(said=wrong), told(),  # two errors in one model
        told(cluster="f/1"), told(cluster="f/2"), told(family="g", cluster="f/2"),
        told(False, "not asked", ("fails", "used", "refuted"), cluster="f/3"),
    ])  # fmt: skip
    missed = rate(several, "missed pattern")
    assert (missed.claims, missed.of, missed.wrong, missed.share.n) == (2, 6, 1, 3)
    # One of three models: 1 - (1 - p)^3 = .025 at the lower end, (1 - p)^3 + 3 p (1 - p)^2 = .025 at the upper one.
    low, high = missed.share.low, missed.share.high
    assert_close(1 - (1 - low) ** 3, 0.025, scale=1)
    assert_close((1 - high) ** 3 + 3 * high * (1 - high) ** 2, 0.025, scale=1)
    assert (rate(several, "false support").claims, rate(several, "false support").of) == (0, 1)
    assert rate([c for c in several if c.cluster == "f/0"], "false support").of == 0
    whole = row(several)
    assert (whole.claims, whole.models, whole.right) == (7, 4, 5)
    assert (whole.faultless.value, whole.faultless.n) == (0.75, 4)  # f/0 alone has an error
    assert [(r.family, r.kind) for r in rows(several, ["true", "tail"])] == [
        (None, "true"), ("f", "true"), ("g", "true"), (None, None)
    ]  # fmt: skip


def test_claims_of_one_model_truth_and_outcome_are_counted_together_and_come_back_from_json():
    idle = told(True, "unused", ("holds", "unused", "misleading"), kind="idle")
    spare = told(said=("holds", "redundant", "supported"))
    counted = grouped([told(), told(), told(said=("fails", "used", "refuted")), idle, spare, told(seed=1), told()])
    assert [c.claims for c in counted] == [3, 1, 1, 1, 1]
    assert [c.named for c in counted] == [None, None, True, None, None]
    assert [c.spare for c in counted] == [False, False, False, True, False]
    data = json.loads(json.dumps(models_to_json(counted)))
    assert [(model["seed"], len(model["outcomes"])) for model in data] == [(0, 4), (1, 1)]
    assert models_from_json(data) == counted
    assert row(counted).spare == 1


# -- the bench ----------------------------------------------------------------------------------------------


def test_there_are_models_and_seeds_enough_and_halves_share_none():
    assert len(FAMILIES) >= 8
    assert len(FAMILIES) * len(seeds_of_half("both")) >= 400
    assert not set(DEVELOP) & set(JUDGE)
    assert [len(seeds_of_half(half)) for half in ("develop", "judge", "both")] == [20, 20, 40]
    assert (
        FAMILIES["grafted"].cluster(3)
        == FAMILIES["recall"].cluster(3)
        == FAMILIES["shuffled"].cluster(3).replace("markov", "recall")
    )


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"families": ["frozen", "no such"]}, "no such"),
        ({"half": "third"}, "third"),
        ({"seeds": [20]}, "20"),
        ({"half": "judge", "seeds": [0]}, "'judge'"),
    ],
)
def test_what_is_not_there_is_refused(how, told, tmp_path):
    with pytest.raises(RequestError, match=told):
        run_trained_bench(tmp_path, **how)


@pytest.mark.slow
def test_the_bench_runs_and_runs_on(tmp_path):
    asked = ["frozen", "whereabouts"]
    result = run_trained_bench(tmp_path, families=asked, seeds=[0])
    assert [d.models for d in result.families] == [1, 1]
    assert {t.family for t in result.told} == set(asked)
    assert result.judge_runs == len(runs_of(read_runs(HISTORY), JUDGE))  # it is no run of the judging half
    assert sum(d.claims - d.grey - d.contradicted for d in result.families) == len(result.told)
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert found["claims"] == len(result.told)
    assert len(found["wrong"]) == sum(t.outcome != "right" for t in result.told)
    short, long = result.table(), result.table(long=True)
    assert len([line for line in short.splitlines() if line.startswith("|")]) <= 2 + 12
    assert found["auditor"] == auditor()
    assert [r.to_dict() for r in rows(models_from_json(found["told"]), KINDS)] == [r.to_dict() for r in result.rows]
    assert all(name in long for name in asked)
    assert max(map(len, result.summary().splitlines())) <= 80
    assert len(result.figure().data) == len(ERRORS)
    again = run_trained_bench(tmp_path, families=asked, seeds=[0])  # models are read, not trained
    assert [t.outcome for t in again.told] == [t.outcome for t in result.told]


def test_a_margin_is_read_only_where_labels_differ(readers_of_the_previous_word):
    tokens = np.array([[12, 0, 1], [12, 4, 2]] * 40)
    labels = np.array([[NO_LABEL, 0, 1], [NO_LABEL, 0, 2]] * 40)
    _, model = readers_of_the_previous_word((1.0, 0.0))
    found = truth.moved(model, Examples(tokens, labels), [HEAD], np.ones(tokens.shape, dtype=bool), 1)
    assert found.items in (0, 80)  # by the donor's distance: strings of one kind, or of both


def test_families_and_bounds_are_those_that_were_fixed():
    page = (ROOT / "docs" / "trained-bench.md").read_text(encoding="utf-8")
    models = page.split("## Models and seeds")[1].split("## Kinds")[0]
    listed = [line.split("|")[1].strip() for line in models.splitlines() if line.startswith("| ")]
    assert listed[1:] == list(FAMILIES)
    assert (truth.TRUE_SCORE, truth.TRUE_TOP1, truth.FALSE_SCORE, truth.FALSE_TOP1) == (0.5, 0.8, 0.15, 0.5)
    assert (truth.SPLIT, truth.SPLIT_ROWS, truth.OUTER) == ((0.25, 0.75), 0.9, (0.2, 0.8))
    assert (truth.USED_MOVES, truth.USED_LOSES, truth.UNUSED_MOVES, truth.UNUSED_LOSES) == (0.25, 0.10, 0.03, 0.03)
    assert (truth.SPARE_LOSES, truth.BOTH_LOSE, truth.LEAST_ROWS) == (0.05, 0.5, 50)
    kinds = page.split("## Kinds")[1].split("## Truth")[0]
    assert [line for line in kinds.splitlines() if line.startswith("| ")][1:] == [
        f"| {k} | {w} |" for k, w in ABOUT.items()
    ]
    assert list(ABOUT) == list(get_args(Kind))
