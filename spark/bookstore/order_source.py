"""Sends orders as they come in: `python -m bookstore.order_source`. The same seed makes the same orders."""

import json
import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from bookstore.store_queues import Order, Store, prices, store_of_environment
from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.cli.cluster_settings import cluster_of_environment
from jbm_kafka.cli.connect import factory_of

CUSTOMERS = 40
WITHOUT_ADDRESS = "C-007"
"""Nothing can be shipped to this customer."""
OPENS = datetime(2026, 11, 20, 9, tzinfo=UTC)
OPEN_MINUTES = 600
LATE_MINUTES = 20
"""At most so long an order is on its way; the watermark of the turnover is longer."""


def orders(count: int, seed: int = 1605) -> list[Order]:
    """A day's orders, as they arrive."""
    chance, titles = random.Random(seed), sorted(prices())
    arrivals = []
    for number in range(count):
        minute = OPEN_MINUTES * number / count
        # A few customers order much, as everywhere.
        customer = f"C-{min(int(chance.expovariate(0.1)) + 1, CUSTOMERS):03}"
        late = chance.uniform(0, LATE_MINUTES) if chance.random() < 0.1 else 0.0
        ordered_at = OPENS + timedelta(minutes=minute)
        order = Order(number, customer, chance.choice(titles), chance.randint(1, 6), ordered_at)
        arrivals.append((minute + late, order))
    return [order for _, order in sorted(arrivals, key=lambda arrival: arrival[0])]


def send_orders(factory: ConnectionFactory, queue: Queue, day: Sequence[Order], per_second: float) -> None:
    """Send them at this rate, each customer a unit of order; returns when Kafka has all of them."""
    clock = threading.Event()
    with factory.create_sender() as sender:
        begun_s = time.monotonic()
        for number, order in enumerate(day):
            clock.wait(max(0.0, begun_s + number / per_second - time.monotonic()))  # who is late makes up for it
            text = {"number": order.number, "customer": order.customer, "title_id": order.title_id,
                    "copies": order.copies, "ordered_at": order.ordered_at.isoformat()}  # fmt: skip
            sender.send(queue, json.dumps(text), unit_of_order=order.customer, properties={"number": order.number})


if __name__ == "__main__":
    import os

    store: Store = store_of_environment()
    send_orders(factory_of(cluster_of_environment(os.environ)), store.orders, orders(1_000), per_second=20)
