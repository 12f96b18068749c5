"""What a browser counts as deliverable, on a Kafka in memory."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from jbm_kafka.browsing.browse import ChannelLook, browse
from jbm_kafka.browsing.unacknowledged_offsets import UnacknowledgedOffsets
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.entries import Entry, Held, Position
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import KafkaAdmin, Outgoing
from jbm_kafka.registry.channel_group import ChannelGroup
from tests.kafka.world import send_all
from tests.sidecar.parts import group_worker_behind
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")
GROUP = ChannelGroup.of_queue(QUEUE, namespace="")


def test_what_follows_an_expired_head_is_shown() -> None:
    """Of LOG-3: a browser hid the whole unit, though a receiver would get it: the expired one leaves first."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    rows: list[tuple[bytes | None, bytes | None]] = [
        (b"a", b"100"),
        (b"a", None),
        (b"a", None),
        (b"b", b"900"),
        (None, b"100"),
    ]
    records = [Outgoing(QUEUE.name, 0, key, None, [("JMSExpiration", expiry)]) for key, expiry in rows]
    send_all(kafka, records)
    found = browse(kafka, GROUP, now_ms=500, hands=None, include_all=True)
    assert [seen.is_deliverable for seen in found] == [False, True, False, True, False]


def test_without_a_changelog_the_committed_offset_tells_what_is_left() -> None:
    """Of LOG-3: whoever deleted it, receivers begin there, and show and browsers told all of the log."""
    clock = ManualClock()
    cluster = MemoryCluster(clock, waits=False)
    process = SteppedSidecar("one", cluster)
    link = process.attach("s")
    process.send("a", "b", "c")
    process.receive(link, 3)
    link.settlement.leases[0].acknowledge(0)
    committed = cluster.group(group_worker_behind(link).data.group.group_id).committed
    process.run(lambda: any(offset.position == 1 for offset in committed.values()))
    process.crash()
    cluster.delete_topic(QUEUE.changelog_topic())
    found = browse(MemoryKafka(cluster), GROUP, now_ms=clock.now_ms(), hands=None, include_all=True)
    assert [seen.record.value() for seen in found] == [b"b", b"c"]


def test_a_selector_leaves_out_messages_and_lets_nobody_past_the_head_of_its_unit() -> None:
    """Of UNIT-6: what follows a head that is not selected is not deliverable for that."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    rows: list[tuple[bytes | None, bytes]] = [(b"a", b"US"), (b"a", b"EU"), (None, b"EU"), (b"b", b"EU"), (None, b"US")]
    send_all(kafka, [Outgoing(QUEUE.name, 0, key, None, [("jms.string.region", told)]) for key, told in rows])
    selector = parse_selector("region = 'EU'")
    found = {
        include_all: [
            seen.record.offset()
            for seen in browse(kafka, GROUP, now_ms=500, hands=None, include_all=include_all, selector=selector)
        ]
        for include_all in (True, False)
    }
    assert found == {True: [1, 2, 3], False: [2, 3]}


def look(
    hand: UnacknowledgedOffsets, *rows: tuple[bytes | None, str, bytes | None], recorded: Sequence[Entry] = ()
) -> list[tuple[MessageState, bool]]:
    """What is seen at 500 ms of messages, each a unit and a header, with what of them is in hand and what recorded."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    send_all(kafka, [Outgoing(QUEUE.name, 0, key, None, [(name, value)]) for key, name, value in rows])
    state = ChannelState()
    for entry in recorded:
        state.apply(entry)
    looking = ChannelLook(state, hand, None, None, now_ms=500)
    records = kafka.log_reader().read(QUEUE.name, {0: (0, len(rows))}, timeout_s=1)
    arrivals = [looking.at(0, record) for record in records]
    return [(each.seen.state, each.seen.is_deliverable) for each in arrivals if each is not None]


EXPIRES, DUE = "JMSExpiration", "JMSDeliveryTime"


def test_what_follows_a_message_in_hand_waits_also_when_that_has_expired() -> None:
    """Of UNIT-13, STATE-4: a browser showed it as the next to come, and who has the first may still acknowledge it."""
    found = look(
        UnacknowledgedOffsets(delivered=frozenset({0})), (b"a", EXPIRES, b"100"), (b"a", DUE, None), (b"b", DUE, None)
    )
    assert found == [(MessageState.DELIVERED, False), (MessageState.NEW, False), (MessageState.NEW, True)]


def test_what_is_on_its_way_out_comes_to_nobody_and_holds_its_unit() -> None:
    """Of UNIT-13: a browser showed a message as deliverable that an operator had just moved away."""
    found = look(
        UnacknowledgedOffsets(leaving=frozenset({0, 2})), (b"a", DUE, None), (b"a", DUE, None), (None, DUE, None)
    )
    assert found == [(MessageState.NEW, False)] * 3


def test_a_delayed_message_that_an_operator_could_not_move_is_as_delayed_as_before() -> None:
    """Of SEND-6, UNIT-13: it has a past then, without a delay of its own."""
    entries: list[Entry] = [Position("t", "jbm.one.0:1", 0, 1, 0, 0), Held(0, 0, 0, 0, None, "")]
    assert look(UnacknowledgedOffsets(), (None, DUE, b"900"), recorded=entries) == [(MessageState.NEW, False)]
    assert look(UnacknowledgedOffsets(), (None, DUE, b"400"), recorded=entries) == [(MessageState.NEW, True)]


@pytest.mark.parametrize(("partitions", "changelogs"), [(2, 1), (1, 2)])
def test_a_queue_is_browsed_whole_while_its_changelog_has_another_number_of_partitions(
    partitions: int, changelogs: int
) -> None:
    """Of LOG-3: partitions were just added; or the queue was made anew with fewer."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=partitions, config={})
    kafka.admin().create_topic(QUEUE.changelog_topic(), partitions=changelogs, config={"cleanup.policy": "compact"})
    send_all(kafka, [Outgoing(QUEUE.name, partition, None, b"%d" % partition) for partition in range(partitions)])
    found = browse(kafka, GROUP, now_ms=500, hands=None, include_all=True)
    assert sorted(seen.record.value() or b"" for seen in found) == [b"0", b"1"][:partitions]


class AskedFor(UnacknowledgedQuery):
    """Tells of which partitions somebody would be asked what he has in hand."""

    def __init__(self, kafka: MemoryKafka) -> None:
        super().__init__(kafka, namespace="", ours=None)
        self.held: list[int] = []

    def of(self, group: ChannelGroup, held: Collection[int], admin: KafkaAdmin) -> Mapping[int, UnacknowledgedOffsets]:
        self.held += held
        return super().of(group, held, admin)


def test_nobody_is_asked_about_what_was_sent_before_the_subscription_began() -> None:
    """Of UNIT-13: looking at an empty subscription waited for an owner, 5 s and with a warning, who had no news."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic("prices", partitions=2, config={})
    send_all(kafka, [Outgoing("prices", 0, None, b"before"), Outgoing("prices", 1, None, b"after")])
    audit = Subscription(Topic("prices"), SubscriptionKind.SHARED_DURABLE, "audit")
    topic_id = kafka.admin().describe(["prices"])["prices"].topic_id
    record = SubscriptionRecord(audit, topic_id, incarnation="1", begins=(1, 0), holders=(), created_ms=0)
    group = ChannelGroup.of_subscription(audit, record, namespace="")
    hands = AskedFor(kafka)
    found = browse(kafka, group, now_ms=500, hands=hands, include_all=True)
    assert [seen.record.value() for seen in found] == [b"after"]
    assert hands.held == [1]
