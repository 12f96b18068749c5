"""The house rules as functions: each takes text and returns what is wrong with it, a line each, or nothing.

That a rule finds what it is for is tested in test_rules.py; that the tree keeps the rules, in test_tree.py.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

PROMISE_ID = r"[A-Z][A-Z0-9]*-\d+"
"""`ORDER-1`, `UNIT-12`."""

_IDS_FIRST = re.compile(rf"\s*(?P<part>Of )?(?P<ids>{PROMISE_ID}(?:(?:,| and) {PROMISE_ID})*)\b")


def sleeps(name: str, text: str) -> list[str]:
    """Sleeping in a test: it is too short on a busy machine and too long on an idle one."""
    return [
        f"{name}:{node.lineno}: sleeps; wait for the condition itself"
        for node in _nodes_if(text, "sleep")
        if (isinstance(node, ast.Attribute) and node.attr == "sleep" and _is_name(node.value, "time", "asyncio"))
        or (isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio") and _imports(node, "sleep"))
    ]


def mocks(name: str, text: str) -> list[str]:
    """Mocks agree with whatever the test believes; a fake has to pass the same contract tests as the real thing."""
    return [
        f"{name}:{node.lineno}: uses unittest.mock; write a fake that passes the contract tests"
        for node in _nodes_if(text, "mock")
        if (isinstance(node, ast.Import) and any(alias.name == "unittest.mock" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "unittest.mock")
        or (isinstance(node, ast.ImportFrom) and node.module == "unittest" and _imports(node, "mock"))
    ]


def forbidden_words(name: str, text: str, words: Mapping[str, str]) -> list[str]:
    """Words (regular expressions) that no file may hold, with the reason."""
    return [
        f"{name}:{number}: {found.group(0)!r}: {reason}"
        for number, line in enumerate(text.splitlines(), start=1)
        for word, reason in words.items()
        if (found := re.search(word, line))
    ]


def imported_modules(text: str) -> set[str]:
    """Every module a text imports, as written, with `from a import b` counting as `a` and as `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def dead_modules(modules: Iterable[str], imported: set[str], named: str) -> list[str]:
    """Modules nobody imports and no command, build file, `python -m` or path of a program names."""
    return [
        f"{module}: nobody imports it"
        for module in modules
        if module not in imported and not module.endswith("__main__")
        if module not in named and f"{module.replace('.', '/')}.py" not in named
    ]


def promised_ids(semantics: str) -> list[str]:
    """The ids of a semantics page: the first cell of its table rows."""
    return re.findall(rf"^\| *({PROMISE_ID}) *\|", semantics, flags=re.MULTILINE)


def open_ids(text: str) -> list[str]:
    """The ids of the list of open promises: one at the beginning of a line, the rest of the line is free."""
    return re.findall(rf"^({PROMISE_ID})\b", text, flags=re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """A test, by name, whose docstring begins with a promise; a mention further on proves nothing."""

    promise: str
    is_part: bool
    """It says "Of UNIT-4", so shows a part, as every docstring of a whole file does."""
    name: str
    """Of the function or class; empty for a file."""


def proofs(text: str) -> list[Proof]:
    """Those of a file of tests."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            name = "" if isinstance(node, ast.Module) else node.name
            begin = _IDS_FIRST.match(ast.get_docstring(node) or "")
            is_part = begin is not None and (begin["part"] is not None or not name)
            found += [
                Proof(promise, is_part, name) for promise in re.findall(PROMISE_ID, begin["ids"] if begin else "")
            ]
    return found


def proven_ids(text: str) -> set[str]:
    """The ids that some test of a file proves the whole of."""
    return {proof.promise for proof in proofs(text) if not proof.is_part}


def unproven(promised: Iterable[str], still_open: Iterable[str], tested: set[str]) -> list[str]:
    """Promises without a test that are not listed as open, and list entries that have one or are no promise."""
    promised, still_open = list(promised), list(still_open)
    wrong = [f"{name}: promised twice" for name in sorted({name for name in promised if promised.count(name) > 1})]
    wrong += [f"{name}: no test names it" for name in promised if name not in tested and name not in still_open]
    wrong += [f"{name}: has a test, so it is not open any more" for name in still_open if name in tested]
    wrong += [f"{name}: listed as open, but nothing promises it" for name in still_open if name not in promised]
    return wrong


def _nodes_if(text: str, word: str) -> Iterator[ast.AST]:
    """Yields those of a text that has the word; most have not, and to parse them all takes seconds."""
    if word in text:
        yield from ast.walk(ast.parse(text))


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _imports(node: ast.ImportFrom, name: str) -> bool:
    return any(alias.name == name for alias in node.names)


def repeated_basenames(names: Iterable[str]) -> dict[str, list[str]]:
    """File names that stand in more than one folder, with where; those that Python itself gives a meaning excepted."""
    by_name: dict[str, list[str]] = {}
    for name in names:
        by_name.setdefault(name.rpartition("/")[2], []).append(name)
    return {name: places for name, places in by_name.items() if len(places) > 1 and not name.startswith("__")}


def repeated_classes(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Public classes, not within others, whose name is defined in more than one module, with where."""
    by_name: dict[str, list[str]] = {}
    for module, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                by_name.setdefault(node.name, []).append(module)
    return {name: places for name, places in by_name.items() if len(places) > 1}
