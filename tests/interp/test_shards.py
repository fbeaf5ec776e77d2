"""Shards of seeds are the population that one run would have trained: to the last byte."""

import json

import numpy as np
import pytest
import torch

from interp import Population, load_checkpoint, save_checkpoint
from interp.cli import main
from interp.errors import RequestError
from interp.sources import source_of
from interp.worlds.dyck import task as objective

QUICK = "--steps 3 --batch 2 --workers 1 --set eval_every=2 --snapshot 2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One run of 5 seeds, its shards, and populations that are no shards of it."""
    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("EVAL_STRINGS", "FINAL_STRINGS"):
            patch.setattr(objective, name, 6)
        patch.setattr(
            objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=20, score_from=16)
        )
        for name, first, count, more in (
            ("whole", 0, 5, ""), ("a", 0, 2, ""), ("b", 2, 1, ""), ("c", 3, 2, ""), ("other", 5, 1, "--set lr=.1"),
            ("deeper", 5, 1, "--set depth=3"), ("longer", 5, 1, "--steps 4"), ("again", 1, 2, ""),
        ):  # fmt: skip
            line = f"train dyck-minimal {QUICK} --seeds {count} --first-seed {first} --out {name}.safetensors {more}"
            assert main(line.split()) == 0
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("order", ["a b c", "c a b", "b c a"])
def test_merged_shards_are_the_file_of_one_run(order, here, tmp_path, capsys):
    files = [f"{name}.safetensors" for name in order.split()]
    assert main(["merge", *files, "--out", str(tmp_path / "m.safetensors")]) == 0
    assert (tmp_path / "m.safetensors").read_bytes() == (here / "whole.safetensors").read_bytes()
    assert capsys.readouterr().out.endswith("5 models, seeds 0-4\n")


def test_concat_keeps_the_order_that_is_given(here, tmp_path):
    c, a = (load_checkpoint(f"{name}.safetensors") for name in "ca")
    both = Population.concat([c, a])
    assert both.seeds == (3, 4, 0, 1)
    assert torch.equal(both.params["unembed.W_U"][2], a.params["unembed.W_U"][0])
    assert [row["seed"] for row in both.history][:4] == [3, 4, 0, 1]
    assert both.snapshots.keys() == {2}
    assert source_of(both)[0].to_dict() == {"file": "c.safetensors", "seeds": [3, 4]}
    save_checkpoint(both, tmp_path / "x.safetensors")
    assert load_checkpoint(tmp_path / "x.safetensors").seeds == both.seeds


def test_cut_and_put_together_again_is_the_same(here, tmp_path):
    whole = load_checkpoint("whole.safetensors")
    save_checkpoint(Population.concat([whole[:1], whole[1:4], whole[4:]]), tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes() == (here / "whole.safetensors").read_bytes()


def test_seeds_that_diverged_are_those_of_the_parts(here):
    a, b = (load_checkpoint(f"{name}.safetensors") for name in "ab")
    a.provenance["diverged"], b.provenance["diverged"] = {"1": 7, "9": 2}, {"2": 5}
    assert list(Population.concat([b, a]).provenance["diverged"].items()) == [("1", 7), ("2", 5)]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("a other", "population 1 has settings {'lr': 0.1}, and population 0 {'lr': 0.01}: only shards of one recipe"),
        ("a deeper", "population 1 has config "),
        ("a longer", "population 1 has steps measured {0, 2, 4}, and population 0 {0, 2, 3}"),
        ("a again", "two of the populations hold seed 1: each seed counts once"),
    ],
)
def test_what_no_run_would_have_trained_is_refused(names, said, here, tmp_path, capsys):
    parts = [load_checkpoint(f"{name}.safetensors") for name in names.split()]
    with pytest.raises(RequestError) as refused:
        Population.concat(parts)
    assert said in str(refused.value)
    files = [f"{name}.safetensors" for name in names.split()]
    assert main(["merge", *files, "--out", str(tmp_path / "m.safetensors")]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("parts", [[], 3, "ab", [1], np.zeros(3), None])
def test_what_is_no_list_of_populations_is_refused(parts):
    with pytest.raises(RequestError, match=r"^parts=.* is not a list of populations"):
        Population.concat(parts)


def test_a_population_is_no_list_of_populations():
    with pytest.raises(RequestError, match="is not a list of populations"):
        Population.concat(load_checkpoint("dyck-minimal"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("merge a.safetensors a.safetensors --out m.safetensors", "'a.safetensors' is given twice"),
        ("merge a.safetensors b.safetensors --out a.safetensors", "is the checkpoint that is read"),
        ("merge a.safetensors constructed/stack --out m.safetensors", "'constructed/stack' holds one model"),
        ("merge a.safetensors --out m.html", "is not a name for a checkpoint"),
        ("merge a.safetensors nowhere --out m.safetensors", "no bundled checkpoint 'nowhere'"),
    ],
)
def test_a_wrong_merge_is_refused_in_a_line(line, said, here, capsys):
    before = sorted(path.name for path in here.iterdir())
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == before


def test_analyze_of_shards_is_that_of_the_whole(here, tmp_path):
    line = "analyze variation {} --no-task-check --json {}"
    for files, name in (("a.safetensors b.safetensors c.safetensors", "shards"), ("whole.safetensors", "whole")):
        assert main(line.format(files, tmp_path / f"{name}.json").split()) == 0
    shards, whole = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("shards", "whole"))
    files = shards["of"]["checkpoint"].pop("files")
    assert files == [
        {"file": "a.safetensors", "seeds": [0, 1]},
        {"file": "b.safetensors", "seeds": [2]},
        {"file": "c.safetensors", "seeds": [3, 4]},
    ]
    assert whole["of"]["checkpoint"].pop("files") == [{"file": "whole.safetensors"}]
    assert shards == whole, "the same models, and the same digest"
    assert main(["replay", str(tmp_path / "shards.json")]) == 0


def test_several_files_of_one_config_and_other_recipes_are_measured_together(here, tmp_path):
    line = f"analyze variation a.safetensors other.safetensors --no-task-check --json {tmp_path / 'r.json'}"
    assert main(line.split()) == 0
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["of"]["checkpoint"]["given"] == "population"
    assert data["num_models"] == 3
    assert main(["replay", str(tmp_path / "r.json")]) == 0
    assert main("analyze variation a.safetensors a.safetensors".split()) == 2
