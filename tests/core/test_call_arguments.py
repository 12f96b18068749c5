"""Calls with arguments that are not there: what is told, and what stays as it was."""

import inspect
from typing import Any, Never

import pytest

from jbm_kafka.core.call_arguments import check_maker, explained, explained_function, refuse_others
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import InvalidTypeError


@explained
class Example:
    """One of each way to take arguments."""

    def __init__(self, first: int, *, ttl_ms: int = 0, prefetch: int = 1) -> None:
        self.first, self.ttl_ms, self.prefetch = first, ttl_ms, prefetch

    def both(self, one: int, two: int = 2) -> int:
        """Adds."""
        return one + two

    def named(self, *, one: int = 1) -> int:
        return one

    def sized(self, name: str, *, size: int = 1) -> str:
        return name * size

    def set_address_settings(self, pattern: str, settings: object = None) -> None:
        """Takes them in one."""

    def nothing(self) -> None:
        """Takes nothing."""

    def create_producer(self) -> None:
        """Takes nothing, and people give it something."""

    def hot(self, one: int = 1, *more: Never, **unknown: Never) -> int:
        if more or unknown:
            refuse_others(Example.hot, *more, **unknown)
        return one

    def fails(self) -> None:
        raise TypeError("of its own")

    def create_context(self) -> None:
        """Its like of a factory."""

    def any_number(self, first: str, *names: str) -> int:
        return len({first, *names})

    @classmethod
    def made(cls, first: int) -> "Example":
        return cls(first)

    def _private(self, one: int) -> int:
        return one

    def many(self, *, a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0, g: int = 0, h: int = 0,
             prefetch: int = 0) -> None:  # fmt: skip
        """Takes nine."""

    def asked(self, destination: "Destination", text: str, *, timeout: float) -> None:
        """Asks."""


class Further(Example):
    """Has no `__init__` of its own."""


@explained_function
def function(one: int, *, prefetch: int = 1) -> int:
    """Adds."""
    return one + prefetch


@explained
class Foreign:
    """Has a method in C that does not tell its arguments: it answers for itself."""

    change = dict.update


def test_what_does_not_tell_its_arguments_is_left_as_it_is() -> None:
    assert vars(Foreign)["change"] is dict.update


ONE: Any = Example(1)
MAKE: Any = Example
FURTHER: Any = Further
CALL: Any = function


@pytest.mark.parametrize(
    ("call", "said", "setting"),
    [
        (lambda: MAKE(1, prefech=2), "Example() has no argument 'prefech'; 'prefetch' is meant, probably; "
         "it has first, ttl_ms, prefetch", "prefech"),
        (lambda: MAKE(1, quite_another=2), "Example() has no argument 'quite_another'; "
         "it has first, ttl_ms, prefetch", "quite_another"),
        (lambda: FURTHER(1, prefech=2), "Further() has no argument 'prefech'; 'prefetch' is meant, probably; "
         "it has first, ttl_ms, prefetch", "prefech"),
        (lambda: MAKE(1, 2), "Example() takes 1 argument by position (first), 2 were given; "
         "give the others by name, as in ttl_ms=…", "Example"),
        (Example, "Example() needs 'first'", "first"),
        (lambda: MAKE(1, first=2), "Example() has 'first' twice, by position and by name", "first"),
        (ONE.both, "both() needs 'one'", "one"),
        (lambda: ONE.both(1, 2, 3), "both() takes 2 arguments by position (one, two), 3 were given", "both"),
        (lambda: ONE.named(1), "named() takes its arguments by name, as in one=…; it has one", "named"),
        (lambda: ONE.nothing(1), "nothing() takes no argument, 1 was given", "nothing"),
        (lambda: ONE.nothing(1, 2), "nothing() takes no argument, 2 were given", "nothing"),
        (lambda: ONE.sized(2, "a"), "sized() takes its name first and its size by name: sized('a', size=2)", "size"),
        (lambda: ONE.sized(b"b", "a"), "sized() takes 1 argument by position (name), 2 were given; "
         "give the others by name, as in size=…", "sized"),
        (lambda: ONE.set_address_settings("q", max_attempts=3), "set_address_settings() has no argument 'max_attempts':"
         " it is a part of the settings, set_address_settings('orders', AddressSettings(max_delivery_attempts=…))",
         "max_attempts"),
        (lambda: ONE.set_address_settings("q", zz=3), "set_address_settings() has no argument 'zz'; it has pattern, "
         "settings", "zz"),
        (lambda: ONE.nothing(x=1), "nothing() has no argument 'x'; it takes none", "x"),
        (lambda: ONE.create_producer(1), "create_producer() takes no argument, 1 was given; a context's producer has "
         "no destination, each send names it first: send(queue, message)", "create_producer"),
        (lambda: ONE.create_producer(destination=1), "create_producer() has no argument 'destination'; it takes none; "
         "a context's producer has no destination, each send names it first: send(queue, message)", "destination"),
        (lambda: ONE.hot(1, 2), "hot() takes 1 argument by position (one), 2 were given", "hot"),
        (lambda: ONE.hot(on=1), "hot() has no argument 'on'; 'one' is meant, probably; it has one", "on"),
        (lambda: ONE.many(prefech=1), "many() has no argument 'prefech'; 'prefetch' is meant, probably", "prefech"),
        (lambda: ONE.many(zz=1), "many() has no argument 'zz'; it has a, b, c, d, e, f, g, h, prefetch", "zz"),
        (Example.made, "made() needs 'first'", "first"),
        (function, "function() needs 'one'", "one"),
        (lambda: CALL(1, prefech=2), "function() has no argument 'prefech'; 'prefetch' is meant, probably; "
         "it has one, prefetch", "prefech"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_with_the_argument_and_those_there_are(call: Any, said: str, setting: str) -> None:
    with pytest.raises(InvalidTypeError) as refused:
        call()
    assert str(refused.value) == said
    assert refused.value.setting == setting
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_right_calls_are_as_they_were() -> None:
    assert (ONE.both(1), ONE.both(1, two=3), ONE.named(one=2), ONE.hot(5), function(1)) == (3, 4, 2, 5, 2)
    assert Example.made(7).first == 7


def test_a_type_error_of_the_functions_own_comes_out_as_it_is() -> None:
    with pytest.raises(TypeError, match="of its own") as raised:
        ONE.fails()
    assert type(raised.value) is TypeError


def test_signature_and_docstring_stay_those_of_the_function() -> None:
    assert str(inspect.signature(Example.both)) == "(self, one: int, two: int = 2) -> int"
    assert inspect.getdoc(Example.both) == "Adds."
    assert str(inspect.signature(Example)) == "(first: int, *, ttl_ms: int = 0, prefetch: int = 1) -> None"
    assert list(inspect.signature(function).parameters) == ["one", "prefetch"]


def test_what_is_private_is_left_alone() -> None:
    with pytest.raises(TypeError) as raised:
        ONE._private()
    assert type(raised.value) is TypeError


def test_a_text_for_a_destination_is_told_before_what_else_is_missing() -> None:
    """It complained of the time-out alone."""
    with pytest.raises(InvalidTypeError) as caught:
        Example(1).asked("nobody", "hi")  # type: ignore[call-arg, arg-type]
    assert str(caught.value) == (
        "destination is 'nobody': it is a Queue, not its name; use Queue('nobody'). And asked() needs 'timeout'"
    )


def test_what_is_the_factorys_is_given_there() -> None:
    told = r"no argument 'client_id': it is given to the factory, ConnectionFactory\(…, client_id=…\)$"
    with pytest.raises(InvalidTypeError, match=told):
        Example(1).create_context(client_id="a")  # type: ignore[call-arg]


def test_a_function_that_takes_any_number_is_not_said_to_take_one() -> None:
    """The error was about a value that cannot be in a set."""
    assert Example(1).any_number("a", "b", "c") == 3
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        Example(1).any_number("a", ["b"])  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"any_number\(\) needs 'first'"):
        Example(1).any_number()  # type: ignore[call-arg]


def test_what_is_made_by_hand_tells_what_makes_it() -> None:
    check_maker(Example(1), 5, int)
    with pytest.raises(InvalidTypeError, match=r"^Example\(\) was called with 'x'"):
        check_maker(Example(1), "x", int)
