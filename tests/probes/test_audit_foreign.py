"""Audits of other people's models on labelled inputs: classifiers and language models whose truth is made by hand."""

import numpy as np
import pytest
import torch

from interp import load_foreign
from probes import audit_claim
from probes._audit_labels import labelled, lay_out

torch.set_num_threads(1)
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


def classifier(carried=(1.0, 0.0)):
    """A bidirectional classifier read at [CLS], of two layers with two heads.

    In layer 0 both heads of every query attend to the previous token and write its class (head 1 with weight 0 in the
    unused copy). In layer 1 both heads attend to the marker from everywhere and write on what head h of layer 0 put
    there, times `carried[h]`.
    """
    config = {
        "n_layers": 2, "n_heads": 2, "d_model": D + 6, "d_head": D + 6, "d_mlp": 4, "act_fn": "relu", "n_ctx": N,
        "d_vocab": 9, "d_vocab_out": 3, "normalization_type": None, "attention_dir": "bidirectional",
        "class_names": CLASSES,
    }  # fmt: skip
    width, strong = D + 6, 60.0
    t = lambda *shape: torch.zeros(*shape)  # noqa: E731
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
    # Head 0 of layer 1 carries what is used; head 1 has the same pattern and no output.
    for head in range(2):
        for i in range(3):
            state["blocks.1.attn.W_O"][0, 3 * head + i, i + 9] = 0.0
            state["blocks.1.attn.W_O"][0, 3 * head + i, D + i] = carried[head]
    # The class directions D..D+2 also hold what layer 0 wrote there: of [CLS] that is [CLS]'s own, no letter's.
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
        ("L1H1 attends to the token !", "holds unused misleading"),
        ("L1H1 uses the token !", "holds unused misleading"),
        ("L0H0 attends to the previous token", "holds used supported"),
        ("L0H1 attends to the previous token", "holds unused misleading"),
        ("L0H1 uses the previous token", "holds unused misleading"),
        ("L1H0 attends to the previous token", "fails used refuted"),
    ],
)
def test_a_padded_bidirectional_classifier(claim, expected):
    result = audit_claim(classifier(), claim, INPUTS)
    if result.pattern == "fails":
        assert expected.startswith("fails"), result.reason
        assert result.verdict == "refuted"
    else:
        assert words(result) == expected, result.reason
    assert result.task == "labels"
