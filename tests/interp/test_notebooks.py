"""Figures and results in notebooks: one script for all, and every figure drawn wherever the notebook is shown."""

import json
import re
import subprocess
import sys
import traceback
import types

import numpy as np
import pytest
from torch import nn

from interp import InterpError, SandboxTransformer, load_checkpoint
from interp.model.hooks import NamedHooks
from interp.plots import attention_heatmap, learning_curves, notebook
from interp.plots.compact import CompactFigure
from probes import analyze_variation, audit_claim

SCRIPT = "plotly.js v"


class Shell:
    """What a kernel is to us: it tells the cell that is run, if it does, and keeps what is displayed."""

    def __init__(self, told=True):
        self.kernel, self.execution_count, self.cell, self.outputs = self, 0, None, []
        self.told = told

    def get_parent(self, channel):
        return {"metadata": {"cellId": self.cell} if self.told else {}}

    def run(self, cell, *things):
        """The outputs of a cell that ends in these things."""
        self.execution_count += 1
        self.cell, self.outputs = cell, []
        for thing in things:
            thing._ipython_display_()
        return self.outputs


@pytest.fixture
def kernel(monkeypatch):
    """Makes this process the kernel of a notebook."""

    def make(**how):
        shell = Shell(**how)

        def display(bundle, raw):
            assert raw
            json.dumps(bundle, allow_nan=False)
            shell.outputs.append(bundle)

        module, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        module.get_ipython, inner.display = lambda: shell, display
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setitem(sys.modules, "IPython.display", inner)
        monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype+notebook")
        monkeypatch.setattr(notebook, "_carrier", {})
        return shell

    return make


@pytest.fixture(scope="module")
def result():
    return analyze_variation(load_checkpoint("dyck-minimal")[:3])


def large():
    """A figure of more than 20,000 weights."""
    weights = np.tril(np.random.default_rng(0).random((2, 150, 150)))
    return attention_heatmap(weights / weights.sum(-1, keepdims=True))


def scripts(outputs):
    return [SCRIPT in one.get("text/html", "") for one in outputs]


def test_the_script_stands_once_in_a_notebook(kernel, result):
    shell = kernel()
    first, second = shell.run("a", result), shell.run("b", result, result.figure())
    assert scripts(first) == [False, True, False], "summary, script, figure"
    assert scripts(second) == [False, False, False]
    ten = first + [one for i in range(9) for one in shell.run(f"c{i}", result)]
    assert len(json.dumps(ten)) < 6e6
    assert len({re.search(r'id="(figure-[^"]+)"', one["text/html"])[1] for one in ten if notebook.PLOTLY in one}) == 10


def test_the_cell_that_holds_the_script_may_be_run_again(kernel, result):
    shell = kernel()
    fig = result.figure()
    assert scripts(shell.run("a", fig)) == [True, False]
    assert scripts(shell.run("b", fig)) == [False]
    assert scripts(shell.run("a", fig, fig)) == [True, False, False], "its outputs were cleared, the script with them"
    assert scripts(shell.run("b", fig)) == [False]


def test_a_notebook_that_does_not_tell_its_cells_has_it_once(kernel, result):
    shell = kernel(told=False)
    assert scripts(shell.run(None, result.figure())) == [True, False]
    assert scripts(shell.run(None, result.figure())) == [False]


def test_a_summary_keeps_its_columns(kernel, result):
    bundle = kernel().run("a", result)[0]
    assert bundle["text/plain"] == result.summary()
    assert "white-space: pre;" in bundle["text/html"]
    assert "|A1 - A2|^2" in bundle["text/html"]


def test_figures_have_plotlys_own_type_in_plain_lists(kernel, result):
    bundle = kernel().run("a", result.figure())[-1]
    drawn = bundle[notebook.PLOTLY]
    assert drawn.keys() >= {"data", "layout"}
    assert "bdata" not in json.dumps(drawn), "older scripts do not read it"
    assert len(drawn["data"]) == len(result.figure().data)
    assert "figure: Attention variation" in bundle["text/plain"]


def test_packed_figures_stand_there_once(kernel):
    bundle = kernel().run("a", large())[-1]
    assert notebook.PLOTLY not in bundle
    assert "DecompressionStream" in bundle["text/html"]
    assert len(bundle["text/html"]) < 100_000


def test_all_our_figures_are_shown_so(result):
    for fig in (result.figure(), attention_heatmap(np.eye(3)), learning_curves("dyck-minimal")):
        assert isinstance(fig, CompactFigure)


def test_in_a_terminal_the_summary_is_printed(monkeypatch, capsys, result):
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: object()
    monkeypatch.setitem(sys.modules, "IPython", module)
    result._ipython_display_()
    assert capsys.readouterr().out.strip() == result.summary()
    assert not notebook.in_notebook()


def test_names_of_others_stay_text(kernel):
    claim = "L0H0 attends to the token <script>alert(1)</script>"
    model = load_checkpoint("dyck-minimal")[0]
    fig = attention_heatmap(model, "()", title=claim)
    page = "".join(one["text/html"] for one in kernel().run("a", fig) if SCRIPT not in one["text/html"])
    assert "<script>alert" not in page


def page_of(outputs):
    """A page of the outputs, as a notebook is made into one."""
    parts = (one["text/html"] for one in outputs)
    return "<!DOCTYPE html><html><body>" + "\n".join(f"<div>{part}</div>" for part in parts) + "</body></html>"


DRAWN = "[...document.querySelectorAll('.plotly-graph-div')].map(d => d.querySelectorAll('.main-svg').length > 0)"


def drawn(page):
    return page.evaluate(DRAWN)


@pytest.mark.slow
def test_every_figure_of_a_page_is_drawn(kernel, result, open_page, tmp_path):
    shell = kernel()
    outputs = [
        one for cell in (result, large(), learning_curves("dyck-minimal"), result) for one in shell.run("a", cell)
    ]
    outputs = [one for i, one in enumerate(outputs) if SCRIPT not in one["text/html"] or i == 1]
    path = tmp_path / "a.html"
    path.write_text(page_of(outputs))
    page = open_page(path)
    page.wait_for_selector("[data-drawn]")
    page.wait_for_function(f"{DRAWN}.every(Boolean)")
    assert drawn(page) == [True] * 4
    assert page.locator(".plotly-graph-div em").count() == 0
    assert {page.locator("pre").nth(i).evaluate("p => getComputedStyle(p).whiteSpace") for i in (0, 1)} == {"pre"}


@pytest.mark.slow
def test_a_figure_waits_for_a_script_that_comes_later(kernel, result, open_page, tmp_path):
    shell = kernel()
    summary, script, figure = shell.run("a", result)
    path = tmp_path / "a.html"
    path.write_text(page_of([summary, figure, script]))
    page = open_page(path)
    page.wait_for_selector(".main-svg")
    assert drawn(page) == [True]


@pytest.mark.slow
def test_where_no_script_comes_a_figure_says_what_it_would_show(kernel, result, open_page, tmp_path):
    path = tmp_path / "a.html"
    path.write_text(page_of(kernel().run("a", result.figure())[-1:]))
    page = open_page(path)
    told = page.locator(".plotly-graph-div").text_content()
    assert "Attention variation between 3 seeds" in told
    assert "trust this notebook, or run it" in told


CELLS = """
from interp import load_checkpoint
from interp.plots import attention_heatmap, learning_curves
from probes import Claim, analyze_balance, analyze_stack_likeness, analyze_variation, audit_claim, scan_heads
p, m = load_checkpoint("dyck-standard"), load_checkpoint("dyck-minimal")[:3]
===
analyze_variation(p)
===
analyze_variation(m)
===
analyze_stack_likeness(p)
===
analyze_stack_likeness(m[0])
===
analyze_balance(m)
===
audit_claim(p[0], "L1H0 attends to the last unmatched open bracket", num_inputs=120)
===
audit_claim(m[0], "L0H0 attends to START", num_inputs=120)
===
scan_heads(p[0], num_inputs=120)
===
attention_heatmap(p, "[[]]()")
===
learning_curves(p)
"""


@pytest.mark.slow
def test_an_executed_notebook_of_ten_results_is_small_and_converts(browser, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    nbconvert = pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS.strip().split("===\n")]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    nbformat.write(book, tmp_path / "ten.ipynb")
    assert (tmp_path / "ten.ipynb").stat().st_size < 6e6
    (tmp_path / "ten.html").write_text(nbconvert.HTMLExporter().from_notebook_node(book)[0])
    page, errors = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("http*://**", lambda route: route.abort())  # nbconvert's own template asks for MathJax
    page.goto((tmp_path / "ten.html").as_uri(), wait_until="domcontentloaded")
    page.wait_for_function(f"{DRAWN}.every(Boolean)")
    assert not errors
    assert drawn(page) == [True] * 10


def test_the_line_of_a_result_has_no_address():
    found = audit_claim(load_checkpoint("dyck-minimal")[0], "L0H0 attends to START", num_inputs=120)
    assert re.fullmatch(r"<AuditResult: L0H0 attends to START; Verdict: [^\n]*>", repr(found))
    assert len(repr(found)) < 200


def test_models_and_figures_have_one_line_and_print_as_ever(result):
    """A list of them, or the end of a cell in a plain terminal, is read and not scrolled."""
    population = load_checkpoint("dyck-standard")
    models = [population[3], SandboxTransformer(population.config), load_checkpoint("constructed/stack")]
    figures = [result.figure(), attention_heatmap(population[0], "()"), learning_curves(population), CompactFigure()]
    for thing in [*models, *figures]:
        assert re.fullmatch(rf"<{type(thing).__name__}[ :>][^\n]*", repr(thing)), repr(thing)[:200]
        assert len(repr(thing)) < 250
        assert len(str(thing).splitlines()) > 1 or thing is figures[-1]
    assert "dyck-standard, seed 3" in repr(models[0])
    assert repr(figures[1]).startswith("<CompactFigure: Attention")
    assert repr(figures[1]).endswith("2 heatmap traces>")
    assert str(models[0]) == nn.Module.__repr__(models[0])
    ours = [kind for kind in NamedHooks.__subclasses__() if kind.__module__.startswith("interp.")]  # guests as well
    assert len(ours) > 1
    assert all(kind.__repr__ is not nn.Module.__repr__ for kind in ours)
    named = SandboxTransformer(population.config, provenance={"name": "a\nb\x1b[31m"})
    assert repr(named).isprintable()


def raised(error):
    """Every error of ours: with the message of one, as IPython would show it."""
    try:
        raise error
    except InterpError as caught:
        return caught


def test_a_refusal_is_one_line_in_a_notebook_and_has_its_frames_in_python():
    kinds, found = [InterpError], set()
    while kinds:
        kind = kinds.pop()
        found.add(kind)
        kinds += kind.__subclasses__()
    assert len(found) > 10
    for kind in found:
        error = raised(kind("k=0 is\nno number \x1b[31m"))
        (line,) = error._render_traceback_()
        assert line == f"{kind.__name__}: {error}"
        assert line.isprintable()
        plain = traceback.format_exception(error)
        assert len(plain) > 2  # with frames
        assert any("in raised" in part for part in plain)


QUIET = """
import sys, types, warnings
sys.modules["ipywidgets"] = None
sys.modules["ipykernel.zmqshell"] = types.ModuleType("zmqshell")
import IPython
IPython.get_ipython = lambda: type("ZMQInteractiveShell", (), {})()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import FIRST
    import interp.foreign.live, interp.model, probes, case_studies.registry, transformer_lens, transformers
    import huggingface_hub.hf_api
    before = len([w for w in told if "IProgress" in str(w.message)])
    del sys.modules["tqdm.auto"], sys.modules["tqdm.autonotebook"]
    import tqdm.auto
    after = len([w for w in told if "IProgress" in str(w.message)])
print(before, after)
"""


@pytest.mark.parametrize("first", ["interp", "probes", "case_studies"])
def test_the_first_import_writes_no_warning_into_a_notebook(first):
    """Whoever loads tqdm's bars for notebooks without ipywidgets is warned (by most versions), as without us."""
    pytest.importorskip("IPython")

    def warned(code):
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return found.stdout.split() or found.stderr

    begins, ends = QUIET.index("    import FIRST"), QUIET.index("    import tqdm.auto")
    (_, alone) = warned(f"{QUIET[:begins]}    before = 0\n{QUIET[ends:]}")
    assert warned(QUIET.replace("FIRST", first)) == ["0", alone]
