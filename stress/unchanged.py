"""Does the working tree give what another commit gave, on this machine, byte for byte?

    .venv/bin/python stress/unchanged.py COMMIT [--only NAME ...] [--keep FOLDER] [--before]

Runs each item once in a clean checkout of the commit and once in the working tree, with one thread, and compares what
they wrote: the bundled models, the weights of two trained seeds of four presets, the numbers of every study's quick
form, the verdicts of the audit's bench. Bits depend on the processor, so nothing is compared across machines. What the
commit gave is kept in the folder (default: outside the tree, by commit), so that it is computed once.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
STUDIES = (
    "dyck-copying",
    "dyck-balance",
    "lottery-ticket",
    "head-claims",
    "topics-wikipedia",
    "dyck-attention",
    "topics",
)
PRESETS = ("dyck-minimal", "dyck-standard", "dyck-copy", "topic-joint")
BUNDLED = """
import hashlib, json, sys
from interp import list_pretrained, load_checkpoint
out = {}
for name in list_pretrained():
    state = load_checkpoint(name)
    state = state.params if hasattr(state, "params") else state.state_dict()
    out[name] = {k: hashlib.sha256(v.contiguous().numpy().tobytes()).hexdigest() for k, v in sorted(state.items())}
open(sys.argv[1], "w").write(json.dumps(out, indent=1, sort_keys=True))
"""


def items() -> dict[str, list[str]]:
    """Arguments of Python, by name; `{out}` stands for the folder to write to."""
    told = {"bundled": ["-c", BUNDLED, "{out}/bundled.json"]}
    for preset in PRESETS:
        told[f"train {preset}"] = f"-m interp train {preset} --seeds 2 --workers 1 --out {{out}}/p.safetensors".split()
    for study in STUDIES:
        workers = "" if study == "topics-wikipedia" else " --workers 1"  # it trains no population
        told[f"report {study}"] = f"-m interp report {study} --quick{workers} --out {{out}}/{study}".split()
    told["bench"] = [
        "-m",
        "interp",
        "audit",
        "--bench",
        "--per-family",
        "4",
        "--seed",
        "0",
        "--json",
        "{out}/bench.json",
    ]
    return told


def digests(name: str, words: list[str], tree: Path) -> dict[str, str]:
    """Run one item in a tree; sha256 of each file of numbers it wrote."""
    # Always the same place, since a page prints the command that made it.
    out = Path(tempfile.gettempdir()) / "interp-unchanged" / name.replace(" ", "-")
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _digests(out, words, tree)


def _digests(out: Path, words: list[str], tree: Path) -> dict[str, str]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    said = subprocess.run(
        [sys.executable, *(word.replace("{out}", str(out)) for word in words)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if said.returncode != 0:
        return {"failed": (said.stderr or said.stdout).strip()[-300:]}
    found = {}
    for path in sorted(p for p in out.rglob("*") if p.suffix in (".json", ".safetensors", ".html", ".csv")):
        # Kept audits are called by a digest of the auditor's source, which is moved, too.
        content = hashlib.sha256(_numbers(path)).hexdigest()
        told = re.sub(r"[0-9a-f]{10,}", "#", str(path.relative_to(out)))
        found[told if told == str(path.relative_to(out)) else f"{told} {content[:8]}"] = content
    shutil.rmtree(out)
    return found


def _numbers(path: Path) -> bytes:
    """What a file says: its bytes; of weights their bytes and the history, without measures that did not exist then."""
    data = path.read_bytes()
    if path.suffix != ".safetensors":
        return data
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    told = [json.loads(text) for text in header.pop("__metadata__", {}).values()]
    rows = [row for one in told for row in one.get("history", ())]
    kept = [{key: value for key, value in row.items() if not key.startswith("rung/")} for row in rows]
    return json.dumps([header, kept], sort_keys=True).encode() + data[begin:]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="items whose name holds one of these")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "interp-unchanged-kept")
    parser.add_argument("--before", action="store_true", help="only keep what the commit gave; compare nothing")
    given = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", given.commit], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    given.keep.mkdir(parents=True, exist_ok=True)
    file = given.keep / f"{commit}.json"
    before = json.loads(file.read_text()) if file.is_file() else {}
    changed = 0
    for name, words in items().items():
        if given.only and not any(part in name for part in given.only):
            continue
        begun = time.monotonic()
        if name not in before:
            tree = given.keep / commit
            if not tree.is_dir():
                subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True)
            before[name] = digests(name, words, tree)
            before = (json.loads(file.read_text()) if file.is_file() else {}) | before
            file.write_text(json.dumps(before, indent=1, sort_keys=True))
        if given.before:
            print(f"{name}: kept ({len(before[name])} files, {time.monotonic() - begun:.0f} s)", flush=True)
            continue
        now = digests(name, words, ROOT)
        differing = sorted(key for key in {*before[name], *now} if before[name].get(key) != now.get(key))
        changed += bool(differing) or "failed" in now
        told = f"DIFFERS: {', '.join(differing)}" if differing else "FAILED" if "failed" in now else "the same"
        print(f"{name}: {told} ({len(now)} files, {time.monotonic() - begun:.0f} s)", flush=True)
        if "failed" in now:
            print(f"  {now['failed']}")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
