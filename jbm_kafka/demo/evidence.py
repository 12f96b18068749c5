"""The evidence in the topics of a run, as values: the orders sent, the journal, the dead letters, the queue's lag."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Message

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.codec.dead_letter import DEAD_LETTER_REASON, DELIVERY_COUNT, ORIG_DESTINATION
from jbm_kafka.codec.headers import decode_headers
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Queue
from jbm_kafka.demo.bookstore import DEAD_LETTERS, Line, Names
from jbm_kafka.demo.log import lag, read_all

Task = tuple[str, str]
"""`("order" or "cancellation", order number)`: one line of the day."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record of the orders' topic."""

    unit: str | None
    line: Line
    partition: int
    offset: int

    @property
    def task(self) -> Task:
        """Which line of the day it is."""
        return self.line["kind"], self.line["order"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the journal."""

    is_done: bool
    """Else the attempt failed."""
    task: Task
    customer: str
    worker: str
    attempt: int
    """As the worker saw it: the message's delivery count."""
    at_ms: int
    partition: int
    """The partition of the orders' topic from which the worker says it took the order."""
    offset: int


@dataclass(frozen=True, slots=True)
class Note:
    """One record of what the audit noted: it read in the journal that this was done."""

    task: Task
    customer: str
    cents: int
    """The money that it brought in."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One record of the dead-letter queue that came from this run's orders."""

    task: Task
    unit: str | None
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of a run."""

    sent: Sequence[Sent]
    """In log order within each partition."""
    journal: Sequence[Entry]
    """In log order within each partition; a customer is in one partition."""
    audit: Sequence[Note]
    """In log order within each partition; a customer is in one partition."""
    letters: Sequence[Letter]
    lag: int
    """Orders that are not settled."""


def gather(cluster: Cluster, names: Names) -> Evidence:
    """Reads all topics of the run to their ends."""
    return Evidence(
        sent=[sent_of(record) for record in read_all(cluster, names.orders)],
        journal=[entry_of(record) for record in read_all(cluster, names.journal)],
        audit=[note_of(record) for record in read_all(cluster, names.audit)],
        letters=letters_of(read_all(cluster, DEAD_LETTERS), names),
        lag=lag(cluster, Queue(names.orders).group_id(cluster.namespace), names.orders),
    )


def sent_of(record: Message) -> Sent:
    """An order or a cancellation as it stands on its topic."""
    line = json.loads(record.value() or b"")
    return Sent(unit_name(record.key()), line, record.partition() or 0, record.offset() or 0)


def entry_of(record: Message) -> Entry:
    """A line of the journal."""
    fields = json.loads(record.value() or b"")
    return Entry(
        is_done=fields["kind"] == "done",
        task=(fields["of"], fields["order"]),
        customer=unit_name(record.key()) or "",
        worker=fields["worker"],
        attempt=fields["attempt"],
        at_ms=record.timestamp()[1],
        partition=fields["partition"],
        offset=fields["offset"],
    )


def note_of(record: Message) -> Note:
    """Return what the audit noted."""
    fields = json.loads(record.value() or b"")
    return Note(task=(fields["of"], fields["order"]), customer=unit_name(record.key()) or "", cents=fields["cents"])


def letters_of(records: Sequence[Message], names: Names) -> list[Letter]:
    """The dead letters of this run; others share the queue."""
    letters = []
    for record in records:
        properties = decode_headers(cast("list[Header]", record.headers() or [])).properties
        origin = properties.get(ORIG_DESTINATION)
        if origin is None or origin.value != names.group:
            continue
        line = json.loads(record.value() or b"")
        reason, attempts = properties.get(DEAD_LETTER_REASON), properties.get(DELIVERY_COUNT)
        letters.append(
            Letter(
                task=(line["kind"], line["order"]),
                unit=unit_name(record.key()),
                reason="" if reason is None else str(reason.value),
                attempts=0 if attempts is None else int(str(attempts.value)),
            )
        )
    return letters
