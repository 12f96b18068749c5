"""Which modules and folders import each other in circles, what is imported for types or within a function counted.

Whoever is in a circle can be read, tested and replaced only with all the others in it.
"""

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence

Graph = Mapping[str, Collection[str]]
"""Who imports whom."""


def module_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Modules by dotted name with their source text -> whom of them each imports. A package is its `__init__`."""
    return {module: _imports(module, text, texts.keys()) for module, text in texts.items()}


def folder_graph(modules: Graph, root: str) -> dict[str, set[str]]:
    """The same between folders; a module that stands directly in `root` is a folder of its own."""
    packages = {module.rpartition(".")[0] for module in modules}

    def folder(module: str) -> str:
        above = module if module in packages else module.rpartition(".")[0]
        return module if above == root else above

    graph: dict[str, set[str]] = {}
    for module, imported in modules.items():
        arrows = graph.setdefault(folder(module), set())
        arrows |= {folder(other) for other in imported} - {folder(module)}
    return graph


def circles(graph: Graph) -> list[frozenset[str]]:
    """The sets of two and more in which everybody reaches everybody: strongly connected components, in stable order."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:  # Tarjan's
        order[node] = low[node] = len(order)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in order:
                visit(other)
            if other in path:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            begin = path.index(node)
            found.append(frozenset(path[begin:]))
            del path[begin:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted((circle for circle in found if len(circle) > 1), key=sorted)


def complaints(kind: str, found: Iterable[frozenset[str]], known: Sequence[frozenset[str]]) -> list[str]:
    """What is in a circle that the list does not allow, and what the list names though it is in none any more."""
    found = list(found)
    wrong = [
        f"circle of {kind}: {', '.join(sorted(circle))}; break it: who is held takes values, and never its holder"
        for circle in found
        if not any(circle <= allowed for allowed in known)
    ]
    gone = frozenset().union(*known) - frozenset().union(*found)
    return wrong + [f"{name}: in no circle of {kind} any more; take it off the list" for name in sorted(gone)]


def _imports(module: str, text: str, modules: Collection[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in modules else node.module for name in names)
    return (found & set(modules)) - {module}
