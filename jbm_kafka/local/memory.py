"""A message store and a persistence manager in memory, reliable for the life of the process."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from jbm_kafka.contract import CoreMessage, PersistenceManager, TransactionManager
from jbm_kafka.core.call_arguments import explained
from jbm_kafka.core.errors import IllegalStateError, UnknownMessageError
from jbm_kafka.local.messages import StoredReference, as_stored, reference_to


@explained
class MemoryPersistenceManager:
    """Records that outlive the objects that wrote them, but not the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, dict[str, bytes]] = {}

    @property
    def is_reliable(self) -> bool:
        return True

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        with self._lock:
            owned = self._owners.setdefault(owner_id, {})
            for key, value in records.items():
                if value is None:
                    owned.pop(key, None)
                else:
                    owned[key] = value

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        with self._lock:
            return dict(self._owners.get(owner_id, {}))


@explained
class MemoryMessageStore:
    """Messages as the objects they are, each until everybody who stored it has removed it.

    It rests on a persistence manager for its claim to be reliable: one in memory unless another is set, none to make
    the store unreliable. The messages themselves are always in memory.
    """

    persistence_manager: PersistenceManager | None
    transaction_manager: TransactionManager | None

    def __init__(self, store_id: str) -> None:
        self.persistence_manager = MemoryPersistenceManager()
        self.transaction_manager = None
        self._store_id = store_id
        self._lock = threading.Lock()
        self._messages: dict[str, tuple[CoreMessage, int]] = {}

    def __repr__(self) -> str:
        return f"MemoryMessageStore({self._store_id!r})"

    @property
    def store_id(self) -> str:
        return self._store_id

    @property
    def is_reliable(self) -> bool:
        return self.persistence_manager is not None and self.persistence_manager.is_reliable

    @property
    def is_transactional(self) -> bool:
        return self.transaction_manager is not None

    def store(self, message: CoreMessage, /) -> StoredReference:
        """Keep the message once more.

        Raises:
            IllegalStateError: it is reliable and this store is not; or another message has its id.
        """
        message = as_stored(message)
        name = message.message_id
        if message.is_reliable and not self.is_reliable:
            raise IllegalStateError(
                f"message {name!r} is reliable and store {self._store_id!r} is not", message_id=name
            )
        with self._lock:
            held, count = self._messages.get(name, (message, 0))
            if not _is_same(held, message):
                raise IllegalStateError(
                    f"store {self._store_id!r} holds another message with the id {name!r}", message_id=name
                )
            self._messages[name] = (held, count + 1)
        return reference_to(message, self._store_id)

    def retrieve(self, message_id: str, /) -> CoreMessage:
        with self._lock:
            return self._held(message_id)[0]

    def remove(self, message_id: str, /) -> None:
        with self._lock:
            message, count = self._held(message_id)
            if count > 1:
                self._messages[message_id] = (message, count - 1)
            else:
                del self._messages[message_id]

    def _held(self, message_id: str) -> tuple[CoreMessage, int]:
        held = self._messages.get(message_id)
        if held is None:
            raise UnknownMessageError(
                f"store {self._store_id!r} holds no message {message_id!r}", message_id=message_id
            )
        return held


def _is_same(one: CoreMessage, other: CoreMessage) -> bool:
    """Whether two messages of one id say the same; their classes need not know how to compare."""
    return one is other or (
        one.body == other.body
        and one.headers == other.headers
        and one.unit_of_order == other.unit_of_order
        and one.priority == other.priority
        and one.expiration_ms == other.expiration_ms
    )
