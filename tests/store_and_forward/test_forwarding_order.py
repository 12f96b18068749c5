"""SAF-3, SAF-6: goal: batches keep each lane's order, and a destination that waits holds nothing but its own.

Method: Hypothesis draws entries and moments at which destinations fail and come back. The model knows only in which
order the entries were stored.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.jms_errors import (
    ConnectionFailedError,
    IllegalStateError,
    JMSError,
    JMSSecurityError,
    MessageTooLargeError,
    OrderError,
)
from jbm_kafka.store_and_forward.forwarding_order import (
    LONGEST_WAIT_MS,
    ForwardingOrder,
    Verdict,
    next_wait_ms,
    verdict_of,
)

NAMES = ("queue:a", "queue:b", "queue:c")
SENDS = st.builds(
    StoredSend,
    st.sampled_from(NAMES),
    st.integers(0, 2),
    st.sampled_from([None, b"u", b"v"]),
    st.none(),
    st.just(()),
    st.none(),
)
ENTRIES = st.lists(st.lists(SENDS, min_size=1, max_size=3), max_size=20)
STEPS = st.lists(st.tuples(st.sampled_from(["fail", "time", "send", "abort"]), st.sampled_from(NAMES)), max_size=40)


def lane(send: StoredSend) -> tuple[object, ...]:
    """As docs/store-and-forward.md has it."""
    return (send.destination, "unit", send.key) if send.key else (send.destination, "session", send.route)


@given(ENTRIES, STEPS, st.integers(1, 4))
def test_each_lane_keeps_its_order_and_all_is_sent(
    given_entries: list[list[StoredSend]], steps: list[tuple[str, str]], entries_max: int
) -> None:
    order = ForwardingOrder(entries_max, 1_000)
    waiting = {number: StoredEntry(0, sends) for number, sends in enumerate(given_entries)}
    sent: list[int] = []
    now_ms = 0

    def rows() -> list[tuple[int, StoredEntry, int]]:
        return [(number, entry, 1) for number, entry in waiting.items() if number >= order.position]

    def forward() -> None:
        chosen = order.choose(rows())
        for number, entry in chosen:
            assert not {each.destination for each in entry.sends} & set(order.waiting_destinations)
            sent.append(number)
            del waiting[number]
        order.sent(each.destination for _, entry in chosen for each in entry.sends)

    for step, name in steps:
        if step == "fail":
            order.suspend(name, now_ms)
        elif step == "time":
            now_ms += LONGEST_WAIT_MS
            order.release_due(now_ms)
        elif step == "abort":
            order.shrink(len(order.choose(rows())))
            order.begin_again()
        else:
            forward()
    for _ in range(len(given_entries) + 2):
        now_ms += LONGEST_WAIT_MS
        order.release_due(now_ms)
        forward()
    assert sorted(sent) == list(range(len(given_entries)))
    for each in {lane(send) for sends in given_entries for send in sends}:
        of_lane = [number for number in sent if each in map(lane, given_entries[number])]
        assert of_lane == sorted(of_lane), (each, sent)


def test_a_destination_that_waits_holds_no_other() -> None:
    order = ForwardingOrder(10, 1_000)
    order.suspend("queue:a", 0)
    entries = [entry("queue:a"), entry("queue:b"), entry("queue:a", "queue:c"), entry("queue:c"), entry("queue:b")]
    chosen = order.choose((number, each, 1) for number, each in enumerate(entries))
    assert [number for number, _ in chosen] == [1, 4], "queue:c waits behind the transaction that queue:a holds"
    assert order.due_at_ms() == next_wait_ms(0)


def test_a_batch_ends_at_its_bytes_and_a_larger_entry_goes_alone() -> None:
    order = ForwardingOrder(10, 100)
    sizes = [60, 50, 200, 10]
    found = []
    while chosen := order.choose(
        (number, entry("queue:a"), size) for number, size in enumerate(sizes) if number >= order.position
    ):
        found.append([number for number, _ in chosen])
    assert found == [[0], [1], [2], [3]]


def test_a_batch_that_was_too_much_is_halved_and_grows_again() -> None:
    order = ForwardingOrder(1_000, 1 << 20)
    sizes = []
    for is_written in [*[False] * 4, *[True] * 60]:
        size = len(order.choose((number, entry("queue:a"), 1) for number in range(2_000)))
        sizes.append(size)
        if is_written:
            order.sent(["queue:a"])
        else:
            order.shrink(size)
        order.begin_again()
    assert sizes[:5] == [1_000, 500, 250, 125, 62]
    assert sizes[4:] == sorted(sizes[4:])
    assert max(after / before for before, after in pairwise(sizes[4:])) < 1.2, "what fitted fits soon again"
    assert sizes[-1] == 1_000


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConnectionFailedError("nobody answers"), Verdict.ALL_WAIT),
        (MessageTooLargeError("too large"), Verdict.SET_ASIDE),
        (JMSSecurityError("no right"), Verdict.SET_ASIDE),
        (IllegalStateError("paused"), Verdict.DESTINATION_WAITS),
        (OrderError("no place"), Verdict.DESTINATION_WAITS),
    ],
)
def test_what_a_failure_means(error: JMSError, verdict: Verdict) -> None:
    assert verdict_of(error) is verdict


def test_waits_get_longer_up_to_a_limit() -> None:
    waits = [next_wait_ms(tries) for tries in range(50)]
    assert all(one <= other for one, other in pairwise(waits))
    assert waits[-1] == LONGEST_WAIT_MS


def entry(*names: str) -> StoredEntry:
    """One that sends a unit to each."""
    return StoredEntry(0, [StoredSend(name, 0, b"u", None, (), None) for name in names])


def test_a_destination_that_begins_to_wait_is_new_until_something_went_there() -> None:
    """SAF-6: so one line tells of it, however often it is tried."""
    order = ForwardingOrder(10, 1_000)
    assert order.suspend("queue:a", 0)
    order.release_due(LONGEST_WAIT_MS)
    assert not order.suspend("queue:a", LONGEST_WAIT_MS)
    assert order.suspend("queue:b", LONGEST_WAIT_MS)
    order.sent(["queue:a"])
    assert order.suspend("queue:a", LONGEST_WAIT_MS)


def test_a_destination_whose_entry_was_set_aside_begins_to_wait_anew() -> None:
    """SAF-6: no line told of its next trouble, and it waited as long as after the last one."""
    order = ForwardingOrder(10, 1_000)
    for tries in range(3):
        now_ms = tries * LONGEST_WAIT_MS
        order.suspend("queue:a", now_ms)
        order.release_due(now_ms + LONGEST_WAIT_MS)
    order.suspend("queue:b", 0)
    order.set_aside(entry("queue:a", "queue:b"))
    assert order.waiting_destinations == ["queue:b"], "what waits for another entry still does"
    assert order.suspend("queue:a", 0)
    assert order.due_at_ms() == next_wait_ms(0)
