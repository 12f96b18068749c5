"""One of the bookstore's workers: a process that takes orders until its standard input ends.

Its environment names the Kafka cluster, as that of the commands does.

Each order is one transaction: taken from the queue and written to the journal, or neither. So an order that a killed
worker had in hand is in the journal once, written by the next worker that got it.

Failures are written to the journal outside of the transaction, because that is rolled back.
"""

import argparse
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO

from jbm_kafka.cli.cluster_settings import SettingsFault, cluster_of_environment
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.demo.bookstore import Line, address_settings, refusals
from jbm_kafka.jms.message import Message, TextMessage
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.session import Session

RECEIVE_S = 0.5
PREFETCH = 20
PACK_S = 0.003
"""Packing a book takes a while, also here."""
LEAVE_S = 20.0
"""Giving partitions back takes well under a second, unless Kafka does not answer."""

DONE, UNABLE = 0, 1


class BankRefusedError(Exception):
    """The customer's bank did not pay this time."""


def fulfil(line: Line, delivery_count: int) -> int:
    """Charge and pack an order: what it cost, in cents. A cancellation costs nothing."""
    if line["kind"] == "cancellation":
        return 0
    total = 0
    for item in line["items"]:
        total += int(item["quantity"]) * int(item["cents"])
    if delivery_count <= refusals(line):
        raise BankRefusedError(f"the bank refused payment {delivery_count} of {line['order']}")
    time.sleep(PACK_S)
    return total


class OrderWorker:
    """Takes orders one after the other; `stop` may come from any thread."""

    def __init__(self, name: str, orders: Session, diary: Session, *, orders_queue: Queue, journal: Topic) -> None:
        self._name = name
        self._session = orders
        self._consumer = orders.create_consumer(orders_queue, prefetch=PREFETCH)
        self._journal = orders.create_producer(journal)
        self._diary = diary.create_producer(journal)
        self._is_stopping = threading.Event()

    def stop(self) -> None:
        """Take no further order."""
        self._is_stopping.set()

    def run(self) -> None:
        """Works until stopped."""
        while not self._is_stopping.is_set():
            message = self._consumer.receive(timeout=RECEIVE_S)
            if message is not None:
                self._work(message)

    def _work(self, message: Message) -> None:
        assert isinstance(message, TextMessage), message
        line: Line = json.loads(message.body or "")
        try:
            cents = fulfil(line, message.delivery_count)
        except (BankRefusedError, ValueError) as fault:
            self._write(self._diary, message, line, kind="failed", why=str(fault))
            self._session.rollback()
            return
        self._write(self._journal, message, line, kind="done", cents=cents)
        try:
            self._session.commit()
        except TransactionRolledBackError as error:
            logging.warning("%s: %s", self._name, error)

    def _write(self, producer: MessageProducer, message: Message, line: Line, **what: object) -> None:
        place = message.kafka
        assert place is not None
        entry = {
            **what,
            "of": line["kind"],
            "order": line["order"],
            "customer": line["customer"],
            "worker": self._name,
            "attempt": message.delivery_count,
            "partition": place.partition,
            "offset": place.offset,
        }
        # The customer is the unit here too, so that the journal shows the sequence in which orders were done.
        producer.send(json.dumps(entry), unit_of_order=line["customer"])


def _work_until_input_ends(given: argparse.Namespace) -> None:
    factory = factory_of(
        cluster_of_environment(os.environ),
        state_dir=str(given.state_dir),
        session_timeout_ms=given.session_timeout_ms,
        address_settings=address_settings(),
        auto_create=False,
    )
    with factory.create_connection() as connection:
        worker = OrderWorker(
            given.name,
            connection.create_session(AcknowledgeMode.TRANSACTED),
            connection.create_session(),
            orders_queue=Queue(given.orders),
            journal=Topic(given.journal),
        )
        print("ready", flush=True)
        threading.Thread(target=_stop_at_the_end_of, args=(sys.stdin.buffer, worker), daemon=True).start()
        worker.run()


def _stop_at_the_end_of(stream: IO[bytes], worker: OrderWorker) -> None:
    """The shop holds the other end of the pipe; it closes even when the shop is killed, so no worker outlives it."""
    stream.read()
    worker.stop()
    # A worker that cannot leave in order, because Kafka is gone say, must go all the same.
    timer = threading.Timer(LEAVE_S, os._exit, args=(UNABLE,))
    timer.daemon = True
    timer.start()


def main() -> int:
    """0 when it was asked to stop, 1 with one line on standard error when it could not go on."""
    parser = argparse.ArgumentParser(prog="python -m jbm_kafka.demo.worker", description="one worker of the bookstore")
    for option in ("--orders", "--journal", "--name"):
        parser.add_argument(option, required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        _work_until_input_ends(parser.parse_args())
    except (JMSError, SettingsFault, OSError) as error:
        print(error, file=sys.stderr)
        return UNABLE
    return DONE


if __name__ == "__main__":
    sys.exit(main())
