"""Two processes that change one schedule: whoever was between its reading and its commit writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.client.schedule_runs import zone_of
from jbm_kafka.codec.schedule_record import decode_schedule, encode_schedule, schedule_key, schedules_in
from jbm_kafka.core.cron.due import Due, decide_pause, decide_plan, decide_runs
from jbm_kafka.core.cron.schedule import Schedule, SchedulePlan
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.errors import JMSError
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.ports import Outgoing
from jbm_kafka.registry.schedules import Schedules
from jbm_kafka.testing.memory_world import MemoryWorld

MINUTE = 60_000
BEGIN = 1_800_000_000_000
PLAN = SchedulePlan(line="* * * * *", zone="UTC", missed="once")


def records_of(connection: object) -> Schedules:
    found = provider_of(connection).schedules  # type: ignore[arg-type,attr-defined]
    assert isinstance(found, Schedules)
    return found


def planned(found: Schedule | None) -> Due:
    return decide_plan(found, ("reports", "tick"), PLAN, by="me", now_ms=BEGIN, zone_of=zone_of)


def due(by: str, found: Schedule | None) -> Due | None:
    return None if found is None else decide_runs(found, by=by, now_ms=BEGIN + MINUTE, zone_of=zone_of)


def message(by: str, found: Due) -> Sequence[Outgoing]:
    return [Outgoing("reports", 0, None, by.encode()) for _ in found.runs]


def test_who_is_overtaken_between_reading_and_commit_sends_nothing(world: MemoryWorld, tmp_path: Path) -> None:
    """CRON-1: as a worker that is frozen there, while another one sends the run."""
    slow_factory, fast_factory = (
        ConnectionFactory(world.url, state_dir=str(tmp_path / name)) for name in ("slow", "fast")
    )
    with slow_factory.create_connection() as slow, fast_factory.create_connection() as fast:
        provider_of(slow).ensure(Queue("reports"))
        provider_of(fast).ensure(Queue("reports"))
        mine, others = records_of(slow), records_of(fast)
        mine.change("reports", "tick", planned, lambda found: ())
        asked: list[str] = []

        def records(found: Due) -> Sequence[Outgoing]:
            """What is written is about to be committed; meanwhile the other worker sends the run."""
            asked.append("slow")
            after = others.change("reports", "tick", lambda last: due("fast", last), lambda one: message("fast", one))
            assert after is not None
            assert after.runner == "fast"
            return message("slow", found)

        after = mine.change("reports", "tick", lambda last: due("slow", last), records)
        assert (asked, after and after.runner) == (["slow"], "fast")
        assert [sent.body for sent in world.sent("reports")] == [b"fast"]


def test_nothing_is_written_where_nothing_is_due(world: MemoryWorld) -> None:
    with world.factory().create_connection() as connection:
        records = records_of(connection)
        records.change("reports", "tick", planned, lambda found: ())
        before = records.of("reports", "tick")

        def never(found: Due) -> Sequence[Outgoing]:
            raise NotImplementedError

        assert records.change("reports", "tick", lambda last: Due(last) if last else None, never) == before
        assert records.change("reports", "other", lambda last: None, never) is None


def test_a_record_that_cannot_be_read_is_told_and_stops_nothing_else(world: MemoryWorld) -> None:
    with world.factory().create_connection() as connection:
        records = records_of(connection)
        records.change("reports", "tick", planned, lambda found: ())
        records._registry.write({schedule_key("reports", "tick"): b"{}"})
        with pytest.raises(JMSError, match="its record cannot be read"):
            records.of("reports", "tick")
        with pytest.raises(JMSError, match="its record cannot be read"):
            records.change("reports", "tick", planned, lambda found: ())
        assert records.change("reports", "other", planned, lambda found: ()) is not None


def test_a_record_says_all_that_is_known_and_what_a_later_version_adds_is_passed_over() -> None:
    schedule = decide_pause(planned(None).schedule, by="ann", now_ms=BEGIN)
    key, value = schedule_key("reports", "a|b"), encode_schedule(schedule)
    found = decode_schedule(key, value[:-1] + b',"later":1}')
    assert (found.queue, found.name, found.plan, found.paused_by) == ("reports", "a|b", PLAN, "ann")
    for broken in (
        b"",
        b"[]",
        b"{}",
        value.replace(b"* * * * *", b"often"),
        value.replace(str(BEGIN).encode(), b'"now"'),
    ):
        with pytest.raises(CorruptRecordError, match=r"schedule 'a\|b' of queue 'reports': its record cannot be read"):
            decode_schedule(key, broken)
    assert schedules_in({key: b"{}", b"pause|x": b"", schedule_key("reports", "tick"): value})[0].name == "tick"
