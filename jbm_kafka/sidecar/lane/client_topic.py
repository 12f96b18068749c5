"""Which topic a group's client knows, and whether it needs a successor.

librdkafka (2.16) keeps the leader epochs of a topic that was deleted. When one of that name is made anew its epochs
begin at 0, and where a broker had restarted before, its leaders are taken for outdated news: nothing is read of it,
without a word (its issue 4898). A new client knows nothing of the old topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence


class ClientTopic:
    """Of the client that a group worker has now. The owner thread's."""

    def __init__(self) -> None:
        self.is_outdated = False
        """Its topic was made anew since it was made, or its group does not answer it."""
        self._topic_id = ""
        """Empty: it is not known yet."""
        self._delivered_below: dict[int, int] = {}
        """Of partitions that are read anew: how much of them receivers may have had."""

    def note_topic(self, topic_id: str) -> None:
        """The topic has this id now."""
        self.is_outdated = self.is_outdated or self._topic_id not in ("", topic_id)
        self._topic_id = topic_id

    def note_delivered(self, partition: int, below: int) -> None:
        """Receivers may have had what lies below; for who opens the partition with the next client."""
        self._delivered_below[partition] = below

    def replaced(self) -> None:
        """Another client follows."""
        self.is_outdated, self._topic_id = False, ""

    def take_delivered(self, partitions: Sequence[int]) -> dict[int | None, list[int]]:
        """The partitions, by how much receivers may have had of them; None: what their changelogs say."""
        found: defaultdict[int | None, list[int]] = defaultdict(list)
        for partition in partitions:
            found[self._delivered_below.pop(partition, None)].append(partition)
        if found:
            self._delivered_below.clear()  # others have the rest
        return found
