"""In which order dead letters are sent again, and whom that passes over: of values, without a Kafka."""

from __future__ import annotations

from jbm_kafka.admin.dead_letters.letters import DeadLetter, oldest_first
from jbm_kafka.admin.dead_letters.retry_plan import passed_over
from jbm_kafka.codec.dead_letter import Origin
from jbm_kafka.core.destination import Queue

DLQ = Queue("DLQ")


def letter(offset: int, died_at_ms: int, *, partition: int = 0, subscription: str | None = None) -> DeadLetter:
    origin = Origin("topic:prices", subscription, None, 0, offset, 1, None, None, None)
    return DeadLetter(partition, offset, f"ID:{offset}", "joe", origin, died_at_ms)


def test_letters_of_one_partition_keep_their_order_where_a_clock_went_back() -> None:
    """Of REDELIVER-9: a unit's letters were sent again in the wrong order."""
    first, second, elsewhere = letter(0, 5_000), letter(1, 1_000), letter(0, 3_000, partition=1)
    assert oldest_first([first, second, elsewhere]) == [elsewhere, first, second]


def test_another_subscription_s_letter_that_stays_is_no_reason_to_warn() -> None:
    """Of REDELIVER-9: each subscription has an order of its own (UNIT-12)."""
    stays, sent = letter(0, 1_000, subscription="audit"), letter(1, 2_000, subscription="billing")
    assert list(passed_over(DLQ, [sent], [stays])) == []
    (warning,) = passed_over(DLQ, [letter(1, 2_000, subscription="audit")], [stays])
    assert "earlier letters stay in DLQ" in warning
