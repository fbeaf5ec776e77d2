"""Where a training step's time in torch goes: by part of the model, and how much of it is matrix products.

An operation belongs to the part in whose `forward` it ran, and one of the backward pass to the part whose operation it
is the gradient of (autograd numbers them alike).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.model.parts import MLP, LayerNorm, UniformAttention, UnitNorm
from interp.presets import Recipe
from interp.training.loop import _Run, initial_state
from interp.training.run import chunk_size

MARK = "part: "
PRODUCTS = ("aten::bmm", "aten::mm", "aten::addmm")
NORMS, ATTENTION, MLPS, ENDS, LOSS, STEP = (
    "norms",
    "attention",
    "MLPs",
    "embedding, unembedding, residual sums",
    "loss",
    "optimizer and the rest",
)


def shares(recipe: Recipe, steps: int = 6) -> dict[str, dict[str, float]]:
    """Shares of the time of one chunk of seeds: `all` of it by part, and `products`, matrix products by part.

    Through counts, and for topics, the parts' `forward` does not run: refused.
    """
    if not isinstance(recipe.grammar, DyckGrammar) or recipe.settings.compute != "attention":
        raise RequestError(f"a step of {recipe.name!r} does not run the model's parts one by one")
    run = _Run(recipe, initial_state(recipe, tuple(range(chunk_size(recipe)))), "cpu")
    run.train(2)
    task: Any = run.task
    task._losses = marked(LOSS, task._losses)
    for module in run.template.modules():
        if (part := part_of(module)) is not None:
            module.forward = marked(part, module.forward)
        if isinstance(module, LayerNorm):  # what the model calls where the next map takes in its gain
            module.normalize = marked(NORMS, module.normalize)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run.train(2 + steps)
    return by_part(list(found.events() or []))


def part_of(module: nn.Module) -> str | None:
    """The part that a module is, if it is one; what is in none (but in the loss) is an end of the model."""
    if isinstance(module, LayerNorm | UnitNorm):
        return NORMS
    if isinstance(module, UniformAttention):  # the learned one is a kind of it
        return ATTENTION
    if isinstance(module, MLP):
        return MLPS
    return ENDS if hasattr(module, "unembed") else None


def marked(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, its time marked as that of `part`."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with record_function(MARK + part):
            return function(*args, **kwargs)

    return run


def by_part(events: list[Any]) -> dict[str, dict[str, float]]:
    """Add up what the profiler saw."""
    owners = {}
    for event in events:
        part = inside(event)
        if event.sequence_nr >= 0 and part is not None:
            owners.setdefault(event.sequence_nr, part)
    numbers = sorted(owners)
    spent, products = Counter[str](), Counter[str]()
    for event in events:
        part = inside(event)
        if part is None and (number := gradient_of(event)) is not None and number >= numbers[0]:
            # An operation may make views before its own node: the node's number is then a little larger.
            part = owners[numbers[bisect_right(numbers, number) - 1]]
        part = part or STEP
        spent[part] += event.self_cpu_time_total
        products[part] += event.self_cpu_time_total * (event.name in PRODUCTS)
    total = sum(spent.values())
    order = (NORMS, ATTENTION, MLPS, ENDS, LOSS, STEP)
    return {
        "all": {part: spent[part] / total for part in order},
        "products": {part: products[part] / total for part in order},
    }


def inside(event: Any) -> str | None:
    """The innermost mark around an event of the forward pass."""
    while event is not None:
        if event.name.startswith(MARK):
            return str(event.name.removeprefix(MARK))
        event = event.cpu_parent
    return None


def gradient_of(event: Any) -> int | None:
    """The number of the operation whose gradient an event computes."""
    while event is not None:
        if event.name.startswith("autograd::engine::evaluate_function"):
            return int(event.sequence_nr)
        event = event.cpu_parent
    return None
