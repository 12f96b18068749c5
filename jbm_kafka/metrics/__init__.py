"""Metrics for Prometheus: `REGISTRY.register(JbmCollector(connection))`. Needs prometheus-client: `jbm-kafka[metrics]`.

docs/metrics.md lists the names, which stay.
"""

from jbm_kafka.metrics.collector import JbmCollector

__all__ = ["JbmCollector"]
