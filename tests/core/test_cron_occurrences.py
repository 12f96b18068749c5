"""When lines of cron are due, across changes of clocks, against a model that goes through every minute."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from jbm_kafka.core.cron.occurrences import checked_line, newest_occurrence, next_occurrence, occurrences

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE_MS = 60_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def local(line: str, after: str, count: int) -> list[str]:
    found = islice(occurrences(line, BERLIN, ms(after)), count)
    return [datetime.fromtimestamp(at / 1000, UTC).astimezone(BERLIN).isoformat(timespec="minutes") for at in found]


def test_a_time_that_the_clocks_leave_out_is_due_when_they_have_gone_forward() -> None:
    assert local("30 2 * * *", "2026-03-28T12:00+01:00", 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]


def test_two_times_of_the_hour_that_is_left_out_are_one_run() -> None:
    assert local("0,30 2,3 * * *", "2026-03-29T00:00+01:00", 3) == [
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:00+02:00",
    ]


def test_a_time_that_comes_twice_is_due_at_the_first() -> None:
    assert local("30 2 * * *", "2026-10-24T12:00+02:00", 2) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]


def test_looked_for_in_the_second_of_two_hours_it_is_not_due_again() -> None:
    assert local("45 2 * * *", "2026-10-25T02:30+01:00", 1) == ["2026-10-26T02:45+01:00"]


def test_a_line_of_any_hour_follows_the_time_that_has_passed() -> None:
    assert local("0 * * * *", "2026-10-25T01:30+02:00", 3) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
    ]
    assert local("*/30 * * * *", "2026-03-29T01:30+01:00", 2) == ["2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"]


def model(minutes: set[int], hours: set[int], begin: datetime, days: int) -> list[int]:
    """Every minute of some days, by Debian's rule for fixed times: those that are left out are due at the next minute
    that there is; of those that come twice the first is."""
    found: list[int] = []
    seen: set[tuple[int, ...]] = set()
    before: datetime | None = None
    for number in range(days * 24 * 60):
        now = (begin + timedelta(minutes=number)).astimezone(BERLIN)
        walls = [now.replace(tzinfo=None)]
        if before is not None:
            wall = before.replace(tzinfo=None) + timedelta(minutes=1)
            while wall < walls[0]:
                walls.append(wall)
                wall += timedelta(minutes=1)
        before = now
        due = [each for each in walls if each.minute in minutes and each.hour in hours]
        fresh = [each for each in due if each.timetuple()[:5] not in seen]
        seen.update(each.timetuple()[:5] for each in due)
        if fresh:
            found.append(int(now.timestamp()) * 1000)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_fixed_times_are_those_of_the_model(seed: int) -> None:
    chance = random.Random(seed)
    minutes = set(chance.sample(range(60), chance.randint(1, 3)))
    hours = set(chance.sample(range(5), chance.randint(1, 4)))
    begin = datetime(2026, chance.choice([3, 10]), 22, tzinfo=UTC)
    line = f"{','.join(map(str, sorted(minutes)))} {','.join(map(str, sorted(hours)))} * * *"
    first_ms = int(begin.timestamp()) * 1000
    found = occurrences(line, BERLIN, first_ms - 1)
    wanted = model(minutes, hours, begin, 8)
    assert list(islice(found, len(wanted))) == wanted, line


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_is_the_last_of_all_that_lie_between(seed: int) -> None:
    chance = random.Random(seed)
    line = chance.choice(["*/7 * * * *", "30 2 * * *", "0 3 * * 1", "*/20 * * * * *", "0 0 1 * *", "15 2,3 29 3 *"])
    after_ms = ms("2026-03-01T00:00+00:00") + chance.randrange(40 * 1440) * MINUTE_MS
    until_ms = after_ms + chance.randrange(10 ** chance.randint(4, 8))
    between: list[int] = []
    for at_ms in occurrences(line, BERLIN, after_ms):
        if at_ms > until_ms or len(between) > 20_000:
            break
        between.append(at_ms)
    if len(between) <= 20_000:
        assert newest_occurrence(line, BERLIN, after_ms, until_ms) == (between[-1] if between else None)


def test_the_newest_of_ten_years_is_found_without_going_through_them() -> None:
    until_ms = ms("2036-01-01T12:00:07+00:00")
    assert newest_occurrence("* * * * * *", UTC, ms("2026-01-01T00:00+00:00"), until_ms) == until_ms
    leap = newest_occurrence("0 0 29 2 *", UTC, ms("2026-01-01T00:00+00:00"), ms("2031-01-01T00:00+00:00"))
    assert leap == ms("2028-02-29T00:00+00:00")


def test_the_next_is_later_than_the_last_also_within_a_second() -> None:
    at_ms = ms("2026-01-01T00:00:00+00:00")
    assert next_occurrence("0 0 * * *", UTC, at_ms - 1) == at_ms
    assert next_occurrence("0 0 * * *", UTC, at_ms) == at_ms + 86_400_000


def test_a_line_is_kept_with_single_spaces() -> None:
    assert checked_line("line", " 0  3 * *\t* ") == "0 3 * * *"


@pytest.mark.parametrize(
    ("line", "why"),
    [("0 25 * * *", "five fields"), ("every day", "five fields"), ("0 0 31 2 *", "five fields"), (3, "a line of cron")],
)
def test_what_is_no_line_is_refused(line: object, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        checked_line("line", line)
    assert f"line is {line!r}" in str(refused.value)
