"""Chooses the TCP ports a local broker listens on."""

import random
import socket

PORTS = range(21_000, 32_000)
"""Below the range that Linux gives to outgoing connections: while a broker is down, a client that keeps connecting to a
port of that range sooner or later gets it as its own end, talks to itself, and the broker cannot come back."""

TRIES = 200


def is_free(port: int) -> bool:
    """True when a server could listen on `port` of this host now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(*, besides: int | None = None) -> int:
    """A port nobody listens on, nor is about to: `besides`. Somebody may still take it before the caller does."""
    for port in random.sample(PORTS, TRIES):
        if port != besides and is_free(port):
            return port
    raise OSError(f"{TRIES} ports between {PORTS.start} and {PORTS.stop - 1} were tried and all are in use")
