"""`NamedHooks`: TransformerLens's hooks, with names that exist.

TransformerLens takes any name to cache and any filter to hook by: a slip of the pen gives an empty cache, or an
intervention that intervenes nowhere, and a number all the same.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformer_lens.HookedRootModule import HookedRootModule
from transformer_lens.utilities.slice import Slice

from interp.checks import one_of, true_or_false, whole_number
from interp.devices import usable_device
from interp.errors import RequestError, quoted
from interp.names import nearest_name, printable

Names = str | list[str] | tuple[str, ...] | Callable[[str], bool] | None
DIRECTIONS = ("fwd", "bwd")


class NamedHooks(HookedRootModule):
    """A `HookedRootModule` that refuses, with a `RequestError`, hooks that it does not have and filters of none."""

    def __repr__(self) -> str:
        """One line: what it is called and how large it is. `print` shows its modules, as of any in PyTorch."""
        told, cfg = getattr(self, "provenance", None) or {}, getattr(self, "cfg", None)
        parts = [str(told["name"])] if "name" in told else []
        parts += [f"seed {told['seed']}"] if "seed" in told else []
        sizes = {name: getattr(cfg, name, None) for name in ("n_layers", "n_heads", "d_model")}
        size = ", ".join(f"{name}={value}" for name, value in sizes.items() if value is not None)
        what = f"{type(self).__name__} {', '.join(parts)}".strip()
        return printable(f"<{what}: {size}>" if size else f"<{what}>")

    def __str__(self) -> str:
        return nn.Module.__repr__(self)

    def _named(self, wanted: Names, what: str = "names_filter") -> list[str]:
        """The hooks that are meant: one name, several, those that a function accepts, or all (None).

        Raises `RequestError` for a name that is none, and for a function that accepts none.
        """
        if wanted is None:
            return list(self.hook_dict)
        if callable(wanted):
            chosen = [name for name in self.hook_dict if wanted(name)]
            if not chosen:
                raise RequestError(f"{what} accepts none of this model's {len(self.hook_dict)} hooks: {self._told()}")
            return chosen
        names = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise RequestError(f"{what}={quoted(wanted)} is not a name of a hook, list of names, or function of a name")
        for name in names:
            if name not in self.hook_dict:
                near = nearest_name(name, self.hook_dict)
                hint = self._told() if near is None else f"did you mean {near!r}?"
                raise RequestError(f"{what}={quoted(name)} is not a hook of this model: {hint}")
        return list(names)

    def _told(self) -> str:
        return f"model.hook_dict lists them, {next(iter(self.hook_dict))!r} first"

    def _check_hook(self, hook: Any, dir: Any) -> None:
        if not callable(hook):
            raise RequestError(f"hook={quoted(hook)} is not a function of (activation, hook)")
        if not one_of(dir, DIRECTIONS):
            raise RequestError(f"dir={quoted(dir)} is not one of {', '.join(DIRECTIONS)}")

    def add_hook(
        self,
        name: Any,
        hook: Any,
        dir: Any = "fwd",
        is_permanent: bool = False,
        level: int | None = None,
        prepend: bool = False,
    ) -> None:
        """As in TransformerLens: a lasting hook on one hook point, or on all whose name a function accepts."""
        self._check_hook(hook, dir)
        is_permanent, prepend = true_or_false("is_permanent", is_permanent), true_or_false("prepend", prepend)
        level = None if level is None else whole_number("level", level, 0)
        for known in self._named(name, "name"):
            super().add_hook(known, hook, dir, is_permanent, level, prepend)

    def _enable_hook(self, name: Any, hook: Any, dir: Any) -> None:  # what `hooks` and `run_with_hooks` go through
        self._check_hook(hook, dir)
        for known in self._named(name, "hook name"):
            super()._enable_hook(known, hook, dir)

    def get_caching_hooks(
        self,
        names_filter: Names = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, Any] | None = None,
        pos_slice: Any = None,
    ) -> Any:
        """As in TransformerLens: (cache, forward hooks, backward hooks)."""
        incl_bwd, remove_batch_dim, device = _checked(incl_bwd, remove_batch_dim, device, cache)
        wanted = check_slice(pos_slice)
        return super().get_caching_hooks(self._filter(names_filter), incl_bwd, device, remove_batch_dim, cache, wanted)

    def add_caching_hooks(
        self,
        names_filter: Names = None,
        incl_bwd: bool = False,
        device: Any = None,
        remove_batch_dim: bool = False,
        cache: dict[str, Any] | None = None,
    ) -> Any:
        """As in TransformerLens: lasting hooks that fill the cache that is returned."""
        incl_bwd, remove_batch_dim, device = _checked(incl_bwd, remove_batch_dim, device, cache)
        return super().add_caching_hooks(self._filter(names_filter), incl_bwd, device, remove_batch_dim, cache)

    def _filter(self, wanted: Names) -> list[str] | None:
        return None if wanted is None else self._named(wanted)


def _checked(incl_bwd: Any, remove_batch_dim: Any, device: Any, cache: Any) -> tuple[bool, bool, str | None]:
    if cache is not None and not isinstance(cache, dict):
        raise RequestError(f"cache={quoted(cache)} is not a dict to put activations into")
    flags = true_or_false("incl_bwd", incl_bwd), true_or_false("remove_batch_dim", remove_batch_dim)
    return *flags, None if device is None else usable_device(device)


def check_slice(pos_slice: Any, length: int | None = None) -> Slice:
    """Which positions a cache keeps. Raises `RequestError` for what names none, or not those of `length` tokens."""
    try:
        found = Slice.unwrap(pos_slice)
        if found.mode == "array" and found.slice.dtype.kind not in "iub":
            raise TypeError  # numpy would cut numbers off
        if length is not None:
            found.apply(torch.zeros(length, device="cpu"))
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError) as error:
        among = "" if length is None else f" of {length} tokens"
        raise RequestError(
            f"pos_slice={quoted(pos_slice)} names no positions{among}: pass a whole number, a list of them, or "
            "(from, to)"
        ) from error
    return found


def hooked(module: nn.Module) -> bool:
    """Does this module carry a hook, of TransformerLens or of torch?"""
    kinds = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(kinds)


def is_hooked(model: nn.Module) -> bool:
    """Does any part of the model?"""
    return any(hooked(part) for part in model.modules())
