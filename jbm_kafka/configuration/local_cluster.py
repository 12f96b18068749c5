"""The cluster where nobody names one: the user's local broker."""

from __future__ import annotations

FALLBACK_BOOTSTRAP = "127.0.0.1:9092"


def default_bootstrap() -> str:
    """Returns the address of the user's running local broker, else the port that Kafka usually has."""
    from jbm_kafka.devbroker import LocalBroker  # seldom needed: somebody names a cluster, mostly

    broker = LocalBroker()
    return broker.bootstrap if broker.is_running else FALLBACK_BOOTSTRAP
