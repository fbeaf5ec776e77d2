"""One template for every report: an offline page with contents, figures, tables and what rebuilds it."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from case_studies.contents import marks, write_index
from interp.files import write_text
from interp.plots.export import SCRIPT, figure_html, write_plotly_script
from probes._result import to_json

if TYPE_CHECKING:
    import plotly.graph_objects as go


VERDICTS = ("supported", "misleading", "refuted", "undecided")


@dataclass(frozen=True)
class Table:
    """Cells are plain text; the first column is a row's name. `note` stands under the table.

    `text`: columns of words, counted from 0: they stand on the left and break lines, where numbers do neither.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    text: Sequence[int] = ()


@dataclass(frozen=True)
class Figure:
    """A plotly figure with a caption that says what is seen."""

    figure: "go.Figure"
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it: paragraphs (plain text), tables and figures in order."""

    title: str
    parts: Sequence[str | Table | Figure]


@dataclass(frozen=True)
class Page:
    """A report. `asked` is the question, `answer` up to three sentences with numbers and intervals."""

    title: str
    asked: str
    answer: Sequence[str]
    sections: Sequence[Section]
    command: str
    footer: Sequence[str] = field(default=())


def command_of(study: str, full: bool, out: Path) -> str:
    """The command that rebuilds a report."""
    return f"interp report {study} {'--full' if full else '--quick'} --out {out}"


def write_study(results: Any, page: Page, folder: Path) -> Path:
    """Write results.json (numbers that are not finite as null), the page, and the list of reports around it, if any."""
    text = json.dumps(to_json(results), indent=1, sort_keys=True, allow_nan=False)
    write_text(folder / "results.json", text + "\n")
    path = write_page(page, folder)
    write_index(folder.resolve().parent)
    return path


def write_page(page: Page, folder: Path) -> Path:
    """Write `folder`/index.html and the plotly script it shares. The same page gives the same bytes."""
    write_plotly_script(folder)
    path = folder / "index.html"
    write_text(path, render(page))
    return path


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped."""
    contents = "\n".join(f'<li><a href="#{_anchor(s.title)}">{html.escape(s.title)}</a></li>' for s in page.sections)
    sections = "\n".join(_section(section) for section in page.sections)
    answer = "\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in page.answer)
    footer = "\n".join(f"<p>{html.escape(line)}</p>" for line in page.footer)
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
<h1>{html.escape(page.title)}</h1>
<p class="asked">{html.escape(page.asked)}</p>
<ul class="answer">
{answer}
</ul>
</header>
<nav aria-label="Contents"><ol>
{contents}
<li><a href="#rebuild">Rebuild this page</a></li>
</ol></nav>
{sections}
<footer>
<h2 id="rebuild">Rebuild this page</h2>
<pre>{html.escape(page.command)}</pre>
{footer}
</footer>
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    anchor = _anchor(section.title)
    parts = []
    for i, part in enumerate(section.parts):
        if isinstance(part, str):
            parts.append(f"<p>{html.escape(part)}</p>")
        elif isinstance(part, Table):
            parts.append(_table(part))
        else:
            drawn = figure_html(part.figure, f"{anchor}-{i}")
            parts.append(f"<figure>{drawn}<figcaption>{html.escape(part.caption)}</figcaption></figure>")
    return f'<section id="{anchor}">\n<h2>{html.escape(section.title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def _table(table: Table) -> str:
    texts = [i in table.text or _is_text([row[i] for row in table.rows]) for i in range(len(table.head))]
    kinds = [' class="text"' if text else "" for text in texts]
    head = "".join(f"<th{kind}>{html.escape(cell)}</th>" for cell, kind in zip(table.head, kinds, strict=True))
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(_cell(cell, text) for cell, text in zip(row[1:], texts[1:], strict=True))
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>' + note
    )


def _cell(cell: str, text: bool) -> str:
    kinds = [kind for kind, there in (("text", text), (f"word {cell}", cell in VERDICTS)) if there]
    named = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{named}>{html.escape(cell)}</td>"


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column holds words, to be read from the left, rather than numbers."""
    said = [cell for cell in cells if cell.strip("-–— ")]
    return bool(said) and sum(cell[:1].isalpha() for cell in said) > len(said) / 2


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


STYLE = """
:root { --ink: #1f2933; --muted: #5b6770; --line: #dde2e7; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
p { max-width: 75ch; }
.asked { color: var(--muted); font-size: 1.1rem; margin: 0 0 1rem; }
.answer { margin: 0; padding: 1rem 1rem 1rem 2.25rem; background: #f3f7fa;
  border-left: 4px solid var(--accent); max-width: 100ch; }
.answer li { margin: .25rem 0; }
nav ol { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: 1.25rem 0 0; list-style: none; }
a { color: var(--accent); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: right; padding: .35rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--muted); font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child { text-align: left; padding-left: 0; }
.text { text-align: left; white-space: normal; min-width: 8rem; max-width: 26rem; }
.word { font-weight: 600; }
.supported { color: #00684b; }
.misleading { color: #a84400; }
.refuted { color: #8c2f5a; }
.undecided { color: #5b6770; }
tbody th { font-weight: 500; }
.note, figcaption { color: var(--muted); font-size: .88rem; max-width: 85ch; }
figure { margin: 1.25rem 0; overflow-x: auto; }
pre { background: #f6f8fa; padding: .75rem 1rem; overflow-x: auto; font-size: .88rem; }
footer p { color: var(--muted); font-size: .85rem; overflow-wrap: anywhere; max-width: none; }
@media print { main { max-width: none; padding: 0; } nav { display: none; } figure, table { break-inside: avoid; } }
"""
