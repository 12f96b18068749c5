"""Methods that Python calls by itself, put into a class from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def put_special_methods(cls: type, methods: Mapping[str, Callable[..., object]]) -> None:
    """Each is the class's under its name, and `help()` shows it so.

    By their names: a type checker takes a `__getattr__` or `__setattr__` that it sees for "any name is an attribute",
    and compiled classes take no decorator.
    """
    for name, method in methods.items():
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
