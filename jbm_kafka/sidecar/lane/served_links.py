"""The links of a group worker, and what they are told when it cannot serve them. On its owner thread.

Where its topic is gone consumers that are open wait until it is made again: nobody would restart a worker for a topic
that is back a second later. One that is being made is refused, for its name may be wrong.
"""

from __future__ import annotations

from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.group_data import GroupData


class ServedLinks:
    """Those of one group worker."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._being_made: set[str] = set()
        """Links whose consumers wait for their first assignment."""
        self.is_failing = False
        """Its worker leaves as one that stops, and is one that runs until its links were told why."""
        self.failure: Exception | None = None
        """Why nothing is served any more; any thread may look."""
        self.lacks_topic = False
        """It was found gone, and no partition of it came since; any thread may look."""

    def attach(self, link: Link, *, is_open: bool) -> None:
        """One more; `is_open`: its consumer was made earlier."""
        self._data.links[link.terms.link_id] = link
        self._data.links_changed()
        if not is_open:
            self._being_made.add(link.terms.link_id)
        if self.failure is not None:
            link.notices.fail(self.failure)

    def detach(self, link_id: str) -> None:
        """One less."""
        del self._data.links[link_id]
        self._being_made.discard(link_id)
        self._data.links_changed()

    def look(self) -> None:
        """Once a turn: what waits for an assignment may have it."""
        # With partitions: a first assignment without any may be over before the consumer, which waits for it, looks.
        if self._being_made and self._data.channels and self._data.is_settled:
            self._being_made.clear()
        if self.lacks_topic and self._data.channels:
            self.lacks_topic = False

    def topic_gone(self, error: InvalidDestinationError) -> bool:
        """Refuse those that are being made; True when others are here, which wait."""
        self.lacks_topic = True
        links = self._data.links.values()
        waiting = [link for link in links if link.notices.is_open or link.terms.link_id not in self._being_made]
        if waiting:
            for link in links:
                if link not in waiting:
                    link.notices.fail(error)
        return bool(waiting)

    def fail(self, error: Exception) -> None:
        """Nothing will come any more, for anybody."""
        for link in list(self._data.links.values()):
            link.notices.fail(error)
