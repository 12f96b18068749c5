"""A program that ends without closing its connection lost sends that it had not waited for, without a word."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time

import pytest

from jbm_kafka import ConnectionFactory, Message, Queue
from jbm_kafka.jms.sends import sends_at_exit
from tests.jms.support import receive_all

PROGRAM = """
import sys

from jbm_kafka import ConnectionFactory, DeliveryMode, Queue

connection = ConnectionFactory(sys.argv[1], namespace=sys.argv[2]).create_connection()
producer = connection.create_session().create_producer(Queue("orders"))
producer.send("first")
for number in range(200):
    producer.send(str(number), on_completion=lambda message, error: print("told", message.body))
producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
for number in range(5):
    producer.send(f"group {number}")
"""


@pytest.mark.kafka_only
def test_sends_that_were_not_waited_for_are_there_when_the_program_has_ended(bootstrap: str, kafka_name: str) -> None:
    """Of SEND-9: in four of eight runs none of them arrived, no callback was called, and the exit code was 0."""
    command = [sys.executable, "-c", PROGRAM, bootstrap, kafka_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.splitlines() == [f"told {number}" for number in range(200)]
    assert done.stderr == ""
    with ConnectionFactory(bootstrap, namespace=kafka_name).create_connection() as connection:
        assert len(receive_all(connection.create_session().create_consumer(Queue("orders")), 206)) == 206


def test_what_is_not_confirmed_when_a_program_ends_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kafka_name: str
) -> None:
    """Of SEND-9"""
    monkeypatch.setattr(sends_at_exit, "AT_EXIT_S", 0.1)
    is_called, goes_on = threading.Event(), threading.Event()

    def stay(message: Message, error: Exception | None) -> None:
        is_called.set()
        goes_on.wait(60)

    with ConnectionFactory(f"memory://{kafka_name}").create_connection() as connection:
        closed = ConnectionFactory(f"memory://{kafka_name}").create_connection()
        closed.close()
        connection.create_session().create_producer(Queue("orders")).send("1", on_completion=stay)
        assert is_called.wait(20)
        sends_at_exit.wait_for_sends([closed._core, connection._core], now_s=time.monotonic)
        goes_on.set()
    (line,) = [row for row in caplog.records if row.name == "jbm_kafka.connections"]
    assert line.levelno == logging.WARNING
    assert (
        f"connection {connection._core.connection_id} has sends that Kafka has not confirmed, 1 of" in line.getMessage()
    )
