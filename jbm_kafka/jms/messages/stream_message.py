"""Stream messages: a body of values in a row, each of a JMS type, written and read one after the other."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from jbm_kafka.codec.bodies import BodyShape
from jbm_kafka.codec.typed_values import TypedValue, Value, ValueType
from jbm_kafka.core.jms_errors import (
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
)
from jbm_kafka.core.wrong_values import checked_int, shown
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
from jbm_kafka.jms.messages.value_conversions import checked_value, value_of

T = TypeVar("T")


class StreamMessage(Message):
    """A message whose body is a list of str, bool, int, float, bytes or None.

    The `write_...` of a new message add to it, until `reset()`; then, as of a received one, the `read_...` go through
    it. `body` can always be read, and is a copy each time.
    """

    __slots__ = ("_is_reset", "_portion_at", "_read")
    _shape = BodyShape.STREAM

    _is_reset: bool
    _read: int
    """How many values were read."""
    _portion_at: int | None
    """How many bytes were read of a value that is read in portions."""

    def __init__(self, body: Sequence[Value] = ()) -> None:
        super().__init__()
        self._to_begin()
        self._write_body(self._checked_body(body))

    @property
    def body(self) -> list[Value]:
        """The values; a copy, in which you may change what you like: to change the message, set it anew."""
        return [held.value for held in self._values]

    if TYPE_CHECKING:

        @body.setter  # type: ignore[override]  # what else it is given it refuses
        def body(self, body: Sequence[Value]) -> None: ...

    else:

        @body.setter
        def body(self, body: object) -> None:
            self._write_body(self._checked_body(body))
            self._to_first()

    def reset(self) -> None:
        """To the first value, and read-only from now on."""
        self._is_reset = True
        self._to_first()

    def clear_body(self) -> None:
        """Empties the body and makes it writable."""
        super().clear_body()
        self._body = ()
        self._to_begin()

    def read_object(self) -> Value:
        """The next value as it was written."""
        return self._next(lambda _, held: as_it_is(held))

    def write_object(self, value: Value) -> None:
        """Adds the value, with the type that it has by itself."""
        self._add(value_of(self._what_is_next(), value))

    def read_boolean(self) -> bool:
        """The next value as a bool; False of a null."""
        return self._next(as_boolean)

    def read_byte(self) -> int:
        """The next value as an int of 8 bits."""
        return self._next(lambda what, held: as_integer(what, held, "byte"))

    def read_short(self) -> int:
        """The next value as an int of 16 bits."""
        return self._next(lambda what, held: as_integer(what, held, "short"))

    def read_char(self) -> str:
        """The next value as a str of one character."""
        return self._next(as_char)

    def read_int(self) -> int:
        """The next value as an int of 32 bits."""
        return self._next(lambda what, held: as_integer(what, held, "int"))

    def read_long(self) -> int:
        """The next value as an int of 64 bits."""
        return self._next(lambda what, held: as_integer(what, held, "long"))

    def read_float(self) -> float:
        """The next value as a float of 32 bits."""
        return self._next(lambda what, held: as_float(what, held, "float"))

    def read_double(self) -> float:
        """The next value as a float of 64 bits."""
        return self._next(lambda what, held: as_float(what, held, "double"))

    def read_string(self) -> str | None:
        """The next value as a str; None of a null."""
        return self._next(as_text)

    def read_bytes(self, length: int | None = None) -> bytes | None:
        """The next value as bytes; None of a null.

        With a length a portion of it, and the next call gives the next one: a portion that is shorter than asked for,
        if only b"", is the last of the value. Until then no other value can be read.
        """
        if length is None and self._portion_at is None:
            return self._next(as_bytes)
        return self._next_portion(None if length is None else checked_int("length", length, 1, None, "bytes"))

    def write_boolean(self, value: bool) -> None:
        """Adds True or False; MessageFormatError for any other value."""
        self._add_typed("boolean", value)

    def write_byte(self, value: int) -> None:
        """Adds an int of 8 bits; MessageFormatError for any other value."""
        self._add_typed("byte", value)

    def write_short(self, value: int) -> None:
        """Adds an int of 16 bits; MessageFormatError for any other value."""
        self._add_typed("short", value)

    def write_char(self, value: str) -> None:
        """Adds a str of one character up to U+FFFF; MessageFormatError for any other value."""
        self._add_typed("char", value)

    def write_int(self, value: int) -> None:
        """Adds an int of 32 bits; MessageFormatError for any other value."""
        self._add_typed("int", value)

    def write_long(self, value: int) -> None:
        """Adds an int of 64 bits; MessageFormatError for any other value."""
        self._add_typed("long", value)

    def write_float(self, value: float) -> None:
        """Adds a float, rounded to 32 bits; MessageFormatError for any other value."""
        self._add_typed("float", value)

    def write_double(self, value: float) -> None:
        """Adds a float; MessageFormatError for any other value."""
        self._add_typed("double", value)

    def write_string(self, value: str | None) -> None:
        """Adds a str, or None; MessageFormatError for any other value."""
        self._add_typed("string", value)

    def write_bytes(self, value: bytes | None) -> None:
        """Adds bytes, or None; MessageFormatError for any other value."""
        self._add_typed("bytes", value)

    def __getstate__(self) -> object:
        self._body = tuple(self._values)  # what this message writes from now on the copy does not
        return super().__getstate__()

    @property
    def _values(self) -> Sequence[TypedValue]:
        return cast(Sequence[TypedValue], self._body)

    def _to_begin(self) -> None:
        """Before any value is read or written; of a received message too, which is made without `__init__`."""
        self._is_reset = False
        self._to_first()

    def _to_first(self) -> None:
        self._read = 0
        self._portion_at = None

    def _next(self, read: Callable[[str, TypedValue], T]) -> T:
        """A value that cannot be read as asked for stays the next one."""
        if self._portion_at is not None:
            self._end_portions(self._portion_at)
        value = self._peek(read)
        self._read += 1
        return value

    def _next_portion(self, length: int | None) -> bytes | None:
        value = self._peek(as_bytes)
        begin = self._portion_at or 0
        end = None if length is None else begin + length
        portion = None if value is None else value[begin:end]
        if portion is None or length is None or len(portion) < length:
            self._portion_at = None
            self._read += 1
        else:
            self._portion_at = end
        return portion

    def _end_portions(self, at: int) -> None:
        """To the value after the one that was read in portions; raises MessageFormatError when more of it is left."""
        left = len(self._peek(as_bytes) or b"") - at
        if left:
            raise MessageFormatError(
                f"stream value {self._read} is being read in portions, and {left} bytes of it are left: read_bytes() "
                f"gives them, reset() goes back to the first value",
                left=left,
            )
        self._portion_at = None
        self._read += 1

    def _peek(self, read: Callable[[str, TypedValue], T]) -> T:
        if not (self._is_reset or self._body_is_read_only):
            raise MessageNotReadableError("the stream is being written; call reset() before reading")
        if self._read >= len(self._values):
            raise MessageEOFError(f"the stream has {len(self._values)} values, and all were read; reset() goes back")
        return read(f"stream value {self._read}", self._values[self._read])

    def _what_is_next(self) -> str:
        return f"stream value {len(self._values)}"

    def _add_typed(self, kind: ValueType, value: object) -> None:
        self._add(checked_value(self._what_is_next(), kind, value))

    def _add(self, held: TypedValue) -> None:
        """Grows in place: a long stream would be copied for each value otherwise."""
        if self._is_reset and not self._body_is_read_only:
            raise MessageNotWriteableError("the stream is read-only since reset(); call clear_body() first")
        values = self._values
        if not isinstance(values, list):
            values = list(values)
            self._write_body(values)
        values.append(held)

    def _checked_body(self, body: object) -> tuple[TypedValue, ...]:
        if not isinstance(body, Sequence) or isinstance(body, str | bytes | bytearray | memoryview):
            raise MessageFormatError(f"body is {shown(body)}: a StreamMessage holds a list", value=body)
        return tuple(value_of(f"stream value {n}", value) for n, value in enumerate(body))


def empty_stream() -> StreamMessage:
    """One to be received into, whose headers are read from its record."""
    message = StreamMessage.__new__(StreamMessage)
    message._to_begin()
    return message
