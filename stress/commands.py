"""Wrong command lines: each costs one line and a status, and nothing is written.

Every line is wrong by construction: misspelt commands, flags and names, values of another kind or out of range, files
that are missing, of another kind, damaged or not to be read, outputs that cannot be written, flags that exclude each
other or that what is asked does not read, what is required left out, text in other scripts, control characters, broken
bytes, very long and empty words. Most are run in this process, a sample as programs of their own.
"""

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from stressing import ROOT, Arguments, Report, main
from wrong_words import CONFLICTS, FLAGS, NO_INPUT, NO_PRESET, ODD, RIGHT

from interp.cli import main as command

Words = list[str]
BAR = "Loading weights"  # of transformers, which draws it where nobody looks
LIMIT = 120  # seconds for a line that is wrong


@contextlib.contextmanager
def files(folder: Path) -> Iterator[dict[str, str]]:
    """Files and folders that are nothing a command could read or write there; afterwards they can be removed."""
    work = folder / "work"
    work.mkdir()
    (work / "folder").mkdir()
    (work / "text.txt").write_text("dear diary\n" * 20)
    (work / "empty").write_bytes(b"")
    (work / "junk.safetensors").write_bytes(np.random.default_rng(0).bytes(4000))
    (work / "junk.json").write_bytes(b"\xff\xfe{]")
    (work / "list.json").write_text("[1, 2, 3]")
    (work / "object.json").write_text('{"a": [1]}')
    (work / "deep.json").write_text("[" * 100_000)
    (work / "number.json").write_text("NaN")
    (work / "claims.txt").write_text("L1H0 likes cheese\n")
    (work / "no-claims.txt").write_text("# nothing\n\n")
    os.mkfifo(work / "pipe")
    (work / "loop").symlink_to(work / "loop")
    (work / "dangling").symlink_to(work / "nowhere")
    bundled = Path(command.__code__.co_filename).parents[1] / "pretrained" / "dyck-minimal.safetensors"
    data = bundled.read_bytes()
    (work / "cut.safetensors").write_bytes(data[: len(data) // 2])
    (work / "flipped.safetensors").write_bytes(data[:-50] + bytes([data[-50] ^ 1]) + data[-49:])
    (work / "good.safetensors").write_bytes(data)
    (work / "config.json").write_text(json.dumps({"n_layers": 1}))
    with contextlib.chdir(work):
        yield {}


# -- lines -----------------------------------------------------------------------------------------------------------


def misspelt(word: str, rng: np.random.Generator) -> str:
    """Another word of about the same letters."""
    while True:
        letters = list(word)
        at = int(rng.integers(len(letters)))
        kind = rng.integers(4)
        if kind == 0:
            del letters[at]
        elif kind == 1:
            letters.insert(at, str(rng.choice(list("qxz-_ "))))
        elif kind == 2:
            letters[at] = str(rng.choice(list("qxzQ7")))
        else:
            letters.reverse()
        if (made := "".join(letters)) not in (word, "") and not word.startswith(made):  # argparse takes beginnings
            return made


def line(rng: np.random.Generator) -> tuple[str, Words]:
    """(what is wrong, the words)."""
    name = str(rng.choice(sorted(RIGHT)))
    right = list(RIGHT[name])
    kinds: list[Callable[[], tuple[str, Words]]] = [
        lambda: wrong_value(name, right, rng),
        lambda: wrong_value(name, right, rng),
        lambda: wrong_value(name, right, rng),
        lambda: wrong_word(right, rng),
        lambda: wrong_input(name, right, rng),
        lambda: left_out(right, rng),
        lambda: one_too_many(right, rng),
        lambda: ("parts that do not go together", list(CONFLICTS[int(rng.integers(len(CONFLICTS)))])),
        lambda: ("nothing but an odd word", [str(rng.choice(ODD))] * int(rng.integers(1, 3))),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def wrong_value(name: str, right: Words, rng: np.random.Generator) -> tuple[str, Words]:
    flags = FLAGS[name]
    flag = sorted(flags)[int(rng.integers(len(flags)))]
    values = flags[flag]
    value = values[int(rng.integers(len(values)))]
    if flag in right:
        right[right.index(flag) + 1] = value
    else:
        right += [flag, value]
    if value.startswith("-") and rng.integers(2):
        at = right.index(flag)
        right[at : at + 2] = [f"{flag}={value}"]
    return f"a value of {flag}", right


def wrong_word(right: Words, rng: np.random.Generator) -> tuple[str, Words]:
    """A command, analyzer, study, preset or flag misspelt."""
    named = [
        i for i, word in enumerate(right) if word.startswith("--") or (i < 2 and "/" not in word and "." not in word)
    ]
    at = int(rng.choice(named))
    right[at] = misspelt(right[at], rng)
    return "a misspelt word", right


def wrong_input(name: str, right: Words, rng: np.random.Generator) -> tuple[str, Words]:
    """What is read is no file, no checkpoint, no preset, no study."""
    if name.startswith("train"):
        right[1] = NO_PRESET[int(rng.integers(len(NO_PRESET)))]
        return "a preset", right
    if name in ("report", "wikipedia"):
        right[1] = str(rng.choice(["astrology", "", "🙂", "dyck_attention", "topics-", "x" * 3000]))
        return "a study", right
    if name in ("list", "bench"):
        return "an odd word more", [*right, odd(rng)]
    at = 2 if name.startswith("analyze") else 1
    right[at] = NO_INPUT[int(rng.integers(len(NO_INPUT)))]
    return "a checkpoint", right


def left_out(right: Words, rng: np.random.Generator) -> tuple[str, Words]:
    """A value without its flag, a flag without its value, or the end missing."""
    flags = [
        i
        for i, word in enumerate(right)
        if word.startswith("--") and i + 1 < len(right) and not right[i + 1].startswith("--")
    ]
    if not flags or rng.integers(3) == 0:
        required = {"train": 1, "analyze": 2, "heatmap": 1, "prune": 1, "report": 1, "audit": 1, "scan": 1, "list": 1}
        short = right[: min(required.get(right[0], 1), len(right))]
        return "the end left out", short if short != ["list"] else ["lis"]
    at = int(rng.choice(flags))
    del right[at + 1]
    return "a value left out", right


def odd(rng: np.random.Generator) -> str:
    """An odd word, but "--", which says that no flag follows, and is right at the end of a line."""
    word = ODD[int(rng.integers(len(ODD)))]
    return "x" if word in ("", "--") else word


def one_too_many(right: Words, rng: np.random.Generator) -> tuple[str, Words]:
    """A flag of another command, or a word more. (Of a flag that is given twice the last counts, as everywhere.)"""
    kind = rng.integers(2)
    if kind == 0:
        foreign = {
            "train": "--claim",
            "analyze": "--steps",
            "heatmap": "--seeds",
            "audit": "--layer",
            "scan": "--claim",
            "prune": "--text",
            "report": "--claim",
            "list": "--seed",
        }
        return "a flag of another command", [*right, foreign[right[0]], "1"]
    return "a word too many", [
        *right,
        *([odd(rng)] if right[0] != "audit" else ["x", "y"]),
    ]


# -- the test ----------------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report, rng = Report(), np.random.default_rng(arguments.seed)
    count, programs = arguments.size(640, 100), arguments.size(30, 3)
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name, files(Path(name)):
        seen: set[tuple[str, ...]] = set()
        while len(seen) < count:
            what, words = line(rng)
            if tuple(words) in seen or any("\x00" in word for word in words):
                continue
            seen.add(tuple(words))
            before = listing()
            status, out, err = in_process(words)
            judge(report, what, words, status, out, err, before)
            if len(seen) % (count // programs) == 0 and max(map(len, words), default=0) < 100_000:
                as_program(report, what, words)
    c = report.counts
    report.said = (
        f"{count} wrong command lines: {c['status 2']} ended with status 2, {c['status 1']} with 1, {c['status 0']} "
        f"were accepted, {c['written']} wrote something; {c['programs']} of them also as programs of their own"
    )
    return report


def listing() -> dict[str, tuple[int, int]]:
    found = {}
    for where, folders, names in os.walk("."):
        for name in [*folders, *names]:
            about = os.lstat(os.path.join(where, name))
            found[os.path.join(where, name)] = (about.st_size, about.st_mtime_ns) if name in names else (0, 0)
    return found


class Slow(BaseException):
    """A wrong line must be found so in time."""


def in_process(words: Words) -> tuple[Any, str, str]:
    def late(*_: object) -> None:
        raise Slow

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    status: Any
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command(words)
    except Slow:
        status = f"nothing within {LIMIT} s"
    except BaseException as error:
        status = f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return status, out.getvalue(), err.getvalue()


def judge(report: Report, what: str, words: Words, status: Any, out: str, err: str, before: dict[str, Any]) -> None:
    c = report.counts
    said = f"{what}: interp {shlex.join(words)[:200]!r}"
    c[f"status {status}" if status in (0, 1, 2) else "no status"] += 1
    if status not in (1, 2):
        report.wrong(f"{said}: status {status}, says {(err or out)[-200:]!r}")
    elif status == 1:
        report.wrong(f"{said}: status 1, the work failed: {err[-300:]}")
    err = "".join(part for part in err.splitlines(keepends=True) if not part.startswith(BAR) and part != "\r")
    lines = err.splitlines()
    if status in (1, 2):
        if len(lines) != 1 or not lines[0].startswith("interp: ") or len(lines[0]) > 1100:
            report.wrong(f"{said}: {len(lines)} lines, not one of ours: {err[:300]!r}")
        if any(ch < " " or "\x7f" <= ch < "\xa0" for ch in err.rstrip("\n")):
            report.wrong(f"{said}: control characters reach the terminal: {err[:200]!r}")
        if "Traceback" in err or "INTERP_DEBUG" in err:
            report.wrong(f"{said}: an exception leaves: {err[:300]}")
    after = listing()
    if after != before:
        c["written"] += 1
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        report.wrong(f"{said}: wrote {changed[:3]}")
        for name in sorted(set(after) - set(before), reverse=True):
            os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.remove(name)


def as_program(report: Report, what: str, words: Words) -> None:
    before = listing()
    done = subprocess.run(
        [sys.executable, "-m", "interp", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=4 * LIMIT,
    )
    report.counts["programs"] += 1
    kept = dict(report.counts)
    judge(report, f"as a program, {what}", words, done.returncode, done.stdout.decode(errors="replace"),
          done.stderr.decode(errors="replace"), before)  # fmt: skip
    for key in ("status 0", "status 1", "status 2", "no status"):
        report.counts[key] = kept.get(key, 0)


if __name__ == "__main__":
    main("commands", __doc__, run)
