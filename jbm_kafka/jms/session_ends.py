"""How sessions end, one alone or all of a connection: their listeners are waited for, and may work on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from jbm_kafka.jms.receiving.listening import Listening
from jbm_kafka.jms.sends.completions import CALLBACKS_TIMEOUT_S
from jbm_kafka.jms.shared.connection_core import ConnectionCore


class Ending(Protocol):
    """A session as the code that closes it sees it."""

    _listening: Listening

    def _begin_close(self) -> bool:
        """It takes no message from now on. False: it is closed, or another thread closes it."""

    def _finish_close(self) -> None:
        """Its listeners have ended, or are waited for no longer."""

    def _let_go(self) -> None:
        """The thread that began to close it has ended, maybe by an exception; another may finish it."""

    def _wait_closed(self) -> None:
        """Return when the thread that closes it has done so."""


def close_sessions(connection: ConnectionCore, sessions: Sequence[Ending]) -> None:
    """Close them side by side: all take no message more before one listener is waited for, and all have one limit.

    None is at its end before every listener is: one may send by a session that has none.
    """
    for session in sessions:
        session._listening.begin_stop()
    _wait_callbacks(connection)
    mine = [session for session in sessions if session._begin_close()]
    try:
        begun_s = time.monotonic()
        for session in mine:
            session._listening.wait_or_log(begun_s)
        for session in mine:
            session._listening.wait_stopped(begun_s)
        _wait_callbacks(connection)  # of what the listeners have sent meanwhile
        for session in mine:
            session._finish_close()
        _wait_callbacks(connection)  # of a send that another thread was in, and that was waited for just now
    finally:
        for session in mine:
            session._let_go()


def _wait_callbacks(connection: ConnectionCore) -> None:
    connection.close_deadline.wait_closing(connection.completions.wait_done, CALLBACKS_TIMEOUT_S)
