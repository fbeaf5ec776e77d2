"""Less work of the same kind: held-out sets are small where a test asks nothing of how exactly they measure."""

from typing import Any

from interp.training import task
from interp.worlds.dyck import task as dyck


def hold_out_few(patch: Any, count: int = 40, long: int = 3) -> None:
    """`count` held-out strings in each evaluation of a training run, `long` of them long, as long as `patch` holds."""
    for module in (task, dyck):
        for name in ("EVAL_STRINGS", "FINAL_STRINGS"):
            patch.setattr(module, name, count)
    patch.setattr(dyck.long_prefixes, "__defaults__", (long,))
