"""How commands get at a cluster and name a queue."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import click

from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.administered import IN_MEMORY
from jbm_kafka.admin.dead_letters.letter_arguments import letters_queue
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.render import printable
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, RESERVED_PREFIX, Queue, Topic
from jbm_kafka.core.jms_errors import ConnectionFailedError, InvalidDestinationError, JMSError, JMSSecurityError
from jbm_kafka.core.settings.address_settings import default_addresses
from jbm_kafka.core.settings.addresses import address_fault
from jbm_kafka.devbroker.probe import anybody_listens
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import AccessRefused, KafkaClientError, NobodyAnswers

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind", Queue, Topic)


def as_queue(context: click.Context, parameter: click.Parameter, value: str | None) -> Queue | None:
    """The queue of a name as people or messages write it: `orders`, `queue:orders`; wrong usage if it cannot be one."""
    if value is None:
        return None
    if value.startswith("topic:"):
        raise click.BadParameter(f"{value!r}: this is for queues only", context, parameter)
    return _made(Queue, value.removeprefix("queue:"), context, parameter)


def _made(kind: type[Kind], name: str, context: click.Context, parameter: click.Parameter) -> Kind:
    if name.startswith(RESERVED_PREFIX) or name.endswith(CHANGELOG_SUFFIX):
        fault = f"{name!r} is a topic of jbm-kafka's own, not a queue: jbm-kafka docs topics tells what is in it"
        raise click.BadParameter(fault, context, parameter)
    try:
        return kind(name)
    except InvalidDestinationError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def as_new(context: click.Context, parameter: click.Parameter, value: str) -> Queue | Topic:
    """Return what is to be made: a queue, unless `topic:` or an option says otherwise; wrong usage if it cannot be
    one."""
    if value.startswith("-"):
        fault = f"{value!r}: every command would take that for an option; choose a name that begins otherwise"
        raise click.BadParameter(fault, context, parameter)
    try:
        if value.startswith("topic:"):
            return Topic(value.removeprefix("topic:"))
        return Queue(value.removeprefix("queue:"))
    except InvalidDestinationError as error:
        raise click.BadParameter(str(error), context, parameter) from None


Named = Queue | Topic | str
"""A queue or a topic that exists. A name alone may be either; the cluster knows which."""


def as_named(context: click.Context, parameter: click.Parameter, value: str | None) -> Named | None:
    """`orders`, `queue:orders` or `topic:prices`: a name alone as such; wrong usage if it cannot be one."""
    found = as_destination(context, parameter, value)
    return found if found is None or value is None or value != found.name else value


def name_of(destination: Named) -> str:
    """Its name."""
    return destination if isinstance(destination, str) else destination.name


def looked_into(destination: Named, subscription: str | None) -> str:
    """The queue, or the subscription of the topic, for people."""
    name = name_of(destination)
    return f"queue:{name}" if subscription is None else f"topic:{name} subscription {printable(repr(subscription))}"


def as_address(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A dead-letter address: `DLQ`, `queue:DLQ` or `topic:letters`; wrong usage if it cannot be one."""
    fault = "the name is empty" if value == "" else address_fault(value)
    if fault is not None:
        raise click.BadParameter(f"{value!r}: {fault}", context, parameter)
    return value


LETTERS_SHOWN, EXPIRED_SHOWN = (f"{each}, or NAMESPACE.{each}" for each in default_addresses())
"""Default addresses as helps show them."""


def dead_letter_address_option(function: Function) -> Function:
    """`--dead-letter-address`; passed as `dead_letter_address`."""
    option = click.option(
        "--dead-letter-address",
        metavar="DEST",
        callback=as_address,
        show_default=LETTERS_SHOWN,
        help="Where they go when no process receives; else it goes by the settings there.",
    )
    return option(function)


def as_destination(context: click.Context, parameter: click.Parameter, value: str | None) -> Queue | Topic | None:
    """A queue or a topic: `orders`, `queue:orders`, `topic:prices`; wrong usage if it cannot be either."""
    if value is None or not value.startswith("topic:"):
        return as_queue(context, parameter, value)
    return _made(Topic, value.removeprefix("topic:"), context, parameter)


def as_letters_queue(context: click.Context, parameter: click.Parameter, value: str | None) -> Queue | None:
    """The queue in which dead letters are looked for; a topic is wrong usage. None: none was named."""
    try:
        return None if value is None else letters_queue(value)
    except InvalidDestinationError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def admin_of(cluster: Cluster) -> Admin:
    """An Admin, once a broker has answered and let us in; else a client would wait long and say less.

    Raises:
        ConnectionFailedError: nobody answers.
        JMSSecurityError: a broker is there and does not let us in.
    """
    contact(cluster)
    return Admin(cluster.bootstrap, kafka=cluster.kafka, namespace=cluster.namespace, large_bodies=cluster.large_bodies)


def connect(cluster: Cluster, *, client_id: str = "") -> Connection:
    """A connection that makes no queues: a misspelt name is an error. Raises as `admin_of` does."""
    contact(cluster)
    return factory_of(cluster, auto_create=False, client_id=client_id or None).create_connection()


def factory_of(cluster: Cluster, **settings: Any) -> ConnectionFactory:
    """A factory for it, with the other settings as of `ConnectionFactory`."""
    return ConnectionFactory(
        cluster.bootstrap,
        kafka=cluster.kafka,
        namespace=cluster.namespace,
        large_bodies=cluster.large_bodies,
        **settings,
    )


def within(cluster: Cluster, namespace: str) -> Cluster:
    """The same cluster, in a namespace inside its own; "": its own."""
    return replace(cluster, namespace=".".join(name for name in (cluster.namespace, namespace) if name))


def client_of(cluster: Cluster, **properties: Any) -> dict[str, Any]:
    """Properties of a client of Kafka's own; those that are given here, with `_` for `.`, win over the cluster's."""
    ours = {name.replace("_", "."): value for name, value in properties.items()}
    return {**cluster.kafka, "bootstrap.servers": cluster.bootstrap, **ours}


LOCAL_REMEDY = "start a local one with `jbm-kafka broker start`, or name yours with --bootstrap HOST:PORT"
FAR_REMEDY = "look after its brokers, or correct the address (JBM_BOOTSTRAP, --bootstrap HOST:PORT)"
"""For a cluster that was named: a new broker on this machine would be empty."""


def contact(cluster: Cluster, *, remedy: str = "") -> None:
    """Return when a broker has answered and let us in; `remedy` is what to do when none answers.

    Raises:
        ConnectionFailedError: nobody answers.
        JMSSecurityError: a broker is there and does not let us in.
    """
    if cluster.bootstrap.startswith(IN_MEMORY):
        return
    try:
        if not anybody_listens(cluster.bootstrap):
            raise NobodyAnswers(f"no Kafka answers at {cluster.bootstrap}", bootstrap=cluster.bootstrap)
        with closing(ConfluentKafka(cluster.bootstrap, cluster.kafka).admin()) as admin:
            admin.cluster_id()
    except AccessRefused as error:
        raise JMSSecurityError(f"Kafka at {cluster.bootstrap} does not let us in: {error}") from None
    except KafkaClientError as error:
        remedy = remedy or (FAR_REMEDY if cluster.is_named else LOCAL_REMEDY)
        kind = ConnectionFailedError if isinstance(error, NobodyAnswers) else JMSError
        raise kind(f"{error}; {remedy}", bootstrap=cluster.bootstrap) from None
