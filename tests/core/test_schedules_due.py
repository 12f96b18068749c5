"""What is due of a schedule: each rule alone, and all against a model that knows nothing of the code."""

from __future__ import annotations

import random
from datetime import UTC, tzinfo

import pytest

from jbm_kafka.core.cron.due import (
    AT_ONCE_MAX,
    LATE_MS,
    Due,
    decide_pause,
    decide_plan,
    decide_resume,
    decide_runs,
    next_run_ms,
)
from jbm_kafka.core.cron.schedule import Missed, Schedule, SchedulePlan

MINUTE = 60_000
BEGIN = 1_800_000_000_000 // (60 * MINUTE) * 60 * MINUTE
"""A whole hour."""
KEY = "reports", "nightly"


def zone_of(name: str) -> tzinfo:
    assert name == "UTC"
    return UTC


def plan(line: str = "*/10 * * * *", missed: Missed = "once") -> SchedulePlan:
    return SchedulePlan(line=line, zone="UTC", missed=missed)


def planned(found: Schedule | None, what: SchedulePlan, now_ms: int) -> Due:
    return decide_plan(found, KEY, what, by="me", now_ms=now_ms, zone_of=zone_of)


def runs(found: Schedule, now_ms: int) -> Due:
    return decide_runs(found, by="me", now_ms=now_ms, zone_of=zone_of)


def schedule(missed: Missed = "once", line: str = "*/10 * * * *") -> Schedule:
    return planned(None, plan(line, missed), BEGIN).schedule


def at(minutes: float) -> int:
    return BEGIN + int(minutes * MINUTE)


def test_a_new_schedule_has_no_run_of_the_past_and_none_before_it_is_due() -> None:
    new = schedule()
    assert new.done_until_ms == BEGIN
    assert runs(new, at(9.9)) == Due(new)
    assert next_run_ms(new, zone_of) == at(10)


def test_a_run_is_sent_once() -> None:
    due = runs(schedule(), at(10))
    assert due.runs == (at(10),)
    assert (due.schedule.ran_at_ms, due.schedule.runner) == (at(10), "me")
    assert runs(due.schedule, at(10)) == Due(due.schedule)
    assert runs(due.schedule, at(19)) == Due(due.schedule)


def test_a_clock_that_goes_back_has_no_run_again() -> None:
    due = runs(schedule(), at(30))
    for minutes in range(31):
        assert runs(due.schedule, at(minutes)) == Due(due.schedule)
    assert runs(due.schedule, at(40)).runs == (at(40),)


@pytest.mark.parametrize(
    ("missed", "wanted"), [("once", (at(50),)), ("skip", ()), ("all", tuple(at(10 * n) for n in range(1, 6)))]
)
def test_missed_runs_go_by_their_rule(missed: Missed, wanted: tuple[int, ...]) -> None:
    due = runs(schedule(missed), at(55))
    assert due.runs == wanted
    assert due.schedule.done_until_ms == at(50)
    assert runs(due.schedule, at(60)).runs == (at(60),)


def test_a_run_that_is_late_by_a_moment_was_not_missed() -> None:
    assert runs(schedule("skip"), at(10) + LATE_MS).runs == (at(10),)
    assert runs(schedule("skip"), at(10) + LATE_MS + 1).runs == ()


def test_many_missed_ones_come_in_portions() -> None:
    found = schedule("all", "* * * * * *")
    sent: list[int] = []
    while (due := runs(found, at(20))).runs:
        assert len(due.runs) <= AT_ONCE_MAX
        found, sent = due.schedule, sent + list(due.runs)
    assert sent == [BEGIN + 1000 * number for number in range(1, 1201)]


def test_a_paused_schedule_has_no_runs_and_none_of_the_pause_afterwards() -> None:
    paused = decide_pause(schedule("all"), by="ann", now_ms=at(5))
    assert paused.is_paused
    assert decide_pause(paused, by="bob", now_ms=at(6)) == paused
    assert next_run_ms(paused, zone_of) is None
    assert runs(paused, at(35)) == Due(paused)
    resumed = decide_resume(paused, now_ms=at(35))
    assert runs(resumed, at(45)).runs == (at(40),)


def test_resume_changes_nothing_where_nothing_is_amiss_and_begins_anew_where_a_clock_was_ahead() -> None:
    found = schedule()
    assert decide_resume(found, now_ms=at(35)) == found
    ahead = runs(found, at(100_000)).schedule
    assert runs(ahead, at(20)).runs == ()
    assert runs(decide_resume(ahead, now_ms=at(15)), at(20)).runs == (at(20),)


def test_the_plan_that_comes_last_holds_and_what_was_due_before_goes_by_the_one_before() -> None:
    found = schedule()
    assert planned(found, found.plan, at(25)) == Due(found)
    changed = planned(found, plan("0 * * * *"), at(25))
    assert changed.runs == (at(20),)
    assert changed.schedule.plan == plan("0 * * * *")
    assert next_run_ms(changed.schedule, zone_of) == at(60)
    back = planned(changed.schedule, plan(), at(26))
    assert (back.runs, next_run_ms(back.schedule, zone_of)) == ((), at(30))


def test_a_new_plan_waits_until_all_that_was_missed_by_the_one_before_is_sent() -> None:
    found, sent = schedule("all", "* * * * * *"), 0
    wanted = plan("0 0 * * *")
    while found.plan != wanted:
        due = planned(found, wanted, at(20))
        found, sent = due.schedule, sent + len(due.runs)
    assert sent == 1200


def test_a_plan_of_a_process_whose_clock_is_behind_has_no_run_again() -> None:
    found = runs(schedule(), at(30)).schedule
    changed = planned(found, plan("*/5 * * * *"), at(12)).schedule
    assert next_run_ms(changed, zone_of) == at(35)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_each_run_is_sent_at_most_once_and_by_its_rule(seed: int) -> None:
    """Clocks that jump, pauses, deployments, and looks at any time; the model counts in minutes on its fingers."""
    chance = random.Random(seed)
    missed: Missed = chance.choice(["once", "skip", "all"])
    every = chance.choice([5, 10, 15])
    found = schedule(missed, f"*/{every} * * * *")
    now, floor, is_paused = 0.0, 0.0, False
    sent: list[int] = []
    wanted: list[int] = []
    for _ in range(200):
        now = max(0.0, now + chance.choice([0.5, 1, 1, 3, 7, 40, -2, -20]))
        match chance.randrange(12):
            case 0 if not is_paused:
                found, is_paused = decide_pause(found, by="ann", now_ms=at(now)), True
            case 1 if is_paused:
                found, is_paused, floor = decide_resume(found, now_ms=at(now)), False, now
                wanted = [each for each in wanted if each <= now] if sent and sent[-1] > now else wanted
                sent = [each for each in sent if each <= now]
            case 2:
                every = chance.choice([5, 10, 15])
                due = planned(found, plan(f"*/{every} * * * *", missed), at(now))
                before = int(found.plan.line.split()[0][2:])
                if before != every:  # a worker that starts with what is said already changes nothing
                    floor = floor if is_paused else by_the_model(wanted, missed, before, floor, now)
                    floor = max(floor, now)
                found = due.schedule
                sent += [(each - BEGIN) // MINUTE for each in due.runs]
            case _:
                due = runs(found, at(now))
                if not is_paused:
                    floor = by_the_model(wanted, missed, every, floor, now)
                found = due.schedule
                sent += [(each - BEGIN) // MINUTE for each in due.runs]
        assert sent == wanted
    assert len(set(sent)) == len(sent)


def by_the_model(wanted: list[int], missed: Missed, every: int, floor: float, now: float) -> float:
    """Adds what a person would say is due, later than `floor` and not later than `now`; until when it is settled."""
    due = [minute for minute in range(int(now) + 1) if minute % every == 0 and minute > floor]
    if not due:
        return floor
    if missed == "all":
        wanted += due
    elif missed == "once" or now - due[-1] <= 1:
        wanted.append(due[-1])
    return float(due[-1])
