"""What a process is called in Kafka's lists of members, so that people find it: by its host and its id there, and by
the JMS client id of its connection, if that has one.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

_NAME: Final = re.compile(r"jbm-kafka@([^/]+)/([0-9]+)(?:/[^/]+)?")


def member_client_id(host: str, process_id: int, client_id: str = "") -> str:
    """The `client.id` of a member of a group: `jbm-kafka@worker-3/4711`, and `…/4711/billing` with a client id.

    Of that, what is no letter or digit of ASCII, `.`, `_`, `-` or `~` is escaped as in a URL.
    """
    name = f"jbm-kafka@{host.replace('/', '_') or '?'}/{process_id}"
    return f"{name}/{quote(client_id, safe='', errors='replace')}" if client_id else name


def process_name(host: object, process_id: object) -> str:
    """For people: `process 4711 at worker-3`."""
    return f"process {process_id} at {host}"


def named_process(client_id: str) -> str | None:
    """`process 4711 at worker-3`, where that is a `member_client_id`."""
    found = _NAME.fullmatch(client_id)
    return None if found is None else process_name(found[1], found[2])
