"""Handlers for `jbm-kafka run tests.support.shop_workers:...`; they write what they did to the file SHOP_LOG."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from jbm_kafka import AddressSettings, Message, Session, Worker
from jbm_kafka.core.destination import Queue

QUEUE = os.environ.get("SHOP_QUEUE", "orders")
worker = Worker("nobody.invalid:9", drain_s=20, address_settings={"#": AddressSettings(partitions=4)},
                session_timeout_ms=3_000)  # fmt: skip


def note(text: str) -> None:
    """A line, whole, whichever process writes it."""
    with Path(os.environ["SHOP_LOG"]).open("a") as log:
        log.write(f"{text}\n")


@worker.handler(QUEUE, concurrency=8)
def ship(message: Message) -> None:
    note(f"{message.unit_of_order} {message.body}")


@worker.handler(f"{QUEUE}.paid", concurrency=4, transacted=True)
def pay(message: Message, session: Session) -> None:
    session.create_producer(Queue(f"{QUEUE}.out")).send(message.body, unit_of_order=message.unit_of_order)


@worker.handler(f"{QUEUE}.mails", concurrency=50)
async def mail(message: Message) -> None:
    await asyncio.to_thread(note, f"mail {message.unit_of_order} {message.body}")


def plain(message: Message) -> None:
    note(f"plain {message.body}")
