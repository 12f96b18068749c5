"""A consumer process of a failure test: works until its standard input ends, and writes each step to its journal.

python -m tests.support.chaos_worker '{"name": "w1", ...}'

It runs with the project's first version too, which has queues only.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jbm_kafka
from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue
from jbm_kafka.errors import (
    IllegalStateError,
    InvalidClientIDError,
    JMSError,
    TransactionInDoubtError,
    TransactionRolledBackError,
)
from jbm_kafka.jms.connection import Connection
from tests.support.chaos_journal import DONE, GOT, NACKING, REFUSED, SETTLED, SETTLING, JournalWriter
from tests.support.chaos_topics import escaped, group_of

if TYPE_CHECKING:
    from jbm_kafka import MessageConsumer

RECEIVE_S = 0.1
HANDLERS = 2
"""How many run at once."""
CLIENT_ID_S = 60.0
"""A killed worker has its client id for its session timeout; a loaded broker tells late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is told. A message says itself whether it is poison and how often it is refused at first."""

    name: str
    folder: str
    """Of the journals."""
    state_dir: str
    bootstrap: str
    queue: str
    dead_letters: str
    subscription: str = ""
    """Of the topic `queue`: a shared durable one's name, or, with a client id, an unshared one's."""
    client_id: str = ""
    mode: str = "INDIVIDUAL"
    """Of the session; or `HANDLER`: the product's `Worker` runs a handler."""
    forward_to: str = ""
    """A queue that gets a copy of each, in the same transaction; only TRANSACTED."""
    clock_file: str = ""
    """Says by how many ms the process's clock is ahead of the machine's."""
    types: tuple[str, ...] = ()
    """For each of them the process has a session with a consumer whose selector chooses that JMSType."""
    batch: int = 1
    """How many messages are settled together."""
    work_ms: tuple[float, float] = (2.0, 5.0)
    pause_ms: float = 0.0
    """After each settling, without asking for more."""
    receiver_idle_ms: int = 3_000
    block_on_acknowledge: bool = False
    session_timeout_ms: int = 9_000
    """Short, for a killed one's messages go to others after it; a living one on a busy machine must not miss it."""
    checkpoint_interval_ms: int = 50
    max_attempts: int = 6
    delay_ms: int = 50
    partitions: int = 8
    prefetch: int = 50
    seed: int = 0
    truncate: str = ""
    truncate_look_ms: int = 20_000
    park_look_ms: int = 10_000

    def as_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    @property
    def group(self) -> str:
        """The consumer group."""
        if not self.subscription:
            return group_of(self.queue)
        kind = "durable" if self.client_id else "shared-durable"
        return f"jbm.{kind}.{escaped(self.client_id)}.{escaped(self.subscription)}"

    def factory(self) -> ConnectionFactory:
        """Of the worker's connection. Over AMQP the settings are the server's."""
        if self.bootstrap.startswith("amqp"):
            return ConnectionFactory(self.bootstrap)
        settings = AddressSettings(
            max_delivery_attempts=self.max_attempts,
            redelivery_delay_ms=self.delay_ms,
            dead_letter_address=self.dead_letters,
            partitions=self.partitions,
            **({"truncate": self.truncate} if self.truncate else {}),  # type: ignore[arg-type]
        )
        # The first version had no setting for it, and left after these three seconds.
        idle: dict[str, Any] = {"receiver_idle_ms": self.receiver_idle_ms} if hasattr(jbm_kafka, "Topic") else {}
        factory = ConnectionFactory(
            self.bootstrap,
            client_id=self.client_id or None,
            state_dir=self.state_dir,
            address_settings={"#": AddressSettings(partitions=self.partitions), self.queue: settings},
            block_on_acknowledge=self.block_on_acknowledge,
            session_timeout_ms=self.session_timeout_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            **idle,
        )
        if self.truncate:
            config = replace(
                factory._installation.config, truncate_look_ms=self.truncate_look_ms, park_look_ms=self.park_look_ms
            )
            factory._installation = replace(factory._installation, config=config)
        return factory


class ChaosWorker:
    """Receives, works, settles."""

    def __init__(self, task: Task, connection: Connection, chosen: str | None = None) -> None:
        """`chosen`: receives messages of that type only."""
        self._task = task
        self._chosen = chosen
        self._journal = JournalWriter(Path(task.folder) / f"{task.name}.journal")
        self._random = random.Random(f"{task.seed}/{task.name}")
        connection.exception_listener = lambda error: self._journal.write_trouble(str(error))
        self._connection = connection
        self._open()
        self._unsettled: list[Message] = []
        self.is_stopping = threading.Event()
        self._never = threading.Event()

    def _open(self) -> None:
        task = self._task
        self._session = self._connection.create_session(AcknowledgeMode[task.mode])
        self._consumer = self._made_consumer()
        self._forward = self._session.create_producer(Queue(task.forward_to)) if task.forward_to else None

    def _open_again(self) -> None:
        """Another session, as soon as Kafka lets it be opened."""
        while True:
            self._session.close()
            try:
                self._open()
            except JMSError:
                if self.is_stopping.wait(RECEIVE_S):
                    raise
            else:
                return

    def _made_consumer(self) -> MessageConsumer:
        task, session = self._task, self._session
        if not task.subscription:
            selector = None if self._chosen is None else f"JMSType = '{self._chosen}'"
            return session.create_consumer(Queue(task.queue), selector=selector, prefetch=task.prefetch)
        create = session.create_durable_consumer if task.client_id else session.create_shared_durable_consumer
        return create(jbm_kafka.Topic(task.queue), task.subscription, prefetch=task.prefetch)

    def run(self) -> None:
        """Until told to stop."""
        while not self.is_stopping.is_set():
            message = self._consumer.receive(RECEIVE_S)
            if message is not None:
                self._journal.write(GOT, message)
                self._work(message)
            if message is None or len(self._unsettled) >= self._task.batch:
                self._settle()
        self._settle()
        self._session.close()

    def _work(self, message: Message) -> None:
        assert self._chosen in (None, message.type), f"{message.message_id} of type {message.type} was not chosen"
        self._never.wait(self._random.uniform(*self._task.work_ms) / 1000)
        body = json.loads(str(message.body))
        if body["poison"] or message.delivery_count <= body["refuse"]:
            self._journal.write(NACKING, message)
            message.nack()
            return
        self._journal.write(DONE, message)
        if self._forward is not None:
            self._forward.send(str(message.body), unit_of_order=message.unit_of_order)
        self._unsettled.append(message)

    def _settle(self) -> None:
        messages, self._unsettled = self._unsettled, []
        if not messages:
            return
        for message in messages:
            self._journal.write(SETTLING, message)
        try:
            if self._task.mode == "TRANSACTED":
                self._session.commit()
            else:
                self._session.acknowledge()
        except (IllegalStateError, TransactionRolledBackError) as error:
            for message in messages:
                self._journal.write(REFUSED, message, str(error))
        except TransactionInDoubtError as error:
            for message in messages:
                self._journal.write(REFUSED, message, str(error))
            logging.getLogger(__name__).warning("goes on with another session, as its text asks for: %s", error)
            self._open_again()
        else:
            for message in messages:
                self._journal.write(SETTLED, message)
        self.is_stopping.wait(self._task.pause_ms / 1000)


def _run_handlers(task: Task) -> None:
    """The product's worker, until the input ends."""
    journal = JournalWriter(Path(task.folder) / f"{task.name}.journal")
    chance, never = random.Random(f"{task.seed}/{task.name}"), threading.Event()
    worker = jbm_kafka.Worker(task.factory())

    def handle(message: Message) -> None:
        journal.write(GOT, message)
        never.wait(chance.uniform(*task.work_ms) / 1000)
        body = json.loads(str(message.body))
        if body["poison"] or message.delivery_count <= body["refuse"]:
            journal.write(NACKING, message)
            raise RuntimeError("refused")
        journal.write(DONE, message)

    worker.handler(task.queue, concurrency=HANDLERS)(handle)
    worker.start()
    print("ready", os.getpid(), flush=True)
    sys.stdin.buffer.read()
    assert worker.stop(), "handlers did not end"


def _shift_clock(file: Path) -> None:
    """Let a file say by how many ms the process's wall clock is ahead. The first version has its clock elsewhere."""
    from jbm_kafka.ports.clock import SystemClock
    from jbm_kafka.providers import embedded

    class ShiftedClock(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + int(file.read_text())

    vars(embedded)["SystemClock"] = ShiftedClock


def _stop_at_end_of_input(workers: Sequence[ChaosWorker]) -> None:
    sys.stdin.buffer.read()
    for worker in workers:
        worker.is_stopping.set()


def connected(task: Task) -> Connection:
    """A connection, once the client id of a killed worker is free."""
    factory, pause, begun = task.factory(), threading.Event(), time.monotonic()
    while True:
        try:
            return factory.create_connection()
        except InvalidClientIDError:
            if time.monotonic() - begun > CLIENT_ID_S:
                raise
            pause.wait(RECEIVE_S)


def main() -> None:
    """Ends with 0 when its input ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s")
    logging.info("jbm_kafka is that of %s", jbm_kafka.__file__)
    given = json.loads(sys.argv[1])
    task = Task(**{**given, "work_ms": tuple(given["work_ms"]), "types": tuple(given["types"])})
    if task.clock_file:
        _shift_clock(Path(task.clock_file))
    if task.mode == "HANDLER":
        _run_handlers(task)
        return
    with connected(task) as connection, ThreadPoolExecutor() as threads:
        if task.types:
            connection.stop()  # all processes must choose alike, and a consumer counts from its making (SEL-2)
        workers = [ChaosWorker(task, connection, chosen) for chosen in task.types or (None,)]
        connection.start()
        print("ready", os.getpid(), flush=True)
        threading.Thread(target=_stop_at_end_of_input, args=(workers,), daemon=True).start()
        for running in [threads.submit(worker.run) for worker in workers]:
            running.result()


if __name__ == "__main__":
    main()
