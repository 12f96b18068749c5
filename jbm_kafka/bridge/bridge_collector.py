"""The counts of bridges, for Prometheus. Needs prometheus-client: `jbm-kafka[metrics]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise ImportError("prometheus-client is not installed: pip install 'jbm-kafka[metrics]'") from None

if TYPE_CHECKING:
    from jbm_kafka.bridge.bridge import Bridge

_COUNTS = (
    ("jbm_bridge_messages", "arrived", "Messages that are at the target and settled at the source."),
    ("jbm_bridge_refused", "refused", "Messages that could never be sent: dead letters of the source."),
    ("jbm_bridge_came_again", "came_again", "Messages that came again after a failure, and had arrived."),
    ("jbm_bridge_failures", "failures", "How often it could not go on, and began anew."),
)


class BridgeCollector(Collector):
    """The counts of some bridges, whenever it is asked: `REGISTRY.register(BridgeCollector([bridge]))`."""

    def __init__(self, bridges: Sequence[Bridge]) -> None:
        self._bridges = bridges

    def describe(self) -> Iterable[Metric]:
        """Nothing: they need not run for it to be registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of now."""
        counted = [(bridge.name, bridge.statistics()) for bridge in self._bridges]
        for name, field, text in _COUNTS:
            family = CounterMetricFamily(name, text, labels=["bridge"])
            for bridge, statistics in counted:
                family.add_metric([bridge], getattr(statistics, field))
            yield family
        text = "How long the message that was taken last had waited then, since it was sent or due; 0: there was none."
        behind = GaugeMetricFamily("jbm_bridge_behind_seconds", text, labels=["bridge"])
        for bridge, statistics in counted:
            behind.add_metric([bridge], statistics.behind_s)
        yield behind
        text = "1: both sides answer, as far as was seen; 0: it waits for one, or another process runs it."
        goes_on = GaugeMetricFamily("jbm_bridge_goes_on", text, labels=["bridge"])
        for each in self._bridges:
            goes_on.add_metric([each.name], each.trouble is None)
        yield goes_on
