"""`jbm-spark archive` and `audit` by pattern: each queue as if it were alone, and none of them for another's sake."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jbm_spark import register
from jbm_spark.archiving import erase, read_archive, read_archived_events
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ArchiveError, SparkJobError
from jbm_spark.jobs import archive, audit, replay
from jbm_spark.jobs.archive import ArchivedQueues
from tests.spark.planted import Planted

pytestmark = pytest.mark.thorough
MESSAGES = 20


def planted_queues(bootstrap: str) -> Mapping[str, Planted]:
    """Four queues of `<namespace>.orders.*`, and one beside. Of `doubled` and `lost` something must be found."""
    namespace = f"many-{uuid4().hex[:12]}"
    first = Planted(bootstrap, namespace)
    names = ("honest", "doubled", "lost", "cut")
    queues = {name: Planted(bootstrap, namespace, f"{namespace}.orders.{name}") for name in names}
    for queue in (first, *queues.values()):
        queue.send([f"u{each % 5}" for each in range(MESSAGES)], {})
        queue.settle(below=10, also=[12, 13])
        queue.checkpoint(1, 1_000, acknowledged=[*range(10), 12], messages=[queue.died(13)])
        queue.letter(13)
    queues["doubled"].checkpoint(2, 2_000, acknowledged=[4])
    queues["lost"].settle(below=12, also=[12, 13])
    return queues


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Mapping[str, Planted]:
    return planted_queues(bootstrap)


def names_of(world: Mapping[str, Planted]) -> dict[str, str]:
    return {queue.queue.name: name for name, queue in world.items()}


def pattern_of(world: Mapping[str, Planted]) -> str:
    return f"{world['honest'].namespace}.orders.*"


def test_many_queues_are_audited_as_each_by_itself(spark: SparkSession, world: Mapping[str, Planted]) -> None:
    """SPARK-16, AUDIT-1: their messages have the same offsets, and their letters are in one queue."""
    any_one = world["honest"]
    where: dict[str, Any] = {"bootstrap": any_one.bootstrap, "namespace": any_one.namespace}
    result = audit.run_queues(spark, pattern_of(world), **where)
    found = {names_of(world)[name]: {(each.fault, each.offset) for each in one.findings}
             for name, one in result.queues.items()}  # fmt: skip
    lost = {("lost", 10), ("lost", 11)}
    assert found == {"honest": set(), "doubled": {("duplicated", 4)}, "lost": lost, "cut": set()}
    assert not result.failures
    assert {one.messages for one in result.queues.values()} == {MESSAGES}
    alone = audit.run(spark, world["lost"].queue, **where)
    assert result.queues[world["lost"].queue.name] == alone
    with pytest.raises(SparkJobError, match=r"no queue has a name as in 'nobody.\*'"):
        audit.run_queues(spark, "nobody.*", **where)


def test_one_call_makes_the_views_of_many_queues(spark: SparkSession, world: Mapping[str, Planted]) -> None:
    """SPARK-16: each row tells whose it is, and times are times."""
    one = world["honest"]
    register(spark, pattern_of(world), bootstrap=one.bootstrap, namespace=one.namespace, prefix="many_",
             dead_letters=one.dead_letters)  # fmt: skip

    def counted(question: str) -> dict[str, int]:
        rows = spark.sql(f"select destination, count(*) as n from {question} group by destination").collect()
        return {world_names[row["destination"].removeprefix("queue:")]: row["n"] for row in rows}

    world_names = names_of(world)
    assert counted("many_messages") == dict.fromkeys(world, MESSAGES)
    # Those above the watermark that are not settled: `lost` has 12 below it, the others 10.
    assert counted("many_held") == {**dict.fromkeys(world, 8), "lost": 6}
    assert counted("many_held where state = 'ready'") == dict.fromkeys(world, 5)
    assert counted("many_letters") == dict.fromkeys(world, 1)
    assert counted("many_events where fate = 'dead-lettered'") == dict.fromkeys(world, 1)
    assert counted("many_events where at = timestamp_millis(at_ms) and due_at is null and checkpoint_at = at") == {
        **dict.fromkeys(world, 12),
        "doubled": 13,
    }
    assert dict(spark.table("many_letters").dtypes)["expired_at"] == "timestamp"


@pytest.mark.parametrize("file_format", ["parquet", "delta"])
def test_many_queues_are_archived_to_one_table_and_each_goes_on_where_it_was(
    spark: SparkSession, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], file_format: str
) -> None:
    """SPARK-16, SPARK-10, SPARK-17: also beside one that has lost messages, and with a queue that comes later."""
    world = planted_queues(bootstrap)
    any_one, folder = world["honest"], tmp_path / "a"
    pattern, namespace = pattern_of(world), any_one.namespace

    def archived(**more: Any) -> ArchivedQueues:
        return archive.run_queues(spark, pattern, folder, bootstrap=any_one.bootstrap, namespace=namespace,
                                  file_format=file_format, **more)  # fmt: skip

    late = Planted(any_one.bootstrap, namespace, f"{namespace}.orders")  # named by no pattern of one word more
    late.send(["u"], {})
    first = archived()
    assert first.queues == dict.fromkeys(names_of(world), MESSAGES)
    assert (first.batches, first.messages_in_all, first.failures) == (2, 4 * MESSAGES, {})
    assert archived().batches == 0
    # What became of a queue that nobody has listed yet is in no later span of events.
    late = Planted(any_one.bootstrap, namespace, f"{namespace}.orders.late")
    late.checkpoint(1, 5_000, acknowledged=[0])
    late.send(["u"] * 3, {})
    cut = world["cut"]
    cut.send(["u"] * 10, {})
    cut.delete_messages(25)
    again = archived()
    assert again.queues == {**dict.fromkeys(names_of(world), 0), late.queue.name: 3}
    assert [*again.failures] == [cut.queue.name]
    assert "offsets 20 to 24 of partition 0 were deleted before they were archived" in again.failures[cut.queue.name]
    assert archived(accept_loss=True).queues[cut.queue.name] == 5
    in_files = ds.dataset(folder / "messages", partitioning="hive")
    in_table = in_files if file_format == "parquet" else DeltaTable(folder / "messages").to_pyarrow_dataset()
    places = in_table.to_table(columns=["destination", "topic", "offset"])
    expected = {name: [*range(MESSAGES)] for name in names_of(world)}
    expected |= {late.queue.name: [0, 1, 2], cut.queue.name: [*range(MESSAGES), *range(25, 30)]}
    found: dict[str, list[int]] = {}
    for row in places.to_pylist():
        assert row["destination"] == f"queue:{row['topic']}"
        found.setdefault(row["topic"], []).append(row["offset"])
    assert {name: sorted(offsets) for name, offsets in found.items()} == expected
    assert read_archive(spark, folder).count() == 4 * MESSAGES + 3 + 5
    told = read_archived_events(spark, folder).where("fate = 'acknowledged'").groupBy("topic").count().collect()
    assert {row["topic"] for row in told} == {*names_of(world), late.queue.name}
    one = audit.run_queues(spark, pattern, bootstrap=any_one.bootstrap, namespace=namespace, archive=str(folder))
    assert one.queues[cut.queue.name].messages == MESSAGES + 5
    at_fault = {names_of(world).get(name) for name, each in one.queues.items() if each.has_violations}
    assert at_fault == {"doubled", "lost"}
    with pytest.raises(ArchiveError, match=r"is that of queues:.*, and this job is for queues:#"):
        archive.run_queues(spark, "#", folder, bootstrap=any_one.bootstrap, namespace=namespace)
    about = ["--bootstrap", any_one.bootstrap, "--namespace", namespace, "--json"]
    cut.send(["u"] * 2, {})
    cut.delete_messages(31)
    capsys.readouterr()
    assert main(["archive", pattern, "--to", str(folder), *about]) == 1  # one failed
    assert [*json.loads(capsys.readouterr().out)["failures"]] == [cut.queue.name]
    assert main(["audit", pattern, *about, "--html", str(tmp_path / "page.html")]) == 3
    assert len(json.loads(capsys.readouterr().out)["queues"]) == 5
    assert "queues as" in (tmp_path / "page.html").read_text()
    sent = replay.run(spark, folder, cut.queue, bootstrap=cut.bootstrap, namespace=namespace, dry_run=True,
                      queue=world["lost"].queue.name)  # fmt: skip
    assert sent.sent == MESSAGES
    with pytest.raises(ArchiveError, match="say whose messages, with --queue NAME"):
        replay.run(spark, folder, cut.queue, bootstrap=cut.bootstrap, namespace=namespace, dry_run=True)
    for wrong in (["audit", pattern, "--all"], ["audit"], ["audit", "orders*"]):
        assert main([*wrong, *about]) == 2
    # SPARK-17: without some of its messages the archive is as whole as before.
    erased = erase(spark, folder, unit="u3", queue=cut.queue.name)
    assert (erased.messages, erased.events) == (4, 3)  # two were acknowledged, one died
    assert archived(accept_loss=True).queues[cut.queue.name] == 1
    one = audit.run_queues(spark, pattern, bootstrap=any_one.bootstrap, namespace=namespace, archive=str(folder))
    assert one.queues[cut.queue.name].messages == MESSAGES + 5 + 1 - 4
    assert {names_of(world).get(name) for name, each in one.queues.items() if each.has_violations} == at_fault
    sent = replay.run(spark, folder, any_one.queue, bootstrap=cut.bootstrap, namespace=namespace, dry_run=True,
                      queue=cut.queue.name)  # fmt: skip
    assert sent.sent == MESSAGES + 5 + 1 - 4
