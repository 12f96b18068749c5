"""What the next checkpoint takes, and when; no thread runs, and the test says what time it is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant, Settling, Transfer
from jbm_kafka.sidecar.checkpoints.checkpoint_schedule import GATHER_MS_MAX, GROUPS_MAX, CheckpointSchedule
from tests.support.interrupts import interrupted_at, places

INTERVAL_MS = 50
NOW_MS = 1_000


@dataclass(frozen=True)
class Group:
    """One of a process, by its number."""

    number: int


def group(number: int) -> Participant:
    return cast(Participant, Group(number))


def commit(*numbers: int) -> Transfer:
    """A commit that settles messages of these groups."""
    settlings = [(group(number), cast(Settling, None)) for number in numbers]
    return Transfer(about="a commit", sends=(), settlings=settlings)


def schedule_after(*transfers: Transfer, took_ms: int = 5) -> CheckpointSchedule:
    """The last checkpoint had these, and ended now."""
    schedule = CheckpointSchedule(INTERVAL_MS)
    for transfer in transfers:
        assert schedule.submit(transfer)
    schedule.take_work(NOW_MS - took_ms)
    schedule.end_round(NOW_MS)
    schedule.wake.clear()
    return schedule


def timeout_ms(schedule: CheckpointSchedule, now_ms: int = NOW_MS) -> float | None:
    """How long it waits; None: until it is woken."""
    wait = schedule.wait_for_work(now_ms)
    assert wait is not None
    assert wait.signal is schedule.wake
    return None if wait.timeout_s is None else wait.timeout_s * 1_000


def test_without_work_it_waits_until_it_is_woken() -> None:
    schedule = schedule_after()
    assert timeout_ms(schedule) is None
    assert not schedule.wake.is_set()


def test_what_nobody_waits_for_is_due_an_interval_after_the_last_one_began() -> None:
    schedule = schedule_after(took_ms=5)
    schedule.note_dirty(group(1), is_awaited=False)
    assert schedule.wake.is_set()
    assert timeout_ms(schedule) == INTERVAL_MS - 5
    assert schedule.wait_for_work(NOW_MS + INTERVAL_MS - 5) is None


def test_what_somebody_waits_for_is_due_at_once_and_takes_the_others_with_it() -> None:
    schedule = schedule_after()
    schedule.note_dirty(group(1), is_awaited=False)
    schedule.note_dirty(group(2), is_awaited=True)
    assert schedule.wait_for_work(NOW_MS) is None
    assert schedule.take_work(NOW_MS) == ([group(1), group(2)], [])
    schedule.note_dirty(group(1), is_awaited=False)
    assert timeout_ms(schedule) == INTERVAL_MS, "nobody waits for that"


def test_a_group_that_is_dirty_already_wakes_nobody_unless_somebody_waits_now() -> None:
    schedule = schedule_after()
    schedule.note_dirty(group(1), is_awaited=False)
    schedule.wake.clear()
    schedule.note_dirty(group(1), is_awaited=False)
    assert not schedule.wake.is_set()
    schedule.note_dirty(group(1), is_awaited=True)
    assert schedule.wake.is_set()


def test_the_first_of_as_many_as_before_waits_for_the_others_as_long_as_the_last_one_took() -> None:
    schedule = schedule_after(commit(), commit(), took_ms=5)
    schedule.submit(commit())
    assert timeout_ms(schedule, NOW_MS + 1) == 4
    schedule.wake.clear()
    schedule.submit(commit())
    assert schedule.wake.is_set(), "these are enough"
    assert schedule.wait_for_work(NOW_MS + 1) is None


def test_it_does_not_wait_for_others_beyond_that() -> None:
    schedule = schedule_after(commit(), commit(), took_ms=5)
    schedule.submit(commit())
    assert schedule.wait_for_work(NOW_MS + 5) is None
    slow = schedule_after(commit(), commit(), took_ms=10 * GATHER_MS_MAX)
    slow.submit(commit())
    assert timeout_ms(slow) == GATHER_MS_MAX


def test_those_between_the_first_and_the_last_of_many_wake_nobody() -> None:
    """It would look, find them too few, and hold the others up."""
    schedule = schedule_after(commit(), commit(), commit())
    schedule.submit(commit())
    schedule.wake.clear()
    schedule.submit(commit())
    assert not schedule.wake.is_set()


def test_more_dirty_groups_than_one_takes_go_with_the_next_at_once() -> None:
    schedule = schedule_after()
    for number in range(GROUPS_MAX + 2):
        schedule.note_dirty(group(number), is_awaited=True)
    assert schedule.take_work(NOW_MS)[0] == [group(number) for number in range(GROUPS_MAX)]
    schedule.note_dirty(group(0), is_awaited=True)
    assert schedule.wait_for_work(NOW_MS) is None
    assert schedule.take_work(NOW_MS)[0] == [group(GROUPS_MAX), group(GROUPS_MAX + 1)], "before what came later"
    assert schedule.take_work(NOW_MS)[0] == [group(0)]


def test_transfers_are_taken_in_order_while_their_groups_are_not_too_many() -> None:
    schedule = schedule_after()
    large = commit(*range(GROUPS_MAX + 5))
    many = [commit(number) for number in range(GROUPS_MAX + 1)]
    for transfer in (large, *many):
        schedule.submit(transfer)
    assert schedule.take_work(NOW_MS)[1] == [large], "one that has more goes by itself"
    assert schedule.take_work(NOW_MS)[1] == many[:-1]
    assert schedule.take_work(NOW_MS)[1] == many[-1:]


def test_what_was_cut_off_is_halved_and_the_rest_comes_first_in_the_next() -> None:
    schedule = schedule_after()
    transfers = [commit(number) for number in range(4)]
    for number, transfer in enumerate(transfers):
        schedule.note_dirty(group(number), is_awaited=True)
        schedule.submit(transfer)
    dirty, taken = schedule.take_work(NOW_MS)
    for groups_max in (8, 4, 2):
        dirty, taken = schedule.cut_down(dirty, taken)
        assert (len(dirty), len(taken)) == (min(groups_max, 4), min(groups_max, 4))
    schedule.submit(commit(9))
    schedule.note_dirty(group(9), is_awaited=True)
    assert schedule.take_work(NOW_MS) == ([group(2), group(3)], transfers[2:])


def test_a_transfer_that_has_failed_meanwhile_is_not_cut_down_but_left_out() -> None:
    schedule = schedule_after()
    failed, other = commit(0), commit(1)
    failed.done.complete(JMSError("it expired"))
    assert schedule.cut_down([], [failed, other]) == ([], [other])
    assert schedule.unfinished() == [other]


def test_it_grows_by_one_group_with_each_that_was_committed() -> None:
    schedule = schedule_after()
    schedule.cut_down([], [])
    for _ in range(2):
        schedule.grow()
    for number in range(GROUPS_MAX):
        schedule.note_dirty(group(number), is_awaited=True)
    assert len(schedule.take_work(NOW_MS)[0]) == GROUPS_MAX // 2 + 2


def test_what_is_put_back_comes_before_all_others() -> None:
    schedule = schedule_after()
    first, second, later = commit(0), commit(1), commit(2)
    schedule.submit(later)
    schedule.put_back([group(0)], [first, second])
    assert schedule.take_work(NOW_MS) == ([group(0)], [first, second, later])


def test_at_the_end_nothing_is_waited_for_and_no_more_is_taken() -> None:
    schedule = schedule_after(commit(), commit())
    last = commit()
    schedule.submit(last)
    schedule.wake.clear()
    schedule.end()
    assert schedule.wake.is_set()
    assert schedule.wait_for_work(NOW_MS) is None, "it gathers no longer"
    assert not schedule.submit(commit())
    assert schedule.unfinished()[-1] is last
    assert schedule.take_work(NOW_MS)[1] == [last]
    assert schedule.unfinished() == [last], "until the next round its outcome may not be known"


def test_a_commit_whose_caller_is_interrupted_has_the_checkpoint_woken_or_is_not_submitted() -> None:
    """ACK-7: the next to commit relies on its waking."""
    finished: list[int] = []
    for place in places(finished):
        schedule = schedule_after()
        with suppress(KeyboardInterrupt):
            with interrupted_at(place):
                schedule.submit(commit(1))
            finished.append(place)
        assert schedule.wake.is_set() or not schedule.unfinished()
