"""The report template: escaping, anchors, same bytes."""

import html
import re
import shlex
import shutil
from pathlib import Path

import plotly.graph_objects as go
import pytest

from case_studies import contents
from case_studies.contents import read_report
from case_studies.page import Figure, Page, Section, Table, command_of, render, write_page, write_study
from case_studies.words import Cell, typeset
from interp.errors import RequestError
from interp.stats import Estimate
from intervals import unnamed_of_page

EVIL = "<script>alert('x')</script>"


def page(**changed):
    figure = Figure(go.Figure(go.Scatter(x=[1, 2], y=[3, 4])), EVIL)
    parts = [EVIL, Table(["a", EVIL], [["row", EVIL]], EVIL), figure, figure]
    whole = {
        "title": EVIL,
        "asked": EVIL,
        "said": [EVIL],
        "answer": [EVIL],
        "sure": EVIL,
        "lead": figure,
        "compared": parts,
        "sections": [Section("First things", parts), Section("Last", ["text"])],
        "settings": [Table(["what", "how"], [[EVIL, EVIL]])],
        "command": EVIL,
        "digests": [(EVIL, EVIL)],
    }
    return Page(**{**whole, **changed})


def shown(whole):
    """The page without what keeps lines whole."""
    return re.sub(r'<span class="whole">(.*?)</span>', r"\1", render(whole))


def test_every_text_is_escaped():
    text = render(page())
    assert EVIL not in text
    # Title twice, question, answer and command twice each (once in the head), what is said, how sure, a digest's two;
    # the lead; a paragraph, four cells and notes, two captions in each of two sections; two cells of settings.
    assert text.count("&lt;script&gt;") == 2 + 6 + 2 + 2 + 1 + 2 * 6 + 2


NO_TABLE = {"compared": ["text"], "settings": []}
MISSING = [
    ({"answer": []}, "1 to 3 sentences, not 0"),
    ({"answer": ["one"] * 4}, "1 to 3 sentences, not 4"),
    *(({name: ""}, f"without '{name}'") for name in ("title", "asked", "sure", "command", "digests")),
    ({"asked": "  "}, "without 'asked'"),
    ({"said": "A sentence."}, "said='A sentence.' is not a list of sentences"),
    ({"answer": ["one", ""]}, "is not a list of sentences"),
    ({"lead": go.Figure()}, "is no Figure of a report"),
    ({"sections": [Section("s", [3])]}, "int in 's' is not a text, Table or Figure"),
    *(({name: parts}, f"'{name}' of .* holds no table") for name, parts in NO_TABLE.items()),
    ({"sections": [Section("A b", ["x"]), Section("a: B", ["y"])]}, "two sections of .* have the anchor 'a-b'"),
]


@pytest.mark.parametrize(("changed", "message"), MISSING)
def test_a_report_with_a_part_missing_is_refused(changed, message):
    with pytest.raises(RequestError, match=message):
        page(**changed)


def test_a_report_on_no_paper_compares_with_none():
    with_one, without = render(page()), render(page(said=[]))
    for words in ("The source says", "Paper and ours"):
        assert words in with_one
        assert words not in without
    assert ">Measured<" in without


def test_parts_say_what_is_wrong_with_them():
    for rows, text in (([["x"]], ()), ([["x", "1", "2"]], ()), ([["x", 1]], ()), ([["x", "1"]], (7,))):
        with pytest.raises(RequestError):
            Table(["a", "b"], rows, text=text)
    with pytest.raises(RequestError, match="dict is not a plotly figure"):
        Figure({}, "c")


def test_no_title_takes_the_place_of_a_figure():
    """Ids of figures and of the footer are none that a section's title can have."""
    figure = Figure(go.Figure(go.Scatter(x=[1], y=[2])), "c")
    titles = ["Seeds 0", "Seeds", "Lead figure", "Rebuild page", "Rebuild", "β", "γ"]
    text = render(page(sections=[Section(title, [figure]) for title in titles]))
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert all(f'<section id="{anchor}">' in text for anchor in ("seeds-0", "rebuild", "β", "γ"))


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


def test_columns_of_words_read_from_the_left_and_verdicts_stand_out():
    table = Table(["head", "verdict", "score"], [["L0H0", "supported", "0.98"], ["L1H0", "refuted", "–"]])
    text = render(page(sections=[Section("s", [table])]))
    assert '<td class="text word supported">supported</td><td>0.98</td>' in text
    assert '<th class="text">verdict</th><th>score</th>' in text


def test_what_stands_beneath_a_number_is_smaller_and_no_part_of_it():
    cells = [Cell(Estimate(0.5, 0.4, 0.6, 8, "seeds"), 1, beneath=said) for said in ("", "p < 1 & so")]
    table = Table(["", "change"], [["a", cells[0]], ["b", cells[1]]])
    text = shown(page(compared=[table]))
    assert "<td>0.5 [0.4, 0.6]</td>" in text
    assert "<td>0.5 [0.4, 0.6]<small>p &lt; 1 &amp; so</small></td>" in text
    assert "n=8 seeds" in table.note


def test_one_n_of_a_row_stands_beneath_its_name():
    """And what all rows share, the level here, stands below; a column of one n has it in its head."""
    few, many = Estimate(0.5, 0.4, 0.6, 8, "seeds"), Estimate(0.2, 0.1, 0.3, 40, "seeds")
    table = Table(["", "a", "b"], [["one", Cell(few), Cell(few)], ["two", Cell(many), Cell(many)]])
    assert [row[0] for row in table.rows] == ["one\nn=8 seeds", "two\nn=40 seeds"]
    assert (table.rows[0][1], table.note) == ("0.50 [0.40, 0.60]", "Intervals: 95 %.")
    text = shown(page(compared=[table]))
    assert '<th scope="row">one<small>n=8 seeds</small></th>' in text
    assert not unnamed_of_page(text)
    levels = Table(
        ["", "a", "b"], [["one", Cell(few), Cell(few)], ["two", Cell(few, level=0.99), Cell(few, level=0.99)]]
    )
    assert [row[0] for row in levels.rows] == ["one\n95 %", "two\n99 %"]
    assert levels.note == "Intervals: n=8 seeds."
    mixed = Table(["", "a", "b"], [["one", Cell(few), Cell(many)], ["two", Cell(many), Cell(few)]])
    assert mixed.rows[0] == ["one", "0.50 [0.40, 0.60] (95 %, n=8 seeds)", "0.20 [0.10, 0.30] (95 %, n=40 seeds)"]
    column = Table(["", "a", "b"], [["one", Cell(few), Cell(few)], ["two", Cell(many), Cell(few)]])
    assert column.head == ["", "a", "b (95 %, n=8 seeds)"]
    assert column.rows[1] == ["two\nn=40 seeds", "0.20 [0.10, 0.30]", "0.50 [0.40, 0.60]"]


WHOLE = [
    ("tied, p + q < 1 0 of 40 [0.00, 0.09];", ["p + q < 1", "0 of 40", "[0.00, 0.09]"]),
    ("0.5 [no interval] (99.5 %, n=40 seeds)", ["[no interval]", "5 %", "n=40 seeds"]),
    ("m d >= S R, and d <= H d_h", ["m d ≥ S R", "d ≤ H d_h"]),
    ("close to p(a | r) and p(a | s, r)", ["p(a | r)", "p(a | s, r)"]),
    ("1.269, -1.366", ["1.269, -1.366"]),
    ("of 1.2e-05, or alpha = 1e-5 [-1e-5, 2.0]", ["1.2e-05", "alpha = 1e-5", "[-1e-5, 2.0]"]),
    ("4, 8, 16: sentences - of words, not formulas", []),
    ("x <b>", []),
]


@pytest.mark.parametrize(("typed", "whole"), WHOLE)
def test_no_line_ends_inside_of_an_interval_or_a_formula(typed, whole):
    assert [html.unescape(one) for one in re.findall(r'<span class="whole">(.*?)</span>', typeset(typed))] == whole
    text = html.unescape(re.sub(r"<[^>]*>", "", typeset(typed)))
    assert text == typed.replace(">=", "≥").replace("<=", "≤")


def test_a_figure_is_printed_on_one_page():
    """Smaller where it would be higher or wider than the paper."""
    sizes = {(760, 500): None, (760, 1240): 0.5, (2040, 300): 0.5, (None, None): None}
    for (width, height), zoom in sizes.items():
        figure = Figure(go.Figure(layout={"width": width, "height": height}), "c")
        styles = re.findall(
            r"<figure([^>]*)>", render(page(lead=figure, compared=[Table(["a"], [["b"]])], sections=[]))
        )
        assert styles == ["" if zoom is None else f' style="--printed: {zoom:.2f}"']


@pytest.mark.parametrize("width", [1280, 600])
def test_tables_are_read_at_any_width(width, browser, tmp_path):
    """At 1280 a table of many estimates is as wide as the page; at 600 it is scrolled, and names of rows stay. No cell
    breaks inside of an interval."""
    cells = [Cell(Estimate(-0.5, -0.6, -0.4, 8, "seeds"), 3) for _ in range(7)]
    names = [f"models of one kind, arm {i}" for i in range(3)]
    table = Table(["models", *(f"a number {i}" for i in range(7))], [[name, *cells] for name in names])
    path = write_page(page(compared=[table], sections=[]), tmp_path)
    context = browser.new_context(viewport={"width": width, "height": 900})
    opened = context.new_page()
    opened.goto(path.resolve().as_uri())
    over, left, lines = opened.evaluate(
        """() => {
          const box = document.querySelector('section .scroll'), name = box.querySelector('tbody th');
          box.scrollLeft = 10000;
          const whole = box.querySelector('tbody td .whole');
          const at = name.getBoundingClientRect().left - box.getBoundingClientRect().left;
          return [box.scrollWidth - box.clientWidth, at, whole.getClientRects().length];
        }"""
    )
    context.close()
    assert over <= 0 if width == 1280 else over > 0
    assert abs(left) < 1
    assert lines == 1


def test_a_folder_called_reports_lists_what_was_run(tmp_path):
    reports = tmp_path / "reports"
    for name in ("second", "first"):
        (reports / name).mkdir(parents=True)
        write_study({"n": 1}, page(), reports / name)
    (reports / "odd #1").mkdir()
    write_page(page(), reports / "odd #1")
    assert 'href="odd%20%231/index.html"' in contents.write_index(reports).read_text()
    shutil.rmtree(reports / "odd #1")
    contents.write_index(reports)
    text = (reports / "index.html").read_text()
    assert text.index('href="first/index.html"') < text.index('href="second/index.html"')
    assert "2 studies have been run" in text
    assert EVIL not in text
    before = text
    write_study({"n": 1}, page(), reports / "first")
    assert (reports / "index.html").read_text() == before
    (reports / "other").mkdir()
    (reports / "other" / "index.html").write_text("<title>mine</title>")
    write_study({"n": 1}, page(), reports / "first")
    assert (reports / "index.html").read_text() == before


def test_no_list_is_written_elsewhere(tmp_path):
    (tmp_path / "out").mkdir()
    write_study({"n": 1}, page(), tmp_path / "out")
    assert not (tmp_path / "index.html").exists()


def test_a_page_says_of_itself_what_the_list_needs(tmp_path):
    write_page(page(), tmp_path)
    report = read_report(tmp_path)
    assert (report.title, report.asked, report.answer, report.command) == (EVIL, EVIL, (EVIL,), EVIL)
    assert read_report(tmp_path / "nowhere") is None


@pytest.mark.parametrize("words", ["()[]", "inc inc reset", "it's", "a;b", "-x", "é <b>"])
def test_the_command_on_a_page_is_read_by_a_shell_as_it_was_given(words):
    options = {"seeds": 3, "sentence": words, "steps": None}
    told = shlex.split(command_of("mine", False, Path("re ports") / "x", options))
    sentence = [f"--sentence={words}"] if words == "-x" else ["--sentence", words]
    assert told == ["interp", "report", "mine", "--quick", "--out", "re ports/x", "--seeds", "3", *sentence]
