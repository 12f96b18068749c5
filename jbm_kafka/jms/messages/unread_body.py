"""A large body that nobody has looked at: a browser that chooses by properties fetches none (BODY-5)."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.codec.bodies import Body


class UnreadBody:
    """Stands in a message in place of its body, which is fetched when it is asked for."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Body]) -> None:
        self.read = read
        """Fetches it. Raises LargeBodyError, each time: the store may be there again later."""
