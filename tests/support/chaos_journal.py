"""What the workers of a failure test write down: one line a step, appended at once, so that a SIGKILL loses none.

Times are of the machine's monotonic clock, which all its processes share; so lines of several workers can be put in
order.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka import Message

GOT = "got"
"""The application has it."""
DONE = "done"
"""Its work is complete; not acknowledged yet."""
NACKING = "nacking"
"""About to be returned."""
SETTLING = "settling"
"""About to be acknowledged or committed."""
SETTLED = "settled"
"""The call returned: nothing is said yet of its durability."""
REFUSED = "refused"
"""The call raised, or the exception listener was told."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line."""

    worker: str
    kind: str
    at_ns: int
    wall_ms: int
    partition: int
    offset: int
    unit: str
    number: int
    delivery_count: int
    is_redelivered: bool
    text: str = ""

    @property
    def message(self) -> tuple[str, int]:
        """Unit and number, which name a message."""
        return self.unit, self.number


class JournalWriter:
    """Appends to a file of its own."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, kind: str, message: Message, text: str = "") -> None:
        """One step with one message."""
        place, body = message.kafka, json.loads(str(message.body))
        assert place is not None, message
        row = [kind, time.monotonic_ns(), time.time_ns() // 1_000_000, place.partition, place.offset]
        row += [body["unit"], body["number"], message.delivery_count, message.redelivered, text]
        os.write(self._file, json.dumps(row).encode() + b"\n")

    def write_trouble(self, text: str) -> None:
        """Something that is not about a message."""
        row = [REFUSED, time.monotonic_ns(), time.time_ns() // 1_000_000, -1, -1, "", -1, 0, False, text]
        os.write(self._file, json.dumps(row).encode() + b"\n")


def read_journals(folder: Path) -> list[Step]:
    """Every complete line of every worker, in the order of time."""
    steps = [
        Step(path.stem, *json.loads(line))
        for path in folder.glob("*.journal")
        for line in path.read_bytes().split(b"\n")[:-1]
    ]
    return sorted(steps, key=lambda step: step.at_ns)


def done_by(folder: Path) -> set[tuple[str, int]]:
    """The messages that are done."""
    return {step.message for step in read_journals(folder) if step.kind == DONE}


def count_done(folder: Path) -> int:
    """How many different messages are done."""
    return len(done_by(folder))


def by_message(steps: Iterable[Step]) -> Mapping[tuple[str, int], Sequence[Step]]:
    """In the order given."""
    found: dict[tuple[str, int], list[Step]] = defaultdict(list)
    for step in steps:
        if step.unit:
            found[step.message].append(step)
    return found
