"""One template for every report: an offline page with contents, figures, tables and what rebuilds it."""

import html
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from case_studies.contents import marks, write_index
from case_studies.sheet import PRINTED, STYLE
from case_studies.words import Cell, Row, typeset, written
from interp.errors import RequestError, quoted
from interp.files import write_text
from interp.names import first_duplicate
from interp.numbers import UNDEFINED, number
from interp.plots.export import SCRIPT, figure_html, write_plotly_script
from probes.core import OF, header_of_command, to_json

if TYPE_CHECKING:
    import plotly.graph_objects as go


MOST_SENTENCES = 3
NAME, LONG = 20, 60  # characters of a cell, from which its column keeps some width, and more
PAPER = (1020, 620)  # CSS pixels that a figure has on a page of A4 across, its caption left out
REBUILD = "rebuild--page"  # two hyphens: no title's anchor has them, nor has a figure's id one alone
VERDICTS = ("supported", "misleading", "refuted", "undecided")


@dataclass(frozen=True)
class Table:
    """Cells are plain text, or a `Cell` with an estimate; the first column is a row's name. `note` stands below.

    Estimates are written here, and their level and n, and why one is undefined, are added to the note.
    `text`: columns of words, counted from 0: they stand on the left and break lines, where numbers do neither.
    """

    head: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    text: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.head:
            raise RequestError(f"a table without columns: {quoted(self.note)}")
        for row in self.rows:
            if len(row) != len(self.head) or not all(isinstance(cell, (str, Cell)) for cell in row):
                raise RequestError(
                    f"a row of a table of {len(self.head)} columns must be as many strings, not {quoted(row)}"
                )
        head, rows, told = written(self.head, self.rows)
        object.__setattr__(self, "head", head)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "note", " ".join(part for part in (self.note, told) if part))
        if not all(isinstance(i, int) and 0 <= i < len(self.head) for i in self.text):
            raise RequestError(f"text={quoted(self.text)} names columns that a table of {len(self.head)} has not")


@dataclass(frozen=True)
class Figure:
    """A plotly figure with a caption that says what is seen."""

    figure: "go.Figure"
    caption: str

    def __post_init__(self) -> None:
        if not hasattr(self.figure, "to_plotly_json"):
            raise RequestError(f"{type(self.figure).__name__} is not a plotly figure")


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it: paragraphs (plain text), tables and figures in order."""

    title: str
    parts: Sequence[str | Table | Figure]


@dataclass(frozen=True)
class Page:
    """A report, in the order of its fields; whoever reads the first screen knows the result and how sure it is.

    - `asked`: the question. `said`: what the source claims, empty where there is none. `answer`: one to three
      sentences with numbers and intervals. `sure`: what the intervals and n are over, and what the numbers are
      compared with.
    - `lead`: the picture to see first.
    - `compared`: our numbers, beside the source's where it has some. `sections`: all else. `settings`: what was run.
    - `command` rebuilds the page from files of these `digests` (name, digest).
    """

    title: str
    asked: str
    said: Sequence[str]
    answer: Sequence[str]
    sure: str
    lead: Figure
    compared: Sequence[str | Table | Figure]
    sections: Sequence[Section]
    settings: Sequence[str | Table | Figure]
    command: str
    digests: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        for name in ("said", "answer"):
            given = getattr(self, name)
            if not isinstance(given, (list, tuple)) or not all(isinstance(x, str) and x.strip() for x in given):
                raise RequestError(f"{name}={quoted(given)} is not a list of sentences")
        if not 1 <= len(self.answer) <= MOST_SENTENCES:
            raise RequestError(f"a report answers in 1 to {MOST_SENTENCES} sentences, not {len(self.answer)}")
        for name in ("title", "asked", "sure", "command", "digests"):
            given = getattr(self, name)
            if not (given.strip() if isinstance(given, str) else given):
                raise RequestError(f"a report without {quoted(name)}: {quoted(self.title)}")
        if not isinstance(self.lead, Figure):
            raise RequestError(f"lead={quoted(self.lead)} is no Figure of a report")
        for section in self.all_sections:
            for part in section.parts:
                if not isinstance(part, (str, Table, Figure)):
                    raise RequestError(
                        f"{type(part).__name__} in {quoted(section.title)} is not a text, Table or Figure"
                    )
        for name in ("compared", "settings"):
            if not any(isinstance(part, Table) for part in getattr(self, name)):
                raise RequestError(f"{quoted(name)} of {quoted(self.title)} holds no table")
        twice = first_duplicate(_anchor(section.title) for section in self.all_sections)
        if twice is not None:
            raise RequestError(f"two sections of {quoted(self.title)} have the anchor {quoted(twice)}")

    @property
    def all_sections(self) -> list[Section]:
        """What the list of contents shows."""
        return [
            Section("Paper and ours" if self.said else "Measured", self.compared),
            *self.sections,
            Section("Settings", self.settings),
        ]


def command_of(study: str, full: bool, out: Path, options: Mapping[str, Any] | None = None) -> str:
    """The command that rebuilds a report; `options` by name, None where one was not given."""
    more: list[str] = []
    for name, value in (options or {}).items():
        if value is not None:  # argparse takes what begins with a dash for an option
            more += [f"--{name}={value}"] if str(value).startswith("-") else [f"--{name}", str(value)]
    return shlex.join(["interp", "report", study, "--full" if full else "--quick", "--out", str(out), *more])


def write_study(results: Mapping[str, Any], page: Page, folder: Path, asked: Mapping[str, Any] | None = None) -> Path:
    """Write results.json (numbers that are not finite as null), the page, and the list of reports around it, if any.

    `asked`: study, size and options, which stand with the version at the head of results.json.
    """
    header = {} if asked is None else {OF: header_of_command("report", **asked)}
    text = json.dumps(to_json({**header, **results}), indent=1, sort_keys=True, allow_nan=False)
    write_text(folder / "results.json", _compact(text) + "\n")
    path = write_page(page, folder)
    write_index(folder.resolve().parent)
    return path


def _compact(text: str) -> str:
    """JSON with the innermost lists and objects on one line each."""
    return re.sub(r"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]", lambda found: re.sub(r"\n\s*", " ", found[0]), text)


def write_page(page: Page, folder: Path) -> Path:
    """Write `folder`/index.html and the plotly script it shares. The same page gives the same bytes."""
    write_plotly_script(folder)
    path = folder / "index.html"
    write_text(path, render(page))
    return path


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped."""
    listed = [(_anchor(s.title), s.title) for s in page.all_sections] + [(REBUILD, "Rebuild this page")]
    contents = "\n".join(f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for anchor, title in listed)
    sections = "\n".join(_section(section) for section in page.all_sections)
    said = f"<dt>The source says</dt>\n<dd>{_list(page.said)}</dd>\n" if page.said else ""
    footer = "\n".join(f"<p>{html.escape(name)}: {html.escape(digest)}</p>" for name, digest in page.digests)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(page.title)}</title>
{marks(page.asked, list(page.answer), page.command)}
<script src="{SCRIPT}"></script>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{typeset(page.title)}</h1>
<p class="asked">{typeset(page.asked)}</p>
<dl class="brief">
{said}<dt>We measured</dt>
<dd class="answer">{_list(page.answer)}</dd>
<dt>How sure</dt>
<dd><p>{typeset(page.sure)}</p></dd>
</dl>
</header>
<nav aria-label="Contents"><ol>
{contents}
</ol></nav>
{_figure(page.lead, "lead--figure")}
{sections}
<footer>
<h2 id="{REBUILD}">Rebuild this page</h2>
<pre>{html.escape(page.command)}</pre>
<p>Digests of the checkpoints and inputs it was made from:</p>
{footer}
</footer>
</main>
</body>
</html>
"""


def _list(sentences: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{typeset(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def _section(section: Section) -> str:
    anchor = _anchor(section.title)
    parts = []
    for i, part in enumerate(section.parts):
        if isinstance(part, str):
            parts.append(f"<p>{typeset(part)}</p>")
        elif isinstance(part, Table):
            parts.append(_table(part))
        else:
            parts.append(_figure(part, f"{anchor}--{i}"))
    return f'<section id="{anchor}">\n<h2>{typeset(section.title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def _figure(figure: Figure, name: str) -> str:
    drawn = figure_html(figure.figure, name)
    width, height = (figure.figure.layout[size] or 0 for size in ("width", "height"))
    zoom = min(most / (size or 1) for most, size in zip(PAPER, (width, height), strict=True))
    shrunk = f' style="--printed: {number(zoom, 2)}"' if zoom < PRINTED else ""  # or it would run over two pages
    return f"<figure{shrunk}>{drawn}<figcaption>{typeset(figure.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    cells = [[str(cell) for cell in row] for row in table.rows]
    texts = [i in table.text or _is_text([row[i] for row in cells]) for i in range(len(table.head))]
    widths = [_width([row[i] for row in cells]) for i in range(len(table.head))]
    kinds = [f"text {width}".strip() if text else "" for text, width in zip(texts, widths, strict=True)]
    head = "".join(f"<th{_class(kind)}>{typeset(cell)}</th>" for cell, kind in zip(table.head, kinds, strict=True))
    rows = "\n".join(
        f'<tr><th scope="row"{_class(widths[0])}>{_broken(row[0])}</th>'
        + "".join(_cell(cell, kind) for cell, kind in zip(row[1:], kinds[1:], strict=True))
        + "</tr>"
        for row in cells
    )
    note = f'<p class="note">{typeset(table.note)}</p>' if table.note else ""
    return (
        f'<div class="tabled"><div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>'
        f"</table></div>{note}</div>"
    )


def _cell(cell: str, kind: str) -> str:
    verdict = f"word {cell}" if cell in VERDICTS else ""
    return f"<td{_class(kind, verdict)}>{_broken(cell)}</td>"


def _class(*kinds: str) -> str:
    told = " ".join(kind for kind in kinds if kind)
    return f' class="{told}"' if told else ""


def _width(cells: Sequence[str]) -> str:
    """What keeps the column of such names or texts from being narrow."""
    most = max(map(len, cells), default=0)
    return "long" if most > LONG else "name" if most > NAME else ""


def _broken(cell: str) -> str:
    """What stands in a second line of a cell is smaller."""
    above, _, beneath = cell.partition("\n")
    return typeset(above) + (f"<small>{typeset(beneath)}</small>" if beneath else "")


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column holds words, to be read from the left, rather than numbers."""
    said = [cell for cell in cells if cell.strip("-–— ") and cell != UNDEFINED]
    return bool(said) and sum(cell[:1].isalpha() for cell in said) > len(said) / 2


def _anchor(title: str) -> str:
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "section"
