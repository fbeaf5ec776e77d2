"""Write what both benches of the audit found into README.md, docs/manual.md and docs/trained-bench.md.

    python docs/error_rates.py [--check]

Everything between a page's markers comes from docs/claim-bench.json, docs/trained-bench.json,
docs/trained-bench-runs.json and, once they are there, docs/trained-bench-develop.json and
docs/trained-bench-naive.json and docs/trained-bench-fresh.json. Whether that is of the auditor as it stands is found
out here, by the digest of its source files. `--check` writes nothing and fails where a page would change.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interp.errors import RequestError
from interp.files import write_text
from interp.numbers import number, percent
from probes.audit.bench.figure import error_count, error_table
from probes.audit.bench.trained import by_seeds, fresh_table, long_table, short_table
from probes.audit.bench.trained.beside import both_halves
from probes.audit.bench.trained.cases import JUDGE, NEW
from probes.audit.bench.trained.history import read_runs, runs_of, runs_table

ROOT = Path(__file__).resolve().parents[1]
WORDING = {  # what a table says below itself -> what README says
    "CPU seconds a claim": "CPU seconds per claim",
}
DEVELOP, FRESH = "docs/trained-bench-develop.json", "docs/trained-bench-fresh.json"
NAIVE = "docs/trained-bench-naive.json"
HALVES = {"judge": "docs/trained-bench.json", "develop": DEVELOP}
NOT_YET = f"`{DEVELOP}` is not there yet: the develop half has not been run by these rules."
NOT_RUN = f"`{FRESH}` is not there yet: the fresh families have not been audited."

NOT_ASKED = f"`{NAIVE}` is not there yet, or not of all halves."


def worded(text: str) -> str:
    """`text` as README says it."""
    for words, better in WORDING.items():
        text = text.replace(words, better)
    return text


def erred(data: Mapping[str, Any]) -> str:
    """`error_count`, with what the errors of a written bench are."""
    said = {"supported": "false support", "undecided": "left undecided"}
    wrong: dict[str, int] = {}
    for family in data["families"]:
        for word, count in family["verdicts"].items():
            if count and word != family["expected"]:
                kind = said.get(word, "missed" if family["expected"] == "supported" else "called otherwise")
                wrong[kind] = wrong.get(kind, 0) + count
    if sum(wrong.values()) != sum(family["errors"] for family in data["families"]):
        raise RequestError("docs/claim-bench.json counts errors that are no verdict other than the expected one")
    kinds = ", ".join(f"{number} {kind}" for kind, number in wrong.items())
    return re.sub(
        r"^(\d+ of \d+ claims) came out with an error (\[.*?\])",
        lambda found: f"The audit erred on {found[1]} {found[2]}{f': {kinds}' if kinds else ''}",
        error_count(data),
    )


def targets(trained: Mapping[str, Any], written: Mapping[str, Any], timed: Mapping[str, Any]) -> str:
    """What was asked of the auditor beside what was measured: a Markdown table."""
    all_kinds = next(row for row in trained["rows"] if row["family"] is None and row["kind"] is None)
    lines = ["| asked | measured | |", "|---|---|---|"]

    def told(asked: str, measured: str, met: bool) -> None:
        lines.append(f"| {asked} | {measured} | {'met' if met else '**not met**'} |")

    for kind, most in (("false support", 0.01), ("missed pattern", 0.02), ("missed use", 0.02)):
        found = all_kinds["errors"][kind]
        measured = f"{found['models_with_it']} of {found['models']} models, at most {percent(found['high'], 1)}"
        told(f"{kind}: at most {percent(most)}, by the upper bound of 95 %", measured, found["high"] <= most)
    found = all_kinds["errors"]["undecided"]
    claims, models = found["claims"] / found["of"], found["models_with_it"] / found["models"]
    measured = (
        f"{percent(claims, 1)} of {found['of']:,} claims; a claim in {percent(models)} of {found['models']} models"
    )
    told("left undecided: at most 5 %", measured, max(claims, models) <= 0.05)
    named, of = all_kinds["named"]
    told("decoys and idle heads named as such: at least 98 %", f"{named} of {of} claims", named >= 0.98 * of)
    errors = sum(family["errors"] for family in written["families"])
    of = written["per_family"] * len(written["families"])
    told(
        "written bench: errors at most 0.3 %",
        f"{errors} of {of} claims ({percent(errors / of, 2)})",
        errors <= 0.003 * of,
    )
    seconds = {family["family"]: family["seconds_per_claim"] for family in trained["families"]}
    slowest = max(seconds, key=lambda name: seconds[name])
    measured = f"{number(trained['seconds_per_claim'], 2)} on average, {number(seconds[slowest], 2)} of {slowest}"
    told("CPU seconds per claim, small models: 0.1 to 1.3", measured, seconds[slowest] <= 1.3)
    scans = [row["cpu"]["ours"] for row in timed["rows"] if row["what"].startswith("scan ")]
    measured = f"{number(min(scans), 1)} to {number(max(scans), 1)} CPU seconds"
    told("scan of 4 layers of 4 heads, all relations: at most 20 seconds", measured, max(scans) <= 20)
    return "\n".join(lines)


def blocks(root: Path) -> dict[str, dict[str, str]]:
    """What stands in which page, by the name of its markers."""

    def read(name: str) -> Any:
        return json.loads((root / name).read_text(encoding="utf-8"))

    written, trained = read("docs/claim-bench.json"), read("docs/trained-bench.json")
    develop = by_seeds(read(DEVELOP)) if (root / DEVELOP).exists() else NOT_YET
    there = all((root / name).exists() for name in (NAIVE, *HALVES.values()))
    naive = both_halves({half: read(name) for half, name in HALVES.items()}, read(NAIVE)) if there else NOT_ASKED
    fresh = fresh_table(read(FRESH)) if (root / FRESH).exists() else NOT_RUN
    runs = read_runs(root / "docs" / "trained-bench-runs.json")
    return {
        "README.md": {"trained bench": worded(short_table(trained)), "written bench": erred(written)},
        "docs/manual.md": {"claim bench": f"{erred(written)}\n\n{error_table(written)}"},
        "docs/trained-bench.md": {
            "targets": targets(trained, written, read("benchmarks/audits.json")),
            "judging half": long_table(trained),
            "develop half": develop,
            "naive rule": naive,
            "runs": runs_table(runs_of(runs, JUDGE)),
            "fresh families": fresh,
            "fresh runs": runs_table(runs_of(runs, NEW)),
        },
    }


def filled(text: str, found: Mapping[str, str], page: str) -> str:
    """`text` with each block between its markers. Raises `RequestError` where a page lacks them."""
    for name, content in found.items():
        pattern = re.compile(rf"(<!-- {name}: begin[^>]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise RequestError(f"{page} has no markers <!-- {name}: begin ... --> and <!-- {name}: end -->, or two")
        text = pattern.sub(lambda match, content=content: f"{match[1]}\n{content}\n\n{match[2]}", text)
    return text


def stale(root: Path, *, write: bool) -> list[str]:
    """Pages that are not what the data gives; written anew if `write`."""
    out = []
    for page, found in blocks(root).items():
        path = root / page
        before = path.read_text(encoding="utf-8")
        after = filled(before, found, page)
        if after != before:
            out.append(page)
            if write:
                write_text(path, after)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or with `--check` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page would change")
    options = parser.parse_args(arguments)
    pages = stale(ROOT, write=not options.check)
    if pages and options.check:
        print(f"stale: {', '.join(pages)}; run python docs/error_rates.py")
        return 1
    print(f"written: {', '.join(pages)}" if pages else "all pages are what the data gives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
