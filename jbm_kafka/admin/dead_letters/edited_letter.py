"""A changed copy of a dead letter: what of it is another, and the record that sends it (REDELIVER-9)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.codec.bodies import BYTES, OBJECT, TEXT, body_kind, codec_name
from jbm_kafka.codec.dead_letter import COPY_OF, HOP_PROPERTIES
from jbm_kafka.codec.headers import property_of_header
from jbm_kafka.codec.object_codecs import JSON, read_json
from jbm_kafka.codec.one_header import header_property
from jbm_kafka.codec.property_header import Property, property_header, property_of
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import InvalidSettingError, MessageFormatError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.summary import summary
from jbm_kafka.core.wrong_values import no_utf8, wrong_type, wrong_value
from jbm_kafka.jms.messages.message_properties import checked_property_name
from jbm_kafka.ports import Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEdit:
    """The parts that are to be another in the copy."""

    body: str | bytes | Unset = UNSET
    """Its text, its JSON as text, or its bytes; UNSET: as it was."""
    properties: Mapping[str, object] = field(default_factory=dict)
    """Properties that are set, or taken away where the value is None; all others stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedLetter:
    """A changed copy that was sent, or of a dry run one that would be."""

    letter: DeadLetter
    """The one it was made from."""
    destination: Queue | Topic
    """Where the copy went: where the letter had come from."""
    message_id: str | None
    """The copy's own id; None of a dry run."""
    is_kept: bool
    """The letter is where it was; else it left in the transaction that sent the copy."""

    def __repr__(self) -> str:
        return summary(self, self.message_id, letter=self.letter, destination=self.destination, is_kept=self.is_kept)


def checked_edit(body: object, properties: object) -> LetterEdit:
    """Return what a caller gives, as it is used.

    Raises:
        InvalidSettingError, MessageFormatError: it cannot be, or it changes nothing.
    """
    if not isinstance(body, str | bytes | Unset):
        raise wrong_type("body", body, "it is a str, bytes, or not given where the body stays as it is")
    if not isinstance(properties, Mapping):
        raise wrong_type("properties", properties, "it is a dict of properties; None takes one away")
    for name, value in properties.items():
        checked_property_name(name)
        if name in HOP_PROPERTIES or name == COPY_OF:
            raise wrong_value("properties", name, "it tells where the letter was, and a copy that is sent has none")
        if value is not None:
            property_of(name, value)
    if isinstance(body, Unset) and not properties:
        raise InvalidSettingError(
            "change the body or a property; to send the letter as it is, retry it", setting="body", value=None
        )
    return LetterEdit(body=body, properties=dict(properties))


def edited(sent: Outgoing, letter: DeadLetter, edit: LetterEdit) -> tuple[Outgoing, str]:
    """The record that sends the letter, changed, with an id of its own; and that id.

    Raises:
        MessageFormatError: the body is of a kind that is not edited, or the new one is not of it.
    """
    message_id = f"ID:edited-{secrets.token_hex(8)}:1"
    taken_away = {MESSAGE_ID_HEADER, *edit.properties, COPY_OF}
    headers = [
        header
        for header in sent.headers
        if header[0] not in taken_away and property_of_header(header[0])[1] not in taken_away
    ]
    before = header_property(sent.headers, COPY_OF)
    origin = before.value if before is not None and isinstance(before.value, str) else letter.message_id
    headers += [
        (MESSAGE_ID_HEADER, message_id.encode()),
        property_header(COPY_OF, Property("string", origin)),
        *(
            property_header(name, property_of(name, value))
            for name, value in edit.properties.items()
            if value is not None
        ),
    ]
    value = sent.value if isinstance(edit.body, Unset) else _value(sent, edit.body)
    return Outgoing(sent.topic, sent.partition, sent.key, value, headers, None, sent.batch_bytes_max), message_id


def _value(sent: Outgoing, body: str | bytes) -> bytes:
    kind = body_kind(sent.headers)
    if isinstance(body, str):
        try:
            value = body.encode()
        except UnicodeEncodeError as fault:
            raise MessageFormatError(f"body: {no_utf8(fault, ', or give bytes')}") from None
    else:
        value = body
    if kind == TEXT:
        try:
            value.decode()
        except UnicodeDecodeError as fault:
            raise MessageFormatError(f"the letter is text, and what is given is not UTF-8: {fault}") from None
    elif kind == OBJECT and codec_name(sent.headers) == JSON:
        try:
            read_json(value)
        except ValueError as fault:
            raise MessageFormatError(f"the letter is an object in JSON, and what is given is not: {fault}") from None
    elif kind not in (None, BYTES):
        announced = kind.decode(errors="backslashreplace")
        raise MessageFormatError(
            f"the letter's body is a {announced}, which is not edited as text: receive it, and send another message"
        )
    return value
