"""`interp scan`: every head against every relation, and whether it matters."""

import argparse
from collections.abc import Sequence
from itertools import chain
from typing import Any

from interp.cli.files import check_figure, content_of, deliver, find_each, load_all
from interp.cli.flags import refuse_unread
from interp.errors import RequestError, quoted
from interp.names import first_duplicate


def scan(arguments: argparse.Namespace) -> int:
    """Scan one model, or the models of several checkpoints or a population together."""
    refuse_unread(arguments)
    check_figure(arguments.figure)
    relations = _relations(arguments.relation)  # a wrong one is refused before torch is loaded
    find_each(arguments, arguments.json, arguments.figure)
    loaded = load_all(arguments)
    model = loaded[0] if len(loaded) == 1 else list(chain.from_iterable(_listed(one) for one in loaded))
    from probes import scan_heads

    result = scan_heads(
        model,
        relations,
        arguments.inputs,
        num_inputs=arguments.num_inputs,
        seed=arguments.seed,
        task_check=not arguments.no_task_check,
        progress=True,
    )
    whole = content_of(result, models=_models(arguments.checkpoints, loaded, arguments.model_seed))
    deliver(result.summary(), arguments.json, whole, arguments.figure, result)
    return 0


def _relations(texts: Sequence[str]) -> list[Any] | None:
    """The relations of these names or words; None for all."""
    from probes.claims import Claim

    found = [Claim([(0, 0)], text).relation for text in texts]
    if (twice := first_duplicate(relation.words for relation in found)) is not None:
        raise RequestError(f"--relation {quoted(twice)} is given twice")
    return found or None


def _listed(model: Any) -> list[Any]:
    """The models of a population, or the one."""
    return list(model) if hasattr(model, "seeds") else [model]


def _models(names: Sequence[str], loaded: Sequence[Any], chosen: int | None) -> list[dict[str, Any]]:
    """Where each model is from: its `seed` in the result, its checkpoint, and its seed there (None of one model).

    `chosen`: the seed that was taken from each, None: all were.
    """
    own = [
        (name, seed) for name, model in zip(names, loaded, strict=True) for seed in getattr(model, "seeds", (chosen,))
    ]
    seeds = getattr(loaded[0], "seeds", (0,)) if len(loaded) == 1 else range(len(own))
    return [{"seed": at, "checkpoint": name, "seed_there": seed} for at, (name, seed) in zip(seeds, own, strict=True)]
