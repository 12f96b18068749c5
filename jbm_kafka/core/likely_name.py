"""Which of the known names somebody means who wrote another one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

from jbm_kafka.core.told_attributes import told_attribute

_OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "abandon": ("nack",),
    "ack": ("acknowledge",),
    "ack_mode": ("acknowledge_mode",),
    "add_listener": ("set_listener",),
    "address": ("url", "bootstrap"),
    "all": ("everything",),
    "attempts": ("max_delivery_attempts", "delivery_count"),
    "attributes": ("properties",),
    "backlog": ("held",),
    "basic_ack": ("acknowledge",),
    "basic_cancel": ("close",),
    "basic_consume": ("set_listener",),
    "basic_get": ("receive",),
    "basic_nack": ("nack",),
    "basic_publish": ("send",),
    "basic_qos": ("set_default_prefetch",),
    "basic_reject": ("nack",),
    "begin": ("transaction",),
    "body": ("message", "text", "data"),
    "bootstrap": ("url",),
    "bootstrap_servers": ("bootstrap", "url"),
    "broker": ("url", "bootstrap"),
    "broker_url": ("url", "bootstrap"),
    "brokers": ("url", "bootstrap"),
    "callback": ("on_completion", "listener"),
    "cancel": ("close",),
    "change_visibility": ("nack",),
    "channel": ("create_session",),
    "closed": ("is_closed",),
    "complete": ("acknowledge",),
    "config": ("kafka",),
    "connect": ("create_connection", "ConnectionFactory"),
    "consume": ("receive",),
    "consumer_count": ("members",),
    "consumers": ("members",),
    "content": ("body", "message"),
    "count": ("held",),
    "countdown": ("delivery_delay_ms",),
    "create_channel": ("create_session",),
    "create_connection_consumer": ("create_consumer",),
    "create_durable_subscriber": ("create_durable_consumer",),
    "create_message_producer": ("create_producer",),
    "create_publisher": ("create_producer",),
    "create_queue_browser": ("create_browser",),
    "create_queue_receiver": ("create_consumer",),
    "create_reader": ("create_consumer",),
    "create_receiver": ("create_consumer",),
    "create_sender": ("create_producer",),
    "create_subscriber": ("create_consumer",),
    "create_topic_publisher": ("create_producer",),
    "create_topic_subscriber": ("create_consumer",),
    "data": ("message", "body"),
    "declare_queue": ("create_queue",),
    "dedup_id": ("duplicate_id",),
    "deduplication_id": ("duplicate_id",),
    "delay": ("delivery_delay_ms", "delay_ms", "redelivery_delay_ms"),
    "delay_seconds": ("delivery_delay_ms",),
    "delete": ("acknowledge", "delete_destination"),
    "delete_message": ("acknowledge",),
    "delete_queue": ("delete_destination",),
    "delete_queues": ("delete_destination",),
    "delete_topic": ("delete_destination",),
    "delete_topics": ("delete_destination",),
    "delivery_tag": ("message_id",),
    "depth": ("held",),
    "describe": ("counts",),
    "destination": ("queue",),
    "disconnect": ("close",),
    "dlq": ("dead_letter_address",),
    "drop_queue": ("delete_destination",),
    "expiration": ("time_to_live_ms",),
    "expires": ("time_to_live_ms",),
    "expires_in": ("time_to_live_ms",),
    "fetch": ("receive",),
    "filter": ("selector",),
    "get": ("get_object", "receive"),
    "get_message": ("receive",),
    "get_messages": ("receive",),
    "get_property": ("get_object_property", "properties"),
    "group": ("unit_of_order",),
    "group_id": ("unit_of_order",),
    "headers": ("properties",),
    "id": ("message_id", "message_ids"),
    "key": ("unit_of_order",),
    "lag": ("held",),
    "length": ("held",),
    "limit": ("count",),
    "list_queues": ("destinations",),
    "list_topics": ("destinations",),
    "max_attempts": ("max_delivery_attempts",),
    "max_count": ("count",),
    "max_messages": ("count",),
    "max_retries": ("max_delivery_attempts",),
    "message_attributes": ("properties",),
    "message_count": ("held",),
    "message_deduplication_id": ("duplicate_id",),
    "message_group_id": ("unit_of_order",),
    "message_id": ("duplicate_id",),
    "message_listener": ("listener",),
    "message_selector": ("selector",),
    "message_type": ("type",),
    "mode": ("acknowledge_mode", "delivery_mode"),
    "ms": ("duration_ms", "delay_ms"),
    "msg": ("message", "body"),
    "on_delivery": ("on_completion",),
    "on_message": ("set_listener",),
    "partition": ("unit_of_order",),
    "payload": ("message", "body"),
    "pending": ("held",),
    "persistent": ("delivery_mode",),
    "poll": ("receive",),
    "prefetch_count": ("prefetch",),
    "produce": ("send",),
    "property_names": ("properties",),
    "publish": ("send",),
    "purge": ("remove",),
    "purge_queue": ("remove",),
    "put": ("send",),
    "queue": ("destination",),
    "queue_declare": ("create_queue",),
    "queue_delete": ("delete_destination",),
    "queue_name": ("name", "destination"),
    "queue_size": ("held",),
    "queues": ("destinations",),
    "read": ("read_bytes",),
    "read_utf": ("read_string",),
    "receive_count": ("delivery_count",),
    "receive_message": ("receive",),
    "receive_messages": ("receive",),
    "receive_no_wait": ("receive_nowait",),
    "recv": ("receive",),
    "redeliver": ("recover",),
    "redrive": ("retry_dead_letters",),
    "reject": ("nack",),
    "requeue": ("nack",),
    "retries": ("max_delivery_attempts",),
    "running": ("is_started",),
    "server": ("url", "bootstrap"),
    "servers": ("url", "bootstrap"),
    "set": ("set_object",),
    "set_list": ("body",),
    "set_map": ("body",),
    "set_message_listener": ("set_listener",),
    "shutdown": ("close",),
    "size": ("held",),
    "sleep": ("advance",),
    "start": ("resume",),
    "start_consuming": ("set_listener",),
    "started": ("is_started",),
    "stats": ("counts",),
    "stop": ("pause",),
    "subscribe": ("create_consumer",),
    "subscription": ("name",),
    "subscription_name": ("name",),
    "text": ("message", "body"),
    "timeout_ms": ("timeout",),
    "timeout_s": ("timeout",),
    "topic": ("destination",),
    "topics": ("destinations",),
    "total": ("held",),
    "transacted": ("acknowledge_mode",),
    "ttl": ("time_to_live_ms", "expiration"),
    "ttl_ms": ("time_to_live_ms",),
    "unit": ("unit_of_order",),
    "unpause": ("resume", "start"),
    "url": ("bootstrap",),
    "value": ("message", "body"),
    "write": ("write_bytes",),
    "write_unsigned_byte": ("write_byte",),
    "write_unsigned_short": ("write_short",),
    "write_utf": ("write_string",),
}
"""What other systems call it."""


ADDRESS_SETTINGS = (
    "dead_letter_address", "duplicate_window_count", "duplicate_window_ms", "expiry_address", "max_delivery_attempts",
    "max_redelivery_delay_ms", "on_dead_letter", "partitions", "redelivery_collision_avoidance_factor",
    "redelivery_delay_ms", "redelivery_delay_multiplier",
)  # fmt: skip
"""What `AddressSettings` alone has, which imports this module."""


_OF_MESSAGES: Mapping[str, str] = {
    "dead_letter": "; nack() gives it back, and after max_delivery_attempts it goes to the dead-letter address; to "
    "give it up at once, send it on in a transaction (docs/retries-and-dead-letters.md)",
    "get": "; 'properties.get' is meant, probably",
    "offset": "; 'kafka.offset' of a received message says it",
    "partition": "; 'kafka.partition' of a received message says it, and the unit_of_order of a send chooses it",
    "set_property": "; write properties[name] = value",
    "time_to_live_ms": "; it is given to the send, send(…, time_to_live_ms=…), and 'expiration' is when it ends",
}
_OF_BROWSERS = dict.fromkeys(
    ("enumeration", "get_enumeration", "has_more_elements", "has_next", "next", "next_element"),
    "; go through it with `for message in browser:`",
)
"""What is said to who asks for these, where a name alone would not do."""


_LIKENESS_MIN = 0.61
"""As difflib counts it; at its own 0.6 `durable` is like `url`."""
_LIKENESS_OF_OTHERS_MIN = 0.8
"""The same of what another class has: `recieve` is like `receive`, and `resume` of a consumer not like `request`."""
_LIKENESS_OF_THINGS_MIN = 0.5
"""The same of what stands behind one and the same verb."""
_TURNS = ("de", "dis", "in", "non", "re", "un")
"""Beginnings that turn what a name does into its opposite, as in `unpause`."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word of a name in Java begins, as in `getJMSMessageID`."""
_ACCESSOR = re.compile(r"(?:get|set|is)_(?:jms_)?|jms_")
"""What Java has before the name of what is an attribute here."""


_HOLDERS: Mapping[str, str] = {
    "create_session": "a connection has it, and a context is a session already",
    **dict.fromkeys(("create_connection", "create_context"), "a ConnectionFactory has it"),
    **dict.fromkeys(
        (
            *("create_consumer", "create_producer", "create_browser", "create_durable_consumer", "create_text_message"),
            *("create_queue", "create_topic", "create_temporary_queue", "create_temporary_topic"),
            *("unsubscribe", "request"),
        ),
        "a session has it, and a context",
    ),
    **dict.fromkeys(("commit", "rollback", "transaction", "recover"), "a session has it, and a context"),
    **dict.fromkeys(("receive", "receive_nowait", "receive_body", "set_listener"), "a consumer has it"),
    **dict.fromkeys(("send", "flush"), "a producer has it"),
    **dict.fromkeys(("acknowledge", "nack"), "a received message has it"),
}
"""Who has what people look for at another's."""
_OF_CONNECTIONS = "a connection has it, and a context"
_SHORT_HOLDERS: Mapping[str, str] = {
    "close": f"{_OF_CONNECTIONS}; closing one closes all that was made by it",
    "is_closed": f"{_OF_CONNECTIONS}, and what is made by them",
    **dict.fromkeys(("start", "stop", "is_started", "exception_listener"), _OF_CONNECTIONS),
    **dict.fromkeys(("counts", "delete_destination", "remove", "retry_dead_letters"), "an Admin has it"),
}
"""The same of names that others, such as `status`, resemble by chance: for those that are written so."""


def likely_name(written: str, known: Collection[str]) -> str | None:
    """The one that is meant, probably; None when nothing is near."""
    if (other := _other_word(written, known)) is not None:
        return other
    longer = [each for each in known if each.startswith(f"{written}_") or written.startswith(f"{each}_")]
    likely = longer or _nearest(_in_python(written), known, _LIKENESS_MIN)
    return likely[0] if likely else None


def _nearest(in_python: str, known: Collection[str], likeness_min: float) -> list[str]:
    """The name that is written most alike and does not mean the opposite, if one is near."""
    names = [each for each in known if not (_is_turned(in_python, each) or _is_turned(each, in_python))]
    near = difflib.get_close_matches(in_python, names, n=1, cutoff=likeness_min)
    return near if near and not _is_another_thing(in_python, near[0]) else []


def _is_turned(name: str, other: str) -> bool:
    return name.endswith(other) and name[: -len(other)].rstrip("_") in _TURNS


def _is_another_thing(name: str, other: str) -> bool:
    """Only what is done is the same in both, as in `create_admin` and `create_topic`."""
    (verb, _, thing), (its_verb, _, its_thing) = name.partition("_"), other.partition("_")
    return verb == its_verb and difflib.SequenceMatcher(None, thing, its_thing).ratio() < _LIKENESS_OF_THINGS_MIN


def _other_word(written: str, known: Collection[str]) -> str | None:
    """What is meant for sure: it is a name of it in Java, or in another system."""
    in_python = _in_python(written)
    for name in (in_python, _ACCESSOR.sub("", in_python, count=1)):
        if name in known and name != written:
            return name
        for other in _OTHER_WORDS.get(name, ()):
            if other in known:
                return other
    return None


def address_setting(written: str) -> str | None:
    """The setting of destinations that is meant for sure; None: none is."""
    longer = (name for name in ADDRESS_SETTINGS if name == written or name.startswith(f"{written}_"))
    return _other_word(written, ADDRESS_SETTINGS) or next(longer, None)


def with_likely_attribute(text: str, written: str, known: Collection[str], kinds: Collection[str] = ()) -> str:
    """The same of an attribute: one that something else has is not misspelt. `kinds`: the owner's classes, by name."""
    in_python = _in_python(written)
    bare = _ACCESSOR.sub("", in_python, count=1)
    told = told_attribute(kinds, in_python, known) or _told(in_python, known)
    if told is not None:
        return text + told
    if _other_word(written, known) is not None:
        return with_likely_name(text, written, known)
    holders = {**_SHORT_HOLDERS, **_HOLDERS}
    meant = next((name for name in (in_python, bare, _meant(in_python)) if name in holders), None)
    if meant is not None and in_python not in known:
        named = "" if meant == in_python else f"; {meant!r} is meant, probably"
        return f"{text}{named}: {holders[meant]}"
    longer = [each for each in known if each.startswith(f"{in_python}_")]
    if len(longer) == 1:
        return f"{text}; {longer[0]!r} is meant, probably"
    nearest = _nearest(in_python, [*known, *_HOLDERS], _LIKENESS_OF_OTHERS_MIN)
    if nearest and nearest[0] not in known:
        return f"{text}; {nearest[0]!r} is meant, probably: {_HOLDERS[nearest[0]]}"
    return with_likely_name(text, written, known)


def _told(in_python: str, known: Collection[str]) -> str | None:
    """What is said instead of a name to who asks a message or a browser, which their attributes tell, for it."""
    if "delivery_count" in known and not (in_python == "get" and "get_object" in known):
        return _OF_MESSAGES.get(in_python)
    return _OF_BROWSERS.get(in_python) if "include" in known else None


def with_likely_name(text: str, written: str, known: Collection[str]) -> str:
    """The text, with the name that is meant behind it where there is one."""
    likely = likely_name(written, known)
    return text if likely is None else f"{text}; {likely!r} is meant, probably"


def _in_python(written: str) -> str:
    return _WORDS.sub("_", written).lower()


def argument_meant(written: str, arguments: Collection[str]) -> str | None:
    """The argument that is meant by its name, or by that of a call that sets or gets it; None: none is."""
    in_python = _ACCESSOR.sub("", _in_python(written), count=1)
    return in_python if in_python in arguments else None


def _meant(in_python: str) -> str:
    """What another system's name stands for here, if only one thing can be."""
    others = _OTHER_WORDS.get(in_python, ())
    return others[0] if len(others) == 1 else in_python
