"""Map messages: a body of named values, each of a JMS type."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from jbm_kafka.codec.bodies import BodyShape
from jbm_kafka.codec.typed_values import TypedValue, Value, ValueType
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.typed_access import (
    as_boolean,
    as_bytes,
    as_char,
    as_float,
    as_integer,
    as_it_is,
    as_text,
)
from jbm_kafka.jms.messages.value_conversions import MAP_ENTRY, checked_value, value_of


class MapMessage(Message):
    """A message whose body is a dict of str to str, bool, int, float, bytes or None.

    `body` is a copy each time: change the message by setting the body anew, or an entry with a `set_...`. In `body` an
    int is stored as int or long by its size, a float as double.
    """

    __slots__ = ()
    _shape = BodyShape.MAP

    def __init__(self, body: Mapping[str, Value] | None = None) -> None:
        super().__init__()
        self._write_body(self._checked_body({} if body is None else body))

    @property
    def body(self) -> dict[str, Value]:
        """The values by name; a copy, in which you may change what you like: to change the message, set it anew."""
        return {name: held.value for name, held in self._entries.items()}

    if TYPE_CHECKING:

        @body.setter  # type: ignore[override]  # what else it is given it refuses
        def body(self, body: Mapping[str, Value]) -> None: ...

    else:

        @body.setter
        def body(self, body: object) -> None:
            self._write_body(self._checked_body(body))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries, in the order in which they were set."""
        return tuple(self._entries)

    def item_exists(self, name: str) -> bool:
        """Return True if there is an entry of this name, if only a null."""
        return _checked_type(name) in self._entries

    def clear_body(self) -> None:
        """Empties the body and makes it writable."""
        super().clear_body()
        self._body = {}

    def get_object(self, name: str) -> Value:
        """The entry as it was set; None when no entry has the name."""
        return as_it_is(self._entries.get(_checked_type(name)))

    def set_object(self, name: str, value: Value) -> None:
        """Sets the entry, with the type that the value has by itself."""
        self._set(name, value_of(_what(name), value, property=name))

    def get_boolean(self, name: str) -> bool:
        """The entry as a bool; False of a null."""
        return as_boolean(*self._held(name))

    def get_byte(self, name: str) -> int:
        """The entry as an int of 8 bits."""
        return as_integer(*self._held(name), "byte")

    def get_short(self, name: str) -> int:
        """The entry as an int of 16 bits."""
        return as_integer(*self._held(name), "short")

    def get_char(self, name: str) -> str:
        """The entry as a str of one character."""
        return as_char(*self._held(name))

    def get_int(self, name: str) -> int:
        """The entry as an int of 32 bits."""
        return as_integer(*self._held(name), "int")

    def get_long(self, name: str) -> int:
        """The entry as an int of 64 bits."""
        return as_integer(*self._held(name), "long")

    def get_float(self, name: str) -> float:
        """The entry as a float of 32 bits."""
        return as_float(*self._held(name), "float")

    def get_double(self, name: str) -> float:
        """The entry as a float of 64 bits."""
        return as_float(*self._held(name), "double")

    def get_string(self, name: str) -> str | None:
        """The entry as a str; None of a null."""
        return as_text(*self._held(name))

    def get_bytes(self, name: str) -> bytes | None:
        """The entry as bytes, all of them; None of a null."""
        return as_bytes(*self._held(name))

    def set_boolean(self, name: str, value: bool) -> None:
        """Sets the entry to True or False; MessageFormatError for any other value."""
        self._set_typed(name, "boolean", value)

    def set_byte(self, name: str, value: int) -> None:
        """Sets the entry to an int of 8 bits; MessageFormatError for any other value."""
        self._set_typed(name, "byte", value)

    def set_short(self, name: str, value: int) -> None:
        """Sets the entry to an int of 16 bits; MessageFormatError for any other value."""
        self._set_typed(name, "short", value)

    def set_char(self, name: str, value: str) -> None:
        """Sets the entry to a str of one character up to U+FFFF; MessageFormatError for any other value."""
        self._set_typed(name, "char", value)

    def set_int(self, name: str, value: int) -> None:
        """Sets the entry to an int of 32 bits; MessageFormatError for any other value."""
        self._set_typed(name, "int", value)

    def set_long(self, name: str, value: int) -> None:
        """Sets the entry to an int of 64 bits; MessageFormatError for any other value."""
        self._set_typed(name, "long", value)

    def set_float(self, name: str, value: float) -> None:
        """Sets the entry to a float, rounded to 32 bits; MessageFormatError for any other value."""
        self._set_typed(name, "float", value)

    def set_double(self, name: str, value: float) -> None:
        """Sets the entry to a float; MessageFormatError for any other value."""
        self._set_typed(name, "double", value)

    def set_string(self, name: str, value: str | None) -> None:
        """Sets the entry to a str, or None; MessageFormatError for any other value."""
        self._set_typed(name, "string", value)

    def set_bytes(self, name: str, value: bytes | None) -> None:
        """Sets the entry to bytes, or None; MessageFormatError for any other value."""
        self._set_typed(name, "bytes", value)

    @property
    def _entries(self) -> dict[str, TypedValue]:
        return cast(dict[str, TypedValue], self._body)

    def _held(self, name: str) -> tuple[str, TypedValue | None]:
        """Return what errors call the entry, and the entry."""
        return _what(name), self._entries.get(_checked_type(name))

    def _set_typed(self, name: str, kind: ValueType, value: object) -> None:
        self._set(name, checked_value(_what(name), kind, value, property=name))

    def _set(self, name: str, held: TypedValue) -> None:
        name = _checked_name(name)
        # A dict of its own: the one before may be another message's, of which this is a copy.
        self._write_body({**self._entries, name: held})

    def _checked_body(self, body: object) -> dict[str, TypedValue]:
        if not isinstance(body, Mapping):
            raise MessageFormatError(f"body is {shown(body)}: a MapMessage holds a dict", value=body)
        return {_checked_name(name): value_of(_what(name), value, property=name) for name, value in body.items()}


def _what(name: object) -> str:
    """Return what is said to be wrong when a value is; the name may be."""
    return f"{MAP_ENTRY}{shown(_checked_type(name))}"


def _checked_type(name: object) -> str:
    """Return the name as a plain `str`.

    Raises:
        MessageFormatError: it is no text.
    """
    if not isinstance(name, str):
        raise MessageFormatError(f"map entry name {shown(name)}: it is a str", value=name)
    return plain_text(name)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise MessageFormatError(f"map entry name {shown(name)}: it is a str that is not empty", value=name)
    return plain_text(name)
