"""For `help()`: the text of a class tells what its fields, properties or members are, by the strings in the source.

Python drops these strings, editors show them; written into the docstring as well they would have to be kept twice.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from itertools import pairwise
from textwrap import TextWrapper
from typing import Self, TypeVar

T = TypeVar("T")
_PROMISE = re.compile(r"\s\([A-Z]+-\d+(, [A-Z]+-\d+)*\)")
"""An id of docs/semantics.md: for who works on the source."""
_WRAPPER = TextWrapper(108, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False)


def with_member_texts(cls: type[T]) -> type[T]:
    """The dataclass or enum, whose text has those of its properties and fields, or members; each member of an enum has
    its own too."""
    # By its name: a type checker knows `__doc__` as a str.
    setattr(cls, "__doc__", _Text(cls, inspect.cleandoc(cls.__doc__ or "")))  # noqa: B010
    return cls


class _Text(str):
    """Stands for the `__doc__` of a class. It reads the source when it is asked: to import must not cost that.

    A str, for `help()` takes what stands in an enum as it is, asks it for nothing, and passes over what is no str; the
    members' texts it finds with the members.
    """

    _class: type

    def __new__(cls, of: type, own: str) -> Self:
        made = super().__new__(cls, own)
        made._class = of
        return made

    def __get__(self, value: object, owner: type) -> str:
        if isinstance(value, Enum) and value.name in self._texts:
            return self._texts[value.name]
        rows = [_WRAPPER.fill(f"{name}: {text}") for name, text in self._texts.items()]
        own = str(self)
        if not rows:
            return own
        return "\n".join([own, "", "Members:" if issubclass(owner, Enum) else "Attributes:", *rows])

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        """By name; none where the source is not there."""
        try:
            (written,) = ast.parse(inspect.getsource(self._class)).body
        except (OSError, TypeError):
            return {}
        assert isinstance(written, ast.ClassDef), written
        # What is made of the fields is mostly what a reader looks for, such as the sum of what each partition holds.
        told = [*_told_of_properties(written), *_told(written)]
        return {name: _PROMISE.sub("", inspect.cleandoc(text)) for name, text in told}


def _told_of_properties(written: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The first paragraph of each: `help()` has the whole text further down."""
    for this in written.body:
        if isinstance(this, ast.FunctionDef) and any(ast.unparse(each) == "property" for each in this.decorator_list):
            text = ast.get_docstring(this)
            if text is not None:
                yield this.name, text.partition("\n\n")[0]


def _told(written: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for this, behind in pairwise(written.body):
        target = (
            this.target
            if isinstance(this, ast.AnnAssign)
            else this.targets[0]
            if isinstance(this, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            yield target.id, str(behind.value.value)
