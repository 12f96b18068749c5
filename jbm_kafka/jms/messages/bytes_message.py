"""Bytes messages: a body of bytes, also written and read value by value, as Java's data streams have them."""

from typing import TYPE_CHECKING, cast

from jbm_kafka.codec.bodies import Body, BodyShape
from jbm_kafka.codec.java_data import FixedType, decode_fixed, decode_utf, encode_fixed, encode_utf, fixed_size
from jbm_kafka.codec.typed_values import ValueType
from jbm_kafka.core.jms_errors import (
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
)
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import checked_int, shown
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.value_conversions import checked_value, value_of


class BytesMessage(Message):
    """A message whose body is bytes.

    The `write_...` of a new message add to it, until `reset()`; then, as of a received one, the `read_...` go through
    it. The bytes do not say what types they hold: the reader must know what was written. `body` can always be read.
    """

    __slots__ = ("_at",)
    _shape = BodyShape.BYTES

    _at: int | None
    """How many bytes were read, None while it is being written; not there in a received message that was not read so
    yet, for to set it would make every receive dearer."""

    def __init__(self, data: bytes | bytearray | memoryview = b"") -> None:
        super().__init__()
        self._at = None
        self._body = self._checked_body(data)

    if TYPE_CHECKING:

        @property
        def body(self) -> bytes:
            """The bytes, whether they are being written or read."""

        @body.setter  # type: ignore[override]  # what else it is given it refuses
        def body(self, data: bytes | bytearray | memoryview) -> None: ...

    @property
    def body_length(self) -> int:
        """How many bytes the body has.

        Raises:
            MessageNotReadableError: it is being written.
        """
        self._checked_place()
        return len(self._bytes)

    def reset(self) -> None:
        """To the first byte, and read-only from now on."""
        self._at = 0
        if not self._body_is_read_only:
            self._body = bytes(self._bytes)

    def clear_body(self) -> None:
        """Empties the body and makes it writable."""
        super().clear_body()
        self._at = None
        self._body = b""

    def read_boolean(self) -> bool:
        """The next byte as a bool: False when it is 0."""
        return bool(self._next("boolean"))

    def read_byte(self) -> int:
        """The next byte as an int of 8 bits."""
        return cast(int, self._next("byte"))

    def read_unsigned_byte(self) -> int:
        """The next byte as an int from 0 to 255."""
        return cast(int, self._next("unsigned byte"))

    def read_short(self) -> int:
        """The next 2 bytes as an int of 16 bits."""
        return cast(int, self._next("short"))

    def read_unsigned_short(self) -> int:
        """The next 2 bytes as an int from 0 to 65,535."""
        return cast(int, self._next("unsigned short"))

    def read_char(self) -> str:
        """The next 2 bytes as a str of one character, or of half a pair of surrogates as Java has it."""
        return cast(str, self._next("char"))

    def read_int(self) -> int:
        """The next 4 bytes as an int of 32 bits."""
        return cast(int, self._next("int"))

    def read_long(self) -> int:
        """The next 8 bytes as an int of 64 bits."""
        return cast(int, self._next("long"))

    def read_float(self) -> float:
        """The next 4 bytes as a float of 32 bits."""
        return cast(float, self._next("float"))

    def read_double(self) -> float:
        """The next 8 bytes as a float of 64 bits."""
        return cast(float, self._next("double"))

    def read_utf(self) -> str:
        """The next text, as `write_utf` writes it.

        Raises:
            MessageEOFError: not so many bytes are left as the text's length tells.
            MessageFormatError: they are not a text.
        """
        at = self._place_of("the length of a text", 2)
        size = cast(int, decode_fixed("unsigned short", self._bytes, at))
        self._place_of("the text with its length", 2 + size)
        try:
            text = decode_utf(bytes(self._bytes[at + 2 : at + 2 + size]))
        except ValueError as fault:
            raise MessageFormatError(f"no text is at byte {at} of the body: {fault}") from None
        self._at = at + 2 + size
        return text

    def read_bytes(self, length: int | None = None) -> bytes:
        """The next bytes: so many, or as many as are left; b"" when all were read. None: all that are left."""
        at = self._checked_place()
        end = None if length is None else at + checked_int("length", length, 0, None, "bytes")
        portion = bytes(self._bytes[at:end])
        self._at = at + len(portion)
        return portion

    def write_boolean(self, value: bool) -> None:
        """Adds True or False in a byte; MessageFormatError for any other value."""
        self._add("boolean", value)

    def write_byte(self, value: int) -> None:
        """Adds an int of 8 bits; MessageFormatError for any other value."""
        self._add("byte", value)

    def write_short(self, value: int) -> None:
        """Adds an int of 16 bits; MessageFormatError for any other value."""
        self._add("short", value)

    def write_char(self, value: str) -> None:
        """Adds a str of one character up to U+FFFF, in 2 bytes; MessageFormatError for any other value."""
        if not isinstance(value, str) or len(value) != 1 or value > "\uffff":
            raise MessageFormatError(f"value is {shown(value)}: it is a str of one character up to U+FFFF", value=value)
        self._write(encode_fixed("char", plain_text(value)))

    def write_int(self, value: int) -> None:
        """Adds an int of 32 bits; MessageFormatError for any other value."""
        self._add("int", value)

    def write_long(self, value: int) -> None:
        """Adds an int of 64 bits; MessageFormatError for any other value."""
        self._add("long", value)

    def write_float(self, value: float) -> None:
        """Adds a float, rounded to 32 bits; MessageFormatError for any other value."""
        self._add("float", value)

    def write_double(self, value: float) -> None:
        """Adds a float; MessageFormatError for any other value."""
        self._add("double", value)

    def write_utf(self, value: str) -> None:
        """Adds a text in Java's modified UTF-8, with its length in 2 bytes before it.

        Raises:
            MessageFormatError: it is not a str, or takes more than 65,535 bytes.
        """
        if not isinstance(value, str):
            raise MessageFormatError(f"value is {shown(value)}: it is a str", value=value)
        self._write(encode_utf(plain_text(value)))

    def write_bytes(self, value: bytes | bytearray | memoryview) -> None:
        """Adds bytes as they are; MessageFormatError for any other value."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise MessageFormatError(f"value is {shown(value)}: it is bytes", value=value)
        self._write(bytes(value))

    def write_object(self, value: bool | float | str | bytes) -> None:
        """Adds the value as its class says: an int as int or long by its size, a float as double, a str as `write_utf`.

        Raises:
            MessageFormatError: it is of another class.
        """
        held = value_of("value", value)
        if held.type == "null":
            raise MessageFormatError("value is None: it is a bool, int, float, str or bytes", value=value)
        if held.type == "bytes":
            self._write(cast(bytes, held.value))
        elif held.type == "string":
            self.write_utf(cast(str, held.value))
        else:
            self._add(held.type, held.value)

    def __getstate__(self) -> object:
        self._body = bytes(self._bytes)  # what this message writes from now on the copy does not
        return super().__getstate__()

    @property
    def _bytes(self) -> bytes | bytearray:
        return cast(bytes | bytearray, self._body)

    @property
    def _place(self) -> int | None:
        return getattr(self, "_at", 0 if self._body_is_read_only else None)

    def _checked_place(self) -> int:
        """The place of the next byte; raises MessageNotReadableError while it is being written."""
        place = self._place
        if place is None:
            raise MessageNotReadableError("the body is being written; call reset() before reading")
        return place

    def _place_of(self, what: str, size: int) -> int:
        """The place of the next bytes; raises MessageEOFError where there are not so many, and then they stay next."""
        at = self._checked_place()
        left = len(self._bytes) - at
        if left < size:
            raise MessageEOFError(
                f"the body has {len(self._bytes)} bytes, of which {left} are left: {what} takes {size}; reset() goes "
                f"back to the first",
                body_length=len(self._bytes),
                left=left,
            )
        return at

    def _next(self, kind: FixedType) -> bool | float | str:
        size = fixed_size(kind)
        at = self._place_of(f"the next {kind}", size)
        value = decode_fixed(kind, self._bytes, at)
        self._at = at + size
        return value

    def _add(self, kind: ValueType, value: object) -> None:
        held = checked_value("value", kind, value).value
        assert not isinstance(held, bytes), held
        assert held is not None, kind
        self._write(encode_fixed(cast(FixedType, kind), held))

    def _write(self, data: bytes) -> None:
        """Grows in place: a large body would be copied for each value otherwise."""
        written = self._bytes
        if not isinstance(written, bytearray):
            if not self._body_is_read_only and self._place is not None:
                raise MessageNotWriteableError("the body is read-only since reset(); call clear_body() first")
            written = bytearray(written)
            self._write_body(written)
        written += data

    def _write_body(self, body: Body) -> None:
        super()._write_body(body)
        if self._place is not None:
            self._at = 0

    def _checked_body(self, body: object) -> bytes:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise MessageFormatError(
                f"body is {shown(body)}: a BytesMessage holds bytes, a TextMessage a str", value=body
            )
        return bytes(body)
