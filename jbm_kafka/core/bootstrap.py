"""Kafka's address as users write it: `host:port`, several with commas."""

from __future__ import annotations

import re

from jbm_kafka.core.wrong_values import shown_name, wrong_type, wrong_value

_HOST_AND_PORT = re.compile(r"([^,/:\s\[\]]+|\[[^,/\s\[\]]+\]):[0-9]+")
"""An IPv6 address stands in brackets."""
SCHEME = "kafka://"


def checked_bootstrap(name: str, value: object) -> str:
    """The address without a scheme, if it is one; `name` is the argument's.

    Raises:
        InvalidSettingError: it is not.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "it is a str such as 'localhost:9092'")
    rest = value.removeprefix(SCHEME)
    if "://" in rest:
        raise wrong_value(name, value, "its scheme is not known; use 'kafka://host:port', or 'host:port'")
    for address in rest.split(","):
        if not _HOST_AND_PORT.fullmatch(address):
            raise wrong_value(name, value, _remedy(address))
        port = address.rpartition(":")[2]
        if not 0 < int(port[:9]) < 65_536:
            raise wrong_value(name, value, f"{shown_name(port)} is not a port, those are 1 to 65535; write 'host:port'")
    return rest


def _remedy(address: str) -> str:
    if re.fullmatch(r"[\w.-]+", address):
        return f"the port is missing; write 'host:port', as in '{shown_name(address)}:9092'"
    return "write 'host:port', several separated by commas"
