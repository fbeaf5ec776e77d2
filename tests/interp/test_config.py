"""TransformerConfig: what it refuses and how it says so, the widths it fixes, its JSON form."""

import dataclasses
import json

import pytest

from interp.config import TransformerConfig
from interp.errors import ConfigError, InterpError
from interp.worlds.dyck.oracles import oracle_width

DISENTANGLED = {
    "block": "disentangled", "embedding": "onehot", "positions": "onehot", "norm": "none", "mlp_depth": 0,
    "biases": False, "n_ctx": 8, "d_model": 60, "d_head": 60,
}  # fmt: skip
MINIMAL = {
    "d_vocab": 7,
    "num_types": 2,
    "max_depth": 4,
    "embedding": "minimal",
    "d_model": 17,
    "n_layers": 1,
    "block": "bare",
    "mlp_depth": 0,
}


@pytest.mark.parametrize(
    ("changes", "quoted"),
    [
        ({"embedding": "oracle"}, "embedding='oracle'"),
        ({"embedding": ["learned"]}, "embedding=['learned']"),
        ({"positions": "rotary"}, "positions='rotary'"),
        ({"positions": None}, "positions=None"),
        ({"attention": "frozen"}, "attention='frozen'"),
        ({"direction": "both"}, "direction='both'"),
        ({"block": "llama"}, "block='llama'"),
        ({"norm": "RMS"}, "norm='RMS'"),
        ({"activation": "tanh"}, "activation='tanh'"),
        ({"attn_scale": 0}, "attn_scale=0"),
        ({"attn_scale": 2.0, "scale_scores": False}, "scale_scores=False"),
        ({"class_names": ["a", "b"]}, "['a', 'b']"),
        ({"class_names": "abcdefg"}, "class_names='abcdefg'"),
        ({"d_vocab": 0}, "d_vocab=0"),
        ({"d_vocab": "7"}, "d_vocab='7'"),
        ({"n_layers": 0}, "n_layers=0"),
        ({"n_layers": 2.0}, "n_layers=2.0"),
        ({"n_heads": True}, "n_heads=True"),
        ({"n_heads": -1}, "n_heads=-1"),
        ({"d_model": None}, "d_model=None"),
        ({"d_head": 0}, "d_head=0"),
        ({"d_mlp": "wide"}, "d_mlp='wide'"),
        ({"n_ctx": 0}, "n_ctx=0"),
        ({"mlp_depth": -1}, "mlp_depth=-1"),
        ({"mlp_depth": 1}, "mlp_depth=1"),
        ({"d_vocab_out": 0}, "d_vocab_out=0"),
        ({"num_types": 0}, "num_types=0"),
        ({"max_depth": 1.5}, "max_depth=1.5"),
        ({"norm_eps": -1e-5}, "norm_eps=-1e-05"),
        ({"norm_eps": float("nan")}, "norm_eps=nan"),
        ({"norm_eps": True}, "norm_eps=True"),
        ({"init_std": float("inf")}, "init_std=inf"),
        ({"init_std": "0.02"}, "init_std='0.02'"),
        ({"scale_scores": 1}, "scale_scores=1"),
        ({"biases": "no"}, "biases='no'"),
        ({"pad_token": 7}, "pad_token=7"),
        ({"pad_token": -1}, "pad_token=-1"),
        ({"pad_token": 1.5}, "pad_token=1.5"),
        ({"pad_token": "PAD"}, "pad_token='PAD'"),
        ({"pad_token": True}, "pad_token=True"),
        ({"embedding": "onehot", "d_model": 6}, "d_model >= d_vocab=7, not 6"),
        ({"embedding": "onehot", "d_model": 7, "positions": "scalar"}, "needs d_model > 7"),
        ({"positions": "onehot", "d_model": 600}, "positions='onehot' stand beside one-hot tokens"),
        ({"positions": "onehot", "embedding": "onehot", "d_model": 518}, "d_vocab + n_ctx = 519 are needed"),
        ({**DISENTANGLED, "embedding": "learned", "positions": "none"}, "embedding='learned' must be 'onehot'"),
        ({**DISENTANGLED, "positions": "none"}, "positions='none' must be 'onehot'"),
        ({**DISENTANGLED, "norm": "LN"}, "norm='LN' must be 'none'"),
        ({**DISENTANGLED, "mlp_depth": 2}, "mlp_depth=2 must be 0"),
        ({**DISENTANGLED, "biases": True}, "biases=True must be False"),
        ({**DISENTANGLED, "d_model": 61}, "d_model=61 must be 60"),
        ({**DISENTANGLED, "d_head": 50}, "d_head=50 must be 60"),
        ({"norm_added": True}, "norm_added=True is for block='authors' with a norm"),
        ({"norm_added": True, "block": "authors", "norm": "none"}, "norm_added=True is for block='authors'"),
        ({"norm_added": 1, "block": "authors"}, "norm_added=1"),
        ({"final_norm": "no"}, "final_norm='no'"),
        ({"unembed_bias": 0}, "unembed_bias=0"),
        ({"block": "bare", "n_layers": 2, "mlp_depth": 0}, "n_layers=2"),
        ({"block": "bare", "n_layers": 1, "mlp_depth": 2}, "mlp_depth=2"),
        ({"block": "paper", "n_heads": 2}, "2 x 50"),
        ({**MINIMAL, "num_types": None}, "'minimal'"),
        ({**MINIMAL, "max_depth": None}, "'minimal'"),
        ({**MINIMAL, "positions": "linear"}, "'minimal'"),
        ({**MINIMAL, "num_types": 3, "d_model": 25}, "d_vocab=9, not 7"),
        ({**MINIMAL, "d_model": 16}, "d_model=17, not 16"),
    ],
    ids=str,
)
def test_bad_values_are_quoted(changes, quoted):
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(**{"d_vocab": 7, **changes})
    message = str(caught.value)
    assert quoted in message
    assert "\n" not in message
    assert isinstance(caught.value, InterpError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("embedding", "k", "depth", "width"),
    [
        ("minimal", 1, 1, 3),
        ("minimal", 2, 4, 17),
        ("minimal", 3, 5, 31),
        ("minimal-sum", 1, 1, 4),
        ("minimal-sum", 2, 4, 9),
        ("minimal-angle", 2, 4, 7),
        ("minimal-angle", 3, 9, 9),
    ],
)
def test_oracle_width_is_the_papers_plus_start(embedding, k, depth, width):
    """eq. 15: 2kD, eq. 16: 2k + D, eq. 17: 2k + 2; and one for START."""
    assert oracle_width(embedding, k, depth) == width
    config = TransformerConfig(2 * k + 3, d_model=width, embedding=embedding, num_types=k, max_depth=depth)
    assert config.d_final == width


@pytest.mark.parametrize(
    ("changes", "final", "out"),
    [
        ({}, 50, 7),
        ({"n_heads": 3, "d_head": 8}, 50, 7),
        ({"d_vocab_out": 2}, 50, 2),
        ({"block": "bare", "n_layers": 1, "mlp_depth": 0, "n_heads": 3, "d_head": 8}, 24, 7),
    ],
)
def test_derived_sizes(changes, final, out):
    config = TransformerConfig(7, **changes)
    assert (config.d_final, config.d_out) == (final, out)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "unit", "block": "paper", "scale_scores": False, "biases": False, "activation": "relu"},
        {"d_vocab_out": 3, "pad_token": 6, "direction": "bidirectional", "positions": "learned"},
        MINIMAL,
    ],
)
def test_json_round_trip(changes):
    config = TransformerConfig(**{"d_vocab": 7, **changes})
    again = TransformerConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert hash(again) == hash(config)


def test_every_field_survives_the_round_trip():
    """A field that `to_dict` forgot would come back as its default."""
    changed = TransformerConfig(
        d_vocab=9, n_layers=3, n_heads=2, d_model=12, d_head=6, d_mlp=7, mlp_depth=4, n_ctx=33,
        embedding="learned", positions="linear", attention="uniform", direction="bidirectional",
        block="paper", norm="unit", norm_eps=0.5, activation="relu", scale_scores=False, biases=False,
        init_std=0.1, d_vocab_out=12, pad_token=8, num_types=3, max_depth=2, unembed="identity",
        class_names=tuple("abcdefghijkl"), final_norm=True, unembed_bias=False,
    )  # fmt: skip
    default = TransformerConfig(d_vocab=7)
    same = [
        f.name
        for f in dataclasses.fields(changed)
        if getattr(changed, f.name) == getattr(default, f.name) and f.name != "embedding"
    ]
    assert same == ["attn_scale", "norm_added"]  # excluded by scale_scores=False, and by another block
    scaled, added = TransformerConfig(7, attn_scale=2.0), TransformerConfig(7, block="authors", norm_added=True)
    for config in (changed, scaled, added):
        assert TransformerConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("data", "quoted"),
    [
        ({"d_vocab": 7, "n_layer": 2}, "'n_layer'"),
        ({"d_vocab": 7, "rotary": True}, "'rotary'"),
        ({"n_layers": 2}, "'d_vocab'"),
        ({"d_vocab": 7, "n_layers": "2"}, "n_layers='2'"),
    ],
)
def test_from_dict_refuses(data, quoted):
    with pytest.raises(ConfigError, match=quoted):
        TransformerConfig.from_dict(data)


def test_config_is_frozen():
    config = TransformerConfig(7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.n_layers = 3


@pytest.mark.parametrize("sizes", [{"n_layers": 10**6}, {"d_model": 10**6}, {"d_mlp": 10**9}, {"mlp_depth": 10**6}])
def test_models_that_no_machine_could_hold_are_refused_before_they_are_built(sizes):
    with pytest.raises(ConfigError, match="small models"):
        TransformerConfig(d_vocab=7, **sizes)
