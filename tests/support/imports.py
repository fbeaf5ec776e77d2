"""Who imports whom: read from the source, lazy imports and those for type checkers included."""

import ast
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Graph = dict[str, set[str]]


def module_name(path: Path, root: Path) -> str:
    """`probes.audit` for probes/audit/__init__.py below `root`."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def import_graph(sources: Mapping[str, str]) -> Graph:
    """Module -> the modules of `sources` that it imports anywhere; `sources` maps names of modules to their text."""
    graph: Graph = {}
    for module, text in sources.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                # `from package import module` imports the module, not its package.
                each = ((f"{node.module}.{alias.name}", node.module) for alias in node.names)
                found |= {inner if inner in sources else outer for inner, outer in each}
        graph[module] = found & sources.keys()
    return graph


def circle(graph: Graph) -> list[str]:
    """One circle of imports, its first module named again at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def past_a_face(graph: Graph, packages: Collection[str]) -> list[str]:
    """Imports of a module inside one of `packages` from outside of it: the package itself is its face.

    A package inside another has a face of its own, which may be reached from anywhere.
    """
    out = []
    for module, imported in graph.items():
        for other in sorted(imported - set(packages)):
            package = other.rpartition(".")[0]
            if package in packages and not f"{module}.".startswith(f"{package}."):
                out.append(f"{module} imports {other}")
    return sorted(out)
