"""Others that receive from the same queue in another namespace: each namespace gets every message.

A process started in a wrong namespace gets all that is sent, beside those that should, and no other log line shows it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

from jbm_kafka.core.destination import Queue
from jbm_kafka.ports import Kafka, KafkaClientError
from jbm_kafka.registry.channel_group import ChannelGroup

log = logging.getLogger("jbm_kafka.partitions")


def namespaces_among(queue: Queue, groups: Collection[str]) -> Iterator[str]:
    """Yield those of which one of these consumer groups receives from the queue."""
    end = queue.group_id()
    for group in groups:
        if group == end or group.endswith(f".{end}"):
            yield group.removesuffix(end).removesuffix(".")


class OtherNamespaces:
    """Looks once for each group of this process for receivers in other namespaces. The recovery's threads call it."""

    def __init__(self, kafka: Kafka, namespace: str) -> None:
        self._kafka = kafka
        self._namespace = namespace
        self._looked: set[str] = set()

    def look(self, group: ChannelGroup) -> None:
        """Warn of those that receive now. One question; without an answer nothing is logged."""
        queue = group.destination
        if group.is_temporary or not isinstance(queue, Queue) or group.group_id in self._looked:
            return
        self._looked.add(group.group_id)
        admin = self._kafka.admin()
        try:
            used = [each.name for each in admin.groups().values() if not each.is_empty]
        except KafkaClientError as error:
            log.debug("%s: whether other namespaces receive from it is not known: %s", group, error)
            return
        finally:
            admin.close()
        others = sorted(set(namespaces_among(queue, used)) - {self._namespace})
        if others:
            log.warning(
                "%s: this process receives in %s, and others receive from the same topic in %s: each of them gets "
                "every message. If that is not meant, correct the namespace of one of them",
                group,
                _shown(self._namespace),
                ", ".join(map(_shown, others)),
            )


def _shown(namespace: str) -> str:
    return f"namespace {namespace!r}" if namespace else "no namespace"
