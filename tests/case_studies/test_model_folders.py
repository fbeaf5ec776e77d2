"""Other people's model folders: their code never runs and is never offered to run; what is broken is one line."""

import ast
import io
import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch

from case_studies.topics_wikipedia.encoder import load_encoder, randomly_initialised
from interp.errors import InterpError, RequestError
from interp.limits import MEMORY_VARIABLE

ROOT = Path(__file__).parents[2]
EVIL = "from pathlib import Path\nPath({marker!r}).touch()\nclass Evil: pass\n"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder of a tiny random BERT with a fast tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "four"]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], names, strict=False))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(names), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng(devices=[]):
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "model")
    return tmp_path / "model"


def change(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def booby_trap(folder, kind):
    """Have the folder's own code ask to be run; the path that it would leave behind."""
    marker = folder / "it-ran"
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    classes = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForMaskedLM"), "evil.Evil")
    if kind == "unknown model":
        change(folder / "config.json", model_type="evil", architectures=["Evil"], auto_map=classes)
    elif kind == "architecture of another model":
        change(folder / "config.json", model_type="gpt2", architectures=["BertForMaskedLM"], auto_map=classes)
    elif kind == "known model":
        change(folder / "config.json", auto_map=classes)
    if kind != "architecture of another model":
        change(
            folder / "tokenizer_config.json",
            auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
            **({"tokenizer_class": "Evil"} if kind != "known model" else {}),
        )
    return marker


@pytest.mark.parametrize("answer", ["y\n" * 20, ""], ids=["yes", "closed"])
@pytest.mark.parametrize("kind", ["unknown model", "architecture of another model"])
def test_a_folders_own_code_is_refused_in_one_line_and_nobody_is_asked(folder, monkeypatch, capfd, kind, answer):
    marker = booby_trap(folder, kind)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    with pytest.raises(RequestError, match="cannot load the") as caught:
        load_encoder(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    assert not marker.exists()
    out, err = capfd.readouterr()
    assert "[y/N]" not in out + err
    assert sys.stdin.read() == answer


@pytest.mark.parametrize("kind", ["known model", "unknown tokenizer"])
def test_a_known_model_that_brings_code_is_read_without_it(folder, monkeypatch, kind):
    marker = booby_trap(folder, kind)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    encoder = load_encoder(folder)
    randomly_initialised(encoder, 0, 1)
    assert encoder.shape == (1, 2)
    assert not marker.exists()


@pytest.mark.slow
def test_every_loader_is_told_not_to_run_code():
    loaders, seen = ("from_pretrained", "boot_transformers", "from_config", "pipeline"), 0
    for package in ("interp", "probes", "case_studies", "tests", "benchmarks", "examples"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in loaders:
                    told = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
                    assert told.get("trust_remote_code", "unsaid") is False, f"{path}:{node.lineno}"
                    seen += 1
    assert seen >= 2


def text_in_the_place_of(name):
    return lambda folder: (folder / name).write_text("no such thing {")


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def pickle_in_the_place_of_weights(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(folder / "it-ran")))


BROKEN = {
    "config": text_in_the_place_of("config.json"),
    "config of another kind": lambda folder: (folder / "config.json").write_text("[1, 2]"),
    "config without a size": lambda folder: change(folder / "config.json", hidden_size=None),
    "config of a wrong size": lambda folder: change(folder / "config.json", hidden_size="many"),
    "tokenizer": text_in_the_place_of("tokenizer.json"),
    "tokenizer of another kind": lambda folder: (folder / "tokenizer.json").write_text("{}"),
    "weights": text_in_the_place_of("model.safetensors"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "pickled weights": pickle_in_the_place_of_weights,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_every_broken_folder_is_refused_in_one_line(folder, kind):
    BROKEN[kind](folder)
    with pytest.raises(InterpError) as caught:
        load_encoder(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    assert not (folder / "it-ran").exists()


def test_weights_beyond_the_memory_bound_are_refused_before_any_is_read(folder, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "0.00001")
    with pytest.raises(RequestError, match="is the bound: name a smaller one"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "no/such/folder"])
def test_a_name_that_no_folder_can_have_is_one_line(name):
    with pytest.raises(RequestError) as caught:
        load_encoder(name)
    assert "\n" not in str(caught.value)
