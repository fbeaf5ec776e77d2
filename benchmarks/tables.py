"""Write the numbers of the JSON files into the README and benchmarks/README.md: `python benchmarks/tables.py`.

Between the README's markers go the figures a user cares about and whatever has a target; the other file holds all.
Nothing there is typed by hand, so that the text says what was measured.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- bench: begin (python benchmarks/tables.py) -->", "<!-- bench: end -->"
NAMES = ("step", "study", "evaluation", "balance", "analyzers")


def load() -> dict[str, dict[str, Any]]:
    """The committed results, by benchmark."""
    paths = {name: HERE / f"{name}.json" for name in NAMES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def block(results: dict[str, dict[str, Any]]) -> str:
    """The README's part: what a user cares about, and a short table of studies and of whatever has a target."""
    rows = [row for result in results.values() for row in result["rows"]]
    chosen = [row for row in rows if row["target"] is not None or row["what"].startswith("study")]
    lines = ["| what | compared with | ratio of CPU time | target |", "|---|---|---|---|"]
    lines += ["| " + " | ".join((row["what"], row["reference"], ratio(row), verdict(row))) + " |" for row in chosen]
    more = (
        "Ratios are medians of pairs [least, largest], both programs in turn in one process on one thread (a study is "
        "one run, beside its reference before and after it). The released code was timed once, elsewhere. All "
        "comparisons, with wall times, memory, what the processor reaches and where a step's time goes: "
        "[benchmarks/README.md](benchmarks/README.md)."
    )
    return "\n\n".join([headline(results), "\n".join(lines), more])


def whole(results: dict[str, dict[str, Any]]) -> str:
    """benchmarks/README.md: every comparison."""
    parts = [
        "# Speed",
        "Written by `python benchmarks/tables.py` from the JSON files beside it; `make bench` measures.",
    ]
    for name, result in results.items():
        parts += [f"## {name}", table(result["rows"])]
    return "\n\n".join([*parts, "## Beside", *notes(results)]) + "\n"


def table(rows: list[dict[str, Any]]) -> str:
    """Comparisons as Markdown."""
    return (
        "Ratios are of CPU time, ours over the reference, run in turn in one process on one thread: the median"
        " of at least five pairs [least, largest]; a study is run once, with its reference before and after it.\n\n"
        "| what | unit | ours, CPU s | reference | CPU s | ratio | wall ratio | target |\n" + "|---" * 8 + "|"
    ) + "".join("\n" + row_of(row) for row in rows)


def headline(results: dict[str, dict[str, Any]]) -> str:
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


def row_of(row: dict[str, Any]) -> str:
    """One comparison as a table row."""
    cpu, wall = row["cpu"], row["wall"]
    cells = [row["what"], row["unit"], number(cpu["ours"]), row["reference"], number(cpu["reference"])]
    return "| " + " | ".join([*cells, ratio(row), number(wall["ratio"]), verdict(row)]) + " |"


def ratio(row: dict[str, Any]) -> str:
    """A ratio of CPU times with the least and the largest."""
    cpu = row["cpu"]
    return f"{number(cpu['ratio'])} [{number(cpu['least'])}, {number(cpu['largest'])}]"


def verdict(row: dict[str, Any]) -> str:
    """The target, and whether it is met."""
    if row["target"] is None:
        return ""
    return f"≤ {row['target']:.2g}: {'met' if row['cpu']['ratio'] <= row['target'] else 'not met'}"


def profile_table(profiles: dict[str, dict[str, float]]) -> str:
    """Where a step's time goes, by kind of operation."""
    kinds = list(dict.fromkeys(kind for shares in profiles.values() for kind in shares))
    lines = ["| step | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    lines += [f"| {what} | " + " | ".join(f"{s.get(k, 0):.0%}" for k in kinds) + " |" for what, s in profiles.items()]
    return "Where a step's time in torch goes (one chunk of seeds, one thread):\n\n" + "\n".join(lines)


def notes(results: dict[str, dict[str, Any]]) -> list[str]:
    """What is no comparison: shares, memory, the machine."""
    out = []
    if "evaluation" in results:
        shares = (
            f"{k.removeprefix('evaluation of a run, ')} {v:.1%}" for k, v in results["evaluation"]["share"].items()
        )
        out.append(f"Share of a run spent in evaluation: {'; '.join(shares)} (target: at most 5 %).")
    if "study" in results:
        out.append(
            "Studies: "
            + "; ".join(
                f"{name.removeprefix('study ')}: training {s['training_cpu_s_a_seed']:.2f}, evaluation"
                f" {s['evaluation_cpu_s_a_seed']:.2f}, probes {sum(s['probes_cpu_s_a_seed'].values()):.2f} CPU s a"
                f" seed, peak memory {s['peak_memory_gb']:.1f} GB, least accuracy "
                + ", ".join(f"{rule} {value:.3f}" for rule, value in s["worst_accuracy"].items())
                for name, s in results["study"]["studies"].items()
            )
            + "."
        )
    if "step" in results:
        step = results["step"]
        reached = ", ".join(f"{k} {v['share_of_matmul_rate']:.0%}" for k, v in step["reached"].items())
        out.append(
            f"One thread multiplies matrices at up to {max(step['matmul_rate'].values()) / 1e9:.0f} GFLOP/s here;"
            f" a step's products reach {reached} of that."
        )
        if step.get("profile"):
            out.append(profile_table(step["profile"]))
    about = next(iter(results.values()))["machine"]
    out.append(
        f"Measured on {about['cpu']}, {about['cores']} shared cores, torch {about['torch']}; GPU: {about['gpu']}."
    )
    return out


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
    (HERE / "README.md").write_text(whole(load()), encoding="utf-8")
    README.write_text(rewrite(README.read_text(encoding="utf-8"), block(load())), encoding="utf-8")
