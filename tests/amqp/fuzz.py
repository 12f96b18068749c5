"""Plays random clients against a server in memory: `python -m tests.amqp.fuzz SECONDS [SEED]`; `make fuzz-amqp`.

The server must live, log no error of its own, and serve another client all along. A failure names the history that was
played; `python -m tests.amqp.fuzz 0 SEED` plays that alone.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from proton import Message
from proton.utils import BlockingConnection

from jbm_kafka.devbroker.ports import free_port
from tests.amqp.fuzz_histories import ANSWER_S, History
from tests.amqp.server_process import ServerProcess, ServerTask, running

AT_ONCE = 4


@contextlib.contextmanager
def fuzzed_server(folder: Path) -> Iterator[ServerProcess]:
    """A server in memory, whose freed memory is filled, so that what uses it does not go well by chance."""
    name = secrets.token_hex(4)
    task = ServerTask(bootstrap=f"memory{name}", port=free_port(), state_dir=str(folder / name), namespace="fuzz")
    with running(task) as (server,):
        yield server
        server.check()


@contextlib.contextmanager
def served_meanwhile(server: ServerProcess) -> Iterator[None]:
    """Another client sends and receives all along. Raises AssertionError: it was not served."""
    is_over, faults, rounds = threading.Event(), list[BaseException](), [0]

    def use() -> None:
        try:
            client = BlockingConnection(server.url, timeout=ANSWER_S)
            sender, receiver = client.create_sender("served"), client.create_receiver("served", credit=1)
            while not is_over.is_set():
                sender.send(Message(body=str(rounds[0])))
                assert receiver.receive(timeout=ANSWER_S).body == str(rounds[0])
                receiver.accept()
                rounds[0] += 1
                is_over.wait(0.02)
            client.close()
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(2 * ANSWER_S)
    server.check()
    assert not thread.is_alive(), "another client waits for the server"
    assert not faults, f"another client was not served: {faults[0]!r}"
    assert rounds[0], "another client was not served"


def play(server: ServerProcess, seed: int) -> None:
    """One client. Raises AssertionError: the server did not take it well."""
    try:
        history = History(server.task.port, seed)
        if seed % 3:
            history.play_legal()
        else:
            history.play_wild()
        server.check()
    except (AssertionError, OSError) as fault:
        server.check()  # it says more
        raise AssertionError(f"history {seed}: {fault}") from fault


def fuzz(server: ServerProcess, first: int, seconds: float) -> int:
    """Histories from that seed on, some at once, until the time is over; how many."""
    ends_at, numbers, lock = time.monotonic() + seconds, iter(range(first, first + 10**9)), threading.Lock()
    faults: list[BaseException] = []
    played = [0]

    def work() -> None:
        while not faults:
            with lock:
                seed = next(numbers)
                played[0] += 1
            try:
                play(server, seed)
            except BaseException as fault:
                faults.append(fault)
            if time.monotonic() >= ends_at:
                return

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE if seconds else 1)]
    with served_meanwhile(server):
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    if faults:
        raise faults[0]
    return played[0]


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(10**9)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, fuzzed_server(Path(folder)) as server:
        print(f"{fuzz(server, seed, seconds)} histories", flush=True)


if __name__ == "__main__":
    main()
