"""Which broker the tests talk to, decided once a run.

JBM_TEST_BROKER=testcontainers | local | HOST:PORT says it; otherwise a container when a Docker engine answers, else a
local broker. Without any the tests that need one are skipped, but never where CI is set: there they fail.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
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
def local_broker(folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[LocalBroker]:
    """A broker on this machine with its data in `folder`, ended with the block whatever became of it meanwhile."""
    broker = LocalBroker(folder, properties=properties)
    with _leash(folder):
        try:
            broker.start()
        except LocalBrokerError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no broker to test with: {error}")
        yield broker


_WATCH = "import sys; from jbm_kafka.devbroker import LocalBroker; sys.stdin.read(); LocalBroker(sys.argv[1]).kill()"


@contextmanager
def _leash(folder: Path) -> Iterator[None]:
    """Kills the broker of `folder` at the end of the block, or when this process ends, however it does.

    A local broker outlives whoever starts it, and a test past its timeout ends pytest on the spot. So a process of its
    own waits for the end of a pipe. There is no stop in order, because the data goes with the test.
    """
    command = [sys.executable, "-c", _WATCH, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield
