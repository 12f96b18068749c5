"""A process that sends numbers into a store, one after the other, and says of each that it tries and that it is stored.

`python -m tests.support.storing_sender BOOTSTRAP FOLDER QUEUE FSYNC BEGIN END FULL_AT`

It prints `try N`, then `ok N`, or `no N` when the store refused; then it tries the same number again. At FULL_AT no
file of the process may grow for a while, as on a full disk. At END it closes, which waits until all is forwarded.
"""

from __future__ import annotations

import resource
import signal
import sys

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.errors import ResourceAllocationError

UNITS = 20
REFUSED_COUNT = 200
"""So many refusals until there is room again."""


def unit_of(number: int) -> str:
    """The unit that a number is sent in."""
    return f"u{number % UNITS}"


def say(word: str, number: int) -> None:
    """A whole line at once, so that a kill leaves none in part."""
    sys.stdout.write(f"{word} {number}\n")
    sys.stdout.flush()


def main(bootstrap: str, folder: str, queue: str, fsync: str, begin: int, end: int, full_at: int) -> None:
    """Send from one number to before the other."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    factory = ConnectionFactory(bootstrap, store_and_forward=folder, store_fsync=fsync == "fsync", auto_create=False)
    refused = 0
    with factory.create_sender() as sender:
        number = begin
        while number < end:
            if number == full_at and not refused:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, whole[1]))
            say("try", number)
            try:
                sender.send(Queue(queue), str(number), unit_of_order=unit_of(number))
            except ResourceAllocationError:
                say("no", number)
                refused += 1
                if refused == REFUSED_COUNT:
                    resource.setrlimit(resource.RLIMIT_FSIZE, whole)
                continue
            say("ok", number)
            number += 1
    say("done", end)


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(int, sys.argv[5:]))  # type: ignore[arg-type]
