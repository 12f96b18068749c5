"""Bridges take the messages of a queue or topic to another: in this cluster, in another, or at a server of AMQP 1.0.

docs/bridge.md.
"""

from jbm_kafka.bridge.bridge import Bridge, run_all
from jbm_kafka.bridge.bridge_counts import BridgeStatistics
from jbm_kafka.bridge.ends import BridgeEnd
from jbm_kafka.core.bridge_way import Guarantee

__all__ = ["Bridge", "BridgeEnd", "BridgeStatistics", "Guarantee", "run_all"]
