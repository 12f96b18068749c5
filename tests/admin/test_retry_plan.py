"""Which dead letters a retry sends, where to, and what it warns of; on a Kafka in memory."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from jbm_kafka.admin.dead_letters.letters import LetterFilter
from jbm_kafka.admin.dead_letters.retry_plan import RetryPlan, RetryPlanner, subscription_of
from jbm_kafka.codec.dead_letter import dead_letter_headers, expired_headers, origin_of
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import KafkaRecord, Outgoing
from jbm_kafka.ports.provider import TopicInfo
from tests.kafka.world import send_all
from tests.support.manual_clock import ManualClock

DLQ, ORDERS = Queue("DLQ"), Queue("orders")
LIMIT = 10_000
ALL = LetterFilter()


class Cluster:
    """A queue of four partitions, and a dead-letter queue of two."""

    def __init__(self) -> None:
        self.kafka = MemoryKafka(MemoryCluster(ManualClock()))
        self.kafka.admin().create_topic("orders", partitions=4, config={})
        self.kafka.admin().create_topic("DLQ", partitions=2, config={})
        self.orders = TopicInfo("orders", "t", 4, LIMIT)

    def planner(self, namespace: str = "") -> RetryPlanner:
        return RetryPlanner(
            DLQ,
            admin=self.kafka.admin(),
            reader=self.kafka.log_reader(),
            info_of=self._info_of,
            subscriptions_of=lambda _: [],
            namespace=namespace,
        )

    def _info_of(self, queue: Queue | Topic) -> TopicInfo:
        if queue != ORDERS:
            raise InvalidDestinationError(f"{queue}, where it came from, is not there any more")
        return self.orders

    def sent(self, *texts: str, unit: str | None = None, partition: int = 1) -> None:
        """Messages in the queue's log."""
        key = None if unit is None else unit.encode()
        send_all(self.kafka, [Outgoing("orders", partition, key, text.encode(), []) for text in texts])

    def died(
        self,
        text: str | None = "x",
        *,
        unit: str | None = None,
        offset: int = 0,
        origin: Destination = ORDERS,
        reason: str = "max-delivery-attempts",
        message_id: str = "ID:a:1",
        original: Sequence[Header] = (("JBMBody", b"text"), ("qty", b"3")),
    ) -> None:
        """A dead letter of partition 1."""
        headers = dead_letter_headers(
            original, destination=origin, message_id=message_id, partition=1, offset=offset, delivery_count=3,
            reason=reason,
        )  # fmt: skip
        self.record(text, headers, unit=unit)

    def record(self, text: str | None, headers: Sequence[Header], *, unit: str | None = None) -> None:
        key = None if unit is None else unit.encode()
        place = 0 if key is None else partition_for(key, 2)
        send_all(self.kafka, [Outgoing("DLQ", place, key, None if text is None else text.encode(), headers)])

    def letters(self) -> Iterator[KafkaRecord]:
        admin, reader = self.kafka.admin(), self.kafka.log_reader()
        for partition, end in admin.end_positions("DLQ", [0, 1], stable=True).items():
            yield from reader.read("DLQ", {partition: (0, end)}, timeout_s=1)

    def plan(self, wanted: LetterFilter = ALL, count: int | None = None) -> RetryPlan:
        return self.planner().plan(self.letters(), wanted, count)

    def outgoing(self) -> list[Outgoing]:
        """What would be sent, of all."""
        records = {(r.partition(), r.offset()): r for r in self.letters()}
        planner = self.planner()
        return [planner.outgoing(letter, records[letter.place]) for letter in self.plan().letters]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_unit_goes_where_its_other_messages_go_and_others_where_they_were(cluster: Cluster) -> None:
    """Of REDELIVER-9 and UNIT-11."""
    cluster.died("a", unit="joe")
    cluster.died("b")
    by_unit = {record.key: record for record in cluster.outgoing()}
    assert by_unit[b"joe"].partition == partition_for(b"joe", 4)
    assert by_unit[None].partition == 1
    assert by_unit[b"joe"].headers == [("JBMBody", b"text"), ("qty", b"3"), ("JMSMessageID", b"ID:a:1")]
    assert (by_unit[b"joe"].topic, by_unit[b"joe"].value, by_unit[b"joe"].timestamp_ms) == ("orders", b"a", None)


def test_a_topic_that_grew_takes_no_units_before_they_are_routed_anew(cluster: Cluster) -> None:
    cluster.orders = TopicInfo("orders", "t", 4, LIMIT, recorded_partitions=2)
    cluster.died(unit="joe")
    cluster.died()
    plan = cluster.plan()
    assert [letter.unit for letter in plan.letters] == [None]
    assert "admit-partitions orders" in plan.kept[0].why


def test_what_an_operator_gave_up_went_back_without_a_word(cluster: Cluster) -> None:
    """It killed its workers, and killed them again."""
    cluster.died("a", reason="operator", message_id="ID:a:1")
    (alone,) = cluster.plan().warnings
    assert alone == "1 of them was given up by an operator (ID:a:1)"
    for number in range(2, 8):
        cluster.died("a", reason="operator", message_id=f"ID:a:{number}")
    cluster.died("b", reason="max-delivery-attempts")
    (told,) = cluster.plan().warnings
    assert told == (
        "7 of them were given up by an operator (ID:a:1, ID:a:2, ID:a:3, ID:a:4, ID:a:5 and 2 more); "
        "jbm-kafka dead-letters retry --reason max-delivery-attempts leaves them out"
    )
    for asked in (LetterFilter(reason="operator"), LetterFilter(message_id="ID:a:1")):
        assert cluster.plan(asked).warnings == []


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        (Queue("gone"), "queue:gone, where it came from, is not there any more"),
        (Topic("news"), "topic:news, where it came from, is not there any more"),
        (DLQ, "it came from queue:DLQ itself, where it is"),
    ],
)
def test_what_cannot_go_back_is_kept_with_the_reason(cluster: Cluster, origin: Destination, why: str) -> None:
    cluster.died(origin=origin)
    plan = cluster.plan()
    assert (plan.letters, [row.why for row in plan.kept]) == ([], [why])


def test_a_record_that_is_no_dead_letter_is_kept_with_the_reason(cluster: Cluster) -> None:
    cluster.record("by hand", [])
    cluster.record("odd", [("_JBM_ORIG_DESTINATION", b"orders")])
    first, second = (row.why for row in cluster.plan().kept)
    assert first.startswith("it does not tell where it came from")
    assert second.startswith("where it came from cannot be read: 'orders' is ")


def test_one_that_is_too_large_for_its_queue_is_kept(cluster: Cluster) -> None:
    """The queue's limit was lowered: the transaction of all others would fail with it."""
    cluster.died("".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=3 * LIMIT)))
    cluster.died("small")
    plan = cluster.plan()
    assert len(plan.letters) == 1
    assert "queue:orders takes 10000: raise max.message.bytes" in plan.kept[0].why


def test_the_original_gives_a_letter_its_body_that_had_to_go_without(cluster: Cluster) -> None:
    """It was too large for the dead-letter queue; the log still has the original."""
    cluster.sent("before", "the body")
    cluster.died(None, offset=1, message_id="ID:kafka:orders:1:1")
    (record,) = cluster.outgoing()
    assert record.value == b"the body"


@pytest.mark.parametrize(("offset", "message_id"), [(1, "ID:another"), (7, "ID:kafka:orders:1:7")])
def test_a_letter_without_its_body_is_kept_when_the_original_is_gone(
    cluster: Cluster, offset: int, message_id: str
) -> None:
    """It was sent empty: the topic was made anew, and another message or none has its place."""
    cluster.sent("before", "the body")
    cluster.died(None, offset=offset, message_id=message_id)
    (kept,) = cluster.plan().kept
    assert f"the original at queue:orders partition 1 offset {offset} is not in the log any more" in kept.why


def test_a_message_that_never_had_a_body_goes_as_it_is(cluster: Cluster) -> None:
    cluster.died(None, offset=99, original=[("JBMBody", b"none")])
    (record,) = cluster.outgoing()
    assert record.value is None


def test_filters_narrow_and_the_oldest_come_first(cluster: Cluster) -> None:
    cluster.died("a", unit="joe", reason="operator", message_id="ID:a:1")
    cluster.died("b", unit="ann", message_id="ID:a:2")
    expired = expired_headers(
        [], destination=ORDERS, message_id="ID:a:3", partition=0, offset=9, delivery_count=0, actual_expiry_ms=5
    )
    cluster.record("c", expired)

    def found(wanted: LetterFilter) -> set[str]:
        return {letter.message_id for letter in cluster.plan(wanted).letters}

    assert found(ALL) == {"ID:a:1", "ID:a:2", "ID:a:3"}
    assert found(LetterFilter(reason="operator")) == {"ID:a:1"}
    assert found(LetterFilter(reason="expired")) == {"ID:a:3"}
    assert found(LetterFilter(unit="ann")) == {"ID:a:2"}
    assert found(LetterFilter(message_id="ID:a:2")) == {"ID:a:2"}
    assert found(LetterFilter(selector=parse_selector("_JBM_DEAD_LETTER_REASON = 'operator'"))) == {"ID:a:1"}
    assert found(LetterFilter(origin=ORDERS, unit="joe")) == {"ID:a:1"}
    assert found(LetterFilter(origin=Queue("other"))) == set()


def test_a_later_letter_of_a_unit_without_the_earlier_is_warned_of(cluster: Cluster) -> None:
    """Of REDELIVER-9, as UNIT-14 for moves: part of a unit goes, and its order is given up."""
    cluster.died("1", unit="joe", reason="undecodable", offset=1)
    cluster.died("2", unit="joe", offset=2)
    assert cluster.plan().warnings == []
    (warning,) = cluster.plan(LetterFilter(reason="max-delivery-attempts")).warnings
    assert warning.startswith("unit 'joe': earlier letters stay in DLQ while later ones are sent")
    assert cluster.plan(LetterFilter(reason="undecodable")).warnings == []
    assert cluster.plan(count=1).warnings == []


def test_who_left_out_what_kills_its_workers_was_told_to_send_it_too(cluster: Cluster) -> None:
    """The runbook says to retry by reason, so that it stays; the warning advised to send all of the unit's letters."""
    cluster.died("kills its workers", unit="joe", reason="operator", offset=1)
    cluster.died("2", unit="joe", offset=2)
    wanted = LetterFilter(reason="max-delivery-attempts")
    (warning,) = cluster.plan(wanted).warnings
    assert warning.startswith("unit 'joe': earlier letters that an operator gave up (reason operator) stay in DLQ")
    assert "send all" not in warning
    cluster.died("failed", unit="ann", reason="undecodable", offset=3)
    cluster.died("4", unit="ann", offset=4)
    assert sorted(each[:10] for each in cluster.plan(wanted).warnings) == ["unit 'ann'", "unit 'joe'"]


def test_a_unit_that_went_on_is_warned_of(cluster: Cluster) -> None:
    """Of REDELIVER-9: what was sent after the letter has been processed before it, or will be."""
    cluster.sent("poison", "poison too", unit="joe")
    cluster.sent("poison", unit="ann")
    cluster.died(unit="joe", offset=0)
    cluster.died(unit="joe", offset=1)
    cluster.died(unit="ann", offset=2)
    assert cluster.plan().warnings == [], "what follows the first letter is a letter itself, and goes after it"
    cluster.sent("sent later", unit="joe")
    (warning,) = cluster.plan().warnings
    assert warning.startswith("unit 'joe' of queue:orders went on: ")


def test_that_a_long_log_was_not_read_to_its_end_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jbm_kafka.admin.dead_letters.retry_plan.FOLLOWING_MAX", 3)
    cluster.sent("poison", "2", "3", "4", "5", unit="joe")
    cluster.died(unit="joe", offset=0)
    first, second = cluster.plan().warnings
    assert first.startswith("partition 1 of queue:orders: more than 3 messages follow")
    assert second.startswith("unit 'joe' of queue:orders went on")


def test_a_letter_of_an_earlier_version_goes_to_the_durable_subscription_of_its_name() -> None:
    """Of REDELIVER-9: it does not say of which kind its subscription was; what it was sent again as is for both."""
    durable, shared = (
        Subscription(Topic("prices"), kind, "audit", "billing")
        for kind in (SubscriptionKind.DURABLE, SubscriptionKind.SHARED)
    )
    origin = origin_of([("jms.string._JBM_ORIG_SUBSCRIPTION", b"billing/audit")])
    assert subscription_of(origin, [shared, durable]) == durable
    assert subscription_of(origin, [shared]) == shared
    assert subscription_of(origin._replace(subscription_kind="shared"), [durable, shared]) == shared
    assert subscription_of(origin._replace(subscription_kind="durable"), [shared]) is None
    assert all(each.is_meant(b"billing/audit") for each in (durable, shared))


def test_a_letter_of_a_client_whose_id_has_a_slash_goes_to_no_other_subscription() -> None:
    """Of REDELIVER-9: `a/b` with `c` and `a` with `b/c`; of an earlier version both had one name."""
    one, other = (
        Subscription(Topic("prices"), SubscriptionKind.DURABLE, name, of) for of, name in (("a/b", "c"), ("a", "b/c"))
    )
    for known in ([one, other], [other, one]):
        letters = [origin_of([("jms.string._JBM_ORIG_SUBSCRIPTION", each.full_name.encode())]) for each in known]
        assert [subscription_of(letter, known) for letter in letters] == known
    assert subscription_of(origin_of([("jms.string._JBM_ORIG_SUBSCRIPTION", b"a/b/c")]), [one]) == one


OLD: list[Header] = [("jms.string._JBM_ORIG_DESTINATION", b"queue:orders"), ("jms.int._JBM_ORIG_PARTITION", b"0")]
"""A letter of a version that told no namespace."""


@pytest.mark.parametrize(
    ("namespace", "has_received", "why"),
    [
        ("", False, None),
        ("shop", True, None),
        ("shop", False, "an earlier version wrote it, and nobody in namespace 'shop' has received from queue:orders"),
    ],
)
def test_a_letter_that_does_not_tell_its_namespace_is_sent_where_it_can_be_its_own(
    namespace: str, has_received: bool, why: str | None
) -> None:
    """Of REDELIVER-9."""
    cluster = Cluster()
    if has_received:
        cluster.kafka.admin().create_topic("shop.orders.jbm-changelog", partitions=4, config={})
    cluster.record("x", OLD)
    plan = cluster.planner(namespace).plan(cluster.letters(), ALL, None)
    assert len(plan.letters) == (why is None)
    assert [row.why.startswith(why or "-") for row in plan.kept] == [True] * (why is not None)
