"""Pages as a browser sees them: nothing is asked of the network, cells say what they are, large patterns draw."""

import re

import numpy as np
import pytest

from interp.grammars import DyckGrammar
from interp.plots import attention_heatmap, save_figure
from interp.plots.compact import CompactFigure, pack

GRAMMAR = DyckGrammar(2, 4)


def sharp(*shape: int, seed: int = 0) -> np.ndarray:
    """Causal patterns [..., query, key] of random scores."""
    n = shape[-1]
    scores = np.random.default_rng(seed).normal(size=(*shape, n)) * 2
    scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def hover(page, panel: int, size: int, query: int, key: int) -> str:
    """What appears over a cell."""
    box = page.locator(".nsewdrag").nth(panel).bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.move(
        box["x"] + (key + 0.5) * box["width"] / size, box["y"] + (query + 0.5) * box["height"] / size, steps=3
    )
    page.wait_for_function(f"document.querySelector('.hoverlayer')?.textContent.includes('query {query} ')")
    return page.locator(".hoverlayer").text_content()


@pytest.mark.slow
def test_hovering_a_cell_shows_tokens_and_weight(open_page, tmp_path):
    p = sharp(7)
    page = open_page(save_figure(attention_heatmap(p, "[[]]()", grammar=GRAMMAR), tmp_path / "a.html"))
    page.wait_for_selector(".nsewdrag")
    assert f"query 5 '(' attends {p[5, 1]:.3f} to key 1 '['" in hover(page, 0, 7, 5, 1)


@pytest.mark.slow
def test_scripts_in_labels_stay_text(open_page, tmp_path):
    words = ["<img src=x onerror=document.title='owned'>", "</script><script>document.title='owned'</script>", "b"]
    for name, n in (("small", 3), ("large", 200)):
        fig = attention_heatmap(sharp(n), [words[i % 3] for i in range(n)], title=words[1])
        page = open_page(save_figure(fig, tmp_path / f"{name}.html"))
        page.wait_for_selector("[data-drawn]" if n > 100 else ".nsewdrag")
        assert page.title() != "owned"
        assert "owned" in hover(page, 0, n, n - 2, 1)


@pytest.mark.slow
def test_a_compact_page_draws_and_tells_each_weight(open_page, tmp_path):
    p = sharp(3, 150)
    fig = attention_heatmap(p, population="grid")
    page = open_page(save_figure(fig, tmp_path / "a.html", include_plotlyjs="directory"))
    page.wait_for_selector("[data-drawn]")
    drawn = page.evaluate(
        "() => [...document.querySelector('.js-plotly-plot').data].map((t) => [t.z.length, t.z[99].length, t.z[99][7]])"
    )
    assert [row[:2] for row in drawn] == [[150, 100]] * 3
    assert np.abs(np.subtract([row[2] for row in drawn], p[:, 99, 7])).max() <= 2 / 255  # absolute: 255 shades
    text = hover(page, 1, 150, 120, 60)
    assert "query 120 '120'" in text
    assert "key 60 '60'" in text
    weight = float(re.search(r"attends ([0-9.]+) to", text)[1])
    assert weight == pytest.approx(p[1, 120, 60], abs=0.01)  # absolute: as printed
    assert "weights rounded" in text
    image = page.locator(".hm image").first
    assert image.evaluate("(i) => i.style.imageRendering") == "pixelated"  # over a pixel a cell


@pytest.mark.slow
def test_differences_survive_the_packing(open_page, tmp_path):
    a, b = sharp(200), sharp(200, seed=1)
    page = open_page(save_figure(attention_heatmap(a, minus=b), tmp_path / "a.html"))
    page.wait_for_selector("[data-drawn]")
    row = page.evaluate("() => Array.from(document.querySelector('.js-plotly-plot').data[0].z[150])")
    assert np.abs(row - (a - b)[150, :151]).max() <= 2 / 127  # absolute: 127 shades a sign


@pytest.mark.slow
def test_twelve_heads_of_512_tokens_weigh_under_a_megabyte(tmp_path):
    page = save_figure(attention_heatmap(sharp(12, 512)), tmp_path / "a.html", include_plotlyjs="directory")
    assert page.stat().st_size < 1e6


@pytest.mark.slow
def test_data_stay_exact_and_bytes_the_same():
    p = sharp(2, 150)
    fig = attention_heatmap(p)
    assert isinstance(fig, CompactFigure)
    np.testing.assert_array_equal(np.nan_to_num(np.asarray(fig.data[1].z)), p[1])
    assert fig.to_html() == attention_heatmap(p).to_html()
    assert fig.to_html(div_id="mine", post_script="1 + 1").count("1 + 1") == 1
    assert "DecompressionStream" not in attention_heatmap(sharp(20)).to_html()


@pytest.mark.slow
def test_a_changed_figure_is_packed_as_it_is():
    fig = attention_heatmap(sharp(2, 150))
    fig.update_layout(title_text="mine")
    light, script = pack(fig)
    assert light.layout.title.text == "mine"
    assert light.data[0].z is None
    assert "$PACKED" not in script
    fig.data[1].x = fig.data[1].x[::-1]  # panels that differ in their axes travel as plotly has them
    assert pack(fig) is None


def test_shown_outside_a_notebook_it_opens_the_compact_page(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    attention_heatmap(sharp(2, 150)).show("browser")
    assert opened[0].startswith("file://")


def test_shown_twice_in_a_notebook_it_is_drawn_twice():
    fig = attention_heatmap(sharp(2, 150))
    pages = [fig._repr_html_() for _ in range(2)]
    ids = {re.search(r'id="(figure-[^"]+)"', page)[1] for page in pages}
    assert len(ids) == 2
    assert set(fig._repr_mimebundle_()) == {"text/html"}
