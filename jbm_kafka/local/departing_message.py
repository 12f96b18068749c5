"""A message on its way out of a channel: a part of the transaction that brings its copy to another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from jbm_kafka.core import changes as c
from jbm_kafka.core.jms_errors import TransactionRolledBackError
from jbm_kafka.local.recording import Writing, write_together
from jbm_kafka.local.state import LocalChannelState


class DepartingMessage:
    """One message that leaves, as a resource of transactions."""

    def __init__(self, state: LocalChannelState, change: c.ContractChange, may_go: Callable[[], bool]) -> None:
        """By this change it is gone; `may_go`, asked with the lock held: nothing else has become of it."""
        self._state = state
        self._change = change
        self._may_go = may_go

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The channel's."""
        return self._state.lock

    @property
    def offer_committed(self) -> Callable[[], None]:
        """What waits behind it goes with the next message."""
        return lambda: None

    def is_wanted(self) -> bool:
        """It is still to go."""
        with self._state.lock:
            return self._may_go()

    def go(self) -> bool:
        """It is gone now, and nothing else with it; False: something else has become of it."""
        with self._state.lock:
            if not self._may_go():
                return False
            self._state.ledger.change(self._change)
            return True

    def prepare_transaction(self, transaction_id: str, /) -> None:
        """Raises TransactionRolledBackError when something else has become of it."""
        if not self.is_wanted():
            raise TransactionRolledBackError(
                f"channel {self._state.name!r}: the message is settled", transaction_id=transaction_id
            )

    def commit_transaction(self, transaction_id: str, /) -> None:
        """It is gone."""
        with self._state.lock:
            self.prepare_transaction(transaction_id)
            write_together([self.commit_writing(transaction_id)])
            self.commit_recorded(transaction_id)

    def commit_writing(self, transaction_id: str, /) -> Writing:
        """What to write so that it is gone."""
        return self._state.ledger.writing_of([self._change])

    def commit_recorded(self, transaction_id: str, /) -> None:
        """That is written."""
        self._state.ledger.take_effect([self._change])

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """It stays."""
