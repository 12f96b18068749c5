"""`with session.transaction()`: what its end does, and what may not be called inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from jbm_kafka.core.jms_errors import TransactionInProgressError


class Transacted(Protocol):
    """What a block needs of its session."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class TransactionBlock:
    """Of one session, which is in one at a time at most."""

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
