"""Finds out if a namespace has dead-letter and expiry addresses of its own where no setting names any (decision 93).

One that began with a version that knows of them has, and its registry says so from its first record on. Others keep
the addresses that all namespaces share, whose letters their operators know.
"""

from __future__ import annotations

from typing import Final

from jbm_kafka.registry.registry_log import Changes, Values

REGISTRY_NAME: Final = "jbm.registry"
_KEY = b"addresses|"
_OWN = b"own"


def first_records(registry_topic: str) -> Changes:
    """Return what the registry of a namespace says first."""
    return {} if registry_topic == REGISTRY_NAME else {_KEY: _OWN}


def addresses_of(namespace: str, values: Values) -> str:
    """The namespace whose default addresses hold there: its own, or ""."""
    return namespace if values.get(_KEY) == _OWN else ""
