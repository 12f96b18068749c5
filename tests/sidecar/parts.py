"""Parts of a sidecar, put together without a broker and without threads, for the tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.counters import SourceCounters
from jbm_kafka.core.channel.offered_target import OfferedLimits
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.receiving.hand import Hand
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import HeldStore
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import ThreadWorkers, Wait, Workers
from jbm_kafka.ports.wake_up import Sleepers
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.pauses import Pausing
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.channel_opener import ChannelOpener
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from jbm_kafka.sidecar.checkpoints.checkpointer import Checkpointer
from jbm_kafka.sidecar.checkpoints.hanging_transactions import HangingTransactions
from jbm_kafka.sidecar.checkpoints.producer_pool import ProducerPool
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from jbm_kafka.sidecar.lane.group_worker import GroupWorker, GroupWorkerParts
from jbm_kafka.sidecar.stages.flow import Flow
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock


def channel_of(state: ChannelState, *, least: int = 100, partition: int = 0) -> OwnedChannel:
    changelog = ChannelChangelog(
        group="g", topic="orders.jbm-changelog", topic_id="t", position=0, journal_channel=f"g|orders|{partition}"
    )
    return OwnedChannel(
        topic="orders",
        partition=partition,
        state=state,
        settings=ResolvedSettings(),
        changelog=changelog,
        offered_limits=OfferedLimits(least),
    )


def link_of(
    session: str,
    selector: Selector | None = None,
    *,
    records_attempts: bool = False,
    number: int = 1,
    hand: Hand | None = None,
) -> Link:
    """`number`: of the session's consumer; `hand`: what its consumers of the queue have in common."""
    lock = threading.Lock()
    terms = LinkTerms(f"{session}/{number}", session, prefetch=10, selector=selector, records_attempts=records_attempts)
    return Link(terms, filled=Sleepers(lock), lock=lock, hand=hand)


class _NoTargets:
    """Nothing leaves, and no topic is known."""

    def topic_of(self, address: str) -> TopicInfo:
        raise JMSError(f"{address}: there is no Kafka topic")

    def keep_original(self, *_: object) -> None:
        """Everything stays."""

    def known(self, _: str) -> None:
        return None


def group_worker_of(
    channel: OwnedChannel,
    *links: Link,
    flow: Flow | None = None,
    opener: ChannelOpener | None = None,
    group: ChannelGroup | None = None,
) -> GroupWorker:
    """A group worker that was never started, with that channel and these links; a queue's, unless told whose."""
    parts = GroupWorkerParts(
        kafka=MemoryKafka(MemoryCluster(ManualClock(), waits=False)),
        clock=SlewedClock(ManualClock()),
        config=SidecarConfig(),
        opener=opener or cast(ChannelOpener, None),
        workers=ThreadWorkers(),
        flow=lambda: flow or Flow(cast(HeldStore, None), share_bytes=lambda: 1 << 20),
        chance=lambda: 0.5,
        note_dirty=lambda *_: None,
        submit=lambda _: None,
        targets=_NoTargets(),
        pausing=Pausing(lambda _: False, lambda _: ""),
        look_at_topics=lambda: None,
        counters=lambda _: SourceCounters(),
    )
    queue = ChannelGroup.of_queue(Queue(channel.topic), namespace="", partitions=1)
    group_worker = GroupWorker(group=group or queue, parts=parts)
    group_worker.data.channels[channel.partition] = channel
    group_worker.data.links.update({link.terms.link_id: link for link in links})
    return group_worker


def group_worker_behind(link: Link) -> GroupWorker:
    """The group worker that serves a link."""
    assert isinstance(link.group_worker, GroupWorker), link.group_worker
    return link.group_worker


def writer_of(cluster: MemoryCluster, *, has_past: bool = False) -> TransactionWriter:
    """Writes the checkpoints of one sidecar to an in-memory Kafka."""
    kafka, clock = MemoryKafka(cluster), cluster.clock
    assert isinstance(clock, ManualClock)
    topics = Topics(kafka.admin(), namespace="")
    topics.ensure_system_topics()
    return TransactionWriter(
        kafka=kafka,
        journal=MemoryJournal(clock=clock),
        topics=topics,
        clock=clock,
        transactional_id="jbm.one.0",
        pool=pool_of(kafka, clock, has_past=has_past),
    )


def checkpointer_of(cluster: MemoryCluster, workers: Workers) -> Checkpointer:
    """The checkpoints of one sidecar to an in-memory Kafka, every 50 ms."""
    writer = writer_of(cluster)
    hanging = HangingTransactions(kafka=MemoryKafka(cluster), pool=writer._pool, clock=cluster.clock)
    return Checkpointer(writer=writer, hanging=hanging, clock=cluster.clock, interval_ms=50, workers=workers)


def run_beside(writer: TransactionWriter, steps: Iterator[Wait]) -> Any:
    """Make all steps, and between them those of what the writer's pool started beside; what they return."""
    workers = writer._pool._workers
    assert isinstance(workers, SteppedWorkers)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        for worker in workers.ready():
            worker.step()


def pool_of(kafka: MemoryKafka, clock: ManualClock, *, has_past: bool = False) -> ProducerPool:
    """The producers of one sidecar."""
    return ProducerPool(
        kafka=kafka,
        clock=clock,
        workers=SteppedWorkers(clock, lambda _: None),
        transactional_id="jbm.one.0",
        has_past=has_past,
        transaction_timeout_ms=10_000,
        known_topic="jbm.registry",
    )
