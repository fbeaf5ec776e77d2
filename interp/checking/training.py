"""Checks of training in a world: a seed's bits are its own, files come back, measures are there."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from interp.checking.claims import own
from interp.checking.law import ERRORS
from interp.checking.subject import STEPS, Subject
from interp.checking.suite import must
from interp.checkpoints import load_checkpoint, save_checkpoint
from interp.claims.register import has_keys
from interp.errors import quoted
from interp.recipe import num_labels
from interp.training.loop import initial_state
from interp.training.task import FINAL_STRINGS
from interp.world import load

AUDIT = "probes.checking.audits:audit_once"  # audits stand above this package


def check_training(subject: Subject) -> None:
    """A few steps change the weights, and two seeds together give, bit for bit, what each gives alone."""
    for name, (both, *single) in subject.trained.items():
        said = f"preset {quoted(name)}"
        first = initial_state(subject.recipes[name], both.seeds).params
        moved = any(not torch.equal(p, first[n]) for n, p in both.params.items())
        must(moved, f"{said}: {len(both)} seeds keep the weights that they start with")
        for place, alone in enumerate(single):
            for tensor, values in both.params.items():
                must(
                    torch.equal(values[place], alone.params[tensor][0]),
                    f"{said}: seed {place} trained beside another has another {quoted(tensor)} than alone",
                )
            rows = [row for row in both.history if row["seed"] == place]
            must(
                rows == list(alone.history),
                f"{said}: seed {place} is measured differently beside another than alone",
            )


def check_saving(subject: Subject) -> None:
    """What is saved and loaded saves to the same bytes again: weights, grammar, settings and measurements."""
    with TemporaryDirectory() as folder:
        for name, (both, *_) in subject.trained.items():
            first = save_checkpoint(both, Path(folder) / "first.safetensors")
            again = save_checkpoint(load_checkpoint(first), Path(folder) / "second.safetensors")
            alike = first.read_bytes() == again.read_bytes()
            must(alike, f"preset {quoted(name)}: what its file gives is saved as other bytes")


def check_metrics(subject: Subject) -> None:
    """The last measurement has the columns that the world shows; each measure is a number in one preset at least; a few
    steps leave no loss below that of the exact law."""
    world, met = subject.world, set[str]()
    for name, (both, *_) in subject.trained.items():
        least = -ERRORS * math.log(num_labels(subject.recipes[name].grammar)) / math.sqrt(FINAL_STRINGS)
        for row in both.final_metrics():
            must(row.get("loss") is not None, f"preset {quoted(name)}: no loss is measured")
            excess = row.get("excess")
            must(
                excess is None or excess >= least,
                f"preset {quoted(name)}: after {STEPS} steps the loss is {-(excess or 0):.4g} nats below that of the "
                "exact law, which chance does not explain: the law is wrong",
            )
            met |= {key for key, value in row.items() if value is not None}
            for key, column in world.shown.items():
                measured = ", ".join(sorted(set(row) - {"seed", "step"}))
                said = f"preset {quoted(name)}: column {quoted(key)}"
                must(key in row, f"{said} is shown and not measured; measured are {measured}")
                inside = row[key] is None or column.least <= row[key] <= column.most
                must(inside, f"{said} is {row[key]}, and its Column goes from {column.least:g} to {column.most:g}")
    for key in (*world.shown, *world.measures):
        must(key in met, f"measure {quoted(key)} is announced, and no preset has a finite number for it")


def check_audit(subject: Subject) -> None:
    """A claim of the first relation runs to a verdict, whichever, on models that were trained for a few steps."""
    for both, *_ in subject.trained.values():
        if any(has_keys(relation, both.grammar) for relation in own(subject).relations):
            load(AUDIT)(both)
            return
    must(False, "no preset has a grammar in which a relation of the world has keys")
