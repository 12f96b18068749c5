"""How many files a process needs open: Kafka's clients take most of them, and without one more it can do nothing."""

from __future__ import annotations

from typing import Final

FILES_OF_PROCESS: Final = 128
"""Its modules, its store, its log, and what its clients for all queues have."""
FILES_PER_SOURCE: Final = 12
"""The files for a queue or a subscription that it receives from: a client of its own, with connections to three
brokers."""


def files_needed(sources: int, clients: int = 0) -> int:
    """For so many queues and subscriptions, and so many connections of AMQP clients."""
    return FILES_OF_PROCESS + FILES_PER_SOURCE * sources + clients


def too_few_files(limit: int, needed: int, about: str) -> str:
    """The line that says so; empty: there are enough. A limit below 0 is none."""
    if limit < 0 or limit >= needed:
        return ""
    return (
        f"this process may have {limit} files open, and {about} may take {needed}: raise the limit "
        f"(ulimit -n {needed}, LimitNOFILE={needed} of a systemd unit, --ulimit nofile={needed} of docker)"
    )
