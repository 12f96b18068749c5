"""Knows whether this process was forked from one that had Kafka clients: it can have none.

librdkafka and RocksDB keep threads and locks for the whole process, also when their last client is closed. The threads
are not there in the child: what is made there waits for ever at its close, or ends the child by SIGSEGV.
"""

import os

from jbm_kafka.core.jms_errors import IllegalStateError

_client_made_in: int | None = None
"""The first process, this one or one that it is a fork of, that made a client."""


def note_client() -> None:
    """A client is made."""
    global _client_made_in  # noqa: PLW0603 - of the process
    _client_made_in = _client_made_in or os.getpid()


def check() -> None:
    """Raises IllegalStateError where no client can be made."""
    if _client_made_in is not None and _client_made_in != os.getpid():
        raise IllegalStateError(
            f"process {os.getpid()} is a fork of process {_client_made_in}, which had connected to Kafka before, and "
            f'cannot connect itself: use multiprocessing\'s "spawn" or "forkserver", or fork before the first '
            f"connection",
            process=_client_made_in,
        )
