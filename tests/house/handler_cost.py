"""What a handler's typed argument costs a message: `python -m tests.house.handler_cost`, or `make handler-cost`.

A worker handles 5,000 messages whose JSON has five flat fields, from a Kafka in memory. Handlers take turns: one that
takes the message and does not look at it, one that reads its JSON by hand, and one that gets a Pydantic model; so each
figure has its pair beside it. The processor time is that of the handler's thread, which receives, makes the arguments,
calls and acknowledges, from the first call to the last: what other threads do is the same for all three, and four times
as much, so that the process's time drowns what is looked for.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable

from pydantic import BaseModel

from jbm_kafka import ConnectionFactory, Message, Queue, Worker
from jbm_kafka.compiled import are_used

MESSAGES = 5_000
PAIRS = 15
TIMEOUT_S = 120.0
QUEUE = Queue("orders")


class Order(BaseModel):
    """Five flat fields."""

    customer: str
    book: str
    count: int
    price: float
    is_gift: bool


ORDER = Order(customer="ann", book="Emma", count=2, price=12.5, is_gift=False)


def main() -> None:
    """Measure in turns, after one turn that does not count."""
    turns = [(cost(of_message), cost(of_json), cost(of_model)) for _ in range(1 + PAIRS)][1:]
    print(f"{PAIRS} turns of {MESSAGES:,} messages, modules {'compiled' if are_used() else 'as source'}")
    quickest = [min(times) for times in zip(*turns, strict=True)]
    for name, one, other in (
        ("JSON read by hand adds to a message that nobody looks at", 1, 0),
        ("a model of five flat fields adds to a message that nobody looks at", 2, 0),
        ("a model of five flat fields adds to JSON read by hand", 2, 1),
    ):
        added = statistics.median(turn[one] - turn[other] for turn in turns)
        print(f"{name}: {added:.1f} us (median of pairs; {quickest[one] - quickest[other]:.1f} the quickest of each)")
    print(f"a message that nobody looks at: {statistics.median(turn[0] for turn in turns):.1f} us, {quickest[0]:.1f}")


def cost(register: Callable[[Worker, Callable[[], None]], None]) -> float:
    """Microseconds of processor time a message."""
    worker, done, times = Worker("memory://handler-cost"), threading.Event(), list[float]()

    def count() -> None:
        times.append(time.thread_time())
        if len(times) == MESSAGES:
            done.set()

    register(worker, count)
    with ConnectionFactory("memory://handler-cost").create_context() as jms:
        producer = jms.create_producer()
        for _ in range(MESSAGES):
            producer.send(QUEUE, json=ORDER)
        worker.start()
        assert done.wait(TIMEOUT_S), "not all messages came"
        worker.stop()
    return 1_000_000 * (times[-1] - times[0]) / (MESSAGES - 1)


def of_message(worker: Worker, count: Callable[[], None]) -> None:
    """The handler does not look at the message."""

    @worker.handler("orders")
    def handle(message: Message) -> None:
        count()


def of_json(worker: Worker, count: Callable[[], None]) -> None:
    """The handler reads the body by hand, and checks nothing."""

    @worker.handler("orders")
    def handle(message: Message) -> None:
        json.loads(message.body)
        count()


def of_model(worker: Worker, count: Callable[[], None]) -> None:
    """The handler gets a checked model."""

    @worker.handler("orders")
    def handle(order: Order) -> None:
        count()


if __name__ == "__main__":
    main()
