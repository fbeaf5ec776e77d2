"""Where a text or a page of HTML shows an interval without its n."""

import html
import re

INTERVAL = re.compile(r"\[-?\d[\d.e+-]*, -?\d[\d.e+-]*\]")
# "n=40 seeds", "12 of 160 [0.04, 0.13]"
SIZE = re.compile(r"n=\d+|\b\d+ of \d+ \[")
TAG = re.compile(r"<[^>]*>")


def unnamed(*parts: str) -> list[str]:
    """The intervals in what is read together (a table and its note, say), if nothing there says an n."""
    whole = " ".join(parts)
    return [] if SIZE.search(whole) else INTERVAL.findall(whole)


def unnamed_of_table(head: list[str], rows: list[list[str]], note: str) -> list[str]:
    """Cells with an interval whose n stands neither in them, nor at the name of their row or column, nor below."""
    return [cell for row in rows for at, cell in enumerate(row) if unnamed(cell, row[0], head[at], note)]


def unnamed_of_page(page: str) -> list[str]:
    """The same of a whole report: its tables, paragraphs, list items, captions and pictures."""
    out = []
    for table, note in re.findall(r'<table>(.*?)</table></div>(?:<p class="note">(.*?)</p>)?', page, re.DOTALL):
        rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in table.split("</tr>")]
        rows = [[html.unescape(TAG.sub("", cell)) for cell in row] for row in rows if row]
        out += unnamed_of_table(rows[0], rows[1:], html.unescape(note))
    rest = re.sub(r"<table>.*?</table>", "", page, flags=re.DOTALL)
    for script in re.findall(r"<script[^>]*>(.*?)</script>", rest, re.DOTALL):
        out += unnamed(" ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', script)))
    rest = re.sub(r"<script.*?</script>", "", rest, flags=re.DOTALL)
    for tag in ("p", "li", "figcaption"):
        for text in re.findall(rf"<{tag}[ >](.*?)</{tag}>", rest, re.DOTALL):
            out += unnamed(html.unescape(TAG.sub("", text)))
    return out


def unnamed_of_figure(fig) -> list[str]:
    """Of a plotly figure: titles, notes, names of traces, and hovers."""
    title = fig.layout.title
    texts = [title.text or "", title.subtitle.text or "", *(a.text or "" for a in fig.layout.annotations)]
    texts += [trace.name or "" for trace in fig.data]
    out = unnamed(*(text.replace("<br>", " ") for text in texts))
    for trace in fig.data:
        for hover in (trace.hovertext, getattr(trace, "customdata", None)):
            for text in _flat(hover):
                out += unnamed(text)
    return out


def _flat(values) -> list[str]:
    if isinstance(values, str):
        return [values]
    if values is None or isinstance(values, (int, float)):
        return []
    return [text for value in values for text in _flat(value)]
