"""Values in the body of a bytes message, as `java.io.DataOutput` writes them: big endian, texts in modified UTF-8."""

import re
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from jbm_kafka.codec.property_header import nearest_float32
from jbm_kafka.core.jms_errors import MessageFormatError

FixedType = Literal[
    "boolean", "byte", "unsigned byte", "short", "unsigned short", "char", "int", "long", "float", "double"
]  # fmt: skip

UTF_BYTES_MAX = 65_535
"""The longest text, for its length stands before it in 16 bits."""

_FORMS: Mapping[str, struct.Struct] = MappingProxyType(
    {
        "boolean": struct.Struct(">B"),
        "byte": struct.Struct(">b"),
        "unsigned byte": struct.Struct(">B"),
        "short": struct.Struct(">h"),
        "unsigned short": struct.Struct(">H"),
        "char": struct.Struct(">H"),
        "int": struct.Struct(">i"),
        "long": struct.Struct(">q"),
        "float": struct.Struct(">f"),
        "double": struct.Struct(">d"),
    }
)
_FROM_WIRE: Mapping[str, Callable[[int], bool | str]] = MappingProxyType({"boolean": bool, "char": chr})
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def fixed_size(kind: FixedType) -> int:
    """How many bytes a value of the type has."""
    return _FORMS[kind].size


def encode_fixed(kind: FixedType, value: bool | float | str) -> bytes:
    """The value's bytes; it is one of the type."""
    if kind == "char":
        return _FORMS[kind].pack(ord(str(value)))
    return _FORMS[kind].pack(nearest_float32(float(value)) if kind == "float" else value)


def decode_fixed(kind: FixedType, data: bytes | bytearray, at: int) -> bool | float | str:
    """The value at that place, where enough bytes are."""
    (value,) = _FORMS[kind].unpack_from(data, at)
    convert = _FROM_WIRE.get(kind)
    return value if convert is None else convert(value)


def encode_utf(text: str) -> bytes:
    """The text with the length of its bytes before it.

    Raises:
        MessageFormatError: it needs more bytes than the length can tell.
    """
    data = _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > UTF_BYTES_MAX:
        raise MessageFormatError(
            f"the text has {len(text)} characters and needs {len(data)} bytes: write_utf takes {UTF_BYTES_MAX}; take "
            f"write_bytes(text.encode()), or a TextMessage"
        )
    return len(data).to_bytes(2, "big") + data


def _surrogates(astral: re.Match[str]) -> str:
    code = ord(astral[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def decode_utf(data: bytes) -> str:
    """The text of the bytes after the length; as Java does it takes longer forms than needed, and halves of pairs.

    Raises:
        ValueError: they are not modified UTF-8.
    """
    if max(data, default=0) < 0xF0:
        try:
            return data.decode()  # where both agree, which is nearly always, and at a hundredth of the time
        except UnicodeDecodeError:
            pass
    units: list[int] = []
    at, end = 0, len(data)
    while at < end:
        first = data[at]
        more = 0 if first < 0x80 else 1 if first >> 5 == 0b110 else 2 if first >> 4 == 0b1110 else -1
        rest = data[at + 1 : at + 1 + more]
        if more < 0 or len(rest) < more or any(byte >> 6 != 0b10 for byte in rest):
            raise ValueError(f"byte {at} of the text is {first:#04x}, which begins nothing in modified UTF-8")
        unit = first if more == 0 else first & (0x1F if more == 1 else 0x0F)
        for byte in rest:
            unit = unit << 6 | byte & 0x3F
        units.append(unit)
        at += 1 + more
    return struct.pack(f"<{len(units)}H", *units).decode("utf-16-le", "surrogatepass")
