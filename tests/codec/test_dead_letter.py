"""Of REDELIVER-4: what a dead letter and an expired message keep, and what they tell."""

from typing import Any

import pytest

from jbm_kafka.codec.dead_letter import dead_letter_headers, expired_headers, origin_of, retried_headers
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind

ORIGINAL: list[Header] = [
    ("JMSMessageID", b"ID:p:1"),
    ("JBMBody", b"text"),
    ("JMSCorrelationID", b"c"),
    ("JMSPriority", b"7"),
    ("JMSExpiration", b"1700000000000"),
    ("JMSDeliveryTime", b"1600000000000"),
    ("JBMDuplicateID", b"d"),
    ("jms.string.region", b"EU"),
    ("content-type", b"\xff"),
    ("content-type", b"2"),
]
KEPT: list[Header] = [
    ("JMSMessageID", b"ID:p:1"),
    ("JBMBody", b"text"),
    ("JMSCorrelationID", b"c"),
    ("JMSPriority", b"7"),
    ("jms.string.region", b"EU"),
    ("content-type", b"\xff"),
    ("content-type", b"2"),
]


def dead_letter(original: list[Header] | None, **changed: Any) -> list[Header]:
    return dead_letter_headers(
        original,
        destination=Queue("orders"),
        message_id="ID:p:1",
        partition=3,
        offset=4711,
        delivery_count=10,
        reason="max-delivery-attempts",
        **changed,
    )


HOP: list[Header] = [
    ("jms.string._JBM_ORIG_DESTINATION", b"queue:orders"),
    ("jms.string._JBM_ORIG_NAMESPACE", b""),
    ("jms.string._JBM_ORIG_MESSAGE_ID", b"ID:p:1"),
    ("jms.int._JBM_ORIG_PARTITION", b"3"),
    ("jms.long._JBM_ORIG_OFFSET", b"4711"),
    ("jms.int._JBM_DELIVERY_COUNT", b"10"),
    ("jms.string._JBM_DEAD_LETTER_REASON", b"max-delivery-attempts"),
]


def test_a_dead_letter_keeps_its_headers_drops_its_times_and_tells_where_it_was() -> None:
    """Of REDELIVER-4."""
    assert dead_letter(ORIGINAL) == [*KEPT, *HOP]


def test_a_further_hop_replaces_what_the_one_before_told() -> None:
    """Of REDELIVER-4: they describe the last hop, whatever type or spelling the one before used."""
    earlier: list[Header] = [
        ("jms.string._JBM_ORIG_OFFSET", b"1"),
        ("_JBM_ORIG_DESTINATION", b"queue:old"),
        ("jms.long._JBM_ACTUAL_EXPIRY", b"1"),
        ("jms.string._JBM_MINE", b"kept"),
    ]
    assert dead_letter([*KEPT, *earlier]) == [*KEPT, ("jms.string._JBM_MINE", b"kept"), *HOP]


def test_a_letter_tells_the_id_of_the_topic_it_was_in_and_of_no_earlier_one() -> None:
    """Of REDELIVER-4: a queue that is made anew has the same name, partitions and offsets."""
    told = ("jms.string._JBM_ORIG_TOPIC_ID", b"AAAAAAAAAAAAAAAAAAAAAQ")
    letter = dead_letter(ORIGINAL, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert sorted(letter) == sorted([*KEPT, *HOP, told])
    assert dead_letter(letter) == [*KEPT, *HOP], "a temporary destination has no topic of its own"


def test_a_foreign_record_gets_the_message_id_it_lacked() -> None:
    """Of REDELIVER-4 with docs/topics.md, Keys."""
    assert dead_letter(None) == [("JMSMessageID", b"ID:p:1"), *HOP]


@pytest.mark.parametrize("value", [None, b"\xff\xfe", b"ID:earlier"])
def test_an_id_header_that_is_not_the_messages_id_is_replaced(value: bytes | None) -> None:
    """Of REDELIVER-4 with docs/topics.md: a copy has the id that receivers of the original saw."""
    assert dead_letter([("JMSMessageID", value)]) == [("JMSMessageID", b"ID:p:1"), *HOP]
    beside: list[Header] = [("JMSMessageID", value), ("JMSMessageID", b"ID:p:1"), ("x", b"1")]
    assert dead_letter(beside) == [("JMSMessageID", b"ID:p:1"), ("x", b"1"), *HOP]


def test_the_time_of_sending_is_kept_when_it_is_given_and_not_there() -> None:
    assert ("JMSTimestamp", b"99") in dead_letter(KEPT, timestamp_ms=99)
    assert ("JMSTimestamp", b"99") not in dead_letter([*KEPT, ("JMSTimestamp", b"5")], timestamp_ms=99)


@pytest.mark.parametrize("value", [b"yesterday", b"", b"-5", None])
def test_a_time_of_sending_that_cannot_be_read_went_with_the_copy(value: bytes | None) -> None:
    """Of REDELIVER-4: receivers of the original saw the time of its record, those of the copy the copy's."""
    copied = dead_letter([("JMSTimestamp", value)], timestamp_ms=99)
    assert [told for name, told in copied if name == "JMSTimestamp"] == [b"99"]


def test_an_expired_message_tells_when_it_expired_and_no_reason() -> None:
    """Of REDELIVER-4."""
    expired = expired_headers(
        [*ORIGINAL, *HOP],
        destination=Topic("prices"),
        message_id="ID:p:1",
        partition=0,
        offset=1,
        delivery_count=0,
        actual_expiry_ms=1_700_000_000_330,
    )
    assert expired == [
        *KEPT,
        ("jms.string._JBM_ORIG_DESTINATION", b"topic:prices"),
        ("jms.string._JBM_ORIG_NAMESPACE", b""),
        ("jms.string._JBM_ORIG_MESSAGE_ID", b"ID:p:1"),
        ("jms.int._JBM_ORIG_PARTITION", b"0"),
        ("jms.long._JBM_ORIG_OFFSET", b"1"),
        ("jms.int._JBM_DELIVERY_COUNT", b"0"),
        ("jms.long._JBM_ACTUAL_EXPIRY", b"1700000000330"),
    ]


def test_a_letter_that_is_sent_again_is_what_it_was() -> None:
    """Of REDELIVER-9: everything that the dead letter kept, and nothing of the hop, whatever type or spelling."""
    assert retried_headers(dead_letter(ORIGINAL)) == KEPT
    odd: list[Header] = [("_JBM_ORIG_OFFSET", b"1"), ("jms.string._JBM_ACTUAL_EXPIRY", b"1"), ("jms.string.mine", None)]
    assert retried_headers([*KEPT, *odd]) == [*KEPT, ("jms.string.mine", None)]
    assert retried_headers(None) == []
    audit = Subscription(Topic("prices"), SubscriptionKind.DURABLE, "audit", "billing")
    addressed = ("JBMSubscription", b"jbm.durable.billing.audit")
    assert retried_headers([*KEPT, ("JBMSubscription", b"x")], subscription=audit) == [*KEPT, addressed]


def test_a_dead_letter_tells_where_it_was() -> None:
    assert origin_of(dead_letter(ORIGINAL)) == (
        "queue:orders", None, "ID:p:1", 3, 4711, 10, "max-delivery-attempts", None, None, None, "",
    )  # fmt: skip
    assert origin_of([("_JBM_ORIG_DESTINATION", b"queue:orders"), ("_JBM_ORIG_OFFSET", b"7")]) == (
        "queue:orders", None, None, None, None, None, None, None, None, None, None,
    )  # fmt: skip
    assert set(origin_of(None)) == {None}
