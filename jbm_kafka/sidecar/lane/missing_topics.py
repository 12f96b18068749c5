"""What the log says of topics that are gone while somebody receives from them. docs/logging.md lists the lines.

A consumer whose topic was deleted hears nothing: its client asks for the topic again and again, and says no word.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set

log = logging.getLogger("jbm_kafka.partitions")


class MissingTopics:
    """The lines of one process; told of its looks, by the one who looks."""

    def __init__(self) -> None:
        self._suspected: Set[str] = frozenset()
        """Missing at the latest look. One alone says little: a broker that comes back may not know all yet."""
        self._told: dict[str, str] = {}
        """By topic: the destination that a line said is gone."""

    def looked(self, received: Mapping[str, str], *, present: Set[str], missing: Set[str]) -> None:
        """`received`: topics that somebody here receives from, each with its destination."""
        for topic in sorted(missing & self._suspected & received.keys() - self._told.keys()):
            self._told[topic] = received[topic]
            log.warning(
                "%s: its topic %s does not exist any more, and what it held is gone; who receives from it waits until "
                "it is made again",
                received[topic],
                topic,
            )
        self._suspected = missing
        for topic in sorted(present & self._told.keys()):
            # At the level of the loss: who logs warnings alone is to see that it is over.
            log.warning("%s: its topic %s exists again", self._told.pop(topic), topic)
