"""Causal models of no world: default inputs (repetitions, a text), the question of the next token, audits of both."""

import json

import numpy as np
import pytest
import torch

from interp import SandboxTransformer, TransformerConfig, load_checkpoint, load_foreign
from interp.claims import language
from interp.claims.general import INDUCTION, PREVIOUS
from interp.claims.language import LENGTH, NEXT_TOKEN, Repeated, draw_language, repeated
from interp.cli import main
from interp.errors import AnalysisError, InterpError, RequestError
from interp.guests import TokenizerVocabulary
from interp.vocabulary import Vocabulary
from probes import analyze_variation, audit_claim, scan_heads
from probes.claims import evenly

INDUCES = "L1H0 is an induction head"


def a_tokenizer(vocab_size=400):
    """Byte pairs learned from the text itself, with START."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=["<s>", "<unk>"], show_progress=False)
    made.train_from_iterator(language.PASSAGE.read_text().splitlines(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", unk_token="<unk>")


@pytest.fixture(scope="module")
def tokenizer():
    return a_tokenizer()


def gpt2(size, layers=2, heads=4, seed=0, width=32):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(vocab_size=size, n_positions=40, n_embd=width, n_layer=layers, n_head=heads))


def llama(size):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=size, num_key_value_heads=1, max_position_embeddings=64, **shape)
    return LlamaForCausalLM(config)


def circuit(grammar=None):
    """The hand-written induction circuit as a model of no world, that may answer any token."""
    made = load_checkpoint("constructed/induction")
    state = dict(made.state_dict())
    for name in ("unembed.W_U", "unembed.b_U"):
        if name in state:
            extra = torch.zeros(*state[name].shape[:-1], made.config.d_vocab - state[name].shape[-1])
            state[name] = torch.cat([state[name], extra], -1)
    model = SandboxTransformer(
        TransformerConfig.from_dict(made.config.to_dict() | {"d_vocab_out": None, "class_names": None}), grammar
    )
    model.load_state_dict(state)
    return model


# -- inputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 12, 33, 50_000])
def test_of_random_tokens_a_stretch_comes_twice(size):
    rows = repeated(np.arange(size) + 7, 50, 32, 0)
    assert rows.shape == (50, 32)
    assert rows.min() >= 7
    assert rows.max() < size + 7
    gaps = set()
    for row in rows:
        twice = [g for g in range(6, 13) if (row[:-g] == row[g:]).sum() >= g]
        assert twice
        if size >= 33:
            assert len(set(row.tolist())) == 32 - twice[0]
        gaps.add(twice[0])
    assert len(gaps) > 3, "one distance is always right"
    assert np.array_equal(rows, repeated(np.arange(size) + 7, 50, 32, 0))
    assert not np.array_equal(rows, repeated(np.arange(size) + 7, 50, 32, 1))


def test_claims_about_copies_are_asked_on_repetitions_and_others_on_the_text(tokenizer):
    words = TokenizerVocabulary.alone(tokenizer, 400)
    text = draw_language(words, 400, [PREVIOUS], None, 33, 0)
    assert "Lewis Carroll" in text.words
    assert text.tokens.shape == (200, 33)
    assert (text.tokens[:, 0] == words.start).all()
    assert not np.isin(text.tokens[:, 1:], tokenizer.all_special_ids).any()
    pieces = tokenizer.decode(text.tokens[0, 1:].tolist())
    assert pieces in "".join(language.PASSAGE.read_text().splitlines())
    for relations in ([INDUCTION], [PREVIOUS, evenly(INDUCTION)]):
        drawn = draw_language(words, 400, relations, None, 33, 0)
        assert "a stretch of which comes twice (so that there are earlier copies to look for)" in drawn.words
        assert not np.isin(drawn.tokens[:, 1:], tokenizer.all_special_ids).any()
    assert draw_language(None, 30, [PREVIOUS], 120, 16, 0).tokens.shape == (120, 16)
    letters = Vocabulary(("a", "b", "c", "<s>"), start=3)
    drawn = draw_language(letters, 4, [PREVIOUS], None, 16, 0)
    assert "does not read English text" in drawn.words
    assert (drawn.tokens[:, 0] == 3).all()
    assert drawn.tokens[:, 1:].max() == 2


def test_the_text_is_cut_into_shorter_pieces_before_there_are_too_few(tokenizer):
    words = TokenizerVocabulary.alone(tokenizer, 400)
    whole = draw_language(words, 400, [PREVIOUS], 400, 33, 0).tokens
    assert whole.shape[0] == 400
    assert 8 < whole.shape[1] < 33
    with pytest.raises(RequestError, match=r"num_inputs=5000 is more than the .* pieces of 8 tokens"):
        draw_language(words, 400, [PREVIOUS], 5000, 33, 0)
    with pytest.raises(AnalysisError, match="too few to repeat"):
        draw_language(None, 30, [PREVIOUS], None, 3, 0)


def test_the_text_is_the_one_that_is_named():
    text = language.PASSAGE.read_bytes()
    assert len(text) < 20_000
    assert text.startswith(b"Alice was beginning to get very tired of sitting by her sister on the bank")
    assert text.isascii()


# -- the question -------------------------------------------------------------------------------------------


def test_pairs_of_repetitions_are_minimal():
    tokens = np.concatenate([np.full((60, 1), 40), repeated(np.arange(40), 60, 32, 0)], axis=1)
    grammar = Vocabulary((*(f"w{i}" for i in range(40)), "<s>"), start=40)
    question = NEXT_TOKEN.on(tokens, grammar)
    assert isinstance(question, Repeated)
    rows = np.ones(tokens.shape, dtype=bool)
    for kind in question.kinds:
        items = question.items(tokens, grammar, rows, 0, kind=kind)
        assert len(items) == 60
        for at in range(len(items)):
            base, donor, q = items.tokens[at].tolist(), items.donors[at].tolist(), items.read[at]
            assert base == tokens[items.sequence[at]].tolist()
            assert base[q] == donor[q]
            copy = max(i for i in range(q) if base[i] == base[q])
            new = max(i for i in range(q) if donor[i] == base[q])
            assert (base[copy + 1], donor[new + 1]) == (items.answer[at], items.foil[at])
            assert items.answer[at] == base[q + 1] != items.foil[at]
            changed = [i for i in range(33) if base[i] != donor[i]]
            assert items.flipped[at] in changed
            assert changed == ([copy + 1] if kind == "content" else sorted({copy, new}))
            assert donor[0] == 40


def test_pairs_of_texts_are_read_where_another_token_follows():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 500, (40, 12))
    tokens[:10, 9:] = 500
    grammar = Vocabulary((*(f"w{i}" for i in range(500)), "<pad>"), pad=500)
    assert NEXT_TOKEN.on(tokens, grammar) is NEXT_TOKEN
    rows = np.zeros(tokens.shape, dtype=bool)
    rows[::2] = True
    items = NEXT_TOKEN.items(tokens, grammar, rows, 0)
    assert np.bincount(items.sequence, minlength=40).tolist() == [2, 0] * 20
    assert set(map(tuple, items.donors)) <= set(map(tuple, tokens[::2]))
    each = np.arange(len(items))
    assert np.array_equal(items.answer, items.tokens[each, items.read + 1])
    assert np.array_equal(items.foil, items.donors[each, items.read + 1])
    assert (items.answer != items.foil).all()
    assert not (np.stack([items.answer, items.foil]) == 500).any()
    assert np.array_equal(items.unit, items.sequence)


# -- audits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", [None, Vocabulary((*"abcdefghijkl", "<s>"), start=12)], ids=["ids", "names"])
def test_a_circuit_that_repeats_is_found_and_used(grammar):
    found = audit_claim(circuit(grammar), f"{INDUCES}")
    assert (found.verdict, found.pattern, found.use, found.task) == ("supported", "holds", "used", "next-token")
    assert "a stretch of which comes twice" in found.drawn
    assert f"Inputs drawn: {found.drawn[:20]}" in found.summary()
    assert found.to_dict()["drawn"] == found.drawn
    for text in (
        "L1H0 uses the token after an earlier copy to predict the next token",
        "L0H0 uses the previous token to predict the next token",
    ):
        assert audit_claim(circuit(grammar), text).verdict == "supported", text


def test_a_world_draws_as_before_and_says_nothing(tmp_path):
    found = audit_claim(load_checkpoint("constructed/induction"), "L0H0 attends to the previous token", num_inputs=120)
    assert found.drawn == ""
    assert "drawn" not in found.to_dict()
    assert found.task == "recall"


def test_a_model_that_predicts_nothing_leaves_use_open():
    model = load_foreign(gpt2(50, layers=1, heads=2), verbose=False)
    found = audit_claim(model, "L0H0 uses the previous token to predict the next token", num_inputs=120)
    assert (found.pattern, found.use, found.verdict) == ("fails", "undecided", "refuted")


def test_texts_of_ones_own_are_asked_for_their_next_tokens(tokenizer):
    model = load_foreign(gpt2(len(tokenizer)), tokenizer=tokenizer, verbose=False)
    text = language.PASSAGE.read_text()
    texts = [f"{text[40 * i : 40 * i + 40]} and so on and on and on".replace("\n", " ") for i in range(300)]
    rows = np.stack([model.grammar.read(one)[:10] for one in texts])
    found = audit_claim(model, "L0H0 uses the previous token to predict the next token", rows)
    assert (found.task, found.drawn) == ("next-token", "")


@pytest.mark.parametrize("make", [lambda size: gpt2(size, heads=2), llama], ids=["gpt2", "llama"])
def test_a_folder_is_audited_and_scanned_without_a_file_of_inputs(make, tokenizer, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(len(tokenizer)).save_pretrained("mine")
    tokenizer.save_pretrained("mine")
    capsys.readouterr()
    assert main(["audit", "mine", "--claim", "L1H1 is an induction head", "--json", "a.json"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Verdict: refuted (pattern fails, use not asked)" in said
    assert "Inputs drawn: 200 of START, then 32 random tokens, a stretch of which comes twice" in said
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["num_inputs"] == 200
    assert "comes twice" in told["drawn"]
    asks = "L1H1 uses the previous token to predict the next token"
    assert main(["audit", "mine", "--claim", asks, "--num-inputs", "110", "--json", "b.json"]) == 0
    told = json.loads((tmp_path / "b.json").read_text())
    assert (told["task"], told["use"]) == ("next-token", "undecided")
    assert "110 pieces of the beginning of Alice" in told["drawn"]


def test_a_scan_of_a_folder_without_a_tokenizer(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gpt2(60, layers=1).save_pretrained("ids")
    assert main(["scan", "ids", "--num-inputs", "100", "--json", "s.json"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Inputs drawn: 100 of 32 random tokens, a stretch of which comes twice" in said
    assert "matters: share of the margin (predict the next token)" in said
    assert "drawn" in json.loads((tmp_path / "s.json").read_text())


def test_a_model_of_few_positions_gets_short_inputs():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    made = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=12, n_embd=16, n_layer=1, n_head=2))
    model = load_foreign(made, verbose=False)
    assert "200 of 12 random tokens" in scan_heads(model, ["previous"]).drawn
    with pytest.raises(InterpError, match="n_ctx=12"):
        audit_claim(model, "L0H0 attends to the previous token", length=30)


def test_variation_shows_language_models_what_audits_show_them(tokenizer):
    models = [load_foreign(gpt2(len(tokenizer), seed=seed), tokenizer=tokenizer, verbose=False) for seed in range(3)]
    found = analyze_variation(models, num_inputs=5, untrained=False)
    drawn = draw_language(models[0].grammar, models[0].cfg.d_vocab, (), 5, LENGTH, 0)
    same = analyze_variation(models, drawn.tokens, untrained=False)
    assert [v.value for v in found.variation] == [v.value for v in same.variation]
    more = analyze_variation(models, num_inputs=5, untrained=False, seed=1)
    assert [v.value for v in more.variation] != [v.value for v in found.variation]
    with pytest.raises(AnalysisError, match="needs inputs"):
        analyze_variation([load_foreign(gpt2(50, seed=seed), verbose=False) for seed in range(3)])
