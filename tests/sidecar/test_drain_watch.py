"""Who asked for what is there now is answered: when it was read, or when nothing will come."""

from __future__ import annotations

from jbm_kafka.codec.pause_record import Halt, Pause, encode_pause, pause_key
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports.completion import Completion
from jbm_kafka.registry.registry_log import RegistryLog
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock

BEYOND = {0: 100}
"""More than there is, as if the log could not be read to where it ends."""


def test_a_receive_that_is_over_at_once_waited_for_messages_that_a_pause_kept() -> None:
    """Of PAUSE-2: however far its queue is read."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    process = SteppedSidecar("one", cluster)
    try:
        link = process.attach("s")
        process.send("1")
        process.run(lambda: process.group_worker.is_settled)
        done = Completion()
        process.group_worker.watch(link.terms.link_id, BEYOND, done)
        process.run_for(1_000)
        assert not done.is_done
        operator = MemoryKafka(cluster)
        paused = {pause_key(QUEUE.name): encode_pause(Pause(consumption=Halt("ann", 1_000)))}
        RegistryLog(operator, operator.admin(), "jbm.registry").write(paused)
        process.run(lambda: done.is_done)
    finally:
        process.crash()
