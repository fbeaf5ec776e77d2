"""Bounds: what a request would need is estimated before any work, and files are read up to a size."""

import os
import socket
import sys
import tracemalloc
import types
from typing import ClassVar

import numpy as np
import pytest

from interp import DyckGrammar
from interp.errors import CheckpointError, RequestError
from interp.limits import MEMORY_VARIABLE, check_memory, in_gb, memory_bound, read_whole
from interp.plots import attention_heatmap
from interp.plots.panels import over_seeds
from interp.plots.sources import source_of

GRAMMAR = DyckGrammar()


@pytest.fixture(autouse=True)
def default_bound(monkeypatch):
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)


# ---- the mechanism -------------------------------------------------------------------------------


def test_what_needs_too_much_is_refused_with_estimate_bound_and_cure(monkeypatch):
    check_memory("a picture", 1.9e9, "draw less")
    with pytest.raises(
        RequestError, match=r"^a picture would take about 3\.4 GB of memory, and 2 GB is the bound: draw "
    ):
        check_memory("a picture", 3.4e9, "draw less")
    monkeypatch.setenv(MEMORY_VARIABLE, "4")
    check_memory("a picture", 3.4e9, "draw less")
    assert memory_bound() == 4e9
    with pytest.raises(CheckpointError, match="more than a billion GB"):
        check_memory("a picture", 10**5000, "draw less", CheckpointError)


@pytest.mark.parametrize("told", ["", "much", "0", "-1", "nan", "4G"])
def test_a_bound_that_is_no_number_is_refused(monkeypatch, told):
    monkeypatch.setenv(MEMORY_VARIABLE, told)
    with pytest.raises(RequestError, match="is not a number of gigabytes above 0"):
        check_memory("a picture", 1, "draw less")


def test_sizes_are_told_in_gigabytes():
    assert [in_gb(x) for x in (1.26e9, 12.6e9, 1.26e12, 5e6)] == ["1.3 GB", "13 GB", "1,260 GB", "0.005 GB"]


def irregular(kind, folder):
    """A path that is there and is not a regular file."""
    path = folder / "it.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "endless device":
        return "/dev/zero"
    elif kind == "loop of links":
        path.symlink_to(path)
    elif kind == "null character":
        return "it\0.json"
    elif kind == "long name":
        return "x" * 5000
    elif kind == "bytes that are no text":
        return os.fsdecode(b"\xff\xfe.json")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(10**10)  # sparse: nothing is on the disk
    return path


IRREGULAR = (
    "pipe", "folder", "socket", "link to a device", "endless device", "loop of links", "null character", "long name",
    "bytes that are no text", "huge", "missing",
)  # fmt: skip


@pytest.mark.parametrize("kind", IRREGULAR)
def test_only_regular_files_of_a_bounded_size_are_read(tmp_path, kind):
    with pytest.raises(CheckpointError, match="the table") as found:
        read_whole(irregular(kind, tmp_path), "table", error=CheckpointError)
    assert "\n" not in str(found.value)


def test_a_regular_file_and_a_link_to_one_are_read_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 1000)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_whole(tmp_path / "a", "table") == read_whole(tmp_path / "b", "table") == b"x" * 1000


# ---- pictures ------------------------------------------------------------------------------------


class StubModel:
    """Reads brackets and has one head a layer, whose pattern `stub` draws."""

    grammar = GRAMMAR
    cfg = types.SimpleNamespace(device="cpu", d_vocab=7, n_layers=2, n_heads=1)
    hook_dict: ClassVar = {}
    provenance: ClassVar = {"settings": {}}  # as if trained here: it could not be asked

    def __init__(self, seed):
        self.seed = seed

    def to_tokens(self, text):
        import torch

        return torch.from_numpy(GRAMMAR.to_tokens(text))


@pytest.fixture
def stubs(monkeypatch):
    """Makes populations of stub models; the list counts how often a model ran."""
    runs: list[int] = []

    def patterns(model, tokens, layers):
        runs.append(model.seed)
        n = tokens.shape[1]
        p = np.tri(n)[None, None]
        p *= np.random.default_rng(model.seed).random(n)
        p /= p.sum(-1, keepdims=True)
        return [p for _ in layers]

    fake = types.ModuleType("interp.patterns")
    fake.attention_patterns = patterns
    monkeypatch.setitem(sys.modules, "interp.patterns", fake)
    return (lambda count: [StubModel(seed) for seed in range(count)]), runs


@pytest.mark.parametrize("show", ["grid", "mean", "sd"])
@pytest.mark.slow
def test_the_memory_of_a_long_picture_does_not_grow_with_the_seeds(monkeypatch, stubs, show):
    monkeypatch.setattr("interp.plots.heatmap.DRAWN_AT_MOST", 50)

    def peak(seeds, text):
        tracemalloc.start()
        fig = attention_heatmap(stubs[0](seeds), text, population=show)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(fig.data) == (seeds if show == "grid" else 1)
        return found

    peak(2, "()" * 20)  # plotly is loaded
    assert peak(8, "()" * 400) < 1.2 * peak(2, "()" * 400)


def test_a_picture_too_large_is_refused_before_a_model_runs(monkeypatch, stubs):
    population, runs = stubs
    with pytest.raises(RequestError, match=r"a heatmap of 8 seed\(s\), 1 layer\(s\), 1 head\(s\) and 12001 tokens"):
        attention_heatmap(population(8), "()" * 6000, population="mean")
    with pytest.raises(RequestError, match="is the bound"):
        attention_heatmap(population(100), "()" * 1000, population="grid", null="sharpness", max_panels=200)
    assert not runs
    monkeypatch.setenv(MEMORY_VARIABLE, "0.0001")
    with pytest.raises(RequestError, match="is the bound"):
        attention_heatmap(population(2), "()" * 50)
    monkeypatch.setenv(MEMORY_VARIABLE, "0.01")
    attention_heatmap(population(2), "()" * 50)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_means_and_deviations_over_seeds_are_numpys_to_the_bit(count):
    layers = [np.random.default_rng(i).random((count, 3, 9, 9)).astype(kind) for i, kind in enumerate("df")]
    layers = [layer.astype(np.float64) for layer in layers]
    source = source_of(layers, ("a",) * 9, None, None)
    for given, mean, spread in zip(
        layers, over_seeds(source, [0, 1]), over_seeds(source, [0, 1], spread=True), strict=True
    ):
        np.testing.assert_array_equal(mean, given.mean(0))
        np.testing.assert_array_equal(spread, given.std(0, ddof=1))
    np.testing.assert_array_equal(over_seeds(source, [1], [2, 0])[0], layers[1][:, [2, 0]].mean(0))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_reduced_picture_of_both_directions_is_drawn_as_bidirectional(monkeypatch, order):
    monkeypatch.setattr("interp.plots.heatmap.DRAWN_AT_MOST", 4)
    causal, both = np.tril(np.ones((8, 8))), np.ones((8, 8))
    given = [(x / x.sum(-1, keepdims=True))[None] for x in (causal, both)]
    fig = attention_heatmap([given[i] for i in order])
    shown = [np.asarray(trace.z, dtype=float) for trace in fig.data]
    for i, weights in zip(order, shown, strict=True):
        np.testing.assert_allclose(weights, given[i][0].reshape(4, 2, 4, 2).mean((1, 3)), rtol=1e-12)
