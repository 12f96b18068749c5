"""`jbm-kafka prepared list | resolve`: branches of transactions of several systems that wait for a decision."""

from dataclasses import asdict
from typing import Literal

import click

from jbm_kafka.admin import PreparedTransaction
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, emit, json_list_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table, when


@click.group(name="prepared", cls=CommandGroup)
def prepared() -> None:
    """Prepared branches of transactions of several systems (XA): list them, or decide one."""


@prepared.command(name="list")
@cluster_options
@json_list_option
def list_prepared(cluster: Cluster, as_json: bool) -> None:
    """List the branches that wait for their transaction manager, the oldest first."""
    with admin_of(cluster) as admin:
        found = admin.prepared()
    if as_json:
        click.echo(json_line([_values(each) for each in found]))
        return
    if not found:
        click.echo("no prepared branches")
        return
    rows = [
        (printable(str(each.xid)), when(each.prepared_at_ms), printable(each.process),
         " ".join(f"{group}:{count}" for group, count in sorted(each.received.items())), each.sends,
         "; ".join(f"{place}: {why}" for place, why in sorted(each.heuristic.items())))
        for each in found
    ]  # fmt: skip
    table(("xid", "since (UTC)", "prepared by", "received", "sends", "gone without a decision"), rows)


@prepared.command(short_help="Decide a branch whose manager does not.")
@click.argument("xid", metavar="XID", type=Text())
@click.argument("decision", type=click.Choice(["commit", "rollback"]))
@cluster_options
@json_option
def resolve(xid: str, decision: Literal["commit", "rollback"], cluster: Cluster, as_json: bool) -> None:
    """Commit or roll back a prepared branch whose transaction manager does not. XID is as the list shows it."""
    with admin_of(cluster) as admin:
        ended = admin.resolve(xid, decision)
    done = "committed" if decision == "commit" else "rolled back"
    emit(_values(ended), f"{printable(xid)}: {done}; its other systems are not told", as_json=as_json)


def _values(found: PreparedTransaction) -> dict[str, object]:
    return asdict(found) | {"xid": str(found.xid)}
