"""Which hours `jbm-spark quality` tells anew, what was open at their ends, and how a folder keeps them. No Spark."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from jbm_spark.archiving.quality_table import IDENTITY_FILE, QualityTable, checked_table, quality_table
from jbm_spark.cli.job_command import main
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.audit.audit_inputs import joined
from jbm_spark.jobs.quality.quality_hours import (
    EVENTS_KEPT_MS,
    EVERYTHING,
    HOUR_MS,
    KnownTopic,
    QueueHours,
    Span,
    TopicsRead,
    Window,
    first_whole_hour,
    known_topic,
    oldest_open,
    window_of,
)

NOON_MS = 1_796_040_000_000 // HOUR_MS * HOUR_MS
MINUTE_MS = HOUR_MS // 60
SINCE_EVER = -(2**63)


def hour(number: int) -> int:
    """That many hours behind noon."""
    return NOON_MS + number * HOUR_MS


def test_an_hour_is_told_anew_until_nothing_comes_so_late() -> None:
    """SPARK-18: with the messages that were open before it; hours that no run has told yet, too."""
    told = {hour(each): None for each in range(-30, 1)}
    now_ms, late_ms = NOON_MS + MINUTE_MS, 2 * HOUR_MS
    assert window_of(told, now_ms, late_ms) == Window(hour(-2), hour(-2))
    assert window_of({**told, hour(-3): hour(-20) + 7}, now_ms, late_ms) == Window(hour(-2), hour(-20) + 7)
    assert window_of(told, now_ms + 10 * HOUR_MS, late_ms) == Window(hour(0), hour(0)), "it was not run for long"
    assert window_of({}, now_ms, late_ms) == EVERYTHING
    young = {hour(-1): None, hour(0): None}
    assert window_of(young, now_ms, late_ms) == EVERYTHING, "what was open before is not known"


def test_an_hour_of_which_something_is_gone_is_not_told() -> None:
    """SPARK-18: a message that is deleted has its events in the hours until its end."""
    now_ms = NOON_MS + MINUTE_MS
    assert first_whole_hour(None, SINCE_EVER, now_ms) < 0
    assert first_whole_hour(hour(-3) + 1, SINCE_EVER, now_ms) == hour(-2)
    assert first_whole_hour(None, hour(-200) + 1, now_ms) == hour(-199), "an archive has older events"
    assert first_whole_hour(None, 2**63 - 1, now_ms) == NOON_MS + HOUR_MS - EVENTS_KEPT_MS, "none of an idle queue"


def test_of_a_topic_that_was_made_anew_no_hour_before_is_told() -> None:
    """SPARK-18: messages went with the one before that no event is about; in an archive they are there still."""
    now_ms = NOON_MS + MINUTE_MS
    known = known_topic(None, "first", is_kept=False, now_ms=now_ms)
    assert known == known_topic(known, "first", is_kept=False, now_ms=now_ms) == KnownTopic("first", 0)
    anew = known_topic(known, "second", is_kept=False, now_ms=now_ms)
    assert anew == known_topic(anew, "second", is_kept=False, now_ms=hour(7)) == KnownTopic("second", hour(1))
    assert known_topic(anew, "third", is_kept=True, now_ms=hour(7)) == KnownTopic("third", hour(1))
    topics = TopicsRead({"queue:a": known, "queue:b": known}, {"other"})
    found = [topics.whole_from(f"queue:{name}", topic_id, hour(2)) for name, topic_id in (("a", "first"), ("b", "new"))]
    assert found == [0, hour(3)], "by when it was read, not by when the run began"
    assert topics.found == {"queue:a": known, "queue:b": KnownTopic("new", hour(3))}
    assert TopicsRead({"queue:a": known}, {"first"}).whole_from("queue:a", "second", now_ms) == 0


def test_what_no_archive_has_is_a_gap() -> None:
    """SPARK-18: where a log went on before it was archived; batches that follow each other, and the log, have none."""
    assert joined([(60, 99), (0, 10), (10, 20), (15, 18)]) == [(0, 20), (60, 99)]
    assert joined([]) == []


SPANS = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.integers(1, 10), st.integers(0, HOUR_MS - 1)).map(
        lambda told: Span(hour(told[0]), None if told[1] is None else hour(told[0] + told[1]), hour(told[0]) + told[2])
    )
)


@hypothesis.given(SPANS)
def test_the_oldest_open_message_is_that_of_all(spans: list[Span]) -> None:
    """SPARK-18: a model that looks at every message for each hour."""
    hours = [hour(each) for each in range(-1, 22)]
    expected = {
        each: min(
            (span.oldest_ms for span in spans
             if span.sent_hour_ms <= each and (span.ended_hour_ms is None or span.ended_hour_ms > each)),
            default=None,
        )
        for each in hours
    }  # fmt: skip
    assert oldest_open(spans, hours) == expected


def test_each_hour_has_a_row_also_one_without_a_message() -> None:
    now_ms = hour(2) + 10 * MINUTE_MS
    counts = {hour(0): {"sent": 2, "acknowledged": 1, "p50_s": 1.5, "p99_s": 1.5, "findings": 1}}
    known = QueueHours(counts, (Span(hour(0), None, hour(0) + 30 * MINUTE_MS),))
    rows = known.rows("queue:q", 0, now_ms)
    brief = [(row["hour_ms"], row["sent"], row["p50_s"], row["oldest_open_s"], row["is_over"]) for row in rows]
    assert brief == [
        (hour(0), 2, 1.5, 1_800.0, True),
        (hour(1), 0, None, 5_400.0, True),
        (hour(2), 0, None, 6_000.0, False),
    ]
    assert [row["hour_ms"] for row in known.rows("queue:q", hour(2), now_ms)] == [hour(2)]
    assert known.rows("queue:q", hour(3), now_ms) == []
    assert [row["sent"] for row in QueueHours({}, ()).rows("queue:q", 0, now_ms)] == [0]


def row(destination: str, hour_ms: int, sent: int) -> dict[str, Any]:
    [made] = QueueHours({hour_ms: {"sent": sent}}, ()).rows(destination, hour_ms, hour_ms + 1)
    return made


def table_of(path: Path) -> Any:
    return quality_table(path, cluster_id="c", namespace="", pattern="orders.*")


def numbers(path: Path) -> list[tuple[str, int, int]]:
    import pyarrow.dataset as ds

    table = ds.dataset(checked_table(path), partitioning="hive", exclude_invalid_files=False).to_table()
    rows = table.sort_by([("destination", "ascending"), ("hour", "ascending")]).to_pylist()
    return [(each["destination"], int(each["hour"].timestamp() * 1_000), each["sent"]) for each in rows]


def test_a_row_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """SPARK-18: of that hour of that queue, and of no other; a run that is killed goes on by doing all again."""
    path = tmp_path / "hours"
    yesterday, today = hour(-24), hour(0)
    with table_of(path) as table:
        table.write([row("queue:a", yesterday, 1), row("queue:a", today, 2), row("queue:b", today, 3)], today)
    with table_of(path) as table:
        table.write([row("queue:a", today, 4)], today)
    assert numbers(path) == [("queue:a", yesterday, 1), ("queue:a", today, 4), ("queue:b", today, 3)]
    with table_of(path) as table:
        table.note_topics({"queue:a": ("id-a", 7)})
        table.note_topics({"queue:b": ("id-b", 0)})
        assert table.topics() == {"queue:a": ("id-a", 7), "queue:b": ("id-b", 0)}
        assert table.oldest_open() == {"queue:a": {yesterday: None, today: None}, "queue:b": {today: None}}


def test_a_run_that_is_killed_leaves_whole_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK-18: days are written in their order, so what is missing is behind what is there."""
    path, rows = tmp_path / "hours", [row("queue:a", hour(each), 1) for each in range(-48, 1, 24)]
    with table_of(path) as table, monkeypatch.context() as patched:
        replaced = Path.replace

        def killed(draft: Path, target: Path) -> Path:
            if len([*path.glob("day=*")]) == 3:
                raise KeyboardInterrupt
            return replaced(draft, target)

        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            table.write(reversed(rows), hour(0))
    assert [each[1] for each in numbers(path)] == [hour(-48), hour(-24)]
    with table_of(path) as table:
        table.write(rows, hour(0))
    assert [each[1] for each in numbers(path)] == [hour(-48), hour(-24), hour(0)]


def test_a_folder_is_one_jobs(tmp_path: Path) -> None:
    path = tmp_path / "hours"
    with pytest.raises(SparkJobError, match="has no hours of queues: jbm-spark quality QUEUES --to"):
        checked_table(path)
    with table_of(path) as table:
        assert isinstance(table, QualityTable)
        with pytest.raises(SparkJobError, match="another job"), table_of(path):
            pass
    with (
        pytest.raises(SparkJobError, match=r"is of .*orders\.\*.*, and this job is for .*'#'.*: name a new folder"),
        quality_table(path, cluster_id="c", namespace="", pattern="#"),
    ):
        pass
    (path / IDENTITY_FILE).rename(path / f".{IDENTITY_FILE}.draft")
    with table_of(path) as table:
        assert (path / IDENTITY_FILE).exists(), "a run that was killed as it made the folder"
    (path / IDENTITY_FILE).unlink()
    (path / "notes.txt").write_text("mine")
    with pytest.raises(SparkJobError, match=r"other files, such as notes\.txt"), table_of(path):
        pass


@pytest.mark.parametrize(
    ("given", "told"),
    [(["topic:prices"], "hours are told of queues"), (["orders", "--late", "5x"], "write a time with its unit")],
)
def test_a_wrong_call_is_told_in_a_line(
    given: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quality", *given, "--to", str(tmp_path), "--bootstrap", "127.0.0.1:1"]) in (1, 2)
    assert told in capsys.readouterr().err
