"""`jbm-kafka doctor`: what of an installation is not as it should be."""

from dataclasses import asdict
from typing import Literal

import click

from jbm_kafka.admin import Checkup, Finding
from jbm_kafka.admin.doctor.doctor_admin import DOCTOR_TIMEOUT_S
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import answer_timeout_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.render import json_line, printable, table

FOUND = 3
"""The exit code where something was found: 1 is for a look that failed, 2 for wrong usage."""
NAMES_SHOWN = 3


@click.command()
@click.option(
    "--as",
    "role",
    type=click.Choice(["look", "producer", "worker"]),
    default="look",
    show_default=True,
    help="Whose rights these credentials should have.",
)
@answer_timeout_option(least=0, default=DOCTOR_TIMEOUT_S)
@cluster_options
@json_option
def doctor(role: Literal["look", "producer", "worker"], timeout: float, cluster: Cluster, as_json: bool) -> int:
    """Look for what is not as it should be: replication, retention, changelogs, rights, clocks, versions, subscriptions
    that nobody uses, limits. Nothing is changed.

    The exit code is 0 where nothing was found, and 3 where something was.
    """
    with admin_of(cluster) as admin:
        found = admin.doctor(role=role, timeout_s=timeout)
    if as_json:
        values = [{**asdict(each), "kind": each.kind.value} for each in found.findings]
        click.echo(json_line({**asdict(found), "findings": values}))
    else:
        _show(found)
    return 0 if found.is_healthy else FOUND


def _show(found: Checkup) -> None:
    looked = f"{found.brokers} brokers, {found.topics} topics, {len(found.members)} processes that receive"
    for group, count in sorted(found.parked.items()):
        many = "an unknown number of" if count is None else count
        click.echo(f"{printable(group)}: {many} messages stand in its changelog alone")
    if found.is_healthy:
        click.echo(f"nothing found: {looked}")
        return
    click.echo(f"{len(found.findings)} found: {looked}")
    table(("kind", "of", "finding"), [(each.kind.value, _names(each), printable(each.text)) for each in found.findings])
    click.echo("\nRemedies")  # in lines of their own: they are copied, and a table would fold them
    for each in found.findings:
        click.echo(f"{each.kind.value} {_names(each)}: {printable(each.remedy)}")


def _names(found: Finding) -> str:
    more = len(found.about) - NAMES_SHOWN
    return printable(", ".join(found.about[:NAMES_SHOWN])) + (f" and {more} more (--json)" if more > 0 else "")
