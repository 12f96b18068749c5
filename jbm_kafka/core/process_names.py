"""What a process is called in Kafka's lists of members, so that people find it: by its host and its id there."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"jbm-kafka@([^/]+)/([0-9]+)")


def member_client_id(host: str, process_id: int) -> str:
    """The `client.id` of a member of a group: `jbm-kafka@worker-3/4711`."""
    return f"jbm-kafka@{host.replace('/', '_') or '?'}/{process_id}"


def process_name(host: object, process_id: object) -> str:
    """For people: `process 4711 at worker-3`."""
    return f"process {process_id} at {host}"


def named_process(client_id: str) -> str | None:
    """`process 4711 at worker-3`, where that is a `member_client_id`."""
    found = _NAME.fullmatch(client_id)
    return None if found is None else process_name(found[1], found[2])
