"""A process that uses the API as it is told, one JSON line a call; so a test can stop it between any two.

python -m tests.support.chaos_puppet '{"bootstrap": …, "options": {…}, "settings": {…}}'
"""

import json
import logging
import os
import select
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue
from jbm_kafka.errors import JMSError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.support.chaos_crew import Process
from tests.support.waiting import wait_until

EVERYWHERE: Mapping[str, object] = {}
"""Settings of addresses: the shipped ones."""


class Puppet(Process):
    """The test's end of the strings."""

    def __init__(
        self, bootstrap: str, folder: Path, name: str, *, settings: Mapping[str, object] = EVERYWHERE, **options: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        given = {"session_timeout_ms": 2_000, "state_dir": str(folder / f"{name}-state"), **options}
        what = {"bootstrap": bootstrap, "options": given, "settings": dict(settings)}
        super().__init__("tests.support.chaos_puppet", json.dumps(what), folder / f"{name}.log")

    def tell(self, call: str, *arguments: object) -> None:
        """Begin a call."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([call, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What the call returned; an error as `ErrorName: text`."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended, see {self.said}: {self.last_words()}"
        return json.loads(line)

    def has_answered(self) -> bool:
        """The call has ended, and nobody has read how."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def ask(self, call: str, *arguments: object) -> Any:
        """Make a call and wait for its end."""
        self.tell(call, *arguments)
        return self.answer()


class _Strings:
    """The process's end: sessions by name, messages by session and number."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sessions: dict[str, Session] = {}
        self._consumers: dict[str, MessageConsumer] = {}
        self._messages: dict[str, list[Message]] = {}
        self._troubles: list[str] = []
        connection.exception_listener = lambda error: self._troubles.append(f"{type(error).__name__}: {error}")
        self.calls: dict[str, Callable[..., object]] = {
            "open": self._open,
            "session": self._open_session,
            "request": lambda name, queue, body, timeout: (
                self._sessions[name].request(Queue(queue), body, timeout=timeout).body
            ),
            "receive": self._receive,
            "acknowledge": lambda name, number: self._messages[name][number].acknowledge(),
            "nack": lambda name, number, delay_ms=None: self._messages[name][number].nack(delay_ms),
            "commit": lambda name: self._sessions[name].commit(),
            "rollback": lambda name: self._sessions[name].rollback(),
            "send": self._send,
            "send_noise": self._send_noise,
            "count": lambda name: len(self._messages[name]),
            "is_draining": self._is_draining,
            "fill": self._fill,
            "troubles": lambda: self._troubles,
        }

    def _open(
        self, name: str, mode: str, queue: str, dups_ok: Mapping[str, int] | None = None, prefetch: int | None = None
    ) -> None:
        self._sessions[name] = self._connection.create_session(AcknowledgeMode[mode])
        if dups_ok is not None:
            self._sessions[name].set_dups_ok(**dups_ok)
        self._consumers[name] = self._sessions[name].create_consumer(Queue(queue), prefetch=prefetch)
        self._messages[name] = []

    def _open_session(self, name: str, mode: str) -> None:
        self._sessions[name] = self._connection.create_session(AcknowledgeMode[mode])

    def _receive(self, name: str, timeout: float) -> object:
        message = self._consumers[name].receive(timeout)
        if message is None:
            return None
        self._messages[name].append(message)
        return [message.body, message.delivery_count, message.redelivered]

    def _fill(self, name: str, count: int) -> None:
        """Wait until so many lie in the consumer's buffer, which nobody has asked for yet."""
        link = self._consumers[name]._link
        with link.lock:
            link.request(count)
        wait_until(lambda: len(link.buffer) == count, about="a full buffer", timeout_s=60)

    def _is_draining(self, name: str) -> bool:
        """A rebalance waits for what is in hand of a partition that is to go. Nothing public tells that."""
        group_worker = self._consumers[name]._link.group_worker
        assert isinstance(group_worker, GroupWorker), group_worker
        return any(channel.is_closing for channel in list(group_worker.data.channels.values()))

    def _send(self, name: str, queue: str, body: str) -> None:
        self._sessions[name].create_producer(Queue(queue)).send(body)

    def _send_noise(self, name: str, queue: str, count: int, size_bytes: int) -> None:
        """What no compression makes small."""
        producer = self._sessions[name].create_producer(Queue(queue))
        for _ in range(count):
            producer.send(os.urandom(size_bytes))


def main() -> None:
    """Obeys until its standard input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s")
    given = json.loads(sys.argv[1])
    settings = {pattern: AddressSettings(**fields) for pattern, fields in given["settings"].items()}
    factory = ConnectionFactory(given["bootstrap"], address_settings=settings, **given["options"])
    with factory.create_connection() as connection:
        strings = _Strings(connection)
        print("ready", flush=True)
        for line in sys.stdin:
            call, *arguments = json.loads(line)
            try:
                returned: object = strings.calls[call](*arguments)
            except JMSError as error:
                returned = f"{type(error).__name__}: {error}"
            print(json.dumps(returned), flush=True)


if __name__ == "__main__":
    main()
