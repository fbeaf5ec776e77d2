"""Entry points whose memory grows with a number that users give: refused with an estimate before any work."""

import contextlib
import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from interp import DyckGrammar, Population, TopicGrammar, load_checkpoint, train_population
from interp.cli import main
from interp.errors import InterpError
from interp.foreign.files import read_json
from interp.limits import MEMORY_VARIABLE
from interp.names import first_duplicate
from interp.plots import attention_heatmap
from interp.presets import make_recipe
from interp.training import run
from interp.training.layout import _pack_rows
from interp.vocabulary import Vocabulary, checked_names, find_token
from interp.worlds.brackets.grammar import BracketStrings
from interp.worlds.dyck.batches import CompleteStrings, Prefixes
from interp.worlds.dyck.evaluate import held_out
from interp.worlds.topics.theory import TopicTheory
from probes import (
    LabelledInput,
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_variation,
    audit_claim,
    audit_claims,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    scan_heads,
)
from probes.audit.bench import run_bench
from probes.claims import BUILT_IN
from probes.topics import analyze_two_stages
from probes.variation import MOST_PAIRS, variation_from_patterns

STACK = "L1H0 attends to the last unmatched open bracket"


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")


@pytest.fixture(autouse=True)
def default_bound(monkeypatch):
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)


@pytest.fixture(scope="module")
def population():
    return load_checkpoint("dyck-standard")


@pytest.fixture(scope="module")
def target():
    recipe = make_recipe("dyck-paper", {"depth": 2, "width": 8, "layers": 1, "init_std": 0.35, "max_length": 16})
    return Population.init(recipe.config, [0, 1], recipe.grammar)


def even(*shape):
    """Even weights in an array of any size that takes no memory."""
    return np.broadcast_to(np.float64(1 / shape[-1]), shape)


def deep(population, depth, **more):
    """Models of a deeper grammar, never trained."""
    recipe = make_recipe("dyck-standard", {"depth": depth, **more})
    return Population.init(recipe.config, range(2), recipe.grammar)


def many_texts():
    return map(DyckGrammar.format, [DyckGrammar()] * 9000, DyckGrammar().sample(9000, mode="prefix", length=28, seed=0))


def labelled(texts):
    return [LabelledInput(text, ")", -1) for text in texts]


def replace_settings(recipe, **changes):
    return replace(recipe, settings=replace(recipe.settings, **changes))


# What each call would take is far beyond the bound. Whatever begins to work does not end within the test.
REFUSED = {
    "one long text": lambda p, t: p[0].to_tokens([*["()"] * 4000, "()" * 60_000]),
    "one long text, PAD on the left": lambda p, t: p[0].to_tokens(["()"] * 4000 + ["()" * 60_000], padding_side="left"),
    "one long text, stack": lambda p, t: analyze_stack_likeness(p[0], ["()"] * 4000 + ["()" * 60_000]),
    "one long text, audit": lambda p, t: audit_claim(p[0], STACK, ["()"] * 4000 + ["()" * 60_000]),
    "one long text, labels": lambda p, t: audit_claim(p[0], STACK, labelled([*many_texts(), "()" * 60_000])),
    "one long text, a vocabulary": lambda p, t: Vocabulary.of(["a", "[PAD]"]).to_tokens(["a"] * 9000 + ["a" * 30_000]),
    "one long text, brackets": lambda p, t: BracketStrings(2, 4).to_tokens(["()"] * 9000 + ["()" * 15_000]),
    "an array of ids": lambda p, t: DyckGrammar().to_tokens(np.broadcast_to(np.int64(0), (10**5, 10**4))),
    "a list of models": lambda p, t: Population.from_models([p[0]] * 30_000),
    "claims": lambda p, t: audit_claims(p[0], [STACK] * 100_000),
    "relations": lambda p, t: audit_claims(p[0], [STACK], relations=[BUILT_IN["previous"]] * 100_000),
    "a scan": lambda p, t: scan_heads(p[0], ["previous"] * 100_000),
    "cells": lambda p, t: attention_heatmap(p[0], "()", overlay=[(0, 0)] * 3_000_000),
    "cells as an array": lambda p, t: attention_heatmap(p[0], "()", overlay=np.zeros((10**6, 2), int)),
    "texts to vary": lambda p, t: analyze_variation(p, ["()"] * 300_000),
    "strings": lambda p, t: DyckGrammar().sample(10**9, seed=0),
    "long strings": lambda p, t: DyckGrammar().sample(1, seed=0, mode="prefix", length=10**9),
    "strings of unequal lengths": lambda p, t: DyckGrammar().sample(1, seed=0, mode="prefix", length=(1, 10**9)),
    "complete strings": lambda p, t: DyckGrammar().sample(1, seed=0, max_length=10**9),
    "a law": lambda p, t: DyckGrammar(2, 10**4).length_distribution(2, 10**5),
    "a floor": lambda p, t: DyckGrammar().entropy_floor(mode="prefix", length=10**9),
    "unmatched open brackets": lambda p, t: DyckGrammar().unmatched(np.zeros((100, 10**4), dtype=int)),
    "next tokens": lambda p, t: DyckGrammar(10**4, 2).next_token_probs(np.full((400, 100), 2 * 10**4)),
    "documents": lambda p, t: TopicGrammar().sample(10**9, seed=0),
    "held-out strings": lambda p, t: held_out(DyckGrammar(), 10**9),
    "a population": lambda p, t: Population.init(p.config, range(10**6)),
    "seeds": lambda p, t: train_population("dyck-standard", 100_000),
    "evaluations": lambda p, t: train_population("dyck-minimal", 1, options={"eval_every": 1}, steps=10**9),
    "a table": lambda p, t: train_population("dyck-minimal", 1000, options={"eval_every": 1}, steps=2000),
    "snapshots": lambda p, t: train_population(
        replace_settings(make_recipe("dyck-standard"), snapshots=tuple(range(1000))), 100
    ),
    "a batch": lambda p, t: train_population("dyck-standard", 1, batch=100_000),
    "a batch of prefixes": lambda p, t: train_population(
        "dyck-standard", 1, options={"data": "prefix", "length": 10**4}
    ),
    "a batch through counts": lambda p, t: train_population(
        "dyck-minimal", 1, batch=10**4, options={"compute": "counts", "k": 20, "depth": 10}
    ),
    "many types": lambda p, t: train_population("dyck-standard", 1, options={"k": 10**4}),
    "a batch of documents": lambda p, t: train_population("topic-joint", 1, batch=20_000),
    "long documents": lambda p, t: train_population(
        "topic-value", 1, batch=5000, options={"min_length": 5000, "max_length": 10_000}
    ),
    "processes": lambda p, t: train_population("dyck-minimal", 10_000, workers=10_000),
    "heatmap": lambda p, t: attention_heatmap(p, "()" * 10_000, population="mean"),
    "variation of long inputs": lambda p, t: analyze_variation(p, "()" * 2500),
    "variation of many heads": lambda p, t: variation_from_patterns([even(6000, 1, 1, 2, 2)]),
    "variation of many inputs": lambda p, t: analyze_variation(deep(p, 2), num_inputs=10**9, task_check=False),
    "stack-likeness": lambda p, t: analyze_stack_likeness(p, num_inputs=10**9),
    "stack-likeness of long inputs": lambda p, t: analyze_stack_likeness(p, length=10**5),
    "stack-likeness of given inputs": lambda p, t: analyze_stack_likeness(p, "()" * 5000),
    "balance": lambda p, t: analyze_balance(p, num_inputs=10**9),
    "balance on long strings": lambda p, t: analyze_balance(p, length=10**5),
    "balance of a deep grammar": lambda p, t: analyze_balance(deep(p, 2000), task_check=False),
    "balance of a deeper grammar": lambda p, t: analyze_balance(deep(p, 10**4, k=1), task_check=False),
    "balance that would not end": lambda p, t: analyze_balance(deep(p, 400), num_inputs=200, task_check=False),
    "balance of a function": lambda p, t: analyze_balance(lambda ids: ids, grammar=DyckGrammar(2, 2000)),
    "topic blocks": lambda p, t: analyze_topic_blocks(even(10_000, 10_000)),
    "topic blocks of lists": lambda p, t: analyze_topic_blocks([even(2000, 2000)] * 20),
    "permutations": lambda p, t: analyze_topic_blocks(even(20, 20), permutations=10**9),
    "audit": lambda p, t: audit_claim(p[0], STACK, num_inputs=10**9),
    "audit of long inputs": lambda p, t: audit_claim(p[0], STACK, length=10**4),
    "audit of given inputs": lambda p, t: audit_claim(p[0], STACK, ["()" * 4000, "[]" * 4000]),
    "ticket": lambda p, t: demonstrate_lottery_ticket(t[0], candidates=8, num_inputs=10**9),
    "strings of a ticket": lambda p, t: demonstrate_lottery_ticket(t[0], candidates=8, num_strings=10**9),
    "shared matrix": lambda p, t: demonstrate_shared_matrix(t[0], t[1], candidates=8, num_inputs=10**9),
    "bench": lambda p, t: run_bench(10**9),
    "two stages": lambda p, t: analyze_two_stages(dict.fromkeys(("W_Q", "W_K", "W_V"), even(10**6, 10))),
    "theory": lambda p, t: TopicTheory(100, 1000).value_matrix(),
}


@pytest.fixture
def no_training(monkeypatch):
    """A request that is not refused fails at once, instead of filling this machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * 10**9, hard))

    def never(*args, **kwargs):
        raise AssertionError("training began")

    for name in ("run_folder", "train_in_workers", "_train_here"):
        monkeypatch.setattr(run, name, never)
    monkeypatch.setattr("probes.audit.bench.run.spread", never)
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.slow
def test_what_memory_does_not_hold_is_refused_before_any_work(population, target, no_training):
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, call in REFUSED.items():
        begun = time.monotonic()
        with pytest.raises(InterpError) as caught:
            call(population, target)
        message = str(caught.value)
        assert "\n" not in message, name
        assert time.monotonic() - begun < 20, name
        bounded = "is the bound" in message and MEMORY_VARIABLE in message
        assert bounded or "are the most" in message or "more than" in message or "at most" in message, (name, message)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 4e5  # kilobytes


BY_FLAG = {
    "batch": "train dyck-minimal --seeds 1 --batch 100000 --out {out}.safetensors",
    "length": "train dyck-minimal --seeds 1 --set data=prefix --set length=10000 --batch 1000 --out {out}.safetensors",
    "seeds": "train dyck-standard --seeds 100000 --out {out}.safetensors",
    "steps": "train dyck-standard --steps 1000000000 --out {out}.safetensors",
    "workers": "train dyck-minimal --seeds 1000 --workers 1000 --out {out}.safetensors",
    "k": "train dyck-standard --set k=10000 --out {out}.safetensors",
    "words": "train topic-joint --set words=400 --set topics=20 --out {out}.safetensors",
    "per-family": "audit --bench --per-family 1000000000",
    "text": "heatmap dyck-standard --text {text} --out {out}.html",
    "texts": "analyze variation dyck-standard --text {text}",
}


@pytest.mark.parametrize("flag", BY_FLAG)
def test_flags_are_bounded_alike_and_nothing_is_left(flag, tmp_path, capsys, no_training):
    words = [word.format(out=tmp_path / "out", text="()" * 10_000) for word in BY_FLAG[flag].split()]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_bound_is_raised_by_one_variable(monkeypatch, population):
    monkeypatch.setenv(MEMORY_VARIABLE, "0.0001")
    small = {
        "balance": lambda: analyze_balance(population[0], num_inputs=2, length=4),
        "variation": lambda: analyze_variation(population[:2], "()" * 200),
        "stack": lambda: analyze_stack_likeness(population[0]),
        "topics": lambda: analyze_topic_blocks(np.random.default_rng(0).random((200, 200))),
        "heatmap": lambda: attention_heatmap(population[0], "()" * 100),
        "sample": lambda: DyckGrammar().sample(10**4, seed=0),
    }
    for call in small.values():
        with pytest.raises(InterpError, match=r"and 0\.0001 GB is the bound"):
            call()
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    for call in small.values():
        call()


# ---- what is long is summed up -------------------------------------------------------------------


@pytest.mark.slow
def test_variation_of_a_thousand_seeds_is_written_as_quantiles():
    rng = np.random.default_rng(0)
    given = [rng.dirichlet(np.ones(3), (300, 1, 1, 3)) for _ in range(2)]
    result = variation_from_patterns(given, untrained=given, causal=False)
    written = json.loads(json.dumps(result.to_dict()))
    count = 300 * 299 // 2
    assert count > MOST_PAIRS
    for name in ("pairs", "untrained_pairs"):
        brief = written[name]
        assert brief["of"].startswith(f"{count} pairs of models per layer, more than {MOST_PAIRS}")
        assert [len(layer) for layer in brief["quantiles"]] == [101, 101]
        for layer, pairs in zip(brief["quantiles"], getattr(result, name), strict=True):
            assert layer[0] == pairs.min()
            assert layer[50] == pytest.approx(np.median(pairs))
            assert layer[100] == pairs.max()
    assert len(json.dumps(written)) < 30_000
    figure = result.figure()
    assert [len(trace.y) for trace in figure.data if trace.type == "box"] == [2001, 2001]
    assert f"2001 quantiles of {count} pairs" in figure.layout.title.subtitle.text
    few = variation_from_patterns([given[0][:20]], causal=False)
    assert few.to_dict()["pairs"][0] == few.pairs[0].tolist()


# ---- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("twice", ["first", "last", "none"])
@pytest.mark.slow
def test_names_that_stand_twice_are_found_in_one_pass(tmp_path, twice):
    names = [f"token {i}" for i in range(200_000)]
    if twice != "none":
        names.append(names[0] if twice == "first" else names[-1])
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(dict(zip(names, range(len(names)), strict=True))) if twice == "none" else (
        "{" + ",".join(f'"{name}":{i}' for i, name in enumerate(names)) + "}"
    ))  # fmt: skip
    begun = time.monotonic()
    assert (first_duplicate(names) is None) == (twice == "none")
    for read in (lambda: checked_names(names), lambda: Vocabulary(tuple(names)), lambda: read_json(path, "vocab")):
        with contextlib.nullcontext() if twice == "none" else pytest.raises(InterpError, match="twice"):
            read()
    assert time.monotonic() - begun < 5


def test_a_token_is_found_without_going_through_the_vocabulary_each_time():
    names = tuple(f"token{i}" for i in range(50_000))
    language = Vocabulary(names)
    begun = time.monotonic()
    assert [find_token(language, name) for name in names[::-1]] == list(range(50_000))[::-1]
    assert len(language.to_tokens([names[-1]] * 2000)) == 2000
    assert time.monotonic() - begun < 5


def first_fit(capacity, width):
    """First-fit-decreasing, literally: where each string begins."""
    free, start = [], np.zeros(len(capacity), dtype=np.int64)
    for i in np.argsort(-capacity, kind="stable"):
        row = next((r for r, space in enumerate(free) if space > capacity[i]), None)
        if row is None:
            row = len(free)
            free.append(width)
        start[i] = row * width + width - free[row]
        free[row] -= int(capacity[i]) + 1
    return start


def test_large_batches_are_laid_out_at_once_and_as_before():
    rng = np.random.default_rng(1)
    for _ in range(50):
        capacity = rng.integers(0, rng.integers(1, 40), rng.integers(1, 150))
        width = max(16, int(capacity.max()) + 1)
        np.testing.assert_array_equal(_pack_rows(capacity, width).start, first_fit(capacity, width))
    begun = time.monotonic()
    source = CompleteStrings(DyckGrammar(), 10_000, 2, 26)
    assert source.layout() is source.layout()
    assert Prefixes(DyckGrammar(), 10_000, 28).layout().rows == 10_000
    assert time.monotonic() - begun < 5
