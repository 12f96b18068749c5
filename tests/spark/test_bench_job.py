"""`jbm-spark bench` measures every way to read and write, and leaves nothing behind."""

import pytest
from pyspark.sql import SparkSession

from jbm_spark.jobs.bench import TARGETS, run
from tests.spark.conftest import Topics
from tests.support.topics import admin_client


@pytest.mark.slow
def test_a_small_bench_measures_everything_and_deletes_its_queues(spark: SparkSession, topics: Topics) -> None:
    result = run(spark, bootstrap=topics.bootstrap, messages=1_000, repeats=1)
    assert [each.what for each in result.compared] == [*TARGETS]
    assert all(each.seconds > 0 and each.bare_seconds > 0 for each in result.compared)
    assert result.archive_bytes > result.bare_bytes > 200_000  # every text once at least
    assert result.text().count("\n") == len(TARGETS) + 2
    left = admin_client(topics.bootstrap).list_topics(timeout=30).topics
    assert not [name for name in left if name.startswith("jbm-bench-")]
