"""The suite of analyzers: ours pass it, and for every check there are analyzers that it catches and names."""

import random
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from interp import Population, list_worlds
from interp.errors import AnalyzerError, RequestError, WorldError
from interp.guests import hosting, models_of, untrained_of
from interp.patterns import attention_patterns
from interp.presets import make_recipe
from interp.stats import Estimate, mean_over_seeds
from parity import CLAIMS, ONES, ParityQuestion, world
from probes import (
    analyze_balance,
    analyze_drift,
    analyze_glitches,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    check_analyzer,
    check_audit,
)
from probes.checking import CHECKS, analyzer_checks
from probes.core import Result

RAMP = np.maximum(np.arange(60.0) - 30, 0)
NORMS = {"W_V": np.minimum(np.arange(60.0), 30), "W_Q": RAMP, "W_K": RAMP}
OURS = {
    "variation": (analyze_variation, None),
    "stack": (analyze_stack_likeness, None),
    "balance": (partial(analyze_balance, num_inputs=20), None),
    "drift": (partial(analyze_drift, length=12), None),
    "glitches": (partial(analyze_glitches, reads=200), None),
    "topics": (analyze_topic_blocks, None),
    "two stages": (analyze_two_stages, NORMS),
}
EACH = [
    pytest.param(check, id=f"{of}-{name}")
    for of, (analyzer, guest) in OURS.items()
    for name, check in analyzer_checks(analyzer, guest)
]


@pytest.mark.parametrize("check", EACH)
def test_every_analyzer_passes_every_check(check):
    check()


# -- an analyzer of its own, and ones that are broken in one place ------------------------------------------


@dataclass(frozen=True)
class Firsts(Result):
    """The mean weight on the first key."""

    weight: Estimate
    told: str = "weight on the first key"

    def summary(self):
        return f"{self.told}\n{self.weight}"

    def figure(self):
        return go.Figure(go.Scatter(y=[self.weight.value]))


def measured(models):
    ids = torch.zeros((1, 5), dtype=torch.long)
    return [float(attention_patterns(model, ids)[0][..., 0].mean()) for model in models]


def firsts(guest, change=lambda result: result, before=lambda models: None, after=lambda models: None):
    models = list(models_of(guest, "firsts"))
    before(models)
    fresh = untrained_of(guest)
    null = None if fresh is None else {"untrained": float(np.mean(measured(fresh)))}
    value = mean_over_seeds(measured(models)).with_null(null)
    after(models)
    return change(Firsts(value))


GOOD = hosting("firsts")(firsts)


def changed(**fields):
    return partial(GOOD, change=lambda result: replace(result, **fields))


def estimate(**fields):
    """The analyzer with a changed estimate, as a part of its dict."""
    return told(lambda result: {"weight": result.weight.to_dict() | fields})


def told(make):
    def change(result):
        kind = type("Told", (Firsts,), {"to_dict": lambda self: make(self)})
        return kind(result.weight)

    return partial(GOOD, change=change)


def with_part(**parts):
    return partial(GOOD, change=lambda result: type("Other", (Firsts,), parts)(result.weight))


def during(act):
    return partial(GOOD, after=act)


def nudge(models):
    with torch.no_grad():
        next(models[0].parameters()).add_(1)


def thaw(models):
    for model in models:
        model.requires_grad_(True)


def nudge_buffer(models):
    next(models[0].buffers()).add_(1)


@hosting("own")
def impolite(guest):
    """Leaves a hook behind where the guest raises."""
    models = list(models_of(guest, "own"))
    for model in models:
        model.ln_final.register_forward_hook(lambda *_: None)
    result = firsts(models)
    for model in models:
        model.ln_final._forward_hooks.clear()
    return result


def lenient(guest):
    return Firsts(Estimate.undefined("a text has no weights", 0, "seeds")) if isinstance(guest, str) else GOOD(guest)


def mute(guest):
    raise RequestError("")


def raw(guest):
    """Runs models as they are."""
    values = [float(model(torch.zeros((1, 5), dtype=torch.long)).detach().mean()) for model in guest]
    return Firsts(mean_over_seeds(values))


def noisy(part):
    """The same numbers, with a random one in the summary or in the figure."""

    def draw():
        return float(np.random.default_rng().random())

    if part == "summary":
        return with_part(summary=lambda self: f"{self.weight} {draw()}")
    return with_part(figure=lambda self: go.Figure(go.Scatter(y=[draw()])))


@hosting("forgetful")
def forgetful(guest, known={}):  # noqa: B006 - what it remembers is the fault
    """Random numbers, drawn once a guest."""
    if id(guest) not in known:
        known[id(guest)] = guest, Firsts(mean_over_seeds(np.random.default_rng().random(8)))
    return known[id(guest)][1]


def seeded(rng):
    """Reads a seed, and draws from what `rng` makes of it."""

    def run(guest, *, seed=0):
        return GOOD(guest, change=lambda result: replace(result, told=f"about {rng(seed).random():.6f}"))

    return run


def nulls(make):
    """The analyzer with the null that `make` gives of the value."""
    return partial(
        GOOD, change=lambda result: replace(result, weight=result.weight.with_null(make(result.weight.value)))
    )


def second(**fields):
    """With a second headline beside the first, which is sound."""
    return told(lambda result: {"weight": result.weight.to_dict(), "more": result.weight.to_dict() | fields})


def fresh(*_):
    return {"weight": mean_over_seeds(np.random.rand(4)).to_dict()}


BROKEN = {
    "result": [
        (partial(GOOD, change=lambda result: 3), "3 has no summary"),
        (told(lambda result: [1]), r"to_dict gives \[1\], no dict"),
        (told(lambda result: {"weight": float("nan")}), "to_dict is no JSON"),
        (told(lambda result: {1: "a"}), "changes when it is written as JSON"),
        (partial(GOOD, guest=3), "TypeError"),
    ],
    "summary": [
        (changed(told="w" * 81), "a line of 81 columns, more than 80"),
        (with_part(summary=lambda self: " "), "summary gives ' '"),
    ],
    "estimates": [
        (told(lambda result: {"weight": result.weight.value}), "holds no estimate"),
        (estimate(n=None), "weight does not say of how many it is: n=None"),
        (estimate(over=3), "weight does not say over what"),
        (estimate(low=None), "weight has no interval, and no reason"),
        (estimate(value=None), "weight has no value, and no reason"),
        (estimate(high=0.0, value=1.0), r"1 is not within its interval"),
    ],
    "figure": [
        (with_part(figure=lambda self: 3), "figure gives 3, no plotly figure"),
        (with_part(figure=lambda self: go.Figure()), "figure draws nothing"),
    ],
    "deterministic": [
        (told(fresh), "a second call gives another 'weight'"),
        (noisy("summary"), "a second call gives another summary, of the same numbers"),
        (noisy("figure"), "a second call gives another figure, of the same numbers"),
        (forgetful, "a second call gives another 'weight'"),
    ],
    "seed": [
        (seeded(lambda seed: np.random.default_rng(0)), "seed=1 gives what seed=0 does, in numbers, summary"),
        (seeded(lambda seed: np.random.default_rng(None if seed else 0)), "call with seed=1 gives another 'told'"),
    ],
    "guest": [
        (during(nudge), "weight .* is not what it was"),
        (during(nudge_buffer), "buffer .* is not what it was"),
        (during(lambda models: [model.eval() for model in models]), "mode of .* is not what it was"),
        (during(thaw), "requires_grad of .* is not what it was"),
        (during(lambda models: [model.zero_grad() for model in models]), "gradient of .* is not what it was"),
        (during(lambda models: [model.reset_hooks() for model in models]), "hooks of .* is not what it was"),
        (during(lambda models: models[0].register_buffer("more", torch.ones(1))), "buffer more of 0 was not"),
        (impolite, "after a hook of the guest had raised"),
        (mute, "it refuses <Population of 8 models>"),
        (raw, "leaves it bare, as RuntimeError"),
    ],
    "globals": [
        (during(lambda models: torch.rand(1)), "it changes torch's random state"),
        (during(lambda models: np.random.rand()), "it changes numpy's random state"),
        (during(lambda models: random.random()), "it changes Python's random state"),
        (during(lambda models: np.seterr(under="raise")), "it changes how numpy treats errors"),
    ],
    "null": [
        (estimate(null={"untrained": 9.0}), r"weight of untrained models is .*, and their null 9"),
        (estimate(null=9.0), "and their null 9"),
        (estimate(null={"even": 9.0, "none": 8.0}), "and their null 9.0000, 8.0000"),
        (nulls(lambda value: None), "weight has no null, and no reason that says why"),
        (nulls(lambda value: {"untrained": None}), "weight has no null, and no reason that says why"),
        (second(null=9.0), "more of untrained models is .*, and their null 9"),
        (second(null=None), "more has no null"),
        (nulls(lambda value: value), "the null of weight is its own value: on other weights both are"),
        (nulls(lambda value: {"untrained": value, "even": 0.2}), "the null of weight is its own value"),
        (with_part(HEADLINES=("wait",)), "HEADLINES names 'wait', and to_dict has no such field"),
    ],
    "intervals": [
        (estimate(low=0.0, high=1.0), r"interval of weight is \[0.0000, 1.0000\] over 8 and over 12 seeds"),
    ],
    "refuses": [
        (lenient, "'a text' is taken, and gives"),
        (mute, "guest 'a text' is refused without a word"),
        (raw, "guest 'a text' ends in a bare TypeError: raise an InterpError"),
    ],
}  # fmt: skip

CASES = [
    pytest.param(name, analyzer, said, id=f"{name}-{i}")
    for name, cases in BROKEN.items()
    for i, (analyzer, said) in enumerate(cases)
]


def guests():
    """Small models with two parameters at least, new ones for every test, since some analyzers ruin theirs."""
    recipe = make_recipe("dyck-minimal-angle")
    return Population.init(recipe.config, range(8), recipe.grammar)


def test_every_check_has_analyzers_that_fail_it():
    assert list(BROKEN) == list(CHECKS)


def test_the_analyzer_that_the_others_break_is_sound():
    assert check_analyzer(GOOD) == list(CHECKS)
    assert "seed" in check_analyzer(seeded(np.random.default_rng))


def test_where_headlines_are_declared_other_estimates_need_no_null():
    def to_dict(self):
        return {"weight": self.weight.to_dict(), "more": self.weight.with_null(9.0).to_dict()}

    assert check_analyzer(with_part(HEADLINES=("weight",), to_dict=to_dict), guests(), only="null") == ["null"]
    with pytest.raises(AnalyzerError, match="more of untrained models is"):
        check_analyzer(with_part(to_dict=to_dict), guests(), only="null")


@pytest.mark.parametrize(("name", "analyzer", "said"), CASES)
def test_a_broken_analyzer_is_caught_and_named(name, analyzer, said):
    treats = np.geterr()
    try:
        with pytest.raises(AnalyzerError, match=f"fails the check '{name}': .*({said})") as caught:
            check_analyzer(analyzer, guests(), only=name)
    finally:
        np.seterr(**treats)
    assert "\n" not in str(caught.value)


def test_models_that_no_analyzer_is_for_are_asked_for():
    def choosy(guest):
        raise RequestError("none of these")

    with pytest.raises(AnalyzerError, match=r"takes untrained models of no preset: pass guest= .*none of these"):
        check_analyzer(choosy, only="result")


@dataclass(frozen=True)
class Declared:
    """An analyzer as a registry declares it."""

    run: str = "probes:analyze_topic_blocks"
    worlds: tuple[str, ...] = ("topics",)


def test_an_analyzer_that_must_be_told_its_inputs_is_given_what_is_usually_shown():
    def shown(guest, inputs):
        assert inputs == "[[[[]]]](((())))"
        return GOOD(guest)

    assert check_analyzer(shown, guests(), only="result") == ["result"]


def test_an_analyzer_is_named_by_what_runs_it():
    assert check_analyzer(Declared(), only="summary") == ["summary"]
    with pytest.raises(
        AnalyzerError, match=r"analyze_topic_blocks fails the check 'summary': .*is not a grammar|no preset"
    ):
        check_analyzer(Declared(worlds=("dyck",)), only="summary")


def test_trained_models_are_not_asked_for_their_null():
    assert "null" not in dict(analyzer_checks(analyze_two_stages, NORMS))
    assert "null" in dict(analyzer_checks(GOOD, list(guests())))


@pytest.mark.parametrize(
    ("analyzer", "only", "said"),
    [
        (Declared("my_package:measure"), None, "run='my_package:measure' names nothing that can be imported"),
        (3, None, "analyzer=3 is not a function that measures models"),
        (GOOD, "nul", "only='nul' is not a check"),
    ],
)
def test_wrong_requests_are_refused(analyzer, only, said):
    with pytest.raises(RequestError, match=said):
        check_analyzer(analyzer, only=only)


# -- audits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_worlds())
def test_every_world_can_be_audited(name):
    claims = check_audit(name)
    assert (len(claims) > 0) == (name != "brackets")  # which has no preset


def test_a_world_of_labels_can_be_audited():
    assert any("tell the parity" in claim for claim in check_audit(world()))


BROKEN_CLAIMS = {
    "words of another relation": (
        replace(CLAIMS, relations=(replace(ONES, words="the first token"),)), "is read as another|not understood",
    ),
    "a question that raises": (
        replace(CLAIMS, questions=(type("Raising", (ParityQuestion,), {"items": None})(),)), "TypeError",
    ),
    "keys that are not visible": (
        replace(CLAIMS, relations=(replace(ONES, keys=lambda t, g, v: v[:, :1]),)), "not bool of shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("claims", "said"), BROKEN_CLAIMS.values(), ids=BROKEN_CLAIMS)
def test_a_world_that_cannot_be_audited_is_named(claims, said):
    with pytest.raises(WorldError, match=f"world 'parity' cannot be audited: .*({said})"):
        check_audit(world(claims=claims))


def test_what_is_no_world_is_refused():
    with pytest.raises(RequestError, match="world=3 is neither a World nor the name of one"):
        check_audit(3)
