"""Of which kind a held message is, and when that changes by itself."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.backlog import HeldReference, HeldTally
from jbm_kafka.core.channel.held_in_order import HeldInOrder, HeldKind
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.redelivery_states import RedeliveryState
from jbm_kafka.core.channel.reference import Reference

NOW_MS = 1_000


def held(unit: str = "", *, due_at_ms: int = 0, expiration_ms: int = 0, delivery_time_ms: int = 0) -> HeldReference:
    reference = Reference(0, unit.encode() or None, 4, expiration_ms, delivery_time_ms)
    redelivery = RedeliveryState(1, due_at_ms, 0, None, "") if due_at_ms else None
    return HeldReference(reference, 500, redelivery, is_prepared=False)


@pytest.mark.parametrize(
    ("messages", "kinds", "changes_at_ms"),
    [
        ([held(), held()], [HeldKind.DELIVERABLE, HeldKind.DELIVERABLE], FOREVER_MS),
        ([held("a"), held("a"), held("b")], [HeldKind.DELIVERABLE, HeldKind.BLOCKED, HeldKind.DELIVERABLE], FOREVER_MS),
        ([held("a", due_at_ms=1_500), held("a")], [HeldKind.DELAYED, HeldKind.BLOCKED], 1_500),
        ([held("a", delivery_time_ms=1_200), held(due_at_ms=1_000)], [HeldKind.DELAYED, HeldKind.DELIVERABLE], 1_200),
        ([held("a", due_at_ms=FOREVER_MS), held("a")], [HeldKind.ON_HOLD, HeldKind.BLOCKED], FOREVER_MS),
        ([held("a", expiration_ms=1_000), held("a")], [HeldKind.EXPIRED, HeldKind.DELIVERABLE], FOREVER_MS),
        ([held("a", expiration_ms=1_001), held("a")], [HeldKind.DELIVERABLE, HeldKind.BLOCKED], 1_001),
        ([held("a")._replace(is_prepared=True), held("a")], [HeldKind.IN_HAND, HeldKind.BLOCKED], FOREVER_MS),
    ],
)
def test_each_message_has_one_kind(messages: list[HeldReference], kinds: list[HeldKind], changes_at_ms: int) -> None:
    """Of LOG-3, UNIT-4."""
    tally = HeldTally()
    tally.add(messages, NOW_MS)
    assert tally.counts == {kind: kinds.count(kind) for kind in kinds}
    assert tally.oldest_at_ms == dict.fromkeys(kinds, 500)
    assert tally.changes_at_ms == changes_at_ms


def test_what_failed_three_times_or_more_and_is_tried_again_fails() -> None:
    """But for what waits for an operator, which is told as that."""
    tally = HeldTally()
    states = [RedeliveryState(attempts, due_at_ms, 0, None, "")
              for attempts, due_at_ms in ((2, 0), (5, 0), (3, 1_500), (9, FOREVER_MS))]  # fmt: skip
    tally.add([HeldReference(Reference(at, None), 500, state, False) for at, state in enumerate(states)], NOW_MS)
    assert (tally.failing, tally.attempts_max) == (2, 5)


def test_what_leaves_for_another_queue_is_not_to_be_had_and_holds_its_unit() -> None:
    in_order = HeldInOrder(NOW_MS)
    assert in_order.place(Reference(0, b"a"), None, is_leaving=True).kind is HeldKind.BLOCKED
    assert in_order.place(Reference(1, b"a"), None).kind is HeldKind.BLOCKED
