"""Why messages do not move."""

from __future__ import annotations

import logging
from dataclasses import replace

from jbm_kafka.admin.asked import check_named
from jbm_kafka.admin.asking import Asking
from jbm_kafka.admin.explained_question import Asked, Sources
from jbm_kafka.admin.explained_source import group_of
from jbm_kafka.admin.explaining import explain
from jbm_kafka.admin.explanation import Explanation
from jbm_kafka.admin.found_namespaces import namespaces_of
from jbm_kafka.admin.partition_admission import Tell
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.core.wrong_values import shown, wrong_value
from jbm_kafka.jms.arguments import check_callable, checked_seconds
from jbm_kafka.ports import KafkaClientError

log = logging.getLogger(__name__)

EXPLAIN_TIMEOUT_S = 10.0


class ExplainingAdmin(Asking):
    """Looks for what holds messages up. Any thread."""

    def explain(
        self,
        destination: Queue | Topic | str,
        *,
        unit: str | None = None,
        message_id: str | None = None,
        subscription: str | None = None,
        client_id: str = "",
        older_than_s: float = 0.0,
        timeout_s: float = EXPLAIN_TIMEOUT_S,
        tell: Tell | None = None,
    ) -> Explanation:
        """Why this unit, this message, or what waits longest does not move: who has it, since when, by which rule.

        Nothing is changed. Who has the partitions is asked; of those who do not answer what topic, changelog and group
        tell is told. Of `unit` and `message_id` one at most is given.

        Args:
            subscription: of a topic, the name of the one that is meant, with its `client_id`.
            older_than_s: only what was sent before so many seconds.
            timeout_s: how long the processes that receive may take to answer.
            tell: is called with a line that says who is waited for, where that takes long; None: it is logged.

        Raises:
            InvalidDestinationError: there is no such queue, topic or subscription.
            InvalidSettingError: both a unit and a message are given.
        """
        older_than_s = checked_seconds("older_than_s", older_than_s)
        timeout_s = checked_seconds("timeout_s", timeout_s)
        check_callable("tell", tell)
        _check_asked(unit=unit, message_id=message_id, subscription=subscription)
        with self._asking(f"explain {destination}"):
            found = self._found.named(destination)
            described = self._found.described(found)
            if described is None:
                raise self._found.missing(found)
            group = group_of(
                found, described, self._registry.log, namespace=self._namespace, subscription=subscription,
                client_id=client_id,
            )  # fmt: skip
            sources = Sources(
                kafka=self._kafka,
                admin=self._admin,
                namespace=self._namespace,
                bootstrap=self._connections.url,
                now_ms=self._cluster.clock.now_ms,
                timeout_s=timeout_s,
                tell=tell or log.info,
            )
            told = explain(
                group,
                Asked(unit, message_id, older_than_ms=int(older_than_s * 1_000)),
                sources,
                pause=self._registry.pauses.of(found.name),
                places=self._registry.places.of(found.name, described.topic_id) or UnitPlaces(described.partitions),
            )
            return replace(told, namespaces=self._others_of(found)) if isinstance(found, Queue) else told

    def _others_of(self, queue: Queue) -> tuple[str, ...]:
        try:
            groups = self._admin.groups()
        except KafkaClientError as error:
            log.debug("%s: whether other namespaces receive from it is not known: %s", queue, error)
            return ()
        used = [name for name, each in groups.items() if not each.is_empty]
        return tuple(sorted(set(namespaces_of(queue, used)) - {self._namespace}))


def _check_asked(**texts: str | None) -> None:
    """Raises InvalidTypeError or InvalidSettingError for what cannot be asked about."""
    for name, text in texts.items():
        check_named(name, text)
    unit, message_id = texts["unit"], texts["message_id"]
    if unit is not None and message_id is not None:
        raise wrong_value("message_id", message_id, f"give one of unit and message_id: unit is {shown(unit)} here")
