"""The auditor: what stopping early saves, what a scan of all heads costs, and what one claim does.

    python benchmarks/audits.py [--quick]

Claims about populations that ship are audited with all inputs and stopping early, and forward passes are counted. All
heads of models with 4 layers of 4 heads are held against every relation that applies; and single claims are asked of
one model each, both beside the machine's matrix product. A target of theirs is one in CPU seconds. On the CPU alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

from harness import Arguments, Row, compare, main, matmuls

from interp import Population, SandboxTransformer, load_checkpoint, train_population
from interp.presets import make_recipe
from probes import audit_claims, scan_heads
from probes.audit import AuditResult, ScanResult

COPY = "the token after the last earlier copy of the current token"
AFTER = "tokens after an earlier copy of the current token"
# By population: a pattern that is there, a use, one that is not there, and one under a condition.
CLAIMS = {
    "recall": (
        "L0H0 attends to the previous token",
        f"L1H0 uses {COPY}",
        "L1H0 attends to the previous token",
        f"L1H0 attends to {COPY} when the position is at least 10",
    ),
    "markov": (
        f"L1H0 attends to {AFTER}",
        f"L1H0 uses {AFTER}",
        "L1H0 attends to the previous token",
        f"L1H0 attends to {AFTER} when the position is at least 10",
    ),
    "flipflop-1l1h": (
        "L0H0 attends to the last write",
        "L0H0 uses the last write",
        "L0H0 attends to the previous token",
        "L0H0 attends to the last write when the last write is at least 5 tokens back",
    ),
}
SHAPE = {"layers": 4, "heads": 4, "width": 48}  # of the models whose heads are scanned
SCANNED = (("dyck-copy", 0), ("dyck-copy", 100), ("flipflop", 0))  # a preset and the steps that it is trained for
MOST_OF_A_SCAN, MOST_OF_A_CLAIM = 20.0, 1.3  # CPU s


class Passes:
    """How many sequences went through models."""

    count = 0


@contextmanager
def counted() -> Iterator[Passes]:
    """Counts sequences of every call of a model of ours, audited or untrained, with gradients or not.

    A call counts whole, though blocks below an edit may give what they gave before, and those above the last claimed
    head are not run.
    """
    own, passes = SandboxTransformer.forward, Passes()

    @wraps(own)
    def forward(self: SandboxTransformer, tokens: Any, *args: Any, **how: Any) -> Any:
        passes.count += len(tokens)
        return own(self, tokens, *args, **how)

    with patch.object(SandboxTransformer, "forward", forward):
        yield passes


def early_rows(arguments: Arguments) -> tuple[list[Row], dict[str, Any]]:
    """A row a population; and its forward passes and verdicts, by its name."""
    rows, out = [], {}
    for name, claims in list(CLAIMS.items())[: 1 if arguments.quick else None]:
        models = load_checkpoint(name)[: 2 if arguments.quick else None]
        found: dict[bool, tuple[list[AuditResult], int]] = {}

        def run(early: bool, models: Population = models, claims: tuple[str, ...] = claims, found: Any = found) -> None:
            with counted() as passes:
                results = audit_claims(models, claims, early=early, num_inputs=200 if arguments.quick else None)
            found[early] = results, passes.count

        verdicts = len(models) * len(claims)
        what = f"stopping early, {name}, S={len(models)}"
        audit_claims(models[:1], claims[:1])  # what is loaded late
        rows += compare(
            {what: (partial(run, True), float(verdicts))},
            ("with all inputs", partial(run, False), float(verdicts)),
            "a verdict",
            arguments,
            warm_up=False,
        )
        out[name] = saved(found[False], found[True], claims, len(models))
    return rows, out


def saved(
    whole: tuple[list[AuditResult], int], early: tuple[list[AuditResult], int], claims: tuple[str, ...], seeds: int
) -> dict[str, Any]:
    """Forward passes with all inputs and stopping early, and what became of the verdicts on each seed."""
    pairs = [
        (a, b) for x, y in zip(whole[0], early[0], strict=True) for a, b in zip(x.seeds, y.seeds, strict=True)
    ]  # fmt: skip
    looks = early[0][0].looks
    return {
        "claims": list(claims),
        "seeds": seeds,
        "verdicts": len(pairs),
        "looks": list(looks),
        "passes_a_verdict": {"all": whole[1] / len(pairs), "early": early[1] / len(pairs)},
        "share": early[1] / whole[1],
        "agree": sum(a["verdict"] == b["verdict"] for a, b in pairs),
        "at_first_look": sum(b["num_inputs"] == looks[0] for _, b in pairs),
    }


def scanned_model(preset: str, steps: int) -> SandboxTransformer:
    """A model of so many layers and heads, untrained or trained for some steps."""
    recipe = make_recipe(preset, SHAPE, **({"steps": steps} if steps else {}))
    if steps:
        return train_population(recipe, 1, workers=1)[0]
    return Population.init(recipe.config, [0], recipe.grammar)[0]


def scan_rows(arguments: Arguments) -> tuple[list[Row], dict[str, Any]]:
    """A row a model; and what was scanned, by the row's name."""
    found: dict[str, ScanResult] = {}

    def program(what: str, model: SandboxTransformer) -> Callable[[], None]:
        def run() -> None:
            found[what] = scan_heads(model, num_inputs=120 if arguments.quick else None, task_check=False)

        return run

    programs = {}
    for preset, steps in SCANNED[: 1 if arguments.quick else None]:
        what = f"scan of 4 layers of 4 heads, {preset}, {f'{steps} steps' if steps else 'untrained'}"
        programs[what] = program(what, scanned_model(preset, steps)), 1.0
    most = dict.fromkeys(programs, MOST_OF_A_SCAN)
    rows = compare(programs, matmuls("cpu"), "a scan", arguments, warm_up=False, seconds=most)
    return rows, {
        what: {
            "heads": scan.num_heads,
            "relations": scan.num_relations,
            "inputs": scan.num_inputs,
            "hold": len({(fit.layer, fit.head) for fit in scan.fits if fit.pattern == "holds"}),
        }
        for what, scan in found.items()
    }


def claim_rows(arguments: Arguments) -> list[Row]:
    """A pattern and a use, each asked alone of one model of each population."""
    programs = {}
    for name, (pattern, use, *_) in CLAIMS.items():
        model = load_checkpoint(name)[0]
        for kind, claim in (("pattern", pattern), ("use", use)):
            audit = partial(audit_claims, model, [claim], num_inputs=100 if arguments.quick else None)
            programs[f"one claim of a {kind}, {name}"] = audit, 1.0
    most = dict.fromkeys(programs, MOST_OF_A_CLAIM)
    return compare(programs, matmuls("cpu"), "a claim", arguments, seconds=most)


def measure(arguments: Arguments) -> dict[str, Any]:
    """A row a population, a scanned model and a claim."""
    early, passes = early_rows(arguments)
    scans, seen = scan_rows(arguments)
    return {"rows": [*early, *scans, *claim_rows(arguments)], "early": passes, "scans": seen}


if __name__ == "__main__":
    main("audits", __doc__, measure, devices=False, pairs=3)
