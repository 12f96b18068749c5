"""How commands get at a cluster and name a queue."""

import click

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.errors import InvalidDestinationError, JMSError
from jbm_kafka.devbroker import anybody_answers


def as_queue(context: click.Context, parameter: click.Parameter, value: str | None) -> Queue | None:
    """The queue of a name as people or messages write it: `orders`, `queue:orders`; wrong usage if it cannot be one."""
    if value is None:
        return None
    if value.startswith("topic:"):
        raise click.BadParameter(f"{value!r}: this version has queues only", context, parameter)
    try:
        return Queue(value.removeprefix("queue:"))
    except InvalidDestinationError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def reach(bootstrap: str) -> str:
    """The address, once a broker has answered there; else a client would wait long and say less.

    Raises:
        JMSError: none does.
    """
    if not anybody_answers(bootstrap):
        raise JMSError(
            f"no Kafka answers at {bootstrap}; start a local one with `jbm-kafka broker start`, "
            "or name yours with --bootstrap HOST:PORT",
            bootstrap=bootstrap,
        )
    return bootstrap


def later(option: str, given: str | None, instead: str = "leave it out and filter the output of --json") -> None:
    """Wrong usage when an option is given that this version does not have yet; `instead` is what to do until then."""
    if given is not None:
        raise click.UsageError(f"{option} comes with a later version; {instead}")
