"""The Kafka that a demonstration plays on: the one that is named, or the user's local broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from jbm_kafka.cli.cluster_options import check_own_broker
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import contact
from jbm_kafka.devbroker import LocalBroker, LocalBrokerError

USUAL_PORT = 9092


@contextlib.contextmanager
def broker(wanted: Cluster, console: Console) -> Iterator[Cluster]:
    """The wanted Kafka, else the user's local broker; one started here is stopped at the end."""
    if not check_own_broker(wanted):
        contact(wanted, remedy="leave --bootstrap out to use a local broker")
        yield wanted
        return
    local = LocalBroker()
    if not local.is_running:
        console.print("starting a local Kafka ...", highlight=False)
    is_new = local.start(preferred_port=USUAL_PORT)
    try:
        yield replace(wanted, bootstrap=local.bootstrap)
    finally:
        if is_new:
            with contextlib.suppress(LocalBrokerError):
                local.stop()
                console.print("the local Kafka is stopped, its topics are kept: jbm-kafka broker start", soft_wrap=True)
