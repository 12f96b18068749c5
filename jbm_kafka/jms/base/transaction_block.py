"""`with session.transaction()`: what its end does, and what may not be called inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from types import TracebackType
from typing import Protocol, TypeVar

from jbm_kafka.core.jms_errors import TransactionInProgressError
from jbm_kafka.jms.base.one_process import refuse_pickle

T_co = TypeVar("T_co", covariant=True)


class Transacted(Protocol):
    """A session as a block needs it."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class Transaction(AbstractContextManager[T_co], ContextDecorator):
    """The result of `session.transaction()`: each `with` of it is a block of its own, one after the other."""

    __reduce__ = refuse_pickle

    def __init__(self, begin: Callable[[], AbstractContextManager[T_co]]) -> None:
        self._begin = begin
        self._entered: AbstractContextManager[T_co] | None = None

    def __enter__(self) -> T_co:
        begun = self._begin()
        given = begun.__enter__()  # raises inside another block, whose end is still to come
        self._entered = begun
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        entered, self._entered = self._entered, None
        return None if entered is None else entered.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Transaction {'not entered' if self._entered is None else 'entered'}: for `with`>"


class TransactionBlock:
    """A block of one session, which is in one at a time at most."""

    def __init__(self, *, is_closed: Callable[[], bool]) -> None:
        """`is_closed`: the session is, for the caller."""
        self._is_closed = is_closed
        self._is_open = False

    def check_commit(self) -> None:
        """Return when `commit()` may be called.

        Raises:
            TransactionInProgressError: inside a block what was committed would stay when the block raises later.
        """
        if self._is_open:
            raise TransactionInProgressError(
                "commit() inside transaction(): the end of the block commits, and what is committed before would stay "
                "when the block raises; leave commit() out, or call it without a block"
            )

    @contextmanager
    def around(self, session: Transacted) -> Iterator[None]:
        """Commits at the end, rolls back on an exception, which comes out whatever the rollback does.

        Raises:
            TransactionInProgressError: it is inside another such block.
        """
        if self._is_open:
            raise TransactionInProgressError(
                "transaction() inside transaction(): a session has one transaction at a time, and the end of the inner "
                "block would commit what the outer one has done so far; leave the inner one out, or use another session"
            )
        self._is_open = True
        try:
            yield
        except BaseException as error:
            if not self._is_closed():
                _roll_back(session, error)
            raise
        finally:
            self._is_open = False
        session.commit()


def _roll_back(session: Transacted, error: BaseException) -> None:
    """Undo what a block did that `error` ended; if that fails too, the failure becomes the error's context."""
    try:
        session.rollback()
    except Exception as failure:
        failure.__context__, error.__context__ = error.__context__, failure
