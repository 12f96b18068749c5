"""One header of a record, without a look at what the others tell: an application asks for one or two of a message.

Each answer is what `codec.headers.decode_headers` gives; that alone says what could not be decoded.
"""

from collections.abc import Sequence

from jbm_kafka.codec.headers import parse_reply_to, property_of_header, shown_property, utf8_or_none
from jbm_kafka.codec.property_header import NULL, Property, PropertyValue
from jbm_kafka.codec.scan import Header, parse_count
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.sentinels import UNSET, Unset


def last_value(headers: Sequence[Header] | None, wanted: str) -> bytes | None:
    """The last value of the header; None when the header is missing or has only nulls."""
    if not headers:
        return None
    for index in range(len(headers) - 1, -1, -1):
        name, value = headers[index]
        if name == wanted and value is not None:
            return value
    return None


def header_text(headers: Sequence[Header] | None, wanted: str) -> str | None:
    """The header's text; None when the header is missing or not UTF-8."""
    value = last_value(headers, wanted)
    return None if value is None else utf8_or_none(value)


def header_count(headers: Sequence[Header] | None, wanted: str) -> int | None:
    """The header's number; None when the header is missing or not a number."""
    value = last_value(headers, wanted)
    return None if value is None else parse_count(value)


def header_reply_to(headers: Sequence[Header] | None) -> Destination | None:
    """Where answers go; None when nobody said so, or not in a form that can be read."""
    return parse_reply_to(header_text(headers, "JMSReplyTo"), [])


def header_property(headers: Sequence[Header] | None, wanted: str) -> Property | None:
    """The property of this name; None: not set. The last typed header wins, and typed beats plain."""
    plain: Property | None = None
    if not headers:
        return None
    for index in range(len(headers) - 1, -1, -1):
        header, value = headers[index]
        # Most headers are not the one: this is cheaper to see than which property each of them is.
        if not header.endswith(wanted):
            continue
        kind, name = property_of_header(header)
        if name != wanted or (kind is None and plain is not None):
            continue
        shown = NULL if value is None else shown_property(header, kind, value, [])
        if shown is None or kind is None:
            plain = plain or shown
        else:
            return shown
    return plain


def header_property_value(headers: Sequence[Header] | None, wanted: str) -> PropertyValue | Unset:
    """The value alone of what `header_property` returns; UNSET: not set.

    Most are typed text, of which the last one counts: for that nothing is made but the text.
    """
    if not headers:
        return UNSET
    for index in range(len(headers) - 1, -1, -1):
        header, value = headers[index]
        if not header.endswith(wanted):
            continue
        kind, name = property_of_header(header)
        if name != wanted:
            continue
        if kind != "string" or value is None:
            break
        text = utf8_or_none(value)
        if text is None:
            break
        return text
    else:
        return UNSET
    held = header_property(headers, wanted)
    return UNSET if held is None else held.value
