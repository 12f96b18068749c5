"""Writes the pages of `jbm-kafka docs` that no file has, when asked for: public names with their docstrings.

No page has to be kept beside the code. Docstrings of fields are in the source alone, which is in a wheel too.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import indent
from types import MappingProxyType
from typing import NamedTuple

import jbm_kafka
from jbm_kafka.core.jms_errors import ErrorValue, JMSError
from jbm_kafka.core.sentinels import Unset

API_PAGES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "api": ("Public names", ("jbm_kafka", "jbm_kafka.errors", "jbm_kafka.testing.memory_world")),
        "api-admin": ("Names of the administration", ("jbm_kafka.admin",)),
        "amqp-limits": ("Limits of the AMQP server", ("jbm_kafka.configuration.server_limits",)),
    }
)
"""Each page has a title, and the names of these modules."""
_HOMES = MappingProxyType({"jbm_kafka.errors": "jbm_kafka.core.jms_errors"})
"""Classes that name the first module as theirs, from which applications import them, stand in the second."""
_WIDTH = 116


class PublicName(NamedTuple):
    """Tells of a name of a class that applications may use."""

    name: str
    shown: str
    """This says how it is called, or which type it has."""
    doc: str


def api_page(page: str) -> str:
    """Return that page as Markdown, with a section for each name."""
    title, modules = API_PAGES[page]
    parts = [f"# {title}"]
    for place in modules:
        module = import_module(place)
        parts.append(f"## {place}\n\n```text\n{inspect.getdoc(module)}\n```")
        parts += [_section(name, getattr(module, name)) for name in public_names(place)]
    return "\n\n".join(parts) + "\n"


def public_names(module: str) -> list[str]:
    """Return the names of its classes and functions for applications; of other names the module's docstring tells."""
    found = import_module(module)
    names = getattr(found, "__all__", ["MemoryWorld"])
    return [name for name in names if inspect.isclass(getattr(found, name)) or inspect.isroutine(getattr(found, name))]


def home(module: str, name: str) -> str:
    """Return the place where that name of the module is defined, as `jbm_kafka.jms.session.Session`."""
    place: str = getattr(import_module(module), name).__module__
    return f"{_HOMES.get(place, place)}.{name}"


def _section(name: str, value: type | object) -> str:
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value):
        bases = [base for base in value.__bases__ if is_public(base) or base.__module__ == "builtins"]
        also = ", ".join(base.__name__ for base in bases if base is not object)
        text = f"{making(value) or name}\n\n{text}"
        text += f"\n\nIt is also: {also}." if also else ""
        for member in members(value):
            text += f"\n\n{member.shown}\n{indent(member.doc, '    ')}".rstrip()
    elif isinstance(node := _node(value), ast.FunctionDef):
        text = f"{_call(node, value)}\n\n{text}"
    return f"### {name}\n\n```text\n{text}\n```"


def members(kind: type) -> Iterator[PublicName]:
    """Yield the public names of a class, in the order of the source; a public base tells of its own."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        is_ours = owner.__module__.startswith("jbm_kafka") and (owner is kind or not is_public(owner))
        body = list(_as_typed(_node(owner).body)) if is_ours else []
        for node, below in zip(body, [*body[1:], None], strict=False):
            member = _member(kind, node, below)
            if member is None or member.name in seen or member.name.startswith("_"):
                continue
            seen.add(member.name)
            if member.doc or not any(is_public(base) and hasattr(base, member.name) for base in kind.__bases__):
                yield member


def _as_typed(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what a class has, in `if TYPE_CHECKING:` too: there stand the types that are told to applications."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _as_typed(node.body)
        else:
            yield node


def is_public(kind: type) -> bool:
    """Return True if it has a section of its own."""
    return kind.__name__ in (*jbm_kafka.__all__, *jbm_kafka.errors.__all__)


def _member(kind: type, node: ast.stmt, below: ast.stmt | None) -> PublicName | None:
    match node:
        case ast.FunctionDef(name=name):
            marks = [ast.unparse(each) for each in node.decorator_list]
            if "property" in marks or f"{name}.setter" in marks:
                shown = f"{name}: {ast.unparse(node.returns)}" if node.returns else name
            else:
                shown = _call(node, getattr(kind, name, None))
            return None if "overload" in marks else PublicName(name, shown, ast.get_docstring(node) or "")
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            shown = f"{name}: {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else name
            if isinstance(default := _defaults(kind).get(name), int | float | str):
                shown += f" = {default!r}"
            value = inspect.getattr_static(kind, name, None)
            if isinstance(value, Enum) and value.name != name:
                return PublicName(name, shown, f"The same as {value.name}.")
            told = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else value.__doc__
            is_told = isinstance(below, ast.Expr) or isinstance(value, ErrorValue)
            return PublicName(name, shown, inspect.cleandoc(told) if is_told and told else "")
    return None


def _defaults(kind: type) -> Mapping[str, object]:
    """Return what the fields of a data class are where nobody says otherwise; other classes have none."""
    return {each.name: each.default for each in fields(kind)} if is_dataclass(kind) else {}


def making(kind: type) -> str:
    """Return how an application makes one; it is empty where calls return it or raise it; handlers raise a Retry."""
    is_given = issubclass(kind, JMSError) or "Made by" in (kind.__doc__ or "")
    for node in _node(kind).body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and not is_given:
            return _call(node, kind, kind.__name__)
    return ""


def _call(node: ast.FunctionDef, call: object, name: str = "") -> str:
    """Show it with types and defaults, folded; `*more` and `**unknown` are there for the errors."""
    known = inspect.signature(call).parameters if callable(call) else {}
    args = node.args
    shown = [_argument(each, known) for each in (*args.posonlyargs, *args.args) if each.arg not in ("self", "cls")]
    if args.vararg and args.vararg.arg != "more":
        shown.append(f"*{_argument(args.vararg, {})}")
    elif args.kwonlyargs:
        shown.append("*")
    shown += [_argument(each, known) for each in args.kwonlyargs]
    result = f" -> {ast.unparse(node.returns)}" if node.returns and not name else ""
    lines = [f"{name or node.name}("]
    for part in re.split(r"(?<=,) ", f"{', '.join(shown)}){result}"):
        if len(lines[-1] + part) < _WIDTH:
            lines[-1] += part if lines[-1].endswith("(") else f" {part}"
        else:
            lines.append(f"        {part}")
    return "\n".join(lines)


def _argument(argument: ast.arg, known: Mapping[str, inspect.Parameter]) -> str:
    text = f"{argument.arg}: {ast.unparse(argument.annotation)}" if argument.annotation else argument.arg
    default = known[argument.arg].default if argument.arg in known else inspect.Parameter.empty
    if default is inspect.Parameter.empty:
        return text
    if isinstance(default, Unset) or default is ...:  # the latter of a compiled call
        return f"{text.replace(' | Unset', '')} = …"
    return f"{text} = {f'{type(default).__name__}.{default.name}' if isinstance(default, Enum) else repr(default)}"


@cache
def _tree(module: str) -> Mapping[str, ast.ClassDef | ast.FunctionDef]:
    path = Path(jbm_kafka.__file__).parent.joinpath(*_HOMES.get(module, module).split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(source.read_text(encoding="utf-8")).body
    return {node.name: node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def _node(value: type | object) -> ast.ClassDef | ast.FunctionDef:
    return _tree(value.__module__)[getattr(value, "__name__", "")]
