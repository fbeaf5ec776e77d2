"""Which studies there are: the folders beside this file, and other people's by the entry point group. No torch."""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import case_studies
from case_studies.declaration import Declaration
from interp.errors import RequestError, quoted
from interp.names import did_you_mean
from interp.plugins import find

GROUP = "interp.studies"  # of entry points: a name, and where its Declaration is


@dataclass(frozen=True)
class Studies:
    """Studies by name, and of those that cannot be used the reason."""

    found: Mapping[str, Declaration]
    broken: Mapping[str, str]

    def __getitem__(self, name: str) -> Declaration:
        """The declaration of a study; `RequestError` for one that is not there or cannot be used."""
        if name in self.found:
            return self.found[name]
        if name in self.broken:
            raise RequestError(f"the study {quoted(name)} cannot be used: {self.broken[name]}")
        raise RequestError(
            f"no study {quoted(name)}{did_you_mean(name, self.found)}; studies are {', '.join(self.found)}"
        )

    def reading(self) -> dict[str, list[Declaration]]:
        """Of every option that a study reads for itself, by keyword: the studies that do."""
        readers: dict[str, list[Declaration]] = {}
        for declared in self.found.values():
            for option in declared.options:
                readers.setdefault(option.dest, []).append(declared)
        return readers


def find_studies() -> Studies:
    """Every study, those of this package first. What is broken is named, with its package, and stops no other."""
    return Studies(*find("study", GROUP, _ours, _wrong))


def _ours() -> Mapping[str, Callable[[], Any]]:
    folders = sorted(module.name for module in pkgutil.iter_modules(case_studies.__path__) if module.ispkg)
    return {folder.replace("_", "-"): partial(_declared_in, f"{case_studies.__name__}.{folder}") for folder in folders}


def _declared_in(module: str) -> Any:
    return import_module(module).DECLARED


def _wrong(name: str, declared: Any, others: Mapping[str, Any]) -> str:
    if not isinstance(declared, Declaration):
        return f"it names {quoted(declared)}, which is no Declaration"
    return "" if declared.name == name else f"it declares the name {quoted(declared.name)}"
