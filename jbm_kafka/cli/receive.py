"""`jbm-kafka receive`: takes messages from a queue and prints them."""

import sys
from collections.abc import Callable

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import as_queue, connect, later
from jbm_kafka.cli.options import Seconds, Whole, check_unit, json_option
from jbm_kafka.cli.render import as_values, json_body, json_line, printable
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.errors import JMSError
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.one_unit import OneUnit


@click.command()
@click.argument("queue", callback=as_queue, metavar="DEST")
@click.option("--count", type=Whole(0), metavar="N", default=1, show_default=True,
              help="How many; 0: all, until none comes within the timeout.")  # fmt: skip
@click.option("--timeout", type=Seconds(0, 1e9), default=5.0, show_default=True, metavar="S",
              help="Seconds to wait for each.")  # fmt: skip
@click.option("--unit", metavar="U", callback=check_unit,
              help="Only messages of this unit. The first of each other one is held back meanwhile.")  # fmt: skip
@click.option("--selector", metavar="S", help="Comes with a later version.")
@cluster_options
@json_option
def receive(
    queue: Queue,
    count: int,
    timeout: float,
    unit: str | None,
    selector: str | None,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Receive messages and print their bodies, one a line; with --json everything of each.

    What was printed is settled; what could not be printed, because the reader went away say, stays in the queue.
    """
    # No filter of the output: what comes out is settled.
    looking = f"to look at some without taking any, filter the output of `jbm-kafka browse {queue.name} --all --json`"
    later("--selector", selector, looking)
    mode = AcknowledgeMode.CLIENT if unit is None else AcknowledgeMode.INDIVIDUAL
    with connect(cluster) as connection, connection.create_session(mode) as session:
        if unit is None:
            printed = _print_all(session.create_consumer(queue).receive, count, timeout, as_json=as_json)
        else:
            with OneUnit(session, queue, unit) as one:
                printed = _print_all(one.receive, count, timeout, as_json=as_json)
        session.close()
    if printed < count:
        of_unit = "" if unit is None else f" of unit {unit!r}"
        came = f"no message{of_unit} came" if printed == 0 else f"only {printed} of {count} messages{of_unit} came"
        raise JMSError(f"{queue}: {came} within {timeout:g} s")


def _print_all(receive: Callable[[float], Message | None], count: int, timeout: float, *, as_json: bool) -> int:
    """How many were printed and acknowledged: each once it has really left this process, so that none repeats."""
    printed = 0
    while count == 0 or printed < count:
        message = receive(timeout)
        if message is None:
            break
        _print(message, as_json=as_json)
        sys.stdout.flush()
        message.acknowledge()
        printed += 1
    return printed


def _print(message: Message, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(as_values(message)))
        return
    body = b"" if message.body is None else message.body
    if isinstance(body, dict | list):
        body = json_line(json_body(body))
    if not sys.stdout.isatty():
        click.echo(body)  # bytes as they are: a file or a program wants them so
    elif isinstance(body, bytes):
        click.echo(printable(body.decode(errors="backslashreplace"), lines=True))
    else:
        click.echo(printable(body, lines=True))
