"""Connections of one process that send from a thread each: `python -m tests.chaos.many_senders BOOTSTRAP QUEUE COUNT`.

A line "CONNECTION N" on standard input has a connection send the next N numbers of its own unit, with callbacks; "on"
has all send one by one until they are killed. A line tells how each send ended. What failed is sent again, in order.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from functools import partial
from itertools import count

from jbm_kafka import Connection, ConnectionFactory, Message, Queue
from jbm_kafka.errors import JMSError

GO_ON = -1


def serve(number: int, connection: Connection, destination: Queue, todo: queue.Queue[tuple[str, int]]) -> None:
    producer = connection.create_session().create_producer(destination)
    next_number = count()

    def say(body: str, error: JMSError | None) -> None:
        os.write(1, f"{body} {type(error).__name__ if error else 'ok'}\n".encode())

    def ended(body: str, _: Message, error: JMSError | None) -> None:
        say(body, error)
        if error is not None:
            todo.put((body, 1))

    while True:
        again, amount = todo.get()
        if amount == GO_ON:
            break
        for _ in range(amount):
            body = again or f"{number} {next(next_number)}"
            producer.send(body, unit_of_order=str(number), on_completion=partial(ended, body))
    producer.flush()
    for each in next_number:
        body = f"{number} {each}"
        producer.send(body, unit_of_order=str(number))
        say(body, None)


def main(bootstrap: str, destination: str, amount: str) -> None:
    factory = ConnectionFactory(bootstrap)
    todo: list[queue.Queue[tuple[str, int]]] = []
    for number in range(int(amount)):
        todo.append(queue.Queue())
        arguments = (number, factory.create_connection(), Queue(destination), todo[-1])
        threading.Thread(target=serve, args=arguments, daemon=True).start()
    for line in sys.stdin:
        if line == "on\n":
            for each in todo:
                each.put(("", GO_ON))
        else:
            told, sends = map(int, line.split())
            todo[told].put(("", sends))


if __name__ == "__main__":
    main(*sys.argv[1:])
