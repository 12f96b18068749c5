"""`jbm-kafka exporter`: metrics of all queues and subscriptions, from topics alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from jbm_kafka.admin.following.following import Following
from jbm_kafka.cli.cluster_options import Configured, configuration_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.cli.connect import contact
from jbm_kafka.cli.ending import until_asked_to_end
from jbm_kafka.ports.clock import SystemClock

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

TIMEOUT_S = 30.0
"""For one answer of the cluster: a step of 300 queues asks for much at once."""


@click.command()
@click.option("--port", metavar="N", type=Whole(0, 65_535),
              help="Serve /metrics, /healthz and /readyz there, on every address; 0: on any that is free. "
              "[JBM_EXPORTER__PORT; else the file's; else 9108]")  # fmt: skip
@configuration_options
def exporter(port: int | None, configured: Configured) -> None:
    """Serve metrics of what all queues and subscriptions of the namespace hold, until SIGTERM or Ctrl-C.

    Nothing is received and no group joined; no other process needs to run. docs/metrics.md.
    """
    try:
        from jbm_kafka.metrics.server import MetricsServer
    except ImportError:
        raise click.ClickException("this needs prometheus-client: pip install 'jbm-kafka[metrics]'") from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    cluster = configured.cluster()
    contact(cluster)
    number = configured.loaded.tables.exporter.port if port is None else port
    with (
        until_asked_to_end() as wait,
        following(cluster) as followed,
        MetricsServer(number, lambda: followed, backlog_of(followed)) as server,
    ):
        click.echo(f"serves /metrics at port {server.port}", err=True)
        wait()


def following(cluster: Cluster) -> Following:
    """Follows the cluster's namespace; to be closed."""
    return Following(cluster.bootstrap, cluster.kafka, cluster.namespace, TIMEOUT_S)


def backlog_of(followed: Following) -> Collector:
    """The metrics of what it finds; needs prometheus-client."""
    from jbm_kafka.metrics.backlog_collector import BacklogCollector

    return BacklogCollector(followed.latest, SystemClock().now_ms)
