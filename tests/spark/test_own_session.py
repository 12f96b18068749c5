"""A session that was not made by build_session, as a notebook or a cluster has it: in a process of its own."""

import subprocess
import sys

import pytest

from tests.spark.conftest import Topics
from tests.spark.records import Record

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from jbm_spark.errors import SessionError
from jbm_spark.messages import messages, write_messages
from jbm_spark.session import needed_settings

bootstrap, topic, which = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
wanted = needed_settings() if which == "ours" else {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}
spark = builder.config(map=wanted).getOrCreate()
try:
    print(messages(spark, topic, bootstrap=bootstrap).count())
except SessionError as error:
    print(error)
frame = spark.range(1)
spark.stop()
for call in (
    lambda: messages(spark, topic, bootstrap=bootstrap),
    lambda: write_messages(frame, topic, bootstrap=bootstrap),
):
    try:
        call()
    except SessionError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("ours", "1\n"),
        ("none", "this session has no Kafka connector: use build_session(), or SparkSession.builder.config("),
    ],
)
def test_a_session_of_ones_own_reads_with_our_settings_and_is_told_of_them_without(
    topics: Topics, which: str, told: str
) -> None:
    topic = topics.create()
    topics.write(topic, [Record()])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, topics.bootstrap, topic, which], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(told)
    assert done.stdout.count("\n") == 3
    assert done.stdout.count("this session was stopped") == 2
