"""`jbm-kafka bridge`: takes messages from one place to another, as [bridges] of the configuration says."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_options import ClusterUsageError, Configured, configuration_options
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.wrong_values import did_you_mean

if TYPE_CHECKING:
    from jbm_kafka.bridge import Bridge


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--only", "names", metavar="NAME", multiple=True, help="This bridge; again for more. [all of the file]")
@click.option("--metrics-port", metavar="N", type=Whole(1, 65_535),
              help="Serve /metrics, /healthz and /readyz there.")  # fmt: skip
@configuration_options
def bridge(file: str | None, names: tuple[str, ...], metrics_port: int | None, configured: Configured) -> None:
    """Take messages from queues and topics to others, here, in another cluster, or at a server of AMQP 1.0.

    The bridges are those of [bridges] of the configuration, until SIGTERM or Ctrl-C. FILE is that of --config. Exit
    code 1 tells that something was left in hand, which comes again.
    """
    from jbm_kafka.bridge import run_all

    bridges = _bridges(configured.at(file), names)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with _metrics(bridges, metrics_port):
        code = run_all(bridges)
    raise click.exceptions.Exit(code)


def _bridges(configured: Configured, names: tuple[str, ...]) -> list[Bridge]:
    from jbm_kafka.bridge import Bridge

    loaded = configured.loaded
    known = loaded.tables.bridges
    if not known:
        where = loaded.path or "there is no file, and so"
        raise click.UsageError(f"{where}: no [bridges.NAME], which has source and target: jbm-kafka docs bridge")
    for name in names:
        if name not in known:
            raise click.UsageError(f"--only {name!r}: known are {', '.join(known)}{did_you_mean(name, known)}")
    try:
        return [Bridge._of_file(loaded, name, configured.arguments) for name in names or known]
    except InvalidSettingError as error:
        raise ClusterUsageError(str(error)) from None


def _metrics(bridges: list[Bridge], port: int | None) -> AbstractContextManager[object]:
    if port is None:
        return nullcontext()
    try:
        from jbm_kafka.bridge.bridge_collector import BridgeCollector
        from jbm_kafka.metrics.server import MetricsServer
    except ImportError:
        raise click.UsageError("--metrics-port needs prometheus-client: pip install jbm-kafka[metrics]") from None
    from jbm_kafka.bridge.bridges_together import BridgesTogether

    return MetricsServer(port, lambda: BridgesTogether(bridges), BridgeCollector(bridges))
