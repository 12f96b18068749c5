"""The change feed of a Delta table as messages of a queue, each once (SPARK-20)."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from jbm_kafka.errors import InvalidSettingError
from jbm_spark.delta_changes import CHANGE_ORDER, DeltaChangesSource, delta_changes
from jbm_spark.errors import OptionRefusedError, QueryError
from jbm_spark.messages import wait_until_done, write_stream
from tests.docs.page import read_page
from tests.house.sources import ROOT
from tests.spark.conftest import Topics
from tests.spark.crashed_checkpoint import forget_that_the_last_batch_was_done
from tests.spark.records import headers

END_S = 300
FEED = {"delta.enableChangeDataFeed": "true"}


def make(place: Path, rows: object, *, with_feed: bool = True) -> DeltaTable:
    write_deltalake(place, pa.table(rows), mode="append", configuration=FEED if with_feed else None)
    return DeltaTable(place)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Three commits: two customers, one of them changed, the other deleted and inserted anew in one commit."""
    table = make(tmp_path / "customers", {"id": [1, 2], "name": ["ann", "joe"], "limit": [1.5, None]})
    table.update(predicate="id = 1", updates={"name": "'anna'"})
    again = pa.table({"id": [2], "name": ["joe"], "limit": [9.0]})
    write_deltalake(table, again, mode="overwrite", predicate="id = 2")
    return DeltaTable(tmp_path / "customers")


@pytest.fixture
def send(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[[str], None]:
    """Sends to the queue what has changed since it was called before."""

    def run(queue: str) -> None:
        changes = delta_changes(spark, tmp_path / "customers", unit="id")
        query = write_stream(changes, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                             order_by=CHANGE_ORDER)  # fmt: skip
        try:
            assert wait_until_done(query, timeout=END_S)
        finally:
            query.stop()

    return run


def sent(topics: Topics, queue: str) -> list[tuple[bytes | None, str, int, object]]:
    """Unit, change, version and row of each message, in the order of the log."""
    found = []
    for record in topics.read(queue):
        told = headers(record)
        assert told["JBMBody"] == b"text"
        change, version = told["jms.string.change"] or b"", int(told["jms.long.commit_version"] or b"")
        found.append((record.key(), change.decode(), version, json.loads(record.value() or b"")))
    return found


def test_each_change_is_sent_once_in_its_units_order(
    topics: Topics, send: Callable[[str], None], table: DeltaTable, tmp_path: Path
) -> None:
    """SPARK-20: what a later run finds follows; what a crash leaves to be done again is not there twice."""
    queue = topics.create(2)
    send(queue)
    found = sent(topics, queue)
    ann, joe = ([each[1:] for each in found if each[0] == unit] for unit in (b"1", b"2"))
    assert ann == [
        ("insert", 0, {"id": 1, "name": "ann", "limit": 1.5}),
        ("update", 1, {"id": 1, "name": "anna", "limit": 1.5}),
    ]
    assert joe == [
        ("insert", 0, {"id": 2, "name": "joe", "limit": None}),
        ("delete", 2, {"id": 2, "name": "joe", "limit": None}),
        ("insert", 2, {"id": 2, "name": "joe", "limit": 9.0}),
    ]
    forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    table.delete("id = 1")
    send(queue)
    assert sorted(sent(topics, queue), key=lambda each: each[2])[: len(found)] == sorted(
        found, key=lambda each: each[2]
    )
    assert sent(topics, queue)[-1][0] is not None
    assert len(sent(topics, queue)) == len(found) + 1
    times = [int(headers(each)["jms.long.commit_timestamp"] or b"") for each in topics.read(queue)]
    assert min(times) > 1_600_000_000_000


def test_a_table_that_was_made_anew_ends_the_query(
    send: Callable[[str], None], table: DeltaTable, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-20: its versions are others, so nothing of it is skipped in silence."""
    queue = topics.create()
    send(queue)
    (tmp_path / "customers").rename(tmp_path / "former")
    make(tmp_path / "customers", {"id": [7], "name": ["eve"], "limit": [0.5]})
    with pytest.raises(QueryError, match="made anew"):
        send(queue)


def test_no_message_is_without_a_column_that_came_later(tmp_path: Path) -> None:
    """SPARK-20: the query that runs fails, and the next one has it."""
    options = {"table": str(tmp_path / "customers"), "storage": "{}", "starting": "0", "tasks": "1"}
    make(tmp_path / "customers", {"id": [1]})
    source = DeltaChangesSource(options)
    before = source.streamReader(source.schema())
    write_deltalake(tmp_path / "customers", pa.table({"id": [2], "more": ["x"]}), mode="append", schema_mode="merge")
    [versions] = before.partitions(before.initialOffset(), before.initialOffset() | {"version": 2})
    with pytest.raises(QueryError, match="it has the column more, too; where its columns are others, start the query"):
        [*before.read(versions)]
    after = source.streamReader(source.schema())
    rows = [row for batch in after.read(versions) for row in pa.Table.from_batches([batch]).to_pylist()]
    assert sorted((row["id"], row["more"]) for row in rows) == [(1, None), (2, "x")]


def test_what_cannot_be_is_refused(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    """SPARK-20: before the query is made, by one line."""
    make(tmp_path / "plain", {"id": [1]}, with_feed=False)
    for place, starting, told in (("none", 0, "from version 0"), ("plain", 0, "keeps no changes")):
        with pytest.raises(OptionRefusedError, match=told):
            delta_changes(spark, tmp_path / place, starting=starting)
    with pytest.raises(OptionRefusedError, match=r"unit is 'key'.*id, name, limit"):
        delta_changes(spark, tmp_path / "customers", unit="key")
    with pytest.raises(InvalidSettingError, match="starting is -1"):
        delta_changes(spark, tmp_path / "customers", starting=-1)


def test_the_pages_program_runs(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK-20: as printed."""
    monkeypatch.chdir(tmp_path)
    queue = topics.create()
    [program] = [
        each for each in read_page((ROOT / "docs/spark-load.md").read_text()).not_run if "delta_changes" in each.code
    ]
    exec(program.code.replace("localhost:9092", topics.bootstrap).replace('"customer-changes"', f'"{queue}"'), {})
    assert [(unit, change) for unit, change, _, _ in sent(topics, queue)] == [(b"1", "insert")]
