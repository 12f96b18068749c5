"""Who has a message of a channel in hand, and what follows from the kind of holder.

A holder is named by a SessionId. Receivers' sessions have the names that their connections gave them; the others have
names in angle brackets, which no session has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from jbm_kafka.core.channel.reference import DEPARTING, Reference, SessionId

_BRANCH: Final = "<branch "

Hands = Mapping[SessionId, Mapping[int, Reference]]
"""The messages of each holder, by offset."""


class HolderKind(Enum):
    """The value is for people."""

    SESSION = "session"
    """A receiver's session of this process. It lives here, and may still say what becomes of its messages."""
    DEPARTURE = "departure"
    """The sidecar itself, which moves the message out of the channel."""
    BRANCH = "branch"
    """A prepared branch of a transaction of several systems: it is recorded, and ends when its manager says so."""

    @property
    def has_receiver(self) -> bool:
        """A receiver has the message; else nobody has, and it is on its way out."""
        return self is not HolderKind.DEPARTURE

    @property
    def keeps_membership(self) -> bool:
        """While it has something, the process stays in the group."""
        return self is not HolderKind.BRANCH

    @property
    def is_waited_for(self) -> bool:
        """A rebalance waits until it has nothing more."""
        return self is not HolderKind.BRANCH

    @property
    def returns_when_lost(self) -> bool:
        """Its messages come again when the channel is given up, or the holder is gone."""
        return self is HolderKind.SESSION


def branch_holder(branch_id: str) -> SessionId:
    """The name of a prepared branch as a holder."""
    return f"{_BRANCH}{branch_id}>"


def branch_of(holder: SessionId) -> str | None:
    """The id of the branch; None: it is no branch."""
    return holder[len(_BRANCH) : -1] if holder.startswith(_BRANCH) else None


def kind_of(holder: SessionId) -> HolderKind:
    """Return what kind of holder has this name."""
    if holder == DEPARTING:
        return HolderKind.DEPARTURE
    return HolderKind.BRANCH if holder.startswith(_BRANCH) else HolderKind.SESSION


def with_receivers(hands: Hands) -> Iterator[tuple[SessionId, Mapping[int, Reference]]]:
    """The hands of sessions and branches: what is DELIVERED."""
    return ((holder, hand) for holder, hand in hands.items() if kind_of(holder).has_receiver)


def returning(hands: Hands) -> Iterator[tuple[SessionId, Mapping[int, Reference]]]:
    """The hands whose messages come again when the channel is given up."""
    return ((holder, hand) for holder, hand in hands.items() if kind_of(holder).returns_when_lost)


def is_waited_for(hands: Hands) -> bool:
    """Something is in a hand that a rebalance waits for."""
    return any(hand and kind_of(holder).is_waited_for for holder, hand in hands.items())


def keeps_membership(hands: Hands) -> bool:
    """Something is in a hand that keeps the process in the group."""
    return any(hand and kind_of(holder).keeps_membership for holder, hand in hands.items())
