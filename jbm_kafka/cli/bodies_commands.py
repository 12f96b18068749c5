"""`jbm-kafka bodies list | remove`: large bodies in their store beside Kafka."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from jbm_kafka.admin import BodiesRemoved
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, check_can_ask, emit, json_list_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, table, when


@click.group(name="bodies", cls=CommandGroup)
def bodies() -> None:
    """Large bodies, which are kept beside Kafka (jbm-kafka docs large-bodies). Where: JBM_LARGE_BODIES, or large_bodies
    in the config file."""


@bodies.command(name="list")
@click.option("--names", is_flag=True, help="Look whether Kafka still names each: reads all topics of the cluster.")
@cluster_options
@json_list_option
def list_bodies(names: bool, cluster: Cluster, as_json: bool) -> None:
    """List the bodies in the store, oldest first."""
    with admin_of(cluster) as admin:
        found = admin.large_bodies(with_names=names)
    if as_json:
        click.echo(json_line([asdict(each) for each in found]))
        return
    if not found:
        click.echo("no large bodies")
        return
    named = {True: "yes", False: "no", None: "not looked for"}
    rows = [(each.name, each.size_bytes, when(each.kept_at_ms), named[each.is_named]) for each in found]
    table(("name", "bytes", "kept (UTC)", "named"), rows)


@bodies.command(short_help="Remove bodies by age, or those that nothing names.")
@click.option("--unnamed", is_flag=True, help="Those that nothing in Kafka names: reads all topics of the cluster.")
@click.option(
    "--older-than",
    type=Seconds(0, 1e9),
    metavar="S",
    help="Those of that age in seconds, whoever needs them; with --unnamed at least 3600. [with --unnamed 86400]",
)
@click.option(
    "--named-in",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    multiple=True,
    help="With --unnamed: a file with names to keep, one a line, as archives and exported files have them.",
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; tell what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
@json_option
def remove(
    unnamed: bool,
    older_than: float | None,
    named_in: Sequence[Path],
    dry_run: bool,
    yes: bool,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Remove bodies by age, or those that nothing names.

    By age alone it is not asked who needs them: a message that is still to be delivered becomes a dead letter then.
    """
    if not (unnamed or older_than is not None):
        raise click.UsageError("say which: --unnamed, or --older-than S")
    names = {line.strip() for file in named_in for line in file.read_text().splitlines()} if named_in else None
    with admin_of(cluster) as admin:

        def removed(*, dry_run: bool) -> BodiesRemoved:
            return admin.remove_large_bodies(
                older_than_s=older_than, unnamed=unnamed, named_elsewhere=names, dry_run=dry_run
            )

        if not (dry_run or yes):
            check_can_ask(as_json=as_json)
            click.confirm(f"{_words(removed(dry_run=True))}. Go on?", abort=True, err=True)
        report = removed(dry_run=dry_run)
    values = {**asdict(report), "removed_bytes": report.removed_bytes}
    emit(values, _words(report), as_json=as_json)


def _words(report: BodiesRemoved) -> str:
    goes = "would be removed" if report.dry_run else "removed"
    return f"{len(report.removed)} bodies of {report.removed_bytes} bytes {goes}, {report.kept} are kept"
