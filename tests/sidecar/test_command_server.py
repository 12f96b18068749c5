"""A process hears the commands that come after it began to listen, and writes its answers."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from jbm_kafka.codec.command_records import Answer, Command, decode_answer, encode_command
from jbm_kafka.memory.memory_admin import MemoryLogReader
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import AccessRefused, Outgoing
from jbm_kafka.registry.command_server import LOOKS_LEFT_OUT, CommandServer
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock

TOPIC = "jbm.commands"


class GuardedKafka(MemoryKafka):
    """Lets nobody read where it is forbidden."""

    forbids = False

    def log_reader(self) -> MemoryLogReader:
        if self.forbids:
            raise AccessRefused(f"no access rule of Kafka's allows Read on topic {TOPIC}")
        return super().log_reader()


class Heard:
    """A watch, and what it heard."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock, waits=False)
        self.kafka = GuardedKafka(self.cluster)
        self.commands: list[str] = []
        self.workers = SteppedWorkers(self.clock, lambda _: None)
        self.watch = CommandServer(
            kafka=self.kafka, admin=self.kafka.admin(), topic=TOPIC, look_ms=1_000, carry_out=self._carry_out
        )
        self.watch.start(self.workers)
        self.watch.start(self.workers)

    def _carry_out(self, command: Command, reply: Callable[[Answer], None]) -> None:
        self.commands.append(command.id)
        reply(Answer(command.id, command.partition, {"by": "us"}))

    def make_topic(self) -> None:
        self.cluster.create_topic(TOPIC, 1, {})

    def send(self, *ids: str) -> None:
        sender = self.kafka.sender()
        for each in ids:
            sender.send(Outgoing(TOPIC, 0, *encode_command(Command(each, "group", 2, "release"))), None)
        self.kafka.deliver()
        sender.close(1)

    def run_for(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            for worker in self.workers.ready():
                worker.step()
            self.kafka.deliver()
            self.clock.advance(50)

    def answers(self) -> list[str]:
        end = self.kafka.admin().end_positions(TOPIC, [0], stable=True)[0]
        records = self.kafka.log_reader().read(TOPIC, {0: (0, end)}, timeout_s=1)
        return [answer.id for record in records if (answer := decode_answer(record.key(), record.value()))]


def test_what_came_before_is_not_heard_and_what_comes_is_answered_each_time() -> None:
    heard = Heard()
    heard.make_topic()
    heard.send("before")
    heard.run_for(1.5)
    heard.send("a", "b")
    heard.run_for(1.5)
    heard.send("a")
    heard.run_for(2.5)
    assert heard.commands == ["a", "b", "a"]
    assert heard.answers() == ["a", "b", "a"]


def test_a_topic_that_is_made_later_or_anew_is_heard_from_its_beginning() -> None:
    heard = Heard()
    heard.run_for(1.5)
    heard.make_topic()
    heard.send("a")
    heard.run_for(LOOKS_LEFT_OUT + 2)
    assert heard.commands == ["a"]
    heard.cluster.delete_topic(TOPIC)
    heard.make_topic()
    heard.send("b")
    heard.run_for(2.5)
    assert heard.commands == ["a", "b"]
    heard.cluster.delete_topic(TOPIC)
    heard.run_for(2.5)
    heard.make_topic()
    heard.send("c")
    heard.run_for(LOOKS_LEFT_OUT + 3)
    assert heard.commands == ["a", "b", "c"]


def test_a_right_that_is_missing_is_told_once_until_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    """Administrators saw only that nobody answers, and were told to look after a process that was all right."""
    heard = Heard()
    heard.make_topic()
    heard.run_for(1.5)
    for turn, id_ in enumerate("ab", 1):
        heard.kafka.forbids = True
        heard.send(id_)
        heard.run_for(3.5)
        told = [row.getMessage() for row in caplog.records if row.levelno == logging.WARNING]
        assert len(told) == turn
        assert "cannot be heard or answered here" in told[-1]
        assert "Read on topic jbm.commands" in told[-1]
        heard.kafka.forbids = False
        heard.run_for(1.5)
        assert heard.commands == list("ab"[:turn])
