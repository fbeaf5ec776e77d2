"""`check_analyzer`: the suite that every analyzer passes; `check_audit`: what audits must be able to do in a world.

    check_analyzer(analyze_variation)

    @pytest.mark.parametrize(("name", "check"), analyzer_checks(my_analyzer, my_models))
    def test_my_analyzer(name, check):
        check()

What fails is an `AnalyzerError` (of a world: a `WorldError`) in one line, which names the check and what was found.
"""

import copy
import inspect
import json
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from interp.checking import declared
from interp.checking.subject import Subject
from interp.claims.register import claims_of, has_keys
from interp.errors import AnalyzerError, InterpError, RequestError, WorldError, quoted
from interp.guests import is_model
from interp.population import Population
from interp.presets import make_recipe
from interp.registry import get_world, worlds
from interp.world import World, load
from probes.audit import audit_claims
from probes.claims import Claim

SEEDS = range(4)  # of the untrained models that are measured where no guest is given
COLUMNS = 80  # of a terminal
WRONG: tuple[Any, ...] = ("a text", None, [])  # guests that show nothing to measure
AUDITED, LENGTH = 60, 10  # inputs of a trial audit, and their length


def must(good: Any, said: str) -> None:
    """Raise `AnalyzerError` with what was found, unless all is well."""
    if not good:
        raise AnalyzerError(said)


@dataclass(frozen=True)
class Trial:
    """One analyzer and what it is tried on."""

    run: Callable[..., Any]
    worlds: tuple[str, ...]
    given: Any

    def __call__(self, guest: Any) -> Any:
        """Its result, of models that no task was taught either."""
        free = "task_check" in inspect.signature(self.run).parameters
        return self.run(guest, task_check=False) if free else self.run(guest)

    @cached_property
    def guest(self) -> Any:
        """What is measured: what was given, or untrained models of the smallest preset that the analyzer takes."""
        if self.given is not None:
            return self.given
        its = [world for world in worlds() if not self.worlds or world.name in self.worlds]
        recipes = [make_recipe(name) for world in its for name in world.presets]
        refused = "there is none"
        for recipe in sorted(recipes, key=lambda r: (r.config.n_layers * r.config.d_model**2, r.name)):
            guest = Population.init(recipe.config, SEEDS, recipe.grammar)
            try:
                self(guest)
            except InterpError as error:
                refused = str(error)
            else:
                return guest
        raise AnalyzerError(f"it takes untrained models of no preset: pass guest= (the last was refused: {refused})")

    @cached_property
    def result(self) -> Any:
        """What it returns."""
        return self(self.guest)

    @cached_property
    def told(self) -> Any:
        """The same as JSON."""
        return self.result.to_dict()

    def models(self) -> list[Any]:
        """Fresh copies of the guest's models, in the state of somebody who works with them; none of other guests."""
        guest = self.guest
        single = is_model(guest)
        models = [copy.deepcopy(guest)] if single else list(guest) if isinstance(guest, Population) else []
        for model in models:
            model.train()
            *_, last = model.parameters()
            last.grad = torch.ones_like(last)
            next(model.parameters()).requires_grad_(False)
            model.hook_embed.add_hook(lambda value, hook: None)
        return models


# -- the checks ---------------------------------------------------------------------------------------------


def check_result(trial: Trial) -> None:
    """It returns something with a summary and a `to_dict` that is JSON, without NaN."""
    for part in ("summary", "to_dict"):
        must(callable(getattr(trial.result, part, None)), f"{quoted(trial.result)} has no {part}()")
    told = trial.told
    must(isinstance(told, dict), f"to_dict gives {quoted(told)}, no dict")
    try:
        back = json.loads(json.dumps(told, allow_nan=False))
    except (TypeError, ValueError) as error:
        must(False, f"to_dict is no JSON ({error})")
    must(back == told, "to_dict changes when it is written as JSON: keys are texts, sequences lists")


def check_summary(trial: Trial) -> None:
    """The summary has lines of at most 80 columns."""
    text = trial.result.summary()
    must(isinstance(text, str) and text.strip(), f"summary gives {quoted(text)}")
    for line in text.split("\n"):
        must(len(line) <= COLUMNS, f"summary has a line of {len(line)} columns, more than {COLUMNS}: {quoted(line)}")


def check_estimates(trial: Trial) -> None:
    """There is an estimate, and each says of how many it is, with its interval or why there is none."""
    found = list(estimates(trial.told))
    must(found, "to_dict holds no estimate: {value, low, high, n, over}")
    for place, one in found:
        n, value, low, high = (one[name] for name in ("n", "value", "low", "high"))
        must(isinstance(n, int) and n >= 0, f"{place} does not say of how many it is: n={quoted(n)}")
        must(isinstance(one["over"], str), f"{place} does not say over what: over={quoted(one['over'])}")
        if None in (value, low, high):
            what = "value" if value is None else "interval"
            must(one.get("reason"), f"{place} has no {what}, and no reason that says why")
        else:
            must(low <= value <= high, f"{place}: {value:g} is not within its interval [{low:g}, {high:g}]")


def check_figure(trial: Trial) -> None:
    """Its figure is plotly's, and can be written."""
    import plotly.graph_objects as go

    if hasattr(trial.result, "figure"):
        drawn = trial.result.figure()
        must(isinstance(drawn, go.Figure), f"figure gives {quoted(drawn)}, no plotly figure")
        must(drawn.data, "figure draws nothing")
        drawn.to_json()


def check_deterministic(trial: Trial) -> None:
    """The same call gives the same result, whatever was drawn at random in between."""
    one = json.dumps(trial.told)
    with _random_state_kept():
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        two = trial(trial.guest).to_dict()
    other = _first_difference(trial.told, two)
    must(one == json.dumps(two), f"a second call gives another {quoted(other)}")


def check_guest(trial: Trial) -> None:
    """Weights, modes, gradients and hooks of its guest are afterwards what they were, also where it fails half-way."""
    for guest in [trial.guest, *([trial.models()] if trial.models() else [])]:
        before = state_of(guest)
        try:
            trial(guest[0] if is_model(trial.guest) and isinstance(guest, list) else guest)
        except InterpError:
            must(guest is not trial.guest, f"it refuses {quoted(guest)}, which it is to measure")
        _compare(before, state_of(guest), "")
    broken = trial.models()
    for model in broken:
        model.hook_embed.add_hook(_stop)
    before = state_of(broken)
    if broken:
        try:
            trial(broken[0] if is_model(trial.guest) else broken)
        except InterpError:
            pass
        except Exception as error:
            must(False, f"what a guest raises leaves it bare, as {type(error).__name__}: wrap it in an InterpError")
        _compare(before, state_of(broken), ", after a hook of the guest had raised")


def check_globals(trial: Trial) -> None:
    """Random states, threads, dtype and modes of the process are afterwards what they were."""
    assert trial.guest is not None  # making it draws
    with _random_state_kept():
        before = globals_of()
        trial(trial.guest)
        after = globals_of()
    for name, value in before.items():
        must(_equal(value, after[name]), f"it changes {name}")


def check_null(trial: Trial) -> None:
    """On untrained models the first estimates of `to_dict` cover what they declare as their null."""
    told = trial.told
    headline = next((key for key in told if any(estimates({key: told[key]}))), None)
    for place, one in estimates({headline: told[headline]} if headline else {}):
        nulls = one.get("null")
        if isinstance(nulls, Mapping):
            nulls = nulls.get("untrained", [v for v in nulls.values() if _number(v)])
        if nulls is None or nulls == [] or one["low"] is None:
            continue
        each = nulls if isinstance(nulls, list) else [nulls]
        slack = 1e-9 * max(1.0, abs(one["value"]))
        must(
            any(one["low"] - slack <= null <= one["high"] + slack for null in each),
            f"{place} of untrained models is {one['value']:.4g} [{one['low']:.4g}, {one['high']:.4g}], and their null "
            f"{', '.join(f'{null:.4g}' for null in each)}",
        )


def check_refuses(trial: Trial) -> None:
    """What shows nothing to measure is refused in one line of an `InterpError`."""
    for wrong in WRONG:
        try:
            found = trial(wrong)
        except InterpError as error:
            must(str(error).strip(), f"guest {wrong!r} is refused without a word")
        except Exception as error:
            must(False, f"guest {wrong!r} ends in a bare {type(error).__name__}: raise an InterpError")
        else:
            must(False, f"guest {wrong!r} is taken, and gives {quoted(found)}")


CHECKS: dict[str, Callable[[Trial], None]] = {
    "result": check_result,
    "summary": check_summary,
    "estimates": check_estimates,
    "figure": check_figure,
    "deterministic": check_deterministic,
    "guest": check_guest,
    "globals": check_globals,
    "null": check_null,
    "refuses": check_refuses,
}


def analyzer_checks(analyzer: Any, guest: Any = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, check) of every check; a check raises `AnalyzerError` where it fails.

    `analyzer`: a function (model or population) -> result, or an object whose `run` names one ("module:function") and
    whose `worlds` are those it is for. `guest`: what to measure; default: untrained models of four seeds, of the first
    world whose models it takes. Only of untrained models is it asked that they score their null.
    """
    run = load(analyzer.run) if isinstance(getattr(analyzer, "run", None), str) else analyzer
    if not callable(run):
        raise RequestError(f"analyzer={quoted(analyzer)} is no function that measures models")
    trial = Trial(run, tuple(getattr(analyzer, "worlds", ())), guest)
    for name, check in CHECKS.items():
        if name != "null" or guest is None or _untrained(guest):
            yield name, _named(name, check, trial)


def check_analyzer(analyzer: Any, guest: Any = None, only: str | Sequence[str] | None = None) -> list[str]:
    """Run all checks of an analyzer, or `only` some by name, and give the names of those that were run.

    Arguments as for `analyzer_checks`. Raises `AnalyzerError`, which names the first check that fails and what it
    found, in one line; `RequestError` for what is no analyzer, and for the name of no check.
    """
    chosen = list(CHECKS) if only is None else [only] if isinstance(only, str) else only
    if not isinstance(chosen, Sequence) or not all(isinstance(name, str) and name in CHECKS for name in chosen):
        raise RequestError(f"only={quoted(only)} is no check, nor a list of them; checks are {', '.join(CHECKS)}")
    run = []
    for name, check in analyzer_checks(analyzer, guest):
        if name in chosen:
            check()
            run.append(name)
    return run


def _named(name: str, check: Callable[[Trial], None], trial: Trial) -> Callable[[], None]:
    plain: Any = trial.run.func if isinstance(trial.run, partial) else trial.run
    who = getattr(plain, "__name__", type(plain).__name__)

    def run() -> None:
        failed = f"{who} fails the check {quoted(name)}: "
        try:
            check(trial)
        except InterpError as error:
            raise AnalyzerError(f"{failed}{error}") from error
        except Exception as error:  # other people's code
            told = (str(error).strip().splitlines() or [""])[0]
            raise AnalyzerError(f"{failed}{type(error).__name__}: {told[:200]}") from error

    run.__doc__ = check.__doc__
    return run


# -- audits -------------------------------------------------------------------------------------------------


def check_audit(world: World | str) -> list[str]:
    """Audit untrained models of every preset: a claim about each relation, a use claim for each question; the claims.

    Each must be read back from its own words and get a verdict. Raises `WorldError` in one line where one does not.
    """
    if isinstance(world, str):
        world = get_world(world)
    elif not isinstance(world, World):
        raise RequestError(f"world={quoted(world)} is neither a World nor the name of one")
    audited: list[str] = []
    with declared(world):
        try:
            for name in world.presets:
                audited += _audited(Subject(world), name)
        except Exception as error:
            said = (str(error).strip().splitlines() or [""])[0]
            said = said if isinstance(error, InterpError) else f"{type(error).__name__}: {said[:200]}"
            raise WorldError(f"world {quoted(world.name)} cannot be audited: {said}") from error
    return audited


def _audited(subject: Subject, name: str) -> list[str]:
    preset = subject.world.presets[name]
    grammar: Any = next(one for one in subject.grammars if type(one) is preset.grammar)
    model = Population.init(preset.model(grammar), [0], grammar)[0]
    own = claims_of(grammar)
    relations = [relation for relation in own.relations if has_keys(relation, grammar)]
    claims = [Claim([(0, 0)], relation) for relation in relations]
    if relations and own.question(grammar) is not None:
        claims += [Claim([(0, 0)], relations[0], uses=question.name) for question in own.questions]
    for claim in claims:
        if Claim.parse(claim.text) != claim:
            raise WorldError(
                f"the claim {quoted(claim.text)} is read as another: {quoted(Claim.parse(claim.text).text)}"
            )
    if not claims:
        return []
    audit_claims(model, claims, num_inputs=AUDITED, length=LENGTH, task_check=False)
    return [f"{name}: {claim.text}" for claim in claims]


# -- states -------------------------------------------------------------------------------------------------


def estimates(told: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, estimate) of every estimate in a result's dict."""
    if isinstance(told, Mapping):
        if {"value", "low", "high", "n", "over"} <= set(told):
            yield place, dict(told)
        for key, value in told.items():
            yield from estimates(value, f"{place}.{key}" if place else str(key))
    elif isinstance(told, list):
        for i, value in enumerate(told):
            yield from estimates(value, f"{place}[{i}]")


def state_of(guest: Any) -> dict[str, Any]:
    """All of a guest's models that an analyzer could change: name -> value."""
    if isinstance(guest, Population):
        return {f"weight {name}": p.clone() for name, p in guest.params.items()}
    if isinstance(guest, (np.ndarray, torch.Tensor)):
        return {"array": copy.deepcopy(guest)}
    if not is_model(guest):
        pairs = guest.items() if isinstance(guest, Mapping) else enumerate(guest) if isinstance(guest, list) else ()
        return {f"{name} of {key}": value for key, one in pairs for name, value in state_of(one).items()}
    found: dict[str, Any] = {}
    for name, p in guest.named_parameters():
        found |= {f"weight {name}": p.detach().clone(), f"requires_grad of {name}": p.requires_grad}
        found[f"gradient of {name}"] = None if p.grad is None else p.grad.clone()
    for name, buffer in guest.named_buffers():
        found[f"buffer {name}"] = buffer.clone()
    for name, module in guest.named_modules():
        found[f"mode of {name or 'the model'}"] = module.training
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        found[f"hooks of {name or 'the model'}"] = [len(getattr(module, kind, ()) or ()) for kind in kinds]
    return found


def globals_of() -> dict[str, Any]:
    """All of the process that an analyzer could change: name -> value."""
    return {
        "torch's random state": torch.get_rng_state(),
        "numpy's random state": [np.asarray(part) for part in np.random.get_state()],
        "Python's random state": random.getstate(),
        "the number of threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch records gradients": torch.is_grad_enabled(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "how numpy treats errors": np.geterr(),
        "the current folder": os.getcwd(),
    }


@contextmanager
def _random_state_kept() -> Iterator[None]:
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], when: str) -> None:
    for name, value in before.items():
        must(name in after and _equal(value, after[name]), f"{name} is not what it was{when}")
    new = sorted(set(after) - set(before))
    must(not new, f"{', '.join(new[:1])} was not there before{when}")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list) and one and isinstance(one[0], np.ndarray):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _first_difference(one: Any, two: Any) -> str:
    return next((str(key) for key in one if json.dumps(one[key]) != json.dumps(two.get(key))), "result")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _untrained(guest: Any) -> bool:
    models = [guest] if is_model(guest) else guest
    told = [getattr(models, "provenance", None) or getattr(one, "provenance", {}) for one in list(models)[:1]]
    return bool(told) and all((one or {}).get("trained") is False for one in told)


def _stop(value: Any, hook: Any) -> Any:
    raise RuntimeError("a hook of the guest's own")
