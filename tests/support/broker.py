"""Which broker the tests talk to, decided once a run.

JBM_TEST_BROKER=testcontainers | local | HOST:PORT says it; otherwise a container when a Docker engine answers, else a
local broker. Without any the tests that need one are skipped, but never where CI is set: there they fail.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker, LocalBrokerError, answers
from tests.support.container import container_broker, engine_answers


def wanted_broker() -> str:
    """`testcontainers`, `local` or a `host:port`."""
    wanted = os.environ.get("JBM_TEST_BROKER", "")
    if wanted:
        return wanted
    return "testcontainers" if engine_answers() else "local"


@contextmanager
def open_broker(wanted: str, folder: Path) -> Iterator[str]:
    """Runs the wanted broker while the block runs; its `host:port`."""
    match wanted:
        case "testcontainers":
            with container_broker() as bootstrap:
                yield bootstrap
        case "local":
            with local_broker(folder) as broker:
                yield broker.bootstrap
        case _ if ":" in wanted:
            assert answers(wanted, timeout_s=10), f"JBM_TEST_BROKER={wanted}: nothing answers there"
            yield wanted
        case _:
            pytest.fail(f"JBM_TEST_BROKER={wanted}: it must be testcontainers, local or HOST:PORT")


@contextmanager
def local_broker(folder: Path) -> Iterator[LocalBroker]:
    """A broker on this machine with its data in `folder`, stopped at the end whatever became of it meanwhile."""
    broker = LocalBroker(folder)
    try:
        broker.start()
    except LocalBrokerError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no broker to test with: {error}")
    try:
        yield broker
    finally:
        broker.kill()  # its data goes with the test, so there is nothing to save
