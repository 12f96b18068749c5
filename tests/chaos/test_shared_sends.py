"""Connections of a process that share its producers, while the broker stands still, and when the process is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_topics import read_committed
from tests.support.topics import create_topic

pytestmark = pytest.mark.thorough

CONNECTIONS = 4
LATER_S = 15.0
"""Half of the time that a send has."""
MANY = 400


@pytest.mark.timeout(300)  # a send is given up after half a minute
def test_only_what_is_overdue_fails_and_what_was_confirmed_outlives_a_kill(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """SEND-1, SEND-4, UNIT-1: an overdue send fails its own connection's later ones; all units are in order."""
    broker = dedicated_broker()
    queue = create_topic(broker.bootstrap, "orders")  # of one partition: all connections' sends are behind one another
    command = [sys.executable, "-m", "tests.chaos.many_senders", broker.bootstrap, queue, str(CONNECTIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said: list[str] = []

        def tell(line: str) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()

        def hear(amount: int) -> set[str]:
            assert process.stdout is not None
            heard = [process.stdout.readline().strip() for _ in range(amount)]
            said.extend(heard)
            return set(heard)

        try:
            for number in range(CONNECTIONS):
                tell(f"{number} 10")
            assert hear(10 * CONNECTIONS) == {f"{n} {each} ok" for n in range(CONNECTIONS) for each in range(10)}
            broker.pause()
            tell("0 1")
            threading.Event().wait(LATER_S)  # the others are to be within their time when the first one's is up
            for number in range(CONNECTIONS):
                tell(f"{number} 2")
            assert hear(3) == {f"0 {each} SendTimeoutError" for each in (10, 11, 12)}
            broker.resume()
            others = {f"{number} {each} ok" for number in range(1, CONNECTIONS) for each in (10, 11)}
            assert hear(3 + len(others)) == others | {f"0 {each} ok" for each in (10, 11, 12)}
            tell("on")
            hear(MANY)
        finally:
            process.kill()
        said += [line.strip() for line in process.stdout if line.endswith("\n")]
    log = [(message.value() or b"").decode() for message in read_committed(broker.bootstrap, queue)]
    confirmed = {line.removesuffix(" ok") for line in said if line.endswith(" ok")}
    assert confirmed <= set(log)
    for unit in map(str, range(CONNECTIONS)):
        numbers = [int(body.split()[1]) for body in log if body.split()[0] == unit]
        expected = list(range(max(numbers) + 1))
        # What failed may have been written all the same, before any of it was sent again.
        assert list(dict.fromkeys(numbers)) == expected
        assert list(dict.fromkeys(reversed(numbers))) == expected[::-1]
        assert len(numbers) == len(expected) or unit == "0"
