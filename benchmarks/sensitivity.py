"""Which verdicts of the audit rest on one of its numbers: each halved and doubled, on both benches.

    python benchmarks/sensitivity.py --models DIR [--quick] [--json FILE] [--folder DIR]

No time is measured here. The same claims are audited as they are, and with every number of `probes.audit.thresholds`
moved, each setting in a process of its own, and the table of docs/sensitivity.md is written. `--models`: where
`interp audit --bench trained` keeps its models. Only the develop half is read. `--folder`: where settings that are
done lie, so that a run that was stopped goes on.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp.files import make_folder, write_text
from interp.numbers import percent
from interp.stats import clopper_pearson

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "sensitivity.md"
INTRO = """# Which verdicts rest on one number

The bounds of an audit ([rules](audit-rules.md)) are conventions; the reason of each stands beside it in
`probes/audit/thresholds.py`. Here every one of them is halved and doubled, alone, and the same claims are audited
again: one claim of each family of the written bench, and all claims about the models of one seed of the trained
bench's develop half, without its family of six-head models (grafted), which costs as much as all others together.
*Same words*: the verdict, the word on the pattern and the word on use all stay. *Wrong*: any other word than the
right one, the use of a decoy that is left open included. Claims whose truth is not clear-cut were left out of the
trained bench, so that a bound that moves within that gap (`SCORE`, `USED`) can hardly show there. Bounds near 1
(`TOP1`, `EVEN`) move by their distance from 1, bands (`MIXED`, `NATURAL`) at both ends, counts stay whole.
`FIRST_LOOK`, `FIRST_INPUTS`, `LEAST_EARLY` and `SPENT` say when an audit looks, `MOST_SEEDS` what is said of a
population, and `FEW_SETS` how many sets are searched in a model of more than 64 heads: no verdict here is made of
them. What moves with the numbers on the papers' families is in
[head-claims](../case_studies/head_claims/README.md).

    python benchmarks/sensitivity.py --models trained-bench
"""
# What is audited, in this order: seeds of the trained bench's develop half (its rules were rewritten on 0 to 5), and
# claims of each family of the written bench, drawn with the seed of the table that was committed then.
PARTS = (("trained", 10), ("written", 0))
COSTLY = ("grafted",)  # families of the trained bench that are left out
FAMILIES = 15  # the others, with a model each
WRITTEN_SEED = 12

# Shares of a whole move by their distance from 1: twice .75 of the rows is nothing that a head can have.
NEAR_ONE = ("TOP1", "EVEN")
# These say when an audit looks, what is said of a population, or what is searched in models larger than any here.
ELSEWHERE = ("FIRST_LOOK", "FIRST_INPUTS", "LEAST_EARLY", "SPENT", "MOST_SEEDS", "FEW_SETS")


@dataclass(frozen=True)
class Setting:
    """One number of the audit in another's place; no name: unchanged."""

    name: str = ""
    value: Any = None
    words: str = "unchanged"

    @property
    def thresholds(self) -> dict[str, Any]:
        """As `replace_thresholds` takes them."""
        return {self.name: self.value} if self.name else {}


def moved(name: str, value: Any, factor: float) -> Any:
    """A threshold moved by a factor: counts stay whole and at least 1, a band moves at both ends."""
    if isinstance(value, tuple):
        low, high = value
        return (round(low * factor, 6), round(1 - (1 - high) * factor, 6))
    if isinstance(value, int):
        return max(1, round(value * factor))
    if name in NEAR_ONE:
        return round(1 - (1 - value) * factor, 6)
    return round(value * factor, 9)


def settings(numbers: Mapping[str, Any]) -> list[Setting]:
    """All numbers, halved and doubled; a count of 1 has no half."""
    out = [Setting()]
    for name, value in numbers.items():
        if name in ELSEWHERE:
            continue
        for factor, word in ((0.5, "halved"), (2.0, "doubled")):
            new = moved(name, value, factor)
            if new != value:
                out.append(Setting(name, new, f"{name} {word}"))
    return out


def audited(models: str, setting: Setting, bench: str, number: int) -> dict[str, list[str]]:
    """Of each claim by its name: verdict, word on the pattern, word on use, outcome. In a process of its own.

    `number`: of the written bench the claim of each family, of the trained bench the seed.
    """
    job = {"models": models, "thresholds": setting.thresholds, "bench": bench, "number": number}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path[1:]]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "sensitivity.py"), "--one"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, encoding="utf-8", env=env, check=False)
    if done.returncode:
        raise RuntimeError(f"{setting.words}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def one() -> None:
    """A job from the standard input, its claims' words to the standard output."""
    from case_studies.head_claims.moved import replace_thresholds

    job = json.load(sys.stdin)
    replace_thresholds({name: tuple(v) if isinstance(v, list) else v for name, v in job["thresholds"].items()})
    number = job["number"]
    print(json.dumps(of_written(number) if job["bench"] == "written" else of_trained(job["models"], number)))


def of_written(number: int) -> dict[str, list[str]]:
    """One claim of each family of the written bench, as it counts them."""
    from interp.threads import one_thread
    from probes.audit import audit_claim
    from probes.audit.bench import FAMILIES, VERDICT, make_case, named

    out = {}
    for name, family in FAMILIES.items():
        case = make_case(name, number, WRITTEN_SEED)
        with one_thread():
            result = audit_claim(case.model, case.claim, case.given, case.task, seed=number, task_check=False)
        word = named(result, case.kind, case.claim.uses is not None)
        outcome = "right" if word == VERDICT[family.kind] else "undecided" if word == "undecided" else "wrong"
        out[f"written/{name}/{number}"] = [result.verdict, result.pattern, result.use, outcome]
    return out


def of_trained(models: str, seed: int) -> dict[str, list[str]]:
    """The trained bench's, of one seed of its develop half."""
    from probes.audit.bench.trained import FAMILIES, run_trained_bench

    families = [name for name in FAMILIES if name not in COSTLY]
    found = run_trained_bench(models, "develop", families=families, seeds=(seed,))
    return {
        f"trained/{t.family}/{t.seed}/{t.claim}": [t.verdict, t.said_pattern, t.said_use, t.outcome] for t in found.told
    }


def row(
    setting: Setting, value: Any, before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Of both benches: verdicts kept, and outcomes."""
    out: dict[str, Any] = {"name": setting.name, "words": setting.words, "from": value, "to": setting.value}
    for bench in ("written", "trained"):
        mine = [key for key in before if key.startswith(bench)]
        out[bench] = {
            "claims": len(mine),
            "kept": sum(before[key][:3] == after[key][:3] for key in mine),
            "outcomes": dict(Counter(after[key][3] for key in mine)),
            "moved": [
                {"claim": key.split("/", 1)[1], "from": before[key][:3], "to": after[key][:3], "outcome": after[key][3]}
                for key in mine
                if before[key][:3] != after[key][:3]
            ],
        }
    return out


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one row a setting."""
    lines = [
        "| number | from | to | written: same words | wrong | undecided | trained: same words | false support "
        "| missed | undecided |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one_row in rows:
        cells = [one_row["words"], _value(one_row["from"]), _value(one_row["to"])]
        for bench, errors in (("written", (("wrong",),)), ("trained", (("false support",), _MISSED))):
            said = one_row[bench]
            cells.append(f"{said['kept']} of {said['claims']}")
            cells += [str(sum(said["outcomes"].get(e, 0) for e in group)) for group in (*errors, ("undecided",))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


_MISSED = ("missed pattern", "missed use")


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return " to ".join(f"{v:g}" for v in value) if isinstance(value, (tuple, list)) else f"{value:g}"


def page(result: Mapping[str, Any]) -> str:
    """The whole page: what was done, what came out in one sentence, and the table."""
    rows = result["rows"][1:]
    same = sum(r[b]["kept"] for r in rows for b in ("written", "trained"))
    every = sum(r[b]["claims"] for r in rows for b in ("written", "trained"))
    worst = sorted(rows, key=lambda r: r["written"]["kept"] + r["trained"]["kept"])[:3]
    words = ", ".join(r["words"] for r in worst)
    written, trained = (rows[0][bench]["claims"] for bench in ("written", "trained"))
    most = {bench: max(r[bench]["claims"] - r[bench]["kept"] for r in rows) for bench in ("written", "trained")}
    return (
        f"{INTRO}\n{len(rows)} settings, {written} claims of the written bench and {trained} of the trained one: "
        f"{percent(same / every, 1)} of the words stay, over all settings; in one setting between 0 and "
        f"{most['written']} of the written claims move, and between 0 and {most['trained']} of the trained ones. Most "
        f"move with {words}. Models are independent, claims about one are not: where a setting moves nothing, it moves "
        f"something in at most {percent(clopper_pearson(0, written + FAMILIES).high, 1)} of such models (95 %, "
        f"n={written + FAMILIES} models). "
        f"The auditor: version {result['auditor']['version']}, digest {result['auditor']['digest']}."
        f"\n\n{table(result['rows'])}\n"
    )


def main() -> None:
    """Run all settings; write the JSON and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one setting on a part of each bench; writes no page")
    parser.add_argument("--json", default=str(HERE / "sensitivity.json"))
    parser.add_argument("--folder", default="sensitivity")
    given = parser.parse_args()
    if given.one:
        one()
        return
    if given.models is None:
        parser.error("--models DIR: where the trained bench keeps its models")
    from case_studies.head_claims.moved import own_thresholds
    from probes.audit.bench import auditor

    asked_of = auditor()
    numbers = own_thresholds()
    asked, parts = settings(numbers), PARTS[:2] if given.quick else PARTS
    asked = asked[:2] if given.quick else asked
    folder = make_folder(Path(given.folder) / asked_of["digest"])  # what an earlier auditor said is no part of this
    found: list[dict[str, list[str]]] = [{} for _ in asked]
    for bench, number in parts:
        for setting, of_setting in zip(asked, found, strict=True):
            kept = folder / f"{setting.words.replace(' ', '-')}-{bench}-{number}.json"
            if not kept.exists():
                write_text(kept, json.dumps(audited(given.models, setting, bench, number)))
            of_setting |= json.loads(kept.read_text(encoding="utf-8"))
            print(bench, number, setting.words, flush=True)
    rows = [row(s, numbers.get(s.name), found[0], after) for s, after in zip(asked, found, strict=True)]
    result = {"auditor": asked_of, "parts": [list(part) for part in parts], "written_seed": WRITTEN_SEED, "rows": rows}
    write_text(Path(given.json), json.dumps(result, indent=1, allow_nan=False))
    if not given.quick:
        write_text(PAGE, page(result))


if __name__ == "__main__":
    main()
