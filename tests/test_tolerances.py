"""No test compares floats within a bare absolute bound: that is right for one scale of numbers and one machine only.

Comparisons go through `closeness.assert_close`, whose bound is a number of roundings of a stated scale, or are
relative. Whatever else is absolute (sampling errors, printed digits) says why: `# absolute: WHY` in its lines.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
REASON = re.compile(r"# absolute: \S")
SMALL = 1e-3  # a bound below it is one on rounding
HIDDEN = {"allclose", "isclose", "assert_almost_equal", "assert_array_almost_equal", "assert_approx_equal"}
ABSOLUTE = {"abs", "atol", "abs_tol", "delta"}


def number(node: ast.AST | None) -> float | None:
    """The value of an expression that is made of numbers alone."""
    parts = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    if node is None or not all(isinstance(part, parts) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"))  # arithmetic of literals
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def slack(node: ast.AST) -> bool:
    """`x + 1e-9`: a small number added to what is none; `x * (1 + 1e-9)` is relative."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return False
    left, right = number(node.left), number(node.right)
    return any(a is None and b is not None and 0 < abs(b) < SMALL for a, b in ((left, right), (right, left)))


def judged(node: ast.AST) -> Iterator[str]:
    """What is wrong with a node, apart from what is wrong with its parts."""
    name = called(node)
    if isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in HIDDEN or (name == "assert_close" and isinstance(node.func, ast.Attribute)):
            yield f"{name} has an absolute bound of its own: closeness.assert_close"
        if name == "assert_allclose" and "rtol" not in given:
            yield "assert_allclose without rtol= does not say how close: closeness.assert_close"
        for key in ABSOLUTE & set(given):
            if number(given[key]):
                yield f"{key}={ast.unparse(given[key])} follows from no scale"
        if name == "approx" and node.args and number(node.args[0]) == 0 and "abs" not in given:
            yield "approx(0) is within 1e-12 whatever the scale"
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            if isinstance(op, ast.Gt | ast.GtE):
                left, right = right, left
            elif not isinstance(op, ast.Lt | ast.LtE):
                continue
            bound = number(right)
            size = any(called(part) in ("abs", "absolute", "ptp") for part in ast.walk(left))
            if bound and number(left) is None and abs(bound) < (1 if size else SMALL):
                yield f"a bound of {ast.unparse(right)} follows from no scale"
        if any(slack(part) for side in sides for part in ast.walk(side)):
            yield "a slack that follows from no scale"


def offences(source: str) -> list[str]:
    """`line: what` of every bare absolute bound, and of every reason that excuses nothing."""
    lines, found, excused = source.splitlines(), [], set()
    within: dict[ast.AST, ast.AST] = {}  # a node of a simple statement may have its reason anywhere in that statement
    for node in ast.walk(ast.parse(source)):
        simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
        within |= dict.fromkeys(ast.walk(node), node) if simple else {}
        for what in judged(node):
            whole = within.get(node, node)
            reasons = {n for n in range(whole.lineno, whole.end_lineno + 1) if REASON.search(lines[n - 1])}
            excused |= reasons
            if not reasons:
                found.append(f"{node.lineno}: {what}")
    idle = {n for n, line in enumerate(lines, 1) if REASON.search(line)} - excused
    return found + [f"{n}: this reason excuses nothing" for n in sorted(idle)]


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.relative_to(TESTS)))
def test_every_tolerance_follows_from_a_scale(path):
    if path != Path(__file__):
        assert not offences(path.read_text()), "see tests/support/closeness.py"


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.relative_to(TESTS)))
def test_no_module_sets_torch_up_for_all_others(path):
    """Threads and the default dtype are the whole run's: the environment says how many threads, and a test gives
    back what it set."""
    body = ast.parse(path.read_text()).body
    calls = [called(node.value) for node in body if isinstance(node, ast.Expr)]
    assert not [name for name in calls if name.startswith("set_")]


@pytest.mark.parametrize(
    "line",
    [
        "torch.testing.assert_close(a, b)",
        "torch.testing.assert_close(a, b, atol=1e-6, rtol=0)",
        "assert torch.allclose(a, b, rtol=1e-4)",
        "assert np.isclose(a, b).all()",
        "np.testing.assert_allclose(a, b)",
        "np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)",
        "np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)",
        "assert a == pytest.approx(b, abs=1e-7)",
        "assert a == pytest.approx(b, abs=2 * 10**-7)",
        "assert a != pytest.approx(b, abs=1e-3)",
        "assert a == approx(0)",
        "assert a == pytest.approx(0.0)",
        "assert abs(a - b) < 1e-6",
        "assert (a - b).abs().max() < 2e-6",
        "assert np.abs(a - b).max() <= 0.05",
        "assert 1e-6 > np.ptp(a)",
        "assert 0 <= error.max() < 1e-15",
        "assert error < 1e-6, name",
        "assert (found <= alone + 1e-15).all()",
        "best = [k for k in keys if weights[k] > top - 1e-9]",
        "assert (\n    a\n    == pytest.approx(b, abs=0.1)\n)",
        "assert a == pytest.approx(b, abs=0.1)  # absolute:",
        "assert a == b  # absolute: no",
        "for e in [e for e in a if abs(e) < 0.1]:\n    f(e)  # absolute: of something else",
    ],
)
def test_bare_bounds_are_found(line):
    assert len(offences(line)) >= 1


@pytest.mark.parametrize(
    "line",
    [
        "assert_close(a, b, ulps=8, scale=logits)",
        "assert a == pytest.approx(b)",
        "assert a == pytest.approx(b, rel=1e-9)",
        "assert a == pytest.approx(b, rel=1e-9, abs=0)",
        "assert a == pytest.approx(b, abs=4 * np.sqrt(p * (1 - p) / n))",
        "np.testing.assert_allclose(a, b, rtol=1e-9)",
        "assert abs(mean) < 5 * deviation / np.sqrt(n)",
        "assert (a - b).abs().max() < 1e-3 * b.abs().max()",
        "assert got > exact * (1 - 1e-12)",
        "assert (a - b).abs().max() > 1e-3",  # they do differ
        "assert np.abs(weights).max() < 1",
        "assert share < 0.05",
        "assert 1e-9 < 1e-3",
        "assert a == pytest.approx(b, abs=0.1)  # absolute: four standard errors",
        "assert f(\n    a, abs=0.1,\n)  # absolute: as printed",
        "assert (\n    a == pytest.approx(b, abs=0.1)\n)  # absolute: as printed",
    ],
)
def test_what_states_its_scale_or_its_reason_passes(line):
    assert offences(line) == []
