"""What is consistent and wrong all the same: forged headers, weights that are no numbers, what cannot come back."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import safetensors.torch
import torch

from interp.checkpoints import load_checkpoint, save_checkpoint, seed_digests
from interp.cli import main
from interp.config import TransformerConfig
from interp.errors import CheckpointError, InterpError, RequestError
from interp.grammars import BracketStrings, CopyGrammar, DyckGrammar, TopicGrammar, Vocabulary
from interp.header import METADATA_KEY, canonical_json, header_digest, list_pretrained, read_header
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import PRESETS, make_recipe
from interp.training.loop import Timing, initial_state
from interp.training.state import read_state, write_state

GRAMMAR = DyckGrammar(2, 3)
CONFIG = TransformerConfig(
    GRAMMAR.vocab_size, n_layers=1, d_model=8, d_head=8, d_mlp=8, pad_token=GRAMMAR.pad, num_types=2, max_depth=3
)
SEEDS = (5, 0, 7)


def population(grammar=GRAMMAR, **changes):
    history = tuple({"seed": s, "step": 4, "loss": 0.5, "mass": None} for s in SEEDS)
    bare = Population.init(CONFIG, SEEDS, grammar)
    return replace(bare, **{"provenance": {"name": "mine"}, "history": history, **changes})


def write(path, whole, change=lambda meta, tensors: None):
    """A file whose every digest fits, `change`d before they are taken: only a program can have made it."""
    tensors = {f"params/{n}": p.clone() for n, p in whole.params.items()}
    tensors |= {f"snapshots/{s}/{n}": p.clone() for s, ps in whole.snapshots.items() for n, p in ps.items()}
    meta = {
        "version": 1, "kind": "population", "config": whole.config.to_dict(), "grammar": whole.grammar.to_dict(),
        "vocabulary": list(whole.grammar.vocab), "seeds": list(whole.seeds), "provenance": dict(whole.provenance),
        "history": list(whole.history), "snapshots": sorted(whole.snapshots),
    }  # fmt: skip
    change(meta, tensors)
    meta["digests"] = seed_digests(meta, tensors)
    meta["digest"] = header_digest(meta)
    safetensors.torch.save_file(tensors, path, metadata={METADATA_KEY: canonical_json(meta)})
    return path


# ---- entries that are read later -------------------------------------------------------------------


PROVENANCE = {
    "diverged": [
        {"x": 3}, {"0": "abc"}, {"0": None}, {"-1": 3}, {"0": -1}, {"0": True}, {"²": 1}, {"9" * 5000: 1}, [], 3,
    ],
    "name": [3, None, ["a"], {"a": 1}],
    "about": [3],
    "target": [[1]],
    "trained": ["no", 1, None],
    "settings": [3, "lr", [1]],
    "versions": ["2", [2]],
    "step": ["3", -1, 1.5],
}  # fmt: skip
HISTORY = [
    [{"seed": 5}], [{"seed": "5", "step": 1}], [{"seed": 5, "step": True}], [{"seed": 5, "step": 1, "loss": "low"}],
    [{"seed": 5, "step": 1, "mass": [1]}], [{"seed": 5, "step": 1, "norm/blocks.0.attn.W_V": "big"}], [3], {}, "x",
]  # fmt: skip
FORGED = [
    *(("provenance", {name: value}) for name, values in PROVENANCE.items() for value in values),
    *(("provenance", value) for value in ([], None, "x")),
    *(("history", rows) for rows in HISTORY),
    *(("snapshots", value) for value in ([4, 4], [-1], "x", {})),
    *(("seeds", value) for value in ([5, 5, 7], [5, 0, -7], [5, 0, True], [])),
]


@pytest.mark.parametrize(("entry", "value"), FORGED)
def test_a_forged_entry_is_named_at_reading_and_never_reaches_a_summary(tmp_path, capsys, entry, value):
    path = write(tmp_path / "x.safetensors", population(), lambda meta, tensors: meta.update({entry: value}))
    for read in (read_header, load_checkpoint):
        with pytest.raises(CheckpointError, match=entry) as caught:
            read(path)
        assert "\n" not in str(caught.value)
    assert main(["analyze", "variation", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("entry", "value"), [pair for pair in FORGED if pair[0] in ("provenance", "history") and pair[1] != {}]
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, entry, value):
    given = population(**{entry: value})
    with pytest.raises(RequestError, match=entry):
        save_checkpoint(given, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_what_may_be_told_is_kept(tmp_path):
    told = {
        "name": "mine", "about": "", "target": "other", "trained": False, "settings": None, "versions": {"torch": "2"},
        "diverged": {"5": 0, "123": 7}, "step": 0, "own": [1, {"a": None}], "seed": "none",
    }  # fmt: skip
    rows = ({"seed": 5, "step": 0, "loss": 1, "mass": None, "note": "x", "norm/a": 2.5, "own": [1]},)
    found = load_checkpoint(save_checkpoint(population(provenance=told, history=rows), tmp_path / "x"))
    assert found.provenance == told
    assert found.history == rows
    assert "seed 5 diverged at step 0" in found.summary()
    assert found._repr_html_()


@pytest.mark.parametrize("name", list_pretrained())
def test_every_bundled_checkpoint_comes_back(tmp_path, name):
    given = load_checkpoint(name)
    assert load_checkpoint(save_checkpoint(given, tmp_path / "x")).config == given.config


# ---- names that steer a terminal -------------------------------------------------------------------


STEERING = "\x1b[31mred\x1b[0m\x07\r\n\x9b2J\u202e\u2028"


def test_names_from_a_file_do_not_reach_the_terminal(tmp_path, capsys):
    given = population(provenance={"name": STEERING, "diverged": {"5": 3}})
    path = save_checkpoint(given, tmp_path / f"{STEERING}.safetensors")
    loaded = load_checkpoint(path)
    named = Vocabulary((STEERING, *"abcdef"))
    wordy = replace(population(named), provenance={"name": STEERING})
    shown = [loaded.summary(), repr(loaded), wordy.summary(), repr(named)]
    with pytest.raises(InterpError) as caught:
        load_checkpoint(tmp_path / STEERING)
    shown.append(str(caught.value))
    with pytest.raises(InterpError) as caught:
        Vocabulary((STEERING, STEERING))
    shown.append(str(caught.value))
    figure, table = tmp_path / f"{STEERING}.html", tmp_path / f"{STEERING}.json"
    assert main(["heatmap", str(path), "--text", "()", "--no-task-check", "--out", str(figure)]) == 0
    assert main(["analyze", "variation", str(path), "--no-task-check", "--json", str(table)]) == 0
    assert main(["analyze", "variation", str(tmp_path / STEERING)]) == 2
    assert main(["audit", str(path), "--claim", STEERING]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 2
    for text in (*shown, out, err):
        assert all(line.isprintable() for line in text.split("\n")), text
    json.loads(table.read_text())


# ---- weights ---------------------------------------------------------------------------------------


NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


def spoiled(params, value, name="blocks.0.attn.W_V", seed=1):
    return {**params, name: params[name].clone().index_put((torch.tensor(seed),), torch.tensor(value).to(params[name]))}


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("where", ["params", "snapshots/4"])
def test_weights_that_are_not_finite_are_refused_with_tensor_and_seed(tmp_path, value, where):
    whole = population(snapshots={4: population().params})
    name = "blocks.0.attn.W_V"

    def spoil(meta, tensors):
        tensors[f"{where}/{name}"][1, 0, 0, 0] = value

    said = f"tensor '{'' if where == 'params' else where + '/'}{name}' of seed 0 holds numbers that are not finite"
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(write(tmp_path / "x", whole, spoil))
    params = spoiled(whole.params, value)
    given = replace(whole, params=params) if where == "params" else replace(whole, snapshots={4: params})
    with pytest.raises(RequestError, match=said):
        save_checkpoint(given, tmp_path / "y")
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_every_kind_of_number_is_looked_at(tmp_path, kind):
    whole = population()
    whole = replace(whole, params={n: p.to(kind) for n, p in whole.params.items()})
    load_checkpoint(save_checkpoint(whole, tmp_path / "x"))
    with pytest.raises(RequestError, match="not finite"):
        save_checkpoint(replace(whole, params=spoiled(whole.params, float("nan"))), tmp_path / "y")


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_training_state_of_weights_that_are_not_finite_is_damaged(tmp_path, value):
    state = initial_state(make_recipe("dyck-minimal", steps=3), (0, 1))
    path = tmp_path / "chunk.safetensors"
    write_state(path, state, "plan", Timing(0.0, 0.0))
    assert read_state(path, "plan")[0].seeds == (0, 1)
    state.params = spoiled(state.params, value)
    write_state(path, state, "plan", Timing(0.0, 0.0))
    with pytest.raises(CheckpointError, match=r"of seed 1 holds numbers that are not finite"):
        read_state(path, "plan")


# ---- grammars and configs --------------------------------------------------------------------------


@dataclass(frozen=True)
class Quiet(DyckGrammar):
    """A subclass that tells nobody."""


@dataclass(frozen=True)
class Named(DyckGrammar):
    KIND: ClassVar[str] = "named"


@dataclass(frozen=True)
class Louder(Vocabulary):
    @property
    def vocab(self):
        return tuple(name.upper() for name in self.names)


@dataclass(frozen=True)
class OwnConfig(TransformerConfig):
    pass


FOREIGN = {
    "a subclass": Quiet(2, 3),
    "a kind of its own": Named(2, 3),
    "a subclass of a vocabulary": Louder(tuple("abcdefg")),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_grammar_that_would_not_come_back_is_refused_at_saving(tmp_path, kind):
    for given in (population(FOREIGN[kind]), population(FOREIGN[kind])[0]):
        with pytest.raises(RequestError, match=r"^grammar=") as caught:
            save_checkpoint(given, tmp_path / "x")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "x").exists()


def test_a_config_of_another_class_is_refused_at_saving(tmp_path):
    model = SandboxTransformer.init(OwnConfig(**CONFIG.to_dict()), 0, GRAMMAR)
    with pytest.raises(RequestError, match=r"^config=.*only configs of interp's own classes are saved"):
        save_checkpoint(model, tmp_path / "x")


GRAMMARS = [
    DyckGrammar(2, 3, 0.25, 1.0), CopyGrammar(2, 3), BracketStrings(2, 3, names=tuple("()[]SEP"), append_end=True),
    TopicGrammar(2, 3, "idealised", alpha=1), Vocabulary(("ä", " ", "\n", "\x1b", "[pad]", "\ud800", "c"), 0, None, 4),
]  # fmt: skip


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: type(grammar).__name__)
def test_every_grammar_comes_back(tmp_path, grammar):
    config = replace(CONFIG, max_depth=None, num_types=None)
    given = SandboxTransformer.init(config, 3, grammar)
    found = load_checkpoint(save_checkpoint(given, tmp_path / "x"))
    assert (found.grammar, found.config) == (grammar, config)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_comes_back(tmp_path, preset):
    recipe = make_recipe(preset)
    given = Population.init(recipe.config, (3,), recipe.grammar)
    found = load_checkpoint(save_checkpoint(given, tmp_path / "x"))
    assert (found.grammar, found.config) == (recipe.grammar, recipe.config)
