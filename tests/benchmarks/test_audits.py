"""The benchmark of the auditor counts every run of a model, and says what became of the verdicts."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from interp import SandboxTransformer, load_checkpoint
from interp.model.parts import Embed
from probes import audit_claims

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import audits as a  # benchmarks/audits.py
import tables

COMMITTED = json.loads(Path(a.__file__).with_suffix(".json").read_text(encoding="utf-8"))


class Entered:
    """Sequences that enter a kind of part of any model, counted by torch's own hooks."""

    def __init__(self, kind):
        self.kind, self.count = kind, 0

    def __enter__(self):
        self.handle = register_module_forward_pre_hook(self.seen)
        return self

    def __exit__(self, *_):
        self.handle.remove()

    def seen(self, module, given):
        self.count += len(given[0]) if type(module) is self.kind else 0


def test_sequences_of_a_call_are_counted_once_and_the_model_stays_as_it_was():
    model, own = load_checkpoint("recall")[0], SandboxTransformer.forward
    tokens = torch.from_numpy(model.grammar.draw(np.random.default_rng(0), 5))
    plain = model(tokens)
    with a.counted() as passes:
        assert torch.equal(model(tokens), plain)
        model.run_with_cache(tokens[:2], names_filter=["blocks.0.attn.hook_pattern"], stop_at_layer=1)
    assert passes.count == 7
    assert SandboxTransformer.forward is own
    model(tokens)
    assert passes.count == 7


def test_a_run_that_begins_half_way_is_a_run():
    """Of a head of the last layer, blocks below are mostly not run again; the calls are counted all the same."""
    model = load_checkpoint("recall")[0]
    with a.counted() as passes, Entered(Embed) as embedded, Entered(type(model.blocks[0].attn)) as layers:
        audit_claims(model, [a.CLAIMS["recall"][1]], num_inputs=200)
    assert passes.count == embedded.count
    assert passes.count < layers.count < 2 * passes.count


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("name", a.CLAIMS)
def test_no_run_of_an_audit_escapes_the_count(name, early):
    """Every run, of audited and of untrained models, reads the embedding once: torch's own hooks count that."""
    models = load_checkpoint(name)[:2]
    with a.counted() as passes, Entered(Embed) as embedded:
        audit_claims(models, a.CLAIMS[name][:2], num_inputs=200, early=early)
    assert passes.count == embedded.count > 2 * 200


def test_verdicts_are_compared_seed_by_seed():
    def results(verdicts, inputs):
        seeds = [{"verdict": v, "num_inputs": n} for v, n in zip(verdicts, inputs, strict=True)]
        return [SimpleNamespace(seeds=seeds[:2], looks=(100, 400)), SimpleNamespace(seeds=seeds[2:], looks=(100, 400))]

    whole = results(["supported", "refuted", "refuted", "undecided"], [400] * 4)
    early = results(["supported", "refuted", "undecided", "undecided"], [100, 100, 400, 400])
    found = a.saved((whole, 4000), (early, 1000), ("one", "two"), 2)
    assert {k: found[k] for k in ("verdicts", "agree", "at_first_look", "share", "looks")} == {
        "verdicts": 4, "agree": 3, "at_first_look": 2, "share": 0.25, "looks": [100, 400],
    }  # fmt: skip
    assert found["passes_a_verdict"] == {"all": 1000, "early": 250}


def test_the_committed_numbers_are_of_these_claims_and_targets():
    assert {name: tuple(found["claims"]) for name, found in COMMITTED["early"].items()} == a.CLAIMS
    asked = {row["what"]: row["seconds"] for row in COMMITTED["rows"] if "seconds" in row}
    assert set(asked.values()) == {a.MOST_OF_A_SCAN, a.MOST_OF_A_CLAIM}
    assert len(asked) == len(a.SCANNED) + 2 * len(a.CLAIMS)
    assert set(COMMITTED["scans"]) == {what for what, most in asked.items() if most == a.MOST_OF_A_SCAN}
    assert all(found["heads"] == a.SHAPE["layers"] * a.SHAPE["heads"] for found in COMMITTED["scans"].values())
    assert len(COMMITTED["rows"]) == len(asked) + len(a.CLAIMS)


@pytest.mark.parametrize(("ours", "said"), [(1.3, "≤ 1.3 CPU s: met"), (1.31, "≤ 1.3 CPU s: not met")])
def test_seconds_that_are_asked_for_are_held_to_the_median(ours, said):
    time = {"ours": ours, "reference": 1.0, "ratio": 9.0, "least": 8.0, "largest": 10.0}
    row = {"what": "a", "reference": "r", "unit": "a claim", "cpu": time, "wall": time, "pairs": 3, "target": None}
    assert tables.verdict(row, "cpu") == ""
    row["seconds"] = 1.3
    assert tables.verdict(row, "cpu") == said
    assert tables.verdict(row, "wall") == said.replace("CPU", "wall")
    counted = {"x": {"machine": {"device": "cpu"}, "rows": [row]}}
    assert tables.targets(counted, {}).startswith(f"Of 1 targets of speed {int(ours == 1.3)} are met")


def test_rows_without_seconds_are_written_as_before():
    from harness import Row, Time, line, written

    time = Time(1.0, 1.0, 1.0, 1.0, 1.0)
    plain, held = (written(Row("a", "r", "u", time, time, 3, None, most)) for most in (None, 1.3))
    assert set(held) - set(plain) == {"seconds"}
    assert "target" not in line(plain, "cpu")
    assert line(held, "cpu").endswith("target 1.3 s")
