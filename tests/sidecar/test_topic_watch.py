"""Topics are looked at every few seconds, sooner after a look without an answer, and whatever fails meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import KafkaClientError, TopicDescription, Unreachable
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.topics.topic_watch import LOOK_AGAIN_S, LOOK_S, TopicWatch
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock

ORDERS = Queue("orders")
TURN_MS = 50


class FailingAdmin(MemoryAdmin):
    """Raises what it is given."""

    error: Exception | None = None

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        if self.error is not None:
            raise self.error
        return super().describe(topics, with_config=with_config)


class Watched:
    """A watch of one queue, with what each look found."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock, waits=False)
        self.admin = FailingAdmin(Process(self.cluster), timeout_s=1.0)
        self.found: list[TopicInfo] = []
        self._workers = SteppedWorkers(self.clock, lambda _: None)
        topics = Topics(self.admin, namespace="")
        topics.ensure(ORDERS, create=True, partitions=1)
        TopicWatch(
            topics=topics,
            workers=self._workers,
            clock=self.clock,
            looked=lambda look: self.found.extend(look.found),
        ).start()

    def run_for(self, seconds: float) -> None:
        for _ in range(int(seconds * 1_000) // TURN_MS):
            for worker in self._workers.ready():
                worker.step()
            self.clock.advance(TURN_MS)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_look_without_an_answer_is_made_again_soon(watched: Watched) -> None:
    """Of LOG-4: a topic may have been made anew while its cluster was away, and is read meanwhile."""
    watched.admin.error = Unreachable("no answer from Kafka at localhost:9092")
    watched.run_for(LOOK_S + LOOK_AGAIN_S)
    watched.admin.error = None
    watched.run_for(2 * LOOK_AGAIN_S)
    assert len(watched.found) == 1
    watched.run_for(LOOK_S / 2)
    assert len(watched.found) == 1, "and then no more often than before"


def test_a_look_that_was_refused_is_not_told_as_silence(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka did answer: Topic already has 3 partition(s). Told once, and again after a look that succeeded."""
    refused = KafkaClientError("give topic orders 3 partitions: no")
    line = "a look at the topics was refused: give topic orders 3 partitions: no; it is tried again until it succeeds"
    for told in (1, 2):
        watched.admin.error = refused
        watched.run_for(LOOK_S + 4 * LOOK_AGAIN_S)
        watched.admin.error = None
        watched.run_for(2 * LOOK_AGAIN_S)
        assert warnings(caplog) == [line] * told
        assert len(watched.found) == told, "it is made again soon"
    assert "does not answer" not in caplog.text


def test_silence_ends_with_a_refusal(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jbm_kafka")
    watched.admin.error = Unreachable("no answer from Kafka at localhost:9092")
    watched.run_for(LOOK_S + LOOK_AGAIN_S)
    watched.admin.error = KafkaClientError("not you")
    watched.run_for(2 * LOOK_AGAIN_S)
    told = [line.partition(":")[0].partition(",")[0] for line in caplog.messages]
    assert told == ["Kafka does not answer", "Kafka answers again", "a look at the topics was refused"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_look_that_fails_by_a_bug_ends_no_watch(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-4: nobody would notice that no topic is looked at any more."""
    watched.admin.error = ZeroDivisionError("a bug")
    watched.run_for(LOOK_S + 1)
    watched.admin.error = None
    watched.run_for(LOOK_S + 1)
    assert "a look at the topics failed" in caplog.text
    assert len(watched.found) == 1


def test_a_topic_made_anew_with_as_many_partitions_is_another_one(watched: Watched) -> None:
    """Of LOG-4: only its id tells, and no registry needs to know of it."""
    watched.run_for(LOOK_S + 1)
    watched.cluster.delete_topic(ORDERS.name)
    watched.cluster.create_topic(ORDERS.name, 1, {})
    watched.run_for(LOOK_S)
    before, after = watched.found
    assert after.topic_id == watched.cluster.topics[ORDERS.name].topic_id != before.topic_id
