"""A process of handlers on one queue, which a test may kill: `python -m tests.support.handler_process '{"name": ...}'`.

A message is JSON: its `number`, how often it fails at first, whether it is given up. What is done is noted before it is
acknowledged, one line each, so that a SIGKILL loses no line.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jbm_kafka import AddressSettings, Message, Queue, Reject, Retry, Session, Worker

ATTEMPTS_MAX = 4
"""What fails more often is a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTask:
    """What a process is told."""

    name: str
    bootstrap: str
    queue: str
    folder: str
    """Of what was done, and of what the processes keep."""
    place: int = 0
    """Whoever comes after a killed one has the same."""
    copies_to: str = ""
    """A queue that gets a copy of each, in the same transaction."""
    concurrency: int = 4

    @property
    def dead_letters(self) -> str:
        """Where the queue's go."""
        return f"{self.queue}.dead"

    def as_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    def worker(self) -> Worker:
        """Without handlers."""
        settings = AddressSettings(
            max_delivery_attempts=ATTEMPTS_MAX, redelivery_delay_ms=50, dead_letter_address=self.dead_letters
        )
        return Worker(
            self.bootstrap,
            state_dir=str(Path(self.folder) / f"place-{self.place}"),
            address_settings={self.queue: settings},
            session_timeout_ms=9_000,  # as in chaos_worker
        )


class Handlers:
    """Of one process; their threads may note at once."""

    def __init__(self, task: HandlerTask) -> None:
        self._task = task
        self._done = os.open(Path(task.folder) / f"{task.name}.done", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(self, message: Message) -> None:
        """As the message says."""
        told: dict[str, Any] = json.loads(str(message.body))
        if told.get("is_given_up"):
            raise Reject("nobody can process it")
        if message.delivery_count <= told.get("fails", 0):
            raise Retry("not yet", delay_ms=200) if told["number"] % 2 else RuntimeError("it failed")
        os.write(self._done, b"%d\n" % told["number"])

    def copy(self, message: Message, session: Session) -> None:
        """The same, and a copy."""
        self.handle(message)
        session.create_producer(Queue(self._task.copies_to)).send(message.body, unit_of_order=message.unit_of_order)


def main() -> int:
    """Until its input ends; 0 when all handlers had ended."""
    task = HandlerTask(**json.loads(sys.argv[1]))
    worker, handlers = task.worker(), Handlers(task)
    handle = handlers.copy if task.copies_to else handlers.handle
    worker.handler(task.queue, concurrency=task.concurrency, transacted=bool(task.copies_to))(handle)
    worker.start()
    print("ready", flush=True)
    sys.stdin.buffer.read()
    return 0 if worker.stop() else 1


if __name__ == "__main__":
    sys.exit(main())
