"""Every probe on models whose truth was constructed: what it must say of them."""

import pytest

from interp import load_checkpoint
from probes import analyze_balance, analyze_stack_likeness


@pytest.mark.parametrize("name", ["balanced", "uniform"])
def test_balance_violation_is_zero_where_matched_pairs_cancel(name):
    result = analyze_balance(load_checkpoint(f"constructed/{name}"), num_inputs=10, untrained=False)
    assert result.beta.value == pytest.approx(0, abs=1e-6)
    assert result.functional.value == pytest.approx(0, abs=1e-5)
    assert result.functional.null > 0.2  # the scale: unrelated strings are far apart
    assert result.norm_on_output


def test_the_functional_form_sees_that_the_stack_solver_ignores_matched_pairs_although_beta_does_not():
    result = analyze_balance(load_checkpoint("constructed/stack"), num_inputs=10, untrained=False)
    assert result.functional.value == pytest.approx(0, abs=1e-5)
    assert result.beta.value > 0.05


@pytest.mark.parametrize(("name", "layer", "score"), [("stack", 1, 1.0), ("constant", 1, 1.0), ("uniform", 1, 0.0)])
def test_stack_likeness_is_one_of_the_solver_and_zero_of_uniform_attention(name, layer, score):
    result = analyze_stack_likeness(load_checkpoint(f"constructed/{name}"), num_inputs=10, untrained=False)
    found = result.score[layer][0]
    assert found.value == pytest.approx(score, abs=0.01 if score else 1e-6)
    if score:
        assert result.top1[layer][0].value == pytest.approx(1.0)
