"""Which auditor was asked: the version, and a digest of the source files that decide what an audit says.

Docstrings, comments and layout decide nothing, and are not digested; nor are the sentences that an audit prints, nor
pages, figures and the scan, whose findings are no verdicts. Texts that claims are read with are
digested, but for what refusals say.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("interp/claims", "probes/audit", "probes/claims")  # folders, whose own .py files are read
TELLING = (
    "figure",
    "fits",
    "named",
    "scan",
    "scan_figure",
    "scanner",
    "tables",
    "whole",
    "words",
)  # of probes/audit: they tell, or scan
PRINTING = "probes/audit/"  # here a text of `SENTENCE` words or more is printed, and names nothing
SENTENCE = 3
LETTERS = 16  # of the digest, in hexadecimal
HOLDERS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef  # of docstrings


def auditor() -> dict[str, str]:
    """What results carry of the auditor that is here: its version and digest."""
    files = [path for folder in SOURCES for path in (ROOT / folder).glob("*.py")]
    telling = {ROOT / "probes/audit" / f"{name}.py" for name in TELLING}
    files = [path for path in files if path not in telling]
    return {"version": version("interp-sandbox"), "digest": digest_of(files)}


def digest_of(files: Iterable[Path], root: Path = ROOT) -> str:
    """A digest of names below `root` and of what their code does, in the order of the names."""
    by_name = {path.relative_to(root).as_posix(): path for path in files}
    sha = hashlib.sha256()
    for name in sorted(by_name):
        text = what_runs(by_name[name].read_text(encoding="utf-8"), sentences=not name.startswith(PRINTING))
        sha.update(f"{name}\n{len(text)}\n{text}".encode())
    return sha.hexdigest()[:LETTERS]


def what_runs(text: str, sentences: bool = True) -> str:
    """A module's syntax tree as text, without docstrings and what refusals say; without `sentences`, also without other
    texts that are printed.

    Layout and comments are not in the tree. Fields that are empty are left out, since versions of Python differ in
    them.
    """
    return _tree(ast.parse(text), sentences)


def _tree(node: object, sentences: bool) -> str:
    if isinstance(node, list):
        return f"[{','.join(_tree(one, sentences) for one in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if not sentences and _is_sentence(node):
        return "a sentence"
    sentences = sentences and not isinstance(node, ast.Raise)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, HOLDERS) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    told = [f"{name}={_tree(value, sentences)}" for name, value in fields.items() if value is not None and value != []]
    return f"{type(node).__name__}({','.join(told)})"


def _is_sentence(node: ast.AST) -> bool:
    """Is it a text, or an f-string, of at least `SENTENCE` words of its own?"""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return sum(bool(re.search(r"[^\W\d_]{2}", word)) for word in " ".join(texts).split()) >= SENTENCE


def of_which(data: Mapping[str, Any]) -> str:
    """Of which auditor a bench's result is, as pages say it: the one that is here, or an earlier one."""
    asked = data.get("auditor")
    if asked is None or asked["digest"] is None:
        return "of an earlier state of the auditor, whose digest was not recorded"
    if asked["digest"] == auditor()["digest"]:
        return "of the auditor as it stands"
    return f"of an earlier state of the auditor (version {asked['version']}, digest {asked['digest']})"
