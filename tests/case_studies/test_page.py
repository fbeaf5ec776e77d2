"""The report template: escaping, anchors, same bytes."""

import re

import plotly.graph_objects as go

from case_studies.page import Figure, Page, Section, Table, render, write_page

EVIL = "<script>alert('x')</script>"


def page():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))
    parts = [EVIL, Table(["a", EVIL], [["row", EVIL]], EVIL), Figure(figure, EVIL), Figure(figure, "again")]
    return Page(EVIL, EVIL, [EVIL], [Section("First things", parts), Section("Last", ["text"])], EVIL, [EVIL])


def test_every_text_is_escaped():
    text = render(page())
    assert EVIL not in text
    assert text.count("&lt;script&gt;") == 11


def test_contents_lead_to_sections_and_ids_are_unique():
    text = render(page())
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in ids


def test_writing_shares_one_script_and_repeats_to_the_byte(tmp_path):
    first = write_page(page(), tmp_path).read_bytes()
    assert (tmp_path / "plotly.min.js").stat().st_size > 1_000_000
    assert len(first) < 50_000
    assert write_page(page(), tmp_path).read_bytes() == first
    assert b"http://" not in first
    assert b'src="https' not in first
