"""A process that takes messages to a table and to another queue, one step of its transaction manager a call.

python -m tests.support.xa_worker '{"bootstrap": …}': so a test can kill it, or what it works with, between any two.
"""

import json
import logging
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from jbm_kafka import Queue, XAConnectionFactory
from jbm_kafka.errors import JMSError
from jbm_kafka.jms.consumer import MessageConsumer
from tests.support.chaos_crew import Process
from tests.support.chaos_puppet import Puppet
from tests.support.transaction_managers import (
    DATABASE,
    MESSAGES,
    LastResource,
    Manager,
    Participant,
    TwoPhase,
)

MANAGERS = ("last resource", "two-phase")
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class XATask:
    """What the process is told."""

    bootstrap: str
    database: str
    manager: str
    """One of `MANAGERS`."""
    queue: str
    target: str
    decisions: str
    """The folder of those of the two-phase manager."""
    state_dir: str
    session_timeout_ms: int = 3_000
    revoke_drain_ms: int = 60_000


class XAWorker(Puppet):
    """The test's end. Errors of ours and of the database are answers: `ErrorName: text`."""

    def __init__(self, task: XATask, said: Path) -> None:
        Process.__init__(self, "tests.support.xa_worker", json.dumps(asdict(task)), said)


class _Worker:
    """The process's end."""

    def __init__(self, task: XATask) -> None:
        self._task = task
        factory = XAConnectionFactory(
            task.bootstrap,
            state_dir=task.state_dir,
            session_timeout_ms=task.session_timeout_ms,
            revoke_drain_ms=task.revoke_drain_ms,
        )
        self._connection = factory.create_xa_connection()
        self._connection.start()
        self._session = self._connection.create_xa_session()
        self._consumer: MessageConsumer | None = None
        self._reconnect()

    @property
    def calls(self) -> Mapping[str, Callable[..., object]]:
        """Of now: after a failure session and manager are others."""
        return {
            "open": self._open,
            "work": self._work,
            "prepare": self._manager.prepare,
            "decide": self._manager.decide,
            "finish": self._manager.finish,
            "commit": self._session.tpc_commit,
            "recover": self._manager.recover,
            "prepared": lambda: [str(xid) for xid in self._session.tpc_recover()],
            "close": self._session.close,
            "run": self._run,
        }

    def _reconnect(self) -> None:
        """To the database, and nothing of the manager's is kept."""
        self._database = psycopg.connect(self._task.database)
        self._manager: Manager
        if self._task.manager == "last resource":
            self._manager = LastResource(self._database, self._session)
        else:
            both: Mapping[str, Participant] = {DATABASE: self._database, MESSAGES: self._session}
            self._manager = TwoPhase(both, Path(self._task.decisions))

    def close(self) -> None:
        self._database.close()
        self._connection.close()

    def _open(self) -> None:
        """Receives from now on."""
        if self._consumer is None:
            self._consumer = self._session.create_consumer(Queue(self._task.queue))

    def _work(self, timeout: float) -> object:
        """The text of the message; None, and no transaction is left open, where there is none."""
        self._open()
        assert self._consumer is not None
        self._manager.begin(uuid.uuid4().hex)
        message = self._consumer.receive(timeout)
        if message is None:
            self._manager.give_up()
            return None
        self._database.execute("INSERT INTO work VALUES (%s)", (str(message.body),))
        self._session.create_producer(Queue(self._task.target)).send(message.body, unit_of_order=message.unit_of_order)
        return message.body

    def _run(self, folder: str) -> None:
        """Works until a file `stop` is in the folder, and ends what a killed one left whenever something fails."""
        stop = Path(folder, "stop")
        while self._database.closed or not stop.exists():
            try:
                if self._database.closed:
                    self._begin_anew()
                if self._work(PAUSE_S) is None:
                    self._manager.recover()
                    continue
                self._manager.prepare()
                self._manager.decide()
                self._manager.finish()
            except (JMSError, psycopg.Error):
                logging.getLogger(__name__).warning("begins anew", exc_info=True)
                self._database.close()

    def _begin_anew(self) -> None:
        """With a session that has no branch in hand: what was prepared is ended by recovery."""
        self._session.close()
        self._session, self._consumer = self._connection.create_xa_session(), None
        self._reconnect()


def main() -> None:
    """Obeys until its standard input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s")
    worker = _Worker(XATask(**json.loads(sys.argv[1])))
    print("ready", flush=True)
    for line in sys.stdin:
        call, *arguments = json.loads(line)
        try:
            returned: object = worker.calls[call](*arguments)
        except (JMSError, psycopg.Error) as error:
            returned = f"{type(error).__name__}: {error}"
        print(json.dumps(returned), flush=True)
    worker.close()


if __name__ == "__main__":
    main()
