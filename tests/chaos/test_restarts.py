"""A queue remembers counts and due times over the deaths of its owners, with and without their local state."""

import time
from collections.abc import Callable

import pytest

from tests.chaos.conftest import MakePuppet
from tests.support.chaos_puppet import Puppet
from tests.support.chaos_topics import channel_events, read_committed, send_texts
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

TAKEOVER_S = 60.0
LATE_MS = 5_000
"""How late one that is due may come on a busy machine; less than if its delay had begun anew with its new owner."""
HEADS = 6
RECORDED = 6
"""Returns and acknowledgements of `leave_a_past`."""
LONG_MS, LONGER_MS = 8_000, 10_000


def leave_a_past(puppet: Puppet, queue: str) -> dict[str, int]:
    """Acknowledge two heads, return three, one of them twice; when each is due, by body."""
    puppet.ask("open", queue, "INDIVIDUAL", queue)
    bodies = [puppet.ask("receive", queue, TAKEOVER_S)[0] for _ in range(HEADS)]
    assert sorted(bodies) == [f"{unit}.0" for unit in range(HEADS)]
    for number in (0, 1):
        puppet.ask("acknowledge", queue, number)
    due_ms = dict.fromkeys(bodies[5:], 0)
    puppet.ask("nack", queue, 2, 0)
    again = puppet.ask("receive", queue, TAKEOVER_S)
    while again[0] != bodies[2]:  # what stood behind the two acknowledged may come first; it stays in hand
        again = puppet.ask("receive", queue, TAKEOVER_S)
    assert again == [bodies[2], 2, True]
    number = puppet.ask("count", queue) - 1
    for which, body, delay_ms in ((number, bodies[2], LONG_MS), (3, bodies[3], LONGER_MS), (4, bodies[4], LONG_MS)):
        due_ms[body] = now_ms() + delay_ms  # or a little later: who is told of it may be held up here
        puppet.ask("nack", queue, which, delay_ms)
    return due_ms


def drain(puppet: Puppet, queue: str, count: int) -> dict[str, tuple[int, bool, int]]:
    """Receive and acknowledge so many: count, flag and time of arrival by body."""
    seen: dict[str, tuple[int, bool, int]] = {}
    for number in range(count):
        message = puppet.ask("receive", queue, TAKEOVER_S)
        assert message is not None, f"{queue}: only {sorted(seen)} came"
        body, delivery_count, redelivered = message
        assert body not in seen, f"{body} came twice"
        seen[body] = delivery_count, redelivered, now_ms()
        puppet.ask("acknowledge", queue, number)
    assert puppet.ask("receive", queue, 0.5) is None
    return seen


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def recorded(bootstrap: str, queue: str) -> int:
    """How many verdicts the committed checkpoints tell of."""
    events = channel_events(bootstrap, queue)
    ranges = [r for event in events for r in event["acknowledged"]]
    acknowledged = sum(int(r["last"]) - int(r["first"]) + 1 for r in ranges)
    return acknowledged + sum(len(event["messages"]) for event in events)


def test_a_deleted_state_folder_changes_nothing(
    bootstrap: str, make_queue: Callable[..., str], puppet: MakePuppet
) -> None:
    """LOG-7, LOG-3: the same messages with the same counts, flags and due times come from the topics alone."""
    kept, deleted = make_queue("kept"), make_queue("deleted")
    for queue in (kept, deleted):
        for unit in range(HEADS):
            send_texts(bootstrap, queue, [f"{unit}.0", f"{unit}.1"], unit=f"u{unit}")
    first = puppet("first")
    due_ms = {queue: leave_a_past(first, queue) for queue in (kept, deleted)}
    for queue in (kept, deleted):
        wait_until(
            lambda q=queue: recorded(bootstrap, q) >= RECORDED,  # type: ignore[misc]
            about=f"all verdicts on {queue} recorded",
            timeout_s=TAKEOVER_S,
        )
    first.kill()
    # One has the dead process's folder, the other a new one, as if it had been deleted.
    owners = {kept: puppet("first"), deleted: puppet("other")}
    for queue, owner in owners.items():
        owner.tell("open", queue, "INDIVIDUAL", queue)
    for owner in owners.values():
        assert owner.answer() is None
    seen: dict[str, dict[str, tuple[int, bool, int]]] = {}
    for queue, owner in owners.items():
        began_ms = now_ms()  # to take over may have taken longer than the delays last
        seen[queue] = found = drain(owner, queue, 2 * HEADS - 2)
        waited = {body: found[body][2] - due for body, due in due_ms[queue].items() if due}
        early = {body: ms for body, ms in waited.items() if ms < 0}
        late = {
            body: ms for body, ms in waited.items() if found[body][2] - LATE_MS > max(due_ms[queue][body], began_ms)
        }
        assert not early, f"{queue}: came before they were due: {early}"
        assert not late, f"{queue}: came late, by ms: {late}"
    flags = {queue: {body: row[:2] for body, row in found.items()} for queue, found in seen.items()}
    assert flags[kept] == flags[deleted]
    assert sorted(count for count, _ in flags[kept].values())[-3:] == [2, 2, 3]


def test_delays_and_attempts_go_on_over_restarts(
    bootstrap: str, make_queue: Callable[..., str], puppet: MakePuppet
) -> None:
    """REDELIVER-1, REDELIVER-2, REDELIVER-3, REDELIVER-5: each attempt in another process, all killed; one letter."""
    queue, dead_letters = make_queue("orders"), make_queue("dlq")
    settings = {
        queue: {
            "max_delivery_attempts": 3,
            "redelivery_delay_ms": 3_000,
            "redelivery_delay_multiplier": 1.5,
            "dead_letter_address": dead_letters,
        }
    }
    send_texts(bootstrap, queue, ["bad", "good"], unit="u")
    not_before_ms = 0
    for attempt, delay_ms in ((1, 3_000), (2, 4_500), (3, 0)):
        owner = puppet("owner", settings=settings)
        owner.ask("open", "s", "INDIVIDUAL", queue)
        assert owner.ask("receive", "s", TAKEOVER_S) == ["bad", attempt, attempt > 1]
        assert now_ms() >= not_before_ms, f"attempt {attempt} came before its time"
        not_before_ms = now_ms() + delay_ms
        owner.ask("nack", "s", 0)
        if attempt < 3:
            wait_until(
                lambda n=attempt: recorded(bootstrap, queue) >= n,  # type: ignore[misc]
                about="the return recorded",
                timeout_s=TAKEOVER_S,
            )
        owner.kill()  # the last time right after the nack: the letter may or may not be written
    owner = puppet("owner", settings=settings)
    owner.ask("open", "s", "INDIVIDUAL", queue)
    body, count, _ = owner.ask("receive", "s", TAKEOVER_S)
    while body == "bad":  # the kill was faster than the dead letter: the attempt is known no more
        assert count == 3
        owner.ask("nack", "s", owner.ask("count", "s") - 1)
        body, count, _ = owner.ask("receive", "s", TAKEOVER_S)
    assert body == "good"
    # Kafka says that a transaction has committed before its partitions are marked, which readers wait for.
    wait_until(lambda: read_committed(bootstrap, dead_letters), about="the letter", timeout_s=TAKEOVER_S)
    letters = read_committed(bootstrap, dead_letters)
    assert [letter.value() for letter in letters] == [b"bad"]
    assert dict(letters[0].headers() or [])["jms.int._JBM_DELIVERY_COUNT"] == b"3"
