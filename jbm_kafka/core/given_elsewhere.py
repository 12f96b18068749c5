"""What people give to a call that has no such argument, because it is given in another form, or to another call."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from jbm_kafka.core.wrong_values import shown

_OF_CLIENT = ("security.", "sasl.", "ssl.")
"""How the properties of Kafka's client begin that everybody needs who has a secured cluster."""
_CLIENT_WORDS: Mapping[str, str] = {
    "password": "sasl.password",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "user": "sasl.username",
    "user_name": "sasl.username",
    "username": "sasl.username",
}
"""Other clients' names of them."""
_SHOWN = ("security.protocol", "sasl.mechanism")
"""Those whose value is no secret for sure."""
_ADDRESS = "the address is host and port in one, as in 'localhost:9092'"
_OF_CONSUMER: Mapping[str, str] = {
    **dict.fromkeys(
        ("ack_mode", "acknowledge_mode", "auto_ack", "no_ack"),
        "the session has a mode, create_session(AcknowledgeMode.CLIENT), and a context",
    ),
    **dict.fromkeys(
        ("callback", "listener", "message_listener", "on_message"), "the consumer takes it, set_listener(…)"
    ),
    **dict.fromkeys(
        ("group", "group_id"),
        "all consumers of a queue share it; of a topic those do that create_shared_consumer(topic, 'name') makes",
    ),
}
_OF_SESSION = "a session has the mode, create_session(AcknowledgeMode.CLIENT), and a context"
_OF_CONNECTING: Mapping[str, str] = dict.fromkeys(
    ("ack_mode", "acknowledge_mode", "auto_ack", "no_ack", "session_mode", "transacted"), _OF_SESSION
)
_COUNTS = ("count", "limit", "max_count", "max_messages")
_ORIGIN = "origin is the queue that the letters left, and queue the one that they are in"
_OF_CALLS: Mapping[str, Mapping[str, str]] = {
    "ConnectionFactory": _OF_CONNECTING,
    "browse": dict.fromkeys(_COUNTS, "it gives one after the other; take so many: itertools.islice(….browse(…), 5)"),
    "create_connection": _OF_CONNECTING,
    "dead_letters": {
        **dict.fromkeys(
            _COUNTS,
            "it gives one after the other; take so many: itertools.islice(….dead_letters(…), 5); "
            "retry_dead_letters has a count",
        ),
        **dict.fromkeys(("destination", "source"), _ORIGIN),
    },
    "retry_dead_letters": dict.fromkeys(("destination", "source"), _ORIGIN),
}
"""By the call, then by what it is given."""
_CONDITION = re.compile(r"[=<>]|\b(?:like|in|is|between)\b", re.IGNORECASE)
"""What a selector has, and hardly another text."""


def given_elsewhere(call: str, name: str, value: object, known: Collection[str]) -> str | None:
    """Where what is no argument of the call belongs; None: nobody knows. `known`: the arguments that it has."""
    if "kafka" in known:
        if (written := client_property(name)) is not None:
            example = shown(value) if written in _SHOWN else "…"
            return f"it is a property of Kafka's client, given as kafka={{{written!r}: {example}}}"
        if name in ("host", "hostname", "port"):
            return _ADDRESS
    if call.startswith("create_") and call.endswith("_consumer"):
        return _OF_CONSUMER.get(name)
    return _OF_CALLS.get(call, {}).get(name)


def by_its_look(value: object, names: Sequence[str]) -> str:
    """Which of the names a value is meant for that was given without one: the first, where its look tells nothing."""
    if isinstance(value, str):
        if value.startswith("ID:") and "message_id" in names:
            return "message_id"
        if _CONDITION.search(value) and "selector" in names:
            return "selector"
    return names[0]


def client_property(name: str) -> str | None:
    """The property of Kafka's client that is meant for sure; None: none is."""
    dotted = _CLIENT_WORDS.get(name, name.replace("_", "."))
    return dotted if dotted.startswith(_OF_CLIENT) else None


def address_in_one(given: Sequence[object], by_name: Collection[str]) -> str | None:
    """The address as it is written, where host and port were given as two arguments; None: they were not."""
    if "kafka" not in by_name or len(given) != 2 or not isinstance(given[0], str) or not given[0]:
        return None
    is_port = str(given[1]).isdecimal() and not isinstance(given[1], bool)
    return f"{given[0]}:{given[1]}" if is_port and ":" not in given[0] else None
