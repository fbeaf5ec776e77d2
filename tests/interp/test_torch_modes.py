"""What is loaded, trained and measured does not depend on the mode that the caller put torch into."""

import contextlib

import numpy as np
import pytest
import torch
from transformer_lens.model_bridge import TransformerBridge

from interp import SandboxTransformer, load_checkpoint, load_foreign, train_population
from interp._foreign_config import to_config
from interp.plots import attention_heatmap
from interp.worlds.dyck.constructed import construct
from probes import analyze_balance, analyze_stack_likeness, analyze_topic_blocks, analyze_variation, audit_claim
from walk import fingerprint


@contextlib.contextmanager
def every_mode():
    """All at once: each call takes seconds, and what survives all survives each."""
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"):
        yield


MODES = {"every mode": every_mode, "no gradients": torch.no_grad}
USED = "L1H0 attends to the last unmatched open bracket and uses it to close brackets"


SIZES = {"n_layers": 1, "d_model": 8, "n_ctx": 64, "d_head": 4, "n_heads": 2, "d_vocab": 7, "act_fn": "relu"}
WEIGHTS = {name: p.detach() for name, p in SandboxTransformer.init(to_config(SIZES, None), 0).named_parameters()}


@pytest.fixture(scope="module")
def bridge():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return TransformerBridge.boot_native(SIZES)


CALLS = {
    "variation": lambda bridge: analyze_variation(load_checkpoint("dyck-standard")),
    "stack": lambda bridge: analyze_stack_likeness(load_checkpoint("dyck-standard"), num_inputs=10),
    "balance": lambda bridge: analyze_balance(load_checkpoint("dyck-standard")[0], num_inputs=10),
    "balance of a minimal layer": lambda bridge: analyze_balance(load_checkpoint("constructed/balanced")),
    "audit": lambda bridge: audit_claim(load_checkpoint("constructed/stack"), USED, num_inputs=40),
    "topic blocks": lambda bridge: analyze_topic_blocks(np.eye(6), labels=[0, 0, 1, 1, 2, 2], permutations=99),
    "heatmap": lambda bridge: attention_heatmap(load_checkpoint("dyck-standard"), "([])", population="grid").to_json(),
    "training": lambda bridge: train_population("dyck-standard", [0], steps=2, batch=2, workers=1),
    "training topics": lambda bridge: train_population("topic-value", [0], steps=2, batch=2, workers=1),
    "loading": lambda bridge: load_checkpoint("dyck-standard"),
    "one of a population": lambda bridge: load_checkpoint("dyck-standard")[3].state_dict(),
    "construction": lambda bridge: construct("constructed/stack").state_dict(),
    "a foreign model": lambda bridge: load_foreign(WEIGHTS, SIZES).state_dict(),
    "a bridge": lambda bridge: analyze_stack_likeness(
        bridge, grammar=load_checkpoint("dyck-standard").grammar, num_inputs=4, task_check=False
    ),
}
_usual: dict[str, object] = {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "mode"), [(call, mode) for call in CALLS for mode in MODES if mode == "every mode" or "training" in call]
)
def test_a_mode_changes_nothing(call, mode, bridge):
    if call not in _usual:
        _usual[call] = fingerprint(CALLS[call](bridge))
    with MODES[mode]():
        found = fingerprint(CALLS[call](bridge))
    assert found == _usual[call]


def test_the_callers_mode_is_left_as_it_was():
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"):
        analyze_variation(load_checkpoint("dyck-standard"), "()")
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")
        assert torch.zeros(1).device.type == "meta"
    assert torch.zeros(1).device.type == "cpu"
