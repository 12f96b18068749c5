"""PRE and NO: a message is over before the application is done with it (ACK-4, ACK-5)."""

from __future__ import annotations

import logging

from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from jbm_kafka.ports.refusals import notify_refused

log = logging.getLogger(__name__)


class PreAcknowledge(AcknowledgeStrategy):
    """Its links acknowledge what arrives in them; nothing is left to be said."""

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        return self

    def let_go_closed(self) -> None:
        for link in self._session.links.all:
            if link.is_closed:
                _drop(link)
        super().let_go_closed()

    def close(self) -> None:
        for link in self._session.links.all:
            _drop(link)


class NoAcknowledge(AcknowledgeStrategy):
    """Whatever the application gets is over."""

    def __init__(self, session: SessionCore) -> None:
        super().__init__(session)
        self._ended: Delivery | None = None
        """The last one: Ctrl-C may put it back into the buffer, and then it is handed over again."""

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        """Acknowledge the message, for the application has it; the exception listener hears if that is too late."""
        if delivery is not self._ended:
            self._ended = delivery
            late = delivery.lease.acknowledge(delivery.offset)
            if late:  # its partition is gone: others get it too
                notify_refused(delivery.lease, late)
        return self


def _drop(link: Link) -> None:
    """Nobody gets what is unread: it is acknowledged, so nobody else will either."""
    assert isinstance(link, PreAcknowledgedLink), link
    unread = link.drop()
    if unread:
        topic = unread[0].lease.channel.topic
        log.warning(
            "%s: a consumer in PRE closed with %d messages unread; they were acknowledged on arrival and are gone. "
            "A smaller prefetch leaves fewer",
            topic,
            len(unread),
        )
