"""What strangers bring to `load_foreign`: settings in several places, and one line for everything that is wrong."""

import json
import shutil
from inspect import signature
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import probes
from gpts import NanoGPT, nano_state, spread
from interp import DyckGrammar, load_checkpoint, load_foreign
from interp.cli import main
from interp.errors import AnalysisError, ConfigError, InterpError, RequestError
from interp.foreign.files import _BESIDE
from interp.foreign.gpt import MEANS
from interp.guests import is_bridge, language_of
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap
from plain_decoder import small_decoder

NANO = spread(NanoGPT())
ARGS = NanoGPT().args
BRACKETS = ["(", ")", "[", "]", "<s>", "</s>", "<pad>"]
QUIET = {"verbose": False, "task_check": False}


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(kind, *parts, run):
    with pytest.raises(kind) as caught:
        run()
    said = str(caught.value)
    for part in (*parts,):
        assert part in said, said
    for leak in ("Spoken", "Adapted", "PosixPath", "\n"):
        assert leak not in said, said
    return said


# -- settings in several places -----------------------------------------------------------------------------


@pytest.mark.parametrize("beside", _BESIDE)
@pytest.mark.parametrize("more", [{"act_fn": "relu"}, {"max_depth": 3}, {"pad_token": 6}, {"attention_dir": "causal"}])
def test_a_config_adds_to_what_the_file_says(beside, more):
    torch.save({"model": NANO.state_dict(), beside: ARGS}, "ckpt.pt")
    model = load_foreign("ckpt.pt", more, vocab=BRACKETS, **QUIET)
    assert model.config.n_heads == ARGS["n_head"]
    assert model.grammar.max_depth == more.get("max_depth", 4)
    assert model.config.activation == {"relu": "relu"}.get(more.get("act_fn"), "gelu_exact")


@pytest.mark.parametrize("there", ["file", "folder", "beside"])
def test_so_it_does_to_a_config_that_lies_beside_the_file(there):
    Path("out").mkdir()
    torch.save(NANO.state_dict() if there != "file" else {"model": NANO.state_dict(), "config": ARGS}, "out/ckpt.pt")
    if there != "file":
        Path("out/config.json").write_text(json.dumps({"n_head": 2, "act_fn": "relu"}))
    Path("depth.json").write_text('{"max_depth": 3}')
    Path("vocab.json").write_text(json.dumps(BRACKETS))
    source = "out" if there == "folder" else "out/ckpt.pt"
    model = load_foreign(source, "depth.json", "vocab.json", **QUIET)
    assert (model.config.n_heads, model.grammar.max_depth) == (2, 3)
    how = ["--model-config", "depth.json", "--vocab", "vocab.json", "--no-task-check"]
    assert main(["heatmap", source, *how, "--text", "([])", "--out", "map.html"]) == 0
    assert main(["heatmap", source, *how, "--text", "(((())))", "--out", "deep.html"]) == 2  # deeper than 3


@pytest.mark.parametrize("name", [name for name, meant in MEANS.items() if meant in ("n_heads", "n_layers", "n_ctx")])
def test_a_config_that_contradicts_the_file_is_refused_and_quotes_both(name):
    torch.save({"model": NANO.state_dict(), "model_args": ARGS}, "ckpt.pt")
    own = {"n_heads": "n_head", "n_layers": "n_layer", "n_ctx": "block_size"}[MEANS[name]]
    refused(ConfigError, f"{name}=999", f"{own}={ARGS[own]}", run=lambda: load_foreign("ckpt.pt", {name: 999}))


def test_what_a_training_script_writes_besides_is_no_matter_to_a_config_that_says_the_heads():
    torch.save({"model": NANO.state_dict(), "args": {"my_schedule": "cosine", "n_head": 2}}, "ckpt.pt")
    refused(ConfigError, "'my_schedule'", run=lambda: load_foreign("ckpt.pt", {"act_fn": "gelu"}))
    assert load_foreign("ckpt.pt", {"n_head": 2}, **QUIET).config.n_heads == 2


def test_a_config_json_of_another_model_is_left_alone_and_said(capsys):
    torch.save(NANO.state_dict(), "a.pt")
    Path("config.json").write_text('{"n_head": 3}')
    assert load_foreign("a.pt", {"n_head": 2}).config.n_heads == 2
    assert "'config.json' says n_head=3, and is not read" in capsys.readouterr().out


def test_depth_is_named_among_the_causes_and_may_be_given_to_any_model():
    state = nano_state(load_checkpoint("dyck-standard")[0], list(range(7)))
    wrong = {0: "(", 3: ")", 2: "[", 1: "]", 4: "START", 5: "END", 6: "PAD"}
    how = {"n_head": 1, "act_fn": "gelu_new"}
    refused(AnalysisError, "on less deep ones: max_depth=4", "max_depth=N", run=lambda: load_foreign(state, how, wrong))
    folder(word_level(BRACKETS))
    assert load_foreign("hf", {"max_depth": 3}, **QUIET).grammar == DyckGrammar(2, 3)
    refused(RequestError, "'n_head'", "pad_token and max_depth", run=lambda: load_foreign("hf", {"n_head": 3}))


# -- logits alone -------------------------------------------------------------------------------------------


def alone():
    return load_foreign(lambda tokens: NANO(tokens), {"n_ctx": 24}, BRACKETS, **QUIET)


CLAIM = "L0H0 attends to the last unmatched open bracket"
ASKED = {
    "attention_heatmap": lambda m: attention_heatmap(m, "()", task_check=False),
    "attention_patterns": lambda m: attention_patterns(m, torch.zeros(1, 4, dtype=torch.long)),
    "audit_claim": lambda m: probes.audit_claim(m, CLAIM),
    "audit_claims": lambda m: probes.audit_claims(m, [CLAIM]),
    "scan_heads": lambda m: probes.scan_heads(m, ["previous"]),
    "scan_for": lambda m: probes.scan_for(m, "previous"),
    "analyze_variation": lambda m: probes.analyze_variation([m, alone()]),
    **{
        name: getattr(probes, name)
        for name in ("analyze_balance", "analyze_stack_likeness", "analyze_topic_blocks", "analyze_two_stages")
        if hasattr(probes, name)
    },
}


@pytest.mark.parametrize("name", [name for name in ASKED if not name.startswith("scan_for") or hasattr(probes, name)])
def test_a_model_of_logits_alone_is_told_what_to_return(name):
    refused(AnalysisError, "logits alone", "return (logits, [patterns", run=lambda: ASKED[name](alone()))


def test_every_analyzer_of_attention_is_asked():
    takes_models = {
        name
        for name in probes.__all__
        if name.startswith(("analyze_", "audit_claim", "scan_")) and callable(getattr(probes, name))
        if next(iter(signature(getattr(probes, name)).parameters)) in ("model", "models", "population")
    }
    trained_inside = {"analyze_drift", "analyze_glitches"}  # of runs that trained here
    assert takes_models - trained_inside <= set(ASKED)


# -- vocabularies of tokenizers -----------------------------------------------------------------------------


def word_level(names, unknown=None, **special):
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=unknown or names[-1]))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", **special}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token=unknown, **special)


def folder(tokenizer, name="hf", **more):
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 16, **more}
    with torch.random.fork_rng(devices=[]):
        config = transformers.GPT2Config(vocab_size=len(tokenizer), bos_token_id=4, eos_token_id=5, **shape)
        transformers.GPT2LMHeadModel(config).save_pretrained(name)
    tokenizer.save_pretrained(name)
    return name


def loaded(kind, tokenizer):
    """A folder of either kind with this tokenizer: our own model, or a bridge."""
    if kind == "gpt2":
        return load_foreign(folder(tokenizer), **QUIET)
    small_decoder("llama", vocab=7).save_pretrained("llama")
    tokenizer.save_pretrained("llama")
    return load_foreign("llama", **QUIET)


SPARE = [
    (["<unk>"], {}),
    (["[UNK]", "[MASK]"], {"mask_token": "[MASK]"}),
    (["[CLS]", "[SEP]"], {"cls_token": "[CLS]", "sep_token": "[SEP]"}),
    (["<extra_0>"], {"additional_special_tokens": ["<extra_0>"]}),
]


@pytest.mark.parametrize(("names", "special"), SPARE, ids=str)
def test_special_tokens_that_no_world_has_do_not_keep_the_rest_from_being_found(names, special, capsys):
    unknown = next((name for name in names if "unk" in name.lower()), None)
    made = word_level([*BRACKETS, *names], unknown, **special)
    loaded = load_foreign(folder(made), task_check=False)
    assert loaded.grammar == DyckGrammar(2, 4)
    told = capsys.readouterr().out
    assert "id 7 is left out" in told or "ids 7, 8 are left out" in told
    assert loaded.to_tokens("()").tolist() == [[4, 0, 1]]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["(", ")", "[", "x", *BRACKETS[4:]], "] is missing beside ["),
        (["(", ")", "[", "]", "x", "y", "<pad>"], "START is missing"),
        (["(", ")", "x", "y", *BRACKETS[4:]], "'x' and 1 more are no tokens of brackets"),
        (["(", ")", "[CLS]", "x", *BRACKETS[4:]], "'[CLS]' and '<s>' both mean START"),
    ],
)
def test_a_vocabulary_that_is_nearly_one_of_brackets_is_told_why_not_and_the_cure(names, said, capsys):
    load_foreign(NANO.state_dict(), ARGS, names, task_check=False)
    out = capsys.readouterr().out
    assert said in out
    assert "vocab={id: token, ...}" in out


@pytest.mark.parametrize(
    ("changes", "said"),
    [({4: "STRAT"}, "'STRAT' (did you mean START?)"), ({4: None}, "START is missing"),
     ({3: None}, "] is missing beside ["), ({0: None}, "( is missing beside )")],
)  # fmt: skip
def test_a_token_that_is_missing_or_misspelt_is_named(changes, said):
    meant = {i: name for i, name in {**dict(enumerate(BRACKETS)), **changes}.items() if name is not None}
    refused(RequestError, said, run=lambda: load_foreign(NANO.state_dict(), ARGS, meant))


def test_a_model_without_a_grammar_is_sent_to_vocab_too():
    model = load_foreign(NANO.state_dict(), ARGS, verbose=False)
    refused(AnalysisError, "grammar=DyckGrammar(...)", "vocab=", run=lambda: probes.analyze_balance(model))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_a_text_with_a_part_that_the_tokenizer_does_not_know_is_refused(kind, unknown):
    names = ["a", "b", "c", "d", "<s>", "</s>", "<pad>"] if unknown is None else ["a", "b", "c", "<unk>", *BRACKETS[4:]]
    tokenizer = word_level(names, unknown)
    model = loaded(kind, tokenizer)
    attention_heatmap(model, "abc")
    refused(
        RequestError, "position 1", "'z' is not a token of this model's tokenizer",
        run=lambda: attention_heatmap(model, "az"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("adds", [False, True])
def test_a_text_has_start_once_whoever_writes_it(kind, adds):
    """The tokenizer may add it, or we, or the text has it: once, whatever the model is read by."""
    tokenizer = word_level(["a", "b", "c", "<unk>", *BRACKETS[4:]], "<unk>")
    if adds:
        from tokenizers.processors import TemplateProcessing

        start = tokenizer.bos_token_id
        template = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
        tokenizer.backend_tokenizer.post_processor = template
    model = loaded(kind, tokenizer)
    own = language_of(model) if is_bridge(model) else model.grammar
    start = own.start
    assert own.read("ab") == [start, 0, 1]
    assert own.read("<s>ab") == [start, 0, 1]
    assert own.read("<s><s>ab") == [start, start, 0, 1]
    refused(RequestError, "'z' is not a token of this model's tokenizer", run=lambda: own.read("az"))


# -- folders of Hugging Face --------------------------------------------------------------------------------


def config_says(**changes):
    def change(path):
        told = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(told | changes))

    return change


def cut(path):
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:3000])


DAMAGE = [
    (lambda path: (path / "model.safetensors").unlink(), ["no weights", "model.safetensors is needed"]),
    (config_says(vocab_size=11), ["shape [7, 8]", "[11, 8]"]),
    (config_says(n_embd=10), ["config.json makes it"]),
    (config_says(model_type="abacus"), ["model_type='abacus'", "does not know: update transformers"]),
    (config_says(model_type=3), ["model_type=3"]),
    (config_says(n_layer=5), ["lacks weights"]),
    (config_says(n_embd="wide"), ["n_embd", "is needed"]),
    (config_says(n_embd=9), ["divisible", "is needed"]),
    (cut, ["truncated or damaged"]),
    (lambda path: (path / "tokenizer.json").write_text("{"), ["is needed"]),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_folder_that_cannot_be_loaded_is_quoted_with_what_would_be_right(damage, said):
    damage(Path(folder(word_level(BRACKETS), "my-model")))
    refused(InterpError, "'my-model'", *said, run=lambda: load_foreign("my-model", verbose=False))


@pytest.mark.parametrize("name", ["gpt2", "openai-community/gpt2", "nowhere/", "x.pt", "x.gguf"])
def test_what_is_not_there_is_not_downloaded(name):
    refused(InterpError, "nothing is downloaded", run=lambda: load_foreign(name))


def test_why_a_model_stays_a_bridge_is_printed(capsys):
    load_foreign(small_decoder("llama"))
    assert "as a hooked bridge (of transformers' models our blocks compute GPT2LMHeadModel" in capsys.readouterr().out
    shutil.rmtree("hf", ignore_errors=True)


# -- state dicts and adapters -------------------------------------------------------------------------------

C_ATTN = "transformer.h.1.attn.c_attn.weight"


def changed(**how):
    return {**NANO.state_dict(), **{name.replace("__", "."): value for name, value in how.items()}}


def with_(value, name=C_ATTN):
    return {**NANO.state_dict(), name: value}


W = NANO.state_dict()[C_ATTN]
STATES = [
    *((NANO.state_dict(), {"n_head": n}, f"n_head={n!r} is not a whole number") for n in (4.0, -4, 0, "four", True)),
    (with_(W.T.contiguous()), ARGS, "h.1.attn.c_attn.weight' of shape [12, 36] is not of shape [36, 12], and is so tr"),
    (with_(W * torch.nan), ARGS, "h.1.attn.c_attn.weight' holds numbers that are not finite"),
    (with_(W.int()), ARGS, "h.1.attn.c_attn.weight' holds torch.int32"),
    (with_(W.to("meta")), ARGS, "h.1.attn.c_attn.weight' is on the meta device"),
    (with_(W.tolist()), ARGS, f"{C_ATTN!r} is of type list"),
    (with_(W.numpy()), ARGS, f"{C_ATTN!r} is of type ndarray"),
    (NANO.state_dict(), {"n_head": 2, "n_layer": 3}, "config says n_layer=3, and the tensors 2"),
    (NANO.state_dict(), {"n_head": 2, "block_size": 3}, "config says block_size=3"),
    ({}, None, "the state dict is empty"),
    ({"model": {}}, None, "the state dict is empty"),
    ({"a.b": W.numpy()}, None, "no tensors ('a.b' is of type ndarray)"),
    (NANO.state_dict(), 3, "config=3 is neither"),
    (with_(torch.randn(9, 12), "lm_head.weight"), ARGS, "9 outputs and its embedding holds 7 tokens"),
    (lambda tokens: NANO(tokens), {"n_ctx": "32"}, "n_ctx='32' is not a whole number"),
    (lambda tokens: NANO(tokens), {"d_vocab": 7.0}, "d_vocab=7.0 is not a whole number"),
    (lambda tokens: NANO(tokens), {"attention_dir": "up"}, "attention_dir='up' is neither"),
    (NANO, {"n_head": 2}, "pass its .state_dict()"),
]


@pytest.mark.parametrize(("source", "config", "said"), STATES, ids=range(len(STATES)))
def test_each_wrong_part_is_named_as_its_owner_knows_it(source, config, said):
    refused(InterpError, said, run=lambda: load_foreign(source, config))


def test_a_config_file_that_is_a_list_is_named():
    Path("list.json").write_text("[4]")
    refused(ConfigError, "'list.json' holds [4]", run=lambda: load_foreign(NANO.state_dict(), "list.json"))


def test_a_classifier_says_its_classes():
    state = with_(torch.randn(9, 12), "lm_head.weight")
    for how in (
        {"config": {**ARGS, "class_names": list("abcdefghi")}},
        {"config": ARGS, "class_names": list("abcdefghi")},
    ):
        assert load_foreign(state, **how, **QUIET).config.d_out == 9


def test_a_model_through_an_adapter_is_called_what_its_owner_calls_it():
    function = load_foreign(lambda tokens: NANO(tokens), vocab=BRACKETS, **QUIET)
    module = load_foreign(NANO, vocab=list("abcdefg"), **QUIET)
    assert "this function" in repr(function)
    assert "DyckGrammar" in repr(function)
    assert "NanoGPT" in repr(module)
    refused(
        AnalysisError, "this function gives logits that are not finite",
        run=lambda: load_foreign(lambda tokens: NANO(tokens) * torch.nan, {"n_ctx": 24}, BRACKETS, verbose=False),
    )  # fmt: skip
    refused(InterpError, "Embedding fails on 4 tokens", run=lambda: load_foreign(torch.nn.Embedding(0, 3)))
