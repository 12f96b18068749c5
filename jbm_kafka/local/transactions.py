"""Transactions in one process: one at a time per context, so threads and tasks each have their own.

Several channels of ours commit by one write, whole or not there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType

from jbm_kafka.contract import TransactionManager, TransactionResource
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
)
from jbm_kafka.local.state import LocalChannelState, commit_together


class _Transaction:
    """An open transaction. A context copied while it was open still names it, so it remembers that it is over."""

    def __init__(self) -> None:
        self.transaction_id = uuid.uuid4().hex
        self.resources: list[TransactionResource] = []
        self.is_over = False


_open: ContextVar[Mapping[object, _Transaction]] = ContextVar("open_transactions", default=MappingProxyType({}))
"""The open transactions of this context, by manager."""


class LocalTransactionManager(TransactionManager):
    """Begins and ends the transactions of one process."""

    @property
    def current(self) -> str | None:
        transaction = _open.get().get(self)
        return None if transaction is None or transaction.is_over else transaction.transaction_id

    def begin(self) -> str:
        current = self.current
        if current is not None:
            told = f"transaction {current} is open here; commit or roll back first"
            raise TransactionInProgressError(told, transaction_id=current)
        transaction = _Transaction()
        _open.set(MappingProxyType({**_open.get(), self: transaction}))
        return transaction.transaction_id

    def commit(self) -> None:
        """Commit on every enlisted resource: first on the channels of ours, all of which must agree.

        On one persistence manager these commit by one write. They offer what was sent when everybody has committed.

        Raises:
            TransactionRolledBackError: a resource could not; all of it is rolled back.
            TransactionInDoubtError: a resource failed after another had committed; the rest is rolled back.
            IllegalStateError: no transaction is open.
        """
        name, resources = self._end("commit")
        channels = [each for each in resources if isinstance(each, LocalChannelState)]
        others = [each for each in resources if not isinstance(each, LocalChannelState)]
        left, offering = list(resources), list[Callable[[], None]]()
        try:
            commit_together(channels, name)
            left, offering = list(others), [each.offer_committed for each in channels]
            for resource in others:
                resource.commit_transaction(name)
                left.remove(resource)
        except BaseException as error:
            with suppress(Exception):
                _roll_back(left, name)
            if not isinstance(error, Exception):
                raise
            done = len(resources) - len(left)
            if done:
                told = f"transaction {name} committed on {done} of {len(resources)} resources: {error}"
                raise TransactionInDoubtError(told, transaction_id=name) from error
            told = f"transaction {name} was rolled back: {error}"
            raise TransactionRolledBackError(told, transaction_id=name) from error
        finally:
            for offer in offering:
                offer()

    def rollback(self) -> None:
        """Roll back on every enlisted resource, also when one of them fails, whose error is then raised.

        Raises:
            IllegalStateError: no transaction is open.
        """
        name, resources = self._end("roll back")
        _roll_back(resources, name)

    @contextmanager
    def transaction(self) -> Iterator[str]:
        transaction_id = self.begin()
        try:
            yield transaction_id
        except BaseException:
            if self.current == transaction_id:
                self.rollback()
            raise
        if self.current == transaction_id:
            self.commit()

    def enlist(self, resource: TransactionResource, /) -> None:
        resources = self._opened("enlist in").resources
        if not any(known is resource for known in resources):
            resources.append(resource)

    def _opened(self, act: str) -> _Transaction:
        if self.current is None:
            raise IllegalStateError(f"no transaction is open here to {act}; begin one first")
        return _open.get()[self]

    def _end(self, act: str) -> tuple[str, Sequence[TransactionResource]]:
        transaction = self._opened(act)
        transaction.is_over = True
        _open.set(MappingProxyType({key: value for key, value in _open.get().items() if key is not self}))
        return transaction.transaction_id, transaction.resources


def _roll_back(resources: Sequence[TransactionResource], transaction_id: str) -> None:
    failed: Exception | None = None
    for resource in resources:
        try:
            resource.rollback_transaction(transaction_id)
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed
