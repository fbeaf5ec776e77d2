"""What a guest gives as logits, wherever it is read: probabilities and what is not finite are called by their names."""

import copy

import pytest
import torch

from interp import DyckGrammar, SandboxTransformer, load_checkpoint
from interp.errors import AnalysisError, RequestError
from interp.plots import attention_heatmap
from probes import (
    LabelledInput,
    analyze_balance,
    analyze_stack_likeness,
    analyze_variation,
    audit_claim,
    scan_heads,
)

GRAMMAR = DyckGrammar(2, 4)
CLAIM = "L1H0 attends to the last unmatched open bracket"
SHORT = {"num_inputs": 60, "length": 12}


class Guest(SandboxTransformer):
    """A model whose output is changed on the way out."""

    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        return found if found is None else self.changed(found)


@pytest.fixture(scope="module")
def trained():
    return load_checkpoint("dyck-standard")[0]


def guest_of(trained, changed):
    guest = copy.deepcopy(trained)
    guest.__class__, guest.changed, guest.provenance = Guest, changed, {}
    return guest


def setting(value, place=(slice(None), -1, 2)):
    """Writes `value` in the last position of every row."""

    def changed(logits):
        logits = logits.clone()
        logits[place] = value
        return logits

    return changed


HOOKED = {
    "stack": lambda m: analyze_stack_likeness(m, num_inputs=30, length=12),
    "balance": lambda m: analyze_balance(m, num_inputs=4, length=6),
    "balance, unchecked": lambda m: analyze_balance(m, num_inputs=4, length=6, task_check=False),
    "variation": lambda m: analyze_variation([m, copy.deepcopy(m)], "[[]]()"),
    "audit": lambda m: audit_claim(m, CLAIM, **SHORT),
    "scan": lambda m: scan_heads(m, ["previous"], **SHORT),
    "heatmap": lambda m: attention_heatmap(m, "[[]]()"),
}
PLAIN = {
    "callable": lambda m: analyze_balance(lambda x: m(x), grammar=GRAMMAR, num_inputs=4, length=6),
    "callable, unchecked": lambda m: analyze_balance(
        lambda x: m(x), grammar=GRAMMAR, num_inputs=4, length=6, task_check=False
    ),
}
everywhere = pytest.mark.parametrize("entry", list((HOOKED | PLAIN).values()), ids=list(HOOKED | PLAIN))


@everywhere
def test_probabilities_are_refused(trained, entry):
    with pytest.raises(RequestError, match="sums to 1, as probabilities do: give logits") as caught:
        entry(guest_of(trained, lambda x: x.softmax(-1)))
    assert "\n" not in str(caught.value)


@everywhere
@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x * torch.nan,
        lambda x: torch.full_like(x, torch.inf),
        lambda x: torch.full_like(x, -torch.inf),
        setting(torch.nan, (slice(None), slice(2, None), 5)),
        setting(torch.inf, (slice(None), slice(2, None), 5)),
    ],
    ids=["nan", "inf", "-inf", "one nan", "one inf"],
)
def test_what_is_not_finite_is_said_to_be(trained, entry, changed):
    with pytest.raises(AnalysisError, match="gives logits that are not finite"):
        entry(guest_of(trained, changed))


@pytest.mark.parametrize("entry", [HOOKED["audit"], HOOKED["heatmap"], *PLAIN.values()])
@pytest.mark.parametrize("changed", [lambda x: x.log_softmax(-1), lambda x: x + 3])
@pytest.mark.slow
def test_logits_of_any_level_are_measured_alike(trained, entry, changed):
    entry(guest_of(trained, changed))


def test_a_token_that_is_never_predicted_may_have_a_probability_of_zero(trained):
    plain = analyze_balance(guest_of(trained, lambda x: x), num_inputs=4, length=6)
    masked = analyze_balance(guest_of(trained, setting(-torch.inf, (..., GRAMMAR.start))), num_inputs=4, length=6)
    assert masked.functional.value == pytest.approx(plain.functional.value, rel=1e-2)
    assert masked.contrastive.value is None


def test_an_audit_with_labels_refuses_probabilities(trained):
    texts = sorted(set(map(GRAMMAR.format, GRAMMAR.sample(60, mode="prefix", length=8, seed=0))))
    inputs = [LabelledInput(text, ")" if i % 2 else "]", -1) for i, text in enumerate(texts)]
    with pytest.raises(RequestError, match="as probabilities do"):
        audit_claim(guest_of(trained, lambda x: x.softmax(-1)), f"{CLAIM} to predict the label", inputs)


def test_a_callable_is_not_told_that_its_attention_could_be_measured(trained):
    with pytest.raises(RequestError, match=r"gives ndarray, and logits .* are needed, a torch.Tensor$"):
        analyze_balance(lambda x: trained(x).numpy(), grammar=GRAMMAR, num_inputs=4, length=6)
