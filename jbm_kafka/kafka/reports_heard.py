"""Lets a producer's callbacks run: reports of records, and a fatal error, which the next call tells once more.

A fatal error is an exception in a callback to confluent-kafka. A flush of 0.2 s and more goes on after it and runs the
next callbacks with the exception still set: that is a SystemError, and the report is lost. Shorter calls end at it.
"""

import time
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

_STEP_S = 0.1


def hear_some(producer: Producer, timeout_s: float) -> None:
    """What there is to be heard; if nothing is, wait for it so long."""
    with suppress(KafkaException):
        producer.poll(min(timeout_s, _STEP_S))


def hear_all(producer: Producer, timeout_s: float) -> None:
    """Until nothing is left to be reported; at most so long."""
    deadline = time.monotonic() + timeout_s
    while len(producer) and (remaining_s := deadline - time.monotonic()) > 0:
        with suppress(KafkaException):
            producer.flush(min(remaining_s, _STEP_S))
