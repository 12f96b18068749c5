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


@given(ENTRIES, STEPS, st.integers(1, 4), st.sampled_from([None, *NAMES]))
def test_each_lane_keeps_its_order_and_all_is_sent(
    given_entries: list[list[StoredSend]], steps: list[tuple[str, str]], entries_max: int, broken: str | None
) -> None:
    """All but what waits for a destination that takes nothing in the end, and what is behind that in a lane."""
    order = ForwardingOrder(entries_max, 1_000)
    waiting = {number: StoredEntry(0, sends) for number, sends in enumerate(given_entries)}
    sent: list[int] = []
    now_ms = 0

    def rows() -> list[tuple[int, StoredEntry, int]]:
        return [(number, entry, 1) for number, entry in waiting.items() if number >= order.position]

    def forward(broken: str | None = None) -> None:
        chosen = order.choose(rows())
        destinations = {each.destination for _, entry in chosen for each in entry.sends}
        assert not destinations & set(order.waiting_destinations)
        if broken in destinations:
            order.suspend(broken, now_ms)
            return
        for number, _ in chosen:
            sent.append(number)
            del waiting[number]
        order.sent(destinations)

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
            forward(name)
    for _ in range(2 * len(given_entries) + 4):
        now_ms += LONGEST_WAIT_MS
        order.release_due(now_ms)
        for _ in range(4):
            forward(broken)
    held: set[tuple[object, ...]] = set()
    for number, sends in enumerate(given_entries):
        is_held = broken in {send.destination for send in sends} or bool(held & set(map(lane, sends)))
        assert is_held == (number in waiting) or number in sent, number
        if number in waiting:
            held.update(lane(send) for send in sends if send.destination != broken)
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


def test_a_destination_that_waits_again_has_nothing_looked_at_once_more() -> None:
    """SAF-6: with a million that wait, 6 s of the processor at each try, for which what goes elsewhere waited."""
    order = ForwardingOrder(10, 1_000)
    rows = [(number, entry("queue:a"), 1) for number in range(100)]
    now_ms = 0
    for _ in range(3):
        order.choose(rows[order.position :])
        order.suspend("queue:a", now_ms)
        assert not order.choose(rows[order.position :])
        assert order.position == 100
        now_ms += LONGEST_WAIT_MS
        order.release_due(now_ms)
        assert order.position == 0
    assert order.choose(rows)
    order.suspend("queue:a", now_ms)
    assert order.position == 100


def test_what_was_passed_stays_passed_with_the_lanes_that_it_holds() -> None:
    """SAF-3"""
    order = ForwardingOrder(1, 1_000)
    order.suspend("queue:a", 0)
    waiting = {0: entry("queue:a", "queue:c"), 1: entry("queue:b"), 2: entry("queue:b"), 3: entry("queue:c")}

    def choose() -> list[int]:
        return [n for n, _ in order.choose((n, each, 1) for n, each in waiting.items() if n >= order.position)]

    assert choose() == [1]
    order.release_due(LONGEST_WAIT_MS)
    assert choose() == [0]
    order.suspend("queue:a", LONGEST_WAIT_MS)
    assert choose() == [2]
    assert not choose(), "queue:c waits behind the transaction still"


def test_when_something_went_all_that_was_passed_is_looked_at() -> None:
    """SAF-6: else what was held by it would wait as long as another destination does."""
    order = ForwardingOrder(1, 1_000)
    order.suspend("queue:a", 0)
    waiting = {0: entry("queue:a", "queue:c"), 1: entry("queue:a"), 2: entry("queue:c")}

    def choose() -> list[int]:
        return [n for n, _ in order.choose((n, each, 1) for n, each in waiting.items() if n >= order.position)]

    assert not choose()
    order.release_due(LONGEST_WAIT_MS)
    assert choose() == [0]
    del waiting[0]
    order.sent(["queue:a", "queue:c"])
    assert choose() == [1]
    order.suspend("queue:a", LONGEST_WAIT_MS)
    assert choose() == [2]


def test_a_destination_that_took_a_part_of_a_batch_is_looked_at_again() -> None:
    """SAF-6: as where it is known of one unit only where it goes; what was passed before is not passed for ever."""
    order = ForwardingOrder(10, 1_000)
    order.suspend("queue:a", 0)
    waiting = {number: entry("queue:a") for number in range(3)}

    def choose() -> list[int]:
        return [n for n, _ in order.choose((n, each, 1) for n, each in waiting.items() if n >= order.position)]

    assert not choose()
    order.release_due(LONGEST_WAIT_MS)
    assert choose() == [0, 1, 2]
    order.suspend("queue:a", LONGEST_WAIT_MS)
    del waiting[0]
    order.sent(["queue:a"])
    assert choose() == [1, 2]


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
