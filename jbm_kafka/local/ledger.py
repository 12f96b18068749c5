"""The messages of one channel in this process: by id, in the core's state, and in the channel's records.

What settles a message deletes its record first, so that nothing settled comes back; what happens to it otherwise is
written afterwards. Everything here is called with the lock held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from jbm_kafka.contract import MessageReference, MessageState, MessageStore, PersistenceManager
from jbm_kafka.core import changes as c
from jbm_kafka.core.errors import UnknownMessageError
from jbm_kafka.core.reference import DEPARTING, Reference
from jbm_kafka.local.contract_state import ContractChannelState
from jbm_kafka.local.handover import decide_examination, is_waiting, message_state
from jbm_kafka.local.messages import reference_to
from jbm_kafka.local.records import MessageRecord, decode_records, record_key, recovery_entries


class Ledger:
    """Holds references; every change of a message goes through `change`."""

    def __init__(
        self,
        name: str,
        *,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.message_store = message_store
        self.persistence_manager = persistence_manager
        self.clock_ms = clock_ms
        self.lock = threading.RLock()
        self.core = ContractChannelState()
        self.held: dict[str, Reference] = {}
        """Every message here, by id, in arrival order. The record of a reference is the contract's reference."""
        self.by_offset: dict[int, Reference] = {}

    def hold(self, reference: MessageReference, *, transaction: str | None) -> None:
        """Take a message in, NOT_COMMITTED in that transaction, else NEW."""
        added = core_reference(self.core.end_position, reference)
        if transaction is not None:
            self.core.apply(c.AddedUncommitted(transaction, [added]))
        else:
            self.write({record_key(added.offset): self._record(added).encode()} if reference.is_reliable else {})
            self.core.apply(c.Fetched(added.offset, added.offset + 1, [added]))
            self.core.apply(decide_examination(self.core))
        self._enter(added)

    def change(self, *changes: c.ContractChange, committed: Iterable[Reference] = ()) -> None:
        """Make these changes as one. `committed` are messages that become NEW by them.

        When the persistence manager raises before anything settled, nothing changed.
        """
        settled = [self.by_offset[offset] for each in changes for offset in _settled_by(each)]
        records: dict[str, bytes | None] = {
            record_key(reference.offset): self._record(reference).encode()
            for reference in committed
            if contract_reference(reference).is_reliable
        }
        records.update(
            (record_key(reference.offset), None) for reference in settled if contract_reference(reference).is_reliable
        )
        self.write(records)
        touched = [self.by_offset[offset] for each in changes for offset in self._touched_by(each)]
        for each in changes:
            self.core.apply(each)
        self.forget(settled)
        self.write(
            {
                record_key(reference.offset): self._record(reference).encode()
                for reference in touched
                if reference.offset in self.by_offset and contract_reference(reference).is_reliable
            }
        )

    def forget(self, references: Iterable[Reference]) -> None:
        """These left the channel; its share in their bodies goes too."""
        for reference in references:
            message_id = message_id_of(reference)
            del self.held[message_id], self.by_offset[reference.offset]
            with suppress(UnknownMessageError):  # the application may have removed it from the store itself
                self.message_store.remove(message_id)

    def recover(self) -> list[MessageRecord]:
        """Hold again what an earlier channel of this name had recorded and its store still has, all of it NEW.

        Returns the records, for what else they tell.
        """
        if self.persistence_manager is None:
            return []
        records: list[MessageRecord] = []
        references: list[Reference] = []
        for record in decode_records(self.persistence_manager.read(self.name)):
            with suppress(UnknownMessageError):  # without its body there is nothing to deliver
                message = self.message_store.retrieve(record.message_id)
                references.append(core_reference(record.offset, reference_to(message, self.message_store.store_id)))
                records.append(record)
        if not records:
            return []
        units = {reference.offset: reference.unit for reference in references}
        self.core.apply(c.TimePassed(self.clock_ms()))
        for entry in recovery_entries(self.name, records, units):
            self.core.apply(entry)
        self.core.apply(c.Fetched(references[0].offset, self.core.end_position, references))
        self.core.apply(decide_examination(self.core))
        for reference in references:
            self._enter(reference)
        return records

    def find(self, message_id: str) -> Reference:
        """The message's reference.

        Raises:
            UnknownMessageError: it is not here.
        """
        reference = self.held.get(message_id)
        if reference is None:
            raise UnknownMessageError(f"channel {self.name!r} holds no message {message_id!r}", message_id=message_id)
        return reference

    def stands(self, reference: Reference) -> MessageState | None:
        """Where a message stands; None when it has left."""
        return message_state(self.core, reference.offset)

    def is_waiting(self, reference: Reference) -> bool:
        """Whether it is NEW and not on its way out either."""
        return is_waiting(self.core, reference.offset)

    def write(self, records: Mapping[str, bytes | None]) -> None:
        """Write records, when there are any and somebody to keep them."""
        if records and self.persistence_manager is not None:
            self.persistence_manager.write(self.name, records)

    def _enter(self, reference: Reference) -> None:
        self.held[message_id_of(reference)] = reference
        self.by_offset[reference.offset] = reference

    def _touched_by(self, change: c.ContractChange) -> Sequence[int]:
        """Messages of which more than their place in memory changes, but which stay."""
        match change:
            case c.Offered(heads=heads):
                return [self.core.gates.by_key[taken.key].waiting[0].offset for taken in heads]
            case (
                c.Returned(messages=messages)
                | c.Transferred(messages=messages)
                | c.OfferedAgain(messages=messages)
                | c.DepartureFailed(messages=messages)
            ):
                return [message.offset for message in messages]
            case c.AcknowledgedEarly(reference=reference):
                return [reference.offset]
            case _:
                return []

    def _record(self, reference: Reference) -> MessageRecord:
        offset, past = reference.offset, self.core.past.get(reference.offset)
        receiver = next((s for s, hand in self.core.in_hand.items() if offset in hand and s != DEPARTING), None)
        return MessageRecord(
            offset=offset,
            message_id=message_id_of(reference),
            attempts=0 if past is None else past.attempts,
            due_at_ms=0 if past is None else past.due_at_ms,
            delay_ms=0 if past is None else past.delay_ms,
            reason="" if past is None else past.reason,
            receiver_id=receiver,
            is_acknowledged=receiver is not None and (receiver, offset) in self.core.early,
        )


def core_reference(offset: int, reference: MessageReference) -> Reference:
    """The core's reference to a message that takes this place."""
    unit = reference.unit_of_order
    return Reference(
        offset=offset,
        unit=unit.encode() if unit else None,
        priority=reference.priority,
        expiration_ms=reference.expiration_ms,
        record=reference,
    )


def contract_reference(reference: Reference) -> MessageReference:
    """The contract's reference that a channel of ours put into the core's."""
    return cast(MessageReference, reference.record)


def message_id_of(reference: Reference) -> str:
    """The message's id."""
    return contract_reference(reference).message_id


def _settled_by(change: c.ContractChange) -> Sequence[int]:
    match change:
        case c.Acknowledged(offsets=offsets):
            return offsets
        case c.Withdrawn(references=references):
            return [reference.offset for reference in references]
        case _:
            return []
