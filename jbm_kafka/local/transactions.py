"""Transactions in one process: one at a time per context, so threads and tasks each have their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from jbm_kafka.contract import TransactionManager, TransactionResource
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
)
from jbm_kafka.local.recording import Writing, write_together


@runtime_checkable
class PreparingResource(Protocol):
    """A resource that can tell beforehand that it cannot commit, so that no other has committed by then."""

    def prepare_transaction(self, transaction_id: str, /) -> None:
        """Check that the transaction can commit.

        Raises:
            TransactionRolledBackError: it cannot.
        """


@runtime_checkable
class RecordingResource(Protocol):
    """A resource that tells what to write, so that a transaction over several of them is one write, whole or not there.

    Its methods are called with its lock held, from the first to the last.
    """

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Whose holder alone changes the resource."""

    def commit_writing(self, transaction_id: str, /) -> Writing:
        """What to write so that the transaction is committed here."""

    def commit_recorded(self, transaction_id: str, /) -> None:
        """That is written: make it effective."""

    @property
    def offer_committed(self) -> Callable[[], None]:
        """To be called when the whole transaction is committed, with no lock held."""


class _Transaction:
    """An open transaction. A context copied while it was open still names it, so it remembers that it is over."""

    def __init__(self) -> None:
        self.transaction_id = uuid.uuid4().hex
        self.resources: list[TransactionResource] = []
        self.is_over = False


_open: ContextVar[Mapping[object, _Transaction]] = ContextVar("open_transactions", default=MappingProxyType({}))
"""The open transactions of this context, by manager."""


_afterwards: ContextVar[list[Callable[[], None]] | None] = ContextVar("after_commit", default=None)
"""What waits in this context until a commit is over."""


def after_commit(action: Callable[[], None]) -> None:
    """Do this when the commit that runs here has committed every resource; at once when none runs."""
    waiting = _afterwards.get()
    if waiting is None:
        action()
    else:
        waiting.append(action)


@contextmanager
def _committing() -> Iterator[None]:
    waiting: list[Callable[[], None]] = []
    token = _afterwards.set(waiting)
    try:
        yield
    finally:
        _afterwards.reset(token)
        for action in waiting:
            action()


@contextmanager
def outside_transactions() -> Iterator[None]:
    """Within the block no transaction is open: what is done there holds whatever becomes of the caller's."""
    token = _open.set(MappingProxyType({}))
    try:
        yield
    finally:
        _open.reset(token)


class LocalTransactionManager:
    """Begins and ends the transactions of one process."""

    def __repr__(self) -> str:
        here = "no transaction" if self.current is None else f"transaction {self.current}"
        return f"<LocalTransactionManager {here} is open here>"

    @property
    def current(self) -> str | None:
        """The id of the transaction open in this context."""
        transaction = self._transaction()
        return None if transaction is None else transaction.transaction_id

    def begin(self) -> str:
        """Open a transaction in this context.

        Raises:
            TransactionInProgressError: one is open; transactions do not nest.
        """
        current = self.current
        if current is not None:
            raise TransactionInProgressError(
                f"transaction {current} is open here; commit or roll back first", transaction_id=current
            )
        transaction = _Transaction()
        _open.set(MappingProxyType({**_open.get(), self: transaction}))
        return transaction.transaction_id

    def commit(self) -> None:
        """Commit on every enlisted resource, in the order they enlisted, after all of them agreed.

        Channels of ours commit together, when it is the first one's turn: on one persistence manager by one write.

        Raises:
            TransactionRolledBackError: a resource could not; all of it is rolled back.
            TransactionInDoubtError: a resource failed after another had committed; the rest is rolled back.
            IllegalStateError: no transaction is open.
        """
        transaction = self._end("commit")
        with _committing():
            self._commit(transaction)

    def _commit(self, transaction: _Transaction) -> None:
        name, resources = transaction.transaction_id, list(transaction.resources)
        done = 0
        try:
            _prepare(resources, name)
            steps = _steps(resources)
            resources = [resource for step in steps for resource in step]
            for step in steps:
                _commit_step(step, name)
                done += len(step)
        except BaseException as error:
            self._roll_back(resources[done:], name)
            if not isinstance(error, Exception):
                raise
            if done:
                raise TransactionInDoubtError(
                    f"transaction {name} committed on {done} of {len(resources)} resources: {error}",
                    transaction_id=name,
                ) from error
            raise TransactionRolledBackError(
                f"transaction {name} was rolled back: {error}", transaction_id=name
            ) from error

    def rollback(self) -> None:
        """Roll back on every enlisted resource, also when one of them fails, whose error is then raised.

        Raises:
            IllegalStateError: no transaction is open.
        """
        transaction = self._end("roll back")
        failed = self._roll_back(transaction.resources, transaction.transaction_id)
        if failed is not None:
            raise failed

    def transaction(self) -> AbstractContextManager[str]:
        """Begin; commit when the block ends, roll back when it raises."""
        return self._block()

    def enlist(self, resource: TransactionResource, /) -> None:
        """Tell this resource how the open transaction ends, once however often it is enlisted.

        Raises:
            IllegalStateError: no transaction is open.
        """
        transaction = self._transaction()
        if transaction is None:
            raise IllegalStateError("no transaction is open here to enlist in; begin one first")
        if not any(known is resource for known in transaction.resources):
            transaction.resources.append(resource)

    @contextmanager
    def _block(self) -> Iterator[str]:
        transaction_id = self.begin()
        try:
            yield transaction_id
        except BaseException:
            if self.current == transaction_id:
                self.rollback()
            raise
        if self.current == transaction_id:
            self.commit()

    def _transaction(self) -> _Transaction | None:
        transaction = _open.get().get(self)
        return None if transaction is None or transaction.is_over else transaction

    def _end(self, act: str) -> _Transaction:
        transaction = self._transaction()
        if transaction is None:
            raise IllegalStateError(f"no transaction is open here to {act}; begin one first")
        transaction.is_over = True
        _open.set(MappingProxyType({key: value for key, value in _open.get().items() if key is not self}))
        return transaction

    @staticmethod
    def _roll_back(resources: list[TransactionResource], transaction_id: str) -> Exception | None:
        failed: Exception | None = None
        for resource in resources:
            try:
                resource.rollback_transaction(transaction_id)
            except Exception as error:
                failed = failed or error
        return failed


departures = LocalTransactionManager()
"""Of messages that leave a channel of ours for another: its copy comes and it goes by one commit."""


def manager_here(own: TransactionManager | None) -> TransactionManager | None:
    """Whose open transaction counts for a channel: that of a departure to it, else its own manager's."""
    return own if departures.current is None else departures


def _prepare(resources: Sequence[TransactionResource], transaction_id: str) -> None:
    for resource in resources:
        if isinstance(resource, PreparingResource):
            resource.prepare_transaction(transaction_id)


def _steps(resources: Sequence[TransactionResource]) -> list[list[TransactionResource]]:
    """What commits together, in the order of enlisting."""
    steps: list[list[TransactionResource]] = []
    recording: list[TransactionResource] = []
    for resource in resources:
        if not isinstance(resource, RecordingResource):
            steps.append([resource])
        else:
            if not recording:
                steps.append(recording)
            recording.append(resource)
    return steps


def _commit_step(step: Sequence[TransactionResource], transaction_id: str) -> None:
    together = [resource for resource in step if isinstance(resource, RecordingResource)]
    if not together:
        (resource,) = step
        resource.commit_transaction(transaction_id)
        return
    with ExitStack() as locks:
        for resource in sorted(together, key=id):  # so that two commits cannot wait for each other
            locks.enter_context(resource.lock)
        _prepare(step, transaction_id)
        write_together([resource.commit_writing(transaction_id) for resource in together])
        for resource in together:
            resource.commit_recorded(transaction_id)
    for resource in together:
        after_commit(resource.offer_committed)
