"""CPU seconds a seed until >= 97 % by every rule: our batched training beside a loop over native models.

    python benchmarks/training.py [--seeds 8] [--native-seeds 2] [--json FILE]

Both programs train the `dyck-standard` architecture on the same strings with the same optimizer and
schedule, on one thread, evaluated by the same code at the same steps. The other program is what one
would write with TransformerLens: `TransformerBridge.boot_native`, a padded batch, one model at a
time. Only training is counted. Times drift on shared machines: quote the ratio.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from interp.model import SandboxTransformer
from interp.presets import Recipe, make_recipe
from interp.training.evaluate import RULES, EvalSet, closing_rules
from interp.training.layout import IGNORE
from interp.training.loop import initial_state, learning_rate, train_chunk
from interp.training.objective import data_source, in_distribution

GOAL, EVERY, PAIRS = 0.97, 100, 5


def padded(recipe: Recipe, seed: int, steps: range) -> tuple[torch.Tensor, torch.Tensor]:
    """The strings of our packed batches, one a row and padded: inputs, targets [steps, batch, width]."""
    source = data_source(recipe)
    layout = source.layout()
    inputs, targets = source.draw(seed, steps)
    width = int(layout.capacity.max()) + 1
    shape = (len(steps), recipe.settings.batch, width)
    x, y = np.full(shape, recipe.grammar.pad), np.full(shape, IGNORE)
    flat_x, flat_y = inputs.reshape(len(steps), -1), targets.reshape(len(steps), -1)
    for i, (begin, size) in enumerate(zip(layout.start, layout.capacity + 1, strict=True)):
        x[:, i, :size], y[:, i, :size] = flat_x[:, begin : begin + size], flat_y[:, begin : begin + size]
    return torch.from_numpy(x), torch.from_numpy(y)


def native_model(recipe: Recipe, seed: int) -> Any:
    """The same initial weights in a native bridge."""
    c = recipe.config
    config = TransformerBridgeConfig(
        d_model=c.d_model,
        d_head=c.d_head,
        n_heads=c.n_heads,
        n_layers=c.n_layers,
        n_ctx=c.n_ctx,
        d_vocab=c.d_vocab,
        d_mlp=c.d_mlp,
        act_fn="gelu_new",
        normalization_type="LN",
    )
    bridge = TransformerBridge.boot_native(config)
    state = {**SandboxTransformer.init(c, seed).state_dict(), "pos_embed.W_pos": torch.zeros(c.n_ctx, c.d_model)}
    bridge.load_state_dict(convert_tl_checkpoint(state, config))
    for name, parameter in bridge.named_parameters():
        parameter.requires_grad_("pos_embed" not in name)
    return bridge


def worst_rule(model: Callable[[torch.Tensor], torch.Tensor], data: EvalSet) -> float:
    """The least closing accuracy over the three rules."""
    with torch.no_grad():
        target = torch.from_numpy(data.targets)
        correct = closing_rules(model(torch.from_numpy(data.inputs)), target, data.num_types)
    weight = np.broadcast_to(data.weight[:, None], data.targets.shape)[data.closer]
    return min(float(np.average(correct[rule].numpy()[data.closer], weights=weight)) for rule in RULES)


def train_native(recipe: Recipe, seed: int, data: EvalSet, until: int) -> tuple[float, int | None, float]:
    """CPU seconds of all steps, the step at which the goal was reached, and CPU seconds until then."""
    s = recipe.settings
    model = native_model(recipe, seed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=s.lr, weight_decay=0.0)
    spent, reached, when = 0.0, None, float("nan")
    for begin in range(0, until, EVERY):
        steps = range(begin, min(begin + EVERY, until))
        clock = time.process_time()
        inputs, targets = padded(recipe, seed, steps)
        for i, step in enumerate(steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(s, step)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs[i]).flatten(0, 1), targets[i].flatten(), ignore_index=IGNORE)
            loss.backward()
            optimizer.step()
        spent += time.process_time() - clock
        if reached is None and worst_rule(model, data) >= GOAL:
            reached, when = begin + len(steps), spent
    return spent, reached, when


def train_ours(recipe: Recipe, seeds: int, data: EvalSet, until: int) -> tuple[float, list[int | None]]:
    """CPU seconds a seed of all steps, and the step at which each seed reached the goal."""
    state = initial_state(recipe, tuple(range(seeds)))
    reached: list[int | None] = [None] * seeds
    spent = 0.0
    for end in range(EVERY, until + EVERY, EVERY):
        state, timing = train_chunk(recipe, state, until=min(end, until))
        spent += timing.training
        for i in range(seeds):
            model = SandboxTransformer(recipe.config)
            model.load_state_dict({n: p[i] for n, p in state.params.items()})
            if reached[i] is None and worst_rule(model, data) >= GOAL:
                reached[i] = min(end, until)
    return spent / seeds, reached


def step_ratio(recipe: Recipe, seeds: int, steps: int = 40) -> dict[str, float]:
    """CPU ms a seed and step of both programs, in turn, medians of `PAIRS` pairs."""
    ours, native = [], []
    data = in_distribution(recipe, 200)
    for _ in range(PAIRS):
        state = initial_state(recipe, tuple(range(seeds)))
        _, timing = train_chunk(recipe, state, until=steps)
        ours.append(timing.training / seeds / steps * 1e3)
        native.append(train_native(recipe, 0, data, steps)[0] / steps * 1e3)
    ratios = [a / b for a, b in zip(ours, native, strict=True)]
    return {
        "ours_ms": statistics.median(ours),
        "native_ms": statistics.median(native),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def main() -> None:
    """Measure and print; write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--native-seeds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe = make_recipe("dyck-standard", {"eval_every": 10**6})
    results: dict[str, Any] = {"goal": GOAL, "settings": recipe.settings.to_dict(), "step": {}}
    for batch in (16, 32, 100):
        timing = step_ratio(make_recipe("dyck-standard", {"eval_every": 10**6}, batch=batch), arguments.seeds)
        results["step"][str(batch)] = timing
        print(
            f"batch {batch:>3}: {timing['ours_ms']:.2f} ms a seed and step, native loop {timing['native_ms']:.2f}, "
            f"ratio {timing['ratio']:.2f} [{timing['ratio_min']:.2f}, {timing['ratio_max']:.2f}]"
        )
    data = in_distribution(recipe, 2000)
    steps = recipe.settings.steps
    spent, reached = train_ours(recipe, arguments.seeds, data, steps)
    results["ours"] = {"cpu_s_a_seed": spent, "steps": steps, "reached_at_step": reached}
    print(f"ours: {spent:.1f} CPU s a seed for {steps} steps; >= {GOAL:.0%} by every rule at steps {reached}")
    results["native"] = []
    for seed in range(arguments.native_seeds):
        spent, at, when = train_native(recipe, seed, data, steps)
        results["native"].append({"seed": seed, "cpu_s": spent, "reached_at_step": at, "cpu_s_until": when})
        print(f"native loop, seed {seed}: {spent:.1f} CPU s for {steps} steps; reached at step {at}, {when:.1f} CPU s")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
