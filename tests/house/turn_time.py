"""How much processor time one turn of a channel group's worker takes beside so many receivers, and how many calls.

`python -m tests.house.turn_time` prints it for 10 receivers and for 2,000 idle and 200 busy ones, in one run: 16
partitions, each with a unit whose next message waits for what another session holds. Calls are those of a turn to which
nothing has happened, but for those of the Kafka in memory, which stands for a client; with JBM_PURE=1, for calls of
compiled functions cannot be seen.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import FrameType

from jbm_kafka.compiled import are_used
from jbm_kafka.core.channel.changes import Fetched, OfferedRaised
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import GroupConsumer
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.support.manual_clock import ManualClock

PARTITIONS = 16
TURNS = 50


class NoListener:
    """The group's partitions come and go unheard: the channels are there already."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return {}

    def on_revoked(self, partitions: Sequence[int]) -> None: ...

    def on_lost(self, partitions: Sequence[int]) -> None: ...


def main() -> None:
    """Measure both, beside each other."""
    for idle, busy in ((9, 1), (2_000, 200)):
        times, calls = turns(idle, busy)
        print(
            f"{idle:>5} idle and {busy:>3} busy receivers: a turn takes {1_000 * statistics.median(times):.3f} ms of "
            f"processor time (median of {TURNS}, {1_000 * max(times):.3f} at most)"
        )
        if not are_used():
            print(f"{'':>36}an idle turn makes {calls.total()} calls in {len(calls)} files")


def turns(idle: int, busy: int) -> tuple[list[float], Counter[str]]:
    """Seconds of this thread's processor time, turn by turn; and the calls of an idle turn by file."""
    workers = [link_of(f"busy {number}") for number in range(busy)]
    waiting = [link_of(f"idle {number}") for number in range(idle)]
    group_worker = held_back(workers, waiting)
    cluster = MemoryCluster(ManualClock(), waits=False)
    cluster.create_topic("orders", PARTITIONS, {})
    consumer = MemoryKafka(cluster).group_consumer(
        group="g",
        topic="orders",
        partitions=PARTITIONS,
        listener=NoListener(),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000,
        memory_bytes=1 << 20,
    )
    group_worker.data.consumer = consumer
    found: list[float] = []
    for _ in range(TURNS):
        for link in waiting:
            link.demand.credit = 1
        begun = time.thread_time()
        group_worker.turn.once(consumer)
        found.append(time.thread_time() - begun)
    return found, calls_of_turn(group_worker, consumer)


def calls_of_turn(group_worker: GroupWorker, consumer: GroupConsumer) -> Counter[str]:
    """Of a turn to which nothing happened: how many calls, by file."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and f"{os.sep}jbm_kafka{os.sep}" in name and f"{os.sep}memory{os.sep}" not in name:
            calls[name] += 1

    group_worker.turn.once(consumer)
    sys.setprofile(note)
    group_worker.turn.once(consumer)
    sys.setprofile(None)
    return calls


def held_back(workers: list[Link], waiting: list[Link]) -> GroupWorker:
    """A group with a unit a worker: it holds the first message, the second waits for it."""
    group_worker = group_worker_of(channel_of(ChannelState()), *workers, *waiting)
    group_worker.data.channels.clear()
    for partition in range(PARTITIONS):
        state = ChannelState()
        state.apply(OfferedRaised(1 << 20))
        units = [f"unit {number}".encode() for number in range(partition, len(workers), PARTITIONS)]
        rows = [Reference(offset, unit) for offset, unit in enumerate(unit for unit in units for _ in range(2))]
        state.apply(Fetched(begin=0, end=len(rows), references=rows))
        channel = channel_of(state)
        channel.partition = partition
        group_worker.data.channels[partition] = channel
    for link in [*workers, *waiting]:
        link.demand.is_waiting = True
    while any(link.demand.credit for link in workers) or not any(link.buffer for link in workers):
        for link in workers:
            link.demand.credit = 0 if link.buffer else 1
        group_worker.turn.dispatch.grant()
        group_worker.turn.dispatch.deliver()
    return group_worker


if __name__ == "__main__":
    main()
