"""`jbm-spark quality`: the hours of queues, by hand-written messages and events."""

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.channel.entries import MessageEvent, MessageFate
from jbm_spark import register
from jbm_spark.cli.job_command import main
from jbm_spark.jobs import archive, quality
from jbm_spark.jobs.quality.quality_hours import HOUR_MS, hour_of
from tests.spark.planted import Planted
from tests.support.topics import delete_topics

pytestmark = pytest.mark.thorough
S = 1_000
HOUR_S = HOUR_MS // S
COLUMNS = ("sent", "acknowledged", "returned", "given_up", "expired", "p50_s", "p99_s", "oldest_open_s", "findings")


def returned(offset: int, at_ms: int) -> MessageEvent:
    return MessageEvent(MessageFate.RETURNED, offset, None, 1, None, "returned", at_ms, 0, 0, 10, "continue")


def hours_of(rows: DataFrame, queue: Planted) -> dict[int, tuple[Any, ...]]:
    """By hours behind the first one of the queue."""
    ours = rows.where(F.col("destination") == str(queue.queue)).select(F.unix_millis("hour"), *COLUMNS).collect()
    assert len({row[0] for row in ours}) == len(ours)
    return {(row[0] - queue.sent_ms) // HOUR_MS: tuple(row)[1:] for row in ours}


def test_hours_are_told_and_what_comes_late_corrects_them(
    bootstrap: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SPARK-18: two queues in one run, the same rows by topics and by an archive; played again they are the same."""
    namespace = f"hours-{uuid4().hex[:12]}"
    begin_ms = hour_of(time.time_ns() // 1_000_000) - 5 * HOUR_MS
    Planted(bootstrap, namespace)
    first, cut = (Planted(bootstrap, namespace, f"{namespace}.{name}", sent_ms=begin_ms) for name in ("a", "cut"))
    for queue in (first, cut):
        # Sent in hour 0: 0 to 4, in hour 1: 5. Acknowledged in hour 0: 0, 1; in hour 2: 2. Offset 5 is never ended.
        queue.send([None] * 6, {}, at={each: each * S for each in range(5)} | {5: HOUR_MS + 60 * S})
        queue.checkpoint(1, 100 * S, acknowledged=[0, 1], messages=[returned(2, begin_ms + 50 * S)])
        queue.checkpoint(2, 200 * S, messages=[queue.died(3), queue.ended(MessageFate.EXPIRED, 4)])
        queue.letter(3)
        queue.checkpoint(3, 2 * HOUR_MS + 2 * S, acknowledged=[2])
    cut.delete_messages(1)
    folder = tmp_path / "hours"
    about: dict[str, Any] = {"bootstrap": bootstrap, "namespace": namespace}
    where = ["--bootstrap", bootstrap, "--namespace", namespace]
    result = quality.run(spark, f"{namespace}.#", folder, **about)
    assert result.failures == {}
    assert result.queues[first.queue.name] - result.queues[cut.queue.name] == 1, "a message of hour 0 is deleted"
    register(spark, f"{namespace}.#", **about, prefix="of_",
             dead_letters=first.dead_letters, quality=folder)  # fmt: skip
    view = spark.table("of_quality")
    found = hours_of(view, first)
    assert {each: found[each] for each in range(5)} == {
        0: (5, 2, 1, 1, 1, 99.5, pytest.approx(99.99), HOUR_S - 2, 0),
        1: (1, 0, 0, 0, 0, None, None, 2 * HOUR_S - 2, 0),
        2: (0, 1, 0, 0, 0, 7_200.0, 7_200.0, 3 * HOUR_S - 3_660, 0),
        3: (0, 0, 0, 0, 0, None, None, 4 * HOUR_S - 3_660, 0),
        4: (0, 0, 0, 0, 0, None, None, 5 * HOUR_S - 3_660, 0),
    }
    assert min(hours_of(view, cut)) == 1
    # What comes late, of hour 3: 5 was acknowledged, and 0 once more.
    first.checkpoint(4, 3 * HOUR_MS + 60 * S, acknowledged=[5])
    first.checkpoint(5, 3 * HOUR_MS + 90 * S, acknowledged=[0])
    capsys.readouterr()
    assert main(["quality", f"{namespace}.#", "--to", str(folder), *where, "--json"]) == 0
    assert [*json.loads(capsys.readouterr().out)["queues"]] == [first.queue.name, cut.queue.name]
    late = hours_of(spark.table("of_quality"), first)
    assert {each: late[each] for each in range(5)} == {
        0: (*found[0][:-1], 1),  # where its first end is, the finding is
        **{each: found[each] for each in (1, 2)},
        3: (0, 1, 0, 0, 0, 7_200.0, 7_200.0, None, 0),
        4: (0, 0, 0, 0, 0, None, None, None, 0),
    }
    # It is deleted with a message of which no event tells, and made anew: the hours stay as they were.
    cut.send([None], {}, at={0: 4 * HOUR_MS + 60 * S})
    quality.run(spark, f"{namespace}.#", folder, **about)
    before = hours_of(spark.table("of_quality"), cut)
    assert before[4][0] == 1
    delete_topics(bootstrap, [cut.queue.name])
    cut.make_topic()
    assert quality.run(spark, f"{namespace}.#", folder, **about).queues[cut.queue.name] == 0
    after = hours_of(spark.table("of_quality"), cut)
    assert {each: after[each] for each in range(1, 5)} == {each: before[each] for each in range(1, 5)}
    archive.run(spark, first.queue, tmp_path / "archive", file_format="delta", **about)
    first.delete_messages(6)
    of_archive = tmp_path / "of an archive"
    quality.run(spark, first.queue.name, of_archive, archive=str(tmp_path / "archive"), **about)
    again = hours_of(spark.read.parquet(str(of_archive)), first)
    assert {each: again[each] for each in range(5)} == {each: late[each] for each in range(5)}
