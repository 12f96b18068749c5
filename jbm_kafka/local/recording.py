"""What channels write: their records together with the bodies these need, of one channel or of all in a transaction.

On one persistence manager that can write for several owners at once (`JointPersistenceManager`; ours can) all of it is
one write, whole or not there. Else bodies come before the references to them and leave after them: a crash between two
writes may leave a body that nobody needs, never a reference without its body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jbm_kafka.contract import CoreMessage, MessageReference, MessageStore, PersistenceManager
from jbm_kafka.core.jms_errors import UnknownMessageError
from jbm_kafka.local.message_store import MemoryMessageStore

Records = Mapping[str, bytes | None]


@runtime_checkable
class JointPersistenceManager(Protocol):
    """A persistence manager that writes for several owners at once."""

    def write_all(self, records: Mapping[str, Records], /) -> None:
        """Keep the records of all these owners or, when it raises, none."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What one channel has to write."""

    owner_id: str
    manager: PersistenceManager | None
    records: Records
    store: MessageStore
    bodies: Mapping[str, int]
    """By message id, how many more of the body's holders survive a restart; negative: fewer."""


def keep_body(store: MessageStore, message: CoreMessage) -> tuple[MessageReference, bool]:
    """Store the body of a message; and whether it is recorded already, or has to be with the reference."""
    if isinstance(store, MemoryMessageStore):
        return store.hold(message), False
    return store.store(message), message.is_reliable


def drop_body(store: MessageStore, message_id: str) -> None:
    """Let go of a body; what was recorded of it is deleted already."""
    with suppress(UnknownMessageError):  # the application may have removed it from the store itself
        if isinstance(store, MemoryMessageStore):
            store.release(message_id)
        else:
            store.remove(message_id)


def write_together(writings: Sequence[Writing]) -> None:
    """Write all of it as one, where the persistence managers can."""
    with ExitStack() as locks:
        steps = _Steps()
        for store, changes in _by_store(writings):
            records = locks.enter_context(store.recording(changes))
            assert store.persistence_manager is not None or not records, store
            steps.bodies(store.persistence_manager, store.store_id, records)
        for writing in writings:
            steps.references(writing.manager, writing.owner_id, writing.records)
        steps.write()


def _by_store(writings: Sequence[Writing]) -> list[tuple[MemoryMessageStore, dict[str, int]]]:
    """What each store of ours has to record; always in the same order of stores, which are locked one after the other.

    A store that is not ours has recorded its bodies when they were stored.
    """
    found: dict[int, tuple[MemoryMessageStore, dict[str, int]]] = {}
    for writing in writings:
        if isinstance(writing.store, MemoryMessageStore) and writing.bodies:
            _, changes = found.setdefault(id(writing.store), (writing.store, {}))
            for name, change in writing.bodies.items():
                changes[name] = changes.get(name, 0) + change
    return [found[key] for key in sorted(found)]


class _Steps:
    """Bodies that come, references, bodies that go."""

    def __init__(self) -> None:
        self._managers: dict[int, PersistenceManager] = {}
        self._steps: list[dict[tuple[int, str], dict[str, bytes | None]]] = [{}, {}, {}]

    def bodies(self, manager: PersistenceManager | None, owner_id: str, records: Records) -> None:
        self._add(0, manager, owner_id, {key: value for key, value in records.items() if value is not None})
        self._add(2, manager, owner_id, {key: value for key, value in records.items() if value is None})

    def references(self, manager: PersistenceManager | None, owner_id: str, records: Records) -> None:
        self._add(1, manager, owner_id, records)

    def write(self) -> None:
        manager = next(iter(self._managers.values()), None)
        if len(self._managers) == 1 and isinstance(manager, JointPersistenceManager):
            together: dict[str, dict[str, bytes | None]] = {}
            for step in self._steps:
                for (_, owner_id), records in step.items():
                    together.setdefault(owner_id, {}).update(records)
            manager.write_all(together)
            return
        for step in self._steps:
            for (key, owner_id), records in step.items():
                self._managers[key].write(owner_id, records)

    def _add(self, step: int, manager: PersistenceManager | None, owner_id: str, records: Records) -> None:
        if records and manager is not None:
            self._managers[id(manager)] = manager
            self._steps[step].setdefault((id(manager), owner_id), {}).update(records)
