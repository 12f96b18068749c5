"""A message store for several channels: every message once, until all of its holders have let go (STORE-1).

Messages are in memory. A reliable one is also a record of the store's persistence manager, as long as a holder that
survives a restart has it: the caller of `store`, and channels from the commit on. Channels of ours record a body in the
same write as their reference to it (`write_together`), so neither is ever there without the other.
"""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jbm_kafka.contract import CoreMessage, MessageStore, PersistenceManager, TransactionManager
from jbm_kafka.core.jms_errors import CorruptRecordError, IllegalStateError, MessageFormatError, UnknownMessageError
from jbm_kafka.local.channel_messages import LocalMessage, StoredReference, reference_to
from jbm_kafka.local.persistence_managers import Records

_BODY = "body|"
_HOLDERS = "holders|"
"""How many hold it, when that is not one. Beside the body, for that is not written again when another comes."""
_BYTES = "base64"
_LOCK: Final = threading.RLock()
"""One for all stores: two transactions over several of them would wait for each other."""


@dataclass(slots=True)
class _Kept:
    message: CoreMessage
    holders: int = 0
    recorded: int = 0
    """How many of them survive a restart; never more than all."""


class MemoryMessageStore(MessageStore):
    """Messages as the objects they are. The reliable ones come back from `persistence_manager` after a restart.

    Without one the store is not reliable, and takes no reliable message.
    """

    store_id = ""
    """Its name in references."""
    transaction_manager: TransactionManager | None = None
    """Part of the contract's Managed; the store itself takes part in no transaction."""
    is_transactional = False
    """It keeps and removes at once, whatever becomes of a transaction: channels commit their references."""

    def __init__(self, store_id: str, *, persistence_manager: PersistenceManager | None = None) -> None:
        self.store_id = store_id
        self._kept: dict[str, _Kept] = {}
        self.persistence_manager = persistence_manager

    @property
    def persistence_manager(self) -> PersistenceManager | None:
        """Where reliable messages are written; what an earlier store of this id wrote there is taken over."""
        return self._persistence_manager

    @persistence_manager.setter
    def persistence_manager(self, manager: PersistenceManager | None) -> None:
        with _LOCK:
            if manager is not None:
                for name, kept in self._kept.items():  # what the manager before had recorded, this one records too
                    manager.write(self.store_id, _records_of(name, kept.message, 0, kept.recorded))
                self._recover(manager.read(self.store_id))
            self._persistence_manager = manager

    @property
    def is_reliable(self) -> bool:
        manager = self._persistence_manager
        return manager is not None and manager.is_reliable

    def store(self, message: CoreMessage, /) -> StoredReference:
        """Keep the message once more; a reliable one is recorded when this returns.

        Raises:
            IllegalStateError: it is reliable and this store is not; or another message has its id.
            MessageFormatError: it is reliable, and its body or a header cannot be written.
        """
        reference = self.hold(message)
        try:
            self._record(message.message_id, 1 if message.is_reliable else 0)
        except BaseException:
            self.release(message.message_id)
            raise
        return reference

    def retrieve(self, message_id: str, /) -> CoreMessage:
        with _LOCK:
            return self._held(message_id).message

    def remove(self, message_id: str, /) -> None:
        with _LOCK:
            self._record(message_id, -1 if self._held(message_id).recorded else 0)
            self.release(message_id)

    # -- for channels, which record bodies with their references -----------------------------------------------

    def hold(self, message: CoreMessage) -> StoredReference:
        """Keep the message once more, in memory only; see `store` for what is refused."""
        name = message.message_id
        if message.is_reliable and not self.is_reliable:
            raise IllegalStateError(f"message {name!r} is reliable and store {self.store_id!r} is not", message_id=name)
        with _LOCK:
            if name not in self._kept and message.is_reliable:
                encode_message(message)  # refused now rather than when it is to be recorded
            kept = self._kept.get(name) or _Kept(message)
            if not _is_same(kept.message, message):
                told = f"store {self.store_id!r} holds another message with the id {name!r}"
                raise IllegalStateError(told, message_id=name)
            kept.holders += 1
            self._kept[name] = kept
        return reference_to(message, self.store_id)

    def release(self, message_id: str) -> None:
        """Let go of it once, in memory only."""
        with _LOCK:
            kept = self._held(message_id)
            kept.holders -= 1
            if not kept.holders:
                del self._kept[message_id]

    def records_of(self, changes: Mapping[str, int]) -> dict[str, bytes | None]:
        """Return what to write so that so many more of each message's holders survive a restart, or fewer."""
        records: dict[str, bytes | None] = {}
        for name, change in changes.items():
            if (kept := self._kept.get(name)) is not None:
                records |= _records_of(name, kept.message, kept.recorded, max(0, kept.recorded + change))
        return records

    def recorded(self, changes: Mapping[str, int]) -> None:
        """Note that it was written."""
        for name, change in changes.items():
            if (kept := self._kept.get(name)) is not None:
                kept.recorded = max(0, kept.recorded + change)

    # -- leaves ------------------------------------------------------------------------------------------------

    def _record(self, message_id: str, change: int) -> None:
        write_together([Writing("", None, {}, self, {message_id: change})])

    def _recover(self, records: Mapping[str, bytes]) -> None:
        for key, value in records.items():
            if key.startswith(_BODY) and (name := key.removeprefix(_BODY)) not in self._kept:
                message = decode_message(value)
                if message.message_id != name:
                    raise CorruptRecordError(f"record {key!r} holds message {message.message_id!r}")
                number = int(records.get(_HOLDERS + name, b"1"))
                self._kept[name] = _Kept(message, holders=number, recorded=number)

    def _held(self, message_id: str) -> _Kept:
        kept = self._kept.get(message_id)
        if kept is None:
            raise UnknownMessageError(f"store {self.store_id!r} holds no message {message_id!r}", message_id=message_id)
        return kept


def _records_of(name: str, message: CoreMessage, before: int, number: int) -> dict[str, bytes | None]:
    """Return what to write so that `number` holders of a message are recorded, where there were so many `before`."""
    records: dict[str, bytes | None] = {}
    if bool(number) != bool(before):
        records[_BODY + name] = encode_message(message) if number else None
    if (number > 1 or before > 1) and number != before:
        records[_HOLDERS + name] = str(number).encode() if number > 1 else None
    return records


def _is_same(one: CoreMessage, other: CoreMessage) -> bool:
    """Return True if two messages of one id say the same; their classes need not know how to compare."""
    names = ("body", "headers", "unit_of_order", "priority", "expiration_ms")
    return one is other or all(getattr(one, name) == getattr(other, name) for name in names)


def encode_message(message: CoreMessage) -> bytes:
    """The record of a message: JSON, a text for people too. It is reliable, even where its first sender said not so.

    Raises:
        MessageFormatError: its body or a header is neither bytes nor what JSON can say, or its id is not UTF-8.
    """
    name = message.message_id
    try:
        name.encode()  # part of a record's key
        row = {each: getattr(message, each) for each in ("message_id", "priority", "expiration_ms", "unit_of_order")}
        headers = {key: _written(value) for key, value in message.headers.items()}
        row.update(body=_written(message.body), is_reliable=True, headers=headers)
        text = json.dumps(row).encode()
        read = decode_message(text)
        if read.body != message.body or read.headers != message.headers:
            raise ValueError("its body or a header would not come back as it is")
    except (TypeError, ValueError) as fault:
        raise MessageFormatError(
            f"message {name!r} cannot be kept: {fault}; send text, bytes, numbers, lists and maps by name, or send it "
            "as not reliable",
            message_id=name,
        ) from fault
    return text


def decode_message(text: bytes) -> LocalMessage:
    """The message that was kept, as a `LocalMessage`, whatever class it was of.

    Raises:
        CorruptRecordError: no store wrote this.
    """
    try:
        row = json.loads(text)
        body, headers = _read(row.pop("body")), {name: _read(value) for name, value in row.pop("headers").items()}
        return LocalMessage(body=body, headers=headers, **row)
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise CorruptRecordError(f"a record is no message of a store: {fault}") from fault


def _written(value: object) -> object:
    return {"value": value} if not isinstance(value, bytes) else {_BYTES: base64.b64encode(value).decode()}


def _read(row: Mapping[str, object]) -> object:
    return base64.b64decode(str(row[_BYTES])) if _BYTES in row else row["value"]


# -- one write -----------------------------------------------------------------------------------------------------


_Step = tuple[PersistenceManager | None, str, Records]
"""What one manager writes for one owner."""


@dataclass(frozen=True, slots=True)
class Writing:
    """The records that one channel has to write, with the bodies these need."""

    owner_id: str
    manager: PersistenceManager | None
    records: Records
    store: MessageStore
    bodies: Mapping[str, int]
    """The change in the number of a body's holders that survive a restart, by message id; negative: fewer."""


def write_together(writings: Sequence[Writing]) -> None:
    """Write all of it as one, where one persistence manager has all of it and can write for several owners (ours can).

    Else bodies come before the references to them and leave after them: a crash between two writes may leave a body
    that nobody needs, never a reference without its body.
    """
    bodies: dict[MemoryMessageStore, Counter[str]] = {}
    for each in writings:
        if isinstance(each.store, MemoryMessageStore):  # others recorded them when they stored
            bodies.setdefault(each.store, Counter()).update(each.bodies)
    with _LOCK:
        come, go = list[_Step](), list[_Step]()
        for store, by in bodies.items():
            manager, records = store.persistence_manager, store.records_of(by)
            come.append((manager, store.store_id, {key: value for key, value in records.items() if value is not None}))
            go.append((manager, store.store_id, {key: None for key, value in records.items() if value is None}))
        _write([*come, *((each.manager, each.owner_id, each.records) for each in writings), *go])
        for store, by in bodies.items():
            store.recorded(by)


def _write(steps: Sequence[_Step]) -> None:
    steps = [step for step in steps if step[0] is not None and step[2]]
    write_all = getattr(steps[0][0], "write_all", None) if steps else None
    if write_all is not None and all(manager is steps[0][0] for manager, _, _ in steps):
        together: dict[str, dict[str, bytes | None]] = {}
        for _, owner_id, records in steps:
            together.setdefault(owner_id, {}).update(records)
        write_all(together)
        return
    for manager, owner_id, records in steps:
        if manager is not None:
            manager.write(owner_id, records)
