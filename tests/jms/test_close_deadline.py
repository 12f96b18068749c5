"""Calls that wait for Kafka while the connection closes, and Kafka is silent."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.close_deadline import CloseDeadline
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.patience import Patience
from tests.sidecar.stepped import SteppedSidecar
from tests.simulation.provider import SimulatedProvider
from tests.support.manual_clock import ManualClock


class SilentProvider(SimulatedProvider):
    """Its Kafka answers nobody."""

    def __init__(self) -> None:
        super().__init__(SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False)), records_attempts=False)

    def begin_close(self) -> Patience:
        return Patience(lambda seconds: False)

    def give_up_sends(self) -> None:
        """There are none."""


def test_a_commit_that_came_just_after_kafka_was_given_up_kept_the_connection_open_for_half_a_minute() -> None:
    """Of CONN-3: it had waited for the callbacks of sends, which end when Kafka is given up."""
    deadline = CloseDeadline(SilentProvider())
    deadline.begin_close()
    assert not deadline.wait_closing(lambda seconds: False, 20)
    with ThreadPoolExecutor() as threads:
        commit = threads.submit(deadline.wait_for, Completion(), 30, about="commit")
        with pytest.raises(JMSError, match="Kafka did not answer while the connection was closed"):
            commit.result(timeout=10)
