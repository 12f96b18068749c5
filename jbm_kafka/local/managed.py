"""The store and the managers that a channel and its state share."""

from __future__ import annotations

from typing import Generic, TypeVar

from jbm_kafka.contract import MessageStore, PersistenceManager, TransactionManager
from jbm_kafka.local.state import LocalChannelState
from jbm_kafka.local.topic_state import TopicState

State = TypeVar("State", LocalChannelState, TopicState)


class ManagedByState(Generic[State]):
    """The contract's Managed over a channel's state."""

    def __init__(self, state: State) -> None:
        self._state: State = state

    @property
    def state(self) -> State:
        """What the channel knows of its messages: the contract's ChannelState."""
        return self._state

    @property
    def message_store(self) -> MessageStore:
        """Where the bodies are."""
        return self._state.message_store

    @message_store.setter
    def message_store(self, store: MessageStore) -> None:
        self._state.message_store = store

    @property
    def persistence_manager(self) -> PersistenceManager | None:
        """Where the state is written; None: nowhere."""
        return self._state.persistence_manager

    @persistence_manager.setter
    def persistence_manager(self, manager: PersistenceManager | None) -> None:
        self._state.persistence_manager = manager

    @property
    def transaction_manager(self) -> TransactionManager | None:
        """Whose transactions it takes part in; None: in none."""
        return self._state.transaction_manager

    @transaction_manager.setter
    def transaction_manager(self, manager: TransactionManager | None) -> None:
        self._state.transaction_manager = manager

    @property
    def is_reliable(self) -> bool:
        """Its persistence manager and its store are (STATE-11)."""
        return self._state.is_reliable

    @property
    def is_transactional(self) -> bool:
        """It has a transaction manager."""
        return self._state.is_transactional
