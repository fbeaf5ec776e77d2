"""`reports/index.html`: what has been run, read off the reports themselves."""

import html
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from case_studies.sheet import STYLE
from case_studies.words import typeset
from interp.files import write_text

REPORTS = "reports"  # only a folder of this name gets a list of its reports


@dataclass(frozen=True)
class Report:
    """One report: its folder's name, and its title, question, answer and command."""

    name: str
    title: str
    asked: str
    answer: tuple[str, ...]
    command: str


def marks(asked: str, answer: tuple[str, ...] | list[str], command: str) -> str:
    """What a page says of itself in its head, for `read_report`."""
    lines = [
        ("interp-asked", asked),
        *(("interp-answer", sentence) for sentence in answer),
        ("interp-command", command),
    ]
    return "\n".join(f'<meta name="{name}" content="{html.escape(text)}">' for name, text in lines)


def read_report(folder: Path) -> Report | None:
    """The report in a folder; None if there is none of ours."""
    try:
        with (folder / "index.html").open(encoding="utf-8") as file:
            head = file.read(60_000).split("</head>", 1)[0]
    except (OSError, UnicodeDecodeError):
        return None
    title = re.search(r"<title>(.*?)</title>", head, re.DOTALL)
    said: dict[str, list[str]] = {"asked": [], "answer": [], "command": []}
    for kind, text in re.findall(r'<meta name="interp-(asked|answer|command)" content="([^"]*)">', head):
        said[kind].append(html.unescape(text))
    if title is None or not said["asked"] or not said["command"]:
        return None
    return Report(folder.name, html.unescape(title[1]), said["asked"][0], tuple(said["answer"]), said["command"][0])


def write_index(folder: Path) -> Path | None:
    """List the reports below a folder called `reports`, by name; None elsewhere, where a list would be in the way."""
    if folder.name != REPORTS:
        return None
    found = [report for child in sorted(folder.iterdir()) if child.is_dir() and (report := read_report(child))]
    path = folder / "index.html"
    write_text(path, _render(found))
    return path


def _render(reports: list[Report]) -> str:
    parts = []
    for report in reports:
        answer = "\n".join(f"<li>{typeset(sentence)}</li>" for sentence in report.answer)
        link = quote(f"{report.name}/index.html")
        parts.append(
            f'<section>\n<h2><a href="{link}">{html.escape(report.title)}</a></h2>\n'
            f'<p class="asked">{typeset(report.asked)}</p>\n<ul class="answer">\n{answer}\n</ul>\n'
            f"<pre>{html.escape(report.command)}</pre>\n</section>"
        )
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reports</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Reports</h1>
<p class="asked">{len(reports)} {"study has" if len(reports) == 1 else "studies have"} been run here.</p>
{body}
</main>
</body>
</html>
"""
