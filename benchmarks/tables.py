"""Write the numbers of the JSON files into the README and benchmarks/README.md.

    python benchmarks/tables.py [--check]

Between the README's markers go the figures a user cares about and whatever has a target; the other file holds all.
Nothing there is typed by hand, so that the text says what was measured. `--check` writes nothing and fails where
something would change.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness import clock_of

from interp.numbers import number, percent, significant

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- bench: begin (python benchmarks/tables.py) -->", "<!-- bench: end -->"
NAMES = ("step", "study", "worlds", "evaluation", "balance", "analyzers", "audits", "batches")
FASTER, MEMORY = 40, 4  # a study's targets: times less than the released code, GB
Results = dict[str, dict[str, Any]]  # by benchmark


def load() -> tuple[Results, Results]:
    """The committed results: the CPU's by benchmark, and other devices' by file name."""

    def read(path: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            quick = found["quick"]
        except (ValueError, KeyError, TypeError):
            sys.exit(f"benchmarks/{path.name} is damaged: run python benchmarks/{path.stem.split('-')[0]}.py again")
        if quick:
            sys.exit(f"benchmarks/{path.name} is of a smoke run, whose numbers mean nothing")
        return found

    missing = [name for name in NAMES if not (HERE / f"{name}.json").exists()]
    if missing:
        sys.exit(f"benchmarks/{missing[0]}.json is missing: run python benchmarks/{missing[0]}.py first")
    elsewhere = sorted(path for name in NAMES for path in HERE.glob(f"{name}-*.json"))
    return {name: read(HERE / f"{name}.json") for name in NAMES}, {path.stem: read(path) for path in elsewhere}


def block(results: Results, elsewhere: Results) -> str:
    """The README's part: what a user cares about, how many targets are met, and where the rest stands."""
    lines = ["| what | costs |", "|---|---|", *headlines(results)]
    more = (
        f"{targets(results, elsewhere)} {place(results['step'])} All comparisons and how they were made:"
        " [benchmarks/README.md](benchmarks/README.md)."
    )
    return "\n".join(lines) + f"\n\n{more}"


def in_words(what: str) -> str:
    """A row of a training step, as a reader without the tables understands it."""
    return re.sub(r"^equal rows, batch (\d+), S=(\d+)", r"a training step of \2 models at batch \1", what)


def targets(results: Results, elsewhere: Results) -> str:
    """How many of the targets are met, and which are not."""
    found = []
    for result in (*results.values(), *elsewhere.values()):
        clock = clock_of(result)
        where = "" if clock == "cpu" else f" (wall time, {result['machine']['device']})"
        found += [(row["what"] + where, said) for row in result["rows"] if (said := verdict(row, clock))]
    missed = [in_words(what) for what, said in found if said.endswith("not met")]
    median = sum(said.endswith("by the median") for _, said in found)
    told = f"Of {len(found)} targets of speed {len(found) - len(missed)} are met ({median} by the median alone)"
    return f"{told}; not met: {'; '.join(missed)}." if missed else f"{told}."


def many(pairs: set[int]) -> str:
    """What a ratio with its brackets is of so many pairs."""
    single = "where a run is long, it is one, beside the other before and after it"
    median = f"the median of {' or '.join(map(str, sorted(pairs - {1})))} pairs [least, largest]"
    return "; ".join([median] * bool(pairs - {1}) + [single] * (1 in pairs))


def whole(results: Results, elsewhere: Results) -> str:
    """benchmarks/README.md: every comparison."""
    parts = [
        "# Speed",
        "Written by `python benchmarks/tables.py` from the JSON files beside it; `make bench` measures. S models train"
        " together. *Equal rows* are prefixes of 28 brackets, without padding in either program; *complete* are strings"
        " of 2 to 26 brackets, which the other programs pad. `boot_native` models are TransformerLens's. A ratio is our"
        " time over the other program's: below 1 is faster. A ratio to a product of matrices, where there is no other"
        " program, only takes out how fast the machine is. *met*: in every pair; *met by the median*: in most. Where"
        " seconds are asked for, ours are the median.",
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
    clock, other, threads = ("CPU", "wall", ", one thread") if clock_of(result) == "cpu" else ("wall", "CPU", "")
    return (
        f"Ratios of {clock} time{threads}: {many({row['pairs'] for row in result['rows']})}.\n\n"
        f"| what | unit | ours, {clock} s | reference | {clock} s | ratio | {other} ratio | target |\n"
        + "|---" * 8
        + "|"
    ) + "".join("\n" + row_of(row, clock.lower()) for row in result["rows"])


def place(result: dict[str, Any]) -> str:
    """What a benchmark ran on, and when."""
    m = result["machine"]
    device = "" if m["device"] == "cpu" else f"{m['device']}, driven by "
    return (
        f"Measured on {m['date']} at commit {m['commit'] or 'unknown'}, on {device}{m['cpu']}, {m['cores']}"
        f" shared cores with a load of {number(m['load_before'], 1)} before, torch {m['torch']}."
    )


def headlines(results: Results) -> list[str]:
    """Rows of what a study costs, a step, and a seed of each world."""
    return [
        f"| {what} | {costs} |"
        for what, costs in (
            study_headline(results["study"]),
            step_headline(results["step"]),
            worlds_headline(results["worlds"]),
        )
    ]


def study_headline(study: dict[str, Any]) -> tuple[str, str]:
    """What 40 seeds cost, beside the released code."""
    studies = {name.removeprefix("study ").removesuffix(", S=40"): s for name, s in study["studies"].items()}
    released = study["released_cpu_s_a_seed"]
    costs = ", ".join(f"`{name}` {number(s['cpu_s_a_seed'], 1)}" for name, s in studies.items())
    return (
        "a study of 40 models: every training step, evaluation and three analyzers",
        f"CPU seconds per model: {costs}; the released code's own models {number(sum(released.values()), 0)} (timed"
        " once, elsewhere)",
    )


def step_headline(step: dict[str, Any]) -> tuple[str, str]:
    """A step of 40 models beside both loops, whichever is faster."""
    found = {row["what"]: row["cpu"]["ratio"] for row in step["rows"]}
    batches = [w.split("batch ")[1].split(",")[0] for w in found if w.startswith("equal rows") and w.endswith("S=40")]
    each = [f"{number(found[f'equal rows, batch {batch}, S=40'], 2)} (batch {batch})" for batch in batches]
    return (
        "a training step of 40 `dyck-standard` models on strings of one length, beside a loop over TransformerLens's"
        " `TransformerBridge.boot_native` models",
        f"takes {', '.join(each)} of its time",
    )


def worlds_headline(worlds: dict[str, Any]) -> tuple[str, str]:
    """What a seed of each world costs until it does its task."""
    each = (
        f"`{name.removeprefix('world ').split(',')[0]}` {number(one['cpu_s_a_seed'], 1)}"
        for name, one in worlds["trained"].items()
    )
    return "one model trained until it does its task, evaluation and all", f"CPU seconds: {', '.join(each)}"


def row_of(row: dict[str, Any], clock: str) -> str:
    """One comparison as a table row."""
    time, other = row[clock], row["wall" if clock == "cpu" else "cpu"]
    cells = [
        row["what"],
        re.sub(r"^an? ", "per ", row["unit"]),
        significant(time["ours"]),
        row["reference"],
        significant(time["reference"]),
    ]
    return "| " + " | ".join([*cells, ratio(time), significant(other["ratio"]), verdict(row, clock)]) + " |"


def ratio(time: dict[str, float]) -> str:
    """A ratio of times with the least and the largest."""
    return f"{significant(time['ratio'])} [{significant(time['least'])}, {significant(time['largest'])}]"


def verdict(row: dict[str, Any], clock: str) -> str:
    """The target, and whether it is met: in every pair, or in most; seconds by their median."""
    if "seconds" in row:
        met = "met" if row[clock]["ours"] <= row["seconds"] else "not met"
        return f"≤ {significant(row['seconds'])} {'CPU' if clock == 'cpu' else clock} s: {met}"
    if row["target"] is None:
        return ""
    time = row[clock]
    met = (
        "not met"
        if time["ratio"] > row["target"]
        else "met"
        if time["largest"] <= row["target"]
        else "met by the median"
    )
    return f"≤ {row['target']:.2g}: {met}"


def notes(name: str, result: dict[str, Any]) -> list[str]:
    """What is no comparison: shares, memory, the processor's limit."""
    if name == "evaluation":
        shares = (f"{k.removeprefix('evaluation of a run, ')} {percent(v, 1)}" for k, v in result["share"].items())
        shared = (f"{n} strings {v['cells']:,} instead of {v['positions']:,}" for n, v in result["shared"].items())
        return [
            f"Share of a run spent in evaluation: {'; '.join(shares)} (target: at most 5 %).",
            f"Positions computed where `dyck-standard`'s held-out strings share beginnings: {'; '.join(shared)}.",
        ]
    if name == "study":
        released = sum(result["released_cpu_s_a_seed"].values())
        asked = (
            f"Targets: at most {number(released / FASTER, 1)} CPU s per seed (1/{FASTER} of the released code's "
            f"{number(released, 0)}),"
            f" {MEMORY} GB, and 5 % of a run in evaluation."
        )
        lines = "\n".join(study_line(study, s, clock_of(result)) for study, s in result["studies"].items())
        return [asked, lines] if clock_of(result) == "cpu" else [lines]
    if name == "batches":
        return [batches_table(result)]
    if name == "audits":
        return [early_table(result["early"]), "\n".join(scan_line(*scan) for scan in result["scans"].items())]
    if name == "worlds":
        return ["\n".join(world_line(world, found) for world, found in result["trained"].items())]
    return step_notes(result) if name == "step" else []


def step_notes(step: dict[str, Any]) -> list[str]:
    """The processor's limit, and where a step's time goes."""
    one = "One thread" if clock_of(step) == "cpu" else "The device"
    shares = {k: v["share_of_matmul_rate"] for k, v in step["reached"].items()}
    rate = (
        f"{one} multiplies matrices at up to {number(max(step['matmul_rate'].values()) / 1e9, 0)} GFLOP/s here. The "
        "products"
        " of a step, over all its time, are done at "
        + ", ".join(f"{percent(share)} ({what})" for what, share in shares.items())
        + " of that rate."
    )
    return [rate, profile_table(step["profile"])] if step["profile"] else [rate]


def batches_table(result: dict[str, Any]) -> str:
    """What each batch size needed."""
    lines = [
        "| batch | strings per seed | steps | CPU s per seed | seeds at the goal | worst seed and rule |",
        "|---" * 6 + "|",
    ]
    for run in result["runs"]:
        cells = (run["batch"], run["strings"], run["steps"], significant(run["cpu_s_a_seed"]))
        at_goal = f"{run['seeds_at_goal']} of {run['seeds']}"
        lines.append("| " + " | ".join([*map(str, cells), at_goal, number(run["worst_accuracy"])]) + " |")
    return (
        "Whole runs of `dyck-standard` (the rate falls to 0 in each), until one closes"
        f" {percent(result['goal'])} of brackets in every seed and by every rule:\n\n" + "\n".join(lines)
    )


def early_table(early: dict[str, dict[str, Any]]) -> str:
    """What stopping early saves in forward passes, and whether the verdicts are the same."""
    lines = [
        "| population | passes per verdict, all inputs | stopping early | share | verdicts as with all inputs"
        " | at the first look |",
        "|---" * 6 + "|",
    ]
    for name, found in early.items():
        cells = (
            f"{name}, {found['seeds']} seeds, {len(found['claims'])} claims",
            *(number(found["passes_a_verdict"][way], 0) for way in ("all", "early")),
            percent(found["share"]),
            *(f"{found[what]} of {found['verdicts']}" for what in ("agree", "at_first_look")),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return (
        "Forward passes are sequences that a model is run on, audited or untrained, whether or not some of its blocks"
        " are left out because what they give is known; a seed has a verdict on each claim:\n\n" + "\n".join(lines)
    )


def scan_line(name: str, found: dict[str, Any]) -> str:
    """What a scan has looked at."""
    return (
        f"- {name}: {found['heads']} heads x {found['relations']} relations on {found['inputs']} inputs;"
        f" {found['hold']} heads have a pattern that holds"
    )


def study_line(name: str, s: dict[str, Any], clock: str) -> str:
    """What a study cost, and what it reached."""
    worst = ", ".join(f"`{rule}` {number(value)}" for rule, value in s["worst_accuracy"].items())
    first = s["all_seeds_at_goal_from_step"]
    reached = f"from step {first} of {s['steps']} on" if first is not None else f"at none of {s['steps']} steps"
    end = f"peak memory {number(s['peak_memory_gb'], 1)} GB; lowest accuracy {worst}; every seed at the goal {reached}"
    if clock == "wall":
        return f"- {name.removeprefix('study ')}: {number(s['wall_s_a_seed'], 2)} s per seed by the clock; {end}"
    return (
        f"- {name.removeprefix('study ')}: {number(s['cpu_s_a_seed'], 2)} CPU s per seed, of which training"
        f" {number(s['training_cpu_s_a_seed'], 2)}, evaluation {number(s['evaluation_cpu_s_a_seed'], 2)}"
        f" ({percent(s['evaluation_share'], 1)} of the run), probes "
        f"{number(sum(s['probes_cpu_s_a_seed'].values()), 2)}; {end}"
    )


def world_line(name: str, found: dict[str, Any]) -> str:
    """What a world's seeds cost beside what was asked, and where they ended."""
    asked, own = found["cpu_s_a_seed_asked"], found["cpu_s_a_seed"]
    met = "met" if own <= asked and found["all_seeds_there"] else "not met"
    there = "every seed at its target" if found["all_seeds_there"] else "not every seed at its target"
    return (
        f"- {name.removeprefix('world ')}: {number(own, 1)} CPU s per seed, evaluation and all (asked: at most "
        f"{number(asked, 0)}, {met}); `{found['metric']}` {number(found['least'], 4)} to "
        f"{number(found['largest'], 4)} after {found['steps']} steps, {there}"
    )


def profile_table(profiles: dict[str, dict[str, dict[str, float]]]) -> str:
    """Where a step's time goes, by part of the model, and how much of it is matrix products."""
    order = Counter[str]()
    for found in profiles.values():
        order.update(found["all"])
    parts = [part for part, _ in order.most_common()]
    lines = ["| step | " + " | ".join(parts) + " | matrix products, of all parts |", "|---" * (len(parts) + 2) + "|"]
    for what, found in profiles.items():
        cells = [percent(found["all"][part]) for part in parts]
        lines.append(f"| {what} | " + " | ".join(cells) + f" | {percent(sum(found['products'].values()))} |")
    return (
        "Where a step's time in torch goes, forwards and backwards together (one chunk of seeds, one thread, the"
        " profiler's own cost included):\n\n" + "\n".join(lines)
    )


def rewrite(text: str, inner: str) -> str:
    """`text` with what lies between the markers replaced."""
    if BEGIN not in text or END not in text:
        sys.exit(f"README.md lacks its markers {BEGIN!r} and {END!r}")
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{BEGIN}\n{inner}\n{END}{tail}"


def main() -> None:
    """Make both texts, then write them."""
    parser = argparse.ArgumentParser(
        description="Write the benchmarks' numbers into README.md and benchmarks/README.md."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something would change")
    check = parser.parse_args().check
    found = load()
    texts = {
        README: rewrite(README.read_text(encoding="utf-8"), block(*found)),
        HERE / "README.md": whole(*found),
    }
    for path, text in texts.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            sys.exit(f"{path} is not what the JSON files say: run python benchmarks/tables.py")
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
