"""Heatmaps show the patterns they are given; files are whole, offline and the same every time."""

import math
import re
import subprocess
import sys
import types
from html import unescape

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import ExportError, OutputError, PatternError, RequestError
from interp.grammars import DyckGrammar
from interp.plots import attention_heatmap, figure_html, save_figure
from interp.plots.arrays import check_patterns
from interp.plots.drawing import KEY, QUERY, Drawing, draw
from interp.plots.export import _without_chance, find_browser
from interp.plots.overlays import Strip, _legend
from interp.plots.panels import Panel
from interp.plots.style import SEQUENTIAL, colorscale, escape, label_last_rows, log_axis, shorten

GRAMMAR = DyckGrammar(2, 4)
TEXT = "[[]]()"
N = len(TEXT) + 1


def random_patterns(*shape: int, seed: int = 0, causal: bool = True) -> np.ndarray:
    n = shape[-1]
    scores = np.random.default_rng(seed).normal(size=(*shape, n)) * 2
    if causal:
        scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def shown(fig) -> list[np.ndarray]:
    return [np.asarray(trace.z) for trace in fig.data]


def blanked(pattern: np.ndarray) -> np.ndarray:
    return np.where(np.tri(pattern.shape[-1], dtype=bool), pattern, np.nan)


# ---- what is drawn -------------------------------------------------------------------------------


def test_one_pattern_is_drawn_as_given_with_words_on_axes_and_hover():
    p = random_patterns(N)
    fig = attention_heatmap(p, TEXT, grammar=GRAMMAR)
    np.testing.assert_array_equal(shown(fig)[0], blanked(p))
    trace = fig.data[0]
    assert (trace.y[5], trace.x[1]) == ("query 5 '('", "key 1 '['")
    assert trace.hovertemplate.startswith("%{y} attends %{z:.3f} to %{x}")
    assert (fig.layout.xaxis.title.text, fig.layout.yaxis.title.text) == (KEY, QUERY)
    assert list(fig.layout.yaxis.range) == [N - 0.5, -0.5]  # first query on top
    assert fig.layout.yaxis.scaleanchor == "x"  # square cells
    assert list(fig.layout.yaxis.ticktext) == ["START", *TEXT]
    assert (fig.layout.coloraxis.cmin, fig.layout.coloraxis.cmax) == (0, 1)
    assert TEXT in fig.layout.title.text


def test_bidirectional_patterns_keep_their_upper_triangle():
    p = random_patterns(4, causal=False)
    np.testing.assert_array_equal(shown(attention_heatmap(p))[0], p)


def test_panels_share_one_scale_and_name_what_differs():
    heads = random_patterns(3, N)
    fig = attention_heatmap(heads, TEXT)
    assert [trace.coloraxis for trace in fig.data] == ["coloraxis"] * 3
    assert [a.text for a in fig.layout.annotations] == ["head 0", "head 1", "head 2"]
    for drawn, p in zip(shown(fig), heads, strict=True):
        np.testing.assert_array_equal(drawn, blanked(p))


def test_seeds_as_grid_mean_and_spread():
    seeds = random_patterns(4, N)
    grid = attention_heatmap(seeds, TEXT, population="grid", seed_labels=["a", "b", "c", "<d>"])
    assert [a.text for a in grid.layout.annotations] == ["a", "b", "c", "&lt;d&gt;"]
    assert "of 4 seeds, head 0" in grid.layout.title.text
    mean = attention_heatmap(seeds, TEXT, population="mean")
    assert_close(shown(mean)[0], blanked(seeds.mean(axis=0)))
    spread = attention_heatmap(seeds, TEXT, population="sd")
    assert_close(shown(spread)[0], blanked(seeds.std(axis=0, ddof=1)))
    assert "sd" in spread.layout.coloraxis.colorbar.title.text


def test_layer_and_head_choose():
    layers = [random_patterns(2, 3, N, seed=s) for s in (0, 1)]  # [seed, head, query, key]
    assert len(attention_heatmap(layers, TEXT).data) == 6  # one model: every layer and head, of seed 0
    assert len(attention_heatmap(layers, TEXT, population="mean").data) == 3  # the last layer
    one = attention_heatmap(layers, TEXT, layer=0, head=-1)
    np.testing.assert_array_equal(shown(one)[0], blanked(layers[0][0, 2]))
    assert "layer 0, head 2" in one.layout.title.text
    with pytest.raises(RequestError, match="layer=2 does not exist: layers are 0 to 1"):
        attention_heatmap(layers, TEXT, layer=2)
    with pytest.raises(RequestError, match="head='a' does not exist"):
        attention_heatmap(layers, TEXT, head="a")


def test_panels_left_out_are_said():
    fig = attention_heatmap(random_patterns(20, N), TEXT, population="grid", max_panels=6)
    assert len(fig.data) == 6
    assert "first 6 of 20 panels" in fig.layout.title.subtitle.text


def test_overlays_box_the_true_cells():
    p = random_patterns(N)
    top = attention_heatmap(p, TEXT, overlay="stack_top", grammar=GRAMMAR)
    # START [ [ ] ] ( ): the stack's top after each token is 1, 2, 1, none, 5, none
    cells = [(1, 1), (2, 2), (3, 1), (5, 5)]
    path = "".join(f"M{k - 0.5},{q - 0.5}H{k + 0.5}V{q + 0.5}H{k - 0.5}Z" for q, k in cells)
    assert [shape.path for shape in top.layout.shapes] == [path]
    assert "last unmatched open bracket" in top.layout.title.subtitle.text
    partner = attention_heatmap(p, TEXT, overlay="partner", grammar=GRAMMAR)
    assert partner.layout.shapes[0].path.count("M") == 3
    assert attention_heatmap(p, TEXT, overlay=cells).layout.shapes[0].path == path
    grid = attention_heatmap(np.stack([p, p]), TEXT, overlay="stack_top", grammar=GRAMMAR)
    assert [(s.xref, s.yref) for s in grid.layout.shapes] == [("x", "y"), ("x2", "y2")]


def test_overlay_errors():
    p = random_patterns(N)
    with pytest.raises(RequestError, match="needs a grammar"):
        attention_heatmap(p, TEXT, overlay="stack_top")
    with pytest.raises(RequestError, match="overlay='top' is not one of stack_top, partner"):
        attention_heatmap(p, TEXT, overlay="top", grammar=GRAMMAR)
    with pytest.raises(RequestError, match=r"cell \(7, 0\) lies outside the 7 positions"):
        attention_heatmap(p, TEXT, overlay=[(7, 0)])


def test_labels_from_text_ids_and_words():
    p = random_patterns(N)
    ids = GRAMMAR.to_tokens(TEXT)
    expected = ["START", *TEXT]
    padded = np.concatenate([ids, np.full((1, 3), GRAMMAR.pad)], axis=1)
    for text in (TEXT, ids, ids[0], ids[0, 1:], list(ids[0]), padded):
        fig = attention_heatmap(p, text, grammar=GRAMMAR)
        assert list(fig.layout.yaxis.ticktext) == expected
    assert list(attention_heatmap(p, expected).layout.yaxis.ticktext) == expected
    assert list(attention_heatmap(p).layout.yaxis.ticktext) == [str(i) for i in range(N)]
    with pytest.raises(RequestError, match="3 tokens were given for patterns of 7 positions"):
        attention_heatmap(p, "abc")


def test_text_from_users_is_shown_as_text():
    words = ["<b>x</b>", "&amp;", "<script>alert(1)</script>"]
    fig = attention_heatmap(random_patterns(2, 3), words, title="<i>t</i>")
    everything = fig.to_json().replace("\\u003c", "<").replace("\\u003e", ">")
    assert "<b>" not in everything
    assert "<script" not in everything
    assert fig.data[0].x[0] == "key 0 '&lt;b&gt;x&lt;/b&gt;'"
    assert fig.data[0].x[1] == "key 1 '&amp;amp;'"
    assert fig.layout.title.text == "&lt;i&gt;t&lt;/i&gt;"


# ---- long sequences ------------------------------------------------------------------------------


def even(n: int) -> np.ndarray:
    p = np.tri(n)
    return p / p.sum(axis=-1, keepdims=True)


def test_long_sequences_get_a_root_scale_and_fewer_ticks():
    fig = attention_heatmap(even(512))
    axis = fig.layout.coloraxis
    assert axis.cmax == 0.1
    assert axis.colorbar.ticktext[-1].strip() == "≥ 0.1"
    assert "square root" in axis.colorbar.title.text
    assert len(fig.layout.xaxis.tickvals) < 30
    assert attention_heatmap(np.eye(512)).layout.coloraxis.cmax == 1
    assert attention_heatmap(even(64)).layout.coloraxis.colorscale[1][0] == pytest.approx(1 / 11)


def test_root_scale_colours_a_weight_by_its_root():
    linear, root = dict(colorscale()), dict(colorscale(0.5))
    assert root[0.25] == colorscale(math.nextafter(1, 2))[32][1]  # weight 1/4 has the middle colour
    assert (linear[0.0], root[1.0]) == (SEQUENTIAL[0], SEQUENTIAL[-1])


def test_very_long_sequences_are_reduced_and_say_so():
    n = 2050
    p = np.zeros((n, n))
    p[:, 0] = 1
    fig = attention_heatmap(p, overlay=[(2049, 0)])
    z = shown(fig)[0]
    assert z.shape == (1025, 1025)
    assert z[5, 0] == 0.5
    assert z[0, 0] == pytest.approx(2 / 3)  # two of the three visible cells
    assert np.isnan(z[0, 1])
    assert "mean of 2 x 2 weights" in fig.layout.title.subtitle.text
    assert fig.layout.shapes[0].path.startswith("M-0.5,1023.5")


# ---- bad patterns --------------------------------------------------------------------------------


def test_bad_patterns_are_refused_with_the_offending_index():
    p = random_patterns(2, 4)
    with pytest.raises(PatternError, match=r"shape \[2, 4, 3\] are not square"):
        attention_heatmap(p[:, :, :3])
    broken = p.copy()
    broken[1, 2, 0] = np.nan
    with pytest.raises(PatternError, match=r"patterns\[1, 2, 0\] is nan"):
        attention_heatmap(broken)
    with pytest.raises(PatternError, match=r"row \[0, 0\] of patterns sums to 2, not to 1"):
        attention_heatmap(2 * p)
    with pytest.raises(PatternError, match=r"patterns of layer 1\[0, 1\] is -1"):
        attention_heatmap([np.eye(2), np.array([[1.0, -1.0], [0.0, 1.0]])])
    with pytest.raises(PatternError, match="type str"):
        attention_heatmap("dyck-standard", TEXT)
    with pytest.raises(PatternError, match="layers differ"):
        attention_heatmap([np.eye(2), np.eye(3)])


def test_a_softmax_of_float32_passes_and_of_bfloat16_once_it_is_made_float32():
    torch = pytest.importorskip("torch")
    scores = torch.randn(3, 40, 40, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.bfloat16):
        check_patterns(torch.softmax(scores, -1).to(dtype).float().requires_grad_())


def test_wrong_arguments_are_named():
    p = random_patterns(3, N)
    with pytest.raises(RequestError, match="population='all' is not one of one, mean, grid, sd"):
        attention_heatmap(p, population="all")
    with pytest.raises(RequestError, match="2 seed_labels were given for 3 seeds"):
        attention_heatmap(p, population="grid", seed_labels=["a", "b"])
    with pytest.raises(RequestError, match="needs two seeds"):
        attention_heatmap(p[:1], population="sd")
    with pytest.raises(RequestError, match="max_panels=0"):
        attention_heatmap(p, max_panels=0)


# ---- models --------------------------------------------------------------------------------------


class StubModel:
    grammar = GRAMMAR

    def __init__(self, seed: int):
        self.seed = seed
        self.hook_dict, self.cfg = {}, types.SimpleNamespace(device="cpu", d_vocab=7, n_layers=2, n_heads=1)
        self.provenance = {"settings": {}}  # as if trained here: it could not be asked

    def to_tokens(self, text):
        torch = pytest.importorskip("torch")
        return text if isinstance(text, torch.Tensor) else torch.from_numpy(GRAMMAR.to_tokens(text))

    def to_str_tokens(self, ids):
        return [GRAMMAR.vocab[i] for i in ids]


class StubPopulation(list):
    seeds = (10, 11, 12)


def stub_patterns(model, tokens, layers):
    return [random_patterns(len(tokens), 1, tokens.shape[1], seed=2 * model.seed + i) for i in layers]


@pytest.fixture
def population(monkeypatch):
    fake = types.ModuleType("interp.patterns")
    fake.attention_patterns = stub_patterns
    monkeypatch.setitem(sys.modules, "interp.patterns", fake)
    return StubPopulation(StubModel(seed) for seed in StubPopulation.seeds)


def test_one_model_shows_every_layer(population):
    fig = attention_heatmap(population[1], TEXT, overlay="stack_top")
    names = [a.text for a in fig.layout.annotations]
    assert names == ["layer 0, head 0", "layer 1, head 0"]
    np.testing.assert_array_equal(shown(fig)[1], blanked(random_patterns(1, 1, N, seed=23)[0, 0]))
    assert len(fig.layout.shapes) == 2
    first = attention_heatmap(population, TEXT)
    np.testing.assert_array_equal(shown(first)[0], blanked(random_patterns(1, 1, N, seed=20)[0, 0]))


def test_population_shows_its_last_layer_under_its_own_seed_names(population):
    fig = attention_heatmap(population, TEXT, population="grid")
    assert [a.text for a in fig.layout.annotations] == ["seed 10", "seed 11", "seed 12"]
    assert "layer 1, head 0" in fig.layout.title.text
    np.testing.assert_array_equal(shown(fig)[2], blanked(random_patterns(1, 1, N, seed=25)[0, 0]))


def test_padding_of_tokens_is_cut_off(population):
    rows = population[0].to_tokens(["()", TEXT])
    assert shown(attention_heatmap(population[0], rows[:1]))[0].shape == (3, 3)
    with pytest.raises(RequestError, match="one heatmap shows one text, and 2 were given"):
        attention_heatmap(population[0], rows)


def test_models_need_a_text_and_spread_needs_models(population):
    with pytest.raises(RequestError, match="a model needs a text"):
        attention_heatmap(population)
    with pytest.raises(RequestError, match="population='mean' needs a population"):
        attention_heatmap(population[0], TEXT, population="mean")


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture
def fig():
    return attention_heatmap(random_patterns(2, N), TEXT, title="<b>1 & 2</b>")


def test_html_is_offline_and_the_same_bytes_every_time(fig, tmp_path):
    pages = [save_figure(fig, tmp_path / name).read_bytes() for name in ("a.html", "b.HTML")]
    assert pages[0] == pages[1]
    assert len(pages[0]) > 1e6  # the script is inside
    assert b"<script src" not in pages[0]
    assert b"<title>&lt;b&gt;1 &amp; 2&lt;/b&gt;</title>" in pages[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.HTML"]


def test_html_pages_of_a_folder_share_one_script(fig, tmp_path):
    for name in ("a.html", "b.html"):
        save_figure(fig, tmp_path / name, include_plotlyjs="directory")
    assert (tmp_path / "a.html").stat().st_size < 1e5
    assert b'<script src="plotly.min.js">' in (tmp_path / "a.html").read_bytes()
    assert (tmp_path / "plotly.min.js").stat().st_size > 1e6


NAMES_OF_PARTS = ["mine", "β--0", "1", "a.b:c_d-e", "x" * 500]
NO_NAMES = [
    '"><img src=x>',
    "a b",
    "a'b",
    'a"b',
    "<",
    ">",
    "&",
    "",
    "a\n",
    "a\u2028b",
    "a`b",
    "\\",
    5,
    b"x",
    True,
    ["x"],
]


@pytest.mark.parametrize("large", [False, True])
def test_the_id_of_a_part_of_a_page_is_a_name(large):
    n = 160 if large else 3
    fig = attention_heatmap(np.full((n, n), 1 / n))  # the large one is written in another form
    for name in NAMES_OF_PARTS:
        assert f'id="{name}"' in figure_html(fig, name)
    for name in NO_NAMES:
        for write in (figure_html, lambda fig, name: fig.to_html(div_id=name), lambda fig, name: fig.write_html(
            "a.html", div_id=name)):  # fmt: skip
            with pytest.raises(RequestError, match=r"div_id=.* is not a name"):
                write(fig, name)


def test_figure_html_has_a_stable_id(fig):
    assert figure_html(fig) == figure_html(fig)
    assert 'id="mine"' in figure_html(fig, "mine")


def test_wrong_targets_are_refused_before_anything_is_written(fig, tmp_path):
    with pytest.raises(RequestError, match=r"ends in '\.gif': known are \.html, \.png, \.svg, \.pdf"):
        save_figure(fig, tmp_path / "a.gif")
    with pytest.raises(RequestError, match="ends in 'nothing'"):
        save_figure(fig, tmp_path / "a")
    with pytest.raises(RequestError, match="include_plotlyjs='cdn'"):
        save_figure(fig, tmp_path / "a.html", include_plotlyjs="cdn")
    with pytest.raises(OutputError, match="No such file or directory"):
        save_figure(fig, tmp_path / "missing" / "a.png")
    (tmp_path / "d.html").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        save_figure(fig, tmp_path / "d.html")
    assert [p.name for p in tmp_path.iterdir()] == ["d.html"]


def test_no_browser_names_what_to_install(fig, tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chrome")
    with pytest.raises(ExportError, match="BROWSER_PATH='/nowhere/chrome' is not a program: install chromium"):
        save_figure(fig, tmp_path / "a.png")
    monkeypatch.delenv("BROWSER_PATH")
    monkeypatch.setattr("interp.plots.export.find_browser", lambda: None)
    with pytest.raises(ExportError, match="none was found"):
        save_figure(fig, tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_a_browser_that_fails_is_named(fig, tmp_path, monkeypatch):
    pytest.importorskip("kaleido")

    def fail(*args, **kwargs):
        raise RuntimeError("it fell over\nand more")

    monkeypatch.setenv("BROWSER_PATH", sys.executable)
    monkeypatch.setattr("interp.plots.browser.render", fail)
    with pytest.raises(ExportError, match=r"could not draw the \.png: it fell over$"):
        save_figure(fig, tmp_path / "a.png")


@pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome found: images cannot be drawn")
@pytest.mark.slow
def test_images_are_drawn_the_same_every_time(fig, tmp_path):
    assert save_figure(fig, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    images = [save_figure(fig, tmp_path / f"{i}.svg").read_bytes() for i in range(2)]
    assert images[0].startswith(b"<svg")
    assert images[0] == images[1]


def test_dates_in_a_pdf_are_fixed_without_moving_a_byte():
    pdf = b"%PDF <</CreationDate (D:20261127221338+00'00') /ModDate (D:20261127221338+00'00')>>"
    assert _without_chance(pdf, "pdf") == pdf.replace(b"20261127221338", b"20000101000000")


# ---- style and imports ---------------------------------------------------------------------------


def test_a_short_logarithmic_axis_has_plain_ticks():
    axis = log_axis("gap", (1, 29))
    assert axis["ticktext"] == ["1", "2", "5", "10", "20"]
    assert axis["range"][0] < 0 < 1.45 < axis["range"][1]
    assert log_axis("gap", (0.015, 0.27))["ticktext"] == ["0.02", "0.05", "0.1", "0.2"]
    assert log_axis("gap")["dtick"] == 1


def test_a_pale_scale_is_paper_to_that_share():
    for (at, pale), (there, colour) in zip(colorscale(0.5, pale=0.5), colorscale(0.5), strict=True):
        assert at == there
        half, full = ([int(c) for c in text[4:-1].split(",")] for text in (pale, colour))
        assert all(abs(a - (b + 255) / 2) <= 2 for a, b in zip(half, full, strict=True))


def test_the_last_panel_of_every_column_has_ticks():
    """Of five panels in three columns: those of the second row, and the third of the first."""
    from plotly.subplots import make_subplots

    fig = make_subplots(rows=2, cols=3, shared_xaxes="all")
    label_last_rows(fig, 5, 3, "step")
    told = [fig.layout[f"xaxis{at}" if at > 1 else "xaxis"].title.text for at in range(1, 7)]
    assert told == [None, None, "step", "step", "step", None]
    assert fig.layout.xaxis3.showticklabels


def test_lightness_of_the_scale_falls_steadily():
    channels = np.array([[int(c) for c in colour[4:-1].split(",")] for colour in SEQUENTIAL]) / 255
    luminance = np.where(channels > 0.04045, ((channels + 0.055) / 1.055) ** 2.4, channels / 12.92) @ [
        0.2126,
        0.7152,
        0.0722,
    ]
    lightness = 116 * np.cbrt(luminance) - 16
    assert (np.diff(lightness) < -3).all()


def test_small_helpers():
    assert escape("<&>") == "&lt;&amp;&gt;"
    assert shorten("abcdefgh", 5) == "ab…gh"
    assert shorten("abc", 3) == "abc"


def test_importing_plots_loads_neither_plotly_nor_torch():
    code = (
        "import sys; from interp.plots import attention_heatmap, save_figure; import probes.variation; "
        "print({'plotly', 'torch', 'scipy', 'kaleido'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr


def test_each_pattern_keeps_its_nulls_when_panels_are_left_out():
    fig = attention_heatmap(random_patterns(16, 10), population="grid", null="uniform")
    names = [trace.name for trace in fig.data]
    assert len(names) == 12
    assert names[-1].endswith("null: uniform")
    assert "first 11 of 16 patterns" in fig.layout.title.subtitle.text
    assert "11 of 16 seeds" in fig.layout.title.text
    one = attention_heatmap(random_patterns(3, 10), population="grid", null=["sharpness", "uniform"], max_panels=1)
    assert len(one.data) == 3


def test_long_names_of_panels_are_cut_and_long_titles_stand_above_them():
    names = [f"run-2024-11-{i}-lr0.001-wd0.1-linear-positions-%{{x}}-<b>" for i in range(4)]
    fig = attention_heatmap(random_patterns(4, 8), population="grid", seed_labels=names, title="long words " * 30)
    heads = [a.text for a in fig.layout.annotations]
    assert all("…" in head and len(head) < 45 for head in heads)
    assert all("%{x}" not in trace.hovertemplate.split("<extra>")[1] for trace in fig.data)
    assert all("<b>" not in trace.hovertemplate for trace in fig.data)
    assert fig.layout.margin.t > 20 * fig.layout.title.text.count("<br>")


def test_tokens_that_cannot_be_seen_get_a_sign():
    fig = attention_heatmap(random_patterns(4), ["a", "\n", "\t", ""])
    assert list(fig.layout.yaxis.ticktext) == ["a", "↵", "⇥", "∅"]


@pytest.mark.parametrize("scale", [0, -1, float("nan"), "2", True, 1e9])
def test_a_scale_that_is_none_is_refused(fig, tmp_path, scale):
    with pytest.raises(RequestError, match="is not a number above 0"):
        save_figure(fig, tmp_path / "x.png", scale=scale)


NOTED = "not trained here on this grammar: it was asked 40 strings, and gives the closing bracket in 0.97 [0.95, 0.98] "


@pytest.mark.parametrize("times", [1, 2, 7])
@pytest.mark.parametrize("panels", [1, 2, 6])
def test_notes_are_broken_to_the_width_of_the_figure(times, panels):
    """Whoever writes them: the truth over a pattern, the check of a stranger's task, nulls, what is left out."""
    strip = Strip(np.array([0, 1, 2] * 3), ("#111", "#222", "#333"), ("a & b", "c < d", "level two"), ("a", "b", "c"))
    legend = _legend("the depth of every bracket, as far as it was read " * times, strip)
    notes = (legend, escape((NOTED * times).strip()), "short")
    weights = np.eye(9)
    panel = [Panel(f"layer 0 head {i}", "", weights) for i in range(panels)]
    fig = draw(Drawing(tuple(panel), tuple("abcdefghi"), tuple("012345678"), notes, "", "weight", strip=strip), None)
    plain = draw(Drawing(tuple(panel), tuple("abcdefghi"), tuple("012345678"), (), "", "weight", strip=strip), None)
    assert fig.layout.width <= max(plain.layout.width, 760)
    lines = fig.layout.title.subtitle.text.split("<br>")
    seen = [unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]
    assert max(7 * len(line) for line in seen) <= fig.layout.width - fig.layout.margin.l - 20
    assert " ".join(" ".join(seen).split()) == " ".join(unescape(re.sub(r"<[^>]*>", "", " ".join(notes))).split())
    assert not any(line.endswith("■") for line in seen)  # a mark stays with its name
    assert fig.layout.margin.t - plain.layout.margin.t >= 16 * len(lines)
    assert fig.layout.height - fig.layout.margin.t == plain.layout.height - plain.layout.margin.t
    assert seen[-1] == "short"
