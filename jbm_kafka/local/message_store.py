"""A message store for several channels: every message once, until all of its holders have let go (STORE-1).

Messages are in memory. A reliable one is also a record of the store's persistence manager, as long as a holder that
survives a restart has it: the caller of `store`, and channels from the commit on. Channels of ours record a body in the
same write as their reference to it (recording.py), so neither is ever there without the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jbm_kafka.contract import CoreMessage, PersistenceManager, TransactionManager
from jbm_kafka.core.jms_errors import CorruptRecordError, IllegalStateError, UnknownMessageError
from jbm_kafka.local.channel_messages import StoredReference, as_stored, reference_to
from jbm_kafka.local.stored_bodies import decode_message, encode_message

_BODY = "body|"
_HOLDERS = "holders|"
"""How many hold it, when that is not one. Beside the body, for that is not written again when another comes."""


@dataclass(slots=True)
class _Kept:
    message: CoreMessage
    holders: int = 0
    recorded: int = 0
    """How many of them survive a restart; never more than all."""
    text: bytes | None = None
    """What to record of it, until it is recorded."""


class MemoryMessageStore:
    """Messages as the objects they are. The reliable ones come back from `persistence_manager` after a restart.

    Without one the store is not reliable, and takes no reliable message.
    """

    transaction_manager: TransactionManager | None
    """Of the contract's Managed; the store itself takes part in no transaction."""

    def __init__(self, store_id: str, *, persistence_manager: PersistenceManager | None = None) -> None:
        self.transaction_manager = None
        self._store_id = store_id
        self._lock = threading.RLock()
        self._kept: dict[str, _Kept] = {}
        self.persistence_manager = persistence_manager

    def __repr__(self) -> str:
        return f"MemoryMessageStore({self._store_id!r})"

    @property
    def store_id(self) -> str:
        """What references into it are known by, through a restart too."""
        return self._store_id

    @property
    def persistence_manager(self) -> PersistenceManager | None:
        """Where reliable messages are written; what an earlier store of this id wrote there is taken over."""
        return self._persistence_manager

    @persistence_manager.setter
    def persistence_manager(self, manager: PersistenceManager | None) -> None:
        with self._lock:
            if manager is not None:
                self._carry_over(manager)
                self._recover(manager.read(self._store_id))
            self._persistence_manager = manager

    @property
    def is_reliable(self) -> bool:
        """It takes reliable messages: what it writes to outlives a restart."""
        manager = self._persistence_manager
        return manager is not None and manager.is_reliable

    @property
    def is_transactional(self) -> bool:
        """It keeps and removes at once, whatever becomes of a transaction: channels commit their references."""
        return False

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
        """The message. Raises UnknownMessageError when it is not kept."""
        with self._lock:
            return self._held(message_id).message

    def remove(self, message_id: str, /) -> None:
        """Keep it once less; the last time, no more. Raises UnknownMessageError when it is not kept."""
        with self._lock:
            self._record(message_id, -1 if self._held(message_id).recorded else 0)
            self.release(message_id)

    # -- for channels, which record bodies with their references -----------------------------------------------

    def hold(self, message: CoreMessage) -> StoredReference:
        """Keep the message once more, in memory only; see `store` for what is refused."""
        message = as_stored(message)
        name = message.message_id
        if message.is_reliable and not self.is_reliable:
            raise IllegalStateError(
                f"message {name!r} is reliable and store {self._store_id!r} is not", message_id=name
            )
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                kept = _Kept(message, text=encode_message(message) if message.is_reliable else None)
            elif not _is_same(kept.message, message):
                raise IllegalStateError(
                    f"store {self._store_id!r} holds another message with the id {name!r}", message_id=name
                )
            kept.holders += 1
            self._kept[name] = kept
        return reference_to(message, self._store_id)

    def release(self, message_id: str) -> None:
        """Let go of it once, in memory only."""
        with self._lock:
            kept = self._held(message_id)
            kept.holders -= 1
            if not kept.holders:
                del self._kept[message_id]

    @contextmanager
    def recording(self, changes: Mapping[str, int]) -> Iterator[dict[str, bytes | None]]:
        """Within the block write these records: so many more of each message's holders survive a restart, or fewer.

        When the block raises, they are not recorded.
        """
        with self._lock:
            known = {name: change for name, change in changes.items() if change and name in self._kept}
            numbers = {name: max(0, self._kept[name].recorded + change) for name, change in known.items()}
            records: dict[str, bytes | None] = {}
            for name, number in numbers.items():
                records.update(self._records_of(self._kept[name], name, number))
            yield records
            for name, number in numbers.items():
                kept = self._kept[name]
                kept.recorded, kept.text = number, None if number else kept.text

    # -- leaves ------------------------------------------------------------------------------------------------

    def _records_of(self, kept: _Kept, name: str, number: int) -> dict[str, bytes | None]:
        records: dict[str, bytes | None] = {}
        if number and not kept.recorded:
            records[_BODY + name] = kept.text or encode_message(kept.message)
        if kept.recorded and not number:
            records[_BODY + name] = None
        if (number > 1 or kept.recorded > 1) and number != kept.recorded:
            records[_HOLDERS + name] = str(number).encode() if number > 1 else None
        return records

    def _record(self, message_id: str, change: int) -> None:
        manager = self._persistence_manager
        if change and manager is not None:
            with self.recording({message_id: change}) as records:
                manager.write(self._store_id, records)

    def _recover(self, records: Mapping[str, bytes]) -> None:
        for key, value in records.items():
            if key.startswith(_BODY) and (name := key.removeprefix(_BODY)) not in self._kept:
                message = decode_message(value)
                if message.message_id != name:
                    raise CorruptRecordError(f"record {key!r} holds message {message.message_id!r}")
                number = int(records.get(_HOLDERS + name, b"1"))
                self._kept[name] = _Kept(message, holders=number, recorded=number)

    def _carry_over(self, manager: PersistenceManager) -> None:
        """What the manager before had recorded, this one records too."""
        records: dict[str, bytes | None] = {}
        for name, kept in self._kept.items():
            if kept.recorded:
                before = _Kept(kept.message, text=kept.text)
                records.update(self._records_of(before, name, kept.recorded))
        if records:
            manager.write(self._store_id, records)

    def _held(self, message_id: str) -> _Kept:
        kept = self._kept.get(message_id)
        if kept is None:
            raise UnknownMessageError(
                f"store {self._store_id!r} holds no message {message_id!r}", message_id=message_id
            )
        return kept


def _is_same(one: CoreMessage, other: CoreMessage) -> bool:
    """Whether two messages of one id say the same; their classes need not know how to compare."""
    return one is other or (
        one.body == other.body
        and one.headers == other.headers
        and one.unit_of_order == other.unit_of_order
        and one.priority == other.priority
        and one.expiration_ms == other.expiration_ms
    )
