"""Checks what a caller gave in the place of a session, a frame, a query or names, before Spark is asked."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka.core.wrong_values import shown
from jbm_spark.errors import FrameRefusedError, OptionRefusedError, SessionError


def check_session(spark: object) -> None:
    """Spark's own error for a stopped session has no text.

    Raises:
        SessionError: it is no session, or was stopped.
    """
    if not isinstance(spark, SparkSession) and not is_of_connect(spark, "SparkSession"):
        raise SessionError(f"spark is {shown(spark)}: pass a SparkSession, such as build_session() of jbm_spark gives")
    if is_stopped(spark):
        raise SessionError("this session was stopped: make another, such as with build_session(), and its frames anew")


def is_of_connect(thing: object, class_name: str) -> bool:
    """Return True if it is Spark Connect's class of that name. Nothing of Connect is imported: its packages may be
    missing."""
    kind = type(thing)
    return kind.__name__ == class_name and kind.__module__.startswith("pyspark.sql.connect.")


def is_stopped(spark: Any) -> bool:
    """Return True if the session was stopped here."""
    if is_of_connect(spark, "SparkSession"):
        return bool(spark.is_stopped)
    return getattr(spark.sparkContext, "_jsc", None) is None


def refuse_connect(frame: DataFrame, what: str) -> None:
    """Raises SessionError where the frame is Spark Connect's, whose driver runs none of our code."""
    refuse_connect_session(frame.sparkSession, what)


def refuse_connect_session(spark: object, what: str) -> None:
    """As `refuse_connect`, of a session."""
    if is_of_connect(spark, "SparkSession"):
        raise SessionError(
            f"{what} does not work over Spark Connect, for it runs our code in the driver: run the program with "
            "spark-submit (jbm-kafka docs spark-cluster)"
        )


def check_frame(frame: object, *, is_stream: bool) -> None:
    """Raises FrameRefusedError when it is no frame of that kind; SessionError when its session was stopped."""
    if not isinstance(frame, DataFrame):
        raise FrameRefusedError(f"frame is {shown(frame)}: it is a DataFrame of Spark's, one row a message")
    check_session(frame.sparkSession)
    if frame.isStreaming and not is_stream:
        raise FrameRefusedError("this frame is a stream: use write_stream()")
    if is_stream and not frame.isStreaming:
        raise FrameRefusedError("this frame is no stream: use write_messages()")


def check_query(query: object) -> None:
    """Raises OptionRefusedError when it is no query."""
    if not isinstance(query, StreamingQuery) and not is_of_connect(query, "StreamingQuery"):
        raise OptionRefusedError(f"query is {shown(query)}: pass what write_stream() returned")


def checked_timeout_s(timeout: object) -> float | None:
    """Seconds, or None for no end.

    Raises:
        OptionRefusedError: it is neither.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise OptionRefusedError(f"timeout is {shown(timeout)}: it is seconds, 0 or more, or None for no end")
    return float(timeout)


def column_names(order_by: object) -> list[str]:
    """The columns to order by: one name, several, or none.

    Raises:
        FrameRefusedError: it is something else.
    """
    names = [order_by] if isinstance(order_by, str) else [] if order_by is None else order_by
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise FrameRefusedError(f"order_by is {shown(order_by)}: it is the name of a column, or a list of such names")
    return list(names)
