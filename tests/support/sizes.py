"""Less work of the same kind: held-out sets are small where a test asks nothing of how exactly they measure."""

from typing import Any

from interp.training import task
from interp.worlds.dyck import task as dyck


def hold_out_few(patch: Any, count: int = 40, final: int | None = None, long: int = 3) -> None:
    """Few held-out strings of every world (`final`: at the end of training), and few long ones, while `patch` holds."""
    for module in (task, dyck):
        patch.setattr(module, "EVAL_STRINGS", count)
        patch.setattr(module, "FINAL_STRINGS", final or count)
    patch.setattr(dyck.long_prefixes, "__defaults__", (long,))
