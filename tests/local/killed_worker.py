"""A process to be killed: moves messages from one queue to another, three in a transaction, and never stops.

`python -m tests.local.killed_worker FOLDER` prints a line for each transaction that its commit has returned from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, QueueChannel, RocksPersistenceManager
from tests.local.parts import Hand, Text

MESSAGES = 3_000


class Place:
    """Two queues over one store, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.persistence = RocksPersistenceManager(folder)
        self.store = MemoryMessageStore("bodies", persistence_manager=self.persistence)
        self.transactions = LocalTransactionManager()
        self.source, self.target = (self._queue(name) for name in ("source", "target"))

    def _queue(self, name: str) -> QueueChannel:
        return QueueChannel(
            name,
            message_store=self.store,
            persistence_manager=self.persistence,
            transaction_manager=self.transactions,
        )


def moved(name: str) -> Text:
    """What becomes of a message that was worked on."""
    return Text(f"{name} done", body=f"the work on {name}", is_reliable=True, unit_of_order="u")


def main(folder: Path) -> None:
    place = Place(folder)
    worker = Hand("worker")
    names = [f"m{number}" for number in range(MESSAGES)]
    with place.transactions.transaction():
        for name in names:
            place.source.handle(Text(name, body=f"do {name}", is_reliable=True))
    print("sent", flush=True)
    place.source.add_receiver(worker)
    place.source.deliver()
    for batch in zip(*[iter(names)] * 3, strict=True):
        with place.transactions.transaction():
            for name in batch:
                place.source.acknowledge(name, "worker")
                place.target.handle(moved(name))
        print(batch[-1], flush=True)
    print("all", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
