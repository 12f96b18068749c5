"""`jbm-kafka cron list | pause | resume | run | remove`: the schedules of workers."""

from dataclasses import asdict

import click

from jbm_kafka.admin import ListedSchedule
from jbm_kafka.admin.pausing import operator_name
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, emit, json_list_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table, when
from jbm_kafka.core.jms_errors import InvalidSettingError

QUEUE = click.argument("queue", metavar="QUEUE", type=Text())
NAME = click.argument("name", metavar="NAME", type=Text())


def _as_operator(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else operator_name(value)
    except InvalidSettingError as error:
        raise click.BadParameter(str(error).removeprefix("by is "), context, parameter) from None


@click.group(name="cron", cls=CommandGroup)
def cron() -> None:
    """Schedules, which workers have by @worker.cron: list, pause, resume, run now, remove."""


@cron.command(name="list")
@cluster_options
@json_list_option
def list_schedules(cluster: Cluster, as_json: bool) -> None:
    """List the schedules with their lines, the last run and the next."""
    with admin_of(cluster) as admin:
        found = admin.schedules()
    if as_json:
        click.echo(json_line([asdict(each) for each in found]))
        return
    if not found:
        click.echo("no schedules")
        return
    rows = [
        (each.queue, printable(each.name), printable(each.line), printable(each.zone), each.missed,
         when(each.ran_at_ms) if each.ran_at_ms else "never", _next(each))
        for each in found
    ]  # fmt: skip
    table(("queue", "name", "line", "zone", "missed", "last (UTC)", "next (UTC)"), rows)


@cron.command(name="pause", short_help="Have no runs until it is resumed.")
@QUEUE
@NAME
@click.option("--by", metavar="WHO", type=Text(), callback=_as_operator, help="The name that people read. [user@host]")
@cluster_options
@json_option
def pause_schedule(queue: str, name: str, by: str | None, cluster: Cluster, as_json: bool) -> None:
    """Have no runs until `jbm-kafka cron resume`. Those that are due meanwhile are not made up."""
    with admin_of(cluster) as admin:
        found = admin.pause_schedule(queue, name, by=by)
    text = f"paused by {printable(found.paused_by)} since {when(found.paused_at_ms)} UTC"
    emit(asdict(found), f"{queue} {printable(name)}: {text}", as_json=as_json)


@cron.command(name="resume", short_help="Have runs again.")
@QUEUE
@NAME
@cluster_options
@json_option
def resume_schedule(queue: str, name: str, cluster: Cluster, as_json: bool) -> None:
    """Have runs again, from now on. Also where a clock was ahead, and the last run lies in the future."""
    with admin_of(cluster) as admin:
        found = admin.resume_schedule(queue, name)
    emit(asdict(found), f"{queue} {printable(name)}: next {_next(found)}", as_json=as_json)


@cron.command(name="run", short_help="Send one run more, now.")
@QUEUE
@NAME
@cluster_options
@json_option
def run_schedule(queue: str, name: str, cluster: Cluster, as_json: bool) -> None:
    """Send one run more, now. The schedule's own runs stay as they are; a paused one may be run, too."""
    with admin_of(cluster) as admin:
        found = admin.run_schedule(queue, name)
    emit(asdict(found), f"{queue} {printable(name)}: a run was sent; next {_next(found)}", as_json=as_json)


@cron.command(name="remove", short_help="Forget a schedule that no worker has any more.")
@QUEUE
@NAME
@cluster_options
@json_option
def remove_schedule(queue: str, name: str, cluster: Cluster, as_json: bool) -> None:
    """Forget a schedule. Workers that run have no runs of it any more; one that starts with it makes it anew."""
    with admin_of(cluster) as admin:
        found = admin.remove_schedule(queue, name)
    emit(asdict(found), f"{queue} {printable(name)}: forgotten", as_json=as_json)


def _next(schedule: ListedSchedule) -> str:
    if schedule.paused_by:
        return f"paused by {printable(schedule.paused_by)}"
    return "unknown time zone here" if schedule.next_at_ms is None else when(schedule.next_at_ms)
