"""The arguments of a connection factory, with those of a program over the configuration's."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from jbm_kafka.configuration.loaded import Loaded, load
from jbm_kafka.configuration.local_cluster import default_bootstrap

log = logging.getLogger(__name__)

_OF_CLUSTER = {"url": "bootstrap", "namespace": "namespace", "cluster": "cluster"}
_IN_MEMORY = "memory://"
_MERGED = ("kafka", "address_settings")


def configured_arguments(
    path: str | os.PathLike[str] | None, overrides: Mapping[str, Any], *, reads_file: bool = True
) -> tuple[Loaded, dict[str, Any]]:
    """Returns the configuration, and the arguments that it and the overrides make; `url` is among them.

    Old names that the file has are logged, and secrets that everybody can read.

    Raises:
        InvalidSettingError: a value of the configuration that cannot be.
    """
    given = {key: overrides[name] for name, key in _OF_CLUSTER.items() if overrides.get(name) is not None}
    names = {key: name for name, key in _OF_CLUSTER.items()}
    loaded = load(path, arguments=given, names=names, reads_file=reads_file)
    for note in loaded.notes:
        log.warning("%s", note)
    if secrets := loaded.secrets_for_all():
        log.warning("every user of this machine can read %s in %s", ", ".join(secrets), loaded.path)
    arguments = loaded.factory_arguments()
    if "url" not in arguments:
        arguments["url"] = default_bootstrap()
    if arguments["url"].startswith(_IN_MEMORY):
        arguments.pop("kafka", None)  # there is no client of Kafka that it could be for
    for name, value in overrides.items():
        is_over = name in _MERGED and isinstance(value, Mapping) and name in arguments
        if name not in _OF_CLUSTER:
            arguments[name] = {**arguments[name], **value} if is_over else value
    return loaded, arguments
