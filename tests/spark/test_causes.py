"""A hundred lines of Spark as one, with the remedy. No Spark is started; the texts are those of 4.1.1, shortened."""

import traceback

import pytest

from jbm_spark.causes import cause_line, is_stop, short_stop

QUERY = "[STREAM_FAILED] Query [id = 04e5-71, runId = 2851-02] terminated with exception: "
REST = """ SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 04e5-71, runId = 2851-02]
"""
FAILED_BATCH = f"""{QUERY}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in \
foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: Traceback:
  File "site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
jbm_kafka.core.jms_errors.InvalidDestinationError: queue:invoices: there is no Kafka topic 'invoices'; create it
 SQLSTATE: 39000{REST}"""
FAILED_FUNCTION = """An error occurred while calling o91.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent \
failure: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "pyspark/worker.py", line 1982, in main
    process()
  File "prices.py", line 7, in each
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "prices.py", line 7, in each
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

\tat org.apache.spark.scheduler.Task.run(Task.scala:147)
"""
JAVA = """An error occurred while calling o810.count.
: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.{0}
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: org.apache.kafka.common.errors.{0}
"""
OUR_JAVA = """An error occurred while calling z:jbm.spark.SinkTask.write.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 3 times, most recent \
failure: Lost task 0.2 in stage 3.0 (TID 9) (127.0.0.1 executor driver): jbm.spark.WriteError: batch 0 comes again
\tat jbm.spark.SinkProducer.hasWritten(SinkProducer.java:97)
Caused by: jbm.spark.WriteError: batch 0 comes again
\tat jbm.spark.SinkProducer.hasWritten(SinkProducer.java:97)
"""
GONE = "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OUR_JAVA, "batch 0 comes again"),
        (FAILED_BATCH, "queue:invoices: there is no Kafka topic 'invoices'; create it"),
        (
            JAVA.format("UnknownTopicOrPartitionException: This server does not host this topic-partition."),
            "a topic is not there any more: create it (jbm-kafka create NAME), and read it with a new checkpoint",
        ),
        (
            f"{QUERY}org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listNodes{REST}",
            "TimeoutException: Timed out. Call: listNodes; the brokers did not answer: see that they run",
        ),
        (
            JAVA.format("TopicAuthorizationException: Not authorized to access topics: [orders]"),
            "TopicAuthorizationException: Not authorized to access topics: [orders]; jbm-kafka docs security names "
            "the rights that Spark needs",
        ),
        (
            f"{QUERY}{GONE}{REST}Caused by: o.a.k.OffsetOutOfRangeException: x",
            "messages that were not read yet are gone",
        ),
        (
            f"{QUERY}{GONE}\nReason: Could not read records in offset [5, 88) for topic partition big-orders-1\n{REST}",
            "some of the offsets 5 to 87 of topic big-orders, partition 1: messages that were not read yet are gone",
        ),
        (
            f"{QUERY}{GONE}\nReason: Partition big-orders-1 offset was changed from 5 to 3.\n{REST}",
            "offset 5 of topic big-orders, partition 1, whose log ends at 3: messages that were not read yet are gone",
        ),
        (
            "An error occurred while calling o815.count.\n: org.apache.spark.sql.kafka010.KafkaIllegalStateException: "
            "The resolved start offset 5 is greater than the resolved end offset 2 for topic orders partition 0.\n",
            "`ending` lies before `starting` in a partition: give a later end, or an earlier start",
        ),
        ("An error occurred while calling o9113.awaitTermination", "Spark's JVM has ended"),
        (f"{QUERY}[USER_RAISED_EXCEPTION] priority is '77' SQLSTATE: P0001{REST}", "priority is '77'"),
        (f"{QUERY}a.b.SomethingNew: odd{REST}", "SomethingNew: odd"),
        (FAILED_FUNCTION, "ZeroDivisionError: division by zero"),
        (
            f"{QUERY}assertion failed: If startingOffsets contains specific offsets, you must specify all "
            f"TopicPartitions.\nUse -1 for latest{REST}",
            "`starting` names some of the topic's partitions",
        ),
        (
            "An error occurred while calling o7.save.\n: a.b.SomethingNew: odd\n\tat a.b.C.d(C.java:1)",
            "SomethingNew: odd",
        ),
        ("", "Exception"),
    ],
)
def test_what_spark_tells_at_length_is_one_line_with_the_remedy(text: str, told: str) -> None:
    line = cause_line(Exception(text))
    assert line.startswith(told)
    assert "\n" not in line
    assert "org.apache" not in line


INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling o33843.save.\n: java.{0}\n\tat java.base/java."
)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (INTERRUPTED.format("lang.InterruptedException"), True),
        (INTERRUPTED.format("nio.channels.ClosedByInterruptException"), True),
        ("SparkException: Job 5 cancelled part of cancelled job group 2851-02", True),
        (INTERRUPTED.format("io.IOException: disk full"), False),
        (FAILED_BATCH, False),
        (FAILED_FUNCTION, False),
    ],
)
def test_a_query_that_was_stopped_within_its_batch_is_told_from_one_that_failed(text: str, is_one: bool) -> None:
    assert is_stop(Exception(text)) is is_one


def test_a_stop_is_told_in_the_lines_that_spark_knows_it_by() -> None:
    """With the whole trace Spark's own search for them overflowed the stack, and a stopped query never ended."""
    told = "An error occurred while calling o33.collectToPython.\n: java.lang.InterruptedException"
    stop = short_stop(Exception(told + "\n\tat org.apache.spark.Exceptions.run(A.java)" * 300))
    assert traceback.format_exception_only(stop) == [f"py4j.protocol.Py4JJavaError: {told}\n"]
