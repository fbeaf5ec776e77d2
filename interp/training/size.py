"""How many seeds train together, and what memory a run needs: estimated before anything is drawn or written."""

from dataclasses import dataclass

import torch

from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.header import MAX_HEADER_BYTES
from interp.limits import JSON_COST, check_memory
from interp.model import SandboxTransformer
from interp.recipe import Recipe, string_length
from interp.training.task import DRAW_AHEAD, DRAW_BYTES, FINAL_STRINGS

CHUNK_BYTES = 2.5e6  # of one activation of a chunk; beyond, it leaves the processor's cache before it is read again
EVAL_CELLS = 1536  # positions of a forward pass of an evaluation, about
ROW_BYTES, ENTRY_BYTES = 50, 30  # of a row of measurements, and of each of its numbers, in a file's header


@dataclass(frozen=True)
class Need:
    """What training takes.

    - `each`, `common`: bytes of each seed, and bytes that seeds share.
    - `fit`: how many seeds train together well.  `cure`: how to ask for less, in words.
    """

    each: float
    common: float
    fit: int
    cure: str


def need(recipe: Recipe, exact: bool) -> Need:
    """What a recipe's training takes, of the world that says so, else about. `exact`: count batches, whose layout has
    to be made for it."""
    own = recipe.world.load("size")
    found: Need = _plain(recipe) if own is None else own(recipe, exact)
    return found


def seeds_that_fit(recipe: Recipe) -> int:
    """How many seeds train together well."""
    return need(recipe, exact=True).fit


def check_training(recipe: Recipe, seeds: int, most: int) -> None:
    """Raise `RequestError` for a run of which one process would need more memory than the bound.

    `most`: of the `seeds`, how many train together if their batches are small.
    """
    s = recipe.settings
    tensors, params = _parameters(recipe.config)
    tables = 1 + len(s.snapshots)
    evaluations = s.steps // s.eval_every + 2 + len(s.snapshots)
    numbers = 10 + (tensors if s.snapshots or recipe.world.norms else 0)
    header = seeds * evaluations * (ROW_BYTES + ENTRY_BYTES * numbers)
    # At the end all states lie beside the population that is made of them, and beside what is written.
    whole = 4 * seeds * params * (2 + 3 * tables) + JSON_COST * header
    cure = "train fewer seeds, evaluate less often (eval_every), or keep fewer snapshots"
    check_memory(
        f"a population of {seeds} model(s) of {params:,} weights, measured {evaluations:,} times,", whole, cure
    )
    if header > MAX_HEADER_BYTES:
        raise RequestError(
            f"{seeds} models measured {evaluations:,} times make a table of about {header / 1e6:,.0f} MB, and a "
            f"checkpoint's header holds {MAX_HEADER_BYTES / 1e6:,.0f} MB: {cure}"
        )
    needed = need(recipe, exact=False)
    together = min(seeds, most, needed.fit)
    moments = 4 * params * 6
    check_memory(
        f"training {together} model(s) of {recipe.name!r} together",
        (needed.each + moments) * together + needed.common,
        needed.cure,
    )


def _parameters(config: TransformerConfig) -> tuple[int, int]:
    """(how many tensors, how many weights) one model learns."""
    with torch.device("meta"):
        sizes = [p.numel() for p in SandboxTransformer(config).parameters()]
    return len(sizes), sum(sizes)


def _plain(recipe: Recipe) -> Need:
    """What `interp.training.task.TokenTask` takes."""
    s, c = recipe.settings, recipe.config
    width = string_length(recipe.grammar)
    cells = max(2 * width, s.batch * width)
    passed = max(EVAL_CELLS, width) * activations(c, width) / 2  # nothing is kept for gradients
    drawn = 2 * min(max(DRAW_BYTES, 16 * cells), DRAW_AHEAD * 16 * cells)
    held_out = FINAL_STRINGS * (100 + 12 * c.d_out) * width
    return Need(
        max(activations(c, width) * cells + drawn, passed),
        held_out + 2 * cells * width,
        fit=max(1, int(CHUNK_BYTES / (4 * cells * max(c.d_model, c.d_mlp)))),
        cure="take fewer or shorter strings, or a smaller model",
    )


def activations(config: TransformerConfig, width: int) -> float:
    """Bytes a position that a training step keeps of one model, in strings of `width`."""
    c = config
    layer = 24 * c.d_model + 6 * c.d_mlp * bool(c.mlp_depth) + 8 * c.n_heads * c.d_head + 6 * c.n_heads * width
    return 4.0 * (c.n_layers * layer + 6 * c.d_out + 4 * c.d_model)
