"""Shows the waiting messages of an outbox to Prometheus. Needs prometheus-client: `jbm-kafka[metrics]`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise ImportError("prometheus-client is not installed: pip install 'jbm-kafka[metrics]'") from None

if TYPE_CHECKING:
    from jbm_kafka.outbox.outbox_table import Outbox
    from jbm_kafka.outbox.relay import Relay

log = logging.getLogger(__name__)


class OutboxCollector(Collector):
    """Counts the rows of a table whenever it is asked: `REGISTRY.register(OutboxCollector(engine, outbox))`."""

    def __init__(self, engine: Engine, outbox: Outbox, relay: Relay | None = None) -> None:
        """`relay`: of which it tells how many it has sent, too."""
        self._engine, self._outbox, self._relay = engine, outbox, relay

    def describe(self) -> Iterable[Metric]:
        """Nothing: the database need not answer for it to be registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of now."""
        if self._relay is not None:
            sent = CounterMetricFamily("jbm_outbox_sent", "Messages that this relay has sent.", labels=["table"])
            sent.add_metric([self._outbox.full_name], self._relay.sent_count)
            yield sent
        try:
            with self._engine.connect() as connection:
                counts = self._outbox.counts(connection)
        except SQLAlchemyError as error:  # the others' metrics are told all the same
            log.warning("outbox: its database does not answer: %s", str(error).partition("\n")[0])
            return
        for name, text, value in (
            ("jbm_outbox_waiting", "Messages that are to be sent.", counts.waiting),
            ("jbm_outbox_failed", "Messages that were set aside.", counts.failed),
            ("jbm_outbox_oldest_waiting_seconds", "How long the oldest waits.", counts.oldest_waiting_ms / 1000),
        ):
            family = GaugeMetricFamily(name, text, labels=["table"])
            family.add_metric([self._outbox.full_name], value)
            yield family
