"""The queues that a pattern names, for a job over many of them; no Spark needed."""

import re
from collections.abc import Sequence

from jbm_kafka.admin.cluster.catalog import Catalog
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.settings.address_pattern import ANY_WORDS, ONE_WORD, matches
from jbm_spark.errors import SparkJobError

_WORD = r"\.[^.]*"


def queues_named(catalog: Catalog, pattern: str) -> Sequence[Queue]:
    """Return those that are there now, by name.

    Raises:
        SparkJobError: there is none.
        KafkaClientError: the brokers do not answer.
    """
    found = [queue for queue in catalog.queues() if matches(pattern, queue.name)]
    if not found:
        raise SparkJobError(f"no queue has a name as in {pattern!r}: jbm-kafka list tells which there are")
    return found


def pattern_regex(pattern: str) -> str:
    """A regular expression, of Java's and of Python's, of what `matches` says of `.` and the name behind it."""
    words = pattern.split(".")
    read = {ONE_WORD: _WORD, ANY_WORDS: f"({_WORD})*"}
    return "^" + "".join(read.get(word, r"\." + re.escape(word)) for word in words) + "$"
