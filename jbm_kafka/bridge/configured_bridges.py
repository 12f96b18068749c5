"""The bridges of the configuration's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jbm_kafka.bridge.ends import BridgeEnd
from jbm_kafka.configuration.local_cluster import default_bootstrap
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError
from jbm_kafka.core.wrong_values import did_you_mean, shown
from jbm_kafka.jms.factory import ConnectionFactory

if TYPE_CHECKING:
    from jbm_kafka.configuration.loaded import Loaded
    from jbm_kafka.configuration.models import BridgeEndTable

_OF_AMQP = ("url", "kafka")
"""All that a connection to a server is made of: the rest of the file is about sidecars."""
_STORE = ("store_and_forward", "store_fsync", "store_bytes_max", "store_age_max_ms")
_LEFT_OUT = ("client_id", "prefetch", "block_on_acknowledge", "default_unit_of_order", *_STORE)
"""The part of [connection] that is for programs. One connection alone has the client id, one process a store."""


def arguments_of_bridge(loaded: Loaded, name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a Bridge, as its table says them.

    Args:
        loaded: the configuration.
        overrides: what was given over the file, by the keys of the file, such as `bootstrap`: it is for ends that name
            no cluster.

    Raises:
        InvalidSettingError, InvalidDestinationError: a value that cannot be; the text begins with its place.
    """
    known = loaded.tables.bridges
    table = known.get(name)
    if table is None:
        there = f"known are {', '.join(known)}" if known else "it has no [bridges]"
        raise InvalidSettingError(
            f"bridge {shown(name)}: {there}{did_you_mean(name, known)}", setting="name", value=name
        )
    others = {
        key: value
        for key in ("guarantee", "selector", "rate", "reply_to", "in_flight", "lanes", "drain_s")
        if (value := getattr(table, key)) is not None
    }
    return {
        "name": name,
        "source": _end(loaded, (name, "source"), table.source, overrides),
        "target": _end(loaded, (name, "target"), table.target, overrides),
        **others,
    }


def _end(loaded: Loaded, at: tuple[str, str], table: BridgeEndTable, overrides: Mapping[str, Any]) -> BridgeEnd:
    place = f"bridges.{at[0]}.{at[1]}"
    origin = loaded.origin("bridges", *at, "destination") or place
    where = origin.removesuffix(".destination")
    try:
        made = ConnectionFactory(**_factory_arguments(loaded.path, table, overrides))
        return BridgeEnd(
            made,
            table.destination,
            subscription=table.subscription,
            duplicate_property=table.duplicate_property,
            address=table.address,
        )
    except JMSError as error:
        raise InvalidSettingError(f"{where}: {error}") from None


def _factory_arguments(
    path: str | os.PathLike[str] | None, table: BridgeEndTable, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    from jbm_kafka.configuration.loaded import load  # Pydantic, a quarter of a second

    given = dict(overrides) if table.cluster is None else {"cluster": table.cluster}
    if table.namespace is not None:
        given["namespace"] = table.namespace
    arguments = load("" if path is None else path, arguments=given).factory_arguments()
    url = arguments.setdefault("url", default_bootstrap())
    if url.startswith("amqp"):
        return {key: arguments[key] for key in _OF_AMQP if key in arguments}
    if url.startswith("memory://"):
        arguments.pop("kafka", None)  # there is no client of Kafka that it could be for
    own = "-".join(filter(None, ("bridge", table.cluster, table.namespace)))
    if own != "bridge" and "state_dir" in arguments:  # one folder cannot be that of two installations
        arguments["state_dir"] = os.path.join(arguments["state_dir"], own)  # noqa: PTH118
    return {key: value for key, value in arguments.items() if key not in _LEFT_OUT}
