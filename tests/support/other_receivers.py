"""Receivers beside a crew of handlers, of each other kind: PRE, NO, XA, and AMQP clients of a server that is killed."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from proton import ConnectionException, Delivery, LinkException, Timeout
from proton.reactor import Selector
from proton.utils import BlockingConnection

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.errors import TransactionRolledBackError
from tests.amqp.server_process import ServerProcess, ServerTask, running
from tests.support.handler_process import ATTEMPTS_MAX, HandlerTask

SELECTOR = "plain = TRUE"
"""They take no message that is to fail, for none of them fails."""
WAIT_S = 0.5
KILL_EACH_S = 7.0
RELEASE_EACH_S = 2.0


class OtherReceivers:
    """What is done by whom, each number at least once; by kind."""

    def __init__(self, task: HandlerTask, server: ServerProcess) -> None:
        self._task, self._server, self._is_over = task, server, threading.Event()
        settings = AddressSettings(
            max_delivery_attempts=ATTEMPTS_MAX, redelivery_delay_ms=50, dead_letter_address=task.dead_letters
        )
        self._factory = XAConnectionFactory(
            task.bootstrap, state_dir=str(Path(task.folder) / "others"), address_settings={task.queue: settings}
        )
        self.done: dict[str, list[int]] = {}

    def _note(self, kind: str, body: object) -> None:
        self.done.setdefault(kind, []).append(json.loads(str(body))["number"])

    def _early(self, mode: AcknowledgeMode) -> None:
        with self._factory.create_context(mode) as jms:
            consumer = jms.create_consumer(Queue(self._task.queue), SELECTOR)
            while not self._is_over.is_set():
                if (message := consumer.receive(WAIT_S)) is not None:
                    self._note(mode.name, message.body)

    def _branches(self) -> None:
        """Every fifth is rolled back when it is prepared."""
        with self._factory.create_xa_connection() as connection:
            connection.start()
            session = connection.create_xa_session()
            consumer, number = session.create_consumer(Queue(self._task.queue), SELECTOR), 0
            while not self._is_over.is_set():
                session.tpc_begin(session.xid(7, uuid.uuid4().hex, b""))
                message = consumer.receive(WAIT_S)
                number += 1
                with suppress(TransactionRolledBackError):
                    session.tpc_prepare()
                    if number % 5 == 0 or message is None:
                        session.tpc_rollback()
                    else:
                        session.tpc_commit()
                        self._note("XA", message.body)

    def _over_amqp(self) -> None:
        while not self._is_over.is_set():
            try:
                client = BlockingConnection(self._server.url, timeout=20)
                receiver = client.create_receiver(self._task.queue, credit=10, options=Selector(SELECTOR))
                while not self._is_over.is_set():
                    try:
                        message = receiver.receive(timeout=WAIT_S)
                    except Timeout:
                        continue
                    self._note("AMQP", message.body)
                    receiver.settle(Delivery.ACCEPTED)
                client.close()
            except (ConnectionException, LinkException, OSError):
                self._is_over.wait(WAIT_S)  # the server was killed

    def _kill(self) -> None:
        while not self._is_over.wait(KILL_EACH_S):
            self._server.restart()

    def _release(self) -> None:
        """Let go on what is on hold."""
        with Admin(self._task.bootstrap) as admin:
            while not self._is_over.wait(RELEASE_EACH_S):
                admin.release(self._task.queue, everything=True)

    def _start(self, threads: ThreadPoolExecutor) -> list[Future[None]]:
        early = (AcknowledgeMode.PRE, AcknowledgeMode.NO)
        calls: list[Callable[[], None]] = [self._branches, self._over_amqp, self._kill, self._release]
        return [threads.submit(self._early, mode) for mode in early] + [threads.submit(call) for call in calls]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Raises what one of them raised."""
        with ThreadPoolExecutor() as threads, ExitStack() as ends:
            started = self._start(threads)
            ends.callback(self._is_over.set)
            yield
        for each in started:
            each.result()


@contextmanager
def other_receivers(task: HandlerTask) -> Iterator[OtherReceivers]:
    """All of them work while the block runs."""
    server = ServerTask(
        bootstrap=task.bootstrap, port=free_port(), state_dir=str(Path(task.folder) / "server"), namespace="",
        dead_letters=task.dead_letters, max_attempts=ATTEMPTS_MAX,
    )  # fmt: skip
    Path(task.folder).mkdir(parents=True, exist_ok=True)
    with running(server) as (place,):
        others = OtherReceivers(task, place)
        with others.at_work():
            yield others
