"""What `make docs` does beside mkdocs: files of the repository that pages link to, and formulas without scripts.

Pages are written so that their links work in the repository. On the site, a link to a Markdown file outside docs/ leads
to that file as a page, one to Python to a page with its source (at the function that the link names), one to another
file to a copy. Formulas in LaTeX become MathML, which browsers draw by themselves.
"""

import ast
import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = "docs"
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # of the navigation; others become pages when linked
LINK = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCED = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.M | re.S)
COPY = "repository"  # the folder of the site that holds what is not in docs/


def outside_code(text: str) -> list[tuple[bool, str]]:
    """(whether it is outside of fences, part) of a Markdown text, in order."""
    out, at = [], 0
    for match in FENCED.finditer(text):
        out += [(True, text[at : match.start()]), (False, match[0])]
        at = match.end()
    return [*out, (True, text[at:])]


def home(source: str) -> str:
    """The path in the repository of a page of the site."""
    return source.removeprefix(f"{COPY}/") if source.startswith(f"{COPY}/") else f"{DOCS}/{source}"


def target(page: str, link: str) -> tuple[str, str] | None:
    """(path in the repository, fragment) of a relative link of a file of the repository; None for others."""
    path, _, fragment = link.partition("#")
    if not path or re.match(r"[a-z]+:", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)), fragment


def lexer(path: str) -> str | None:
    """In which language a file is shown as a page; None for what is a page already, or is copied as it is."""
    return {".py": "python", ".cff": "yaml", "": "text"}.get(posixpath.splitext(path)[1])


def place(path: str) -> str:
    """Where on the site a file of the repository stands, as a source of mkdocs."""
    if path.startswith(f"{DOCS}/") and not path.endswith((".py", ".json", ".toml")):
        return path.removeprefix(f"{DOCS}/")
    if (ROOT / path).is_dir():
        return f"{COPY}/{path}/files.md"
    return f"{COPY}/{path}.md" if lexer(path) else f"{COPY}/{path}"


def links(page: str, text: str) -> list[tuple[str, str]]:
    """All that a Markdown text of the repository links to beside it."""
    parts = (part for prose, part in outside_code(text) if prose)
    found = (target(page, match[3]) for part in parts for match in LINK.finditer(part))
    return [one for one in found if one]


def content(path: str) -> str | bytes:
    """A file of the repository as the site has it."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(p.relative_to(file).as_posix() for p in file.rglob("*") if p.is_file())
        kept = [name for name in names if "__pycache__" not in name and ".egg-info" not in name]
        return f"# {path}\n\n" + "\n".join(f"- [{name}]({name})" for name in kept)
    if lexer(path):
        lines = f'```{lexer(path)} linenums="1"\n{file.read_text(encoding="utf-8")}\n```'
        return f"---\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n# {path}\n\n{lines}\n"
    if path.endswith(".md"):
        return f"---\nsearch:\n  boost: 0.3\n---\n{file.read_text(encoding='utf-8')}"  # behind the pages of docs/
    return file.read_bytes()


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to, and what that links to."""
    waiting = [*PAGES]
    for file in files.documentation_pages():
        waiting += [path for path, _ in links(home(file.src_uri), file.content_string)]
    while waiting:
        path = waiting.pop()
        source = place(path)
        if files.get_file_from_path(source) or not (ROOT / path).exists() or path.startswith(".."):
            continue  # mkdocs says what is not there
        made = content(path)
        files.append(File.generated(config, source, content=made))
        if isinstance(made, str):
            waiting += [one for one, _ in links(path if not (ROOT / path).is_dir() else f"{path}/files.md", made)]
    return files


def line_of(path: str, name: str) -> int:
    """Where a function, class or constant is defined. `name` may be dotted, of which the last part counts."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    last = name.rsplit(".", 1)[-1]
    for node in ast.walk(tree):
        names = [getattr(node, "name", None)]
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            aims = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for aim in aims for name in ast.walk(aim) if isinstance(name, ast.Name)]
        if last in names:
            return int(node.lineno)
    raise PluginError(f"{path} defines no {last}")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository become links to their places on the site."""
    source = page.file.src_uri
    here = home(source)

    def relinked(match: re.Match[str]) -> str:
        found = target(here, match[3])
        if not found:
            return match[0]
        path, fragment = found
        to = posixpath.relpath(place(path), posixpath.dirname(source) or ".")
        if path.endswith(".py") and fragment:  # a definition: page.py#name
            line = line_of(path, fragment)
            return f"[{match[2]}, line {line}]({to}){{ data-line={line} }}"
        return f"{match[1]}[{match[2]}]({to}{'#' + fragment if fragment else ''})"

    return "".join(LINK.sub(relinked, part) if prose else part for prose, part in outside_code(markdown))


def on_page_content(html_text: str, **_: Any) -> str:
    """LaTeX, as arithmatex leaves it, becomes MathML; links to a line of source get its anchor (mkdocs sees none).

    In the code of a table's cell a bar loses its backslash.
    """

    def drawn(match: re.Match[str]) -> str:
        block = match[1] == "div"
        formula = html.unescape(match[2]).strip()
        formula = formula.removeprefix("\\[" if block else "\\(").removesuffix("\\]" if block else "\\)")
        return convert(formula.strip(), display="block" if block else "inline")

    html_text = re.sub(r'href="([^"#]*)"([^>]*) data-line="(\d+)"', r'href="\1#__codelineno-0-\3"\2', html_text)
    html_text = re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html_text, flags=re.S)
    return re.sub(r'<(div|span) class="arithmatex">(.*?)</\1>', drawn, html_text, flags=re.S)
