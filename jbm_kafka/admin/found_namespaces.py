"""Which namespaces a cluster has, for somebody who looked into one with nothing in it, or into a queue of several."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jbm_kafka.admin.asking import Asking
from jbm_kafka.core.destination import Queue
from jbm_kafka.registry.other_namespaces import namespaces_among
from jbm_kafka.registry.own_topics import registry_topic


def namespaces_of(queue: Queue, groups: Collection[str]) -> Iterator[str]:
    """The namespaces in which a group receives from the queue, or did so lately."""
    return namespaces_among(queue, groups)


def namespaces_beside(admin: Asking) -> list[str]:
    """The others that somebody has used, by their registries' names.

    Empty, of those names: what has no namespace.
    """
    with admin._asking("look for namespaces"):
        end = registry_topic("")
        topics = [name for name in admin._admin.topic_names() if name == end or name.endswith(f".{end}")]
    return sorted({name.removesuffix(end).removesuffix(".") for name in topics} - {admin._namespace})
