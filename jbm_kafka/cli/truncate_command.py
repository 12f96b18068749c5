"""`jbm-kafka truncate`: what the log of a destination keeps, and the deletion of what nobody needs."""

from dataclasses import asdict

import click

from jbm_kafka.admin import Truncation
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named
from jbm_kafka.cli.render import json_line, printable, table, when

KEEPERS_SHOWN = 5


@click.command()
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show who needs what.")
@cluster_options
@json_option
def truncate(destination: Named, dry_run: bool, cluster: Cluster, as_json: bool) -> None:
    """Delete from the log what every queue, subscription, reader and consumer group is done with.

    Processes that receive do it by themselves where the setting `truncate` says so. Brokers free whole closed segments.
    """
    with admin_of(cluster) as admin:
        found = admin.truncate(destination, dry_run=dry_run)
    if as_json:
        click.echo(json_line({**asdict(found), "deletable": found.deletable, "kept": found.kept, "dry_run": dry_run}))
        return
    click.echo(f"{destination}: {kept_words(found, is_done=not dry_run)}")
    rows = [
        (each.partition, each.begin, each.needed_from, each.end, printable(", ".join(each.needed_by)))
        for each in found.partitions
        if each.end > each.begin
    ]
    if rows:
        table(("partition", "begin", "needed from", "end", "needed by"), rows)
    show_keepers(found)


def show_keepers(found: Truncation) -> None:
    """For whom most is kept, since when, and what lets it go: a line each."""
    for each in found.keepers[:KEEPERS_SHOWN]:
        since = f", the oldest sent {when(each.since_ms)} UTC" if each.since_ms else ""
        click.echo(printable(f"  {each.records} for {each.name}{since}; {each.remedy}"))
    if len(found.keepers) > KEEPERS_SHOWN:
        click.echo(
            f"  and {len(found.keepers) - KEEPERS_SHOWN} more: jbm-kafka truncate {found.destination} --dry-run --json"
        )


def kept_words(found: Truncation, *, is_done: bool) -> str:
    """Return what is kept and what may go, in a line."""
    if found.because:
        return f"nothing may be deleted: {found.because}"
    remedy = f"jbm-kafka settings set {found.destination} truncate=settled"
    gone = f"{found.deletable} records that nobody needs {'are deleted' if is_done else 'may be deleted'}"
    by_hand = f"; by itself nothing is deleted: {found.not_by_itself} ({remedy})" if found.not_by_itself else ""
    return f"{gone}, {found.kept} are kept{by_hand}"
