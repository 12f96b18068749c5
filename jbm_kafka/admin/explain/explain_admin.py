"""Why messages do not move."""

from __future__ import annotations

import logging
from dataclasses import replace

from jbm_kafka.admin.cluster.admin_arguments import check_named
from jbm_kafka.admin.cluster.admin_core import AdminCore, Tell
from jbm_kafka.admin.explain.diagnosis import Diagnosis, Question
from jbm_kafka.admin.explain.explanation import Explanation
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.wrong_values import shown, wrong_value
from jbm_kafka.jms.base.arguments import check_callable, checked_seconds
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.registry.other_namespaces import namespaces_among

log = logging.getLogger(__name__)

EXPLAIN_TIMEOUT_S = 10.0


class ExplainAdmin:
    """Looks for what holds messages up. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def explain(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        *,
        unit: str | None,
        message_id: str | None,
        older_than_s: float,
        timeout_s: float,
        tell: Tell | None,
    ) -> Explanation:
        """Why what was asked about does not move."""
        older_than_s = checked_seconds("older_than_s", older_than_s)
        timeout_s = checked_seconds("timeout_s", timeout_s)
        check_callable("tell", tell)
        for name, text in (("unit", unit), ("message_id", message_id), ("subscription", subscription)):
            check_named(name, text)
        if unit is not None and message_id is not None:
            raise wrong_value("message_id", message_id, f"give one of unit and message_id: unit is {shown(unit)} here")
        with self._core.asking(f"explain {destination}"):
            source = self._core.source(destination, subscription, client_id)
            found = source if isinstance(source, Queue) else source.subscription.topic
            described = self._core.catalog.described(found)
            if described is None:
                raise self._core.catalog.missing(found)
            group = replace(self._core.group(source), partitions=described.partitions)
            self._core.registry.refresh()
            question = Question(unit, message_id, int(older_than_s * 1_000), timeout_s=timeout_s, tell=tell or log.info)
            places = self._core.registry.places.of(found.name, described.topic_id)
            pause = self._core.registry.pauses.of(found.name)
            explanation = Diagnosis(
                self._core, group, question, pause=pause, places=places or UnitPlaces(described.partitions)
            ).run()
            return replace(explanation, namespaces=self._others_of(found)) if isinstance(found, Queue) else explanation

    def _others_of(self, queue: Queue) -> tuple[str, ...]:
        """Other namespaces in which processes receive from it."""
        try:
            groups = self._core.admin.groups()
        except KafkaClientError as error:
            log.debug("%s: whether other namespaces receive from it is not known: %s", queue, error)
            return ()
        used = [name for name, each in groups.items() if not each.is_empty]
        return tuple(sorted(set(namespaces_among(queue, used)) - {self._core.namespace}))
