"""Foreign state dicts: the same logits as a literal implementation, vocabularies mapped, and every refusal."""

import json
import math
import pickle
import zipfile
from dataclasses import fields
from functools import partial
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from torch.nn import functional as F
from transformer_lens.config import TransformerBridgeConfig, TransformerLensConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from closeness import assert_close
from interp import Population, load_checkpoint, load_foreign, save_checkpoint
from interp._foreign_config import _HARMLESS, _NEUTRAL, _READ, _READ_BESIDE, _check_names
from interp.cli import main
from interp.config import TransformerConfig
from interp.errors import InterpError, RequestError
from interp.foreign.files import read_json
from interp.grammars import BracketStrings, DyckGrammar, Vocabulary, grammar_from_dict
from interp.vocabulary import special_meaning

ARENA = {
    "n_layers": 3, "n_heads": 2, "d_model": 56, "d_head": 28, "d_mlp": 56, "act_fn": "relu", "normalization_type": "LN",
    "attention_dir": "bidirectional", "d_vocab": 5, "d_vocab_out": 2, "n_ctx": 42, "use_attn_result": True,
    "use_hook_tokens": True, "dtype": "torch.float32", "attn_scale": 28**0.5, "eps": 1e-5, "model_name": "custom",
}  # fmt: skip
BRACKETS = ["[start]", "[pad]", "[end]", "(", ")"]
SMALL = {
    "n_layers": 2,
    "n_heads": 2,
    "d_model": 12,
    "d_head": 5,
    "d_mlp": 9,
    "act_fn": "gelu",
    "n_ctx": 10,
    "d_vocab": 7,
}
LM = ["</s>", "]", "(", "[", "<s>", ")", "<pad>"]


def state_for(config, seed=0):
    """Random weights under TransformerLens's names, with the buffers that its old versions saved."""
    c = {"attn_only": False, "normalization_type": "LN", "d_vocab_out": config["d_vocab"], **config}
    source = torch.Generator().manual_seed(seed)
    h, d, e, m = c["n_heads"], c["d_model"], c["d_head"], c.get("d_mlp") or 4 * c["d_model"]

    def draw(*shape):
        return 0.4 * torch.randn(*shape, generator=source)

    state = {"embed.W_E": draw(c["d_vocab"], d), "pos_embed.W_pos": draw(c["n_ctx"], d)}
    norms = ["ln_final"]
    for layer in range(c["n_layers"]):
        b = f"blocks.{layer}."
        state |= {f"{b}attn.W_{x}": draw(h, d, e) for x in "QKV"} | {f"{b}attn.b_{x}": draw(h, e) for x in "QKV"}
        state |= {f"{b}attn.W_O": draw(h, e, d), f"{b}attn.b_O": draw(d)}
        state |= {
            f"{b}attn.mask": torch.ones(c["n_ctx"], c["n_ctx"]).tril().bool(),
            f"{b}attn.IGNORE": torch.tensor(-1e5),
        }
        norms += [f"{b}ln1"]
        if not c["attn_only"]:
            state |= {f"{b}mlp.W_in": draw(d, m), f"{b}mlp.b_in": draw(m), f"{b}mlp.W_out": draw(m, d)}
            state |= {f"{b}mlp.b_out": draw(d)}
            norms += [f"{b}ln2"]
    if c["normalization_type"] == "LN":
        state |= {f"{n}.w": 1 + draw(d) for n in norms} | {f"{n}.b": draw(d) for n in norms}
    return state | {"unembed.W_U": draw(d, c["d_vocab_out"]), "unembed.b_U": draw(c["d_vocab_out"])}


def literal(state, config, tokens, pad=None):
    """The network as its authors write it down, one position and one head at a time. Logits [batch, pos, d_out]."""
    c = {"attn_only": False, "normalization_type": "LN", "attention_dir": "causal", **config}
    act = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "gelu_new": lambda x: F.gelu(x, approximate="tanh")}
    scale = c.get("attn_scale", c["d_head"] ** 0.5) if c.get("use_attn_scale", True) else 1.0

    def norm(x, name):
        if c["normalization_type"] is None:
            return x
        x = (x - x.mean()) / (x.var(unbiased=False) + c.get("eps", 1e-5)).sqrt()
        return x if c["normalization_type"] == "LNPre" else x * state[f"{name}.w"] + state[f"{name}.b"]

    out = []
    for row in tokens:
        n = len(row)
        x = [state["embed.W_E"][t] + state["pos_embed.W_pos"][i] for i, t in enumerate(row)]
        for layer in range(c["n_layers"]):
            b = f"blocks.{layer}."
            w = {k: state[f"{b}attn.{k}"] for k in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")}
            normed = [norm(v, f"{b}ln1") for v in x]
            new = []
            for i in range(n):
                total = x[i] + w["b_O"]
                sees = [j for j in range(n) if (c["attention_dir"] != "causal" or j <= i) and (row[j] != pad or j == i)]
                for h in range(c["n_heads"]):
                    q = normed[i] @ w["W_Q"][h] + w["b_Q"][h]
                    k = torch.stack([normed[j] @ w["W_K"][h] + w["b_K"][h] for j in sees])
                    v = torch.stack([normed[j] @ w["W_V"][h] + w["b_V"][h] for j in sees])
                    total = total + ((k @ q) / scale).softmax(0) @ v @ w["W_O"][h]
                new.append(total)
            x = new
            if not c["attn_only"]:
                m = {k: state[f"{b}mlp.{k}"] for k in ("W_in", "b_in", "W_out", "b_out")}
                hidden = [act[c["act_fn"]](norm(v, f"{b}ln2") @ m["W_in"] + m["b_in"]) for v in x]
                x = [v + z @ m["W_out"] + m["b_out"] for v, z in zip(x, hidden, strict=True)]
        out.append(torch.stack([norm(v, "ln_final") @ state["unembed.W_U"] + state["unembed.b_U"] for v in x]))
    return torch.stack(out)


CONFIGS = [
    {},
    {"act_fn": "gelu_new", "normalization_type": "LNPre"},
    {"act_fn": "relu", "normalization_type": None, "attention_dir": "bidirectional"},
    {"act_fn": "silu", "eps": 0.1, "d_vocab_out": 3},
    {"attn_only": True, "act_fn": None, "d_mlp": None, "n_layers": 1},
    {"use_attn_scale": False, "d_head": 3},
    {"attn_scale": 7.0, "attn_only": True},
    {"d_mlp": None, "n_heads": 3, "d_head": 4, "attention_dir": "bidirectional", "d_vocab_out": 2},
]


@pytest.mark.parametrize("changes", CONFIGS, ids=str)
def test_logits_are_those_of_a_literal_implementation(changes):
    config = {**SMALL, **changes}
    state = state_for(config)
    model = load_foreign(state, config, pad_token=6)
    tokens = torch.tensor([[4, 0, 1, 2, 5, 3], [4, 2, 2, 6, 6, 6]])
    with torch.no_grad():
        ours, theirs = model(tokens), literal(state, config, tokens.tolist(), pad=6)
    assert theirs.std() > 0.3
    assert_close(ours, theirs)
    assert not model.training


@pytest.mark.parametrize(
    "changes", [{}, {"act_fn": "relu", "normalization_type": "LNPre"}, {"attn_only": True}], ids=str
)
def test_logits_are_those_of_a_native_bridge(changes):
    config = {**SMALL, "d_head": 6, **changes}
    state = state_for(config)
    cfg = TransformerBridgeConfig(**config)
    bridge = TransformerBridge.boot_native(cfg)
    bridge.load_state_dict(convert_tl_checkpoint(state, cfg))
    tokens = torch.tensor([[4, 0, 1, 2, 5, 3]])
    with torch.no_grad():
        assert_close(load_foreign(state, cfg)(tokens), bridge.eval()(tokens))


# -- vocabularies -------------------------------------------------------------------------------------------


def test_the_bracket_classifier_is_mapped_onto_a_grammar():
    state = state_for(ARENA)
    model = load_foreign(state, ARENA, BRACKETS)
    grammar = model.grammar
    assert isinstance(grammar, DyckGrammar)
    assert (grammar.num_types, grammar.max_depth, model.config.d_out, model.config.pad_token) == (1, 42, 2, 4)
    tokens = model.to_tokens(["(())", "())("])
    assert model.to_tokens("((").tolist() == [[2, 0, 0, 3]]
    assert model.to_str_tokens("((") == ["[start]", "(", "(", "[end]"]
    tokens = model.to_tokens(["(()", "("])
    theirs = [[0, 3, 3, 4, 2], [0, 3, 2, 1, 1]]
    with torch.no_grad():
        ours, expected = model(tokens), literal(state, ARENA, theirs, pad=1)
    assert_close(ours, expected)


def test_ground_truth_of_a_string_that_is_not_balanced_ends_where_it_breaks():
    grammar = BracketStrings(2, 3)
    tokens = grammar.to_tokens(["(()))(", "([)]", "[[[[", "(]()"])
    assert grammar.stack_top(tokens)[0].tolist() == [-1, 1, 2, 1, -1, -1, -1]
    assert grammar.partner(tokens)[0].tolist() == [-1, 4, 3, 2, 1, -1, -1]
    assert grammar.depth(tokens)[0].tolist() == [0, 1, 2, 1, 0, -1, 0]
    assert grammar.stack_top(tokens)[1].tolist() == [-1, 1, 2, -1, -1, -1, -1]
    assert grammar.stack_top(tokens)[2].tolist() == [-1, 1, 2, 3, -1, -1, -1]
    assert not grammar.unmatched(tokens)[3, 2:].any()
    assert grammar.unmatched(tokens)[2, 3].tolist() == [False, True, True, True, False, False, False]
    whole = grammar.to_tokens(["([()])[]"])
    strict = DyckGrammar(2, 3)
    for truth in ("depth", "partner", "stack_top", "unmatched"):
        assert (getattr(grammar, truth)(whole) == getattr(strict, truth)(whole)).all()
    assert grammar_from_dict(json.loads(json.dumps(grammar.to_dict()))) == grammar


def test_a_language_model_of_brackets_gets_the_grammars_ids_in_and_out():
    config = {**SMALL, "max_depth": 5}
    state = state_for(config)
    model = load_foreign(state, config, LM, task_check=False)
    assert model.grammar == DyckGrammar(2, 5)
    order = [2, 5, 3, 1, 4, 0, 6]
    text = model.to_tokens("([()")
    with torch.no_grad():
        ours, theirs = model(text), literal(state, config, [[4, 2, 3, 2, 5]])
    assert_close(ours, theirs[..., order])
    assert load_foreign(state, SMALL, LM, task_check=False).grammar.max_depth == 4
    assert (
        load_foreign(state, SMALL, LM, grammar=DyckGrammar(2, 3, open_prob=0.3), task_check=False).grammar.open_prob
        == 0.3
    )


def test_tokens_that_a_language_model_lacks_can_not_matter():
    config = {**SMALL, "d_vocab": 5}
    state = state_for(config)
    state["unembed.b_U"] -= 100
    model = load_foreign(state, config, ["BOS", "{", "}", "<", ">"], task_check=False)
    assert model.grammar.vocab == ("{", "}", "<", ">", "BOS", "END", "PAD")
    with torch.no_grad():
        ours = model(model.to_tokens(["{<>", "{"]))
        theirs = literal(state, config, [[0, 1, 3, 4], [0, 1, 0, 0]])[..., [1, 2, 3, 4, 0]]
    assert_close(ours[0, :, :5], theirs[0], ulps=4)  # of the bias of -100
    assert_close(ours[1, :2, :5], theirs[1, :2], ulps=4)
    assert (ours.softmax(-1)[..., 5:] < 1e-9).all()  # absolute: probabilities


def test_other_vocabularies_keep_their_ids():
    config = {**SMALL, "d_vocab": 6, "d_vocab_out": 3}
    names = ["[PAD]", "cat", "cats", " sat", "<bos>", "end"]
    model = load_foreign(state_for(config), config, names)
    assert model.grammar == Vocabulary(tuple(names), start=4, pad=0)
    assert model.config.pad_token == 0
    assert model.to_tokens(["cats cat sat", "end"]).tolist() == [[4, 2, 1, 3], [4, 5, 0, 0]]
    assert model.to_str_tokens("cat") == ["<bos>", "cat"]
    assert grammar_from_dict(json.loads(json.dumps(model.grammar.to_dict()))) == model.grammar
    mapped = load_foreign(state_for(config), config, {name: i for i, name in enumerate(names)})
    assert mapped.grammar == model.grammar


@pytest.mark.parametrize(
    ("token", "meaning"),
    [("[start]", "start"), ("<s>", "start"), ("BOS", "start"), ("[BOS]", "start"),
     ("<|endoftext|>", "end"),
     ("</s>", "end"), ("[END]", "end"), ("<pad>", "pad"), ("PAD", "pad"), ("[CLS]", "start"), ("end", None),
     ("s", None), ("S", None),
     ("(", None), ("start", None)],
)  # fmt: skip
def test_usual_names_of_special_tokens(token, meaning):
    assert special_meaning(token) == meaning


# -- files, wrappers, types ---------------------------------------------------------------------------------


def test_files_and_wrappers(tmp_path):
    state, tokens = state_for(SMALL), torch.tensor([[4, 0, 1]])
    expected = load_foreign(state, SMALL)(tokens)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SMALL))
    vocab = tmp_path / "vocab.json"
    vocab.write_text(json.dumps(LM))
    plain = {name: tensor for name, tensor in state.items() if "attn.mask" not in name and "IGNORE" not in name}
    safetensors.torch.save_file(plain, tmp_path / "weights.safetensors")
    variants = {
        "plain.pt": state,
        "model.pth": {"model": state, "optimizer": {"lr": 0.1}, "step": 3},
        "ddp.pt": {"state_dict": {f"module.{name}": tensor for name, tensor in state.items()}, "epoch": 4},
        "compiled.pt": {f"_orig_mod.{name}": tensor for name, tensor in state.items()},
    }
    for name, content in variants.items():
        torch.save(content, tmp_path / name)
    for name in (*variants, "weights.safetensors"):
        assert torch.equal(load_foreign(tmp_path / name, config)(tokens), expected), name
    assert load_foreign(tmp_path / "plain.pt", str(config), str(vocab), task_check=False).grammar == DyckGrammar(2, 4)
    assert torch.equal(load_foreign(state, SimpleNamespace(**SMALL))(tokens), expected)


def test_half_precision_becomes_float32():
    state = {n: t.bfloat16() if t.is_floating_point() else t for n, t in state_for(SMALL).items()}
    model = load_foreign(state, SMALL)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert torch.equal(model.W_E, state["embed.W_E"].float())


def test_the_given_weights_are_left_alone_and_shared_with_nobody():
    state = state_for(SMALL)
    before = {name: tensor.clone() for name, tensor in state.items()}
    with torch.no_grad():
        load_foreign(state, SMALL, LM, task_check=False).W_E.zero_()
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_populations_and_our_own_files(tmp_path):
    config = {**ARENA, "class_names": ["unbalanced", "balanced"]}
    models = [load_foreign(state_for(config, seed), config, BRACKETS) for seed in range(3)]
    population = Population.from_models(models)
    assert (len(population), population.grammar, population.config) == (3, models[0].grammar, models[0].config)
    path = save_checkpoint(population, tmp_path / "ours.safetensors")
    again = load_checkpoint(path)
    assert again.config == population.config
    assert again.config.class_names == ("unbalanced", "balanced")
    tokens = again[1].to_tokens(["(()", "))"])
    assert torch.equal(again[1](tokens), models[1](tokens))
    with pytest.raises(InterpError, match="checkpoint of ours"):
        load_foreign(path, config)


@pytest.mark.slow
def test_analyzers_serve_foreign_models():
    from interp.plots import attention_heatmap
    from probes import analyze_balance, analyze_stack_likeness, analyze_variation

    population = Population.from_models(
        [load_foreign(state_for(SMALL, seed), SMALL, LM, task_check=False) for seed in range(3)]
    )
    assert len(analyze_variation(population, "([])()", task_check=False).variation) == 2
    assert analyze_stack_likeness(population, ["([])()", "[(())]"], task_check=False).to_dict()["score"]
    classifiers = Population.from_models([load_foreign(state_for(ARENA, seed), ARENA, BRACKETS) for seed in range(2)])
    assert len(analyze_variation(classifiers, "(())()").variation) == 3
    attention_heatmap(classifiers[0], "())(", overlay="stack_top").to_json()
    roomy = {**SMALL, "n_ctx": 80}
    assert analyze_balance(
        load_foreign(state_for(roomy), roomy, LM, task_check=False), seed=0, task_check=False
    ).to_dict()["functional"]


def test_configs_of_old_checkpoints_keep_their_bytes():
    assert not {"attn_scale", "class_names", "unembed"} & set(TransformerConfig(7).to_dict())
    full = TransformerConfig(7, attn_scale=3.0, class_names=tuple("abcdefg"), activation="silu")
    assert TransformerConfig.from_dict(json.loads(json.dumps(full.to_dict()))) == full


# -- refusals -----------------------------------------------------------------------------------------------


def shaped(name, tensor):
    return lambda state: {**state, name: tensor}


nested = partial(torch.nested.nested_tensor, layout=torch.jagged)
WRONG = [
    ({"positional_embedding_type": "rotary"}, None, "positional_embedding_type='rotary' is not supported"),
    ({"positional_embedding_type": "shortformer"}, None, "positional_embedding_type='shortformer'"),
    ({"parallel_attn_mlp": True}, None, "parallel_attn_mlp=True is not supported"),
    ({"normalization_type": "RMS"}, None, "normalization_type='RMS' is not supported: this loader takes 'LN'"),
    ({"gated_mlp": True}, None, "gated_mlp=True"),
    ({"n_key_value_heads": 1}, None, "n_key_value_heads=1 is not supported"),
    ({"use_local_attn": True}, None, "use_local_attn=True"),
    ({"final_rms": True}, None, "final_rms=True"),
    ({"act_fn": "solu_ln"}, None, "act_fn='solu_ln' is not supported"),
    ({"act_fn": None}, None, "'act_fn' is missing"),
    ({"attention_dir": "sideways"}, None, "attention_dir='sideways'"),
    ({"n_layers": None}, None, "'n_layers' is missing"),
    ({"n_ctx": None, "ctx": 3}, None, "'n_ctx' is missing"),
    ({"atention_dir": "bidirectional"}, None, "'atention_dir' is unknown; did you mean 'attention_dir'"),
    ({"d_head": "six"}, None, "d_head='six'"),
    ({"d_head": "six", "attn_scale": 2.0}, None, "d_head='six'"),
    ({"d_head": 10**400, "attn_scale": 2.0}, None, "d_head=1000"),
    *(
        (
            {"attn_scale": scale},
            None,
            f"attn_scale={shown} is not supported: this loader takes a finite number, or None",
        )
        for scale, shown in [
            ("x", "'x'"),
            (math.nan, "nan"),
            (math.inf, "inf"),
            ([1], r"\[1\]"),
            (True, "True"),
            (10**400, "1000.*"),
        ]
    ),
    ({"attn_only": "yes"}, None, "attn_only='yes' is not supported: this loader takes True or False"),
    ({"n_layer": 3}, None, "'n_layer'=3 is unknown, and 'n_layers'=2 is there: leave it out"),
    ({"act_fn ": "x" * 10_000}, None, r"'act_fn '='x+\.\.\.x+' is unknown, and 'act_fn'="),
    ({"N_heads": 4}, None, "'N_heads'=4 is unknown, and 'n_heads'=2 is there"),
    ({"n_heads": -1, "d_head": 5}, None, "not a multiple of d_head"),
    ({"pad_token": 9}, None, "pad_token=9 is not a token id"),
    ({"pad_token": "[NIL]"}, None, "NIL]' is not in the vocabulary"),
    ({"class_names": ["a"]}, None, "class_names"),
    ({"d_head": 6}, None, r"'blocks.0.attn.W_Q' has shape \[2, 12, 5\], and the config needs \[2, 12, 6\]"),
    ({"d_mlp": 8}, None, "'blocks.0.mlp.W_in' has shape"),
    ({"n_layers": 1}, None, "'blocks.1.attn.W_Q' .* does not belong"),
    ({"n_layers": 3}, None, "'blocks.2.* is missing"),
    ({"normalization_type": "LNPre"}, None, "does not belong to this config"),
    ({}, lambda state: {n: t for n, t in state.items() if not n.startswith("ln_final")}, "'LNPre'"),
    ({}, lambda state: {n: t for n, t in state.items() if n != "unembed.b_U"}, "'unembed.b_U' of shape .* is missing"),
    ({}, shaped("embed.W_E", torch.zeros(7, 12, dtype=torch.int64)), "'embed.W_E' holds torch.int64"),
    ({}, shaped("embed.W_E", torch.zeros(7, 12).to_sparse()), "'embed.W_E' is sparse_coo: save dense tensors"),
    ({}, shaped("embed.W_E", torch.zeros(7, 12, device="meta")), "'embed.W_E' is on the meta device"),
    ({}, shaped("embed.W_E", nested([torch.zeros(7, 12)])), "'embed.W_E' is a nested tensor: save dense"),
    ({}, shaped("an.extra", nested([torch.zeros(7, 12)])), "'an.extra' is a nested tensor: save dense"),
    ({}, shaped("embed.W_E", torch.full((7, 12), torch.nan)), "'embed.W_E' holds numbers that are not finite"),
    ({}, shaped("blocks.0.attn.W_extra", torch.zeros(2)), "'blocks.0.attn.W_extra' .* does not belong"),
    ({}, lambda state: {"epoch": 3}, "holds keys 'epoch' and no tensors"),
]


@pytest.mark.parametrize(("changes", "edit", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_not_covered_is_refused_in_one_line(changes, edit, message):
    config = {k: v for k, v in {**SMALL, **changes}.items() if v is not None or k == "act_fn"}
    state = state_for(SMALL)
    with pytest.raises(InterpError, match=message) as error:
        load_foreign(state if edit is None else edit(state), config, ["p", "q", "r", "s", "t", "u", "v"])
    assert "\n" not in str(error.value)


OF_TRANSFORMER_LENS = sorted(
    {field.name for field in fields(TransformerLensConfig)}
    | {name for name, p in signature(TransformerBridgeConfig).parameters.items() if p.kind is not p.VAR_KEYWORD}
    | {"ungroup_grouped_query_attention", "NTK_original_ctx_len", "tokenizer_prepends_bos"}  # of versions before 4
)


@pytest.mark.parametrize("name", OF_TRANSFORMER_LENS)
def test_every_setting_of_transformer_lens_is_read_or_neutral_or_refused(name):
    """Whoever adds one to the library finds it here: no setting may be taken without anybody having looked at it."""
    harmless = {n for names in _HARMLESS.values() for n in names}
    where = [name in group for group in (_READ, _READ_BESIDE, _NEUTRAL, harmless, ("n_key_value_heads",))]
    assert sum(where) == 1
    if name in harmless:
        _check_names(SMALL | {name: 7})
    elif name in _NEUTRAL:
        for value in _NEUTRAL[name]:
            _check_names(SMALL | {name: value})
        with pytest.raises(InterpError, match=f"{name}=.* is not supported"):
            _check_names(SMALL | {name: 7})


def test_a_setting_that_nobody_knows_is_refused():
    _check_names(SMALL | {"n_layer": SMALL["n_layers"], "n_head": None})  # the same, or nothing, said twice
    with pytest.raises(InterpError, match="'causal'=False, 'rope'=3: HookedTransformerConfig has no such setting"):
        load_foreign(state_for(SMALL), SMALL | {"causal": False, "rope": 3, "comment": None})


# -- how texts are read -------------------------------------------------------------------------------------

WORDS = ["<bos>", "cat", "sat", "mat", "[PAD]", "end", "dog"]


def test_a_model_whose_texts_get_no_start_gets_none_also_from_a_file(tmp_path):
    config = SMALL | {"default_prepend_bos": False}
    model, usual = (load_foreign(state_for(SMALL), c, WORDS) for c in (config, SMALL))
    assert model.to_tokens(["cat sat", "mat"]).tolist() == [[1, 2], [3, 4]]
    assert usual.to_tokens(["cat sat", "mat"]).tolist() == [[0, 1, 2], [0, 3, 4]]
    assert model.to_tokens("<bos> cat").tolist() == usual.to_tokens("cat").tolist()
    assert model.to_tokens("cat", prepend_bos=True).tolist() == [[0, 1]]
    assert (model.cfg.default_prepend_bos, usual.cfg.default_prepend_bos) == (False, True)
    assert torch.equal(model("cat sat"), model(torch.tensor([[1, 2]])))
    again = load_checkpoint(save_checkpoint(model, tmp_path / "ours.safetensors"))
    assert again.grammar == model.grammar != usual.grammar
    assert torch.equal(again("cat sat"), model("cat sat"))
    assert "prepend_start" not in usual.grammar.to_dict()  # the bytes of older checkpoints stay


@pytest.mark.parametrize(
    ("changes", "vocab", "how", "said"),
    [
        ({"default_prepend_bos": False}, LM, {}, "default_prepend_bos=False is not supported for DyckGrammar"),
        ({"default_prepend_bos": "no"}, WORDS, {}, "default_prepend_bos='no' is neither True nor False"),
        ({"default_padding_side": "left"}, WORDS, {}, "default_padding_side='left' is not supported"),
        ({"default_padding_side": "up"}, None, {}, "default_padding_side='up' is not supported"),
        ({"pad_token": "<bos>"}, WORDS, {}, "pad_token=0 is '<bos>', with which texts begin"),
        ({}, WORDS, {"max_depth": 3}, "max_depth=3 changes nothing here: it bounds a language"),
        ({"max_depth": 3}, None, {}, "max_depth=3 changes nothing here: it bounds a language"),
        ({}, LM, {"max_depth": 3, "grammar": DyckGrammar(2, 4)}, "max_depth=3 changes nothing here: grammar="),
    ],
)
def test_a_reading_of_texts_that_the_model_would_not_have_is_refused(changes, vocab, how, said):
    with pytest.raises(InterpError, match=said) as error:
        load_foreign(state_for(SMALL), SMALL | changes, vocab, **how)
    assert "\n" not in str(error.value)


def test_how_texts_are_read_does_not_matter_to_a_model_of_ids():
    config = SMALL | {"default_prepend_bos": False, "default_padding_side": "left"}
    assert load_foreign(state_for(SMALL), config).grammar is None


def test_numpy_numbers_are_numbers():
    config = {name: np.int64(value) if isinstance(value, int) else value for name, value in SMALL.items()}
    model = load_foreign(state_for(SMALL), config, WORDS, pad_token=np.int64(4))
    assert model.config == load_foreign(state_for(SMALL), SMALL, WORDS, pad_token=4).config
    json.dumps(model.config.to_dict())


@pytest.mark.parametrize("protocol", range(6))
def test_files_of_any_pickle_protocol_are_refused_without_warnings(protocol, tmp_path, capsys, recwarn):
    (tmp_path / "c.json").write_text(json.dumps(SMALL))
    raw, zipped = tmp_path / "raw.pt", tmp_path / "zipped.pt"
    raw.write_bytes(pickle.dumps({"a": 1}, protocol=protocol))
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("x/data.pkl", pickle.dumps({"a": 1}, protocol=protocol))
        file.writestr("x/version", "3")
    for path in (raw, zipped):
        with pytest.raises(InterpError) as error:
            load_foreign(path, SMALL)
        assert "\n" not in str(error.value)
        claim = ["--claim", "L0H0 attends to START"]
        assert main(["audit", str(path), "--model-config", str(tmp_path / "c.json"), *claim]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not recwarn.list


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"eps": NaN}', "NaN is not a finite number"),
        ('{"eps": [Infinity]}', "Infinity is not a finite number"),
        ('{"eps": -Infinity}', "-Infinity is not a finite number"),
        ('{"eps": 1e999}', "'1e999' is not a finite number"),
        ('{"n_layers": 1, "n_ctx": 3, "n_layers": 2}', "'n_layers' stands twice in one object"),
        ('[{"text": "a", "text": "b"}]', "'text' stands twice in one object"),
    ],
)
def test_json_is_read_strictly(text, message, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(text)
    for what in ("config", "vocab", "inputs"):
        with pytest.raises(RequestError, match=f"^the {what} .* is not JSON: {message}$"):
            read_json(path, what)
    with pytest.raises(RequestError, match=message):
        load_foreign(state_for(SMALL), path)


def test_json_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "bom.json"
    path.write_text(json.dumps(SMALL), encoding="utf-8-sig")
    assert read_json(path, "config") == SMALL
    assert load_foreign(state_for(SMALL), path).cfg.n_layers == SMALL["n_layers"]


def test_bad_files_are_refused_in_one_line(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SMALL))
    torch.save(state_for(SMALL), tmp_path / "good.pt")
    good = (tmp_path / "good.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.pt").write_text("not a model at all")
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save({"cfg": SimpleNamespace(a=1), **state_for(SMALL)}, tmp_path / "objects.pt")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "broken.json").write_text("{")
    for name, message in {
        "cut.pt": "truncated or damaged", "text.pt": "not a torch file", "empty.pt": "torch file",
        "objects.pt": "holds more than tensors", "array.npy": "not a torch file", "none.pt": "no file",
    }.items():  # fmt: skip
        with pytest.raises(InterpError, match=message) as error:
            load_foreign(tmp_path / name, config)
        assert "\n" not in str(error.value)
    for broken, message in {"broken.json": "is not JSON", "none.json": "cannot read the config"}.items():
        with pytest.raises(InterpError, match=message):
            load_foreign(tmp_path / "good.pt", tmp_path / broken)


@pytest.mark.parametrize(
    ("vocab", "how", "message"),
    [
        (["a", "b"], {}, "vocab names 2 tokens, and the model has 7 ids"),
        (["a"] * 7, {}, "names 'a' twice"),
        ([1] * 7, {}, "not a list of strings"),
        ({"a": 0, "b": 5}, {}, "each of 0 to 1 once"),
        (list("abcdefg"), {"grammar": DyckGrammar(2, 4)}, "is not one of brackets"),
        (LM, {"grammar": DyckGrammar(3, 4)}, "vocab has 2 bracket types"),
        (None, {"grammar": DyckGrammar(2, 4)}, "pass vocab="),
        (LM, {"max_depth": "deep"}, "max_depth='deep'"),
        (LM, {"pad_token": "("}, "PAD is called so"),
    ],
)
def test_vocabularies_that_do_not_fit(vocab, how, message):
    with pytest.raises(InterpError, match=message) as error:
        load_foreign(state_for(SMALL), SMALL, vocab, **how)
    assert "\n" not in str(error.value)
