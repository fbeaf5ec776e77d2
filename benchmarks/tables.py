"""Write the numbers of the JSON files into the README and benchmarks/README.md: `python benchmarks/tables.py`.

Between the README's markers go the figures a user cares about and whatever has a target; the other file holds all.
Nothing there is typed by hand, so that the text says what was measured.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness import counts

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- bench: begin (python benchmarks/tables.py) -->", "<!-- bench: end -->"
NAMES = ("step", "study", "evaluation", "balance", "analyzers", "batches")
FASTER, MEMORY = 40, 4  # a study's targets: times less than the released code, GB
Results = dict[str, dict[str, Any]]  # by benchmark


def load() -> tuple[Results, Results]:
    """The committed results: the CPU's by benchmark, and other devices' by file name."""

    def read(path: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    cpu = {name: HERE / f"{name}.json" for name in NAMES}
    elsewhere = sorted(path for name in NAMES for path in HERE.glob(f"{name}-*.json"))
    return {n: read(path) for n, path in cpu.items() if path.exists()}, {path.stem: read(path) for path in elsewhere}


def block(results: Results, elsewhere: Results) -> str:
    """The README's part: what a user cares about, and a short table of studies and of whatever has a target."""
    lines = ["| what | compared with | ratio of CPU time | target |", "|---|---|---|---|"]
    pairs = set()
    for result in (*results.values(), *elsewhere.values()):
        clock, where = counts(result), "" if counts(result) == "cpu" else f" (wall time, {result['machine']['device']})"
        for row in result["rows"]:
            if row["target"] is not None or row["what"].startswith("study"):
                cells = (row["what"] + where, row["reference"], ratio(row[clock]), verdict(row, clock))
                lines.append("| " + " | ".join(cells) + " |")
                pairs.add(row["pairs"])
    more = (
        f"Both programs ran in turn on one thread: {many(pairs)}. The released code was timed once, elsewhere. All "
        "comparisons, with wall times, memory, what the processor reaches and where a step's time goes: "
        "[benchmarks/README.md](benchmarks/README.md)."
    )
    return "\n\n".join([headline(results), "\n".join(lines), more])


def many(pairs: set[int]) -> str:
    """What a ratio with its brackets is of so many pairs."""
    single = "a ratio of a single run is that run beside its reference before and after it"
    median = f"a ratio is the median of {' or '.join(map(str, sorted(pairs - {1})))} pairs [least, largest]"
    return "; ".join([median] * bool(pairs - {1}) + [single] * (1 in pairs))


def whole(results: Results, elsewhere: Results) -> str:
    """benchmarks/README.md: every comparison."""
    parts = [
        "# Speed",
        "Written by `python benchmarks/tables.py` from the JSON files beside it; `make bench` measures.",
    ]
    for name, result in results.items():
        parts += [f"## {name}", *section(name, result)]
        for other, found in elsewhere.items():
            if other.startswith(f"{name}-"):
                device = found["machine"]["device"]
                parts += [f"### {name} on {device}", *section(name, found)]
    if not elsewhere:
        parts.append("No GPU was at hand: nothing here was measured on one (`--device cuda` does).")
    return "\n\n".join(parts) + "\n"


def section(name: str, result: dict[str, Any]) -> list[str]:
    """All of one benchmark on one machine."""
    return [*([table(result)] if result["rows"] else []), *notes(name, result), place(result)]


def table(result: dict[str, Any]) -> str:
    """Comparisons as Markdown."""
    clock, other = ("CPU", "wall") if counts(result) == "cpu" else ("wall", "CPU")
    return (
        f"Ratios are of {clock} time, ours over the reference, run in turn on one thread: "
        f"{many({row['pairs'] for row in result['rows']})}.\n\n"
        f"| what | unit | ours, {clock} s | reference | {clock} s | ratio | {other} ratio | target |\n"
        + "|---" * 8
        + "|"
    ) + "".join("\n" + row_of(row, clock.lower()) for row in result["rows"])


def place(result: dict[str, Any]) -> str:
    """What a benchmark ran on."""
    m = result["machine"]
    device = "" if m["device"] == "cpu" else f"{m['device']}, driven by "
    return (
        f"Measured on {device}{m['cpu']}, {m['cores']} shared cores with a load of {m['load_before']:.1f} before, "
        f"torch {m['torch']}."
    )


def headline(results: Results) -> str:
    """The three figures: what a study costs, what a step costs, what long strings cost."""
    study = results["study"]
    released = sum(study["released_cpu_s_a_seed"].values())
    costs = "; ".join(
        f"`{name.removeprefix('study ').removesuffix(', S=40')}` {s['cpu_s_a_seed']:.1f} CPU s a seed"
        f" ({s['released_over_ours']:.0f} times less)"
        for name, s in study["studies"].items()
    )
    least = min(value for s in study["studies"].values() for value in s["worst_accuracy"].values())
    steps = {row["what"]: row["cpu"]["ratio"] for row in results["step"]["rows"] if row["what"].endswith(", S=40")}
    told = []
    for data, words in (("equal rows", "strings of one length"), ("complete", "complete strings")):
        batches = [w.split("batch ")[1].split(",")[0] for w in steps if w.startswith(data)]
        found = [f"{steps[f'{data}, batch {batch}, S=40']:.2f}" for batch in batches]
        told.append(f"{', '.join(found)} of its time on {words} (batch {', '.join(batches)})")
    (long,) = (r for r in results["evaluation"]["rows"] if r["what"].startswith("length 400-500, dyck-minimal, S="))
    return (
        f"- **A study of 40 seeds**, every step, evaluation, variation, stack-likeness and balance: {costs} than the"
        f" released code's {released:.0f}; the worst seed and rule close {least:.1%} of brackets.\n"
        "- **A training step** of 40 `dyck-standard` models against a loop over `TransformerBridge.boot_native` models:"
        f" {'; '.join(told)}.\n"
        f"- **A prediction at length 400-500** costs {long['cpu']['ratio']:.2f} times one at length 28 where counts"
        " suffice (`dyck-minimal`)."
    )


def row_of(row: dict[str, Any], clock: str) -> str:
    """One comparison as a table row."""
    time, other = row[clock], row["wall" if clock == "cpu" else "cpu"]
    cells = [row["what"], row["unit"], number(time["ours"]), row["reference"], number(time["reference"])]
    return "| " + " | ".join([*cells, ratio(time), number(other["ratio"]), verdict(row, clock)]) + " |"


def ratio(time: dict[str, float]) -> str:
    """A ratio of times with the least and the largest."""
    return f"{number(time['ratio'])} [{number(time['least'])}, {number(time['largest'])}]"


def verdict(row: dict[str, Any], clock: str) -> str:
    """The target, and whether it is met."""
    if row["target"] is None:
        return ""
    return f"≤ {row['target']:.2g}: {'met' if row[clock]['ratio'] <= row['target'] else 'not met'}"


def notes(name: str, result: dict[str, Any]) -> list[str]:
    """What is no comparison: shares, memory, the processor's limit."""
    if name == "evaluation":
        shares = (f"{k.removeprefix('evaluation of a run, ')} {v:.1%}" for k, v in result["share"].items())
        return [f"Share of a run spent in evaluation: {'; '.join(shares)} (target: at most 5 %)."]
    if name == "study":
        released = sum(result["released_cpu_s_a_seed"].values())
        return [
            f"Asked for: at most {released / FASTER:.1f} CPU s a seed (1/{FASTER} of the released code's"
            f" {released:.0f}) and {MEMORY} GB.",
            "\n".join(study_line(study, s) for study, s in result["studies"].items()),
        ]
    if name == "batches":
        return [batches_table(result)]
    if name != "step":
        return []
    reached = ", ".join(f"{v['share_of_matmul_rate']:.0%} ({k})" for k, v in result["reached"].items())
    one = "One thread" if counts(result) == "cpu" else "The device"
    return [
        f"{one} multiplies matrices at up to {max(result['matmul_rate'].values()) / 1e9:.0f} GFLOP/s here, of which a"
        f" step's products reach {reached}.",
        *([profile_table(result["profile"])] if result["profile"] else []),
    ]


def batches_table(result: dict[str, Any]) -> str:
    """What each batch size needed."""
    lines = [
        "| batch | strings a seed | steps | CPU s a seed | seeds at the goal | worst seed and rule |",
        "|---" * 6 + "|",
    ]
    for run in result["runs"]:
        cells = (run["batch"], run["strings"], run["steps"], number(run["cpu_s_a_seed"]))
        at_goal = f"{run['seeds_at_goal']} of {run['seeds']}"
        lines.append("| " + " | ".join([*map(str, cells), at_goal, f"{run['worst_accuracy']:.3f}"]) + " |")
    return (
        "Whole runs of `dyck-standard` (the rate falls to 0 in each), until one closes"
        f" {result['goal']:.0%} of brackets in every seed and by every rule:\n\n" + "\n".join(lines)
    )


def study_line(name: str, s: dict[str, Any]) -> str:
    """What a study cost, and what it reached."""
    probes = sum(s["probes_cpu_s_a_seed"].values())
    worst = ", ".join(f"`{rule}` {value:.3f}" for rule, value in s["worst_accuracy"].items())
    return (
        f"- {name.removeprefix('study ')}: {s['cpu_s_a_seed']:.2f} CPU s a seed, of which training"
        f" {s['training_cpu_s_a_seed']:.2f}, evaluation {s['evaluation_cpu_s_a_seed']:.2f}, probes {probes:.2f}; peak"
        f" memory {s['peak_memory_gb']:.1f} GB; least accuracy {worst}"
    )


def profile_table(profiles: dict[str, dict[str, dict[str, float]]]) -> str:
    """Where a step's time goes, by part of the model, and how much of it is matrix products."""
    order = Counter[str]()
    for found in profiles.values():
        order.update(found["all"])
    parts = [part for part, _ in order.most_common()]
    lines = ["| step | " + " | ".join(parts) + " | matrix products, of all parts |", "|---" * (len(parts) + 2) + "|"]
    for what, found in profiles.items():
        cells = [f"{found['all'][part]:.0%}" for part in parts]
        lines.append(f"| {what} | " + " | ".join(cells) + f" | {sum(found['products'].values()):.0%} |")
    return (
        "Where a step's time in torch goes, forwards and backwards together (one chunk of seeds, one thread, the"
        " profiler's own cost included):\n\n" + "\n".join(lines)
    )


def number(x: float) -> str:
    """Three significant digits."""
    return f"{x:.3g}" if 0.001 <= abs(x) < 10_000 else f"{x:.2e}"


def rewrite(text: str, inner: str) -> str:
    """`text` with what lies between the markers replaced."""
    if BEGIN not in text or END not in text:
        sys.exit(f"README.md lacks its markers {BEGIN!r} and {END!r}")
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{BEGIN}\n{inner}\n{END}{tail}"


if __name__ == "__main__":
    found = load()
    (HERE / "README.md").write_text(whole(*found), encoding="utf-8")
    README.write_text(rewrite(README.read_text(encoding="utf-8"), block(*found)), encoding="utf-8")
