"""Kills under DUPS_OK, PRE and NO: what comes again, what does not, and what is gone."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.conftest import MakePuppet
from tests.support.chaos_puppet import Puppet
from tests.support.chaos_topics import channel_events, send_texts
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

TIMEOUT_S = 60.0
NOTHING_S = 3.0
LONG_MS = 60_000
"""Longer than a test: what nobody waits for is not recorded in it."""
MakeQueue = Callable[..., str]


def acknowledged(bootstrap: str, queue: str) -> list[int]:
    """Offsets that committed checkpoints say are acknowledged."""
    ranges = [row for event in channel_events(bootstrap, queue) for row in event["acknowledged"]]
    return sorted(offset for row in ranges for offset in range(row["first"], row["last"] + 1))


def wait_recorded(bootstrap: str, queue: str, offsets: list[int]) -> None:
    wait_until(lambda: acknowledged(bootstrap, queue) == offsets, about=f"{offsets} recorded", timeout_s=TIMEOUT_S)


def heir_gets(puppet: MakePuppet, queue: str, count: int) -> list[list[Any]]:
    """So many messages, and no more: [body, delivery count, redelivered] each."""
    heir = puppet("heir")
    heir.ask("open", "s", "CLIENT", queue)
    got = [heir.ask("receive", "s", TIMEOUT_S) for _ in range(count)]
    assert heir.ask("receive", "s", NOTHING_S) is None
    return got


def bodies(victim: Puppet, count: int) -> list[str]:
    return [victim.ask("receive", "s", TIMEOUT_S)[0] for _ in range(count)]


def test_dups_ok_repeats_what_it_finished_since_the_last_n(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """ACK-3, UNIT-1, UNIT-8: from the first that is not acknowledged on, in order; nothing before, none lost."""
    queue = make_queue("in")
    send_texts(bootstrap, queue, list("0123456789"), unit="u")
    victim = puppet("victim")
    victim.ask("open", "s", "DUPS_OK", queue, {"messages": 3, "milliseconds": 0})
    assert bodies(victim, 5) == list("01234")
    wait_recorded(bootstrap, queue, [0, 1, 2])
    victim.kill()
    got = heir_gets(puppet, queue, 7)
    assert [body for body, _, _ in got] == list("3456789")
    assert [redelivered for _, _, redelivered in got[:2]] == [True, True]


def test_dups_ok_does_not_repeat_what_its_clock_acknowledged(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """ACK-3: also while the application only works on the last one, which comes again."""
    queue = make_queue("in")
    send_texts(bootstrap, queue, list("0123"), unit="u")
    victim = puppet("victim")
    victim.ask("open", "s", "DUPS_OK", queue, {"messages": 0, "milliseconds": 100})
    assert bodies(victim, 3) == list("012")
    wait_recorded(bootstrap, queue, [0, 1])
    victim.kill()
    assert [body for body, _, _ in heir_gets(puppet, queue, 2)] == list("23")


def test_what_arrived_in_pre_is_gone_with_its_process(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """ACK-4: what the application had, and what it had not asked for yet."""
    queue = make_queue("in")
    send_texts(bootstrap, queue, list("012345"))
    victim = puppet("victim")
    victim.ask("open", "s", "PRE", queue)
    victim.ask("fill", "s", 3)
    wait_recorded(bootstrap, queue, [0, 1, 2])
    victim.kill()
    assert [body for body, _, _ in heir_gets(puppet, queue, 3)] == list("345")


@pytest.mark.parametrize("blocks", [True, False])
def test_only_a_blocking_pre_never_repeats(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet, blocks: bool
) -> None:
    """ACK-4, of ACK-9: what the application saw never comes again; else it may, if that was not recorded yet."""
    queue = make_queue("in")
    send_texts(bootstrap, queue, ["0", "1"], unit="u")
    victim = puppet("victim", block_on_acknowledge=blocks, checkpoint_interval_ms=LONG_MS)
    victim.ask("open", "s", "PRE", queue, None, 1)
    assert bodies(victim, 1) == ["0"]
    victim.kill()
    got = heir_gets(puppet, queue, 1 if blocks else 2)
    assert [body for body, _, _ in got] == (["1"] if blocks else ["0", "1"])
    assert blocks or got[0][2], "it comes again without the mark of it"


def test_only_what_was_handed_over_is_gone_in_no(bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet) -> None:
    """ACK-5: what is unread comes to the next owner."""
    queue = make_queue("in")
    send_texts(bootstrap, queue, list("012345"), unit="u")
    victim = puppet("victim")
    victim.ask("open", "s", "NO", queue)
    victim.ask("fill", "s", 4)
    assert bodies(victim, 2) == ["0", "1"]
    wait_recorded(bootstrap, queue, [0, 1])
    victim.kill()
    assert [body for body, _, _ in heir_gets(puppet, queue, 4)] == list("2345")
