"""The owner of a receiver link: what the session's side may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery


class LinkOwner(Protocol):
    """Any thread may call; what is asked is done soon, on a thread of the owner's."""

    @property
    def is_running(self) -> bool:
        """False after it ended, for whatever cause; the link needs another owner then."""

    @property
    def is_alive(self) -> bool:
        """It still carries out what it is asked, also while it ends."""

    @property
    def has_joined(self) -> bool:
        """It knows which part of the messages is its own, if any."""

    @property
    def is_settled(self) -> bool:
        """It has joined, and everything that it got is open."""

    @property
    def opened(self) -> int:
        """How many parts of the messages it has opened so far: with another one, more may be there."""

    @property
    def is_passing_on(self) -> bool:
        """It gave some up a moment ago, or does so now: they may be nobody's yet."""

    def wake(self) -> None:
        """A link wants messages, or says something of those it has."""

    def serve_alone(self, link_id: str, count: int) -> None:
        """Give a link that has siblings so many messages, after what those have unread has gone back."""

    def take_back(self, link_id: str) -> None:
        """Take back what a link has unread, uncounted."""

    def record_attempt(self, delivery: Delivery, done: Completion) -> None:
        """Complete when it is durable that the application gets this message; never when it goes back before."""

    def watch(self, link_id: str, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when every partition was read up to its position and the link has got what it asked for."""

    def detach(self, link_id: str) -> None:
        """Serve the link no longer. What its buffer still holds goes back uncounted."""
