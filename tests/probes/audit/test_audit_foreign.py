"""Audits of other people's models on labelled inputs: classifiers and language models whose truth is made by hand."""

import copy
import json
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import Population, SandboxTransformer, TransformerConfig, load_foreign
from interp.cli import main
from interp.errors import InterpError
from interp.grammars import DyckGrammar
from probes import LabelledInput, audit_claim
from probes.audit.bridge import ridge
from probes.audit.labels import Labels, LaidOut, labelled, lay_out

WORDS = ["[CLS]", "[PAD]", "!", "a", "b", "c", "d", "e", "f"]  # 1 PAD, 2 the marker
LETTERS = WORDS[3:]
CLASSES = ["one", "two", "three"]
N, D = 16, 9 + 16  # one direction a token, one a position


def marked(count, seed, lengths=(10, 12, 14)):
    """Texts with one marker; the label is the class of the letter before it."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        text = list(rng.choice(LETTERS, int(rng.choice(lengths))))
        place = int(rng.integers(1, len(text)))
        text[place] = "!"
        out.append({"text": "".join(text), "label": CLASSES[LETTERS.index(text[place - 1]) // 2], "position": 0})
    return out


def classifier():
    """A bidirectional classifier read at [CLS], of two layers with two heads.

    In layer 0 both heads attend to the previous token and write its class, head 1 where nobody reads. In layer 1 both
    heads attend to the marker from everywhere; head 0 carries on what head 0 of layer 0 wrote there, head 1 nothing.
    """
    config = {
        "n_layers": 2, "n_heads": 2, "d_model": D + 6, "d_head": D + 6, "d_mlp": 4, "act_fn": "relu", "n_ctx": N,
        "d_vocab": 9, "d_vocab_out": 3, "normalization_type": None, "attention_dir": "bidirectional",
        "class_names": CLASSES,
    }  # fmt: skip
    width, strong = D + 6, 60.0
    t = torch.zeros
    state = {"embed.W_E": t(9, width), "pos_embed.W_pos": t(N, width), "unembed.W_U": t(width, 3), "unembed.b_U": t(3)}
    state["embed.W_E"][:, :9] = torch.eye(9)
    state["pos_embed.W_pos"][:, 9 : 9 + N] = torch.eye(N)
    for layer in range(2):
        b = f"blocks.{layer}."
        state |= {f"{b}attn.W_{x}": t(2, width, width) for x in "QKVO"}
        state |= {f"{b}attn.b_{x}": t(2, width) for x in "QKV"} | {f"{b}attn.b_O": t(width)}
        state |= {f"{b}mlp.W_in": t(width, 4), f"{b}mlp.b_in": t(4), f"{b}mlp.W_out": t(4, width)}
        state |= {f"{b}mlp.b_out": t(width), f"{b}attn.mask": torch.ones(N, N, dtype=torch.bool)}
        state |= {f"{b}attn.IGNORE": torch.tensor(-1e5)}
    scale = strong * width**0.5
    for head in range(2):
        for place in range(N):  # the query at `place` looks for the key before it
            state["blocks.0.attn.W_Q"][head, 9 + place, place] = scale
            if place + 1 < N:
                state["blocks.0.attn.W_K"][head, 9 + place, place + 1] = 1.0
        for letter in range(6):
            state["blocks.0.attn.W_V"][head, 3 + letter, letter // 2] = 1.0
        state["blocks.0.attn.W_O"][head, range(3), [D + 3 * head + i for i in range(3)]] = 1.0
        state["blocks.1.attn.b_Q"][head, 0] = scale
        state["blocks.1.attn.W_K"][head, 2, 0] = 1.0
        state["blocks.1.attn.W_V"][head, [D + i for i in range(6)], range(6)] = 1.0
    # Head 0 of layer 1 carries on what head 0 of layer 0 wrote; head 1 has the same pattern and no output.
    state["blocks.1.attn.W_O"][0, range(3), [D, D + 1, D + 2]] = 1.0
    state["unembed.W_U"][[D, D + 1, D + 2], range(3)] = 4.0
    return load_foreign(state, config, WORDS)


INPUTS = marked(700, 0)
MARKER = "L1H{} {} the token !"


def words(result):
    return f"{result.pattern} {result.use} {result.verdict}"


def evidence(result, name):
    return next(row for row in result.evidence if row["name"] == name)


def test_the_classifier_does_its_task():
    model = classifier()
    given = lay_out(labelled(INPUTS), model, model.grammar)
    assert (given.tokens == 1).any()
    with torch.no_grad():
        logits = model(torch.from_numpy(given.tokens))[:, 0]
    assert (logits.argmax(-1).numpy() == given.label).all()


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("L1H0 attends to the token !", "holds used supported"),
        ("L1H0 uses the token !", "holds used supported"),
        ("L1H0 uses the token ! to predict the label", "holds used supported"),
        ("L1H0 attends to the token ! when the current token is [CLS]", "holds used supported"),
        ("L1H1 attends to the token !", "holds unused supported"),
        ("L1H1 uses the token !", "holds unused misleading"),
        ("L0H0 attends to the previous token", "holds used supported"),
        ("L0H1 attends to the previous token", "holds unused supported"),
        ("L0H1 uses the previous token", "holds unused misleading"),
        ("L1H0 attends to the previous token", "fails used refuted"),
    ],
)
@pytest.mark.slow
def test_a_padded_bidirectional_classifier(claim, expected):
    result = audit_claim(classifier(), claim, INPUTS)
    if result.pattern == "fails":
        assert expected.startswith("fails"), result.reason
        assert result.verdict == "refuted"
    else:
        assert words(result) == expected, result.reason
    assert result.task == "labels"


@pytest.mark.slow
def test_the_exchange_turns_the_answer_over():
    result = audit_claim(classifier(), "L1H0 uses the token !", INPUTS)
    assert evidence(result, "margin")["value"] == pytest.approx(4, rel=0.12)
    assert evidence(result, "raw")["value"] > 1.2  # 2 where the donor's marker stands at the same place
    # One marker for another: what it says was put there by layer 0.
    assert evidence(result, "token")["value"] == pytest.approx(0, abs=0.05)  # absolute: a margin is 4


@pytest.mark.slow
def test_a_population_of_foreign_models():
    result = audit_claim(Population.from_models([classifier()] * 6), "L1H0 attends to the token !", marked(300, 3))
    assert (result.num_models, result.task, result.verdict) == (6, "labels", "supported"), result.reason


def test_inputs_without_labels_are_for_patterns_only():
    given = [{"text": entry["text"]} for entry in INPUTS[:300]]
    for claim, verdict in (("L1H1 attends to the token !", "supported"), ("L1H1 uses the token !", "undecided")):
        result = audit_claim(classifier(), claim, given)
        assert words(result) == f"holds not asked {verdict}", result.reason
    result = audit_claim(classifier(), "L1H1 uses the token ! to predict the label", given)
    assert (result.use, result.verdict) == ("not asked", "undecided")
    assert "carry no labels" in result.reason


@pytest.mark.slow
def test_entries_may_be_objects_lists_of_tokens_and_files(tmp_path):
    entries = marked(300, 5)
    claim = "L1H0 attends to the token !"
    expected = audit_claim(classifier(), claim, entries).to_dict()
    objects = [LabelledInput(**entry) for entry in entries]
    spelled = [{**entry, "text": ["[CLS]", *entry["text"]]} for entry in entries]
    numbers = [{**entry, "label": CLASSES.index(entry["label"])} for entry in entries]
    file = tmp_path / "inputs.json"
    file.write_text(json.dumps(entries))
    for given in (objects, spelled, numbers, file):
        assert audit_claim(classifier(), claim, given).to_dict() == expected


def test_too_few_donors_are_undecided_and_said_so():
    alone = [entry | {"label": CLASSES[0]} for entry in INPUTS[:300]]
    result = audit_claim(classifier(), "L1H0 attends to the token !", alone)
    assert (result.pattern, result.use) == ("holds", "undecided")
    assert "0 inputs have a donor" in result.reason


# -- language models ----------------------------------------------------------------------------------------

NAMES = ["<bos>", "<pad>", *"abcdefgh"]


def copier():
    """A causal model of one layer: both heads attend to the previous token, and head 0 predicts it again."""
    config = {
        "n_layers": 1, "n_heads": 2, "d_model": 10 + N, "d_head": 26, "attn_only": True, "n_ctx": N, "d_vocab": 10,
        "normalization_type": None,
    }  # fmt: skip
    width = 10 + N
    state = {"embed.W_E": torch.eye(10, width), "pos_embed.W_pos": torch.eye(N, width).roll(10, 1)}
    q, k = torch.zeros(2, width, 26), torch.zeros(2, width, 26)
    for place in range(N - 1):
        q[:, 10 + place + 1, place], k[:, 10 + place, place] = 60 * 26**0.5, 1.0
    state |= {"blocks.0.attn.W_Q": q, "blocks.0.attn.W_K": k, "blocks.0.attn.W_V": torch.eye(width, 26).repeat(2, 1, 1)}
    out = torch.zeros(2, 26, width)
    out[0, range(10), range(10)] = 5.0
    state |= {"blocks.0.attn.W_O": out, "blocks.0.attn.b_O": torch.zeros(width), "unembed.b_U": torch.zeros(10)}
    state |= {f"blocks.0.attn.b_{x}": torch.zeros(2, 26) for x in "QKV"}
    return load_foreign(state | {"unembed.W_U": torch.eye(width, 10)}, config, NAMES)


def copies(count=400, seed=0):
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("abcdefgh"), int(rng.choice([8, 11])))) for _ in range(count)]
    return [{"text": text, "label": text[-2]} for text in texts]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("L0H0 attends to the previous token", "holds used supported"),
        ("L0H0 uses the previous token", "holds used supported"),
        ("L0H1 uses the previous token to predict the label", "holds unused misleading"),
    ],
)
@pytest.mark.slow
def test_a_language_model_with_a_vocabulary_of_its_own(claim, expected):
    result = audit_claim(copier(), claim, copies())
    assert words(result) == expected, result.reason


@pytest.mark.slow
def test_a_model_without_a_vocabulary_takes_ids():
    model = copier()
    state = dict(model.state_dict())
    config = {
        "n_layers": 1, "n_heads": 2, "d_model": 26, "d_head": 26, "attn_only": True, "n_ctx": N, "d_vocab": 10,
        "normalization_type": None, "pad_token": 1,
    }  # fmt: skip
    bare = load_foreign(state, config)
    entries = copies()
    ids = [{"text": [0, *map(NAMES.index, e["text"])], "label": NAMES.index(e["label"])} for e in entries]
    for claim in ("L0H0 uses the previous token", "L0H1 uses the previous token"):
        one, other = audit_claim(bare, claim, ids), audit_claim(model, claim, entries)
        assert (words(one), evidence(one, "margin")) == (words(other), evidence(other, "margin"))


# -- brackets -----------------------------------------------------------------------------------------------


def test_unbalanced_strings_may_be_audited():
    config = {
        "n_layers": 3, "n_heads": 2, "d_model": 56, "d_head": 28, "d_mlp": 56, "act_fn": "relu", "n_ctx": 42,
        "attention_dir": "bidirectional", "d_vocab": 5, "d_vocab_out": 2,
    }  # fmt: skip
    shape = TransformerConfig(5, 3, 2, 56, 28, 56, n_ctx=42, positions="learned", activation="relu", d_vocab_out=2)
    state = SandboxTransformer.init(shape, 0).state_dict()
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("()"), int(rng.choice([12, 16, 20])))) for _ in range(400)]
    given = [{"text": t, "label": int(t.count("(") == t.count(")")), "position": 0} for t in dict.fromkeys(texts)]
    model = load_foreign(state, config, ["[start]", "[pad]", "[end]", "(", ")"])
    result = audit_claim(model, "L0H0 attends to the last unmatched open bracket", given)
    assert result.pattern == "fails"
    assert result.task == "labels"


# -- readouts -----------------------------------------------------------------------------------------------


def test_the_ridge_finds_a_linear_law_and_ignores_noise():
    rng = np.random.default_rng(0)
    x, law = rng.normal(size=(200, 5)), rng.normal(size=(5, 2))
    weight, bias = ridge(x, x @ law + 3)
    assert np.abs(weight - law).max() < 1e-3 * np.abs(law).max()  # what the ridge shrinks
    assert bias == pytest.approx([3, 3], rel=1e-3)
    weight, _ = ridge(rng.normal(size=(60, 300)), rng.normal(size=(60, 2)))
    assert np.abs(weight).max() < 0.1 * np.abs(law).max()


@pytest.mark.slow
def test_a_probe_reads_what_the_models_own_logits_read():
    for claim, expected in (("L1H0 uses the token !", "used"), ("L1H1 uses the token !", "unused")):
        result = audit_claim(classifier(), claim, INPUTS, readout="probe")
        assert result.use == expected, result.reason
    with pytest.raises(InterpError, match="readout 'head' is neither"):
        audit_claim(classifier(), claim, INPUTS, readout="head")
    with pytest.raises(InterpError, match="two labels or more"):
        audit_claim(classifier(), claim, [{"text": e["text"]} for e in INPUTS], readout="probe")


@pytest.fixture(scope="module")
def encoder():
    from case_studies.topics_wikipedia.encoder import load_encoder

    try:
        return load_encoder().bridge
    except InterpError as error:
        pytest.skip(f"no encoder here: {error}")


def sentences(count=140):
    rng = np.random.default_rng(0)
    adjectives = {"bad": "bad awful nasty poor ugly sad".split(), "good": "good great lovely fine nice happy".split()}
    out = {}
    while len(out) < count:
        label = ("bad", "good")[int(rng.integers(2))]
        text = f"the {rng.choice('film book day house meal trip song'.split())} was {rng.choice(adjectives[label])}"
        text += ["", " for me", " and very long indeed"][int(rng.integers(3))]
        text = f"{rng.choice('yes no well so'.split())} {text}" if rng.random() < 0.5 else text
        out[text] = {"text": text, "label": label, "position": 0}
    return list(out.values())


@pytest.mark.slow
def test_an_encoder_from_outside(encoder, monkeypatch):
    """Its logits are noise: use is asked only of a declared readout, whose edits reach the output."""
    monkeypatch.setattr("probes.audit.use.candidates", lambda *_: [])  # 71 other heads: a minute
    given = sentences()
    before = {name: len(hook._forward_hooks) for name, hook in encoder.hook_dict.items()}
    silent = audit_claim(encoder, "L0H0 attends to the token [SEP]", given)
    assert silent.use == "not asked"
    assert "readout='probe'" in silent.reason
    result = audit_claim(encoder, "L2H1 uses all visible tokens evenly", given, readout="probe")
    assert evidence(result, "margin")["low"] > 0.5
    assert evidence(result, "token")["value"] > 0.5  # all that the edges read, exchanged
    assert "does not reach" not in result.reason
    assert before == {name: len(hook._forward_hooks) for name, hook in encoder.hook_dict.items()}


# -- bad requests -------------------------------------------------------------------------------------------

GOOD = {"text": "ab!cd", "label": "one", "position": 0}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**GOOD, "label": "four"}, "entry 2: label 'four' names no class: classes are one, two, three"),
        ({**GOOD, "label": 3}, "entry 2: label 3 is not a class from 0 to 2"),
        ({**GOOD, "label": 1.5}, "entry 2: label 1.5 is neither a string nor a whole number"),
        ({**GOOD, "position": 6}, r"entry 2: position 6 is outside its text of 6 tokens: -6 to 5"),
        ({**GOOD, "position": "last"}, "entry 2: position 'last' is not a whole number"),
        ({**GOOD, "text": "abxcd"}, "entry 2: .* no token fits 'xcd'"),
        ({**GOOD, "text": ["a", "x"]}, "entry 2: 'x' is not a token"),
        ({**GOOD, "text": [3, 4]}, "tokens go by their names"),
        ({**GOOD, "text": 7}, "entry 2: text 7 is neither"),
        ({**GOOD, "text": []}, "entry 2: the text .* holds no token"),
        ({**GOOD, "text": "a" * 16}, "entry 2: 17 tokens are more than the model's n_ctx=16"),
        ({"label": "one"}, "entry 2 has no 'text'"),
        ({**GOOD, "text": [*"ab", "x" * 999]}, r"entry 2: 'x{40}\.\.\.x{15}' is not a token"),
        ({**GOOD, "label": "four" * 99}, r"label 'four[four]*\.\.\.[four]*' names no class"),
        ({**GOOD, "lable": 1}, "entry 2: 'lable' is none of text, label, position"),
        ("abcd", "entry 2: 'abcd' is no"),
        ({**GOOD, "text": "dab!c", "label": "two"}, "entries 1 and 2 are the same text with another label"),
    ],
)
def test_inputs_that_do_not_fit_are_one_clear_line(entry, message):
    model = classifier()
    weights = copy.deepcopy(model.state_dict())
    with pytest.raises(InterpError, match=message) as error:
        audit_claim(model, "L1H0 uses the token !", [{**GOOD, "text": "dab!c"}, entry])
    assert "\n" not in str(error.value)
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())


def test_a_file_is_given_as_a_path():
    with pytest.raises(InterpError, match=r"inputs='mine.json' would be read as one text: .* Path\('mine.json'\)"):
        audit_claim(classifier(), "L1H0 uses the token !", "mine.json")


def test_labels_of_language_models_are_tokens():
    for label, message in (("z", "entry 1: label: 'z' is not a token"), (3, "tokens go by their names")):
        with pytest.raises(InterpError, match=message):
            audit_claim(copier(), "L0H0 uses the previous token", [{"text": "abc", "label": label}])


def test_a_causal_model_reads_texts_of_any_length_without_a_padding_token():
    """Nothing sees what stands after it, so any token may fill the rows; the rows themselves are not counted."""
    model = copier()
    state = dict(model.state_dict())
    config = {
        "n_layers": 1, "n_heads": 2, "d_model": 26, "d_head": 26, "attn_only": True, "n_ctx": N, "d_vocab": 10,
        "normalization_type": None,
    }  # fmt: skip
    unpadded = load_foreign(state, config, ["<bos>", "z", *"abcdefgh"])
    mixed = [{**entry, "text": entry["text"][: 7 + i % 3], "position": -1} for i, entry in enumerate(copies())]
    assert len({len(entry["text"]) for entry in mixed}) > 1
    plain, padded = (audit_claim(m, "L0H0 attends to the previous token", mixed) for m in (unpadded, model))
    score = [next(row for row in r.evidence if row["name"] == "score") for r in (plain, padded)]
    assert_close(score[0]["value"], score[1]["value"], scale=1, dtype=torch.float32)
    rows = [next(row for row in r.evidence if row["name"] == "rows")["value"] for r in (plain, padded)]
    assert rows[0] == rows[1]


def test_texts_of_unequal_length_need_padding_where_all_is_seen():
    config = {
        "n_layers": 1, "n_heads": 2, "d_model": 26, "d_head": 26, "attn_only": True, "n_ctx": N, "d_vocab": 10,
        "normalization_type": None, "attention_dir": "bidirectional",
    }  # fmt: skip
    unpadded = load_foreign(dict(copier().state_dict()), config, ["<bos>", "z", *"abcdefgh"])
    mixed = [{**entry, "text": entry["text"][: 7 + i % 3], "position": -1} for i, entry in enumerate(copies())]
    with pytest.raises(InterpError, match="there is no padding token"):
        audit_claim(unpadded, "L0H0 uses the previous token", mixed)


# -- reading, and donors ------------------------------------------------------------------------------------


def test_what_is_just_within_a_text_a_model_or_its_classes_is_read():
    model = classifier()
    entries = [
        GOOD | {"position": -6}, GOOD | {"text": "ab!ce", "position": 5}, GOOD | {"text": "a" * 15, "label": "three"},
        GOOD | {"text": "ab", "label": 0, "position": -1}, GOOD | {"text": ["[CLS]", "b"], "label": 2},
        GOOD | {"text": "c", "label": None}, GOOD | {"text": "ab", "label": "one", "position": 2},
    ]  # fmt: skip
    given = lay_out(labelled(entries), model, model.grammar)
    assert given.read.tolist() == [0, 5, 0, 2, 0, 0]  # the last is the fourth again
    assert given.label.tolist() == [0, 0, 2, 0, 2, -1]
    assert given.length.tolist() == [6, 6, 16, 3, 2, 2]
    assert given.classes == ("one", "two", "three")
    assert given.tokens.tolist() == [
        [WORDS.index(name) for name in row] + [1] * (16 - len(row))
        for row in (
            ["[CLS]", *"ab!cd"], ["[CLS]", *"ab!ce"], ["[CLS]", *"a" * 15], ["[CLS]", *"ab"], ["[CLS]", "b"],
            ["[CLS]", "c"],
        )
    ]  # fmt: skip
    assert given.strata.tolist() == [[0, 6, 0], [0, 6, 5], [2, 16, 0], [0, 3, 2], [2, 2, 0], [-1, 2, 0]]


def test_a_list_of_brackets_begins_with_start_once():
    grammar = DyckGrammar(2, 4)
    start, model = grammar.vocab[grammar.start], foreign()
    entries = [LabelledInput(["(", "["], ")"), LabelledInput([start, "[", "("], "]"), LabelledInput([start], "(")]
    given = lay_out(entries, model, grammar)
    assert given.tokens[:, 0].tolist() == [grammar.start] * 3
    assert given.length.tolist() == [3, 3, 1]
    assert given.tokens[0, 1:].tolist() == given.tokens[1, :0:-1].tolist()


def foreign(**cfg):
    """A model of which nothing is known but these settings: without a vocabulary, 5 token ids."""
    return SimpleNamespace(cfg=SimpleNamespace(d_vocab=5, **cfg))


@pytest.mark.parametrize(
    ("cfg", "classes", "labels"),
    [
        ({"d_vocab_out": 3}, ("0", "1", "2"), [2, 0]), ({"d_vocab_out": -1}, (), [2, 4]),
        ({"d_vocab_out": 5}, (), [4, 0]), ({}, (), [4, 0]),
    ],
)  # fmt: skip
def test_a_model_without_a_vocabulary_is_read_by_numbers(cfg, classes, labels):
    model = foreign(**cfg)
    entries = [LabelledInput([0, 4], labels[0]), LabelledInput([np.int64(3)], labels[1], 0)]
    given = lay_out(entries, model, None)
    assert given.tokens.tolist() == [[0, 4], [3, 0]]  # filled up with anything, since no token sees those after it
    assert (given.label.tolist(), given.classes, given.read.tolist()) == (labels, classes, [1, 0])
    for wrong in (5, -1, True, 1.0, "a"):
        with pytest.raises(InterpError, match="entry 1"):
            lay_out([LabelledInput([0, wrong], labels[0])], model, None)
    for wrong in (5, -1, True, 0.5):
        with pytest.raises(InterpError, match="entry 2: label"):
            lay_out([entries[0], LabelledInput([0, 1], wrong)], model, None)
    with pytest.raises(InterpError, match="entry 1: the model has no vocabulary"):
        lay_out([LabelledInput("ab", labels[0])], model, None)
    with pytest.raises(InterpError, match="there is no padding token"):
        lay_out(entries, foreign(attention_dir="bidirectional", **cfg), None)


def test_labels_that_a_probe_reads_are_told_apart_by_their_names():
    entries = [LabelledInput([0, 1], "b"), LabelledInput([0, 2], 7), LabelledInput([0, 3]), LabelledInput([0, 4], "a")]
    given = lay_out(entries, foreign(), None, free=True)
    assert (given.label.tolist(), given.classes) == ([2, 0, -1, 1], ("7", "a", "b"))


def test_inputs_are_labelled_where_one_entry_says_so(tmp_path):
    file = tmp_path / "inputs.json"
    for content, expected in (('["ab", {"text": "c", "label": 1}]', [LabelledInput("ab"), LabelledInput("c", 1)]),
                              ('["ab", "c"]', [LabelledInput("ab"), LabelledInput("c")])):  # fmt: skip
        file.write_text(content)
        assert labelled(file) == expected
    for content in ("[]", "{}", "3"):
        file.write_text(content)
        with pytest.raises(InterpError, match="no JSON list"):
            labelled(file)
    assert labelled(["ab", "c"]) is labelled([]) is labelled("ab") is labelled(np.zeros((2, 2))) is None
    assert labelled((LabelledInput("ab"),)) == [LabelledInput("ab")]


def donors(labels, *, lengths=None, read=None, rows=None, keys=None, seed=0):
    """{input: donor} of inputs of three tokens with these labels, read at the last of them unless said."""
    n = len(labels)
    given = LaidOut(
        np.arange(3 * n).reshape(n, 3), np.array(read or [2] * n), np.array(lengths or [3] * n), np.array(labels), (),
        np.full(n, -1), np.zeros((n, 3), dtype=int), np.zeros(n, dtype=bool),
    )  # fmt: skip
    asked = np.ones((n, 3), dtype=bool) if rows is None else rows
    task = Labels(given, np.ones((n, 3), dtype=bool))
    how = (given.tokens, None, asked, seed)
    items = task.items(*how) if keys is None else task.items_on(*how, keys)
    donor = items.unit
    assert (items.tokens == given.tokens[items.sequence]).all()
    assert (items.donors == given.tokens[donor]).all()
    assert (items.answer == given.label[items.sequence]).all()
    assert (items.foil == given.label[donor]).all()
    assert (items.read == given.read[items.sequence]).all()
    assert (items.flipped, items.seen.shape) == (None, (len(items), 3))
    assert sorted(items.sequence) == items.sequence.tolist()
    return dict(zip(items.sequence.tolist(), donor.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_donors_are_shared_by_two_at_most_and_the_least_used_come_first(seed):
    for count in (1, 2, 3, 5):
        found = donors([0] * count + [1], seed=seed)
        assert len(found) == min(count, 2) + 1
        assert found[count] < count
    found = donors([0] * 3 + [1] * 3, seed=seed)
    assert sorted(found) == sorted(found.values()) == list(range(6))  # each once, while there are others
    assert all((i < 3) != (donor < 3) for i, donor in found.items())
    assert len({tuple(donors([0] * 3 + [1] * 3, seed=s).values()) for s in range(9)}) > 1


def test_donors_are_alike_in_length_and_place_and_unlike_in_label():
    assert donors([0, 1, 0, 1], lengths=[3, 3, 2, 2]) == {0: 1, 1: 0, 2: 3, 3: 2}
    assert donors([0, 1, 0, 1], read=[2, 0, 0, 2]) == {0: 3, 1: 2, 2: 1, 3: 0}
    assert donors([0, 0, 0]) == donors([0, -1]) == {}
    assert donors([0, -1, 1]) == {0: 2, 2: 0}
    rows = np.ones((3, 3), dtype=bool)
    rows[1, 2] = rows[2, 0] = False
    assert donors([0, 1, 1], rows=rows) == {0: 2, 2: 0}


@pytest.mark.parametrize("seed", range(5))
def test_donors_with_the_claimed_keys_at_the_same_places_come_first(seed):
    keys = np.zeros((4, 3, 3), dtype=bool)
    keys[:2, 2, 0] = keys[2:, 2, 1] = True
    keys[:, 1, :] = np.eye(4, 3, dtype=bool)  # rows that are not read do not matter
    assert donors([0, 1, 0, 1], keys=keys, seed=seed) == {0: 1, 1: 0, 2: 3, 3: 2}
    assert donors([0, 0, 1, 1], keys=keys, seed=seed).keys() == {0, 1, 2, 3}


# -- the command line ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_audits_a_foreign_file(tmp_path, capsys):
    model = classifier()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    config = {
        "n_layers": 2, "n_heads": 2, "d_model": D + 6, "d_head": D + 6, "d_mlp": 4, "act_fn": "relu", "n_ctx": N,
        "d_vocab": 9, "d_vocab_out": 3, "normalization_type": None, "attention_dir": "bidirectional",
        "class_names": CLASSES,
    }  # fmt: skip
    files = {"config": config, "vocab": WORDS, "inputs": INPUTS[:400]}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    foreign = [f"{tmp_path}/model.pt", "--model-config", f"{tmp_path}/config.json", "--vocab", f"{tmp_path}/vocab.json"]
    inputs = ["--inputs", f"{tmp_path}/inputs.json"]
    status = main(["audit", *foreign, *inputs, "--claim", "L1H1 uses the token !", "--json", f"{tmp_path}/out.json"])
    assert status == 0
    assert "Verdict: misleading" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["task"] == "labels"
    assert main(["heatmap", *foreign, "--text", "abc!de", "--out", f"{tmp_path}/map.html"]) == 0
    assert main(["analyze", "variation", *foreign, "--text", "abc!de"]) in (0, 2)
    capsys.readouterr()
    (tmp_path / "alone").mkdir()  # no config.json beside it
    alone = str(shutil.copy(tmp_path / "model.pt", tmp_path / "alone" / "model.pt"))
    for wrong, message in (
        (["audit", alone, "--claim", "L0H0 attends to START"], "give its config, a dict, an object or a JSON"),
        (["audit", alone, "--vocab", "v.json", "--claim", "L0H0 attends to START"], "--model-config FILE.json"),
        (["audit", "none.pt", *foreign[1:], "--claim", "L0H0 attends to START"], "no file 'none.pt'"),
        (["audit", *foreign, "--inputs", "none.json", "--claim", "L0H0 attends to the first token"], "cannot read"),
        (["audit", *foreign, *inputs, "--claim", "L0H0 attends to START"], "needs a grammar of brackets"),
    ):
        assert main(wrong) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1


def test_our_own_checkpoints_take_labelled_inputs(tmp_path, capsys):
    grammar = DyckGrammar(2, 4)
    drawn = grammar.sample(400, mode="prefix", length=20, seed=0)
    top = grammar.stack_top(drawn)[:, -1]
    entries = [
        {"text": grammar.format(row), "label": grammar.vocab[row[at] + 1]}
        for row, at in zip(drawn, top, strict=True)
        if at >= 0
    ]
    (tmp_path / "inputs.json").write_text(json.dumps(entries))
    claim = "L1H0 uses the last unmatched open bracket"
    status = main(["audit", "constructed/stack", "--inputs", str(tmp_path / "inputs.json"), "--claim", claim])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "Verdict: supported (pattern holds, use used)" in out


@pytest.mark.slow
def test_the_manuals_example_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    manual = (Path(__file__).parents[3] / "docs" / "manual.md").read_text(encoding="utf-8")
    blocks = manual[manual.index("A complete example.") :].split("```")
    code, commands, told = blocks[1].removeprefix("python"), blocks[3].strip().splitlines(), blocks[5].strip()
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "manual", "exec"), {})
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.startswith(told)
    assert (tmp_path / "heads.html").exists()
