"""`jbm-kafka drain`: have one worker's process end in order."""

import click

from jbm_kafka.admin.process_admin import DRAIN_TIMEOUT_S
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import answer_timeout_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.render import printable


@click.command(epilog="Example: jbm-kafka drain worker-3/4711")
@click.argument("process", metavar="HOST/ID")
@answer_timeout_option(least=1, default=DRAIN_TIMEOUT_S)
@cluster_options
def drain(process: str, timeout: float, cluster: Cluster) -> None:
    """Have a worker's process receive no more, finish what it works on, and end, as by SIGTERM.

    Give it as HOST/ID, or as lists have it: "process 4711 at worker-3". Its messages go to the other processes.
    Whoever supervises it may start it anew; with `jbm-kafka run --processes` it stays ended.
    """
    with admin_of(cluster) as admin:
        admin.drain(process, timeout_s=timeout)
    click.echo(f"{printable(process)}: it receives no more, and ends when its handlers have")
