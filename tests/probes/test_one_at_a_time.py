"""Hooks and modes are state of a model: threads that measure wait for each other."""

import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from functools import lru_cache

import numpy as np
import pytest
import torch

from interp import load_checkpoint
from interp.errors import InterpError
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    audit_claims,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    scan_heads,
)

CLAIM = "L1H0 attends to the last unmatched open bracket"
TOKENS = torch.tensor([[4, 0, 0, 1, 1]])
ENTRIES = {
    "stack": analyze_stack_likeness,
    "balance": analyze_balance,
    "variation": lambda model: analyze_variation([model, model]),
    "topics": analyze_topic_blocks,
    "two stages": analyze_two_stages,
    "audit": lambda model: audit_claim(model, CLAIM),
    "audits": lambda model: audit_claims(model, [CLAIM]),
    "scan": scan_heads,
    "ticket": demonstrate_lottery_ticket,
    "shared matrix": lambda model: demonstrate_shared_matrix(model, model),
    "heatmap": lambda model: attention_heatmap(model, "()"),
}


class Slow:
    """A guest that says when it is looked at and answers when it is told to."""

    def __init__(self):
        self.inside, self.go = threading.Event(), threading.Event()

    @property
    def hook_dict(self):
        self.inside.set()
        assert self.go.wait(20)
        raise AttributeError("hook_dict")


def attempt(entry, guest):
    with pytest.raises(InterpError):
        entry(guest)
    return "refused"


@pytest.mark.parametrize("entry", list(ENTRIES.values()), ids=list(ENTRIES))
@pytest.mark.slow
def test_every_entry_waits_for_the_measurement_of_another_thread(entry):
    slow = Slow()
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(attempt, analyze_stack_likeness, slow)
            assert slow.inside.wait(20)
            second = pool.submit(attempt, entry, object())  # would be refused at once
            with pytest.raises(TimeoutError):
                second.result(0.1)
        finally:
            slow.go.set()
        assert first.result(20) == second.result(20) == "refused"


OTHER = lru_cache(lambda: load_checkpoint("dyck-standard")[1])
MEASURED = {
    "variation": lambda model: analyze_variation([model, OTHER()], untrained=False).to_dict(),
    "stack": lambda model: analyze_stack_likeness(model, num_inputs=8, untrained=False).to_dict(),
    "audit": lambda model: audit_claim(model, CLAIM, num_inputs=40, length=10, untrained=False).to_dict(),
    "heatmap": lambda model: attention_heatmap(model, "[[()]]()").to_json(),
    "patterns": lambda model: [p.tolist() for p in attention_patterns(model, TOKENS)],
}


@pytest.mark.slow
def test_threads_that_share_a_model_measure_what_one_thread_does():
    model = load_checkpoint("dyck-standard")[0].train()
    alone = {name: measure(model) for name, measure in MEASURED.items()}
    with ThreadPoolExecutor(4) as pool:
        found = [(name, pool.submit(measure, model)) for _ in range(3) for name, measure in MEASURED.items()]
        for name, future in found:
            assert repr(future.result(120)) == repr(alone[name]), name
    assert model.training
    assert not np.any([module._forward_hooks for module in model.modules()])
