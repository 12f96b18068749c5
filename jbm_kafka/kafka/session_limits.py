"""The brokers' own limits of a session timeout, asked for when they do not take one."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ imports them without exporting
    AdminClient,
    ConfigResource,
    ResourceType,
)

from jbm_kafka.ports import SettingRefused

LEAST, MOST = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
TIMEOUT_S = 5.0


def refused_session_timeout(settings: dict[str, Any], bootstrap: str, session_timeout_ms: object) -> SettingRefused:
    """The limits' text; `settings` are those of an admin client."""
    limits = session_limits(settings)
    reach = "another one" if limits is None else f"{limits[0]} to {limits[1]}"
    return SettingRefused(
        f"session_timeout_ms is {session_timeout_ms}: the brokers at {bootstrap} take {reach} (their {LEAST} and "
        f"{MOST})",
        setting="session_timeout_ms",
        value=session_timeout_ms,
    )


def session_limits(settings: dict[str, Any]) -> tuple[str, str] | None:
    """The least and the most that a broker takes; None when it does not say."""
    try:
        client = AdminClient(settings)
        broker = next(iter(client.list_topics(timeout=TIMEOUT_S).brokers))
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        entries = client.describe_configs([asked], request_timeout=TIMEOUT_S)[asked].result(TIMEOUT_S)
        return str(entries[LEAST].value), str(entries[MOST].value)
    except (KafkaException, TimeoutError, StopIteration, KeyError):  # not allowed, or no answer: the setting is named
        return None
