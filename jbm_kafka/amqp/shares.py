"""Whose is what a client uses, and how much of what all clients share is his."""

from __future__ import annotations

import threading
from collections import Counter
from ipaddress import IPv6Address, ip_address
from typing import Literal, NamedTuple

from jbm_kafka.amqp.access import ANONYMOUS

NETWORK_BITS = 64
"""The bits of an address of IPv6 that tell who it is: who has one has all that begin as it does."""


class Whose(NamedTuple):
    """Who has to answer for a client: its user, or of one that is nobody in particular its address."""

    kind: Literal["user", "address"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!a}"


def address_of(peer: object) -> Whose:
    """The address in what a socket says of its other end."""
    text = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return Whose("address", text)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return Whose("address", str(found.ipv4_mapped))
        network = int(found) >> (128 - NETWORK_BITS) << (128 - NETWORK_BITS)
        return Whose("address", f"{IPv6Address(network)}/{NETWORK_BITS}")
    return Whose("address", str(found))


def whose_client(user: str, address: Whose) -> Whose:
    """Who answers for a client that came in."""
    return address if user == ANONYMOUS else Whose("user", user)


class Shares:
    """Counts what clients hold, in all and of each: one that has his share leaves the rest to others. Any thread."""

    def __init__(self, most: int, most_of_user: int, most_of_address: int | None = None) -> None:
        """`most_of_address`: None: as of a user."""
        self.most = most
        self.most_of = {"user": most_of_user, "address": most_of_user if most_of_address is None else most_of_address}
        self.taken = 0
        self._taken_by: Counter[Whose] = Counter()
        self._lock = threading.Lock()

    def take(self, whose: Whose) -> str | None:
        """Take one, unless there are too many: the text says of whom, and how many he may have."""
        with self._lock:
            most = self.most_of[whose.kind]
            if self._taken_by[whose] >= most:
                return f"{most} of {whose}"
            if self.taken >= self.most:
                return f"{self.most} of all clients"
            self._taken_by[whose] += 1
            self.taken += 1
        return None

    def give_back(self, whose: Whose) -> None:
        """One that was taken is held no more."""
        with self._lock:
            self.taken -= 1
            self._taken_by[whose] -= 1
            if not self._taken_by[whose]:
                del self._taken_by[whose]
