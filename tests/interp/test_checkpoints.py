"""Checkpoint files: everything comes back, the same content gives the same bytes, every damage is named."""

import json
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch

from interp import checkpoints
from interp.checkpoints import load_checkpoint, save_checkpoint, seed_digests
from interp.config import TransformerConfig
from interp.errors import CheckpointError, InterpError, OutputError, RequestError
from interp.files import check_writable, make_folder, replacing, write_text
from interp.grammars import DyckGrammar
from interp.header import (
    METADATA_KEY,
    canonical_json,
    find_checkpoint,
    header_digest,
    list_pretrained,
    read_header,
)
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import make_recipe
from interp.registry import worlds

GRAMMAR = DyckGrammar(2, 3, 0.4)
CONFIG = TransformerConfig(
    GRAMMAR.vocab_size, n_layers=1, d_model=8, d_head=8, d_mlp=8, pad_token=GRAMMAR.pad, num_types=2, max_depth=3
)
SEEDS = (5, 0, 4294967295)


def make_population(grammar=GRAMMAR):
    bare = Population.init(CONFIG, SEEDS, grammar)
    history = tuple({"seed": s, "step": step, "loss": 1 / 3 + s, "mass": None} for step in (0, 4) for s in SEEDS)
    snapshots = {4: {n: p + 1 for n, p in bare.params.items()}, 0: bare.params}
    provenance = {"name": "mine ä", "trained": True, "settings": {"lr": 0.1, "snapshots": [0, 4]}, "diverged": {}}
    return replace(bare, provenance=provenance, history=history, snapshots=snapshots)


@pytest.fixture
def population():
    return make_population()


@pytest.fixture
def file(population, tmp_path):
    return save_checkpoint(population, tmp_path / "some file.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


def refused(path):
    """The message of the `CheckpointError` for a file: one line that names it."""
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(path)
    message = str(error.value)
    assert repr(str(path)) in message
    assert "\n" not in message
    return message


# ---- round trip ------------------------------------------------------------------------------------


def test_a_population_comes_back_whole(population, file):
    loaded = load_checkpoint(file)
    assert isinstance(loaded, Population)
    assert same(loaded.params, population.params)
    assert loaded.config == CONFIG
    assert loaded.grammar == GRAMMAR
    assert loaded.seeds == SEEDS
    assert loaded.provenance == population.provenance
    assert loaded.history == population.history
    assert set(loaded.snapshots) == {0, 4}
    assert all(same(loaded.snapshots[s], population.snapshots[s]) for s in (0, 4))
    assert not any(model.training for model in loaded)


def test_a_model_comes_back_whole(population, tmp_path):
    model = population[1]
    loaded = load_checkpoint(save_checkpoint(model, tmp_path / "one"))
    assert isinstance(loaded, SandboxTransformer)
    assert same(loaded.state_dict(), model.state_dict())
    assert loaded.provenance == model.provenance
    assert (loaded.config, loaded.grammar, loaded.training) == (CONFIG, GRAMMAR, False)
    tokens = model.to_tokens("([])")
    assert torch.equal(loaded(tokens), model(tokens))


def test_a_population_of_one_stays_a_population(population, tmp_path):
    loaded = load_checkpoint(save_checkpoint(population[:1], tmp_path / "x"))
    assert isinstance(loaded, Population)
    assert len(loaded) == 1


def test_a_model_without_a_grammar_can_be_kept(tmp_path):
    loaded = load_checkpoint(save_checkpoint(SandboxTransformer.init(CONFIG, 3), tmp_path / "x"))
    assert loaded.grammar is None
    assert loaded.provenance == {"seed": 3, "trained": False}
    assert read_header(tmp_path / "x")["vocabulary"] is None


def test_views_and_gradients_can_be_saved(population, tmp_path):
    shared = {n: p.transpose(-1, -2).contiguous().transpose(-1, -2) for n, p in population.params.items() if p.ndim > 2}
    odd = replace(population, params={**{n: p.requires_grad_() for n, p in population.params.items()}, **shared})
    assert same(load_checkpoint(save_checkpoint(odd, tmp_path / "x")).params, population.params)


def test_the_same_content_gives_the_same_bytes(population, file, tmp_path):
    for i, content in enumerate([population, make_population(), load_checkpoint(file)]):
        again = save_checkpoint(content, tmp_path / f"again-{i}")
        assert again.read_bytes() == file.read_bytes()
    reordered = replace(population, provenance=dict(reversed(population.provenance.items())))
    assert save_checkpoint(reordered, tmp_path / "again").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("change", ["provenance", "history", "seeds", "params", "snapshots", "grammar"])
def test_other_content_gives_other_bytes(population, file, tmp_path, change):
    other = {
        "provenance": {"provenance": {}},
        "history": {"history": population.history[:-1]},
        "seeds": {"seeds": (5, 1, 4294967295)},
        "params": {"params": {n: p + (n == "unembed.b_U") for n, p in population.params.items()}},
        "snapshots": {"snapshots": {4: population.snapshots[4]}},
        "grammar": {"grammar": DyckGrammar(2, 3, 0.41)},
    }[change]
    again = save_checkpoint(replace(population, **other), tmp_path / "other")
    assert again.read_bytes() != file.read_bytes()


def test_the_file_says_all_about_itself(file):
    with safetensors.safe_open(file, "pt") as opened:
        assert list(opened.metadata()) == [METADATA_KEY]
        meta = json.loads(opened.metadata()[METADATA_KEY])
        assert opened.get_slice("params/embed.W_E").get_shape() == [3, 7, 8]
    assert meta == read_header(file)
    assert meta["vocabulary"] == ["(", ")", "[", "]", "START", "END", "PAD"]
    assert meta["grammar"] == GRAMMAR.to_dict()
    assert meta["config"] == CONFIG.to_dict()
    assert meta["seeds"] == list(SEEDS)
    assert len(meta["digests"]) == 3 == len(set(meta["digests"]))
    assert canonical_json(meta).count("\n") == 0


def test_a_seeds_digest_does_not_depend_on_its_company(population, tmp_path):
    whole = read_header(save_checkpoint(population, tmp_path / "a"))["digests"]
    part = read_header(save_checkpoint(population[::-1], tmp_path / "b"))["digests"]
    assert part == whole[::-1]


# ---- what cannot be saved --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"history": ({"seed": 5, "step": 0, "loss": float("nan")},)},
        {"history": ({"seed": 5, "step": 0, "loss": float("inf")},)},
        {"provenance": {"lr": float("nan")}},
        {"provenance": {"weights": torch.zeros(2)}},
        {"provenance": {"what": object()}},
    ],
    ids=["nan", "inf", "nan-lr", "tensor", "object"],
)
def test_what_json_has_not_is_never_written(population, tmp_path, change):
    with pytest.raises(RequestError, match="provenance or history cannot be written as JSON") as error:
        save_checkpoint(replace(population, **change), tmp_path / "x")
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("thing", [{}, None, torch.nn.Linear(2, 2), "model"], ids=["dict", "none", "module", "str"])
def test_what_is_no_model_is_refused(tmp_path, thing):
    with pytest.raises(RequestError, match="a SandboxTransformer or Population is needed"):
        save_checkpoint(thing, tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "failure",
    [
        OSError(28, "No space left on device"),
        KeyboardInterrupt(),
    ],
    ids=["OSError", "KeyboardInterrupt"],
)
def test_a_write_that_fails_midway_leaves_the_old_file_and_no_other(monkeypatch, population, file, failure):
    before = file.read_bytes()

    def half(path, content):
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
        raise failure

    monkeypatch.setattr(Path, "write_bytes", half)
    expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else OutputError
    with pytest.raises(expected) as error:
        save_checkpoint(population[:1], file)
    if expected is OutputError:
        assert repr(str(file)) in str(error.value)
        assert "No space left" in str(error.value)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("path", ["missing/x.safetensors", "file/x.safetensors", ".", "/proc/x.safetensors", "b" * 300])
def test_an_unwritable_place_is_named(population, tmp_path, path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot write") as error:
        save_checkpoint(population, tmp_path / path)
    assert repr(str(tmp_path / path)) in str(error.value)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["file"]


# ---- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save_checkpoint(make_population(), tmp_path_factory.mktemp("whole") / "x").read_bytes()


def header_of(data):
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def assemble(header, body):
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + body


def edit(data, change, digest=False):
    """The file with `change(meta)` applied, with a fresh header digest if asked for."""
    header, body = header_of(data)
    meta = json.loads(header["__metadata__"][METADATA_KEY])
    change(meta)
    if digest:
        meta["digest"] = header_digest(meta)
    header["__metadata__"][METADATA_KEY] = json.dumps(meta)
    return assemble(header, body)


def test_truncation_anywhere_is_found(data, tmp_path):
    header = 8 + struct.unpack("<Q", data[:8])[0]
    places = {0, 1, 7, 8, 9, header // 2, header - 1, header, header + 1, len(data) // 2, len(data) - 1}
    places |= set(range(0, len(data), len(data) // 40))
    for size in sorted(places):
        path = tmp_path / f"cut at {size}"
        path.write_bytes(data[:size])
        refused(path)
    (tmp_path / "long").write_bytes(data + b"\0")
    assert "truncated or damaged" in refused(tmp_path / "long")


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_found(data, tmp_path):
    path = tmp_path / "flipped"
    header = 8 + struct.unpack("<Q", data[:8])[0]
    places = [*range(8), *range(8, header, 37), *range(header, len(data), 211), len(data) - 1]
    for i, place in enumerate(places):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << i % 8)]) + data[place + 1 :])
        refused(path)


def test_flipped_weights_name_their_seed(data, population, tmp_path):
    header, body = header_of(data)
    begin = header["params/embed.W_E"]["data_offsets"][0]
    stride = 7 * 8 * 4
    for i, seed in enumerate(SEEDS):
        place = begin + i * stride + 5
        damaged = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        (tmp_path / "x").write_bytes(assemble(header, damaged))
        assert f"the weights of seed [{seed}] do not match their SHA-256" in refused(tmp_path / "x")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["config"].update(n_heads=2),
        lambda m: m["config"].update(scale_scores=False),
        lambda m: m["grammar"].update(max_depth=4),
        lambda m: m.update(seeds=[0, 1, 2]),
        lambda m: m["history"][0].update(loss=0.0),
        lambda m: m["provenance"].update(name="better"),
        lambda m: m["digests"].reverse(),
        lambda m: m.update(kind="model"),
        lambda m: m.pop("grammar"),
    ],
    ids=["heads", "scale", "depth", "seeds", "loss", "name", "digests", "kind", "no-grammar"],
)
def test_an_edited_header_is_found(data, tmp_path, change):
    (tmp_path / "x").write_bytes(edit(data, change))
    assert "has been edited or damaged" in refused(tmp_path / "x")
    with pytest.raises(CheckpointError, match="edited"):
        read_header(tmp_path / "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["config"].update(scale_scores=False), "do not match their SHA-256"),
        (lambda m: m["grammar"].update(open_prob=0.5), "do not match their SHA-256"),
        (lambda m: m.update(seeds=[5, 0, 1]), "the weights of seed [1] do not match"),
        (lambda m: m.update(seeds=[5, 0]), "do not match"),
        (lambda m: m.update(seeds=[5, 0, 4294967295, 7]), ""),
        (lambda m: m.update(seeds=3), ""),
        (lambda m: m.update(config=[]), ""),
        (lambda m: m.update(digests=None), ""),
        (lambda m: m.update(snapshots=[0, 4, 8]), ""),
        (lambda m: m.update(snapshots=["x"]), ""),
        (lambda m: m.update(snapshots=[]), "tensors of 'snapshots/0', which its header does not list"),
        (lambda m: m.update(version=2), "has format version 2; this release reads 1"),
        (lambda m: m.pop("seeds"), ""),
        (lambda m: m.pop("history"), ""),
        (lambda m: m.update(history=5), ""),
    ],
)
def test_an_edit_that_mends_the_header_digest_is_still_an_error(data, tmp_path, change, said):
    (tmp_path / "x").write_bytes(edit(data, change, digest=True))
    assert said in refused(tmp_path / "x")


def forged(population, change):
    """A file whose digests all fit but whose config and tensors do not: only a program can have made it."""
    tensors = {f"params/{n}": p for n, p in population.params.items()}
    meta = {
        "version": 1,
        "kind": "population",
        "config": CONFIG.to_dict(),
        "grammar": GRAMMAR.to_dict(),
        "vocabulary": list(GRAMMAR.vocab),
        "seeds": list(SEEDS),
        "provenance": {},
        "history": [],
        "snapshots": [],
    }
    change(meta, tensors)
    meta["digests"] = seed_digests(meta, tensors)
    meta["digest"] = header_digest(meta)
    return tensors, {METADATA_KEY: canonical_json(meta)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda m, t: m["config"].update(d_mlp=9),
            "tensor 'blocks.0.mlp.W_in' has shape [3, 8, 8]; the config needs [3, 8, 9]",
        ),
        (lambda m, t: m["config"].update(n_layers=2), "tensor 'blocks.1."),
        (lambda m, t: t.pop("params/unembed.W_U"), "tensor 'unembed.W_U' is missing"),
        (lambda m, t: t.update({"params/extra": torch.zeros(3)}), "tensor 'extra' does not belong"),
        (lambda m, t: m["config"].update(speed=1), "unknown model setting 'speed'"),
        (lambda m, t: m["config"].update(norm="batch"), "norm='batch' is not one of"),
        (lambda m, t: m["grammar"].update(num_types=3), "does not fit the grammar's vocabulary of 9"),
        (lambda m, t: t.clear(), ""),
    ],
)
def test_tensors_that_contradict_the_config_are_named(population, tmp_path, change, said):
    tensors, metadata = forged(population, lambda m, t: None)
    safetensors.torch.save_file(tensors, tmp_path / "fine", metadata=metadata)
    assert same(load_checkpoint(tmp_path / "fine").params, population.params)
    tensors, metadata = forged(population, change)
    safetensors.torch.save_file(tensors, tmp_path / "x", metadata=metadata)
    assert said in refused(tmp_path / "x")


def test_swapped_tensors_are_found(data, tmp_path):
    header, body = header_of(data)
    header["params/blocks.0.attn.b_Q"], header["params/blocks.0.attn.b_K"] = (
        header["params/blocks.0.attn.b_K"],
        header["params/blocks.0.attn.b_Q"],
    )
    (tmp_path / "same").write_bytes(assemble(header, body))
    load_checkpoint(tmp_path / "same")  # both are zeros: nothing has changed
    header["params/blocks.0.attn.W_Q"], header["params/blocks.0.attn.W_K"] = (
        header["params/blocks.0.attn.W_K"],
        header["params/blocks.0.attn.W_Q"],
    )
    (tmp_path / "x").write_bytes(assemble(header, body))
    assert "do not match their SHA-256" in refused(tmp_path / "x")


FOREIGN = {
    "empty": b"",
    "short": b"abc",
    "text": b"These are my weights, I hope you like them.\n" * 10,
    "json": b'{"config": {}}',
    "zeros": bytes(1000),
    "huge header": struct.pack("<Q", 2**62) + b"{}",
    "no json": struct.pack("<Q", 8) + b"{nonsens",
    "a list": struct.pack("<Q", 8) + b"[1, 2, 3",
    "a number": struct.pack("<Q", 2) + b"17",
    "no tensors": struct.pack("<Q", 2) + b"{}",
    "bad offsets": struct.pack("<Q", 39) + b'{"a": {"data_offsets": ["0", Infinity]}}'[:39],
    "text offsets": assemble({"__metadata__": {METADATA_KEY: "{}"}, "a": {"data_offsets": [0, "x"]}}, b""),
    "endless offsets": assemble({"__metadata__": {METADATA_KEY: "{}"}, "a": {"data_offsets": [0, 1e999]}}, b""),
    "metadata no json": assemble({"__metadata__": {METADATA_KEY: "hello"}}, b""),
    "metadata a list": assemble({"__metadata__": {METADATA_KEY: "[]"}}, b""),
    "metadata a number": assemble({"__metadata__": {METADATA_KEY: 5}}, b""),
    "metadata empty": assemble({"__metadata__": {METADATA_KEY: "{}"}}, b""),
    "deep": struct.pack("<Q", 40_005) + b'{"a":' + b"[" * 40_000,
    "not text": struct.pack("<Q", 4) + b"{\xff\xfe}",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    refused(path)
    with pytest.raises(CheckpointError):
        read_header(path)


def test_safetensors_files_of_others_are_called_foreign(tmp_path):
    safetensors.torch.save_file({"a": torch.zeros(3)}, tmp_path / "x", metadata={"format": "pt"})
    assert "is a foreign safetensors file" in refused(tmp_path / "x")
    safetensors.torch.save_file({"a": torch.zeros(3)}, tmp_path / "y")
    assert "is a foreign safetensors file" in refused(tmp_path / "y")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_nothing_is_ever_unpickled(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pt").write_bytes(pickle.dumps(Bomb()))
    torch.save({"weights": torch.zeros(3), "bomb": Bomb()}, tmp_path / "b.pt")
    for name in ("a.pt", "b.pt"):
        assert "is not a safetensors file" in refused(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


def test_folders_and_missing_files_are_named(tmp_path):
    assert "is a folder" in refused(tmp_path)
    for name in ("missing.safetensors", "long" * 100):
        assert "no file and no bundled checkpoint" in refused(tmp_path / name)
    with pytest.raises(CheckpointError, match="cannot read"):
        read_header(tmp_path)
    with pytest.raises(CheckpointError, match="cannot read"):
        read_header(tmp_path / "missing")


# ---- bundled checkpoints ---------------------------------------------------------------------------


@pytest.fixture
def bundled(monkeypatch, tmp_path):
    """Two checkpoints in place of the ones that ship."""
    folder = tmp_path / "pretrained"
    (folder / "constructed").mkdir(parents=True)
    save_checkpoint(make_population(), folder / "dyck-standard.safetensors")
    save_checkpoint(make_population()[0], folder / "constructed" / "balanced.safetensors")
    monkeypatch.setattr("interp.header.PRETRAINED", folder)
    return folder


CONSTRUCTED = sorted(name for world in worlds() for name in world.constructed)


def test_bundled_checkpoints_load_by_name(bundled):
    assert list_pretrained() == [*CONSTRUCTED, "dyck-standard"]
    assert len(load_checkpoint("dyck-standard")) == 3
    assert isinstance(load_checkpoint("constructed/balanced"), SandboxTransformer)
    assert find_checkpoint("dyck-standard") == bundled / "dyck-standard.safetensors"


def test_a_missing_name_gets_a_suggestion(bundled):
    assert "did you mean 'dyck-standard'?" in refused("dyck-standrad")
    assert "bundled are constructed/balanced, constructed/" in refused("something else")


def test_every_checkpoint_that_ships_loads():
    for name in list_pretrained():
        population = load_checkpoint(name)
        assert isinstance(population, (Population, SandboxTransformer))
        assert population.grammar is not None


def test_headers_are_read_without_torch(file):
    code = (
        "import sys; from interp.header import list_pretrained, read_header\n"
        "meta = read_header(sys.argv[1]); list_pretrained()\n"
        "print(meta['seeds'], 'torch' in sys.modules, 'transformer_lens' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{list(SEEDS)} False False"


# ---- files -----------------------------------------------------------------------------------------


def test_replacing_shows_the_file_only_when_it_is_whole(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("ne")
        assert path.read_text() == "old"
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["x.txt"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, CheckpointError])
def test_replacing_forgets_a_failed_attempt(tmp_path, failure):
    def attempt():
        with replacing(tmp_path / "x") as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        attempt()
    assert os.listdir(tmp_path) == []


def test_a_name_of_any_legal_length_can_be_written(tmp_path):
    write_text(tmp_path / ("a" * 255), "x")
    write_text(tmp_path / ("ä" * 127), "x")
    assert len(os.listdir(tmp_path)) == 2


def test_write_text_and_folders(tmp_path):
    write_text(tmp_path / "x", "ä\n")
    assert (tmp_path / "x").read_bytes() == "ä\n".encode()
    assert make_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert make_folder(tmp_path / "a" / "b").is_dir()
    check_writable(tmp_path / "a" / "b" / "file")
    assert os.listdir(tmp_path / "a" / "b") == []
    for use in (
        lambda: make_folder(tmp_path / "x" / "y"),
        lambda: make_folder(tmp_path / "x"),
        lambda: check_writable(tmp_path / "x" / "y"),
        lambda: check_writable(tmp_path),
        lambda: write_text(tmp_path / "no" / "y", ""),
        lambda: make_folder("/proc/x"),
    ):
        with pytest.raises(OutputError) as error:
            use()
        assert "\n" not in str(error.value)
        assert isinstance(error.value, InterpError)


def test_canonical_json_has_one_spelling():
    assert canonical_json({"b": [1, 2.5], "a": None}) == '{"a":null,"b":[1,2.5]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json([float("nan")])
    assert checkpoints.seed_digests({"config": {}, "grammar": None, "seeds": []}, {}) == []


FORGERIES = {
    "kind": [None, 5, "zoo"],
    "seeds": [[], "ab", [0, 0], [0, -1], [0.5, 1], [True, 2], [[0], [1]]],
    "digests": [None, [], "x", [1, 2]],
    "history": [None, [5], [{"seed": "0", "step": 0}], [{"seed": 0}]],
    "provenance": [None, [], {"diverged": 3}],
    "vocabulary": [None, 5, [1]],
    "snapshots": [None, ["1"], [-1]],
    "config": [None, []],
    "grammar": ["dyck", 5],
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in FORGERIES.items() for v in values])
def test_a_header_rewritten_with_a_fitting_digest_is_refused_in_one_line(tmp_path, key, value):
    recipe = make_recipe("dyck-minimal", {"width": 8})
    path = save_checkpoint(Population.init(recipe.config, (0, 1), recipe.grammar), tmp_path / "x.safetensors")
    meta = read_header(path)
    meta[key] = value
    meta["digest"] = header_digest(meta)
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, metadata={METADATA_KEY: canonical_json(meta)})
    for read in (read_header, load_checkpoint):
        with pytest.raises(CheckpointError, match=key) as error:
            read(path)
        assert "\n" not in str(error.value)


def test_weights_that_are_no_floats_are_refused(tmp_path):
    recipe = make_recipe("dyck-minimal", {"width": 8})
    population = Population.init(recipe.config, (0, 1), recipe.grammar)
    with pytest.raises(CheckpointError, match="int64"):
        replace(population, params={n: p.long() for n, p in population.params.items()})
