"""Counts what one message passes through: `python -m tests.house.message_way` starts a local Kafka and prints the list.

Then each call that `send`, `receive` and `acknowledge` make on the thread of their caller, as a chain.

A CLIENT session sends, receives and acknowledges one message, after another one has warmed everything up. Counted are
the files and functions of jbm_kafka that ran in any thread from the call of `send` until the group's offset is
committed, idle turns of the loops in between included. Left out is what time alone brings, whether there are messages
or not: the two threads that look once a second what became of topics and what administrators ask, and what a group
worker looks at every 200 ms however many messages come. Run it with JBM_PURE=1: compiled functions cannot be seen.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.compiled import are_used
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.producer import MessageProducer
from tests.house.sources import ROOT
from tests.support.broker import open_broker
from tests.support.waiting import wait_until

PACKAGE = ROOT / "jbm_kafka"
QUIET_S = 0.3
"""So long nothing new must have run before the way is taken to have ended."""
PATIENCE_S = 30.0
BESIDE = ("jbm-topics", "jbm-commands")
"""Threads that go on by themselves, whether there are messages or not."""
BY_TIME = ("Turn._look_around", "GroupWorker._look_around")
"""What a thread that messages pass calls by time alone; with all that it calls."""


class Chain:
    """Every call of a folder's functions that this thread makes while it is on, in order and each with its depth."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._depth = 0
        self.calls: list[tuple[int, str]] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        """Note the calls of the block in place of the profile function that is there."""
        before = sys.getprofile()
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(before)

    def render(self, name: str) -> str:
        """Return the number of calls, then each on a line, indented below its caller."""
        return "\n".join(
            [f"{name}: {len(self.calls)} calls", *(f"  {'  ' * depth}{call}" for depth, call in self.calls)]
        )

    def _look(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(self._folder) or event not in ("call", "return"):
            return
        if event == "call":
            self.calls.append((self._depth, f"{code.co_filename.removeprefix(self._folder)} {code.co_qualname}"))
        self._depth += 1 if event == "call" else -1


class Trace:
    """Which functions of a folder ran while it was on, in all threads that were started after `install`."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._seen: dict[CodeType, None] = {}
        self._here = threading.local()
        """In each thread: whether it is in what time alone brings."""
        self.is_on = False

    def install(self) -> None:
        """Look at this thread and at those it starts."""
        threading.setprofile(self._begin)
        sys.setprofile(self._look)

    def leave(self) -> None:
        """Look no more at this thread, nor at threads started from now on."""
        threading.setprofile(None)
        sys.setprofile(None)

    def functions(self) -> dict[str, list[str]]:
        """Their names by file, both in order, files relative to the folder; a comprehension is part of its function."""
        found: dict[str, set[str]] = {}
        for code in list(self._seen):
            if not code.co_name.startswith("<"):
                found.setdefault(code.co_filename.removeprefix(self._folder), set()).add(code.co_qualname)
        return {name: sorted(found[name]) for name in sorted(found)}

    def _begin(self, frame: FrameType, event: str, argument: object) -> None:
        """The first call in a thread."""
        sys.setprofile(None if threading.current_thread().name in BESIDE else self._look)

    def _look(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_qualname in BY_TIME:
            self._here.is_by_time = event == "call"
        if event != "call" or not self.is_on or code in self._seen or getattr(self._here, "is_by_time", False):
            return
        if code.co_filename.startswith(self._folder):
            self._seen[code] = None


def render(functions: dict[str, list[str]]) -> str:
    """The sums, then each layer with its files and their functions."""
    lines = [f"{len(functions)} files, {sum(map(len, functions.values()))} functions"]
    layers: dict[str, list[str]] = {}
    for name in functions:
        layers.setdefault(name.partition("/")[0], []).append(name)
    for layer, names in layers.items():
        lines.append(f"\n{layer}: {len(names)} files, {sum(len(functions[name]) for name in names)} functions")
        lines += [f"  {name}: {', '.join(functions[name])}" for name in names]
    return "\n".join(lines)


def trace_one_message(bootstrap: str, trace: Trace) -> dict[str, Chain]:
    """Trace the second message of a queue that is made for this; return the calling thread's calls for the third."""
    queue = Queue(f"way-{time.time_ns()}")
    with Admin(bootstrap) as admin:
        admin.create_queue(queue.name, partitions=1)
        trace.install()
        with ConnectionFactory(bootstrap).create_connection() as connection:
            connection.start()
            session = connection.create_session(AcknowledgeMode.CLIENT)
            consumer, producer = session.create_consumer(queue), session.create_producer(queue)
            _send_receive_acknowledge(producer, consumer)
            _wait_settled(admin, queue, 1)
            trace.is_on = True
            _send_receive_acknowledge(producer, consumer)
            trace.leave()
            _wait_settled(admin, queue, 2)
            _wait_quiet(trace)
            trace.is_on = False
            return _chains(producer, consumer)


def _chains(producer: MessageProducer, consumer: MessageConsumer) -> dict[str, Chain]:
    chains = {name: Chain(PACKAGE) for name in ("send", "receive", "acknowledge")}
    with chains["send"].on():
        producer.send("on its way")
    with chains["receive"].on():
        message = consumer.receive(PATIENCE_S)
    assert message is not None, f"nothing came within {PATIENCE_S:g} s"
    with chains["acknowledge"].on():
        message.acknowledge()
    return chains


def _send_receive_acknowledge(producer: MessageProducer, consumer: MessageConsumer) -> None:
    producer.send("on its way")
    message = consumer.receive(PATIENCE_S)
    assert message is not None, f"nothing came within {PATIENCE_S:g} s"
    message.acknowledge()


def _wait_settled(admin: Admin, queue: Queue, count: int) -> None:
    def is_settled() -> bool:
        return sum(part.settled_to for part in admin.counts(queue).partitions) >= count

    wait_until(is_settled, about=f"{count} messages settled", timeout_s=PATIENCE_S)


def _wait_quiet(trace: Trace) -> None:
    """Wait until nothing new has run for a while: the checkpoint is told to the channel after it is committed."""
    last, since = 0, time.monotonic()

    def is_quiet() -> bool:
        nonlocal last, since
        now = len(trace.functions()), time.monotonic()
        if now[0] != last:
            last, since = now
        return time.monotonic() - since > QUIET_S

    wait_until(is_quiet, about="the end of the message's way", timeout_s=PATIENCE_S)


def main() -> None:
    """Print it."""
    if are_used():
        sys.exit("compiled functions cannot be seen: run it with JBM_PURE=1")
    trace = Trace(PACKAGE)
    with tempfile.TemporaryDirectory() as folder, open_broker("local", Path(folder)) as bootstrap:
        chains = trace_one_message(bootstrap, trace)
    print(render(trace.functions()))
    for name, chain in chains.items():
        print(f"\n{chain.render(name)}")


if __name__ == "__main__":
    main()
