"""Less work of the same kind: held-out sets are small where a test asks nothing of how exactly they measure."""

import importlib
from typing import Any

from interp.training import task
from interp.worlds.dyck import task as dyck

# These copy a count when they are imported: were that to happen while it is patched, they would keep the small one.
for name in ("checking.drawn", "checking.training", "training.size", "worlds.dyck.size"):
    importlib.import_module(f"interp.{name}")


def hold_out_few(patch: Any, count: int = 40, final: int | None = None, long: int = 3) -> None:
    """Few held-out strings of every world (`final`: at the end of training), and few long ones, while `patch` holds."""
    for module in (task, dyck):
        patch.setattr(module, "EVAL_STRINGS", count)
        patch.setattr(module, "FINAL_STRINGS", final or count)
    patch.setattr(dyck.long_prefixes, "__defaults__", (long,))
