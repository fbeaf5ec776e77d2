"""Whose token is which: mappings onto a world's tokens, what is printed of them, and the world's task asked at once."""

import json

import pytest
import torch

from closeness import assert_close
from gpts import NanoGPT, nano_state, spread
from interp import DyckGrammar, load_checkpoint, load_foreign
from interp.errors import AnalysisError, InterpError
from interp.foreign import exchanged
from interp.foreign.exchanged import better_mapping
from interp.foreign.ids import read_meaning
from interp.guests import is_bridge
from interp.patterns import attention_patterns
from interp.registry import get_world
from interp.stats import Estimate
from interp.vocabulary import Vocabulary
from plain_decoder import small_decoder
from probes import analyze_balance, analyze_stack_likeness, audit_claim

OWN = [5, 2, 0, 6, 1, 4, 3]  # the id that each id of the grammar ( ) [ ] START END PAD has in the foreign model
MEANS = dict(zip(OWN, ["(", ")", "[", "]", "START", "END", "PAD"], strict=True))
CONFIG = {"n_head": 1, "act_fn": "gelu_new"}


@pytest.fixture(scope="module")
def ours():
    return load_checkpoint("dyck-standard")[0]


@pytest.fixture(scope="module")
def theirs(ours):
    return nano_state(ours, OWN)


def permuted(model, tokens):
    """Logits of the model that our own is, to ids of the grammar."""
    with torch.no_grad():
        return model(tokens)


@pytest.mark.parametrize(
    "vocab",
    [
        MEANS,
        {str(i): name for i, name in MEANS.items()},
        [MEANS[i] for i in range(7)],
        {name: i for i, name in MEANS.items()},
        {**MEANS, 1: "<s>", 4: "[END]", 3: "<|pad|>"},
    ],
    ids=["ids", "digits", "list", "names", "usual names"],
)
def test_every_form_of_a_vocabulary_maps_the_model_onto_the_grammar(vocab, ours, theirs, capsys, tmp_path):
    model = load_foreign(theirs, CONFIG, vocab)
    assert model.grammar == DyckGrammar(2, 4)
    tokens = model.to_tokens(["([])[]", "[[()]]"])
    kept = [i for i in range(7) if i != model.grammar.start]
    assert_close(permuted(model, tokens)[..., kept], permuted(ours, tokens)[..., kept], ulps=200)
    said = capsys.readouterr().out
    assert "(id 1) is START" in said or "id 1 is START" in said
    assert "most probable closer has the right type" in said  # the task, asked at once
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    load_foreign(theirs, CONFIG, tmp_path / "vocab.json", verbose=False)
    assert capsys.readouterr().out == ""


def test_what_is_measured_of_a_mapped_model_is_what_is_measured_of_our_own(ours, theirs):
    model = load_foreign(theirs, CONFIG, MEANS, verbose=False)
    text = "([])[()]"
    for found, right in zip(*(attention_patterns(m, m.to_tokens(text)) for m in (model, ours)), strict=True):
        assert_close(found, right, ulps=200, dtype=torch.float32)
    one, other = (analyze_stack_likeness(m, seed=0).to_dict()["score"] for m in (model, ours))
    assert one[1][0]["value"] == pytest.approx(other[1][0]["value"], rel=1e-4)


def test_a_wrong_mapping_is_refused_at_once_and_told_the_cause(theirs):
    wrong = {**MEANS, 2: "]", 6: ")"}
    with pytest.raises(AnalysisError, match=r"vocab= says of its token ids something else than they mean"):
        load_foreign(theirs, CONFIG, wrong)
    assert load_foreign(theirs, CONFIG, wrong, task_check=False).grammar == DyckGrammar(2, 4)


@pytest.mark.parametrize(("wrong", "said"), [
    ({1: "PAD", 3: "START"}, "START and PAD"), ({5: ")", 2: "("}, "exchanged"),
])  # fmt: skip
def test_ids_in_each_others_place_are_refused(wrong, said, theirs):
    """The strings are predicted much better with the right meanings."""
    with pytest.raises(AnalysisError, match=said):
        load_foreign(theirs, CONFIG, {**MEANS, **wrong})
    assert "doubt" not in load_foreign(theirs, CONFIG, MEANS, verbose=False).provenance


def test_strings_of_tokens_that_a_model_lacks_say_nothing_of_its_ids(ours):
    assert better_mapping(ours, tuple(range(7)), ours.grammar, None) is None
    wrong = (1, 0, *range(2, 7))
    assert better_mapping(ours, wrong, ours.grammar, None).said == "( and )"
    assert better_mapping(ours, (None, *wrong[1:]), ours.grammar, None) is None


def gains(monkeypatch, gain):
    monkeypatch.setattr(exchanged, "mean_over_inputs", lambda values, level: Estimate(gain, gain, gain, 64, "inputs"))


@pytest.mark.parametrize(("gain", "word"), [
    (exchanged.LEAST, None), (exchanged.LEAST * 1.01, "doubtful"),
    (exchanged.MUCH * 0.99, "doubtful"), (exchanged.MUCH, "refused"),
])  # fmt: skip
def test_a_better_mapping_is_told_or_refused_by_what_it_gains(gain, word, theirs, capsys, monkeypatch):
    gains(monkeypatch, gain)
    if word == "refused":
        with pytest.raises(AnalysisError, match="exchanged it predicts this world's strings better"):
            load_foreign(theirs, CONFIG, MEANS)
    else:
        model = load_foreign(theirs, CONFIG, MEANS)
        assert ("doubt" in model.provenance) == ("doubtful: with" in capsys.readouterr().out) == (word is not None)
        summary = " ".join(analyze_stack_likeness(model, seed=0).summary().split())
        assert ("predicts this world's strings better" in summary) == (word is not None)
    load_foreign(theirs, CONFIG, MEANS, task_check=False)


def test_ids_that_are_no_tokens_of_the_world_are_left_out(theirs, ours, capsys):
    wide = dict(theirs)
    for name in ("wte.weight", "lm_head.weight"):
        wide[name] = torch.cat([theirs[name], 3 * theirs[name][:2]])
    wide["lm_head.bias"] = torch.cat([theirs["lm_head.bias"], torch.ones(2)])
    model = load_foreign(wide, CONFIG, MEANS)
    assert "ids 7, 8 are left out" in capsys.readouterr().out
    tokens = model.to_tokens("([])")
    assert_close(permuted(model, tokens), permuted(ours, tokens), ulps=200)


def test_one_id_may_be_start_and_end():
    """Strings behind one another, one separator between: what it predicts is the end."""
    model = spread(NanoGPT(vocab=5))
    vocab = {0: ["START", "END"], 1: "(", 2: ")", 3: "[", 4: "]"}
    mapped = load_foreign(model.state_dict(), model.args, vocab, task_check=False, verbose=False)
    g = mapped.grammar
    tokens = mapped.to_tokens("([])")
    with torch.no_grad():
        raw, logits = model(torch.tensor([[0, 1, 3, 4, 2]])), mapped(tokens)
    assert_close(logits[..., g.end], raw[..., 0], ulps=200, scale=raw)
    assert bool((logits[..., g.start] < logits[..., : g.start].min(-1).values).all())


def test_a_grammar_of_any_world_takes_a_vocabulary_by_names(capsys):
    grammar = get_world("flipflop").grammars[0]()
    names = ["<pad>", *reversed(grammar.vocab)]
    model = spread(NanoGPT(vocab=len(names)))
    how = {"grammar": grammar, "task_check": False}
    mapped = load_foreign(model.state_dict(), model.args, names, **how)
    assert "id 0 is left out" in capsys.readouterr().out
    tokens = torch.arange(grammar.vocab_size)[None]
    with torch.no_grad():
        raw = model(torch.tensor([[names.index(name) for name in grammar.vocab]]))
        assert_close(mapped(tokens), raw[..., [names.index(name) for name in grammar.vocab]], ulps=200)
    with pytest.raises(InterpError, match="has no"):
        load_foreign(model.state_dict(), model.args, ["z", *names[1:-1], "y"], **how)


def test_a_bridge_is_spoken_to_in_the_grammars_ids():
    plain = small_decoder("llama", vocab=7)
    mapped = load_foreign(plain, vocab=MEANS, task_check=False, verbose=False)
    assert is_bridge(mapped)
    assert mapped.cfg.d_vocab == 7
    tokens = mapped.to_tokens("([])[]")
    ids = torch.tensor(OWN)[tokens]
    with torch.no_grad():
        assert_close(mapped(tokens), plain(ids).logits[..., OWN], ulps=200)
    assert mapped.to_str_tokens("()") == ["START", "(", ")"]
    other = load_foreign(plain, verbose=False)
    for found, right in zip(attention_patterns(mapped, tokens), attention_patterns(other, ids), strict=True):
        assert_close(found, right, ulps=200, dtype=torch.float32)
    assert analyze_balance(mapped, seed=0, length=12, task_check=False).functional.value is not None
    result = audit_claim(mapped, "L0H4 attends to the matching open bracket", num_inputs=60, task_check=False)
    assert result.verdict in ("refuted", "undecided", "misleading", "supported")
    with pytest.raises(AnalysisError, match=r"at chance|not legal"):
        load_foreign(plain, vocab=MEANS)


def test_an_adapted_model_is_audited_by_its_patterns(ours):
    def run(tokens):
        return ours(tokens), [torch.from_numpy(p) for p in attention_patterns(ours, tokens)]

    vocab = list(ours.grammar.vocab)
    model = load_foreign(run, vocab=vocab, verbose=False)
    found, right = (analyze_stack_likeness(m, seed=0).to_dict()["score"] for m in (model, ours))
    assert [[h["value"] for h in layer] for layer in found] == [[h["value"] for h in layer] for layer in right]
    result = audit_claim(model, "L1H0 attends to the matching open bracket", num_inputs=100)
    assert result.use == "not asked"
    whole = audit_claim(ours, "L1H0 attends to the matching open bracket", num_inputs=100)
    assert result.pattern == whole.pattern


def test_a_vocabulary_of_no_world_is_one_of_names():
    model = spread(NanoGPT())
    named = load_foreign(model.state_dict(), model.args, list("abcdefg"), verbose=False)
    assert named.grammar == Vocabulary.of(list("abcdefg"))
    assert named.to_tokens("gab").tolist() == [[6, 0, 1]]
    bridge = load_foreign(small_decoder("llama", vocab=7), vocab=list("abcdefg"), verbose=False)
    assert bridge.to_tokens("gab").tolist() == [[6, 0, 1]]


@pytest.mark.parametrize(
    ("vocab", "how", "message"),
    [
        ({0: "START", 1: "(", 9: ")"}, {}, "vocab says what id 9 means, and the model has ids 0 to 6"),
        ({0: "START", 1: "(", 2: "("}, {}, r"of ids 1 and 2 that they mean '\('"),
        ({"BEGIN": "START", 1: "(", 2: ")"}, {}, "'BEGIN' means, and no tokenizer tells its id: give the id"),
        ({0: "START", 1: "x"}, {}, "in which no world finds all its tokens"),
        ({0: 3.5, 1: "("}, {}, "vocab maps tokens to ids"),
        ({0: []}, {}, r"id 0 means \[\]"),
        ({0: "START", 1: "(", 2: ")"}, {"grammar": DyckGrammar(2, 4)}, "1 bracket types"),
        ({0: "START", 1: "(", 2: ")"}, {"pad_token": 2}, "in a vocabulary that is mapped onto a grammar PAD"),
        (list("abcd"), {}, "vocab names 4 tokens, and the model has 7 ids"),
    ],
)
def test_mappings_that_do_not_fit_are_refused(vocab, how, message):
    model = spread(NanoGPT())
    with pytest.raises(InterpError, match=message) as caught:
        load_foreign(model.state_dict(), model.args, vocab, task_check=False, **how)
    assert "\n" not in str(caught.value)


def test_names_of_a_tokenizer_may_stand_for_ids():
    """START under any name, pairs of any spelling."""
    how = {"grammar": None, "max_depth": None, "classifier": False, "longest": 32}
    known = ["L2", "BEGIN", "R1", "FILL", "STOP", "L1", "R2"]
    meant = {"BEGIN": "START", "L1": "(", "R1": ")", "L2": "[", "R2": "]", "STOP": "END", "FILL": "PAD"}
    found = read_meaning(meant, 7, **how, tokenizer_names=known)
    assert found.order == (5, 2, 0, 6, 1, 4, 3)
    assert found.language == DyckGrammar(2, 4)
    assert "BEGIN (id 1) is START" in found.said
    with pytest.raises(InterpError, match="'BEGUN' means, which is not a token of the tokenizer"):
        read_meaning({"BEGUN": "START"}, 7, **how, tokenizer_names=known)
