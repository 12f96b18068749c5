"""Objects that refuse an attribute they do not have: a misspelt setting would be taken in silence, and do nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from jbm_kafka.core.likely_name import with_likely_name
from jbm_kafka.core.wrong_values import shown

_MADE = "_is made"
"""No attribute's name: a mark among them."""


Check = Callable[[str, object], object]
"""Told an attribute's name and a value for it, raises JMSError when it cannot have that."""


class KnownAttributes:
    """Base of what applications set attributes of. Its own `__init__` calls `_take_no_other` at its end."""

    _checks: ClassVar[Mapping[str, Check]] = {}
    """By attribute: so a value that it cannot have is told where it is set, and not where it is used."""
    _internal: ClassVar[frozenset[str]] = frozenset()
    """What modules of the package share; `dir` does not show it to applications."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal]

    def _take_no_other(self) -> None:
        """From now on only the attributes there are can be set."""
        vars(self)[_MADE] = True

    if not TYPE_CHECKING:  # A type checker would take it for "any name is an attribute".

        def __setattr__(self, name: str, value: object) -> None:
            """Sets it.

            Raises:
                AttributeError: there is none of this name; the text names the likely one.
                JMSError: it cannot have this value.
            """
            check = self._checks.get(name)
            if check is not None:
                check(name, value)
            if _MADE in vars(self) and not hasattr(self, name):
                raise AttributeError(unknown_attribute(self, name), name=name, obj=self)
            super().__setattr__(name, value)


def unknown_attribute(owner: object, name: str) -> str:
    """What is said to who names an attribute that there is not, with the likely one."""
    known = [each for each in dir(owner) if not each.startswith("_")]
    return with_likely_name(f"a {type(owner).__name__} has no attribute {shown(name)}", name, known)
