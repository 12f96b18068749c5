"""Who sends to a destination whose sending is paused, or was a moment ago."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from jbm_kafka.codec.pause_record import Halt, Pause, encode_pause, pause_key
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import TopicDescription, Unreachable
from jbm_kafka.registry.pauses import Pauses
from jbm_kafka.registry.registry_log import RegistryLog
from tests.support.manual_clock import ManualClock

ORDERS = Queue("orders")
PAUSED = {pause_key("orders"): encode_pause(Pause(production=Halt("ann", 1_000)))}
RESUMED = {pause_key("orders"): encode_pause(Pause())}


class SilentAdmin(MemoryAdmin):
    """Answers until it is silent."""

    def __init__(self, process: Process) -> None:
        super().__init__(process, timeout_s=1.0)
        self.is_silent = False

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        if self.is_silent:
            raise Unreachable("no answer")
        return super().describe(topics, with_config=with_config)


class World:
    """A process that sends, and an operator in another one."""

    def __init__(self) -> None:
        cluster = MemoryCluster(ManualClock())
        theirs, ours = MemoryKafka(cluster), MemoryKafka(cluster)
        self.operator = RegistryLog(theirs, theirs.admin(), "jbm.registry")
        self.admin = SilentAdmin(Process(cluster))
        self.registry = RegistryLog(ours, self.admin, "jbm.registry")
        self.pauses = Pauses(self.registry)
        self.operator.write(PAUSED)
        self.registry.refresh()


def test_a_send_right_after_a_resume_is_sent_though_this_process_has_not_read_of_it() -> None:
    """Of PAUSE-1: it was refused for a second more; and nobody has to look who is not told that it is paused."""
    world = World()
    with pytest.raises(IllegalStateError, match="sending is paused by ann since 1970-01-01 00:00:01 UTC"):
        world.pauses.check_sendable(ORDERS)
    world.operator.write(RESUMED)
    assert world.pauses.of("orders").production == Halt("ann", 1_000)
    world.pauses.check_sendable(ORDERS)


def test_a_send_to_a_paused_queue_is_refused_by_name_while_kafka_does_not_answer() -> None:
    """Of PAUSE-1: it raised what Kafka's client said, which tells nobody that the queue is paused."""
    world = World()
    world.admin.is_silent = True
    with pytest.raises(IllegalStateError, match="sending is paused by ann"):
        world.pauses.check_sendable(ORDERS)


@pytest.mark.parametrize(("is_in_memory", "remedy"), [(False, "jbm-kafka resume orders"), (True, "Admin.resume")])
def test_who_is_refused_or_waits_is_told_of_a_remedy_that_reaches_his_kafka(is_in_memory: bool, remedy: str) -> None:
    """Of PAUSE-1: no command of a terminal reaches memory://."""
    world = World()
    world.pauses.is_in_memory = is_in_memory
    with pytest.raises(IllegalStateError, match=remedy):
        world.pauses.check_sendable(ORDERS)
    world.operator.write({pause_key("orders"): encode_pause(Pause(consumption=Halt("ann", 1_000)))})
    world.registry.refresh()
    assert remedy in world.pauses.why_nothing_comes("orders")
