"""Receivers beside a crew of handlers, of each other kind: PRE, NO, XA, and an AMQP client of a server that is killed.

They have no selectors, for a queue's processes must have the same. So they meet every message, and do with it what its
body asks for (`handler_process`), as far as their kind can.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from proton import ConnectionException, Delivery, LinkException, Timeout
from proton.utils import BlockingConnection, BlockingReceiver

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.errors import JMSError, TransactionRolledBackError
from tests.amqp.server_process import ServerProcess, ServerTask, running
from tests.support.handler_process import ATTEMPTS_MAX, HandlerTask

EARLY = (AcknowledgeMode.PRE, AcknowledgeMode.NO)
WAIT_S, AMQP_S = 0.5, 30.0
RELEASE_EACH_S = 2.0
CREDIT = 20


class OtherReceivers:
    """What is done by whom, each number at least once; by kind."""

    def __init__(self, task: HandlerTask, server: ServerProcess, kill_each: int) -> None:
        self._task, self._server, self._is_over = task, server, threading.Event()
        self._kill_each, self.kills, self.released = kill_each, 0, 0
        settings = AddressSettings(
            max_delivery_attempts=ATTEMPTS_MAX, redelivery_delay_ms=50, dead_letter_address=task.dead_letters
        )
        self._factory = XAConnectionFactory(
            task.bootstrap, state_dir=str(Path(task.folder) / "others"), address_settings={task.queue: settings}
        )
        self._started: list[Future[None]] = []
        self.done: dict[str, list[int]] = {kind: [] for kind in ("PRE", "NO", "XA", "AMQP")}

    @property
    def done_early(self) -> set[int]:
        """What was acknowledged before anybody looked at it: it may have asked to be given up."""
        return {number for mode in EARLY for number in self.done[mode.name]}

    def _early(self, mode: AcknowledgeMode) -> None:
        """At the end also what had arrived and was not read, for it was acknowledged then."""
        with self._factory.create_context(mode) as jms:
            consumer = jms.create_consumer(Queue(self._task.queue))
            while (message := consumer.receive(WAIT_S)) is not None or not self._is_over.is_set():
                if message is not None:
                    self.done[mode.name].append(_told(message.body)["number"])

    def _branches(self) -> None:
        """One for each message; every fifth is prepared, and rolled back all the same."""
        with self._factory.create_xa_connection() as connection:
            connection.start()
            session = connection.create_xa_session()
            consumer = session.create_consumer(Queue(self._task.queue))
            while not self._is_over.is_set():
                session.tpc_begin(session.xid(7, uuid.uuid4().hex, b""))
                message = consumer.receive(WAIT_S)
                with suppress(TransactionRolledBackError):
                    session.tpc_prepare()
                    if message is None or not _is_committed(message):
                        session.tpc_rollback()
                    else:
                        session.tpc_commit()
                        self.done["XA"].append(_told(message.body)["number"])

    def _over_amqp(self) -> None:
        while not self._is_over.is_set():
            with suppress(ConnectionException, LinkException, OSError):  # the server was killed
                client = BlockingConnection(self._server.url, timeout=AMQP_S)
                receiver = client.create_receiver(self._task.queue, credit=CREDIT)
                while not self._is_over.is_set():
                    with suppress(Timeout):
                        self._settle(receiver, receiver.receive(timeout=WAIT_S))
                client.close()
            self._is_over.wait(WAIT_S)

    def _settle(self, receiver: BlockingReceiver, message: Any) -> None:
        told = _told(message.body)
        if told.get("is_given_up"):
            receiver.reject()
        elif message.delivery_count < told.get("fails", 0):
            assert receiver.fetcher is not None
            receiver.fetcher.unsettled[0].local.failed = True  # else it does not count as an attempt
            receiver.settle(Delivery.MODIFIED)
        else:
            self.done["AMQP"].append(told["number"])
            receiver.accept()

    def _kill(self) -> None:
        while not self._is_over.wait(WAIT_S):
            if len(self.done["AMQP"]) >= (self.kills + 1) * self._kill_each:
                self._server.restart()
                self.kills += 1

    def _release(self) -> None:
        """Let go on what is on hold."""
        with Admin(self._task.bootstrap) as admin:
            while not self._is_over.wait(RELEASE_EACH_S):
                with suppress(JMSError):  # whoever was asked was killed
                    self.released += len(admin.release(self._task.queue, everything=True).messages)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Raises what one of them raised."""
        with ThreadPoolExecutor() as threads:
            self._started = [threads.submit(self._early, mode) for mode in EARLY]
            calls = (self._branches, self._over_amqp, self._kill, self._release)
            self._started += [threads.submit(call) for call in calls]
            try:
                yield
            finally:
                self._is_over.set()
        self.check()

    def check(self) -> None:
        """Raises what ended one of them."""
        for each in self._started:
            if each.done():
                each.result()


def _told(body: object) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(str(body))
    return told


def _is_committed(message: Message) -> bool:
    told = _told(message.body)
    fails: int = told.get("fails", int(told["number"] % 5 == 0))
    return not told.get("is_given_up") and message.delivery_count > fails


@contextmanager
def other_receivers(task: HandlerTask, *, kill_each: int) -> Iterator[OtherReceivers]:
    """All of them work while the block runs; the server is killed whenever it has given so many."""
    server = ServerTask(
        bootstrap=task.bootstrap, port=free_port(), state_dir=str(Path(task.folder) / "server"), namespace="",
        dead_letters=task.dead_letters, max_attempts=ATTEMPTS_MAX,
    )  # fmt: skip
    Path(task.folder).mkdir(parents=True, exist_ok=True)
    with running(server) as (place,):
        others = OtherReceivers(task, place, kill_each)
        with others.at_work():
            yield others
