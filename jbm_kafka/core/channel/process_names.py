"""The name of a process in Kafka's lists of members, so that people find it: made of its host and its id there, and the
JMS client id of its connection, if that has one. The name also tells other processes what this one can read."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from jbm_kafka.core.channel.entries import LATER_KINDS

_NAME: Final = re.compile(r"jbm-kafka@([^/]+)/([0-9]+)((?:\+[a-z]+)*)(?:/[^/]+)?")

_SHOWN: Final = re.compile(r"process ([0-9]+) at (\S+)|([^/\s]+)/([0-9]+)")


def member_client_id(host: str, process_id: int, client_id: str = "") -> str:
    """The `client.id` of a member of a group: `jbm-kafka@worker-3/4711+prepared`, and `…/billing` with a client id.

    `+prepared` and the like are the later kinds of changelog entries that the process reads. Of the client id,
    what is no letter or digit of ASCII, `.`, `_`, `-` or `~` is escaped as in a URL.
    """
    name = f"jbm-kafka@{host.replace('/', '_') or '?'}/{process_id}{''.join(f'+{kind}' for kind in LATER_KINDS)}"
    return f"{name}/{quote(client_id, safe='', errors='replace')}" if client_id else name


def process_name(host: object, process_id: object) -> str:
    """For people: `process 4711 at worker-3`."""
    return f"process {process_id} at {host}"


def host_and_id(name: str) -> tuple[str, int] | None:
    """Those of `process 4711 at worker-3`, or of `worker-3/4711`; None: it is neither."""
    found = _SHOWN.fullmatch(name.strip())
    if found is None:
        return None
    return (found[2], int(found[1])) if found[1] else (found[3], int(found[4]))


def named_process(client_id: str) -> str | None:
    """`process 4711 at worker-3`, where that is a `member_client_id`."""
    found = _NAME.fullmatch(client_id)
    return None if found is None else process_name(found[1], found[2])


def kinds_read_by(client_id: str) -> frozenset[str] | None:
    """The later kinds of changelog entries that a member reads; None: its `client.id` is its user's."""
    found = _NAME.fullmatch(client_id)
    return None if found is None else frozenset(found[3].split("+")[1:])
