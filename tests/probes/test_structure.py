"""No circles among the modules of probes, and no way past the face of a package."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from imports import circle, import_graph, module_name, past_a_face

ROOT = Path(__file__).parents[2]
FOLDERS = ("probes", "case_studies", "interp", "benchmarks", "stress", "examples", "tests")
# A test counts as a module of the package whose place it has below tests/: there, and only there, it may look inside.
SOURCES = {
    module_name(path, ROOT).removeprefix("tests."): path.read_text()
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
}
PACKAGES = sorted(module_name(path, ROOT) for path in (ROOT / "probes").glob("**/*/__init__.py"))


@pytest.fixture(scope="module")
def graph():
    return import_graph(SOURCES)


def test_there_are_no_circles(graph):
    assert {"probes.balance.figure", "probes.audit.bench.run"} <= graph.keys()
    assert circle({m: o for m, o in graph.items() if m.startswith("probes")}) == []


def test_packages_are_reached_through_their_face(graph):
    assert {"probes.core", "probes.audit", "probes.audit.bench"} <= set(PACKAGES)
    assert past_a_face(graph, PACKAGES) == []


def test_quantiles_of_intervals_are_taken_in_one_place():
    folders = (ROOT / "interp", ROOT / "probes")
    texts = {path: path.read_text() for folder in folders for path in folder.rglob("*.py")}
    taken = {path for path, text in texts.items() for name in ("stdtrit", "betaincinv", ".ppf(") if name in text}
    assert taken == {ROOT / "interp" / "stats.py"}


@pytest.mark.parametrize(
    ("older", "face"),
    [("bench", "audit.bench"), ("relations", "claims"), ("shared_matrix", "lottery"), ("topic_blocks", "topics"),
     ("two_stage", "topics")],
)  # fmt: skip
def test_older_paths_go_on_working(older, face):
    older, face = (importlib.import_module(f"probes.{name}") for name in (older, face))
    assert {name: getattr(older, name) for name in older.__all__}.items() <= vars(face).items()


def test_what_reads_claims_and_patterns_loads_nothing_heavy():
    light = [f"probes.{name}" for name in ("core", "claims", "relations", "stack", "topics", "two_stage", "variation")]
    code = f"import sys, probes, {', '.join(light)}; print({{'torch', 'scipy', 'plotly'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize(
    "how",
    [
        "import p.a.one",
        "from p.a import one",
        "from p.a.one import name",
        "def f():\n    from p.a.one import name",
        "if TYPE_CHECKING:\n    from p.a.one import name",
    ],
)
def test_every_way_to_import_is_seen(how):
    sources = {"p.a": "from p.a.one import name", "p.a.one": "", "p.b": how}
    assert past_a_face(import_graph(sources), ["p.a"]) == ["p.b imports p.a.one"]
    assert circle(import_graph(sources)) == []
    circular = import_graph({**sources, "p.a.one": "from p.b import name"})
    assert set(circle(circular)) == {"p.b", "p.a.one"}
    assert past_a_face(circular, ["p.a"]) == ["p.b imports p.a.one"]


def test_a_package_inside_another_has_a_face_of_its_own():
    sources = {
        "p.a": "", "p.a.one": "from p.a.inner import two", "p.a.inner": "", "p.a.inner.two": "import p.a.one",
        "p.b": "import p.a.inner\nfrom p.a import inner",
    }  # fmt: skip
    assert past_a_face(import_graph(sources), ["p.a", "p.a.inner"]) == ["p.a.one imports p.a.inner.two"]
