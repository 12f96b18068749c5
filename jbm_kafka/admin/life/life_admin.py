"""One message's life, asked for by place or by id."""

from __future__ import annotations

from contextlib import closing

from jbm_kafka.admin.cluster.admin_arguments import check_named, check_subscription
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.life.life_look import LifeLook
from jbm_kafka.admin.life.message_life import MessageLife
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.wrong_values import checked_int, wrong_value


class LifeAdmin:
    """Looks up what became of a message. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def life(
        self,
        destination: Queue | Topic | str,
        message_id: str | None,
        place: tuple[int, int] | None,
        subscription: str | None,
        client_id: str,
    ) -> MessageLife:
        """All that the topics tell of one message."""
        check_named("message_id", message_id)
        check_subscription(subscription)
        if (message_id is None) == (place is None):
            raise wrong_value(
                "message_id", message_id, "give either message_id or place, a pair of partition and offset"
            )
        if place is not None:
            partition, offset = place
            checked_int("place", partition, 0, None, "partitions")
            checked_int("place", offset, 0, None, "offsets")
        with self._core.asking(f"look up a message of {destination}"), closing(self._core.kafka.log_reader()) as reader:
            found, only = self._core.catalog.named(destination), None
            if subscription is not None:
                record = self._core.source(found, subscription, client_id)
                only = None if isinstance(record, Queue) else record.subscription.full_name
            look = LifeLook(self._core, reader)
            if place is not None:
                return look.at(found, *place, only)
            assert message_id is not None, place
            return look.of_id(found, message_id, only)
