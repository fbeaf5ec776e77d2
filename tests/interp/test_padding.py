"""Padding changes nothing, on whichever side it stands; masks and positions that make no sense are refused."""

import math

import pytest
import torch

from closeness import assert_close
from interp import train_population
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer, masks
from interp.model.masks import counted_positions
from interp.worlds.dyck.oracles import oracle_width

START, END, PAD = 4, 5, 6
BARE = {"block": "bare", "n_layers": 1, "mlp_depth": 0}
CONFIGS = {
    "none": {},
    "linear": {"positions": "linear"},
    "learned": {"positions": "learned"},
    "learned, bidirectional": {"positions": "learned", "direction": "bidirectional"},
    "linear attention": {"attention": "linear"},
    "linear, uniform": {"positions": "linear", "attention": "uniform"},
    "learned, paper": {"positions": "learned", "block": "paper", "norm": "unit"},
    "linear, onehot": {"positions": "linear", "embedding": "onehot", "d_model": 7},
    "minimal": {**BARE, "embedding": "minimal"},
    "minimal-sum, uniform": {**BARE, "embedding": "minimal-sum", "attention": "uniform"},
    "minimal-angle": {**BARE, "embedding": "minimal-angle"},
}
ROWS = [[START, 0, 2, 3, 1, 2], [START, 2, 0], [START]]


def make(**changes):
    """Weights, biases and gains all random and not small."""
    settings = {"d_model": 12, "d_head": 6, "n_heads": 2, "d_mlp": 10, "pad_token": PAD, "n_ctx": 24}
    settings |= {"num_types": 2, "max_depth": 4, **changes}
    if settings.get("embedding", "").startswith("minimal"):
        settings["d_model"] = oracle_width(settings["embedding"], 2, 4)
    model = SandboxTransformer(TransformerConfig(7, **settings), DyckGrammar(2, 4))
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=source)
            p.copy_(1 + 0.3 * noise if name.endswith(".w") else 0.4 * noise)
    return model


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def model(request):
    return make(**request.param)


def laid(rows, left, right):
    return torch.tensor([[PAD] * left + row + [PAD] * right for row in rows])


@pytest.mark.parametrize(("left", "right"), [(1, 0), (4, 0), (2, 3)])
def test_a_padded_row_has_the_logits_and_the_loss_of_the_row_alone(model, left, right):
    with torch.no_grad():
        for row in ROWS:
            alone = model(torch.tensor([row]))[0]
            padded = model(laid([row], left, right))[0]
            assert_close(padded[left : left + len(row)], alone)
            if len(row) > 1:
                loss = model(torch.tensor([row]), return_type="loss")
                assert_close(model(laid([row], left, right), return_type="loss"), loss, scale=alone)


def test_rows_padded_to_one_width_on_either_side_are_alike(model):
    width = max(map(len, ROWS))
    on_left = torch.tensor([[PAD] * (width - len(row)) + row for row in ROWS])
    on_right = torch.tensor([row + [PAD] * (width - len(row)) for row in ROWS])
    with torch.no_grad():
        ours, expected = model(on_left), model(on_right)
        for i, row in enumerate(ROWS):
            assert_close(ours[i, width - len(row) :], expected[i, : len(row)])
        losses = [model(tokens, return_type="loss") for tokens in (on_left, on_right)]
    assert_close(losses[0], losses[1], scale=expected)


def test_padding_on_the_right_keeps_every_bit(model):
    tokens = torch.tensor([row + [PAD] * (9 - len(row)) for row in ROWS])
    assert torch.equal(counted_positions(tokens, model.config).expand(tokens.shape), torch.arange(9).expand(3, 9))
    with torch.no_grad():
        assert torch.equal(model(tokens), model(tokens, positions=torch.arange(9)[None]))


def test_positions_are_counted_from_the_first_token_and_over_padding_further_on():
    config = make(positions="learned").config
    tokens = torch.tensor([[PAD, PAD, START, 0, PAD, 1, PAD], [START, PAD, 0, 1, 2, 3, PAD], [PAD] * 7])
    counted = [[0, 0, 0, 1, 2, 3, 4], list(range(7)), [0] * 7]
    assert counted_positions(tokens, config).tolist() == counted
    unknown = make(positions="learned", pad_token=None).config
    assert counted_positions(tokens, unknown).tolist() == [list(range(7))]


def test_no_token_is_predicted_by_padding():
    """By hand: of a left-padded row START, which follows PAD, is no prediction; nor is a token after a hole."""
    model = make(positions="linear").double()
    tokens = torch.tensor([[PAD, PAD, START, 0, 1], [START, 0, PAD, 1, END]])
    logits = model(tokens).detach()
    predicted = [(0, 2, 0), (0, 3, 1), (1, 0, 0), (1, 3, END)]  # row, position, next token
    nats = [float(logits[r, i].logsumexp(0) - logits[r, i, token]) for r, i, token in predicted]
    assert_close(model(tokens, return_type="loss").item(), math.fsum(nats) / 4, scale=logits)
    with pytest.raises(RequestError, match="hold nothing to predict"):
        model(torch.tensor([[PAD, PAD, START]]), return_type="loss")


# -- masks and positions of one's own -----------------------------------------------------------------


CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()
BLIND = CAUSAL.clone()
BLIND[2] = False


@pytest.mark.parametrize(
    ("visible", "said"),
    [
        (BLIND, "does not let query 2 see a key"),
        (torch.stack([CAUSAL, CAUSAL, BLIND])[:, None], "does not let query 2 of row 2 see a key"),
        (torch.zeros(3, 1, 1, 6, dtype=torch.bool), "does not let any query of row 0 see a key"),
        (CAUSAL.float(), "a tensor of torch.float32 is not a mask"),
        (CAUSAL.tolist(), "is not a mask: pass a bool tensor"),
        ("causal", "visible='causal' is not a mask"),
        (CAUSAL[:5, :5], r"visible of shape \[5, 5\] does not fit tokens of shape \[3, 6\]"),
        (CAUSAL.expand(3, 6, 6), r"visible of shape \[3, 6, 6\] does not fit"),
        (CAUSAL.expand(2, 1, 6, 6), r"visible of shape \[2, 1, 6, 6\] does not fit"),
        (CAUSAL.expand(3, 5, 6, 6), r"visible of shape \[3, 5, 6, 6\] does not fit"),
    ],
)
def test_a_mask_that_cannot_be_is_refused(model, visible, said):
    tokens = torch.tensor([row + [PAD] * (6 - len(row)) for row in ROWS])
    with pytest.raises(RequestError, match=said) as error:
        model(tokens, visible=visible)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [(6, 6), (1, 1, 6, 6), (3, 1, 6, 6), (3, 2, 6, 6)])
def test_masks_of_every_shape_that_fits_are_one_mask(model, shape):
    tokens = torch.tensor([ROWS[0]] * 3)
    with torch.no_grad():
        assert_close(model(tokens, visible=CAUSAL.expand(shape)), model(tokens, visible=CAUSAL.expand(3, 1, 6, 6)))


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        (torch.arange(5), r"positions of shape \[5\] do not fit tokens of shape \[3, 6\]"),
        (torch.arange(6).expand(2, 6), r"positions of shape \[2, 6\] do not fit"),
        (torch.arange(6.0), "a tensor of torch.float32 are no places"),
        ([0, 1, 2, 3, 4, 5], r"positions=\[0, 1, 2, 3, 4, 5\] are no places"),
        (torch.arange(6) - 1, "positions hold -1, and the learned ones are 0 to n_ctx - 1 = 23"),
        (torch.arange(6) + 19, "positions hold 24, and the learned ones are 0"),
    ],
)
def test_positions_that_cannot_be_are_refused(positions, said):
    tokens = torch.tensor([row + [PAD] * (6 - len(row)) for row in ROWS])
    with pytest.raises(RequestError, match=said):
        make(positions="learned")(tokens, positions=positions)


@pytest.mark.slow
def test_training_checks_its_masks_at_no_step(monkeypatch):
    """On a device each check would wait for all that was asked of it before."""

    def fail(*_):
        raise AssertionError("a mask of training was checked")

    monkeypatch.setattr(masks, "checked_visible", fail)
    monkeypatch.setattr(masks, "checked_positions", fail)
    for options in ({"positions": "learned", "layers": 1}, {"positions": "linear", "contrastive": 0.1}):
        train_population("dyck-standard", 2, options=options, steps=2, batch=2, workers=1)
