"""`jbm-kafka export | import | adopt`: what is held, in a file and back; and topics that others copied."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named
from jbm_kafka.cli.render import json_line, printable, table


@click.command(
    short_help="Write into a file what a queue or topic holds.", epilog="Example: jbm-kafka export orders orders.avro"
)
@click.argument("destination", callback=as_named, metavar="DEST")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@cluster_options
@json_option
def export(destination: Named, file: Path, cluster: Cluster, as_json: bool) -> None:
    """Write into a file what a queue, or each durable subscription of a topic, holds, with attempts and delays.

    It only looks: what receivers settle from then on is in the file all the same.
    """
    with admin_of(cluster) as admin:
        report = admin.export_messages(destination, file)
    if as_json:
        click.echo(json_line({**asdict(report), "destination": str(report.destination)}))
        return
    of = f" of {_several(report.subscriptions, 'subscription')}" if report.subscriptions else ""
    click.echo(printable(f"{report.destination}: {_messages(report.messages)}{of} in {report.file}"))
    if report.members:
        click.echo(
            f"  {_count(report.members, 'process receives', 'processes receive')}: what they settle from now on is in "
            f"the file all the same; to move the messages, stop them and export again"
        )
    if report.uncommitted:
        click.echo(f"  {_count(report.uncommitted, 'record', 'records')} of open transactions are not in it")


@click.command(
    name="import",
    short_help="Put there what a file of export has.",
    epilog="Example: jbm-kafka import orders.avro --to restored",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--to", "target", callback=as_named, metavar="DEST", help="Where they go; the name in the file unless given."
)
@cluster_options
@json_option
def import_(file: Path, target: Named | None, cluster: Cluster, as_json: bool) -> None:
    """Put what a file of `jbm-kafka export` has behind what a queue or topic holds, which is made if it is not there.

    Attempts, delays, order, subscriptions and duplicate ids are as they were. Nobody may receive from it meanwhile. The
    same file again writes nothing twice, so after a failure give the same command again.
    """
    with admin_of(cluster) as admin:
        report = admin.import_messages(file, to=target)
    if as_json:
        click.echo(json_line({**asdict(report), "destination": str(report.destination)}))
        return
    present = f", {report.present} were there already by an import of this file" if report.present else ""
    click.echo(printable(f"{report.destination}: {_messages(report.messages)} imported{present}"))
    if report.subscriptions:
        click.echo(printable(f"  subscriptions: {', '.join(report.subscriptions)}"))


class _Begin(click.ParamType):  # type: ignore[type-arg]
    name = "begin"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> Literal["begin", "end", "held"] | Mapping[int, int]:
        if value == "begin" or value == "end" or value == "held":
            return value
        try:
            pairs = [each.split("=") for each in str(value).split(",")]
            return {int(partition): int(offset) for partition, offset in pairs}
        except ValueError:
            self.fail(f"{value!r} is none of begin, end, held, or offsets such as 0=12,1=40", parameter, context)


@click.command(
    short_help="Take a topic that other tools copied, such as MirrorMaker.",
    epilog="Example: jbm-kafka adopt orders --from end",
)
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option(
    "--from",
    "begin",
    required=True,
    type=_Begin(),
    metavar="PLACE",
    help="Where receivers begin: begin or end of the log; 0=12,1=40 by partition; held: with what was held, where "
    "topic and changelog were copied with equal offsets.",
)
@cluster_options
@json_option
def adopt(
    destination: Named, begin: Literal["begin", "end", "held"] | Mapping[int, int], cluster: Cluster, as_json: bool
) -> None:
    """Take a Kafka topic that other tools copied, for a queue, or with topic: in front for each durable subscription.

    A copy has another Kafka id than its source, so a copied changelog counts for nothing until this is done.
    """
    with admin_of(cluster) as admin:
        found = admin.adopt(destination, begin=begin)
    if as_json:
        click.echo(json_line({**asdict(found), "destination": str(found.destination)}))
        return
    comes = (
        "what was settled, attempts, delays and duplicate ids come with it"
        if found.has_held
        else ("nothing but messages comes with it: no attempts, delays or duplicate ids")
    )
    click.echo(printable(f"{found.destination}: adopted; {comes}"))
    click.echo(f"  {_count(found.records, 'record is', 'records are')} in the log from there on")
    rows = [(name, partition, offset) for name, its in found.begins.items() for partition, offset in its.items()]
    table(("for", "partition", "begins at"), [(printable(name), *rest) for name, *rest in rows])
    if found.is_kept:
        click.echo(
            printable(
                f"  jbm-kafka did not make the topic, so nothing of it is deleted by itself: "
                f"jbm-kafka settings set {found.destination.name} truncate=settled"
            )
        )


def _messages(count: int) -> str:
    return _count(count, "message", "messages")


def _several(names: tuple[str, ...], what: str) -> str:
    return _count(len(names), what, f"{what}s")


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
