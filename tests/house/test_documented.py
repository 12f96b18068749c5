"""Every public name says what it is: what `help()` shows of it is its only documentation in an editor."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import jbm_kafka

PUBLIC = ("jbm_kafka", "jbm_kafka.admin", "jbm_kafka.errors", "jbm_kafka.local")
WRITTEN_IN = {"jbm_kafka.errors": "jbm_kafka.core.jms_errors"}
"""Modules whose classes say that they are of them, and stand elsewhere."""


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_documented(module: str) -> None:
    """Classes and functions by docstrings; attributes by the string behind them, or in that of their class."""
    assert list(_undocumented(module)) == []


def _undocumented(module: str) -> Iterator[str]:
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        found = getattr(loaded, name)
        if inspect.isclass(found):
            yield from (f"{name}.{each}" for each in _members(found))
        if inspect.isroutine(found) or inspect.isclass(found):
            yield from [] if inspect.getdoc(found) else [name]


def _members(of: type) -> Iterator[str]:
    for base in of.__mro__:
        if base.__module__.startswith("jbm_kafka"):
            written = _as_written(base)
            for this, following in zip(written.body, [*written.body[1:], None], strict=True):
                yield from _of(base, this, following)


def _as_written(owner: type) -> ast.ClassDef:
    """From its file: of a compiled class `inspect` finds no source."""
    module = WRITTEN_IN.get(owner.__module__, owner.__module__)
    path = Path(jbm_kafka.__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    (found,) = (each for each in ast.walk(ast.parse(path.read_text())) if _is_class(each, owner.__name__))
    assert isinstance(found, ast.ClassDef)
    return found


def _is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name


def _of(base: type, this: ast.stmt, following: ast.stmt | None) -> Iterator[str]:
    if isinstance(this, ast.AnnAssign) and isinstance(this.target, ast.Name):
        name = this.target.id
        is_told = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not name.startswith("_") and not is_told and name not in (base.__doc__ or ""):
            yield name
    elif isinstance(this, ast.FunctionDef) and not this.name.startswith("_"):
        yield from [] if inspect.getdoc(getattr(base, this.name)) else [this.name]
