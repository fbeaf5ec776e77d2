"""The oldest dependencies that pyproject.toml allows: installed into a folder of their own, the fast tests run on them.

    python stress/oldest.py [FOLDER] [-- PYTEST ARGUMENTS]

Needs uv, which picks the versions. The folder (default: oldest/) takes about 6 GB, since torch as PyPI has it brings
its CUDA libraries. Tools of the tests themselves are taken as they come.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("pytest", "pytest-xdist", "nbclient", "nbconvert", "ipykernel", "pandas", "kaleido")


def run(*words: str | Path) -> None:
    """One command, shown; ends the script where it fails."""
    print("+", *words, flush=True)
    if (status := subprocess.run(list(map(str, words)), cwd=ROOT, check=False).returncode) != 0:
        raise SystemExit(status)


def bounds() -> dict[str, str]:
    """Name and lower bound of each dependency, as pyproject.toml has them."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return dict(re.match(r"([\w-]+)>=([\d.]+)", one).groups() for one in listed)  # type: ignore[union-attr]


def installed(python: Path) -> dict[str, str]:
    """What an interpreter has installed, by name."""
    code = "from importlib.metadata import distributions as d; [print(x.name.lower(), x.version) for x in d()]"
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in told.splitlines())


def main() -> None:
    """Install, say which versions are newer than the bound (since another package asks for more), and test."""
    own, _, more = (" ".join(sys.argv[1:])).partition("-- ")
    folder = Path(own.strip() or "oldest").resolve()
    python = folder / "bin/python"
    run("uv", "venv", "--allow-existing", "--python", sys.executable, folder)
    run("uv", "pip", "install", "--python", python, "--resolution", "lowest-direct", "-e", ROOT)
    run("uv", "pip", "install", "--python", python, *TOOLS)
    there = installed(python)
    for name, least in bounds().items():
        if not f"{there[name]}.".startswith(f"{least}."):
            print(f"{name} {there[name]}: another dependency asks for more than >={least}")
    run(python, "-m", "pytest", "-m", "not slow", *more.split())


if __name__ == "__main__":
    main()
