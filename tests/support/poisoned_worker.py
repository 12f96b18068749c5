"""A worker that some messages kill: it writes down each that it gets, and dies by SIGKILL of those that say so.

python -m tests.support.poisoned_worker '{"name": "w1", "bootstrap": "…", "queue": "…", "folder": "…"}'
"""

import json
import os
import select
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue

RECEIVE_S = 0.2
ATTEMPTS_MAX = 3
POISON = "poison"


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What a worker is told."""

    name: str
    bootstrap: str
    queue: str
    partitions: int
    folder: str

    @property
    def dead_letters(self) -> str:
        """Where the queue's go."""
        return f"{self.queue}.dead"

    def as_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    def factory(self) -> ConnectionFactory:
        """Of its connection, in AUTO."""
        settings = AddressSettings(
            partitions=self.partitions, max_delivery_attempts=ATTEMPTS_MAX, dead_letter_address=self.dead_letters
        )
        return ConnectionFactory(
            self.bootstrap,
            state_dir=str(Path(self.folder) / self.name),
            session_timeout_ms=2_000,
            address_settings={self.queue: settings},
            persist_delivery_count_before_delivery=True,
        )


def main() -> None:
    """Until its standard input ends, or a message kills it."""
    task = Poisoned(**json.loads(sys.argv[1]))
    journal = os.open(Path(task.folder) / f"{task.name}.seen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with task.factory().create_connection() as connection:
        connection.start()
        with connection.create_session(AcknowledgeMode.AUTO) as session:
            consumer = session.create_consumer(Queue(task.queue))
            print("ready", flush=True)
            while not select.select([sys.stdin], [], [], 0)[0]:
                message = consumer.receive(RECEIVE_S)
                if message is not None:
                    os.write(journal, f"{message.body} {message.delivery_count}\n".encode())
                    if str(message.body).startswith(POISON):
                        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
