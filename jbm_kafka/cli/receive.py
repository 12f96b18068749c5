"""`jbm-kafka receive`: takes messages from a queue or a topic and prints them."""

import sys
from collections.abc import Callable
from contextlib import suppress

import click

from jbm_kafka.admin import SubscriptionCounts
from jbm_kafka.admin.cluster.subscription_counts import durable_of
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import UNIT, Seconds, Whole, json_lines_option, selector_option, subscription_options
from jbm_kafka.cli.connect import admin_of, as_destination, connect, contact
from jbm_kafka.cli.render import as_values, body_of, body_text, json_line, printable, when
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.one_unit import OneUnit
from jbm_kafka.jms.session import Session


@click.command()
@click.argument("destination", callback=as_destination, metavar="DEST")
@click.option("--count", type=Whole(0), metavar="N", default=1, show_default=True,
              help="How many; 0: all, until none comes within the timeout.")  # fmt: skip
@click.option("--timeout", type=Seconds(0, 1e9), default=5.0, show_default=True, metavar="S",
              help="Seconds to wait for each.")  # fmt: skip
@click.option("--unit", metavar="U", type=UNIT,
              help="Only messages of this unit. The first of each other one is held back meanwhile.")  # fmt: skip
@click.option("--raw", "is_raw", is_flag=True, help="Write each body as its bytes, with nothing between and behind.")
@subscription_options
@selector_option
@cluster_options
@json_lines_option
def receive(
    destination: Queue | Topic,
    count: int,
    timeout: float,
    unit: str | None,
    is_raw: bool,
    subscription: str | None,
    client_id: str,
    selector: str | None,
    cluster: Cluster,
    as_json: bool,
) -> None:
    r"""Receive messages and print their bodies, one a line; with --json everything of each.

    A text is printed as it is, a map or a stream as JSON. Bytes that are no text are printed as in Python: what is no
    printable ASCII as \xHH, and \\ for a backslash. To get them as they are: --raw, or body_base64 of --json.

    What was printed is settled; what could not be printed, because the reader went away say, stays in the queue.

    Of topic:NAME what is sent from now on; with --subscription what that durable subscription has, as if its
    receiver had come back.
    """
    if is_raw and as_json:
        raise click.UsageError("--raw and --json are two forms: give one of them")
    if unit is not None and selector is not None:
        raise click.UsageError("--unit and --selector are two ways to choose: give one of them")
    durable = None if subscription is None else _durable(cluster, destination.name, subscription, client_id)
    if durable is not None:
        destination = durable.topic
        if selector is not None:
            raise click.UsageError("--selector would make it another subscription: it has its own; leave it out")
    if unit is not None and isinstance(destination, Topic):
        raise click.UsageError("--unit is for queues; of a topic leave it out")
    write = _write_raw if is_raw else _print_json if as_json else _print
    mode = AcknowledgeMode.CLIENT if unit is None else AcknowledgeMode.INDIVIDUAL
    with (
        connect(cluster, client_id=client_id) as connection,
        connection.create_session(mode) as session,
    ):
        if unit is None:
            consumer = session.create_consumer(destination, selector) if durable is None else _taken(session, durable)
            printed = _print_all(consumer.receive, count, timeout, write)
        else:
            assert isinstance(destination, Queue)
            with OneUnit(session, destination, unit) as one:
                printed = _print_all(one.receive, count, timeout, write)
        session.close()
    if printed < count:
        which = (
            f" of unit {unit!r}" if unit is not None else " that the selector chooses" if selector is not None else ""
        )
        came = f"no message{which} came" if printed == 0 else f"only {printed} of {count} messages{which} came"
        raise JMSError(f"{destination}: {came} within {timeout:g} s{_why_none(cluster, destination)}")


def _why_none(cluster: Cluster, destination: Queue | Topic) -> str:
    """Why no message came, if receiving is paused or Kafka is away; else "". It adds to an error, and raises none."""
    try:
        contact(cluster)
    except JMSError:
        return f": no Kafka answers at {cluster.bootstrap} now"
    with suppress(JMSError), admin_of(cluster) as admin:
        halt = admin.paused(destination).consumption
        if halt is not None:
            since = f"receiving is paused by {printable(halt.by)} since {when(halt.since_ms)} UTC"
            return f": {since}; jbm-kafka resume {destination.name} lets it go on"
    return ""


def _durable(cluster: Cluster, topic: str, name: str, client_id: str) -> SubscriptionCounts:
    """The durable subscription of that name; it is never made here, so that a wrong name is an error."""
    with admin_of(cluster) as admin:
        return durable_of(admin.subscriptions(topic), name, client_id)


def _taken(session: Session, durable: SubscriptionCounts) -> MessageConsumer:
    """A consumer of it, as it was made: with another selector it would begin anew, with nothing in it."""
    topic, name, selector = durable.topic, durable.name, durable.selector or None
    if durable.kind == "durable":
        return session.create_durable_consumer(topic, name, selector, durable.no_local)
    return session.create_shared_durable_consumer(topic, name, selector)


def _print_all(
    receive: Callable[[float], Message | None], count: int, timeout: float, write: Callable[[Message], None]
) -> int:
    """How many were printed and acknowledged: each once it has really left this process, so that none repeats."""
    printed = 0
    while count == 0 or printed < count:
        message = receive(timeout)
        if message is None:
            break
        write(message)
        sys.stdout.flush()
        message.acknowledge()
        printed += 1
    return printed


def _print_json(message: Message) -> None:
    click.echo(json_line(as_values(message)))


def _write_raw(message: Message) -> None:
    body = body_of(message)
    if body is not None:
        click.echo(body if isinstance(body, bytes) else body_text(body), nl=False)


def _print(message: Message) -> None:
    text = body_text(body_of(message))
    # A file or a program gets a text as it was sent; it may steer a terminal.
    click.echo(printable(text, lines=True) if sys.stdout.isatty() else text)
