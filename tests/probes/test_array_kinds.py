"""Arrays that users give: one rule for the types of numbers, at every entry that takes an array."""

import numpy as np
import pytest
import torch

from interp import DyckGrammar, load_checkpoint
from interp.errors import InterpError
from interp.plots import attention_heatmap
from interp.stats import mean_over_seeds
from interp.worlds.topics.theory import TopicTheory
from probes import analyze_stack_likeness, analyze_topic_blocks, analyze_variation, audit_claim
from probes.claims import relation_scores
from probes.topics import rotation
from probes.variation import variation_from_patterns

N = 4
EYE = np.eye(N)
THEORY = TopicTheory(2, 2)


# Each takes a square of weights that is right, and would be read whatever its type.
REAL = {
    "heatmap": attention_heatmap,
    "heatmap of a list": lambda x: attention_heatmap([EYE, x]),
    "difference": lambda x: attention_heatmap(EYE, minus=x),
    "variation": lambda x: variation_from_patterns([np.stack([x, x])[:, None, None] if is_array(x) else stacked(x)]),
    "topic blocks": analyze_topic_blocks,
    "topic blocks of seeds": lambda x: analyze_topic_blocks([EYE, x]),
    "rotation": lambda x: rotation(EYE, x),
    "relation": lambda x: relation_scores(x[None, None], EYE[None] > 0, np.tri(N, dtype=bool)[None]),
    "mean": lambda x: mean_over_seeds(x[0]),
}


def is_array(x):
    return isinstance(x, np.ndarray)


def stacked(x):
    return torch.stack([x, x])[:, None, None]


RIGHT = [EYE, EYE.astype(np.float32), EYE.astype(int), EYE.astype(np.uint8), torch.eye(N), torch.eye(N).double()]
WRONG = [
    EYE * (1 + 5j),
    EYE.astype("timedelta64[s]"),
    EYE.astype("datetime64[s]"),
    EYE.astype(bool),
    EYE.astype(object),
    EYE.astype(np.float16),
    EYE.astype(str),
    torch.eye(N) * (1 + 5j),
    torch.eye(N, dtype=torch.bool),
    torch.eye(N, dtype=torch.float16),
    torch.eye(N, dtype=torch.bfloat16),
]


def named(arrays):
    return [pytest.param(x, id=f"{'numpy' if is_array(x) else 'torch'}-{x.dtype}") for x in arrays]


@pytest.mark.parametrize("entry", list(REAL.values()), ids=list(REAL))
@pytest.mark.parametrize("values", named(WRONG))
def test_what_holds_no_real_numbers_of_32_bits_is_refused_by_its_type(entry, values):
    with pytest.raises(InterpError, match="real numbers of 32 bits or more") as caught:
        entry(values)
    assert str(values.dtype).removeprefix("torch.").split("[")[0] in str(caught.value)


@pytest.mark.parametrize("entry", list(REAL.values()), ids=list(REAL))
@pytest.mark.parametrize("values", named(RIGHT))
def test_real_numbers_are_read(entry, values):
    entry(values)


def test_a_mask_is_not_forgotten():
    with pytest.raises(InterpError, match="MaskedArray, whose mask would be lost"):
        attention_heatmap(np.ma.masked_equal(EYE, 0))


@pytest.fixture(scope="module")
def models():
    return load_checkpoint("dyck-standard")[:2]


IDS = {
    "heatmap": lambda models, ids: attention_heatmap(models[0], ids),
    "heatmap of arrays": lambda models, ids: attention_heatmap(np.eye(3), ids, grammar=DyckGrammar(2, 4)),
    "heatmap without a grammar": lambda models, ids: attention_heatmap(np.eye(3), ids),
    "variation": lambda models, ids: analyze_variation(models, ids, untrained=False),
    "stack-likeness": lambda models, ids: analyze_stack_likeness(models[0], ids, untrained=False),
    "audit": lambda models, ids: audit_claim(models[0], "L1H0 attends to the previous token", ids),
    "topic blocks": lambda models, ids: analyze_topic_blocks(models[0], matrix="attention", inputs=ids),
    "labels": lambda models, ids: analyze_topic_blocks(np.eye(3), labels=ids),
}
NO_IDS = [
    [np.inf, 0, 1],
    [np.nan, 0, 1],
    [1e300, 0, 1],
    [4.0, 0.5, 1],
    [4.0, 0.0, 1.0],
    [True, False, True],
    np.array([4, 0, 1], dtype=object),
    np.array([4, 0, 1], dtype="timedelta64[s]"),
    np.array([4, 0, 1], dtype=complex),
    np.array([4, 0, 2**64 - 1], dtype=np.uint64),
    torch.tensor([4.0, 0.0, 1.0]),
    torch.tensor([True, False, True]),
    torch.tensor([4.0, 0.0, 1.0], dtype=torch.bfloat16),
]


@pytest.mark.parametrize("entry", list(IDS.values()), ids=list(IDS))
@pytest.mark.parametrize("ids", NO_IDS, ids=lambda x: str(getattr(x, "dtype", x)))
def test_tokens_that_are_no_whole_numbers_are_refused(models, entry, ids):
    with pytest.raises(InterpError, match="whole number") as caught:
        entry(models, ids)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, torch.int16, torch.int64])
def test_whole_numbers_of_any_width_are_tokens(models, dtype):
    ids = torch.tensor([4, 0, 1], dtype=dtype) if isinstance(dtype, torch.dtype) else np.array([4, 0, 1], dtype)
    for name in ("heatmap", "heatmap of arrays", "variation"):
        IDS[name](models, ids)
