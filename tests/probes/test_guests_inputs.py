"""What guests are given, and what is said of them: ids and padding, labels, grammars, seeds, causes of a refusal."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from interp import Population, SandboxTransformer, load_checkpoint, load_foreign, save_checkpoint
from interp._foreign_config import to_config
from interp.config import TransformerConfig
from interp.errors import AnalysisError, GrammarError, InterpError, RequestError
from interp.grammars import CopyGrammar, DyckGrammar, TopicGrammar
from interp.guests import pad_of
from interp.plots import attention_heatmap
from interp.task_check import LENGTH, check_task
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_variation,
    audit_claim,
)

GRAMMAR = DyckGrammar(2, 4)
CLAIM = "L1H0 attends to the previous token"
SIZES = {
    "n_layers": 2,
    "n_heads": 1,
    "d_model": 8,
    "d_head": 8,
    "d_mlp": 8,
    "act_fn": "relu",
    "n_ctx": 64,
    "d_vocab": 7,
}
BRACKETS = ["(", ")", "[", "]", "<s>", "</s>", "<pad>"]


@pytest.fixture(scope="module")
def trained() -> Population:
    return load_checkpoint("dyck-standard")[:3]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A random GPT-2 whose tokenizer reads brackets."""
    pytest.importorskip("transformers")
    sys.path.insert(0, str(Path(__file__).parents[2] / "stress"))
    import hosts

    return hosts.gpt2(tmp_path_factory.mktemp("gpt2"))


def foreign() -> SandboxTransformer:
    weights = {n: p.detach() for n, p in SandboxTransformer.init(to_config(SIZES, None), 0).named_parameters()}
    return load_foreign(weights, SIZES, BRACKETS, task_check=False)


# -- token ids ----------------------------------------------------------------------------------------------

WRONG_IDS = {
    "no START": [[0, 2, 3, 1]],
    "a second START": [[4, 0, 1, 4, 0]],
    "brackets after END": [[4, 0, 1, 5, 0, 1]],
    "brackets after PAD": [[4, 0, 1, 6, 0, 1]],
    "PAD first": [[6, 6, 4, 0, 1]],
    "closes nothing": [[4, 1, 1, 1]],
}
READERS = {
    "variation": lambda models, ids: analyze_variation(models, ids),
    "stack": lambda models, ids: analyze_stack_likeness(models, ids),
    "heatmap": lambda models, ids: attention_heatmap(models, ids),
    "audit": lambda models, ids: audit_claim(models, CLAIM, np.repeat(ids, 2, axis=0)),
}


@pytest.mark.parametrize("ids", WRONG_IDS.values(), ids=WRONG_IDS)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_ids_are_held_to_the_rule_of_texts(read, ids, trained):
    with pytest.raises(InterpError, match=r"does not belong there|closes nothing"):
        read(trained, np.array(ids))


def test_ids_of_a_model_that_carries_no_grammar_may_lack_start(trained):
    ids = np.array([[0, 2, 3, 1]])
    stranger = SandboxTransformer.init(trained.config, 0)
    found = analyze_stack_likeness(stranger, ids, grammar=GRAMMAR, task_check=False)
    assert found.num_inputs == 1
    with pytest.raises(GrammarError, match="does not belong there"):
        GRAMMAR.check_inputs([[0, 4, 1]], start=False)


# -- padding ------------------------------------------------------------------------------------------------


def test_a_pad_that_also_begins_texts_is_none(gpt2):
    """GPT-2's tokenizer names one token for all three: masking it away would mask START."""
    assert pad_of(gpt2, None) == 6
    before = gpt2.tokenizer.pad_token_id
    try:
        for other in ("bos_token", "eos_token"):
            gpt2.tokenizer.pad_token = getattr(gpt2.tokenizer, other)
            assert pad_of(gpt2, None) is None
    finally:
        gpt2.tokenizer.pad_token = "[PAD]"
    assert gpt2.tokenizer.pad_token_id == before


def test_start_is_seen_where_it_also_pads(gpt2):
    texts = [GRAMMAR.format(row) for row in GRAMMAR.sample(60, mode="prefix", length=8, seed=0)]
    claim = "L0H0 attends to the first token"
    told = audit_claim(gpt2, claim, texts, grammar=None)
    try:
        gpt2.tokenizer.pad_token = gpt2.tokenizer.bos_token
        again = audit_claim(gpt2, claim, texts, grammar=None)
    finally:
        gpt2.tokenizer.pad_token = "[PAD]"
    assert again.to_dict() == told.to_dict()


@pytest.mark.parametrize("where", ["left", "right", "between"])
def test_padding_is_never_compared_nor_drawn(where, gpt2):
    row, pad = [4, 0, 2, 3, 1], 6
    padded = {"left": [pad, pad, *row], "right": [*row, pad, pad], "between": [4, 0, pad, 2, 3]}[where]
    with pytest.raises(RequestError, match="PAD"):
        analyze_variation([gpt2, _again(gpt2)], [padded])
    with pytest.raises(RequestError, match="PAD"):
        analyze_topic_blocks(gpt2, matrix="attention", inputs=[padded], labels=[0, 0, 1, 1, -1, -1, -1])
    if where == "between":
        with pytest.raises(RequestError, match="PAD"):
            attention_heatmap(gpt2, padded)
    else:
        shown, alone = (attention_heatmap(gpt2, ids) for ids in (padded, row))
        assert shown.to_json() == alone.to_json()


def _again(bridge):
    import copy

    return copy.deepcopy(bridge)


def test_patterns_of_a_bridge_give_padding_no_weight(gpt2):
    from interp.patterns import attention_patterns

    ids = torch.tensor([[4, 0, 2, 3, 1, 6, 6], [4, 0, 1, 0, 1, 0, 1]])
    masked, plain = (attention_patterns(gpt2, ids, pad=pad)[1] for pad in (6, None))
    left = torch.tensor([[6, 6, 4, 0, 2, 3, 1]])
    assert attention_patterns(gpt2, left, pad=6)[0][0, :, 2:, :2].max() == 0
    np.testing.assert_allclose(masked[1], plain[1], rtol=0, atol=4 * np.finfo(np.float32).eps)


# -- grammars, labels, objects ------------------------------------------------------------------------------


def test_a_grammar_of_other_tokens_is_refused_although_it_has_as_many(trained):
    other = TopicGrammar(2, 3)
    assert other.vocab_size == GRAMMAR.vocab_size
    for call in (
        lambda: analyze_variation(trained, grammar=other),
        lambda: analyze_topic_blocks(trained[0], grammar=other, matrix="embedding"),
        lambda: attention_heatmap(trained[0], [0, 1], grammar=other),
    ):
        with pytest.raises(RequestError, match="names the tokens differently"):
            call()


@pytest.mark.parametrize("labels", ["none", "one", "all"])
def test_labels_do_not_switch_the_task_check_off(labels, trained):
    wrong = SandboxTransformer(trained.config, None)
    state = {name: p.clone() for name, p in trained[0].state_dict().items()}
    order = torch.tensor([3, 0, 1, 2, 4, 5, 6])
    state["embed.W_E"] = state["embed.W_E"][order]
    for name in ("unembed.W_U", "unembed.b_U"):
        state[name] = state[name][..., order]
    wrong.load_state_dict(state)
    texts = [GRAMMAR.format(row) for row in GRAMMAR.sample(40, mode="prefix", length=10, seed=0)]
    count = {"none": 0, "one": 1, "all": 40}[labels]
    inputs = [{"text": t, "label": "("} if i < count else {"text": t} for i, t in enumerate(texts)]
    with pytest.raises(AnalysisError, match=r"not legal|at chance"):
        audit_claim(wrong, CLAIM, inputs, grammar=GRAMMAR)


def test_one_object_is_one_seed(trained):
    model = trained[0]
    for call in (analyze_balance, analyze_stack_likeness, analyze_variation):
        with pytest.raises(RequestError, match="model 1 is model 0 again"):
            call([model, model])


# -- the untrained null -------------------------------------------------------------------------------------


def test_the_null_of_a_model_of_unknown_first_weights_is_none_whatever_holds_it(tmp_path):
    model = foreign()
    save_checkpoint(model, tmp_path / "one.safetensors")
    both = Population.from_models([model, foreign()])
    save_checkpoint(both, tmp_path / "two.safetensors")
    held = (
        model, [model], Population.from_models([model]), load_checkpoint(tmp_path / "one.safetensors"), both,
        load_checkpoint(tmp_path / "two.safetensors"),
    )  # fmt: skip
    for given in held:
        found = analyze_stack_likeness(given, "([])[]", task_check=False)
        assert found.score[0][0].null["untrained"] is None, given
        with pytest.raises(InterpError, match="first weights can be drawn again"):
            attention_heatmap(given, "()", null="untrained", task_check=False)


def test_the_null_of_what_was_trained_here_is_there_whatever_holds_it(trained, tmp_path):
    save_checkpoint(trained[1], tmp_path / "one.safetensors")
    values = set()
    for given in (trained[1:2], [trained[1]], trained[1], load_checkpoint(tmp_path / "one.safetensors")):
        values.add(analyze_stack_likeness(given, "([])[]").score[1][0].null["untrained"])
    assert len(values) == 1
    assert None not in values


# -- the task check -----------------------------------------------------------------------------------------

BLIND = [CopyGrammar(2, 4), CopyGrammar(1, 4), DyckGrammar(1, 4), DyckGrammar(1, 1), DyckGrammar(2, 1)]


@pytest.mark.parametrize("grammar", BLIND, ids=str)
@pytest.mark.slow
def test_a_map_of_tokens_passes_by_luck_only_if_every_answer_is_right(grammar):
    """Whoever gives each token a fixed one: a question that the token decides is asked answer by answer."""

    def fixed(table):
        return lambda tokens: (
            5.0 * torch.nn.functional.one_hot(torch.tensor(table)[tokens], grammar.vocab_size).double()
        )

    rng = np.random.default_rng(0)
    tables = [rng.integers(0, grammar.vocab_size, grammar.vocab_size).tolist() for _ in range(100)]
    passed = 0
    for table in tables:
        try:
            check_task([fixed(table)], grammar, None, 0, "test")
            passed += 1
        except AnalysisError:
            pass
    # By chance each of the answers, two at least, is one of the tokens: 1 / 25, less where there are more.
    assert passed <= 12


def test_strings_are_drawn_as_long_as_the_inputs():
    lengths = []

    def model(tokens):
        lengths.append(tokens.shape[1])
        return load_checkpoint("constructed/stack")(tokens)

    for text, longest in (("()", 6), ("(())[]", 6), ("()" * 5, 10), ("()" * 20, LENGTH)):
        lengths.clear()
        check_task([model], GRAMMAR, GRAMMAR.to_tokens([text]), 0, "test")
        assert lengths[-1] == 1 + longest
    check_task([model], GRAMMAR, None, 0, "test")
    assert lengths[-1] == 1 + LENGTH


def test_inputs_too_short_to_ask_are_no_pass():
    model = SandboxTransformer.init(TransformerConfig(7, positions="learned", n_ctx=2, pad_token=6), 0)
    with pytest.raises(AnalysisError, match="too short to ask"):
        check_task([model], GRAMMAR, None, 0, "test")


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        (CopyGrammar(2, 4), r"carries DyckGrammar.*another than that of CopyGrammar"),
        (None, r"probably not those of"),
    ],
    ids=["another task", "unknown"],
)
def test_a_refusal_names_the_cause_that_shows(grammar, said, trained):
    model = trained[0] if grammar is not None else SandboxTransformer.init(trained.config, 0)
    with pytest.raises(AnalysisError, match=said):
        check_task([model], grammar or GRAMMAR, None, 0, "test")


def test_a_vocabulary_without_start_is_told_what_is_missing():
    weights = {n: p.detach() for n, p in SandboxTransformer.init(to_config(SIZES, None), 0).named_parameters()}
    model = load_foreign(weights, SIZES, ["(", ")", "[", "]", "BEGIN", "FINISH", "PADDING"])
    for call in (analyze_stack_likeness, analyze_balance):
        with pytest.raises(AnalysisError, match=r"names START \(\[start\], <s>, <bos>, BOS\)"):
            call(model)


def test_a_misspelt_keyword_is_told_the_nearest(trained):
    with pytest.raises(TypeError, match=r"analyze_variation\(\) .*'sed'.*did you mean 'seed'"):
        analyze_variation(trained, sed=3)
