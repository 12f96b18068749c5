"""A real Kafka to test with: the one that JBM_TEST_BROKER names, one in a container, or one on this machine.

JBM_TEST_BROKER=testcontainers | local | HOST:PORT says which. Without it, a container when testcontainers is installed
and a Docker engine answers, else a local broker (it needs Java 17, and Maven once).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from jbm_kafka.devbroker import LocalBroker, LocalBrokerError, answers
from jbm_kafka.testing.container import engine_answers, public_image, public_image_environment, run_container

ANSWER_TIMEOUT_S = 10.0


class BrokerUnavailable(Exception):
    """There is no broker to test with; one line says why, and what to do."""


def wanted_broker() -> str:
    """`testcontainers`, `local` or a `host:port`."""
    wanted = os.environ.get("JBM_TEST_BROKER", "")
    if wanted:
        return wanted
    return "testcontainers" if engine_answers() else "local"


@contextmanager
def run_broker(folder: Path, wanted: str | None = None) -> Iterator[str]:
    """A broker while the block runs; its `host:port`. A local one keeps its data in `folder`.

    Raises:
        BrokerUnavailable: no broker can be had.
    """
    match wanted or wanted_broker():
        case "testcontainers":
            with public_container() as bootstrap:
                yield bootstrap
        case "local":
            with local_broker(folder) as broker:
                yield broker.bootstrap
        case address:
            check_address(address)
            yield address


def check_address(wanted: str) -> None:
    """Raises BrokerUnavailable when it is not the address of a broker that answers."""
    if ":" not in wanted:
        raise BrokerUnavailable(f"JBM_TEST_BROKER={wanted}: it must be testcontainers, local or HOST:PORT")
    if not answers(wanted, timeout_s=ANSWER_TIMEOUT_S):
        raise BrokerUnavailable(f"JBM_TEST_BROKER={wanted}: nothing answers there")


@contextmanager
def public_container() -> Iterator[str]:
    """A broker of Apache's image, or of the one that JBM_TEST_IMAGE names, while the block runs.

    Raises:
        BrokerUnavailable: testcontainers is not installed, or no engine answers.
    """
    try:
        import testcontainers.core.container  # noqa: F401
    except ImportError:
        raise BrokerUnavailable("JBM_TEST_BROKER=testcontainers: pip install testcontainers") from None
    if not engine_answers():
        raise BrokerUnavailable("JBM_TEST_BROKER=testcontainers: no Docker engine answers; start one, or say local")
    with run_container(os.environ.get("JBM_TEST_IMAGE") or public_image(), public_image_environment) as bootstrap:
        yield bootstrap


@contextmanager
def local_broker(
    folder: Path, properties: Mapping[str, str] | None = None, java_options: Sequence[str] = ()
) -> Iterator[LocalBroker]:
    """A broker on this machine with its data in `folder`, ended with the block whatever became of it meanwhile.

    Raises:
        BrokerUnavailable: it cannot be started; the text says why.
    """
    broker = LocalBroker(folder, properties=properties, java_options=java_options)
    with _leash(folder):
        try:
            broker.start()
        except LocalBrokerError as error:
            raise BrokerUnavailable(f"no broker to test with: {error}") from error
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
