"""The same seed is the same model whatever torch's default type of numbers is."""

import pytest
import torch

from interp import SandboxTransformer, load_checkpoint, load_foreign, train_population
from interp._foreign_config import to_config
from interp.presets import PRESETS
from interp.worlds.dyck.constructed import CONSTRUCTED, construct
from interp.worlds.topics import task as topics
from sizes import hold_out_few
from walk import fingerprint

OTHERS = (torch.float64, torch.bfloat16)
MORE = {
    "dyck-standard": [
        {"l2": 0.1, "optimizer": "sgd", "loss": "mse"},
        {"contrastive": 0.2, "positions": "linear"},
        {"positions": "learned", "layers": 1},
        {"layers": 1, "compute": "counts"},
    ],
    "topic-value": [{"law": "idealised", "data": "exact", "l2": 0.1}, {"start": "block"}],
    "topic-joint": [{"start": "identity"}, {"start": "diagonal", "trained": "attention"}],
}
CASES = [(preset, options) for preset in PRESETS for options in ({}, *MORE.get(preset, ()))]


@pytest.fixture
def under(monkeypatch):
    """Calls a function under another default type, and leaves the default as it was."""
    hold_out_few(monkeypatch, 6)
    monkeypatch.setattr(topics, "FINAL_DOCUMENTS", 8)

    def call(dtype, function):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return fingerprint(function())
        finally:
            torch.set_default_dtype(before)

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "options"), CASES, ids=str)
def test_training_gives_the_same_bits(under, preset, options):
    batch = None if options.get("data") == "exact" else 3

    def train():
        return train_population(preset, [3], options=options, steps=2, batch=batch, workers=1)

    plain = under(torch.float32, train)
    assert all(under(dtype, train) == plain for dtype in OTHERS)


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_resuming_gives_the_same_bits(under, dtype, tmp_path, monkeypatch):
    """The optimizer's moments and its count of steps come back from a file."""
    from interp.training import run

    def train(name, steps, resume=False):
        return train_population(
            "dyck-minimal", [1], options={"eval_every": 2}, steps=steps, batch=3, workers=1,
            out=tmp_path / f"{name}.safetensors", resume=resume,
        )  # fmt: skip

    def stopped():
        write = run.write_state

        def stop(path, state, *rest):
            write(path, state, *rest)
            if state.step == 2:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(run, "write_state", stop)
            with pytest.raises(KeyboardInterrupt):
                train("parts", 4)
        return train("parts", 4, resume=True)

    assert under(dtype, stopped) == under(torch.float32, lambda: train("whole", 4))


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_models_are_what_they_are(under, dtype):
    def loaded():
        model = load_checkpoint("dyck-standard")[2]
        logits, cache = model.run_with_cache("([])[]")
        return model, logits, cache, model(["()", "([])"], return_type="loss"), model.accumulated_bias(2)

    def foreign():
        config = {
            "n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "act_fn": "relu", "n_ctx": 8, "d_vocab": 5,
        }  # fmt: skip
        weights = dict(SandboxTransformer.init(to_config(config, None), 0).named_parameters())
        model = load_foreign({name: p.detach() for name, p in weights.items()}, config)
        return model, model(torch.tensor([[0, 1, 2]]))

    for make in (loaded, foreign, *((lambda name=name: construct(name)) for name in CONSTRUCTED)):
        assert under(dtype, make) == under(torch.float32, make)
