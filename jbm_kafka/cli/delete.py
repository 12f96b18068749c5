"""`jbm-kafka delete`: a queue with everything that Kafka keeps of it."""

from contextlib import suppress

import click

from jbm_kafka.admin import DeletionReport
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import check_can_ask, json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named
from jbm_kafka.cli.render import json_line
from jbm_kafka.core.jms_errors import JMSError


@click.command()
@click.argument("destination", callback=as_named, metavar="NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also while processes receive from it, when its Kafka topic does not look "
              "like a queue, and a topic that other namespaces use, too.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would go; delete nothing.")
@cluster_options
@json_option
def delete(destination: Named, yes: bool, force: bool, dry_run: bool, cluster: Cluster, as_json: bool) -> None:
    """Delete a queue or topic with all its messages, for good, after asking: its Kafka topic, and what is kept of it.

    With it go its changelog, its consumer group and its record in the registry, in this namespace. A queue that is made
    anew under the name knows nothing of it. Processes with auto_create that go on make it again. What they receive from
    is left of it while they do: then the exit code is 1. A Kafka topic that other namespaces use, too, is kept.
    """
    with admin_of(cluster) as admin:
        try:
            report = admin.delete_destination(destination, force=force, dry_run=dry_run or not yes)
        except JMSError:
            if dry_run and not as_json:  # the caller asked what would go; the error below says why it would not
                with suppress(JMSError):
                    for line in _listed(admin.delete_destination(destination, force=True, dry_run=True)):
                        click.echo(line)
            raise
        if not (yes or dry_run):
            check_can_ask(as_json=as_json)
            for line in (*_listed(report), *_kept(report)):
                click.echo(line)
            if not click.confirm(f"delete {'this' if report.is_topic_kept else report.destination}?"):
                raise JMSError(f"{report.destination}: nothing was deleted")
            report = admin.delete_destination(destination, force=force)
    if as_json:
        click.echo(json_line(_values(report)))
    else:
        _print(report)
    in_use = _in_use(report)
    if in_use and not report.is_dry_run:
        raise JMSError(
            f"{report.destination}: left is {', '.join(in_use)}, for processes receive from it still; stop them, then "
            f"give the same command again, with --force"
        )


def _print(report: DeletionReport) -> None:
    if report.is_dry_run:
        for line in _listed(report):
            click.echo(line)
    for line in _kept(report):
        click.echo(line)
    if report.is_dry_run:
        for each in _in_use(report):
            click.echo(f"left: {each}, while processes receive from it")
    verb = "would be deleted" if report.is_dry_run else "deleted"
    if report.is_topic_kept:
        click.echo(f"{report.destination}: what this namespace keeps of it {verb}; its messages stay")
    else:
        click.echo(f"{report.destination} {verb}, {_messages(report)}")


def _in_use(report: DeletionReport) -> list[str]:
    """Return what is left of it as long as processes receive from it."""
    group = ["its consumer group"] if report.receivers else []
    return group + [f"subscription {each!r}" for each in report.in_use]


def _listed(report: DeletionReport) -> list[str]:
    """Return what goes, a line each."""
    record = [] if report.registry is None else [f"the record of {report.destination} in topic {report.registry}"]
    topics, groups = [f"topic {name}" for name in report.topics], [f"consumer group {name}" for name in report.groups]
    return [*topics, *groups, *record]


def _kept(report: DeletionReport) -> list[str]:
    """Return what stays though it looks as if it belonged to it, a line each."""
    return [f"kept: {each}" for each in report.kept]


def _messages(report: DeletionReport) -> str:
    if report.held is None:
        return "with all that is in it"
    return f"with {report.held} message{'' if report.held == 1 else 's'} that nobody received"


def _values(report: DeletionReport) -> dict[str, object]:
    return {
        "name": report.destination.name,
        "dry_run": report.is_dry_run,
        "topics": list(report.topics),
        "groups": list(report.groups),
        "registry": report.registry,
        "held": report.held,
        "receivers": report.receivers,
        "in_use": list(report.in_use),
        "kept": list(report.kept),
    }
