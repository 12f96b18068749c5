"""Workers with limits and batches, for `jbm-kafka run`; what they handle they write into a log."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from jbm_kafka import ConnectionFactory, Failed, Message, Worker

QUEUE, LOG = os.environ["SHOP_QUEUE"], Path(os.environ["SHOP_LOG"])
HUNG = LOG.with_suffix(".hung")
"""There from the first call on that hung: the next one does not."""
HANGING = "7"

factory = ConnectionFactory("localhost:1", session_timeout_ms=6_000)
batching, timed, awaited, rated, pausing = (Worker(factory, drain_s=5.0) for _ in range(5))


def write(message: Message, more: str = "") -> None:
    line = f"{message.unit_of_order} {message.body}{more}\n"
    with LOG.open("a") as log:  # one write, which several processes may append
        log.write(line)


@batching.batch(QUEUE, size=40, wait_ms=50, concurrency=2)
def store(messages: list[Message]) -> None:
    for message in messages:
        write(message)
        threading.Event().wait(0.002)
    if failed := [each for each in messages if int(each.body) % 10 == 3 and each.delivery_count == 1]:
        raise Failed(failed)


def hangs(message: Message) -> bool:
    """This call does; the first one of all processes."""
    if message.body != HANGING or HUNG.exists():
        return False
    HUNG.touch()
    return True


@timed.handler(QUEUE, concurrency=4, timeout_s=1)
def ship(message: Message) -> None:
    if hangs(message):
        threading.Event().wait()
    write(message)


@awaited.handler(QUEUE, concurrency=4, timeout_s=1)
async def ship_soon(message: Message) -> None:
    if hangs(message):
        await asyncio.Event().wait()
    write(message)


@rated.handler(QUEUE, concurrency=4, rate_total="100/s")
def call(message: Message) -> None:
    write(message, f" {time.monotonic_ns() // 1_000_000}")


@pausing.handler(QUEUE, pause_on="3 failures in a row for 1 s")
def try_it(message: Message) -> None:
    if message.delivery_count < 4:
        raise ConnectionError("the carrier is down")
    write(message)
