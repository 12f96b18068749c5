"""The group workers of one process: those that have ended take no memory."""

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_kafka import MemoryCluster
from tests.sidecar.parts import link_of
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock


def subscribe_and_end(process: SteppedSidecar, name: str) -> None:
    """A private subscriber from its making to its closing."""
    sources = process.sidecar.sources
    subscription = Subscription(Topic("prices"), SubscriptionKind.PRIVATE, name)
    sources.subscribe(subscription)
    link = link_of(name)
    link.demand.is_waiting = True
    group_worker = link.group_worker = sources.attach(subscription, link)
    link.is_attached = True
    process.run(lambda: group_worker.is_settled)
    link.leave()
    sources.end_use(subscription)
    process.run(lambda: not group_worker.is_alive)


def test_closed_private_subscribers_leave_no_group_worker_behind() -> None:
    """Each took 63 to 140 KB for as long as the process lived."""
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    for number in range(5):
        subscribe_and_end(process, f"s{number}")
    assert len(process.sidecar._group_workers.all()) <= 1
    process.crash()


def test_a_queue_that_nobody_receives_from_any_more_leaves_no_group_worker_behind_the_next() -> None:
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    link = process.attach("s")
    group_worker = process.group_worker
    process.run(lambda: group_worker.is_settled)
    link.leave()
    process.run(lambda: not group_worker.is_alive)
    subscribe_and_end(process, "s")
    assert process.sidecar.sources.group_worker_of(QUEUE) is None
    process.crash()
