"""One way to write a number, from all sides; and nobody writes it another way."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest

from interp.numbers import (
    ABSENT,
    NO_INTERVAL,
    UNDEFINED,
    Cells,
    absent,
    count,
    estimate,
    interval,
    number,
    percent,
    power,
    reasons,
    significant,
    size,
)
from interp.stats import Estimate

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.9724, 3, "0.972"),
        (-0.0004, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (-0.0005001, 3, "-0.001"),
        (-1e-300, 0, "0"),
        (-0.4, 0, "0"),
        (-0.6, 0, "-1"),
        (0.0004, 3, "0.000"),
        (1e-300, 3, "0.000"),
        (12345.678, 2, "12345.68"),
        (99999.9999, 3, "100000.000"),
        (123456.7, 3, "1.235e+05"),
        (-1e300, 1, "-1e+300"),
        (0.0004, None, "0.0004"),
        (-1.953837e-09, None, "-1.954e-09"),
        (0.01, None, "0.010"),
        (-0.0, None, "0.000"),
        (2e7, None, "2e+07"),
        (np.float32(0.5), 2, "0.50"),
        (3, 2, "3.00"),
        (None, 3, UNDEFINED),
        (math.nan, 3, UNDEFINED),
        (-math.inf, None, UNDEFINED),
    ],
)
def test_a_number_has_its_decimals_and_no_needless_sign(value, digits, text):
    assert number(value, digits) == text


def test_what_is_undefined_reads_one_way_and_what_is_absent_another():
    for write in (number, percent, power, significant):
        assert write(None) == write(math.nan) == write(math.inf) == UNDEFINED
        assert write(None, none=ABSENT) == ABSENT
        assert write(math.nan, none=ABSENT) == UNDEFINED  # it was asked for
    assert estimate(None) == count(None) == ABSENT
    assert estimate(Estimate.undefined("k = 1", 8, "seeds")) == UNDEFINED
    assert estimate(Estimate.undefined("k = 1", 8, "seeds"), n=True) == f"{UNDEFINED} (n=8 seeds)"


def test_shares_powers_and_significant_digits():
    assert (percent(0.972), percent(-0.0001), percent(0.12345, 1)) == ("97 %", "0 %", "12.3 %")
    assert (power(0.000123), power(-0.0), power(4.0, 0)) == ("1.2e-04", "0.0e+00", "4e+00")
    assert (significant(0.5081), significant(35.02), significant(-0.0), significant(3e-4)) == (
        "0.508", "35", "0", "3.00e-04",
    )  # fmt: skip


def test_an_estimate_has_its_interval_and_says_its_n():
    e = Estimate(-0.0304, -0.0504, -0.0001, 8, "seeds")
    assert estimate(e) == "-0.030 [-0.050, 0.000]"
    assert estimate(e, 2, n=True) == "-0.03 [-0.05, 0.00] (n=8 seeds)"
    assert interval(None, 1.0) == interval(0.0, None) == NO_INTERVAL
    one = Estimate(1.0, None, None, 1, "inputs", reason="one")
    assert (estimate(one), size(one)) == (f"1.000 {NO_INTERVAL}", "n=1 input")
    assert estimate(Estimate(-1e-9, -2e7, 2e7, 3, "words"), None) == "-1e-09 [-2e+07, 2e+07]"


def test_a_share_is_written_as_the_count_it_comes_from():
    e = Estimate(12 / 160, 0.04, 0.127, 160, "trials")
    assert count(e) == "12 of 160 [0.04, 0.13]"
    assert count(e, whole=False) == "12 [0.04, 0.13]"
    assert count(Estimate.undefined("none", 0, "trials")) == "0 of 0"


def test_one_n_is_said_once_and_different_ones_at_each():
    eight, forty = Estimate(0.5, 0.4, 0.6, 8, "seeds"), Estimate(0.5, 0.4, 0.6, 40, "seeds")
    none = Estimate.undefined("nothing there", 3, "inputs")
    cells = Cells([eight, eight, none, None])
    assert (cells.over, cells.n) == ("95 %, n=8 seeds", "n=8 seeds")
    assert [cells(e, 1) for e in (eight, none, None)] == ["0.5 [0.4, 0.6]", UNDEFINED, ABSENT]
    cells = Cells([eight, forty], 1, level=0.9971)
    assert cells.over == "99.71 %"
    assert [cells(e) for e in (eight, forty)] == ["0.5 [0.4, 0.6] (n=8 seeds)", "0.5 [0.4, 0.6] (n=40 seeds)"]
    assert Cells([None]).over == "95 %"


def test_the_reasons_stand_below_once():
    none = Estimate.undefined("nothing there", 3, "inputs")
    one = Estimate(1.0, None, None, 1, "seeds", reason="one seed")
    assert reasons([none, none, one, None, Estimate(1.0, 0, 2, 3, "seeds")]) == [
        f"{UNDEFINED}: nothing there", "no interval: one seed",
    ]  # fmt: skip
    assert absent(["a", f"b {ABSENT}"]) == [f"{ABSENT}: not measured, or it does not apply"]
    assert absent(["a"]) == []


def test_an_estimate_survives_its_dict():
    for e in (Estimate(0.5, 0.4, 0.6, 8, "seeds", {"a": 1.0}), Estimate.undefined("why", 0, "words")):
        assert Estimate.from_dict({**e.to_dict(), "met": True}) == e


# -- nobody else ---------------------------------------------------------------------------------------------

FORMATTER = "interp/numbers.py"
# Coordinates of a picture, what tells one set of weights from another, and a log that reads like tqdm's bars.
OTHERS = {
    "interp/plots/drawing.py": ".5f", "case_studies/head_claims/encoder.py": ".6f", "interp/progress.py": ".0%",
}  # fmt: skip


def sources() -> list[Path]:
    folders = ("interp", "probes", "case_studies", "benchmarks")
    return [p for f in folders for p in sorted((ROOT / f).rglob("*.py")) if str(p.relative_to(ROOT)) != FORMATTER]


def ends_of(node: ast.AST) -> bool:
    """Whether an expression shows an interval's end itself, rather than what a formatter makes of it."""
    if isinstance(node, ast.Call):
        return False
    if isinstance(node, ast.Attribute) and node.attr in ("low", "high"):
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value in ("low", "high"):
        return True
    return any(map(ends_of, ast.iter_child_nodes(node)))


def written_by_hand(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines and specs of numbers that are given decimals, and of interval ends that are put into a text, by hand."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
            spec = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            estimated = any(isinstance(n, ast.Attribute) and n.attr == "value" for n in ast.walk(node.value))
            decimals = re.search(r"[fFeE%]$", spec) and spec != ",.0f"  # whole numbers in thousands
            if decimals or ends_of(node.value) or (spec.endswith("g") and estimated):
                out.append((node.lineno, spec))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            if isinstance(node.left.value, str) and re.search(r"%[-+ 0]*\d*(\.\d+)?[feg]", node.left.value):
                out.append((node.lineno, node.left.value))
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            of = node.func.value if isinstance(node.func, ast.Attribute) else None
            if name == "format" and isinstance(of, ast.Constant) and re.search(r":[^}]*[feg%]\}", str(of.value)):
                out.append((node.lineno, str(of.value)))
            if name == "format" and isinstance(node.func, ast.Name) and any(re.search(r"[feg%]$", t) for t in texts):
                out.append((node.lineno, texts[-1]))
    return out


def test_only_the_formatter_writes_numbers():
    found = []
    for path in sources():
        name = str(path.relative_to(ROOT))
        hand = written_by_hand(ast.parse(path.read_text(encoding="utf-8")))
        found += [f"{name}:{line} {spec}" for line, spec in hand if spec != OTHERS.get(name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        'f"{x:.3f}"', 'f"{x:.{digits}f}"', 'f"{share:.0%}"', 'f"{error:.1e}"', 'f"{e.low}"', 'f"[{row[\'high\']}]"',
        'f"{e.value:.4g}"', '"%.2f" % x', '"{:.2f}".format(x)', 'format(x, ".2f")', 'f"{-e.high}"',
    ],
)  # fmt: skip
def test_the_search_finds_every_other_way(code):
    assert written_by_hand(ast.parse(code))


@pytest.mark.parametrize("code", ['f"{number(e.low, 2)}"', 'f"{threshold:g}"', 'f"{name:<8}{count:>3}"', "e.low < x"])
def test_the_search_lets_the_formatter_and_settings_be(code):
    assert not written_by_hand(ast.parse(code))
