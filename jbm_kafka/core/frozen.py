"""Values that do not change, told in their own words to who sets an attribute of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields
from typing import Never, TypeVar

from jbm_kafka.core.likely_name import with_likely_attribute, with_likely_name
from jbm_kafka.core.special_methods import put_special_methods
from jbm_kafka.core.wrong_values import shown, with_article

T = TypeVar("T")


def told_frozen(cls: type[T]) -> type[T]:
    """The frozen dataclass, which says what it is and what to do instead.

    With slots Python's own refusal of a name that is no field fails by itself, with a TypeError about super().
    """
    _refuse_changes(cls, [each.name for each in fields(cls)], "; make a new one")  # type: ignore[arg-type]
    return cls


def told_result(cls: type[T]) -> type[T]:
    """The same of what a call found: who asks for an attribute that it does not have is told the likely one, too."""
    known = [each for each in dir(cls) if not each.startswith("_")]

    def of_unknown(self: object, name: str) -> object:
        """Refuses names that there are not, and tells the likely one."""
        if name.startswith("_") or name in known:
            return object.__getattribute__(self, name)  # raises what it did: a property's own error too
        text = with_likely_attribute(
            f"{with_article(cls)} has no attribute {shown(name)}", name, known, (cls.__name__,)
        )
        raise AttributeError(text, name=name, obj=self)

    put_special_methods(cls, {"__getattr__": of_unknown})
    _refuse_changes(cls, known, ": it tells what was found")
    return cls


def _refuse_changes(cls: type, known: Sequence[str], instead: str) -> None:
    def refuse(self: object, name: str) -> Never:
        """Refuses every name: it does not change."""
        kind = with_article(type(self))
        if name in known:
            text = f"{name} of {kind} cannot be changed{instead}"
        else:
            text = with_likely_name(f"{kind} has no attribute {shown(name)}, and cannot be changed", name, known)
        raise FrozenInstanceError(text)

    def refuse_value(self: object, name: str, value: object) -> None:
        """Refuses every name: it does not change."""
        refuse(self, name)

    put_special_methods(cls, {"__setattr__": refuse_value, "__delattr__": refuse})
    _tell_states(cls)


def _tell_states(cls: type) -> None:
    """Have `help()` say what its methods for pickling are for: of those that Python makes it shows a comment."""

    def state(self: object) -> list[object]:
        """The fields, for pickling and copies."""
        return [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]

    def set_state(self: object, state: Sequence[object]) -> None:
        """Sets the fields of what was pickled."""
        for each, value in zip(fields(self), state, strict=False):  # type: ignore[arg-type]
            object.__setattr__(self, each.name, value)

    put_special_methods(cls, {"__getstate__": state, "__setstate__": set_state})
