"""`check_analyzer`: what every analyzer must do."""

import copy
import inspect
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from interp.checking.suite import chosen, must, named, run_those
from interp.errors import AnalyzerError, InterpError, RequestError, quoted
from interp.guests import is_model
from interp.numbers import number
from interp.population import Population
from interp.presets import make_recipe
from interp.registry import world_of, worlds
from interp.world import load
from probes.checking.states import equal, estimates, globals_of, random_state_kept, state_of

SEEDS = range(8)  # of the untrained models that are measured where no guest is given
MORE = range(100, 112)  # of others that are measured beside them
SHAKEN = 1.0  # how far the others' weights are from where they began, in standard deviations of each tensor
COLUMNS = 80  # of a terminal
WRONG: tuple[Any, ...] = ("a text", None, [])  # guests that show nothing to measure


@dataclass(frozen=True)
class Trial:
    """One analyzer and what it is tried on."""

    run: Callable[..., Any]
    worlds: tuple[str, ...]
    given: Any

    def __call__(self, guest: Any, **more: Any) -> Any:
        """Its result, of models that no task was taught either; on what is usually shown, if it has to be told."""
        takes = inspect.signature(self.run).parameters
        how: dict[str, Any] = {"task_check": False} if "task_check" in takes else {}
        if "inputs" in takes and takes["inputs"].default is inspect.Parameter.empty:
            how["inputs"] = _usual(guest)
        return self.run(guest, **how, **more)

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

    @cached_property
    def others(self) -> dict[str, dict[str, Any]]:
        """Its headlines of more models whose weights have left where they began; none of other guests."""
        guest = self.guest
        if not isinstance(guest, Population):
            return {}
        fresh = Population.init(guest.config, MORE, guest.grammar)
        rng = torch.Generator().manual_seed(0)
        params = {
            name: p + SHAKEN * (p.std(correction=0) + 0.1) * torch.randn(p.shape, generator=rng)
            for name, p in fresh.params.items()
        }
        shaken = replace(fresh, params=params, provenance=fresh.provenance | {"trained": True})
        try:
            return headlines(self, self(shaken).to_dict())
        except InterpError:  # such weights are nobody's
            return {}

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
    """The same call on another copy of the guest gives the same numbers, summary and figure, whatever was drawn."""
    with random_state_kept():
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        again = trial(copy.deepcopy(trial.guest))
    other = _first_difference(trial.told, again.to_dict())
    must(other is None, f"a second call gives another {quoted(other)}")
    for part, one, two in zip(("summary", "figure"), shown_by(trial.result), shown_by(again), strict=True):
        must(one == two, f"a second call gives another {part}, of the same numbers")


def check_seed(trial: Trial) -> None:
    """Another seed gives the same twice, and something else than the first; where none is read, it is said."""
    if "seed" not in inspect.signature(trial.run).parameters:
        return
    one, two = trial(trial.guest, seed=1), trial(copy.deepcopy(trial.guest), seed=1)
    other = _first_difference(one.to_dict(), two.to_dict())
    must(other is None, f"a second call with seed=1 gives another {quoted(other)}")
    must(
        one.to_dict() != trial.told or shown_by(one) != shown_by(trial.result),
        "seed=1 gives what seed=0 does, in numbers, summary and figure: draw with the seed, or say in the summary that "
        "nothing is drawn (probes.core.unread_seed)",
    )


def shown_by(result: Any) -> tuple[str, str]:
    """Summary and figure of a result, "" for none."""
    return result.summary(), result.figure().to_json() if hasattr(result, "figure") else ""


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
    with random_state_kept():
        before = globals_of()
        trial(trial.guest)
        after = globals_of()
    for name, value in before.items():
        must(equal(value, after[name]), f"it changes {name}")


def headlines(trial: Trial, told: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The estimates that a result declares as its headlines, all of its own fields where it declares none."""
    names = getattr(trial.result, "HEADLINES", ()) or tuple(told)
    return dict(estimates({name: told[name] for name in names if name in told}))


def nulls_of(one: Mapping[str, Any]) -> list[float]:
    """What an estimate of untrained models may be: their own null, where one has this name; else any."""
    nulls: Any = one.get("null")
    if isinstance(nulls, Mapping):
        named: Any = nulls.get("untrained")
        return [named] if _number(named) else [null for null in nulls.values() if _number(null)]
    return [nulls] if _number(nulls) else []


def check_null(trial: Trial) -> None:
    """Headlines have a null or say why not; those of untrained models cover it, and those of others move off it."""
    found = headlines(trial, trial.told)
    for name in getattr(trial.result, "HEADLINES", ()):
        must(name in trial.told, f"HEADLINES names {quoted(name)}, and to_dict has no such field")
    for place, one in found.items():
        each = nulls_of(one)
        if not each:
            known = one.get("reason") or not isinstance(trial.guest, Population)  # others' first weights are unknown
            must(known, f"{place} has no null, and no reason that says why")
        if not each or one["low"] is None:
            continue
        slack = 1e-9 * max(1.0, abs(one["value"]))
        must(
            any(one["low"] - slack <= null <= one["high"] + slack for null in each),
            f"{place} of untrained models is {number(one['value'], 4)} [{number(one['low'], 4)}, "
            f"{number(one['high'], 4)}], and their null {', '.join(number(null, 4) for null in each)}",
        )
    for place, other in trial.others.items():
        value = other["value"]
        moved = value is not None and place in found and not _close(value, found[place]["value"])
        each = nulls_of(other)
        own = moved and each and all(_close(null, value) for null in each)
        must(not own, f"the null of {place} is its own value: on other weights both are {number(value or 0, 4)}")


def check_intervals(trial: Trial) -> None:
    """An interval over more models is another one, unless it is a point."""
    found = headlines(trial, trial.told)
    for place, other in trial.others.items():
        one = found.get(place)
        if one is None or one["low"] is None or other["low"] is None or one["n"] >= other["n"]:
            continue
        same = (one["low"], one["high"]) == (other["low"], other["high"]) and one["low"] < one["high"]
        must(
            not same,
            f"the interval of {place} is [{number(one['low'], 4)}, {number(one['high'], 4)}] over {one['n']} and over "
            f"{other['n']} {one['over']} of other weights: it does not come from the numbers",
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
    "seed": check_seed,
    "guest": check_guest,
    "globals": check_globals,
    "null": check_null,
    "intervals": check_intervals,
    "refuses": check_refuses,
}


def analyzer_checks(analyzer: Any, guest: Any = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, check) of every check; a check raises `AnalyzerError` where it fails.

    `analyzer`: a function (model or population) -> result, or an object whose `run` names one ("module:function") and
    whose `worlds` are those it is for. `guest`: what to measure; default: untrained models of eight seeds, of the first
    world whose models it takes. Only of untrained models is it asked that they score their null.
    """
    run, named = analyzer, getattr(analyzer, "run", None)
    if isinstance(named, str):
        try:
            run = load(named)
        except (ImportError, AttributeError, ValueError) as error:
            raise RequestError(f"run={quoted(named)} names nothing that can be imported ({error})") from error
    if not callable(run):
        raise RequestError(f"analyzer={quoted(analyzer)} is not a function that measures models")
    trial = Trial(run, tuple(getattr(analyzer, "worlds", ())), guest)
    for name, check in CHECKS.items():
        if name not in ("null", "intervals") or guest is None or _untrained(guest):
            yield name, _named(name, check, trial)


def check_analyzer(analyzer: Any, guest: Any = None, only: str | Sequence[str] | None = None) -> list[str]:
    """Run all checks of an analyzer, or `only` some by name, and give the names of those that were run.

    Arguments as for `analyzer_checks`. Raises `AnalyzerError`, which names the first check that fails and what it
    found, in one line; `RequestError` for what is no analyzer, and for the name of no check.
    """
    return run_those(analyzer_checks(analyzer, guest), chosen(only, CHECKS))


def _named(name: str, check: Callable[[Trial], None], trial: Trial) -> Callable[[], None]:
    plain: Any = trial.run.func if isinstance(trial.run, partial) else trial.run
    run = named(getattr(plain, "__name__", type(plain).__name__), name, lambda: check(trial), AnalyzerError)
    run.__doc__ = check.__doc__
    return run


# -- guests ------------------------------------------------------------------------------------------------


def _first_difference(one: Any, two: Any) -> str | None:
    if json.dumps(one) == json.dumps(two):
        return None
    return next((str(key) for key in one if json.dumps(one[key]) != json.dumps(two.get(key))), "result")


def _close(one: Any, other: Any) -> bool:
    return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _usual(guest: Any) -> Any:
    """A text or ids that the models of a world are shown; one token twice for other guests."""
    first = guest[0] if isinstance(guest, list) and guest else guest
    grammar = getattr(first, "grammar", None)
    world = world_of(grammar)
    if world is None:
        return [[0, 0]]
    return world.sentence(grammar) or world.draw_inputs(grammar, 1, 0, "check/shown")


def _untrained(guest: Any) -> bool:
    models = [guest] if is_model(guest) else guest
    told = [getattr(models, "provenance", None) or getattr(one, "provenance", {}) for one in list(models)[:1]]
    return bool(told) and all((one or {}).get("trained") is False for one in told)


def _stop(value: Any, hook: Any) -> Any:
    raise RuntimeError("a hook of the guest's own")


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], when: str) -> None:
    for name, value in before.items():
        must(name in after and equal(value, after[name]), f"{name} is not what it was{when}")
    new = sorted(set(after) - set(before))
    must(not new, f"{', '.join(new[:1])} was not there before{when}")
