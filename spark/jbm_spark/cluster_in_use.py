"""The cluster that a call reads or writes: of its arguments, or else of the configuration."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jbm_kafka.configuration import configured_cluster


class ClusterInUse(NamedTuple):
    """As the arguments of the calls have it."""

    bootstrap: str
    namespace: str
    kafka: Mapping[str, object] | None


def cluster_in_use(bootstrap: str | None, namespace: str, kafka: Mapping[str, object] | None) -> ClusterInUse:
    """Returns the arguments where they name a cluster, and then reads no file; else the configuration's, with them over
    it.

    Raises:
        InvalidSettingError: a value of the configuration that cannot be.
    """
    if bootstrap is not None:
        return ClusterInUse(bootstrap, namespace, kafka)
    said: dict[str, Any] = {"namespace": namespace or None, "kafka": kafka}
    found = configured_cluster(None, **{name: value for name, value in said.items() if value is not None})
    return ClusterInUse(found["bootstrap"], found["namespace"], found["kafka"] or None)
