"""How predictions move when matched pairs of brackets are put before a string (paper eq. 18)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from interp.grammars import DyckGrammar
from interp.rng import generator

Array = NDArray[np.float64]
CELLS = 2**25  # pairs of query and key of one head that a run holds: half a gigabyte


@dataclass(frozen=True)
class Insertion:
    """How predictions move when `pairs` matched pairs are put before a string. Arrays [inputs].

    - `tv`: total variation of the next-token distributions, mean over the string's positions, 0 to 1.
    - `mse`: mean squared difference of logits (eq. 18).
    - `shift`: `tv` when nothing is inserted but positions move by 2 * pairs; None without positions.
    """

    pairs: int
    tv: Array
    mse: Array
    shift: Array | None


def insertions(
    logits: Callable[[torch.Tensor], torch.Tensor],
    grammar: DyckGrammar,
    counts: Sequence[int],
    *,
    num_inputs: int = 100,
    length: int = 28,
    seed: int = 0,
    shifted: Callable[[torch.Tensor, int], torch.Tensor] | None = None,
) -> tuple[list[Insertion], float]:
    """`Insertion` for each count, and the tv between unrelated strings at equal positions (the scale).

    Pairs are nested up to the depth bound, then a new nest begins; types are drawn at random.
    """
    strings = np.asarray(
        grammar.sample(num_inputs, seed=seed, mode="prefix", length=length, stream="insertions"), dtype=np.int64
    )
    start = np.full((num_inputs, 1), grammar.start)
    with torch.no_grad():
        plain = _tail(logits, np.concatenate([start, strings], 1), length)
        unrelated = float(_tv(plain, plain.roll(1, 0)).mean())
        results = []
        for count in counts:
            nests = _nests(grammar, num_inputs, count, seed)
            moved = _tail(logits, np.concatenate([start, nests, strings], 1), length)
            shift = None
            if shifted is not None:
                # The default binds the loop's variable.
                moving = lambda tokens, by=2 * count: shifted(tokens, by)  # noqa: E731
                shift = _tv(plain, _tail(moving, np.concatenate([start, strings], 1), length))
            mse = (moved - plain).square().mean((1, 2)).numpy()
            results.append(Insertion(count, _tv(plain, moved), mse, shift))
    return results, unrelated


def _nests(grammar: DyckGrammar, rows: int, pairs: int, seed: int) -> NDArray[np.int64]:
    """`pairs` matched pairs of random types: nests of the full depth, the last one with what is left."""
    types = generator(seed, "nests", pairs).integers(0, grammar.num_types, (rows, pairs))
    columns = []
    for begin in range(0, pairs, grammar.max_depth):
        nest = types[:, begin : begin + grammar.max_depth]
        columns += [2 * nest, 2 * nest[:, ::-1] + 1]
    return np.concatenate(columns, 1)


def rows_at_once(count: int, width: int) -> int:
    """How many of `count` strings of `width` tokens a model reads together: all, unless they are long."""
    return max(1, min(count, CELLS // width**2))


def _tail(run: Callable[[torch.Tensor], torch.Tensor], tokens: NDArray[np.int64], length: int) -> torch.Tensor:
    """Logits of `tokens` [input, pos] after each of the last `length` ones, float64 on the CPU."""
    rows = rows_at_once(*tokens.shape)
    parts = [torch.from_numpy(tokens[i : i + rows]) for i in range(0, len(tokens), rows)]
    return torch.cat([run(part)[:, -length:].to("cpu", torch.float64) for part in parts])


def _tv(a: torch.Tensor, b: torch.Tensor) -> Array:
    """Total variation between softmax(a) and softmax(b), mean over positions: [inputs]."""
    return np.asarray((a.softmax(-1) - b.softmax(-1)).abs().sum(-1).mean(-1).numpy() / 2)
