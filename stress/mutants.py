"""Does a test notice? Changes one operator, bound or number of a module at a time and runs the tests that mind it.

    .venv/bin/pip install cosmic-ray==8.7.0                    # makes the mutants; nothing else needs it
    .venv/bin/python stress/mutants.py interp/stats.py         # one module; without any: all of `MODULES`
    .venv/bin/python stress/mutants.py --survivors             # only what was alive the last time

Each mutant is compiled in a process of its own, in the place of its module: no file is touched. What is written to
`mutants.json`: the counts of each module, and every mutant that was ever seen alive, with its answer: `killed by` the
first test that fails on it now, or `explained:` in a sentence, by hand, why no test should. Exits with 1 where an
answer is missing. Left out: annotations, what is inside a `raise` (the words of a refusal, not its condition),
estimates of memory (`ESTIMATES`), and operators that put an operation of another kind (+ for >>), which any test
notices.
"""

import argparse
import ast
import datetime
import difflib
import importlib.machinery
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SUMMARY = ROOT / "stress" / "mutants.json"
BALANCE, VARIATION = ["tests/probes/balance"], ["tests/probes/variation"]
DYCK = ["tests/interp/test_dyck.py"]
CLAIMS = ["tests/interp/test_dyck_claims.py", "tests/probes/claims"]
AUDIT = "tests/probes/audit"
RULES, MEASURED, TOLD, PIECES, SHOWN, LABELS = (
    f"{AUDIT}/test_{name}.py" for name in ("rules", "measured", "told", "audit", "audit_figure", "audit_foreign")
)
INSERTIONS = (
    "insertions_equal_the_literal_definition",
    "inserted_nests_are_balanced_and_within_depth",
    "functional_form_of_callables_with_known_answers",
    "long_strings_are_read_few_at_a_time",
)
MODULES = {
    "interp/stats.py": ["tests/interp/test_stats.py"],
    "interp/worlds/dyck/law.py": DYCK,
    "interp/worlds/dyck/grammar.py": DYCK,
    "interp/worlds/dyck/pairs.py": DYCK,
    "interp/worlds/dyck/claims.py": CLAIMS,
    **{
        f"probes/audit/{name}.py": tests
        for name, tests in {
            "rules": [RULES, MEASURED],
            "pattern_rules": [RULES, MEASURED, f"{SHOWN}::test_each_cause_of_a_pattern_is_marked"],
            "use_rules": [RULES, MEASURED, TOLD],
            "population_rules": [RULES, MEASURED, TOLD],
            "verdicts": [RULES, MEASURED],
            "thresholds": [RULES, MEASURED],
            "stats": [MEASURED, RULES],
            "decide": [TOLD, RULES],
            "effects": [RULES, MEASURED],
            "conditions": [RULES, MEASURED],
            "pattern": [MEASURED],
            "use": [MEASURED, PIECES],
            "side": [MEASURED, PIECES],
            "rows": [TOLD, MEASURED, SHOWN],
            "partners": [MEASURED],
            "population": [TOLD, MEASURED],
            "edits": [PIECES, MEASURED],
            "labels": [MEASURED, LABELS],
        }.items()
    },
    "probes/balance/analyzer.py": BALANCE,
    "probes/balance/insertions.py": [f"{BALANCE[0]}/test_balance.py::test_{name}" for name in INSERTIONS],
    "probes/balance/table.py": BALANCE,
    "probes/variation/analyzer.py": VARIATION,
    "probes/variation/result.py": VARIATION,
}
OPERATORS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in (
        "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul", "BitAnd_BitOr",
        "BitOr_BitAnd",
    )),
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
        "Is_IsNot", "IsNot_Is",
    )),
    *(f"ReplaceUnaryOperator_{which}" for which in ("USub_UAdd", "Delete_Invert", "Delete_Not")),
    "AddNot", "NumberReplacer", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop",
]  # fmt: skip
# Bytes that something will take, by and large: tests/probes/test_bounds.py asks what is refused.
ESTIMATES = ("table_bytes", "_check_size", "_check_heads", "_check_table", "_check_padded", "_check_pairs")
MEMORY = 16 * 2**30  # a mutant may ask for anything
PASSED, FAILED, OVER = "survived", "killed", "timeout"


@dataclass(frozen=True)
class Mutant:
    """A module's source with one change."""

    line: int
    diff: tuple[str, ...]
    source: str


def mutants(path: Path, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """Of a module, in the order of their places: `sample` of them if there are more, and how many there are."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = path.read_text(encoding="utf-8")
    tree, spared, found = get_ast(source), list(_spared(ast.parse(source))), []
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [begin for node in ast_nodes(tree) for begin, _ in operator.mutation_positions(node)]
        for occurrence, begin in enumerate(places):
            if not any(first <= begin < last for first, last in spared):
                found.append((begin, operator, occurrence))
    chosen = found if len(found) <= sample else random.Random(seed).sample(found, sample)
    made = []
    for (line, _), operator, occurrence in sorted(chosen, key=lambda one: one[0]):
        changed = mutate_code(source, operator, occurrence)
        lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")
        made.append(Mutant(line, tuple(f"{x[0]} {x[1:].strip()}" for x in list(lines)[2:] if x[0] in "+-"), changed))
    return made, len(found)


def _spared(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(first, last) places of what is not mutated."""
    for node in ast.walk(tree):
        whole = isinstance(node, ast.Raise) or getattr(node, "name", None) in ESTIMATES
        for part in [node] if whole else [getattr(node, name, None) for name in ("annotation", "returns")]:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def outcome(path: Path, mutant: Mutant | None, tests: list[str], limit: float | None) -> tuple[str, str]:
    """What became of a mutant (None: of the module as it is), and the first test that failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 1
        try:
            code = _child(path, mutant, tests, writing)
        finally:
            os._exit(code)
    os.close(writing)
    end, status = time.monotonic() + (limit or 600), None
    while status is None and time.monotonic() < end:
        time.sleep(0.02)
        done, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
    if status is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        said = pipe.readline().strip()
    if said.startswith("!"):
        raise SystemExit(f"{path}: {said[1:]}")
    return (OVER if status is None else PASSED if status == 0 else FAILED), said


def _child(path: Path, mutant: Mutant | None, tests: list[str], writing: int) -> int:
    """Run the tests on the mutant; the exit status is pytest's."""
    import pytest

    class First:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                os.write(writing, f"{report.nodeid}\n".encode())

        pytest_collectreport = pytest_runtest_logreport

    plain, met = importlib.machinery.SourceFileLoader.get_code, []

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> Any:
        if mutant is None or self.path != str(path):
            return plain(self, name)
        met.append(name)
        return compile(mutant.source, self.path, "exec")

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    options = ["-x", "-q", "-n", "0", "--dist", "no", "-m", "not slow", "-p", "no:cacheprovider"]
    code = int(pytest.main([*options, *tests], plugins=[First()]))
    if mutant is not None and not met:
        os.write(writing, b"!these tests do not import it from here\n")
    return code


def tested(module: str, known: dict[str, Any], sample: int, seed: int, survivors: bool) -> dict[str, Any]:
    """A module's entry of the summary."""
    path, tests, begun = ROOT / module, MODULES[module], time.monotonic()
    first = outcome(path, None, tests, None)
    if first[0] != PASSED:
        raise SystemExit(f"{module}: its tests fail without a mutant: {first[1]}")
    limit = 10 + 5 * (time.monotonic() - begun)
    if survivors:
        sample, seed = known["mutants"], known["seed"]
    chosen, every = mutants(path, sample, seed)
    answers = {tuple(row["diff"]): row for row in known.get("survivors", [])}
    counts, rows = {FAILED: 0, PASSED: 0, OVER: 0}, []
    for mutant in chosen:
        before = answers.get(mutant.diff)
        if survivors and before is None:
            continue
        what, test = outcome(path, mutant, tests, limit)
        counts[what] += 1
        answer = before["answer"] if before else ""
        if what == PASSED or before:
            if what != PASSED:
                answer = f"killed by {test}" if test else "killed by the time limit"
            elif answer.startswith("killed"):
                answer = ""
            rows.append({"line": mutant.line, "diff": list(mutant.diff), "answer": answer})
        if what == PASSED and not answer:
            print(f"{module}:{mutant.line}\n  " + "\n  ".join(mutant.diff), flush=True)
    if survivors:
        counts[OVER] = known[OVER]
        counts[FAILED] = known["mutants"] - counts[PASSED] - counts[OVER]
    print(f"{module}: {counts}, in {time.monotonic() - begun:.0f} s", flush=True)
    return {
        "tests": tests,
        "all_mutants": every,
        "mutants": len(chosen),
        "drawn": "a sample" if len(chosen) < every else "all",
        "seed": seed,
        **counts,
        "date": datetime.date.today().isoformat(),
        "survivors": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="module", help="such as interp/stats.py (default: all it knows)")
    parser.add_argument("--sample", type=int, default=60, help="mutants a module at most (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--survivors", action="store_true", help="only mutants that the summary lists")
    parser.add_argument("--json", type=Path, default=SUMMARY, help="the summary (default: stress/mutants.json)")
    given = parser.parse_args()
    if unknown := [module for module in given.modules if module not in MODULES]:
        parser.error(f"{unknown[0]} has no tests in MODULES of stress/mutants.py")
    os.chdir(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Loaded once, before the mutants' processes part from this one; nothing of the project may be.
    import plotly.graph_objects  # noqa: F401
    import scipy.optimize
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401
    import transformer_lens  # noqa: F401

    unanswered = 0
    for module in given.modules or MODULES:
        summary = json.loads(given.json.read_text(encoding="utf-8")) if given.json.is_file() else {}
        summary[module] = tested(module, summary.get(module, {}), given.sample, given.seed, given.survivors)
        given.json.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        unanswered += sum(not row["answer"] for row in summary[module]["survivors"])
    sys.exit(1 if unanswered else 0)


if __name__ == "__main__":
    main()
