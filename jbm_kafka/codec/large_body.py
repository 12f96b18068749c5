"""The headers of a record whose body is kept elsewhere (decision 113).

Such a record has a null value. A record that has a value has its body there, whatever these headers say. Their names
are none that a property can have: so whoever sends such a record on, copies or archives it takes them along untouched,
as any header that JMS cannot show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.codec.scan import Header, parse_count

NAME_HEADER: Final = "jbm.large-body"
"""The name of the body in the store: `<day>/<ms>-<32 hex digits>`."""
DIGEST_HEADER: Final = "jbm.large-body-digest"
"""`sha256:<64 hex digits>` of the body as the record would have it."""
BYTES_HEADER: Final = "jbm.large-body-bytes"
"""How many bytes it has."""
_HEADERS: Final = (NAME_HEADER, DIGEST_HEADER, BYTES_HEADER)
_NAME = re.compile(r"\d{4}-\d\d-\d\d/(\d{13})-[0-9a-f]{32}")


class BodyReference(NamedTuple):
    """A record's reference to a body that is kept elsewhere."""

    name: str
    digest: str
    """`sha256:…`."""
    size_bytes: int


def is_kept_elsewhere(headers: Sequence[Header] | None) -> bool:
    """True of a record without a value whose headers name its body."""
    return last_value(headers, NAME_HEADER) is not None


def named_body(headers: Sequence[Header] | None) -> str | None:
    """The name of the body that the headers tell, whatever it looks like; None: they tell of none."""
    name = last_value(headers, NAME_HEADER)
    return None if name is None else name.decode(errors="backslashreplace")


def read_reference(headers: Sequence[Header] | None) -> BodyReference:
    """Return what the headers tell of the body.

    Raises:
        ValueError: a header is missing, or is none that a sender of ours writes; the text says which.
    """
    told = [(last_value(headers, header) or b"").decode(errors="backslashreplace") for header in _HEADERS]
    name, digest, size = told
    count = parse_count(size.encode())
    if not _NAME.fullmatch(name):  # anything else might lead out of the store
        raise ValueError(f"{NAME_HEADER} is {name!r:.80}: it is <day>/<ms>-<32 hex digits>")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{DIGEST_HEADER} is {digest!r:.80}: it is sha256: and 64 hex digits")
    if count is None:
        raise ValueError(f"{BYTES_HEADER} is {size!r:.80}: it is a number")
    return BodyReference(name, digest, count)


def reference_headers(reference: BodyReference) -> list[Header]:
    """The headers that name the body."""
    texts = (reference.name, reference.digest, str(reference.size_bytes))
    return [(header, text.encode()) for header, text in zip(_HEADERS, texts, strict=True)]


def without_reference(headers: Sequence[Header]) -> list[Header]:
    """The headers of a record that goes on with another body."""
    return [header for header in headers if header[0] not in _HEADERS]


def digest_of(body: bytes) -> str:
    """Return what `BodyReference.digest` has of this body."""
    return f"sha256:{sha256(body).hexdigest()}"


def body_name(day: str, at_ms: int, random_hex: str) -> str:
    """The name of a body that is kept from now on; by it anyone can tell how old the body is."""
    return f"{day}/{at_ms:013d}-{random_hex}"


def kept_at_ms(name: str) -> int | None:
    """When a body of this name was kept, or a part of it was written; None: no body of ours has such a name."""
    found = _NAME.match(name)
    return None if found is None else int(found[1])
