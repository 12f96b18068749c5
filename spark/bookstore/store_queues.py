"""The bookstore's queues, their rules, and what it sells: `python -m bookstore.store_queues` makes them."""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jbm_kafka import AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin

TITLES = Path(__file__).with_name("titles.csv")
PARTITIONS = 4
BIG_CENTS = 10_000
"""An order of 100 euros and more is shipped by the workers of the second queue."""


@dataclass(frozen=True, slots=True)
class Order:
    """A customer's order."""

    number: int
    customer: str
    title_id: str
    copies: int
    ordered_at: datetime
    """In the shop; it may reach the queue some minutes later."""


@dataclass(frozen=True, slots=True)
class Store:
    """Its destinations, whose names begin alike."""

    prefix: str = "bookstore"

    @property
    def orders(self) -> Queue:
        """Every order, as JSON."""
        return Queue(f"{self.prefix}.orders")

    @property
    def big_orders(self) -> Queue:
        """Return those that workers ship, with title and price."""
        return Queue(f"{self.prefix}.big-orders")

    @property
    def turnover(self) -> Topic:
        """Return the topic of turnover by hour and title; the latest message of the two is what holds."""
        return Topic(f"{self.prefix}.turnover")

    @property
    def dead_letters(self) -> Queue:
        """Return the dead-letter queue of both queues."""
        return Queue(f"{self.prefix}.dead-letters")


def store_of_environment() -> Store:
    """The one that `BOOKSTORE` names."""
    return Store(os.environ.get("BOOKSTORE", Store().prefix))


def set_up(admin: Admin, store: Store) -> None:
    """Make what is missing, and record the rules for all programs."""
    rules = AddressSettings(
        max_delivery_attempts=3,
        redelivery_delay_ms=300,
        dead_letter_address=store.dead_letters.name,
        record_deliveries=True,  # so that an audit knows who was given what
        truncate="never",  # and has the messages
    )
    admin.create_queue(store.dead_letters.name, partitions=1)
    for queue in (store.orders, store.big_orders):
        admin.create_queue(queue.name, partitions=PARTITIONS)
        admin.set_address_settings(queue.name, rules)
    admin.create_topic(store.turnover.name, partitions=1)


def take_down(admin: Admin, store: Store) -> None:
    """Delete all of it, with its messages; nothing is kept for its readers."""
    for reader in admin.readers():
        if reader.topic in (store.orders.name, store.big_orders.name):
            admin.end_reader(reader.name, kind=reader.kind)
    for queue in (store.orders, store.big_orders):
        admin.unset_address_settings(queue.name)
    for destination in (store.orders, store.big_orders, store.turnover, store.dead_letters):
        admin.delete_destination(destination, force=True)


@cache
def prices() -> Mapping[str, int]:
    """In cents, by title id."""
    with TITLES.open(encoding="utf-8", newline="") as file:
        return {row["title_id"]: int(row["price_cents"]) for row in csv.DictReader(file)}


if __name__ == "__main__":
    from jbm_kafka.cli.cluster_settings import cluster_of_environment

    at = cluster_of_environment(os.environ)
    with Admin(at.bootstrap, kafka=at.kafka, namespace=at.namespace) as admin:
        set_up(admin, store_of_environment())
