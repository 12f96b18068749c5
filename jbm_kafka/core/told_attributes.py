"""What is told of an attribute that a class does not have, where a name that it has would not do, or would mislead."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_IS_MEANT = "; {!r} is meant, probably"
_OPEN = ("is_alive", "is_connected", "is_open", "open")
"""What people ask for who mean the opposite of `is_closed`."""
_LETTERS = _IS_MEANT.format("retry_dead_letters")
_OF_ADMINS: Mapping[str, str] = {
    **dict.fromkeys(("messages", "peek", "look"), _IS_MEANT.format("browse")),
    **dict.fromkeys(("list", "list_destinations", "ls"), _IS_MEANT.format("destinations")),
    **dict.fromkeys(("info", "size", "status"), _IS_MEANT.format("counts")),
    **dict.fromkeys(("clear", "empty", "truncate"), _IS_MEANT.format("remove")),
    **dict.fromkeys(("drop", "drop_topic"), _IS_MEANT.format("delete_destination")),
    **dict.fromkeys(("redeliver", "replay", "requeue", "requeue_dead_letters", "replay_dead_letters"), _LETTERS),
    "is_paused": "; paused(…) tells: its result is true when anything is paused",
    "is_resumed": "; paused(…) tells: its result is false when nothing is paused",
}
_ADMINS = ("admin", "create_admin", "get_admin")
_ADMIN = dict.fromkeys(_ADMINS, "; an Admin is made of the address: Admin('host:port'), from jbm_kafka.admin")
_OF_SESSIONS: Mapping[str, str] = {
    **dict.fromkeys(("browse", "browser"), _IS_MEANT.format("create_browser")),
    **dict.fromkeys(("prefetch", "default_prefetch"), "; it is set by a call: set_default_prefetch(…)"),
    **_ADMIN,
    "queue": _IS_MEANT.format("create_queue"),
    "topic": _IS_MEANT.format("create_topic"),
}
_ITS_MESSAGES = "; 'messages' has them, and len(report.messages) is how many"
_ITS_LETTERS = "; 'letters' has them, and 'sent' is how many were sent"
_OF_TRANSACTIONS = (
    "; the end of the block does it, in `with session.transaction():`; without a block write session.commit() and "
    "session.rollback()"
)
_OF_CLASSES: Mapping[str, Mapping[str, str]] = {
    "Admin": _OF_ADMINS,
    "Connection": _ADMIN,
    "ConnectionFactory": _ADMIN,
    "Context": _OF_SESSIONS,
    "MemoryWorld": dict.fromkeys(_ADMINS, "; write Admin(world.url), with Admin from jbm_kafka.admin"),
    "MessagesReport": dict.fromkeys(
        ("count", "deleted", "expired", "moved", "removed", "sent", "size", "total"), _ITS_MESSAGES
    ),
    "Pause": {
        "consumer": _IS_MEANT.format("consumption"),
        "producer": _IS_MEANT.format("production"),
        "receiving": _IS_MEANT.format("consumption"),
        "sending": _IS_MEANT.format("production"),
    },
    "QueueCounts": {"receivers": _IS_MEANT.format("members")},
    "RetryReport": dict.fromkeys(
        ("count", "messages", "moved", "removed", "retried", "size", "total"), _ITS_LETTERS
    ),
    "Session": _OF_SESSIONS,
    "Transaction": dict.fromkeys(("abort", "begin", "commit", "end", "rollback", "start"), _OF_TRANSACTIONS),
}  # fmt: skip
"""By the name of the class, then by what is asked for."""


def told_attribute(kinds: Collection[str], written: str, known: Collection[str]) -> str | None:
    """What is said to who asks for it; None: nothing of its own. `kinds`: the names of the owner's classes."""
    if written in _OPEN and "is_closed" in known and written not in known:
        return "; is_closed tells the opposite, so write `not ….is_closed`"
    return next((told for kind in kinds if (told := _OF_CLASSES.get(kind, {}).get(written)) is not None), None)
