"""`jbm-kafka cron`: schedules of workers are listed, paused, run and forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from queue import Queue as Seen

import pytest

from jbm_kafka import Worker
from tests.cli.conftest import Run

SOON_S = 20.0


@pytest.fixture
def runs(url: str) -> Iterator[Seen[datetime]]:
    """What a worker with a schedule that is seldom due was given."""
    worker, seen = Worker(url), Seen[datetime]()

    @worker.cron("0 3 29 2 *", queue="reports", tz="Europe/Berlin")
    def leap(due: datetime) -> None:
        seen.put(due)

    worker.start()
    yield seen
    worker.stop()


def test_a_schedule_is_listed_with_its_next_run(cli: Run, runs: Seen[datetime]) -> None:
    (row,) = cli("cron", "list").out.splitlines()[1:]
    assert row.split()[:9] == ["reports", "leap", "0", "3", "29", "2", "*", "Europe/Berlin", "once"]
    assert " never " in row
    assert row.rstrip().endswith("-02-29 02:00:00")
    (found,) = json.loads(cli("cron", "list", "--json").out)
    assert (found["queue"], found["name"], found["line"], found["paused_by"]) == ("reports", "leap", "0 3 29 2 *", "")


def test_a_run_is_sent_at_once_and_leaves_the_schedule_as_it_is(cli: Run, runs: Seen[datetime]) -> None:
    said = cli("cron", "run", "reports", "leap")
    assert said.out.startswith("reports leap: a run was sent; next ")
    assert runs.get(timeout=SOON_S).utcoffset() is not None
    cli("cron", "run", "reports", "leap")
    runs.get(timeout=SOON_S)  # the same second is no repetition
    assert " never " in cli("cron", "list").out


def test_a_paused_schedule_says_by_whom_and_goes_on(cli: Run, runs: Seen[datetime]) -> None:
    assert cli("cron", "pause", "reports", "leap", "--by", "ann").out.startswith("reports leap: paused by ann since ")
    assert "paused by ann" in cli("cron", "pause", "reports", "leap", "--by", "bob").out
    assert cli("cron", "list").out.rstrip().endswith("paused by ann")
    cli("cron", "run", "reports", "leap")
    runs.get(timeout=SOON_S)
    assert cli("cron", "resume", "reports", "leap").out.rstrip().endswith("-02-29 02:00:00")
    assert "paused" not in cli("cron", "list").out


def test_a_schedule_is_forgotten_until_a_worker_starts_with_it(cli: Run, runs: Seen[datetime]) -> None:
    assert cli("cron", "remove", "reports", "leap").out == "reports leap: forgotten\n"
    assert cli("cron", "list").out == "no schedules\n"
    for verb in ("pause", "resume", "run", "remove"):
        said = cli("cron", verb, "reports", "leap")
        assert said.code == 1
        assert "queue:reports has no schedule 'leap'; there are: none" in said.err


def test_an_operators_name_that_steers_terminals_is_refused(cli: Run) -> None:
    said = cli("cron", "pause", "reports", "leap", "--by", "night\n\x1b[31m")
    assert said.code == 2
    assert "1 to 100 characters that can be printed" in said.err
