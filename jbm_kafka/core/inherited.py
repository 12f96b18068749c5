"""For `help()`: a class whose bases are ours alone shows what they give it as its own, in one list."""

from typing import TypeVar

T = TypeVar("T")


def with_inherited(cls: type[T]) -> type[T]:
    """The class, with the public names of its bases as its own."""
    for base in cls.__mro__[1:-1]:
        for name, member in vars(base).items():
            if not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, member)
    return cls
