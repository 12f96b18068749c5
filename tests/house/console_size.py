"""Measures how long each view of the console takes at size: `python -m tests.house.console_size`, `make console-size`.

A local Kafka of its own has 300 queues, one of them with 1,000,000 messages, and dead letters. 50 browsers look at
every view at once, each at one after the other, and those that hear how far it is ask again as the page does. Prints of
each view how long an answer took mostly and at most, and how long it was until the view was there; the exit code is 1
where one answer took more than 2 s. `--messages`, `--queues`, `--browsers`: other sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import NamedTuple

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.console.frame.view import API
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.ports import free_port
from tests.support.waiting import wait_until

LIMIT_S = 2.0
OK, UNDER_WAY = 200, 202
BIG, LETTERS = Queue("big"), Queue("DLQ")
LETTERS_COUNT = 1_000
ASKS_AGAIN_S = 1.0
LOOKED_WITHIN_S = 600.0
"""The overview has nothing before the follower's first step, which reads all that is held."""
PAGES: Mapping[str, str] = {
    "overview": "/",
    "queue": "/queues/big",
    "why": "/queues/big/why",
    "why of a unit": "/queues/big/why?unit=u7",
    "units": "/queues/big/units",
    "partitions": "/queues/big/partitions",
    "settings": "/queues/big/settings",
    "history": f"{API}/queues/big/history",
    "messages": "/queues/big/messages",
    "messages by selector": "/queues/big/messages?selector=region%20%3D%20%27none%27",
    "message": "/queues/big/message?at=0.5",
    "life": "/queues/big/life?at=0.5",
    "scheduled": "/queues/big/scheduled",
    "letters by error": "/queues/DLQ/letters",
    "letter queues": "/letters",
    "topics": "/topics",
    "subscriptions": "/subscriptions",
    "transactions": "/transactions",
    "readers": "/readers",
    "bridges": "/bridges",
    "health": "/checkup",
    "actions": "/runs",
}


class Looked(NamedTuple):
    """A view that came to be there, by one answer or several."""

    view: str
    longest_s: float
    """Of any answer."""
    whole_s: float
    """Until the view was there."""
    status: int


def fill(bootstrap: str, messages: int, queues: int) -> None:
    """Make the queues; the big one gets the messages, of 10,000 units, and the dead-letter queue some letters."""
    rules = {"#": AddressSettings(max_delivery_attempts=1, partitions=4)}
    with Admin(bootstrap) as admin, ConnectionFactory(bootstrap, address_settings=rules).create_connection() as made:
        made_of = {BIG: 4, LETTERS: 4} | {Queue(f"q{at:03}"): 1 for at in range(queues - 2)}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda each: admin.create_queue(each[0], partitions=each[1]), made_of.items()))
        with made.create_sender() as sender:
            for at in range(min(LETTERS_COUNT, messages)):
                sender.send(BIG, f"letter {at}", unit_of_order=f"u{at}", properties={"region": "EU"})
        while True:
            moved = admin.send_to_dead_letter(BIG, everything=True, dead_letter_address="DLQ")
            if not moved.kept:
                break
        with made.create_sender() as sender:
            for at in range(messages):
                sender.send(BIG, f"message {at}", unit_of_order=f"u{at % 10_000}", properties={"region": "EU"})


def look(port: int, browsers: int) -> list[Looked]:
    """What each browser got, each beginning with another view."""
    found: list[Looked] = []
    paths = list(PAGES.items())

    def browse(number: int) -> None:
        with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            for view, path in paths[number % len(paths) :] + paths[: number % len(paths)]:
                found.append(_looked(connection, view, path))

    threads = [threading.Thread(target=browse, args=(number,)) for number in range(browsers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def _looked(connection: HTTPConnection, view: str, path: str) -> Looked:
    begun_s, longest_s = time.monotonic(), 0.0
    while True:
        asked_s = time.monotonic()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        longest_s = max(longest_s, time.monotonic() - asked_s)
        if answer.status != UNDER_WAY:
            return Looked(view, longest_s, time.monotonic() - begun_s, answer.status)
        threading.Event().wait(ASKS_AGAIN_S)  # as the page does


def wait_for_overview(port: int) -> float:
    """How long the console has nothing to show at first."""
    began_s = time.monotonic()
    with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        while time.monotonic() - began_s < LOOKED_WITHIN_S:
            connection.request("GET", f"{API}/")
            if json.loads(connection.getresponse().read()).get("rows"):
                break
    return time.monotonic() - began_s


def report(found: Sequence[Looked]) -> bool:
    """Print a line for each view; True: each is as it should be."""
    is_well = True
    print(f"{'view':24}{'median s':>10}{'longest s':>11}{'there, median s':>17}{'at most s':>11}")
    for view in PAGES:
        mine = [each for each in found if each.view == view]
        wrong = [each for each in mine if each.status != OK or each.longest_s > LIMIT_S]
        is_well = is_well and not wrong
        longest, whole = [each.longest_s for each in mine], [each.whole_s for each in mine]
        note = (
            f"  {len(wrong)} of {len(mine)} too long or refused: {sorted({e.status for e in wrong})}" if wrong else ""
        )
        print(f"{view:24}{median(longest):10.2f}{max(longest):11.2f}{median(whole):17.2f}{max(whole):11.2f}{note}")
    return is_well


def measured(port: int, browsers: int) -> bool:
    """Look at the console there; True: each view is as it should be."""
    print(f"the overview has something after {wait_for_overview(port):.1f} s", flush=True)
    return report(look(port, browsers))


@contextmanager
def console_process(bootstrap: str) -> Iterator[int]:
    """A console as users start it; browsers do not share its interpreter. Its port."""
    port = free_port()
    command = [sys.executable, "-m", "jbm_kafka", "console", "--bootstrap", bootstrap, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command) as process:
        try:
            wait_until(lambda: _answers(port), about="the console answers", timeout_s=60)
            yield port
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection, suppress(OSError):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == OK
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill a cluster, look, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=300)
    parser.add_argument("--browsers", type=int, default=50)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder)) as broker:
        began_s = time.monotonic()
        fill(broker.bootstrap, given.messages, given.queues)
        told = f"{given.messages} messages, {given.queues} queues: filled in {time.monotonic() - began_s:.0f} s"
        print(f"{told}; load {os.getloadavg()[0]:.0f}", flush=True)
        with console_process(broker.bootstrap) as port:
            is_well = measured(port, given.browsers)
        print(f"load {os.getloadavg()[0]:.0f}")
        return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
