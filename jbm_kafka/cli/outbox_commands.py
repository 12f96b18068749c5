"""`jbm-kafka outbox create | relay | list | retry | drop`: messages that wait in a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, Whole, emit, json_list_option, json_option
from jbm_kafka.cli.connect import contact
from jbm_kafka.cli.ending import until_asked_to_end
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table, when
from jbm_kafka.jms.xa import XAConnectionFactory

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from jbm_kafka.outbox import Outbox

_Function = TypeVar("_Function", bound=Callable[..., Any])
NEEDED = "this needs SQLAlchemy: pip install 'jbm-kafka[outbox]'"


def database_options(function: _Function) -> _Function:
    """`--database`, `--table` and `--schema`."""
    for option in (
        click.option("--schema", metavar="NAME", help="Where the table is. [where the user looks first]"),
        click.option("--table", "name", metavar="NAME", default="jbm_outbox", show_default=True, help="The outbox."),
        click.option(
            "--database",
            metavar="URL",
            type=Text(),
            envvar="JBM_OUTBOX_DATABASE",
            required=True,
            help="As SQLAlchemy has it: postgresql://host/shop, sqlite:///shop.db. With a password rather in "
            "[JBM_OUTBOX_DATABASE].",
        ),
    ):
        function = option(function)
    return function


@click.group(name="outbox", cls=CommandGroup)
def outbox() -> None:
    """Messages that wait in a database: send them, and look after those that could not be sent."""


@outbox.command()
@database_options
def create(database: str, name: str, schema: str | None) -> None:
    """Make the table, unless it is there."""
    with _opened(database, name, schema) as (engine, found):
        found.create_all(engine)
    click.echo(f"{found.full_name} is there")


@outbox.command()
@database_options
@click.option("--batch", metavar="N", type=Whole(1, 10_000), default=500, show_default=True,
              help="So many messages at most in one transaction.")  # fmt: skip
@click.option("--poll-ms", metavar="MS", type=Whole(1, 3_600_000), default=500, show_default=True,
              help="How often it looks when nothing waits.")  # fmt: skip
@click.option("--keep-sent-ms", metavar="MS", type=Whole(0), default=3_600_000, show_default=True,
              help="How long rows are kept that were sent.")  # fmt: skip
@click.option("--on-failed", type=click.Choice(["hold", "go-on"]), default="hold", show_default=True,
              help="What becomes of a unit behind a message that cannot be sent.")  # fmt: skip
@click.option("--exactly-once", is_flag=True,
              help="After a crash nothing is sent again, by XA. All relays of a table do so, or none.")  # fmt: skip
@click.option("--metrics-port", metavar="N", type=Whole(0, 65_535), help="Serve /metrics, /healthz and /readyz there.")
@cluster_options
def relay(
    database: str, name: str, schema: str | None, batch: int, poll_ms: int, keep_sent_ms: int,
    on_failed: Literal["hold", "go-on"], exactly_once: bool, metrics_port: int | None, cluster: Cluster,
) -> None:  # fmt: skip
    """Send what waits, until SIGTERM or Ctrl-C. Any number may run at once; queues are not made."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    contact(cluster)
    factory = XAConnectionFactory(
        cluster.bootstrap, kafka=cluster.kafka, namespace=cluster.namespace, auto_create=False
    )
    with _opened(database, name, schema, on_failed=on_failed) as (engine, found):
        from jbm_kafka.outbox import Relay

        with engine.connect() as connection:
            found.counts(connection)  # a missing table is said now, and not again and again in the log
        sending = Relay(
            engine, factory, found, batch=batch, poll_ms=poll_ms, keep_sent_ms=keep_sent_ms, exactly_once=exactly_once
        )
        server = nullcontext() if metrics_port is None else _metrics_server(metrics_port, engine, found, sending)
        with until_asked_to_end() as wait, sending, server:
            click.echo(f"sends what waits in {found.full_name}", err=True)
            wait()
        click.echo(f"{sending.sent_count} sent", err=True)


@outbox.command(name="list")
@database_options
@click.option("--state", type=click.Choice(["failed", "waiting", "sent"]), default="failed", show_default=True,
              help="Which ones.")  # fmt: skip
@click.option("--count", metavar="N", type=Whole(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@json_list_option
def list_rows(database: str, name: str, schema: str | None, state: str, count: int, as_json: bool) -> None:
    """List messages that could not be sent, with the reason; or those that wait, or were sent."""
    with _opened(database, name, schema) as (engine, found), engine.connect() as connection:
        rows = found.rows(connection, state=state, limit=count)
        counts = found.counts(connection)
    if as_json:
        click.echo(json_line([asdict(row) for row in rows]))
        return
    click.echo(f"{counts.waiting} waiting, {counts.failed} failed, {counts.sent} sent and kept")
    if rows:
        table(
            ("id", "to", "unit", "added (UTC)", "bytes", "attempts", "reason"),
            [
                (row.id, row.destination, "" if row.unit is None else printable(row.unit), when(row.added_at_ms),
                 row.size_bytes, row.attempts, "" if row.reason is None else printable(row.reason))
                for row in rows
            ],
        )  # fmt: skip


@outbox.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=Whole(1))
@click.option("--all", "is_all", is_flag=True, help="All that failed.")
@database_options
@json_option
def retry(ids: tuple[int, ...], is_all: bool, database: str, name: str, schema: str | None, as_json: bool) -> None:
    """Have messages sent again that could not be sent, by their ids in the list."""
    count = _change(database, name, schema, ids, is_all, lambda found, there, chosen: found.retry(there, chosen))
    emit({"retried": count}, f"{count} to be sent again", as_json=as_json)


@outbox.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=Whole(1))
@click.option("--all", "is_all", is_flag=True, help="All that failed.")
@database_options
@json_option
def drop(ids: tuple[int, ...], is_all: bool, database: str, name: str, schema: str | None, as_json: bool) -> None:
    """Delete messages for good that could not be sent, by their ids in the list; their units go on."""
    count = _change(database, name, schema, ids, is_all, lambda found, there, chosen: found.drop(there, chosen))
    emit({"dropped": count}, f"{count} dropped", as_json=as_json)


def _change(
    database: str,
    name: str,
    schema: str | None,
    ids: tuple[int, ...],
    is_all: bool,
    change: Callable[[Outbox, Connection, tuple[int, ...] | None], int],
) -> int:
    if is_all == bool(ids):
        raise click.UsageError("give the ids of the list, or --all")
    with _opened(database, name, schema) as (engine, found), engine.begin() as connection:
        count = change(found, connection, None if is_all else ids)
        if count < len(set(ids)):
            raise click.ClickException(
                f"{len(set(ids)) - count} of {len(set(ids))} ids are of no failed message; nothing was changed"
            )
    return count


@contextmanager
def _opened(database: str, name: str, schema: str | None, **settings: Any) -> Iterator[tuple[Engine, Outbox]]:
    """The outbox in its database; what that refuses is a line."""
    try:
        from sqlalchemy import create_engine, make_url
        from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    except ModuleNotFoundError:
        raise click.ClickException(NEEDED) from None
    from jbm_kafka.outbox import Outbox
    from jbm_kafka.outbox.caller_connection import lacks_table

    try:
        url = make_url(database)
    except ArgumentError:
        raise click.UsageError("--database is no URL; write postgresql://USER@HOST/NAME or sqlite:///FILE") from None
    try:
        if url.drivername == "postgresql":  # else SQLAlchemy takes psycopg2
            url = url.set(drivername="postgresql+psycopg")
        engine = create_engine(url)
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise click.UsageError(f"--database: {error}; the driver of PostgreSQL is pip install psycopg") from None
    try:
        yield engine, Outbox(name, schema=schema, **settings)
    except SQLAlchemyError as error:
        line = str(getattr(error, "orig", error)).splitlines()[0]
        remedy = "; `jbm-kafka outbox create` makes the table" if lacks_table(error) else ""
        raise click.ClickException(f"the database says: {line}{remedy}") from None
    finally:
        engine.dispose()


def _metrics_server(port: int, engine: Engine, found: Outbox, sending: Any) -> Any:
    try:
        from jbm_kafka.metrics.server import MetricsServer
        from jbm_kafka.outbox import OutboxCollector
    except ImportError:
        raise click.UsageError("--metrics-port needs prometheus-client: pip install 'jbm-kafka[metrics]'") from None
    return MetricsServer(port, lambda: sending, OutboxCollector(engine, found, sending))
