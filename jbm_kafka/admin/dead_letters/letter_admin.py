"""Dead letters: found, and sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from jbm_kafka.admin.cluster.admin_core import AdminCore, as_browsed, patiently
from jbm_kafka.admin.dead_letters.edited_letter import EditedLetter, LetterEdit, edited
from jbm_kafka.admin.dead_letters.letters import DeadLetter, LetterFilter, RetryReport, letter_of
from jbm_kafka.admin.dead_letters.retry import carry_out, retried_report
from jbm_kafka.admin.dead_letters.retry_plan import RetryPlan, RetryPlanner, planned_report
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports import KafkaAdmin, KafkaRecord, LogReader
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.unit_of_work import UnitOfWork

RETRY_TIMEOUT_S = 10.0
TAIL = 8
"""Offsets read at the end of each partition: a letter is written by a transaction, whose end is a record as well."""
TAIL_TIMEOUT_S = 5.0


class LetterLook(Iterable[tuple[DeadLetter, Message]]):
    """The result of `Admin.dead_letters`. A generator, iterated again, would show nothing in silence. One thread."""

    __reduce__ = refuse_pickle

    def __init__(self, queue: Queue, look: Callable[[], Iterator[tuple[DeadLetter, Message]]]) -> None:
        """`look`: a look from the beginning."""
        self._queue = queue
        self._look = look

    def __iter__(self) -> Iterator[tuple[DeadLetter, Message]]:
        return self._look()

    def __repr__(self) -> str:
        return f"<LetterLook {self._queue}: iterate it for pairs of a DeadLetter and its message>"


class LetterAdmin:
    """Looks after what was set aside. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def queue(self) -> Queue:
        """The one that takes letters where no setting names another."""
        with self._core.asking("look for the dead-letter queue"):
            return Queue(self._core.catalog.default_addresses().dead_letters)

    def look(self, queue: Queue | None, wanted: LetterFilter) -> Iterable[tuple[DeadLetter, Message]]:
        """The dead letters of the queue that are wanted; each iteration looks anew."""
        queue = queue or self.queue()
        return LetterLook(queue, lambda: self._dead_letters(queue, wanted))

    def _dead_letters(self, queue: Queue, wanted: LetterFilter) -> Iterator[tuple[DeadLetter, Message]]:
        with self._core.asking(f"list dead letters of {queue}"):
            if not self._core.catalog.is_unused(queue):
                self._core.catalog.with_letters(queue)
                for seen in self._core.seen(queue):
                    letter = letter_of(seen.record)
                    if wanted.matches(letter, seen.record):
                        yield letter, as_browsed(seen, queue, self._core.bodies)

    def queues_with_letters(self, queues_max: int) -> list[Queue]:
        """Queues that hold dead letters or expired messages, of the first so many."""
        checked_int("queues_max", queues_max, 1, None, "queues")
        with self._core.asking("look for dead letters"), closing(self._core.kafka.log_reader()) as reader:
            topics = {each.kafka_topic(self._core.namespace): each for each in self._core.catalog.queues()[:queues_max]}
            found = self._core.admin.describe(list(topics))
            # By their last records, so that hundreds of queues are looked into quickly; a letter may be settled since.
            return [
                queue
                for topic, queue in topics.items()
                if topic in found
                and _ends_in_letters(topic, found[topic].partitions, self._core.admin, reader)
                and self._holds_letters(queue)
            ]

    def _holds_letters(self, queue: Queue) -> bool:
        return any(letter_of(seen.record).reason is not None for seen in self._core.seen(queue))

    def retry(
        self,
        source: Queue | None,
        wanted: LetterFilter,
        count: int | None,
        rate: float | None,
        *,
        dry_run: bool,
        timeout_s: float,
        stop: Callable[[], bool],
    ) -> RetryReport:
        """Send those that are wanted to where they came from, until all are or `stop` says so."""
        source = source or self.queue()
        with self._core.asking(f"retry dead letters of {source}"), closing(self._core.kafka.log_reader()) as reader:
            if self._core.catalog.is_unused(source):
                return planned_report(source, RetryPlan(), is_dry_run=dry_run)
            self._core.catalog.with_letters(source)
            planner = self._planner(source, reader)
            self._core.registry.refresh()
            looking = planner(info_of=self._sendable)
            plan = patiently(lambda: looking.plan((seen.record for seen in self._core.seen(source)), wanted, count))
            if dry_run or not plan.letters:
                return planned_report(source, plan, is_dry_run=dry_run)
            with self._core.connections.open() as connection:
                provider = provider_of(connection)
                sending = planner(info_of=provider.ensure, check_sendable=provider.check_sendable)
                done = carry_out(connection, source, plan.letters, sending.outgoing, timeout_s, rate, stop)
            return retried_report(done, plan, lambda: self._core.seen(source), timeout_s)

    def send_edited(
        self,
        source: Queue | None,
        place: tuple[int, int],
        edit: LetterEdit,
        *,
        keep: bool,
        dry_run: bool,
        timeout_s: float,
    ) -> EditedLetter:
        """Send a changed copy of the letter at this place to where that came from."""
        source = source or self.queue()
        about = f"send an edited letter of {source}"
        with self._core.asking(about), closing(self._core.kafka.log_reader()) as reader:
            self._core.catalog.with_letters(source)
            self._core.registry.refresh()
            record = patiently(lambda: self._held_at(source, place))
            letter = letter_of(record)
            looking = self._planner(source, reader)(info_of=self._sendable)
            edited(looking.outgoing(letter, record), letter, edit)
            destination = looking.destination(letter)
            told = EditedLetter(letter=letter, destination=destination, message_id=None, is_kept=keep)
            if dry_run:
                return told
            with self._core.connections.open() as connection:
                provider = provider_of(connection)
                sending = self._planner(source, reader)(info_of=provider.ensure, check_sendable=provider.check_sendable)
                sent, message_id = edited(sending.outgoing(letter, record), letter, edit)
                if keep:
                    work = UnitOfWork(about, [sent], [], Completion())
                    provider.submit(work)
                    connection._core.wait_for(work.done, timeout_s, about=about)
                else:
                    done = carry_out(connection, source, [letter], lambda *_: sent, timeout_s, None)
                    if not done.sent:
                        report = retried_report(done, RetryPlan([letter]), lambda: self._core.seen(source), timeout_s)
                        why = report.kept[0].why if report.kept else "somebody else took it meanwhile"
                        raise JMSError(f"{source} partition {place[0]} offset {place[1]}: nothing was sent: {why}")
            return replace(told, message_id=message_id)

    def _held_at(self, source: Queue, place: tuple[int, int]) -> KafkaRecord:
        for seen in self._core.seen(source):
            if (seen.record.partition(), seen.record.offset()) == place:
                return seen.record
        partition, offset = place
        raise IllegalStateError(
            f"{source} holds no letter at partition {partition} offset {offset}: it was received, sent again or removed"
        )

    def _planner(self, source: Queue, reader: LogReader) -> Callable[..., RetryPlanner]:
        return partial(
            RetryPlanner,
            source,
            admin=self._core.admin,
            reader=reader,
            subscriptions_of=self._core.catalog.subscriptions_of,
            namespace=self._core.namespace,
        )

    def _sendable(self, destination: Queue | Topic) -> TopicInfo:
        self._core.registry.pauses.check_sendable(destination)
        return self._core.catalog.info_of(destination)


def _ends_in_letters(topic: str, partitions: int, admin: KafkaAdmin, reader: LogReader) -> bool:
    places = list(range(partitions))
    ends, begins = admin.end_positions(topic, places, stable=True), admin.begin_positions(topic, places)
    tails = {p: (max(begins[p], ends[p] - TAIL), ends[p]) for p in places if ends[p] > begins[p]}
    records = reader.read(topic, tails, timeout_s=TAIL_TIMEOUT_S) if tails else ()
    return any(letter_of(record).reason is not None for record in records)
