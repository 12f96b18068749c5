"""`jbm-kafka readers list | end`: readers without a group, for which nothing that they have not read is deleted."""

from dataclasses import asdict

import click

from jbm_kafka.admin import RegisteredReader
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, emit, json_list_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table, when
from jbm_kafka.ports.clock import SystemClock


@click.group(name="readers", cls=CommandGroup)
def readers() -> None:
    """Spark queries and archives that read topics: list them, or end one that does not run any more."""


@readers.command(name="list")
@cluster_options
@json_list_option
def list_readers(cluster: Cluster, as_json: bool) -> None:
    """List the registered readers with what each has read, and until when the rest is kept for it."""
    with admin_of(cluster) as admin:
        found = admin.readers()
    now_ms = SystemClock().now_ms()
    if as_json:
        click.echo(json_line([_values(each) | {"counts": each.counts(now_ms)} for each in found]))
        return
    if not found:
        click.echo("no registered readers")
        return
    rows = [
        (each.topic, each.kind, printable(each.name), _positions(each), when(each.at_ms),
         when(each.lease_until_ms) if each.counts(now_ms) else "forgotten")
        for each in found
    ]  # fmt: skip
    table(("topic", "kind", "name", "read up to", "at (UTC)", "kept until (UTC)"), rows)


@readers.command(short_help="Keep nothing for a reader any more.")
@click.argument("name", metavar="NAME", type=Text())
@click.option("--kind", metavar="KIND", default="spark", show_default=True, type=Text(), help="As the list shows it.")
@cluster_options
@json_option
def end(name: str, kind: str, cluster: Cluster, as_json: bool) -> None:
    """Keep nothing for a reader any more. One that still runs registers itself again."""
    with admin_of(cluster) as admin:
        ended = admin.end_reader(name, kind=kind)
    emit(_values(ended), f"{printable(name)}: nothing of {ended.topic} is kept for it any more", as_json=as_json)


def _positions(reader: RegisteredReader) -> str:
    return " ".join(f"{partition}:{position}" for partition, position in sorted(reader.positions.items()))


def _values(reader: RegisteredReader) -> dict[str, object]:
    return asdict(reader)
