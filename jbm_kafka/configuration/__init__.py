"""One configuration for programs, commands, workers, sidecars and jobs: `jbm-kafka.toml` and the environment."""

from __future__ import annotations

import os
from typing import Any, TypedDict


class ClusterArguments(TypedDict):
    """The arguments that name a cluster, as of `Admin` and of every call of `jbm_spark`."""

    bootstrap: str
    namespace: str
    kafka: dict[str, object]


def configured_cluster(path: str | os.PathLike[str] | None = None, **overrides: Any) -> ClusterArguments:
    """Returns the cluster of the configuration: `messages(spark, "orders", **configured_cluster())`.

    Args:
        path: the file; None: the one that is found (docs/configuration.md); "": none.
        overrides: bootstrap, namespace, kafka, or `cluster`, which of the file's [clusters]. Each wins.

    Raises:
        InvalidSettingError: a value that cannot be; the text names its place.
    """
    from jbm_kafka.configuration.factory_arguments import configured_arguments  # Pydantic, a quarter of a second

    _, said = configured_arguments(path, {"url" if n == "bootstrap" else n: each for n, each in overrides.items()})
    return {"bootstrap": said["url"], "namespace": said.get("namespace", ""), "kafka": dict(said.get("kafka", {}))}
