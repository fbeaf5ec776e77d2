"""State dicts and models as people have them: the same logits as the code that wrote them, and every refusal."""

import copy
import json
from functools import partial

import pytest
import torch
import transformers
from torch import nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.sources import build_bridge_from_module

from closeness import assert_close
from gpts import Lecture, MinGPT, NanoGPT, spread
from interp import Population, SandboxTransformer, load_checkpoint, load_foreign, save_checkpoint
from interp.errors import CheckpointError, ConfigError, InterpError
from interp.foreign.formats import FORMATS
from interp.guests import is_bridge
from interp.patterns import attention_patterns
from plain_decoder import plain_decoder, small_decoder

TOKENS = torch.randint(0, 7, (5, 11), generator=torch.Generator().manual_seed(0))
NEAR = 100  # roundings of the largest logit: two layers in another order of sums
MODELS = {
    "nanoGPT": NanoGPT,
    "nanoGPT with biases": partial(NanoGPT, bias=True),
    "nanoGPT of old torch": partial(NanoGPT, mask=True),
    "one head": partial(NanoGPT, heads=1, layers=1),
    "minGPT": partial(NanoGPT, bias=True, mask=True, tied=False, tanh=True),
    "minGPT of 2020": MinGPT,
    "lecture": Lecture,
}
NATIVE = {
    "n_layers": 2, "d_model": 12, "n_ctx": 16, "d_head": 4, "n_heads": 3, "d_vocab": 7, "d_mlp": 10, "act_fn": "relu",
    "seed": 0,
}  # fmt: skip
MODERN = {
    "positional_embedding_type": "rotary", "normalization_type": "RMS", "gated_mlp": True, "n_key_value_heads": 1,
    "act_fn": "silu",
}  # fmt: skip


def same(model, expected, tokens=TOKENS):
    with torch.no_grad():
        assert_close(model(tokens), expected(tokens), ulps=NEAR)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_code_that_wrote_the_state_dict(name, capsys):
    model = spread(MODELS[name]())
    loaded = load_foreign(model.state_dict(), model.args)
    assert isinstance(loaded, SandboxTransformer)
    same(loaded, model)
    said = capsys.readouterr().out
    assert "activation" in said  # no tensor shows it: what is taken is said
    assert (
        not load_foreign(model.state_dict(), {**(model.args or {}), "act_fn": "relu"}, verbose=False).config.d_out - 7
    )


def test_patterns_are_those_of_the_code_that_wrote_the_state_dict():
    model = spread(NanoGPT())
    model(TOKENS)
    patterns = attention_patterns(load_foreign(model.state_dict(), model.args), TOKENS)
    for block, found in zip(model.transformer["h"], patterns, strict=True):
        assert_close(found, block.attn.pattern.double(), ulps=NEAR, dtype=torch.float32)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"model": state, "model_args": NanoGPT().args, "best_val_loss": torch.tensor(1.0), "iter_num": 3},
        lambda state: {"model": {f"_orig_mod.{k}": v for k, v in state.items()}, "model_args": NanoGPT().args},
        lambda state: {"state_dict": {f"model.{k}": v for k, v in state.items()}, "hyper_parameters": NanoGPT().args},
        lambda state: {"model_state_dict": {f"module.{k}": v for k, v in state.items()}, "config": NanoGPT().args},
        lambda state: {
            "model": {k.replace("h.0.", "h.0._orig_mod."): v for k, v in state.items()}, "model_args": NanoGPT().args
        },
        lambda state: {
            "model": {f"net.gpt.{k}": v.half().float() for k, v in state.items()}, "args": NanoGPT().args
        },
    ],
    ids=["ckpt.pt", "compiled", "lightning", "parallel", "blocks", "prefix"],
)  # fmt: skip
def test_wrappers_of_training_scripts_are_taken_off(wrap, tmp_path):
    model = spread(NanoGPT())
    for parameter in model.parameters():
        parameter.data = parameter.data.half().float()
    torch.save(wrap(model.state_dict()), tmp_path / "ckpt.pt")
    same(load_foreign(tmp_path / "ckpt.pt", verbose=False), model)
    same(load_foreign(str(tmp_path), verbose=False), model)  # a folder does what its file does


def test_a_hugging_face_gpt2_is_ours_from_model_state_dict_and_folder(tmp_path, capsys):
    model = gpt2()
    model.save_pretrained(tmp_path)
    given = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    for source in (model, str(tmp_path), tmp_path):
        loaded = load_foreign(source)
        assert isinstance(loaded, SandboxTransformer)
        assert "the same logits" in capsys.readouterr().out
        same(loaded, lambda ids: model(ids).logits)
    same(load_foreign(model.state_dict(), model.config), lambda ids: model(ids).logits)
    same(load_foreign(model.state_dict(), tmp_path / "config.json"), lambda ids: model(ids).logits)
    same(load_foreign(tmp_path / "model.safetensors"), lambda ids: model(ids).logits)  # its config lies beside it
    bare = {k.removeprefix("transformer."): v for k, v in model.state_dict().items() if "lm_head" not in k}
    same(load_foreign(bare, {"n_head": 3, "act_fn": "gelu_new"}), lambda ids: model(ids).logits)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(given[k], v) for k, v in model.state_dict().items())


def test_a_gpt2_that_our_blocks_do_not_compute_is_a_bridge_of_a_copy(capsys):
    model = gpt2(scale_attn_by_inverse_layer_idx=True)
    loaded = load_foreign(model)
    assert is_bridge(loaded)
    assert "scale_attn_by_inverse_layer_idx=True" in capsys.readouterr().out
    same(loaded, lambda ids: model(ids).logits)
    assert type(model.transformer.h[0].attn).__name__ == "GPT2Attention"  # the model itself was not taken apart
    with pytest.raises(ConfigError, match="scale_attn_by_inverse_layer_idx=True is not supported"):
        load_foreign(model.state_dict(), model.config)


def test_half_precision_models_become_float32():
    model = gpt2().half()
    loaded = load_foreign(model, verbose=False)
    same(loaded, lambda ids: copy.deepcopy(model).float()(ids).logits)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma"])
def test_other_decoders_are_bridges_with_the_same_logits(kind, tmp_path):
    model = small_decoder(kind)
    expected, patterns, _ = plain_decoder(model, TOKENS)
    model.save_pretrained(tmp_path)
    for source in (model, tmp_path):
        loaded = load_foreign(source, verbose=False)
        assert is_bridge(loaded)
        same(loaded, lambda ids: expected)
        for found, right in zip(attention_patterns(loaded, TOKENS), patterns, strict=True):
            assert_close(found, right.double(), ulps=3 * NEAR, dtype=torch.float32)


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "RobertaModel"])
def test_encoders_are_bridges(name, tmp_path):
    shape = {"vocab_size": 7, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}
    shape |= {"intermediate_size": 8, "max_position_embeddings": 20, "pad_token_id": 0}
    cls = getattr(transformers, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = cls(cls.config_class(**shape)).eval()
    model.set_attn_implementation("eager")
    tokens = TOKENS.clamp(min=1)
    with torch.no_grad():
        expected = model(tokens, output_attentions=True).attentions
    model.save_pretrained(tmp_path)
    for source in (model, tmp_path):
        loaded = load_foreign(source, verbose=False)
        for found, right in zip(attention_patterns(loaded, tokens), expected, strict=True):
            assert_close(found, right.double(), ulps=NEAR, dtype=torch.float32)


def test_a_model_without_a_bridge_is_sent_to_the_adapter():
    shape = {"vocab_size": 7, "n_layers": 1, "n_heads": 2, "dim": 8, "hidden_dim": 8}
    model = transformers.DistilBertModel(transformers.DistilBertConfig(**shape))
    with pytest.raises(CheckpointError, match="DistilBertModel has no bridge in transformer-lens, so pass it through"):
        load_foreign(model)


def test_bridges_that_our_blocks_compute_become_ours(capsys):
    model = gpt2()
    wrapped = build_bridge_from_module(gpt2(), "GPT2LMHeadModel", hf_config=model.config)
    loaded = load_foreign(wrapped)
    assert isinstance(loaded, SandboxTransformer)
    same(loaded, lambda ids: model(ids).logits)
    native = TransformerBridge.boot_native(TransformerBridgeConfig(**NATIVE))
    spread(native.original_model)
    loaded = load_foreign(native)
    assert isinstance(loaded, SandboxTransformer)
    same(loaded, native)
    same(load_foreign(native.state_dict(), native.cfg), native)
    same(load_foreign(native.state_dict(), NATIVE), native)


@pytest.mark.parametrize("change", [MODERN, {"normalization_type": None, "attn_only": True}, {"d_vocab_out": 5}])
def test_state_dicts_of_native_bridges(change, tmp_path):
    config = {**NATIVE, **change}
    native = TransformerBridge.boot_native(dict(config))
    spread(native.original_model)
    torch.save(native.state_dict(), tmp_path / "native.pt")
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = load_foreign(tmp_path / "native.pt", config, verbose=False)
    assert is_bridge(loaded) == (change is MODERN)
    same(loaded, native)
    same(load_foreign(tmp_path, verbose=False), native)
    if change is MODERN:
        kept = load_foreign(native)
        assert kept is native


def test_an_adapter_shows_logits_and_patterns(capsys):
    model = spread(NanoGPT())

    def run(tokens):
        return model(tokens), [block.attn.pattern for block in model.transformer["h"]]

    loaded = load_foreign(run, {"n_ctx": 24})
    assert (loaded.cfg.n_layers, loaded.cfg.n_heads, loaded.cfg.d_vocab) == (2, 2, 7)
    assert "logits and patterns through an adapter" in capsys.readouterr().out
    same(loaded, model)
    ours = load_foreign(model.state_dict(), model.args, verbose=False)
    for found, right in zip(attention_patterns(loaded, TOKENS), attention_patterns(ours, TOKENS), strict=True):
        assert_close(found, right, ulps=NEAR, dtype=torch.float32)
    alone = load_foreign(model)  # a module of logits alone
    assert alone.cfg.n_layers == 0
    same(alone, model)


@pytest.mark.parametrize(
    ("run", "config", "message"),
    [
        (lambda tokens: None, None, "the adapter gives NoneType: return logits, or"),
        (lambda tokens: torch.zeros(3), None, r"logits of shape \[3\]"),
        (lambda tokens: (torch.zeros(1, 4, 7), [torch.zeros(1, 2, 4, 4)]), None, "layer 0 are no shares"),
        (lambda tokens: (torch.zeros(1, 4, 7), [torch.zeros(1, 4, 4)]), None, r"\[batch, head, query, key\]"),
        (lambda tokens: 1 / 0, None, "fails on 4 tokens of id 0"),
        (lambda tokens: torch.zeros(1, 4, 7), {"n_head": 2}, "'n_head' of an adapter is unknown"),
    ],
)
def test_adapters_that_give_something_else_are_refused(run, config, message):
    with pytest.raises(InterpError, match=message):
        load_foreign(run, config)


NANO = spread(NanoGPT())


def mask(shape):
    return {**NANO.state_dict(), "transformer.h.0.attn.bias": torch.ones(*shape).triu()[None, None]}


@pytest.mark.parametrize(
    ("state", "config", "message"),
    [
        (NANO.state_dict(), None, r"does not say how many heads it has: give config=\{'n_head': N\}"),
        (NANO.state_dict(), {"n_head": 5}, "has width 12, no multiple of 5 heads"),
        (NANO.state_dict(), {"n_head": 2, "n_layer": 3}, "config says n_layer=3, and the tensors 2"),
        (NANO.state_dict(), {"n_head": 2, "rope": True}, "config setting 'rope'=True of a state dict is unknown"),
        (mask((24, 24)), {"n_head": 2}, "neither all keys up to their own"),
        ({**NANO.state_dict(), "extra": torch.zeros(2)}, {"n_head": 2}, r"tensor 'extra' \[2\] does not belong"),
        (
            {k: v for k, v in NANO.state_dict().items() if "h.1.mlp.c_proj" not in k}, {"n_head": 2},
            "'h.1.mlp.c_proj.weight' is missing",
        ),
        ({"lstm.weight_ih_l0": torch.zeros(2, 2)}, None, "these are keys of an LSTM"),
        ({"a.b": torch.zeros(2)}, None, r"keys of no format known here \('a.b'\). Known are: TransformerLens"),
        (small_decoder("llama").state_dict(), None, r"keys of a Hugging Face decoder \(LLaMA.*load the model itself"),
        (nn.TransformerEncoderLayer(4, 2).state_dict(), None, "adapter, a function of tokens"),
    ],
)  # fmt: skip
def test_what_is_no_format_of_ours_is_named_with_the_way_in(state, config, message):
    with pytest.raises((CheckpointError, ConfigError), match=message) as caught:
        load_foreign(state, config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", [3, None, object(), [1, 2], NanoGPT])
def test_what_is_no_model_is_refused(source):
    with pytest.raises(CheckpointError, match="is not a model"):
        load_foreign(source)


def test_folders_without_one_model_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="holds no file of tensors"):
        load_foreign(tmp_path)
    for name in ("a.pt", "b.pt"):
        torch.save(NANO.state_dict(), tmp_path / name)
    with pytest.raises(CheckpointError, match="holds 2 files of tensors"):
        load_foreign(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt-mini", "n_head": 2}')  # as minGPT's config has it
    with pytest.raises(CheckpointError, match="holds 2 files of tensors"):
        load_foreign(tmp_path)
    (tmp_path / "b.pt").unlink()
    same(load_foreign(tmp_path, verbose=False), NANO)
    (tmp_path / "a.pt").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "abacus"}')
    with pytest.raises(CheckpointError, match=r"holds a config\.json and no weights"):
        load_foreign(tmp_path)


def test_each_format_is_recognised_as_one(tmp_path):
    states = [spread(MODELS[name]()).state_dict() for name in ("nanoGPT", "minGPT of 2020", "lecture")] + [
        TransformerBridge.boot_native(dict(NATIVE)).state_dict()
    ]
    for state in states:
        assert sum(one.within(state) is not None for one in FORMATS) == 1


def test_populations_and_our_own_files(tmp_path):
    models = [load_foreign(spread(NanoGPT(), seed).state_dict(), NANO.args, verbose=False) for seed in range(3)]
    save_checkpoint(Population.from_models(models), tmp_path / "three.safetensors")
    same(load_checkpoint(tmp_path / "three.safetensors")[2], spread(NanoGPT(), 2))


def gpt2(**more):
    config = transformers.GPT2Config(
        vocab_size=7, n_layer=2, n_head=3, n_embd=12, n_positions=16, bos_token_id=4, eos_token_id=5, **more
    )
    with torch.random.fork_rng(devices=[]):
        return spread(transformers.GPT2LMHeadModel(config))
