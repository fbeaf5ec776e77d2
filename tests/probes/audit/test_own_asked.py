"""What a user's relations, conditions and inputs may do wrong, and what is then said."""

from functools import partial

import numpy as np
import pytest
import torch

import probes
from interp.claims import Condition, Relation
from interp.claims.asking import keys_of, rows_of
from interp.claims.combined import complement
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.model import SandboxTransformer
from interp.vocabulary import Vocabulary
from probes import scan_heads
from probes.audit.inputs import make_inputs
from probes.audit.labels import LabelledInput, lay_out
from probes.claims import BUILT_IN, Claim

audit_claim = partial(probes.audit_claim, task_check=False, untrained=False)
LETTERS = Vocabulary(("a", "b", "c", "d"))
WITH_PAD = Vocabulary.of(("a", "b", "c", "d", "[PAD]"))


def model_of(grammar, **how):
    config = TransformerConfig(
        len(grammar.names), n_layers=1, n_heads=2, d_model=8, d_head=4, mlp_depth=0, positions="learned", n_ctx=8,
        d_vocab_out=2, **how,
    )  # fmt: skip
    return SandboxTransformer.init(config, 0, grammar)


MODEL = model_of(LETTERS)
TOKENS = np.random.default_rng(0).integers(0, 4, (60, 6))


def boom(tokens, grammar, visible):
    raise ZeroDivisionError("a\nb")


def mine(keys):
    return Relation("mine", "what I mean", "mass", "tokens", keys)


BAD = {
    "floats": (lambda t, g, v: v * 0.5, "gives float64 of shape .*, not bool of shape"),
    "numbers": (lambda t, g, v: v.astype(int), "gives int64 of shape"),
    "narrow": (lambda t, g, v: v[:, :, :1], r"gives bool of shape \[60, 6, 1\], not bool of shape \[60, 6, 6\]"),
    "none": (lambda t, g, v: None, r"gives object of shape \[\]"),
    "raises": (boom, "raises ZeroDivisionError: a b$"),
    "unseen": (lambda t, g, v: ~v, "names key 1 for query 0 of input 0, which is not visible there"),
}
BAD_ROWS = {
    "floats": (lambda t, g, k: np.ones(t.shape), "gives float64 of shape"),
    "inputs": (lambda t, g, k: np.ones(len(t), bool), r"gives bool of shape \[60\], not bool of shape \[60, 6\]"),
    "raises": (boom, "raises ZeroDivisionError: a b$"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("how", ["audit", "anything but", "scan"])
def test_a_relation_that_is_none_is_named_in_one_line(name, how):
    keys, said = BAD[name]
    relation = mine(keys)
    claim = Claim([(0, 0)], complement(relation) if how == "anything but" else relation)
    asked = {"scan": lambda: scan_heads(MODEL, [relation], TOKENS, untrained=False)}
    with pytest.raises(RequestError, match=f"^relation 'what I mean' {said}") as caught:
        asked.get(how, lambda: audit_claim(MODEL, claim, TOKENS))()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_condition_that_is_none_is_named_in_one_line(name):
    rows, said = BAD_ROWS[name]
    condition = Condition("mine", "I say so", "tokens", rows)
    with pytest.raises(RequestError, match=f"^condition 'I say so' {said}"):
        audit_claim(MODEL, Claim([(0, 0)], "previous", when=condition), TOKENS)


def test_what_is_a_relation_is_taken_as_it_is():
    visible = np.tri(6, dtype=bool)[None].repeat(60, 0)
    previous = BUILT_IN["previous"]
    assert np.array_equal(keys_of(previous, TOKENS, None, visible), previous.keys(TOKENS, None, visible))
    seen = Condition("mine", "I say so", "tokens", lambda t, g, k: np.broadcast_to(np.arange(6) > 2, t.shape))
    assert rows_of(seen, TOKENS, None, visible).sum() == 60 * 3


def test_what_a_relation_writes_into_its_arrays_stays_its_own():
    def keys(tokens, grammar, visible):
        tokens[:] = 0
        visible &= np.eye(6, k=-1, dtype=bool)
        return visible

    given = np.random.default_rng(1).integers(0, 4, (200, 6))
    inputs = given.copy()
    found, plain = (audit_claim(MODEL, Claim([(0, 0)], one), inputs) for one in (mine(keys), "previous"))
    assert np.array_equal(inputs, given)
    scores = [next(row["value"] for row in one.evidence if row["name"] == "score") for one in (found, plain)]
    assert scores[0] == scores[1]


# -- texts that padding makes alike ------------------------------------------------------------------------


def texts(count=80):
    """Distinct texts of different lengths, among them one with the other and the token of id 0 behind it."""
    random = np.random.default_rng(3)
    rows = {tuple(random.integers(0, 4, random.integers(3, 7))) for _ in range(count)} - {(1, 2, 3), (1, 2, 3, 0)}
    return [[LETTERS.names[i] for i in row] for row in ((1, 2, 3), (1, 2, 3, 0), *sorted(rows))]


def test_a_text_and_the_same_with_more_of_what_pads_are_two():
    given = [LabelledInput(text, i % 2) for i, text in enumerate(texts())]
    laid = lay_out(given, MODEL, LETTERS)
    assert laid.tokens[0].tolist() == laid.tokens[1].tolist()
    inputs = make_inputs(MODEL, LETTERS, laid.tokens, 0, 0, 0, laid.strata, laid.length)
    assert len(inputs.tokens) == len(given)
    assert inputs.visible[:2].any(1).sum(1).tolist() == [3, 4]
    found = audit_claim(MODEL, "L0H0 attends to the previous token", given)
    assert found.num_inputs == len(given)
    assert scan_heads(MODEL, ["previous"], given, untrained=False).num_inputs == len(given)


def test_an_input_says_the_same_whatever_lies_behind_its_end():
    """What fills up is not seen: the score of a text is that of the text alone."""
    given = [LabelledInput(text) for text in texts()]
    laid = lay_out(given, MODEL, LETTERS)
    other = np.where(np.arange(laid.tokens.shape[1]) < laid.length[:, None], laid.tokens, 3)
    logits = [MODEL(torch.from_numpy(tokens))[np.arange(len(given)), laid.read] for tokens in (laid.tokens, other)]
    assert torch.equal(*logits)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (1, "entries 1 and 2 are the same text, but for the padding that one of them ends with, with another"),
        (0, None),
    ],
)
def test_texts_that_differ_by_padding_alone_are_one(label, said):
    model = model_of(WITH_PAD, pad_token=4)
    given = [LabelledInput(["a", "b"], 0, 1), LabelledInput(["a", "b", "[PAD]"], label, 1)]
    if said is None:
        assert len(lay_out(given, model, WITH_PAD).tokens) == 1
        return
    with pytest.raises(RequestError, match=said):
        lay_out(given, model, WITH_PAD)


# -- inputs of one token -----------------------------------------------------------------------------------

ONE_EACH = [LabelledInput([name], i % 2) for i, name in enumerate(LETTERS.names)]


def test_a_scan_of_inputs_of_one_token_is_refused_in_words():
    with pytest.raises(RequestError, match=r"^scan: no relation applies to these inputs: each token sees itself alone"):
        scan_heads(MODEL, inputs=ONE_EACH, untrained=False)


def test_an_audit_of_inputs_of_one_token_is_undecided():
    assert audit_claim(MODEL, "L0H0 attends to the current token", ONE_EACH).verdict == "undecided"
    scan = scan_heads(MODEL, ["previous"], ONE_EACH, untrained=False)
    assert scan.num_relations == 1
