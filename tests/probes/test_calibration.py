"""Every probe on models whose truth was constructed: what it must say of them."""

import pytest
import torch

from closeness import assert_close
from interp import load_checkpoint
from probes import analyze_balance, analyze_stack_likeness


@pytest.mark.parametrize("name", ["balanced", "uniform"])
def test_balance_violation_is_zero_where_matched_pairs_cancel(name):
    result = analyze_balance(load_checkpoint(f"constructed/{name}"), num_inputs=10, untrained=False)
    assert_close([result.beta.value, result.functional.value], 0, ulps=8, scale=1, dtype=torch.float32)
    assert result.functional.null > 0.2  # the scale: unrelated strings are far apart
    assert result.norm_on_output


def test_the_functional_form_sees_that_the_stack_solver_ignores_matched_pairs_although_beta_does_not():
    result = analyze_balance(load_checkpoint("constructed/stack"), num_inputs=10, untrained=False)
    assert_close(result.functional.value, 0, ulps=8, scale=1, dtype=torch.float32)
    assert result.beta.value > 0.05


@pytest.mark.parametrize(("name", "layer", "score"), [("stack", 1, 1.0), ("constant", 1, 1.0), ("uniform", 1, 0.0)])
def test_stack_likeness_is_one_of_the_solver_and_zero_of_uniform_attention(name, layer, score):
    result = analyze_stack_likeness(load_checkpoint(f"constructed/{name}"), num_inputs=10, untrained=False)
    found = result.score[layer][0]
    if score:
        assert found.value == pytest.approx(score, rel=0.01)
        assert result.top1[layer][0].value == pytest.approx(1.0)
    else:
        assert_close(found.value, 0, ulps=8, scale=1, dtype=torch.float32)
