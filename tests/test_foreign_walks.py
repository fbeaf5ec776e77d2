"""From what people have to the first honest number: the walks of the manual, executed as they stand there."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional as F
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from closeness import assert_close
from gpts import NanoGPT, nano_state
from interp import DyckGrammar, load_checkpoint, load_foreign, save_checkpoint
from interp.cli import main
from interp.errors import InterpError
from plain_decoder import small_decoder

MANUAL = (Path(__file__).parents[1] / "docs" / "manual.md").read_text(encoding="utf-8")
GRAMMAR = DyckGrammar(2, 4)
OWN = np.array([1, 3, 2, 4, 0, 5, 6])  # the ids of the walk's nanoGPT, by those of the grammar ( ) [ ] START END PAD
NAMES = ["</s>", "]", "(", "[", "<s>", ")", "<pad>"]
IN_TOKENIZER = [NAMES.index(name) for name in ("(", ")", "[", "]", "<s>", "</s>", "<pad>")]
CLAIM = "L1H0 attends to the last unmatched open bracket"


def walk(name, **given):
    """Run a block of the manual; what it made."""
    block = re.search(rf"<!-- walk: {name} -->\n```python\n(.*?)```", MANUAL, re.DOTALL)
    made = dict(given)
    exec(compile(block[1], "docs/manual.md", "exec"), made)
    return made


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained():
    """A nanoGPT after 2 seconds on brackets under ids of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = NanoGPT(layers=2, heads=1, width=32, length=40)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.1)
        rows = torch.from_numpy(OWN[GRAMMAR.sample(4000, mode="prefix", length=24, seed=0)])
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(150):
            batch = rows[torch.randint(len(rows), (64,))]
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def test_a_nanogpt_goes_in_five_lines_to_its_numbers(trained, capsys):
    Path("out").mkdir()
    torch.save({"model": trained.state_dict(), "model_args": trained.args, "iter_num": 150}, "out/ckpt.pt")
    model = walk("nanogpt")["model"]
    said = capsys.readouterr().out
    for part in ("id 0 is START", "most probable closer has the right type", "beta", "Stack-likeness", "Verdict: "):
        assert part in said
    assert Path("heads.html").stat().st_size > 1000
    tokens = model.to_tokens("([])[]")
    with torch.no_grad():
        theirs = trained(torch.from_numpy(OWN)[tokens])[..., OWN]
        kept = [0, 1, 2, 3, 4, 5, 6]
        assert_close(model(tokens)[..., kept], theirs[..., kept], ulps=200)
    Path("vocab.json").write_text('{"0": "START", "1": "(", "2": "[", "3": ")", "4": "]", "5": "END", "6": "PAD"}')
    assert main(["analyze", "stack", "out", "--vocab", "vocab.json", "--json", "s.json"]) == 0
    shown = capsys.readouterr()
    assert "id 0 is START" in shown.err
    assert "Stack-likeness" in shown.out
    assert main(["heatmap", "out/ckpt.pt", "--vocab", "vocab.json", "--text", "([])", "--out", "map.html"]) == 0
    wrong = Path("wrong.json")
    wrong.write_text('{"0": "START", "1": "(", "2": "[", "4": ")", "3": "]", "5": "END", "6": "PAD"}')
    assert main(["analyze", "stack", "out", "--vocab", "wrong.json"]) == 2
    assert "vocab= says of its token ids something else" in capsys.readouterr().err


def test_several_state_dicts_make_a_population(trained, capsys):
    Path("vocab.json").write_text('{"0": "START", "1": "(", "2": "[", "3": ")", "4": "]", "5": "END", "6": "PAD"}')
    for i, name in enumerate(("a.pt", "b.pt")):
        state = {k: v * (1 + 0.01 * i) for k, v in trained.state_dict().items()}
        torch.save({"model": state, "model_args": trained.args}, name)
    assert main(["analyze", "variation", "a.pt", "b.pt", "--vocab", "vocab.json"]) == 0
    assert "between 2 models" in capsys.readouterr().out
    assert main(["audit", "a.pt", "b.pt", "--vocab", "vocab.json", "--claim", CLAIM, "--num-inputs", "60"]) == 0
    assert main(["analyze", "variation", "a.pt", "a.pt", "--vocab", "vocab.json"]) == 2
    assert "is given twice" in capsys.readouterr().err


def test_a_hugging_face_folder_is_measured(capsys):
    ours = load_checkpoint("dyck-standard")[0]
    model = hugging_face(ours, IN_TOKENIZER)
    model.save_pretrained("my-gpt2")
    word_level(NAMES).save_pretrained("my-gpt2")
    loaded = walk("folder")["model"]
    assert loaded.grammar == GRAMMAR
    said = capsys.readouterr().out
    assert "as a SandboxTransformer: the same logits" in said
    assert "<s> (id 4) is START" in said
    tokens = loaded.to_tokens("([])[]")
    ids = torch.tensor(IN_TOKENIZER)[tokens]
    with torch.no_grad():
        assert_close(loaded(tokens), model(ids).logits[..., IN_TOKENIZER], ulps=200)
        assert_close(loaded(tokens), ours(tokens), ulps=2000)  # its head's bias went through a pseudo-inverse
    assert main(["audit", "my-gpt2", "--claim", CLAIM, "--num-inputs", "100"]) == 0
    assert "Verdict: " in capsys.readouterr().out


def test_a_bridge_of_transformer_lens_is_measured(capsys):
    ours = load_checkpoint("dyck-standard")[0]
    c = ours.config
    shape = {
        "n_layers": c.n_layers, "d_model": c.d_model, "n_ctx": 64, "d_head": c.d_head, "n_heads": c.n_heads,
        "d_vocab": 7, "d_mlp": c.d_mlp, "act_fn": "gelu_new",
    }  # fmt: skip
    bridge = TransformerBridge.boot_native(shape)
    state = {**ours.state_dict(), "pos_embed.W_pos": torch.zeros(64, c.d_model)}
    bridge.load_state_dict(convert_tl_checkpoint(state, bridge.cfg))
    loaded = walk("bridge", bridge=bridge)["model"]
    tokens = loaded.to_tokens("([])[]")
    with torch.no_grad():
        assert_close(loaded(tokens), bridge(tokens), ulps=200)
    said = capsys.readouterr().out
    assert "<s> (id 4) is START" in said
    assert "Verdict: " in said


def test_any_model_goes_through_an_adapter(trained, capsys):
    walk("adapter", mine=trained)
    assert "Verdict: " in capsys.readouterr().out
    block = re.search(r"<!-- walk: adapter -->\n```python\n(.*?)```", MANUAL, re.DOTALL)
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 15


def test_a_tokenizer_reads_the_texts_of_a_model_of_no_world():
    names = ["a", "b", "c", "d", "<s>", "</s>", "<pad>"]
    model = hugging_face(load_checkpoint("dyck-standard")[0], list(range(7)))
    tokenizer = word_level(names)
    loaded = load_foreign(model, tokenizer=tokenizer, verbose=False)
    assert loaded.to_tokens(["abca", "da"]).tolist() == [[4, 0, 1, 2, 0], [4, 3, 0, 6, 6]]
    assert loaded.to_str_tokens("ab") == ["<s>", "a", "b"]


def hugging_face(ours, own):
    """One of ours as a `GPT2LMHeadModel`, whose head has no bias: the last norm's bias makes the same logits."""
    state, c = nano_state(ours, own), ours.config
    head, bias = state["lm_head.weight"], state.pop("lm_head.bias")
    state["ln_f.bias"] = state["ln_f.bias"] + torch.linalg.lstsq(head, bias[:, None]).solution[:, 0]
    turned = {k: v.T if k.startswith("h.") and v.ndim == 2 else v for k, v in state.items()}
    with torch.random.fork_rng(devices=[]):
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=7, n_layer=c.n_layers, n_head=c.n_heads, n_embd=c.d_model, n_positions=64, n_inner=c.d_mlp,
                tie_word_embeddings=False, bos_token_id=own[4], eos_token_id=own[5],
            )
        )  # fmt: skip
    named = {k if k.startswith("lm_head") else f"transformer.{k}": v.contiguous() for k, v in turned.items()}
    model.load_state_dict(named)
    return model.eval()


def word_level(names):
    """A tokenizer of transformers in which each character is a token."""
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=names[-1]))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def test_a_folder_with_one_checkpoint_of_ours_is_that_checkpoint(capsys):
    Path("mine").mkdir()
    save_checkpoint(load_checkpoint("dyck-standard")[:2], "mine/two.safetensors")
    assert len(load_checkpoint("mine")) == 2
    assert main(["analyze", "stack", "mine"]) == 0
    assert "2 models" in capsys.readouterr().out
    assert main(["analyze", "stack", "mine", "--vocab", "v.json"]) == 2
    assert "--vocab 'v.json' changes nothing here" in capsys.readouterr().err


def test_what_no_file_of_ours_holds_is_not_saved_in_silence():
    model = hugging_face(load_checkpoint("dyck-standard")[0], list(range(7)))
    read_by_tokenizer = load_foreign(model, tokenizer=word_level(["a", "b", "c", "d", *NAMES[4:]]), verbose=False)
    with pytest.raises(InterpError, match="read by a tokenizer, which no checkpoint of ours holds"):
        save_checkpoint(read_by_tokenizer, "x.safetensors")
    bridge = load_foreign(small_decoder("llama", vocab=7), vocab=list("abcdefg"), verbose=False)
    with pytest.raises(InterpError):
        save_checkpoint(bridge, "x.safetensors")
    assert not Path("x.safetensors").exists()


def test_attention_that_was_measured_elsewhere(capsys):
    made = walk("arrays")
    said = capsys.readouterr().out
    for part in ("Attention variation", "Stack-likeness", "Every head against every relation", "use not asked"):
        assert part in said
    assert len(made["figure"].data) > 1
