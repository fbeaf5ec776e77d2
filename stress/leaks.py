"""Leaks: every analyzer, heatmaps, loading, saving, training and commands, fifty times each.

After a few calls to warm up, memory, open files, threads, child processes, temporary files and Python's objects must
stay what they are. Memory may rise by a stated bound, since allocators keep what they once had; a leak of one model or
one array a call passes it.
"""

import contextlib
import gc
import io
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hosts as made
import torch
from stressing import Arguments, Report, main

from interp import load_checkpoint, load_foreign, save_checkpoint, train_population
from interp.cli import main as command
from interp.errors import InterpError
from interp.plots import attention_heatmap, save_figure
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

WARM = 5
MOST_MEMORY = 20e6  # bytes by which a process may have grown over all calls of one kind
MOST_OBJECTS = 2.0  # Python objects a call that may stay
HOW: dict[str, Any] = {"grammar": made.GRAMMAR, "task_check": False}
SHORT: dict[str, Any] = {"num_inputs": 60, "length": 12}
SMALL: dict[str, Any] = {"candidates": 8, "num_inputs": 4, "num_strings": 20}


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """Name -> what is done again and again."""
    brackets, topics, targets = made.ours(), made.topics(), made.targets()
    native, gpt2 = made.native(), made.gpt2(folder / "gpt2")
    berts = [made.bert(folder / f"bert-{seed}", seed) for seed in range(2)]
    (trained,) = made.trained(1)
    path = save_checkpoint(brackets, folder / "x.safetensors")
    foreign = folder / "x.pt"
    settings = {"n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_vocab": 7, "n_ctx": 8, "attn_only": True}
    torch.save(foreign_weights(), foreign)
    (folder / "bad.safetensors").write_bytes(path.read_bytes()[:-7])

    def refused() -> None:
        with contextlib.suppress(InterpError):
            load_checkpoint(folder / "bad.safetensors")

    def run(*words: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command(list(words))

    def train(workers: int) -> Callable[[], Any]:
        quick = {"eval_every": 2}
        return lambda: train_population("dyck-minimal", 2, options=quick, steps=2, batch=2, workers=workers)

    claim = "L1H0 attends to the previous token"
    return {
        "balance": lambda: analyze_balance(brackets[0], num_inputs=4, length=6),
        "stack": lambda: analyze_stack_likeness(brackets, num_inputs=8, length=12),
        "variation": lambda: analyze_variation(brackets),
        "topic blocks": lambda: analyze_topic_blocks(topics, permutations=100),
        "two stages": lambda: analyze_two_stages(topics),
        "audit": lambda: audit_claim(brackets[0], claim, **SHORT),
        "audit of a use": lambda: audit_claim(brackets[0], "L1H0 uses the last unmatched open bracket", **SHORT),
        "scan": lambda: scan_heads(brackets[0], ["previous"], **SHORT),
        "lottery": lambda: demonstrate_lottery_ticket(targets[0], sweep=(), controls=False, **SMALL),
        "shared matrix": lambda: demonstrate_shared_matrix(targets[0], targets[1], **SMALL),
        "stack of a native bridge": lambda: analyze_stack_likeness(native, num_inputs=4, length=12, **HOW),
        "stack of a bridge whose task is checked": lambda: analyze_stack_likeness(
            trained, num_inputs=4, length=12, grammar=made.GRAMMAR
        ),
        "stack of a GPT-2": lambda: analyze_stack_likeness(gpt2, num_inputs=4, length=12, **HOW),
        "variation of BERTs": lambda: analyze_variation(berts, "([])", **HOW),
        "audit of a GPT-2": lambda: audit_claim(gpt2, claim, **SHORT, **HOW),
        "heatmap": lambda: attention_heatmap(brackets, "([])", population="grid", null="untrained"),
        "heatmap of a bridge": lambda: attention_heatmap(gpt2, "([])", **HOW),
        "figure to a file": lambda: save_figure(attention_heatmap(brackets[0], "([])"), folder / "x.html"),
        "load": lambda: load_checkpoint(path),
        "load what is damaged": refused,
        "load another library's": lambda: load_foreign(foreign, settings),
        "save": lambda: save_checkpoint(brackets, folder / "y.safetensors"),
        "train here": train(1),
        "a wrong command": lambda: run("analyze", "variation", str(folder / "bad.safetensors")),
        "a command": lambda: run("analyze", "variation", str(path), "--json", str(folder / "x.json")),
        "train by workers": train(2),
    }


def foreign_weights() -> dict[str, torch.Tensor]:
    """A state dict of TransformerLens's names."""
    from interp import SandboxTransformer, TransformerConfig

    shape: dict[str, Any] = {"d_model": 4, "d_head": 4, "n_ctx": 8, "positions": "learned", "mlp_depth": 0}
    model = SandboxTransformer(TransformerConfig(7, n_layers=1, n_heads=1, **shape))
    return {name: p.detach().clone() for name, p in model.named_parameters()}


SLOW = {"train by workers": 4}  # fewer calls of what takes seconds


# -- the test -------------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report = Report()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    most = 0.0
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name, own_temporary_folder(Path(name) / "temporary"):
        for what, call in calls(Path(name)).items():
            count = min(arguments.size(50, 8), SLOW.get(what, 50))
            for _ in range(min(WARM, count)):
                call()
            before = held()
            for _ in range(count):
                call()
            after = held()
            report.counts["kinds"] += 1
            if os.environ.get("INTERP_DEBUG"):
                print(f"  {what}: {after['memory'] / 1e6:.0f} MB", flush=True)
            report.counts["calls"] += count
            grown = after["memory"] - before["memory"]
            most = max(most, grown)
            if grown > MOST_MEMORY:
                report.wrong(f"{what}: {grown / 1e6:.1f} MB more after {count} calls")
            stay = (after["objects"] - before["objects"]) / count
            if stay > MOST_OBJECTS:
                report.wrong(f"{what}: {stay:.1f} Python objects a call stay")
            for kind in ("open files", "threads", "children", "temporary files"):
                if after[kind] > before[kind]:
                    report.wrong(f"{what}: {kind} went from {before[kind]} to {after[kind]} in {count} calls")
    c = report.counts
    report.said = (
        f"{c['kinds']} kinds of calls, {c['calls']:,} after warming up: memory grew by {most / 1e6:.1f} MB at "
        f"most, {len(report.violations)} of memory, objects, open files, threads, processes or temporary files leaked"
    )
    return report


@contextlib.contextmanager
def own_temporary_folder(folder: Path) -> Iterator[None]:
    """Temporary files of this process and its workers alone: others on the machine have theirs elsewhere."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    folder.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop("TMPDIR")
        if before[1] is not None:
            os.environ["TMPDIR"] = before[1]


def held() -> dict[str, float]:
    """What this process holds."""
    for _ in range(3):
        gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "objects": len(gc.get_objects()),
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "children": len(children),
        "temporary files": len(os.listdir(tempfile.gettempdir())),
    }


if __name__ == "__main__":
    main("leaks", __doc__, run)
