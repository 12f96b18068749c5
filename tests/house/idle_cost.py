"""How much of a processor's core an idle process takes: `python -m tests.house.idle_cost`, or `make idle`.

Three times over a Kafka in memory, so that nothing is counted but what jbm-kafka does by itself: a connection with one
consumer that waits; 1,000 sessions with a listener each; 1,000 sessions with a consumer that nobody receives from.
Each in a process of its own, which has been idle for a while when it is looked at.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from jbm_kafka import ConnectionFactory, Queue

SESSIONS = 1_000
CALM_S = 5.0
"""Until what was begun has ended: a consumer that nobody receives from is asked for its messages back after 3 s."""
LOOK_S = 10.0
QUEUE = Queue("orders")


def idle_process() -> None:
    """A connection whose one consumer has received a message, and waits for the next."""
    with ConnectionFactory("memory://idle").create_connection() as connection:
        session = connection.create_session()
        session.create_producer(QUEUE).send("once")
        consumer = session.create_consumer(QUEUE)
        assert consumer.receive(10) is not None
        threading.Thread(target=consumer.receive, daemon=True).start()
        report()


def listeners() -> None:
    """Sessions with a listener, to which nothing comes."""
    sessions(listen=True)


def consumers() -> None:
    """Sessions with a consumer that nobody asks for a message."""
    sessions(listen=False)


def sessions(*, listen: bool) -> None:
    with ConnectionFactory("memory://idle").create_connection() as connection:
        for _ in range(SESSIONS):
            consumer = connection.create_session().create_consumer(QUEUE)
            if listen:
                consumer.set_listener(print)
        report()


def report() -> None:
    """Print the percentage of a core that this process takes from now on."""
    pause = threading.Event()
    pause.wait(CALM_S)
    begun, processor = time.monotonic(), time.process_time()
    pause.wait(LOOK_S)
    print(100 * (time.process_time() - processor) / (time.monotonic() - begun))


KINDS = {
    "an idle memory:// process": idle_process,
    f"{SESSIONS:,} sessions with a listener": listeners,
    f"{SESSIONS:,} sessions with a consumer": consumers,
}


def main() -> None:
    """Measure one kind, or each in a process of its own."""
    if len(sys.argv) > 1:
        KINDS[sys.argv[1]]()
        return
    for kind in KINDS:
        command = [sys.executable, "-m", "tests.house.idle_cost", kind]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"{kind:>32}: {float(done.stdout):.2f} % of a core")


if __name__ == "__main__":
    main()
