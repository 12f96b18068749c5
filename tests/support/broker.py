"""Which broker the tests talk to, decided once a run as jbm_kafka/testing/real_broker.py says; a container is of our
own image.

Without any the tests that need one are skipped, but never where CI is set: there they fail.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.process import BRIEF
from jbm_kafka.testing import real_broker
from jbm_kafka.testing.real_broker import BrokerUnavailable
from tests.support.container import container_broker


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
        case _:
            try:
                real_broker.check_address(wanted)
            except BrokerUnavailable as error:
                pytest.fail(str(error))
            yield wanted


@contextmanager
def local_broker(folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[LocalBroker]:
    """A broker on this machine with its data in `folder`, ended with the block whatever became of it meanwhile.

    Without Java's second compiler, which took a third of the processor time of the broker that a run shares.
    """
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(real_broker.local_broker(folder, properties, BRIEF))
        except BrokerUnavailable as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))
        yield broker
