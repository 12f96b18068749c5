"""Objects that refuse an attribute they do not have: a misspelt setting would be taken in silence, and do nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Never, TypeVar

from jbm_kafka.core.jms_errors import IllegalStateError, InvalidTypeError
from jbm_kafka.core.likely_name import argument_meant, with_likely_attribute, with_likely_name
from jbm_kafka.core.special_methods import put_special_methods
from jbm_kafka.core.wrong_values import shown, with_article

_MADE = "_is_made"
"""A mark among the attributes of an object."""

Check = Callable[[str, object], object]
"""Told an attribute's name and a value for it, raises JMSError when it cannot have that; gives the value as it is to be
kept, or None for as it is."""
T = TypeVar("T")
_GIVEN: Mapping[str, str] = MappingProxyType(
    {"client_id": "; it is given to the factory, ConnectionFactory(…, client_id=…)"}
)
"""Where what can only be read is given."""
_NONE: Mapping[str, Check] = MappingProxyType({})


def known_attributes(checks: Mapping[str, Check] = _NONE) -> Callable[[type[T]], type[T]]:
    """For classes that applications set attributes of. Their `__init__` calls `take_no_other` at its end.

    With a check an attribute's wrong value is told where it is set, and not where it is used. Not a base class: what
    it adds would stand in the `help()` of each, before the methods that a reader looks for.
    """

    def of(cls: type[T]) -> type[T]:
        def set_known(self: object, name: str, value: object) -> None:
            """Refuses names that there are not, what is only to read, and values that it cannot have."""
            check = checks.get(name)
            if check is not None and (checked := check(name, value)) is not None:
                value = checked
            if _MADE in vars(self):
                if not hasattr(self, name):
                    raise AttributeError(unknown_attribute(self, name), name=name, obj=self)
                if isinstance(member := getattr(cls, name, None), property) and member.fset is None:
                    text = f"{name} of a {cls.__name__} can be read, and not set{_GIVEN.get(name, '')}"
                    raise AttributeError(text, name=name, obj=self)
                if check is not None and getattr(self, "is_closed", False):
                    raise IllegalStateError(f"{name} of a closed {cls.__name__}: it does nothing more; make a new one")
            object.__setattr__(self, name, value)

        put_special_methods(cls, {"__setattr__": set_known})
        return not_deleted(cls)

    return of


def not_deleted(cls: type[T]) -> type[T]:
    """The class, whose objects keep their attributes: without one the next call would fail in its midst."""

    def refuse(self: object, name: str) -> Never:
        """Refuses every name: what was set stays an attribute."""
        raise AttributeError(f"{name} of {with_article(type(self))} cannot be deleted", name=name, obj=self)

    put_special_methods(cls, {"__delattr__": refuse})
    return cls


def likely_names(cls: type[T]) -> type[T]:
    """The class, which names the likely attribute to who asks for one that there is not, as by its name in Java.

    A class with a `__getattr__` finds each of its attributes more slowly, methods by some 40 ns: not for messages, of
    which several are read. For compiled classes too.
    """

    def of_unknown(self: object, name: str) -> object:
        """Refuses names that there are not, and tells the likely one."""
        if name.startswith("_") or hasattr(type(self), name):
            return object.__getattribute__(self, name)  # raises what it did: a property's own error too
        raise AttributeError(unknown_attribute(self, name), name=name, obj=self)

    put_special_methods(cls, {"__getattr__": of_unknown})
    return cls


def told_what_to_call(calls: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """For classes of which applications set no attribute at all, compiled ones too: who sets one is told what to call.

    `calls`: what to write instead, by names that people try; `{}` in it is the value. Compiled code sets its own
    attributes past this.
    """

    def of(cls: type[T]) -> type[T]:
        kind = cls.__name__

        def refuse(self: object, name: str, value: object) -> None:
            """Refuses every name, and tells what to call."""
            if name in calls:
                text = f"{name} of a {kind} is set by a call: {calls[name].format(shown(value))}"
                raise AttributeError(text, name=name, obj=self)
            if not name.startswith("_") and not hasattr(self, name):
                raise AttributeError(unknown_attribute(self, name), name=name, obj=self)
            try:
                object.__setattr__(self, name, value)
            except AttributeError:  # what compiled classes say of it differs from what others do
                raise AttributeError(f"{name} of a {kind} can be read, and not set", name=name, obj=self) from None

        put_special_methods(cls, {"__setattr__": refuse})
        return cls

    return of


def given_at_making(cls: type[T]) -> type[T]:
    """The class, which takes no attribute from outside: what is there to be said is an argument of its `__init__`.

    An attribute that was set would be ignored in silence. Who sets or asks for one is told of the argument.
    """
    arguments = list(inspect.signature(cls).parameters)
    kind = cls.__name__

    def refuse(self: object, name: str, value: object) -> None:
        """Refuses every name, and tells the argument that it has for that."""
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if name in arguments:
            text = f"{name} of a {kind} is given when it is made: {kind}(…, {name}={shown(value)})"
        else:
            text = f"a {kind} takes no attributes, its settings are given when it is made"
            text = with_likely_name(f"{text}; it has no {shown(name)}", name, arguments)
        raise AttributeError(text, name=name, obj=self)

    def of_unknown(self: object, name: str) -> object:
        """Refuses names that there are not, and tells the likely one."""
        if name in arguments:
            text = f"{name} of a {kind} is given when it is made, {kind}(…, {name}=…), and cannot be read"
            raise AttributeError(text, name=name, obj=self)
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        if (argument := argument_meant(name, arguments)) is not None:
            text = f"{argument} of a {kind} is given when it is made: {kind}(…, {argument}=…)"
            raise AttributeError(f"a {kind} has no {shown(name)}; {text}", name=name, obj=self)
        raise AttributeError(unknown_attribute(self, name), name=name, obj=self)

    put_special_methods(cls, {"__setattr__": refuse, "__getattr__": of_unknown})
    return cls


def not_entered(remedy: str) -> Callable[[type[T]], type[T]]:
    """For classes that are not for `with`, which tell who tries what is: `remedy`."""

    def of(cls: type[T]) -> type[T]:
        def enter(self: object) -> Never:
            """Refuses `with`, and tells what is for it."""
            raise InvalidTypeError(f"a {cls.__name__} is not for `with`: {remedy}")

        def leave(self: object, *_: object) -> None:
            """Never called; Python looks for both before it enters."""

        put_special_methods(cls, {"__enter__": enter, "__exit__": leave})
        return cls

    return of


def refusing(remedy: str, *special: str) -> Callable[[type[T]], type[T]]:
    """For classes without these special methods, which tell who uses one what there is: `remedy`. Type checkers refuse
    it as before.
    """

    def of(cls: type[T]) -> type[T]:
        for each in special:

            def refuse(self: object, *_: object) -> Never:
                """Refuses it, and tells what to do instead."""
                raise InvalidTypeError(f"{with_article(type(self))} {remedy}")

            put_special_methods(cls, {each: refuse})
        return cls

    return of


def take_no_other(made: object) -> None:
    """From now on only the attributes there are can be set."""
    vars(made)[_MADE] = True


def unknown_attribute(owner: object, name: str) -> str:
    """What is said to who names an attribute that there is not, with the likely one."""
    known = [each for each in dir(owner) if not each.startswith("_")]
    kinds = [each.__name__ for each in type(owner).__mro__]
    return with_likely_attribute(f"{with_article(type(owner))} has no attribute {shown(name)}", name, known, kinds)
