"""In which namespaces a queue is received from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jbm_kafka.core.destination import Queue
from jbm_kafka.registry.other_namespaces import namespaces_among


def namespaces_of(queue: Queue, groups: Collection[str]) -> Iterator[str]:
    """The namespaces in which a group receives from the queue, or did so lately."""
    return namespaces_among(queue, groups)
