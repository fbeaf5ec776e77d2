"""Small HTML for notebooks: tables that take the notebook's own colours, light or dark."""

from collections.abc import Mapping, Sequence
from html import escape

_CELL = "padding:.15em .8em;text-align:right;border:0;background:none;color:inherit"


def facts(title: str, rows: Mapping[str, object]) -> str:
    """A title over a table of names and values."""
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL};text-align:left;font-weight:600">{escape(name)}'
        f'</th><td style="{_CELL};text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<div><strong>{escape(title)}</strong><table>{body}</table></div>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts with a head."""
    top = "".join(f'<th style="{_CELL};font-weight:600">{escape(cell)}</th>' for cell in head)
    body = "".join(
        '<tr style="background:none">' + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table><thead><tr style="background:none">{top}</tr></thead><tbody>{body}</tbody></table>'
