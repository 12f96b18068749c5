"""What `persist_delivery_count_before_delivery` costs: messages a second with it and without.

`python -m tests.chaos.attempt_costs` prints them, on a local Kafka of its own. One process in AUTO; the time runs from
a run's first message to its last.
"""

import tempfile
import threading
import time
from pathlib import Path

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.connection import Connection

PARTITIONS = 8
WARM_UP = 200
"""Messages of each session before its time begins."""
SESSIONS = (1, 16)
EACH = {False: 5_000, True: 300}
"""How many messages a session gets, without the option and with it."""
LAST_S = 60.0


def messages_a_second(bootstrap: str, sessions: int, *, records_attempts: bool) -> float:
    """Of all sessions together."""
    queue = Queue(f"costs-{sessions}-{records_attempts}")
    count, factory = (
        EACH[records_attempts] + WARM_UP,
        ConnectionFactory(
            bootstrap,
            address_settings={"#": AddressSettings(partitions=PARTITIONS)},
            persist_delivery_count_before_delivery=records_attempts,
        ),
    )
    with factory.create_connection() as connection:
        with connection.create_session() as sender:
            producer = sender.create_producer(queue)
            for number in range(count * sessions):
                producer.send(str(number), on_completion=lambda message, error: None)
        connection.start()
        begin = threading.Barrier(sessions + 1)
        threads = [threading.Thread(target=_receive, args=(connection, queue, count, begin)) for _ in range(sessions)]
        for thread in threads:
            thread.start()
        begin.wait(LAST_S)
        begun_s = time.monotonic()
        for thread in threads:
            thread.join()
        return EACH[records_attempts] * sessions / (time.monotonic() - begun_s)


def _receive(connection: Connection, queue: Queue, count: int, begin: threading.Barrier) -> None:
    with connection.create_session(AcknowledgeMode.AUTO) as session:
        consumer = session.create_consumer(queue)
        for number in range(count):
            if number == WARM_UP:
                begin.wait(LAST_S)
            assert consumer.receive(LAST_S) is not None, number


def main() -> None:
    """Print a row for each number of sessions."""
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder)) as broker:
        for sessions in SESSIONS:
            off, on = (
                messages_a_second(broker.bootstrap, sessions, records_attempts=records) for records in (False, True)
            )
            print(f"{sessions} sessions: {off:,.0f} messages/s without, {on:,.0f} with", flush=True)


if __name__ == "__main__":
    main()
