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

from jbm_kafka.cli.cluster_settings import SettingsFault, cluster_of_environment
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.demo.bookstore import Line, address_settings, refusals
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.sender import Sender
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.message_worker import Worker

AT_ONCE = 2
"""How many orders of different customers one process has in hand."""
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


class Fulfilment:
    """The handler of orders, with the journal and the diary that it writes in."""

    def __init__(self, name: str, journal: Topic, diary: Sender) -> None:
        self._name = name
        self._journal = journal
        self._diary = diary

    def handle(self, message: Message, session: Session) -> None:
        """One order: what is sent by the session stands and falls with it."""
        assert isinstance(message, TextMessage), message
        line: Line = json.loads(message.body or "")
        try:
            cents = fulfil(line, message.delivery_count)
        except (BankRefusedError, ValueError) as fault:
            entry = self._entry(message, line, kind="failed", why=str(fault))
            self._diary.send(self._journal, entry, unit_of_order=line["customer"])
            raise
        with session.create_producer(self._journal) as journal:
            # The customer is the unit here too, so that the journal shows the sequence in which orders were done.
            journal.send(self._entry(message, line, kind="done", cents=cents), unit_of_order=line["customer"])

    def _entry(self, message: Message, line: Line, **what: object) -> str:
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
        return json.dumps(entry)


def _work_until_input_ends(given: argparse.Namespace) -> int:
    factory = factory_of(
        cluster_of_environment(os.environ),
        state_dir=str(given.state_dir),
        session_timeout_ms=given.session_timeout_ms,
        address_settings=address_settings(),
        auto_create=False,
    )
    with factory.create_sender() as diary:
        worker = Worker(factory, drain_s=LEAVE_S)
        handler = Fulfilment(given.name, Topic(given.journal), diary).handle
        worker.handler(Queue(given.orders), transacted=True, concurrency=AT_ONCE)(handler)
        worker.start()
        print("ready", flush=True)
        # The shop holds the other end of the pipe; it closes even when the shop is killed, so no worker outlives it.
        sys.stdin.buffer.read()
        # A worker that cannot leave in order, because Kafka is gone say, must go all the same.
        timer = threading.Timer(LEAVE_S, os._exit, args=(UNABLE,))
        timer.daemon = True
        timer.start()
        return DONE if worker.stop() else UNABLE


def main() -> int:
    """0 when it was asked to stop, 1 with one line on standard error when it could not go on."""
    parser = argparse.ArgumentParser(prog="python -m jbm_kafka.demo.worker", description="one worker of the bookstore")
    for option in ("--orders", "--journal", "--name"):
        parser.add_argument(option, required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return _work_until_input_ends(parser.parse_args())
    except (JMSError, SettingsFault, OSError) as error:
        print(error, file=sys.stderr)
        return UNABLE


if __name__ == "__main__":
    sys.exit(main())
