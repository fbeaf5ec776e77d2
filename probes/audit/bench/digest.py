"""Which auditor was asked: the version, and a digest of the source files that decide what an audit says.

Docstrings and comments decide nothing, and are not digested; nor are pages, figures and the scan, whose findings are
no verdicts.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("interp/claims", "probes/audit", "probes/claims")  # folders, whose own .py files are read
TELLING = ("figure", "fits", "scan", "scan_figure", "scanner", "tables", "words")  # of probes/audit: they tell, or scan
LETTERS = 16  # of the digest, in hexadecimal


def auditor() -> dict[str, str]:
    """What results carry of the auditor that is here: its version and digest."""
    files = [path for folder in SOURCES for path in (ROOT / folder).glob("*.py")]
    telling = {ROOT / "probes/audit" / f"{name}.py" for name in TELLING}
    files = [path for path in files if path not in telling]
    return {"version": version("interp-sandbox"), "digest": digest_of(files)}


def digest_of(files: Iterable[Path], root: Path = ROOT) -> str:
    """A digest of names below `root` and contents, in the order of the names; ends of lines count alike everywhere."""
    by_name = {path.relative_to(root).as_posix(): path for path in files}
    sha = hashlib.sha256()
    for name in sorted(by_name):
        text = what_runs(by_name[name].read_text(encoding="utf-8"))  # which reads any end of a line as "\n"
        sha.update(f"{name}\n{len(text)}\n{text}".encode())
    return sha.hexdigest()[:LETTERS]


def what_runs(text: str) -> str:
    """A module's source without docstrings, comments and empty lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, holders) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            rows = range(first.lineno - 1, first.end_lineno or first.lineno)
            lines = ["" if at in rows else line for at, line in enumerate(lines)]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def of_which(data: Mapping[str, Any]) -> str:
    """Of which auditor a bench's result is, as pages say it: the one that is here, or an earlier one."""
    asked = data.get("auditor")
    if asked is None or asked["digest"] is None:
        return "of an earlier state of the auditor, whose digest was not recorded"
    if asked["digest"] == auditor()["digest"]:
        return "of the auditor as it stands"
    return f"of an earlier state of the auditor (version {asked['version']}, digest {asked['digest']})"
