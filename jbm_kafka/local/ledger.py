"""The messages of one channel in this process: by id, in the core's state, and in the channel's records.

What settles a message deletes its record first, so that nothing settled comes back; what happens to it otherwise is
written afterwards. The body of a reliable message is recorded and deleted in the write that does it to the reference
(recording.py). Everything here is called with the lock held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from jbm_kafka.contract import MessageReference, MessageState, MessageStore, PersistenceManager
from jbm_kafka.core import changes as c
from jbm_kafka.core.jms_errors import UnknownMessageError
from jbm_kafka.core.reference import DEPARTING, GateKey, Reference
from jbm_kafka.local.channel_messages import reference_to
from jbm_kafka.local.contract_state import ContractChannelState
from jbm_kafka.local.handover import decide_examination, is_waiting, message_state
from jbm_kafka.local.recording import Writing, drop_body, write_together
from jbm_kafka.local.records import MessageRecord, decode_records, record_key, recovery_entries

logger = logging.getLogger(__name__)


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
        self.without_body_record: set[int] = set()
        """Reliable messages whose body this channel has to record with its reference."""
        self.unoffered: dict[GateKey, None] = {}
        """Units in which there may be a message that can go and that nobody was offered yet."""

    def hold(self, reference: MessageReference, *, transaction: str | None, has_body_record: bool) -> None:
        """Take a message in, NOT_COMMITTED in that transaction, else NEW."""
        added = core_reference(self.core.end_position, reference)
        if reference.is_reliable and not has_body_record:
            self.without_body_record.add(added.offset)
        if transaction is not None:
            self.core.apply(c.AddedUncommitted(transaction, [added]))
        else:
            try:
                write_together([self.writing([added], [])])
            except BaseException:
                self.without_body_record.discard(added.offset)
                raise
            self.without_body_record.discard(added.offset)
            self.core.apply(c.Fetched(added.offset, added.offset + 1, [added]))
            self.core.apply(decide_examination(self.core))
        self._enter(added)
        self.unoffered[added.gate_key] = None

    def change(self, *changes: c.ContractChange) -> None:
        """Make these changes as one. When the persistence manager raises before anything settled, nothing changed."""
        write_together([self.writing_of(changes)])
        self.take_effect(changes)

    def writing_of(self, changes: Iterable[c.ContractChange], committed: Iterable[Reference] = ()) -> Writing:
        """What to write before these changes; `committed` are messages that become NEW by them."""
        settled = [self.by_offset[offset] for each in changes for offset in _settled_by(each)]
        return self.writing(list(committed), settled)

    def take_effect(self, changes: Iterable[c.ContractChange], committed: Iterable[Reference] = ()) -> None:
        """Make the changes for which `writing_of` was written."""
        settled = [self.by_offset[offset] for each in changes for offset in _settled_by(each)]
        self.without_body_record.difference_update(reference.offset for reference in committed)
        touched = [self.by_offset[offset] for each in changes for offset in self._touched_by(each)]
        for each in changes:
            self.core.apply(each)
        self.came_free([*settled, *committed])
        self.forget(settled)
        self.write(
            {
                record_key(reference.offset): self._record(reference).encode()
                for reference in touched
                if reference.offset in self.by_offset and contract_reference(reference).is_reliable
            }
        )

    def came_free(self, references: Iterable[Reference]) -> None:
        """What waits behind these in their units may be able to go now."""
        gates = self.core.gates.by_key
        self.unoffered.update((r.gate_key, None) for r in references if r.gate_key in gates)

    def everything_unoffered(self) -> None:
        """A receiver has come that was offered nothing yet."""
        self.unoffered.update((key, None) for key, gate in self.core.gates.by_key.items() if gate.waiting)

    def forget(self, references: Iterable[Reference]) -> None:
        """These left the channel; its share in their bodies goes too."""
        for reference in references:
            message_id = message_id_of(reference)
            del self.held[message_id], self.by_offset[reference.offset]
            self.without_body_record.discard(reference.offset)
            drop_body(self.message_store, message_id)

    def recover(self) -> list[MessageRecord]:
        """Hold again what an earlier channel of this name had recorded and its store still has, all of it NEW.

        Returns the records, for what else they tell.
        """
        if self.persistence_manager is None:
            return []
        records: list[MessageRecord] = []
        references: list[Reference] = []
        for record in decode_records(self.persistence_manager.read(self.name)):
            try:
                message = self.message_store.retrieve(record.message_id)
            except UnknownMessageError:
                logger.error(  # noqa: TRY400 - the trace says nothing more
                    "%s: message %s is recorded, but store %s does not have it; it is passed over",
                    self.name,
                    record.message_id,
                    self.message_store.store_id,
                )
                continue
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
        self.everything_unoffered()
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

    def writing(self, come: Sequence[Reference], gone: Sequence[Reference]) -> Writing:
        """What to write when these are held from now on, and those are not any more; the same one may be in both."""
        coming = {r.offset: r for r in come if contract_reference(r).is_reliable}
        going = {r.offset: r for r in gone if contract_reference(r).is_reliable}
        records: dict[str, bytes | None] = {
            record_key(offset): self._record(reference).encode() for offset, reference in coming.items()
        }
        records.update((record_key(offset), None) for offset in going)
        bodies: dict[str, int] = {}
        for offset in coming.keys() & self.without_body_record:
            bodies[message_id_of(coming[offset])] = 1
        for offset in going.keys() - self.without_body_record:
            bodies[message_id_of(going[offset])] = -1
        return Writing(self.name, self.persistence_manager, records, self.message_store, bodies)

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
        offset, redelivery = reference.offset, self.core.redeliveries.get(reference.offset)
        receiver = next((s for s, hand in self.core.in_hand.items() if offset in hand and s != DEPARTING), None)
        return MessageRecord(
            offset=offset,
            message_id=message_id_of(reference),
            attempts=0 if redelivery is None else redelivery.attempts,
            due_at_ms=0 if redelivery is None else redelivery.due_at_ms,
            delay_ms=0 if redelivery is None else redelivery.delay_ms,
            reason="" if redelivery is None else redelivery.reason,
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
