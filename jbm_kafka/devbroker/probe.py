"""Asks a broker whether it is there. Only a broker that answers a metadata request counts."""

import socket
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jbm_kafka.devbroker.asking_again import wait_until

PROBE_INTERVAL_S = 0.1


def anybody_answers(bootstrap: str, timeout_s: float = 5.0) -> bool:
    """True when one of several brokers, named with commas between, answers within the time."""
    return any(answers(address, timeout_s=timeout_s) for address in bootstrap.removeprefix("kafka://").split(","))


def anybody_listens(bootstrap: str, timeout_s: float = 5.0) -> bool:
    """True when one of several addresses, named with commas between, takes a connection; takes microseconds."""
    return any(_listens(address, timeout_s=timeout_s) for address in bootstrap.split(","))


def _listens(address: str, *, timeout_s: float) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except (OSError, UnicodeError):  # the latter: a name no name server would be asked for
        return False
    return True


def answers(bootstrap: str, timeout_s: float = 2.0) -> bool:
    """True when the broker answers a metadata request within the time."""
    # A closed port is seen in microseconds here; librdkafka would retry until the timeout and log each try.
    if not _listens(bootstrap, timeout_s=timeout_s):
        return False
    try:
        # Level 0 keeps librdkafka from writing its connection trouble to the user's terminal.
        metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return bool(metadata.brokers)


def wait_answers(bootstrap: str, *, timeout_s: float, is_alive: Callable[[], bool] = lambda: True) -> bool:
    """True once the broker answers; False when the time is up or it is no longer alive."""
    is_up = False

    def is_decided() -> bool:
        nonlocal is_up
        is_up = answers(bootstrap)
        return is_up or not is_alive()

    wait_until(is_decided, timeout_s=timeout_s, poll_s=PROBE_INTERVAL_S)
    return is_up
