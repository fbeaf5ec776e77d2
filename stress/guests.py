"""Every analyzer as a guest: whatever happens on the way, the model and the process are afterwards what they were.

Analyzers are given our own models, native bridges (random ones, and trained ones whose task is checked first), a GPT-2
and a BERT, in whatever state a user may have them (train mode, frozen weights, hooks, gradients off), and are stopped
half-way: a hook or a module of the model raises at its n-th call, an error of its own or KeyboardInterrupt. Before and
after are compared: weights bit for bit, gradients, modes, devices, hooks, configuration and attributes of the model;
random states, gradient mode, threads, default dtype, environment and signal handlers of the process. The error has to
be one of ours with theirs as its cause, the interruption has to pass. Only listed pairs may refuse each other.
"""

import contextlib
import hashlib
import os
import random
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hosts as made
import numpy as np
import torch
from stressing import Arguments, Report, main

from interp.errors import InterpError
from interp.plots import attention_heatmap
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    scan_heads,
)

TEXT = "[[]]()"
HOW: dict[str, Any] = {"grammar": made.GRAMMAR, "task_check": False}
CHECKED: dict[str, Any] = {"grammar": made.GRAMMAR}  # of bridges that know their task: they are asked about it first
SMALL: dict[str, Any] = {"num_inputs": 60, "length": 12}
Call = Callable[[list[Any], dict[str, Any]], Any]
LABELS = [0, 0, 1, 1, -1, -1, -1]

# Analyzers of any model: the first is the one in which something happens.
ANY: dict[str, Call] = {
    "balance": lambda m, how: analyze_balance(m[0], num_inputs=4, length=6, **how),
    "stack": lambda m, how: analyze_stack_likeness(m[0], num_inputs=8, length=12, **how),
    "stack of a list": lambda m, how: analyze_stack_likeness(m, TEXT, **how),
    "variation": lambda m, how: analyze_variation(m, TEXT, **how),
    "topics": lambda m, how: analyze_topic_blocks(
        m[0], labels=LABELS, matrix="attention", inputs=[[4, 0, 2, 3, 1, 0, 1]] * 2
    ),
    "audit": lambda m, how: audit_claim(m[0], "L1H0 attends to the previous token", **SMALL, **how),
    "audit of a use": lambda m, how: audit_claim(m[0], "L1H0 uses the last unmatched open bracket", **SMALL, **how),
    "scan": lambda m, how: scan_heads(m[0], ["previous", "stack-top"], **SMALL, **how),
    "heatmap": lambda m, how: attention_heatmap(m[0], TEXT, overlay=["stack_top", "depth"], **how),
    "heatmap of a difference": lambda m, how: attention_heatmap(m[0], TEXT, minus=m[1], null=None, **how),
}
PRUNING: dict[str, Any] = {"candidates": 12, "num_inputs": 4, "num_strings": 20}
# Those that need models of a kind of their own.
OWN: dict[str, Call] = {
    "lottery": lambda m, how: demonstrate_lottery_ticket(m[0], sweep=(), controls=False, **PRUNING),
    "shared matrix": lambda m, how: demonstrate_shared_matrix(m[0], m[1], **PRUNING),
}
# Pairs that have nothing to say to each other, and what is said then; any other refusal is wrong.
REFUSED = {
    "balance of bert": "for causal attention",
    "stack of bert": "with causal attention",
    "stack of a list of bert": "with causal attention",
}


class Mine(Exception):
    """An exception of the user's own module."""


ENDS = (Mine, KeyboardInterrupt, SystemExit, torch.OutOfMemoryError)


# -- what must not change ----------------------------------------------------------------------------------------


def state_of(model: Any) -> dict[str, Any]:
    """All that a guest could have changed of a model."""
    found: dict[str, Any] = {"cfg": repr(getattr(model, "cfg", None)), "attributes": sorted(vars(model))}
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        held = p.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        grad = None if p.grad is None else hashlib.sha256(p.grad.numpy().tobytes()).hexdigest()
        found[f"tensor {name}"] = (
            id(p), p.requires_grad, grad, str(p.device), str(p.dtype), hashlib.sha256(held).hexdigest(),
        )  # fmt: skip
    wrapped = getattr(model, "original_model", None)  # of a bridge, which does not list its modules
    parts = [("", model), *([] if wrapped is None else [("wrapped ", wrapped)])]
    for name, module in ((f"{at}{name}", module) for at, part in parts for name, module in part.named_modules()):
        kinds = (
            "_forward_hooks",
            "_forward_pre_hooks",
            "_backward_hooks",
            "_backward_pre_hooks",
            "fwd_hooks",
            "bwd_hooks",
        )
        found[f"module {name}"] = (
            id(module), module.training, [list(map(repr, getattr(module, kind, ()))) for kind in kinds],
            module.forward.__func__ if hasattr(module.forward, "__func__") else module.forward,
        )  # fmt: skip
    return found


def state_of_process() -> dict[str, Any]:
    """All that a guest could have changed around the model."""
    return {
        "torch's random state": hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
        "numpy's random state": hashlib.sha256(repr(np.random.get_state()).encode()).hexdigest(),
        "python's random state": hash(random.getstate()),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "threads": torch.get_num_threads(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{key}: {before.get(key)} became {after.get(key)}"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


# -- what happens half-way -----------------------------------------------------------------------------------------


class Trap:
    """Counts calls, and raises at one of them."""

    def __init__(self, at: int = 0, kind: type[BaseException] = Mine):
        self.at, self.kind, self.calls = at, kind, 0

    def spring(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.kind("at a call")


@contextlib.contextmanager
def trapped(model: Any, place: str, trap: Trap) -> Iterator[None]:
    """A user's own hook, or module, that may raise. Afterwards it is gone."""
    if place == "hook":
        name = next(
            n for n in model.hook_dict if n.startswith("blocks.1") and n.endswith(("hook_resid_pre", "hook_in"))
        )

        def hook(value: Any, hook: Any) -> None:
            trap.spring()

        model.add_hook(name, hook)
        yield
        model.hook_dict[name].remove_hooks()  # a violation is noted before this
    else:
        inner = [m for n, m in model.named_modules() if n.endswith("mlp") or ".mlp" in n]
        handle = inner[-1].register_forward_pre_hook(lambda module, given: trap.spring())
        yield
        handle.remove()


@contextlib.contextmanager
def somehow(rng: np.random.Generator, used: list[Any]) -> Iterator[str]:
    """A state in which a user may have models and process."""
    said = []
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        if rng.integers(2):
            said.append("train mode")
            used[0].train()
        if rng.integers(2):
            said.append("a frozen weight")
            next(iter(used[0].parameters())).requires_grad_(False)
        if rng.integers(3) == 0:
            said.append("a gradient")
            p = next(p for p in used[0].parameters() if p.requires_grad)
            p.grad = torch.ones_like(p)
        if rng.integers(3) == 0:
            said.append("no_grad")
            stack.enter_context(torch.no_grad())
        elif rng.integers(3) == 0:
            said.append("inference mode")
            stack.enter_context(torch.inference_mode())
        if rng.integers(3) == 0:
            said.append("two threads")
            torch.set_num_threads(2)
        if rng.integers(3) == 0:
            said.append("default float64")
            torch.set_default_dtype(torch.float64)
        try:
            yield ", ".join(said) or "nothing special"
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
            used[0].eval()
            for p in used[0].parameters():
                p.requires_grad_(True)
                p.grad = None


# -- the test ------------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report, rng = Report(), np.random.default_rng(arguments.seed)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name, quiet():
        folder = Path(name)
        guests = {
            "ours": list(made.ours()),
            "native": [made.native(seed) for seed in range(3)],
            "trained": made.trained(2),
            "gpt2": [made.gpt2(folder / f"gpt2-{seed}", seed) for seed in range(2)],
            "bert": [made.bert(folder / f"bert-{seed}", seed) for seed in range(2)],
        }
        for given in guests.values():
            for model in given:  # bridges set themselves up when they are first used
                ids = torch.tensor([[4, 0, 2, 3, 1]])
                model.run_with_cache(ids)
                if kind_of(model) != "ours":
                    model(ids, attention_mask=torch.ones_like(ids))
        asked = [(kind, given, analyzer, call) for kind, given in guests.items() for analyzer, call in ANY.items()]
        asked += [("pruning", list(made.targets()), analyzer, call) for analyzer, call in OWN.items()]
        for number, (kind, given, analyzer, call) in enumerate(asked):
            used = partial(call, how=CHECKED if kind == "trained" else HOW)
            one(report, f"{analyzer} of {kind}", given, used, rng, arguments, number)
        two_stages(report)
    c = report.counts
    for what in ("in the task check", *(f"by {end.__name__}" for end in ENDS)):
        if not c[what]:
            report.wrong(f"nothing was stopped {what}")
    report.said = (
        f"{len(ANY) + len(OWN) + 1} analyzers on ours, native, trained native, GPT-2 and BERT models: {c['runs']} "
        f"calls, {c['stopped']} stopped half-way ({c['by a hook']} by a hook, {c['by a module']} by a module; "
        f"{c['in the task check']} in the task check; {c['interruptions']} by an interruption or exit), "
        f"{c['not for it']} pairs refused as not for each other; {c['changed']} times something was changed"
    )
    return report


def kind_of(model: Any) -> str:
    return "ours" if hasattr(model, "config") and hasattr(model, "grammar") else "bridge"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers draws bars."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    yield


def one(
    report: Report,
    what: str,
    given: list[Any],
    call: Callable[[list[Any]], Any],
    rng: np.random.Generator,
    how: Arguments,
    number: int,
) -> None:
    """One analyzer on one kind of model: let alone, and stopped at several calls of several places.

    Quick: at one call of one place, the first or another one, in turn by all that may stop it.
    """
    places = ("hook", "module")
    for place in (places[number % 2],) if how.quick else places:
        trap = Trap()
        refused = attempt(report, f"{what}, let alone", given, call, place, trap, rng)
        if refused:
            report.counts["not for it"] += place == places[0] or how.quick
            continue
        if not trap.calls:
            continue
        last = trap.calls
        at = {1, last, *(int(x) for x in rng.integers(1, last + 1, 4))}
        stops = [(n, end) for n in sorted(at) for end in (ENDS if n == 1 else ENDS[:2])]
        if how.quick:
            n = 1 if number // 2 % 2 else int(rng.integers(1, last + 1))
            stops = [(n, ENDS[(number + number // 4) % len(ENDS)])]
        for n, kind in stops:
            stopped = f"{what}, stopped at call {n} of {last} of a {place}"
            attempt(report, stopped, given, call, place, Trap(n, kind), rng)


def attempt(
    report: Report,
    what: str,
    given: list[Any],
    call: Callable[[list[Any]], Any],
    place: str,
    trap: Trap,
    rng: np.random.Generator,
) -> bool:
    """Call it; True if it says that this is nothing for it. Notes all that is wrong."""
    c = report.counts
    with somehow(rng, given) as state, trapped(given[0], place, trap):
        pair = what.split(", ")[0]
        what = f"{what} by {trap.kind.__name__} ({state})"
        before, around = [state_of(model) for model in given], state_of_process()
        error: BaseException | None = None
        try:
            call(given)
        except BaseException as caught:
            error = caught
        after, now = [state_of(model) for model in given], state_of_process()
    c["runs"] += 1
    for found in [*(changes(a, b) for a, b in zip(before, after, strict=True)), changes(around, now)]:
        if found:
            c["changed"] += 1
            report.wrong(f"{what}: {len(found)} changed: {found[0]}")
    if not trap.at:
        words = REFUSED.get(pair)
        if error is not None and not (isinstance(error, InterpError) and words is not None and words in str(error)):
            report.wrong(f"{what}: {type(error).__name__}: {error}")
        if error is None and words is not None:
            report.wrong(f"{what}: has an answer, where it should say {words!r}")
        return error is not None
    if trap.calls < trap.at:
        return False  # in this state of the model it is called less often
    c["stopped"] += 1
    c[f"by a {place}"] += 1
    c[f"by {trap.kind.__name__}"] += 1
    c["in the task check"] += any("check_task" in names_in(cause) for cause in causes(error))
    if issubclass(trap.kind, Exception):
        if not isinstance(error, InterpError):
            report.wrong(f"{what}: leaves as {type(error).__name__}: {error}")
        elif not any(isinstance(cause, trap.kind) for cause in causes(error)):
            report.wrong(f"{what}: says nothing of its cause: {error}")
        elif "\n" in str(error):
            report.wrong(f"{what}: not one line: {error}")
    else:
        c["interruptions"] += 1
        if not isinstance(error, trap.kind):
            report.wrong(f"{what}: does not stop, but {type(error).__name__}: {error}")
    return False


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def names_in(error: BaseException) -> set[str]:
    """The functions that an exception came through."""
    return {frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)}


def two_stages(report: Report) -> None:
    """It runs no model: a population and an array must be what they were."""
    population = made.topics()
    norms = {name: np.linspace(1, 2, 20) ** 2 for name in ("W_Q", "W_K", "W_V")}
    before = {name: p.clone() for name, p in population.params.items()}, repr(population.history), repr(norms)
    around = state_of_process()
    for given in (population, norms):
        try:
            analyze_two_stages(given)
        except InterpError as error:
            report.wrong(f"two stages: {error}")
        report.counts["runs"] += 1
    if found := changes(around, state_of_process()):
        report.wrong(f"two stages: {found[0]}")
    same = all(torch.equal(before[0][name], p) for name, p in population.params.items())
    if not same or (repr(population.history), repr(norms)) != before[1:]:
        report.counts["changed"] += 1
        report.wrong("two stages: changed what it was given")


if __name__ == "__main__":
    main("guests", __doc__, run)
