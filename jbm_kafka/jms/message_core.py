"""What every receive sets of a message, and every application reads: compiled, it is a struct (decision 10).

Its fields take any object where an application may set them, for a compiled class would refuse another with an error of
its own. `Message` says what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from mypy_extensions import mypyc_attr

_FIELDS = (
    "_body",
    "_body_is_read_only",
    "_properties_are_read_only",
    "_record",
    "_settler",
    "delivery_count",
    "destination",
    "redelivered",
)


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageCore:
    """Base of `Message` alone."""

    __slots__ = _FIELDS

    def __init__(self) -> None:
        self._record: object = None
        self._settler: object = None
        self._body: str | bytes | None = None
        self._body_is_read_only: object = False
        self._properties_are_read_only: object = False
        self.destination: object = None
        self.delivery_count: object = 0
        self.redelivered: object = False

    @property
    def body(self) -> str | bytes | None:
        """The text of a TextMessage, the bytes of a BytesMessage; any other message has none."""
        return self._body

    @body.setter
    def body(self, body: object) -> None:
        self._write_body(self._checked_body(body))

    def __getstate__(self) -> object:
        """For copies: Python knows nothing of a compiled class's fields."""
        return super().__getstate__(), {name: getattr(self, name) for name in _FIELDS}

    def __setstate__(self, state: object) -> None:
        own, fields = cast(tuple[object, dict[str, object]], state)
        of_dict, of_slots = own if isinstance(own, tuple) else (own, None)
        for values in (of_dict, of_slots, fields):
            for name, value in cast(Mapping[str, object], values or {}).items():
                object.__setattr__(self, name, value)

    def _checked_body(self, body: object) -> str | bytes | None:
        raise AttributeError(f"a {type(self).__name__} has no body to set; make a TextMessage or a BytesMessage")

    def _write_body(self, body: str | bytes | None) -> None:
        raise NotImplementedError


def receive_into(
    message: MessageCore,
    record: object,
    settler: object,
    body: str | bytes | None,
    destination: object,
    delivery_count: object,
    redelivered: object,
) -> None:
    """Make it a received, read-only message."""
    message._record = record
    message._settler = settler
    message._body = body
    message._body_is_read_only = message._properties_are_read_only = True
    message.destination = destination
    message.delivery_count = delivery_count
    message.redelivered = redelivered
