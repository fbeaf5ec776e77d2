"""Encoders that copy: the one task on tokens for which a model may look at what it is to say."""

import numpy as np
import pytest
import torch

from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.foreign import load_foreign
from interp.model import SandboxTransformer
from interp.worlds.copying.grammar import CopyGrammar
from probes import audit_claims
from probes.audit.analyzer import _task_named
from probes.audit.exchanges import interchange
from probes.audit.inputs import make_inputs
from probes.audit.pattern import Laid
from probes.audit.use import Used
from probes.claims import Claim, offset

GRAMMAR = CopyGrammar(2, 4)


def encoder(seed=0):
    config = TransformerConfig(7, pad_token=6, num_types=2, max_depth=4, n_layers=2, d_model=16, d_head=8, n_heads=2,
                               direction="bidirectional")  # fmt: skip
    model = SandboxTransformer.init(config, seed, GRAMMAR)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    return model


def side_of(relation, model):
    inputs = make_inputs(model, GRAMMAR, None, 200, 26, 0)
    asked = Laid(inputs).asked(Claim([(0, 0)], relation))
    return asked, Used(model, inputs, _task_named(None, model, GRAMMAR), 0.95, 0).side(asked, "b", ((0, 0),))


def test_edges_behind_what_is_read_count():
    """Most inputs are read before the first claimed edge; an edit of it moves their answers, so none is left out."""
    asked, side = side_of(offset(-20), encoder())
    assert side.aside is None
    assert side.left_out == 0.0
    assert (side.items.read < 20).mean() > 0.5
    keys = torch.from_numpy(asked.keys[side.items.sequence])
    moved = np.abs(side.margin - side.margin_of(side.edited(interchange(side.donor_cache, keys, ((0, 0),)))))
    assert (moved[side.items.read < 20] > 1e-4).any()


def test_all_real_places_live():
    _, side = side_of("previous", encoder())
    assert torch.equal(side.lives(False), side.tokens != 6)


@pytest.mark.parametrize("name", [None, "copies"])
def test_an_encoder_is_asked_to_copy_and_nothing_else(name):
    assert _task_named(name, encoder(), GRAMMAR).name == "copies"
    with pytest.raises(RequestError, match="sees the tokens that it is to predict"):
        _task_named("closers", encoder(), GRAMMAR)


def test_a_bridged_encoder_whose_head_may_be_drawn_at_random_is_not_examined():
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("transformer_lens")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=7, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, pad_token_id=6,
    )  # fmt: skip
    model = load_foreign(transformers.BertModel(config), verbose=False)
    claims = ["L0H0 attends to the previous token"]
    (found,) = audit_claims(model, claims, grammar=GRAMMAR, num_inputs=200, untrained=False)
    assert found.pattern == "fails"
    assert found.use == "not asked"
