"""A process that is killed while a message leaves its queue, after so many writes of that.

`python -m tests.local.killed_departure FOLDER give_up|expire WRITES`
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from jbm_kafka.contract import PersistenceManager
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.local import MemoryMessageStore, QueueChannel, RocksPersistenceManager
from tests.local.parts import Clock, Hand, Text

EXPIRES_AT_MS = 4_000


class Mortal(RocksPersistenceManager):
    """Writes so often, and then its process is gone."""

    writes_left = 1_000

    def write_all(self, records: Mapping[str, Mapping[str, bytes | None]], /) -> None:
        if not self.writes_left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.writes_left -= 1
        super().write_all(records)


class Place:
    """A queue with somewhere for what cannot stay, on one persistence manager."""

    def __init__(self, persistence: PersistenceManager) -> None:
        self.store = MemoryMessageStore("bodies", persistence_manager=persistence)
        clock = Clock()
        self.letters = QueueChannel(
            "letters", message_store=self.store, persistence_manager=persistence, clock_ms=clock
        )
        self.queue = QueueChannel(
            "orders",
            message_store=self.store,
            persistence_manager=persistence,
            clock_ms=clock,
            settings=AddressSettings(max_delivery_attempts=1),
            dead_letter_channel=self.letters,
            expiry_channel=self.letters,
        )

    def hold_one(self, *, expires: bool) -> None:
        """A message that expires, or that a worker has in hand for the last time."""
        self.queue.handle(Text("m", is_reliable=True, expiration_ms=EXPIRES_AT_MS if expires else 0))
        if not expires:
            self.queue.add_receiver(Hand("worker"))
            self.queue.deliver()

    def let_go(self, *, expires: bool) -> None:
        """It leaves."""
        if expires:
            self.queue.expire(EXPIRES_AT_MS + 1)
        else:
            self.queue.remove_receiver("worker")

    def bodies(self) -> tuple[list[object], list[object]]:
        """What is in the queue, and what has left it."""
        return [each.body for each in self.queue.browse()], [each.body for each in self.letters.browse()]


def main(folder: Path, leaves_by: str, writes: int) -> None:
    persistence = Mortal(folder)
    place, expires = Place(persistence), leaves_by == "expire"
    place.hold_one(expires=expires)
    persistence.writes_left = writes
    place.let_go(expires=expires)
    print("gone", flush=True)
    persistence.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
