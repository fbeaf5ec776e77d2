"""Balance violation for any (k, D), beside a literal loop over its definition.

    python benchmarks/balance.py [--quick]

The loop evaluates eqs. 31-33 one index at a time: every pair, every query, every stack of open brackets. Both
give the same numbers (checked here). From (k, D) = (2, 4) to (8, 6), 8^5 stacks.
"""

from itertools import product
from typing import Any

import numpy as np
from harness import Arguments, compare, main

from interp.rng import generator
from probes.balance import StateVectors, balance_table

SIZES = ((2, 4), (3, 4), (4, 4), (4, 6), (6, 6), (8, 6))


def random_states(k: int, depth: int, width: int = 50) -> StateVectors:
    """Scores and values as of an untrained head."""
    draw = generator(k * 100 + depth, "benchmark/balance").standard_normal
    scores = (k, depth, k, depth)
    return StateVectors(
        draw(scores), draw(scores), draw((k, depth)), draw((k, depth, width)), draw((k, depth, width)), draw(width)
    )


def literal(states: StateVectors) -> float:
    """beta, one index at a time."""
    k, depth = states.open_value.shape[:2]
    total, count = 0.0, 0
    for d, j in product(range(1, depth), range(k)):
        top = max(states.open_score[j, d].max(), states.close_score[j, d].max(), states.start_score[j, d])
        start = weighted(states.start_score[j, d] - top, states.start_value)
        opened = {
            (i, e): weighted(states.open_score[j, d, i, e] - top, states.open_value[i, e])
            for i, e in product(range(k), range(depth))
        }
        closed = {
            (i, e): weighted(states.close_score[j, d, i, e] - top, states.close_value[i, e])
            for i, e in product(range(k), range(depth))
        }
        least = [np.inf] * k
        for stack in product(range(k), repeat=d):
            q = start + opened[j, d] + closed[j, d]
            for level, kind in enumerate(stack):
                q = q + opened[kind, level]
            least[stack[-1]] = min(least[stack[-1]], float(np.sqrt(q @ q)))
        p = sorted(least)[1]
        for i, e in product(range(k), range(depth)):
            s = opened[i, e] + closed[i, e]
            total, count = total + float(np.sqrt(s @ s)) / p, count + 1
    return total / count


def weighted(score: float, value: np.ndarray) -> np.ndarray:
    """P_perp exp(score) value."""
    u = np.exp(score) * value
    return u - u.mean()


def measure(arguments: Arguments) -> dict[str, Any]:
    """A row a size."""
    rows, agreement = [], 0.0
    for k, depth in SIZES[:1] if arguments.quick else SIZES:
        states = random_states(k, depth)
        beta = balance_table(states).beta
        assert beta is not None
        agreement = max(agreement, abs(literal(states) / beta - 1))
        times = 20 if k**depth < 300 else 1

        def table(states: StateVectors = states, times: int = times) -> None:
            for _ in range(times):
                balance_table(states)

        rows += compare(
            {f"balance, k={k}, D={depth}": (table, float(times))},
            ("literal loop", lambda s=states: literal(s), 1.0),
            "a head",
            arguments,
            warm_up=False,
        )
    return {"rows": rows, "largest_relative_difference": agreement}


if __name__ == "__main__":
    main("balance", __doc__, measure, devices=False)
