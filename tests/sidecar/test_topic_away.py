"""A topic that is deleted under consumers that are open: they wait until it is made again, whatever it hit (LOG-2).

Each of these ended the `receive` that came next by an error, and with it, mostly, its process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import UnknownTopic
from jbm_kafka.ports.link import Link
from jbm_kafka.registry.topic_configs import DESTINATION_CONFIG
from jbm_kafka.registry.topics import TopicsFound
from jbm_kafka.sidecar.topics.topic_watch import LOOK_S
from tests.sidecar.parts import group_worker_behind, link_of
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock

RECOVERY = "jbm-recovery-jbm.queue.orders"
LOOK_MS = int(LOOK_S * 1000)
IDLE_MS = 1_000


@pytest.fixture
def one() -> Iterator[SteppedSidecar]:
    numbers = {"membership_idle_ms": IDLE_MS, "linger_ms": IDLE_MS, "auto_create": False}
    cluster = MemoryCluster(ManualClock(), waits=False)
    cluster.create_topic(QUEUE.name, 1, {})
    sidecar = SteppedSidecar("one", cluster, numbers=numbers)
    yield sidecar
    sidecar.crash()


def opened(one: SteppedSidecar) -> Link:
    """A consumer that is open."""
    link = one.attach("s")
    one.run(lambda: one.group_worker.is_settled and bool(one.group_worker.data.channels))
    one.run_for(100)
    return link


def open_anew(one: SteppedSidecar) -> None:
    """The channel is being opened once more, and its recovery stands still until it is held no longer."""
    one.held.add(RECOVERY)
    one.group_worker.post(lambda: one.group_worker.assignment.reopen(one.group_worker.data.channels[0]))
    one.run(lambda: bool(one.group_worker.data.opening))


def left_idle(one: SteppedSidecar, link: Link) -> None:
    """Nobody receives for so long that the process leaves the group."""
    link.demand.is_waiting = False
    one.run(lambda: not one.group_worker.is_running)
    one.run(lambda: not one.group_worker.is_alive)


def received_again(one: SteppedSidecar, link: Link) -> list[int]:
    """The offset of what comes first when the topic is made again, and has something."""
    one.cluster.create_topic(QUEUE.name, 1, {})
    one.send("new")
    return one.receive(link, 1)


def test_a_deletion_while_channels_open_anew(one: SteppedSidecar) -> None:
    link = opened(one)
    open_anew(one)
    one.cluster.delete_topic(QUEUE.name)
    one.held.clear()
    one.run_for(2_000)
    assert link.notices.failure is None
    assert one.group_worker.is_running
    assert received_again(one, link) == [0]


def test_a_deletion_while_nobody_receives(one: SteppedSidecar) -> None:
    """The group worker has left, and a new one finds no topic: also where a send has found that before."""
    link = opened(one)
    left_idle(one, link)
    one.cluster.delete_topic(QUEUE.name)
    one.sidecar.destinations.topics.forget(QUEUE.name)
    link.demand.is_waiting = True
    link.group_worker = one.sidecar.sources.attach(QUEUE, link)
    one.run_for(2_000)
    assert link.notices.failure is None
    assert one.group_worker.is_running
    assert received_again(one, link) == [0]


def test_a_deletion_before_a_checkpoint(one: SteppedSidecar) -> None:
    """What was acknowledged is not recorded, and who did it is told; what comes later is received."""
    link, told = opened(one), list[Exception]()
    link.notices.on_trouble = told.append
    one.send("old")
    assert one.receive(link, 1) == [0]
    one.held.add("jbm-checkpoint")
    link.settlement.leases[0].acked.append(0)
    one.run_for(100)
    one.cluster.delete_topic(QUEUE.name)
    one.group_worker.checkpoint_part.topic_gone()  # as a broker makes the checkpointer find; this one commits
    one.held.clear()
    one.run(lambda: bool(told))
    one.run_for(1_000)
    assert "acknowledgement of offset 0 refused" in str(told[0])
    assert link.notices.failure is None
    assert received_again(one, link) == [0]


def test_one_that_is_made_meanwhile_is_refused_and_the_open_one_goes_on(one: SteppedSidecar) -> None:
    link = opened(one)
    one.cluster.delete_topic(QUEUE.name)
    one.run_for(2 * LOOK_MS)
    with pytest.raises(InvalidDestinationError, match="there is no Kafka topic 'orders'"):
        one.attach("t")
    assert received_again(one, link) == [0]


def test_one_that_is_being_made_is_refused_and_the_open_one_goes_on(one: SteppedSidecar) -> None:
    """It was accepted just before."""
    link = opened(one)
    open_anew(one)
    other = one.attach("t")
    one.run_for(20)
    one.cluster.delete_topic(QUEUE.name)
    one.held.clear()
    one.run(lambda: other.notices.failure is not None)
    assert isinstance(other.notices.failure, InvalidDestinationError)
    one.run_for(1_000)
    assert link.notices.failure is None
    group_worker_behind(other).detach(other.terms.link_id)
    assert received_again(one, link) == [0]


def test_a_worker_that_fails_runs_until_its_receivers_were_told(
    one: SteppedSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that looked while the client was closed joined again, with what was known of the topic before; its error came
    then, and the consumer that the error advises to make was served by the worker of that: it had the error again."""
    link = one.attach("s")
    one.run(lambda: one.group_worker.data.consumer is not None)
    consumer, ran = one.group_worker.data.consumer, []
    assert consumer is not None
    close = consumer.close

    def consume_and_fail(*_: object) -> None:
        raise UnknownTopic("Subscribed topic not available: orders")

    def look_and_close() -> None:
        ran.append(one.group_worker.is_running or link.notices.failure is not None)
        close()

    monkeypatch.setattr(consumer, "consume", consume_and_fail)
    monkeypatch.setattr(consumer, "close", look_and_close)
    one.run(lambda: link.notices.failure is not None)
    assert ran == [True]
    assert one.group_worker.failure is link.notices.failure
    one.run(lambda: not one.group_worker.is_running)


def test_one_that_waits_for_its_first_partitions_is_refused(one: SteppedSidecar) -> None:
    """It was given none at first, and then some that could not be opened: it waited for them to no end."""
    one.held.add(RECOVERY)
    link = one.attach("s")
    one.run(lambda: bool(one.group_worker.data.opening))
    opening = dict(one.group_worker.data.opening)
    one.group_worker.data.opening.clear()
    one.group_worker.served.look()
    one.group_worker.data.opening.update(opening)
    one.cluster.delete_topic(QUEUE.name)
    one.run(lambda: link.notices.failure is not None)
    assert isinstance(link.notices.failure, InvalidDestinationError)


def test_two_looks_that_find_no_topic_refuse_who_is_being_made(one: SteppedSidecar) -> None:
    """A client may say no word; who is open waits."""
    link, other = opened(one), link_of("t")
    look = TopicsFound((), frozenset(), frozenset({QUEUE.name}))
    open_anew(one)
    one.group_worker.attach(other)
    one.run_for(20)
    for _ in range(2):
        one.sidecar.destinations.watch._looked(look)
    one.run_for(20)
    assert isinstance(other.notices.failure, InvalidDestinationError)
    assert link.notices.failure is None


def test_it_is_told_that_a_topic_is_away_and_that_it_is_back(
    one: SteppedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when its channels were being opened: the same two lines, and no third."""
    link = opened(one)
    open_anew(one)
    one.cluster.delete_topic(QUEUE.name)
    one.held.clear()
    one.run_for(4 * LOOK_MS)
    assert received_again(one, link) == [0]
    one.run_for(2 * LOOK_MS)
    told = [row.getMessage() for row in caplog.records if "its topic" in row.getMessage()]
    assert told == [
        "queue:orders: its topic orders does not exist any more, and what it held is gone; who receives from it waits "
        "until it is made again",
        "queue:orders: its topic orders exists again",
    ]


def test_a_subscription_waits_for_its_topic_too(one: SteppedSidecar) -> None:
    prices = Topic("prices")
    one.cluster.create_topic(prices.name, 1, DESTINATION_CONFIG)
    subscription = Subscription(prices, SubscriptionKind.DURABLE, "one", client_id="me")
    link = link_of("s")
    link.demand.is_waiting = True
    one.sidecar.sources.subscribe(subscription)
    worker = link.group_worker = one.sidecar.sources.attach(subscription, link)
    link.is_attached = True
    one.run(lambda: worker.is_settled and bool(worker.data.channels))
    one.run_for(100)
    one.held.add(f"jbm-recovery-{worker.data.group.group_id}")
    worker.post(lambda: worker.assignment.reopen(worker.data.channels[0]))
    one.run(lambda: bool(worker.data.opening))
    one.cluster.delete_topic(prices.name)
    one.held.clear()
    one.run_for(2_000)
    assert link.notices.failure is None
    one.cluster.create_topic(prices.name, 1, DESTINATION_CONFIG)
    one.run(lambda: bool(worker.data.channels))


def test_a_topic_that_was_made_anew_as_none_that_can_be_received_from_is_told(one: SteppedSidecar) -> None:
    """It would wait for ever: nobody makes that one again."""
    link = opened(one)
    open_anew(one)
    one.cluster.delete_topic(QUEUE.name)
    one.cluster.create_topic(QUEUE.name, 1, {"cleanup.policy": "compact"})
    one.held.clear()
    one.run(lambda: link.notices.failure is not None)
    assert isinstance(link.notices.failure, JMSError)
    assert "is compacted" in str(link.notices.failure)
