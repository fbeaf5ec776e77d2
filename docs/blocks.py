"""The code blocks of the pages: `python docs/blocks.py PAGE.md` runs them, `--write` puts in what they print.

Blocks of one page run in their order in one folder. A `python` block sees what those before it defined; a `text` block
right behind it is what it prints. A `console` block holds commands after `$ ` and what each prints. A line `...` stands
for any lines. Other blocks (`toml`, `json`, `sh`) are not run.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One block that is run: `shown` is what the page says that it prints, None where it says nothing.

    `at`: where `shown` stands in the page.
    """

    kind: str
    code: str
    shown: str | None
    at: tuple[int, int]


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are run."""
    found = list(FENCE.finditer(text))
    for i, one in enumerate(found):
        if one[1] == "python":
            behind = found[i + 1] if i + 1 < len(found) else None
            printed = behind and behind[1] == "text" and not text[one.end() : behind.start()].strip()
            yield Block("python", one[2], behind[2] if printed else None, behind.span(2) if printed else (0, 0))
        elif one[1] == "console":
            yield from _commands(one)


def _commands(fence: re.Match[str]) -> Iterator[Block]:
    """A block a command of a `console` block."""
    at, lines = fence.start(2), fence[2].splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    for first, last in zip(starts, [*starts[1:], len(lines)], strict=True):
        shown, begin = "".join(lines[first + 1 : last]), at + sum(map(len, lines[: first + 1]))
        yield Block("console", lines[first][2:].strip(), shown, (begin, begin + len(shown)))


def printed(block: Block, module: types.ModuleType, page: str, refused: bool = False) -> str:
    """What a block prints. Raises `AssertionError` for a command that fails where the page shows no error.

    `refused`: such a command is taken all the same.
    """
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        if block.kind == "python":
            exec(compile(block.code, page, "exec"), module.__dict__)
            status = 0
        else:
            from interp.cli import main

            program, *arguments = shlex.split(block.code, comments=True)
            assert program == "interp", f"{page}: {block.code}: only commands of interp are run"
            try:
                status = main(arguments)
            except SystemExit as stopped:
                status = int(stopped.code or 0)
    said = out.getvalue() or (errors.getvalue() if status else "")
    told = status == 0 or refused or (block.shown or "").startswith("interp: ")
    assert told, f"{page}: {block.code}: {errors.getvalue()}"
    return "\n".join(line.rstrip() for line in said.splitlines()) + "\n" if said.strip() else ""


def alike(shown: str, real: str) -> bool:
    """Whether `real` is what is `shown`, where a line `...` stands for any lines."""
    parts = [re.escape(part) for part in re.split(r"(?m)^\.\.\.\n?", shown.rstrip("\n") + "\n")]
    return re.fullmatch("(?:.*\n)*?".join(parts), real.rstrip("\n") + "\n") is not None


def run(path: Path, refused: bool = False) -> list[tuple[Block, str]]:
    """Every block of a page with what it prints, run in an empty folder. `refused` as for `printed`."""
    text = path.read_text(encoding="utf-8")
    module = types.ModuleType(f"page_{path.stem.replace('-', '_')}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    before, out = Path.cwd(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks(text):
                out.append((block, printed(block, module, path.name, refused)))
        finally:
            os.chdir(before)
            del sys.modules[module.__name__]
    return out


def wrong(done: list[tuple[Block, str]]) -> list[tuple[Block, str]]:
    """Those that print something else than the page says."""
    return [(block, real) for block, real in done if block.shown is not None and not alike(block.shown, real)]


def main() -> int:
    """Run pages; 1 where one shows what is not printed, unless it is written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="put what is printed into the page")
    given = parser.parse_args()
    failed = 0
    for path in given.pages:
        began = time.perf_counter()
        found = wrong(run(path.resolve(), refused=given.write))
        print(f"{path}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
        text = path.read_text(encoding="utf-8")
        for block, real in reversed(found):
            text = text[: block.at[0]] + real + text[block.at[1] :]
            print(f"{path}: {block.code.strip().splitlines()[-1]}\n{real}" if not given.write else f"{path}: written")
        if given.write and found:
            path.write_text(text, encoding="utf-8")
        failed += len(found)
    return int(bool(failed) and not given.write)


if __name__ == "__main__":
    sys.exit(main())
