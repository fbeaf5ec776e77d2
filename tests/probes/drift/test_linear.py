"""Linear attention has no shares: drift and lottery tickets refuse it in a line."""

import pytest

from interp.config import TransformerConfig
from interp.errors import AnalysisError
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import make_recipe
from probes import demonstrate_lottery_ticket
from probes.drift import analyze_drift


def test_drift_refuses_linear_attention():
    recipe = make_recipe("flipflop-1l1h")
    config = TransformerConfig(**{**recipe.config.to_dict(), "attention": "linear"})
    model = Population.init(config, [0], recipe.grammar)[0]
    with pytest.raises(AnalysisError, match="attention='linear' has weights of either sign"):
        analyze_drift(model, task_check=False)


def test_tickets_refuse_linear_attention():
    model = SandboxTransformer.init(TransformerConfig(7, attention="linear"), 0)
    with pytest.raises(AnalysisError, match=r"attention='linear' should be 'learned' \(softmax\) or 'uniform'"):
        demonstrate_lottery_ticket(model)
