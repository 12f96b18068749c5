"""Names of hosts that have no address, as distinct from hosts where nobody answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable

BOOTSTRAP_REMEDY = "check the host in url (bootstrap of the commands), or this machine's names (DNS, /etc/hosts)"
ADVERTISED_REMEDY = (
    "it is a broker's own name for itself: set its advertised.listeners to what clients can reach, or make the name "
    "known on this machine (DNS, /etc/hosts)"
)
_AGAIN = "Temporary failure"
"""The beginning of what the system says where no server of names answered: the name may be right."""


def name_fault(host: str, why: str) -> str:
    """Return what is said of a host that could not be looked up; `why` is the system's word for it."""
    if why.startswith(_AGAIN):
        return f"the name {host} could not be looked up ({why})"
    return f"the name {host} is unknown"


def looked_up(host: str, port: int) -> list[tuple[int, object]] | str:
    """Family and address of each interface of the host, or why it has no address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return name_fault(host, getattr(error, "strerror", None) or str(error))
    return [(int(family), place) for family, _, _, _, place in found]


def unknown_hosts(hosts: Iterable[str], *, within_s: float) -> dict[str, str]:
    """The hosts that have no address, with the reason. A look-up that takes longer does not count."""
    faults: dict[str, str] = {}

    def look(host: str) -> None:
        found = looked_up(host, 0)
        if isinstance(found, str):
            faults[host] = found

    # Daemons: to ask for a name may take long, and nobody waits for it.
    threads = [threading.Thread(target=look, args=(host,), name="jbm-host-name", daemon=True) for host in set(hosts)]
    for thread in threads:
        thread.start()
    ends_at_s = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, ends_at_s - time.monotonic()))
    return dict(faults)
