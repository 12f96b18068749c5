"""Kafka's address as users write it: `host:port`, several with commas."""

from __future__ import annotations

import re

from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown_name, wrong_type, wrong_value

_HOST_AND_PORT = re.compile(r"([^,/:\s\[\]]+|\[[^,/\s\[\]]+\]):[0-9]+")
"""An IPv6 address stands in brackets."""
SCHEME = "kafka://"
_CREDENTIALS = (
    "credentials do not belong in the address; write 'host:port', and give sasl.username and sasl.password as "
    "kafka={'sasl.username': …}, or in [kafka] of the config file"
)


def without_credentials(address: str) -> str:
    """The address, with what may be a password masked: all between its scheme and the last `@`."""
    before, at, behind = address.rpartition("@")
    scheme, colon, _ = before.partition("://")
    return f"{scheme + colon if colon else ''}***{at}{behind}" if at else address


def checked_bootstrap(name: str, value: object) -> str:
    """The address without a scheme, if it is one; `name` is the argument's.

    Raises:
        InvalidSettingError: it is not.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "it is a str such as 'localhost:9092'")
    value = plain_text(value)
    if "@" in value:
        raise wrong_value(name, without_credentials(value), _CREDENTIALS)
    rest = value.removeprefix(SCHEME)
    if rest.startswith("memory://"):
        raise wrong_value(name, value, "a memory:// world is inside its own process, and nothing else reaches it")
    if "://" in rest:
        raise wrong_value(name, value, "its scheme is not known; use 'kafka://host:port', or 'host:port'")
    addresses = rest.split(",")
    for address in addresses:
        if not address and len(addresses) > 1:
            where = "behind the last comma" if not addresses[-1] else "before one of the commas"
            raise wrong_value(
                name, value, f"there is no address {where}; write 'host:port', several separated by commas"
            )
        if not _HOST_AND_PORT.fullmatch(address):
            raise wrong_value(name, value, _remedy(address))
        port = address.rpartition(":")[2]
        if not 0 < int(port[:9]) < 65_536:
            raise wrong_value(name, value, f"{shown_name(port)} is not a port, those are 1 to 65535; write 'host:port'")
    return rest


def _remedy(address: str) -> str:
    if re.fullmatch(r"[\w.-]+", address):
        return f"the port is missing; write 'host:port', as in '{shown_name(address)}:9092'"
    return f"{_fault(address)}write 'host:port', several separated by commas"


def _fault(address: str) -> str:
    """Which part is wrong, as far as that is plain."""
    stripped = address.strip()
    if stripped != address and _HOST_AND_PORT.fullmatch(stripped):
        return f"there is a space before or behind {shown_name(stripped)}; "
    if ";" in address:
        return "there is a ';' in it; "
    if re.search(r"\s", stripped):
        return "there is a space in it; "
    host, colon, port = stripped.rpartition(":")
    if colon and re.fullmatch(r"[\w.-]+", host):
        return f"{shown_name(port)} is not a port, those are 1 to 65535; " if port else "the port is missing; "
    return ""
