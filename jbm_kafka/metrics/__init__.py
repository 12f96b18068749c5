"""Metrics for Prometheus: `REGISTRY.register(JbmCollector(connection))`. Needs prometheus-client: `jbm-kafka[metrics]`.

docs/metrics.md lists the names, which stay.
"""

try:
    import prometheus_client as _needed  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("prometheus-client is not installed: pip install 'jbm-kafka[metrics]'") from None

from jbm_kafka.metrics.collector import JbmCollector

__all__ = ["JbmCollector"]
