"""`jbm-kafka subscriptions list | create | delete | release`: the subscriptions of topics."""

from dataclasses import asdict

import click

from jbm_kafka.admin import SubscriptionCounts
from jbm_kafka.admin.cluster.subscription_counts import to_be_ended
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, check_can_ask, emit, json_list_option, json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named, name_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.pause_commands import pause_text
from jbm_kafka.cli.render import at_most, json_line, printable, table, when
from jbm_kafka.core.jms_errors import JMSError


@click.group(name="subscriptions", cls=CommandGroup)
def subscriptions() -> None:
    """Subscriptions of topics: list them, make or end a durable one, or release it to others."""


@subscriptions.command(name="list")
@click.argument("topic", required=False, metavar="[TOPIC]", callback=as_named)
@cluster_options
@json_list_option
def list_subscriptions(topic: Named | None, cluster: Cluster, as_json: bool) -> None:
    """List the subscriptions of a topic, or all, with what each has not received."""
    with admin_of(cluster) as admin:
        found = admin.subscriptions(None if topic is None else name_of(topic))
        pauses = {} if as_json else {each: admin.paused(each) for each in dict.fromkeys(sub.topic for sub in found)}
    if as_json:
        click.echo(json_line([_values(each) for each in found]))
        return
    if not found:
        click.echo("no subscriptions" if topic is None else f"no subscriptions of {name_of(topic)}")
        return
    rows = [
        (each.topic.name, each.kind, printable(each.name), printable(each.client_id), at_most(each.held_at_most),
         each.members, when(each.created_ms), printable(each.owner))
        for each in found
    ]  # fmt: skip
    table(("topic", "kind", "name", "client id", "held", "receivers", "made (UTC)", "user"), rows)
    for paused, pause in pauses.items():
        if pause:
            click.echo(f"{paused.name}: {pause_text(pause)}")


@subscriptions.command(short_help="Make a durable subscription before anybody receives by it.")
@click.argument("topic", metavar="TOPIC", callback=as_named)
@click.argument("name", metavar="NAME", type=Text())
@click.option("--client-id", default="", metavar="ID", type=Text(), help="The client id it belongs to. [none]")
@click.option("--shared", is_flag=True, help="Any number of consumers may receive by it; needs no client id.")
@click.option("--selector", metavar="TEXT", help="Which messages it has, as in JMS: \"region = 'EU'\". [all]")
@click.option("--no-local", is_flag=True, help="It leaves out what its own connection sends.")
@cluster_options
@json_option
def create(
    topic: Named, name: str, client_id: str, shared: bool, selector: str | None, no_local: bool, cluster: Cluster,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a durable subscription: it has what is sent to TOPIC from now on, though nobody receives yet.

    A program that creates the consumer of this name, with this client id and selector, goes on with it.
    """
    if not (shared or client_id):
        raise click.UsageError("give --client-id ID, or --shared: a subscription of no client id is shared")
    if shared and no_local:
        raise click.UsageError("--no-local goes with --client-id: a shared subscription has what anybody sends")
    with admin_of(cluster) as admin:
        is_new = admin.create_subscription(
            name_of(topic), name, client_id=client_id, shared=shared, selector=selector, no_local=no_local
        )
    text = f"{name} of topic:{name_of(topic)} {'created' if is_new else 'exists already'}"
    emit({"topic": name_of(topic), "name": name, "client_id": client_id, "created": is_new}, text, as_json=as_json)


@subscriptions.command(short_help="End a durable subscription.")
@click.argument("name", metavar="NAME", type=Text())
@click.option("--client-id", default="", metavar="ID", type=Text(), help="The client id it belongs to. [none]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show which is meant, and what it has not received; end nothing.")
@cluster_options
@json_option
def delete(name: str, client_id: str, yes: bool, dry_run: bool, cluster: Cluster, as_json: bool) -> None:
    """End a durable subscription for good: it never gets what it has not received. Stop its receivers before."""
    with admin_of(cluster) as admin:
        meant = to_be_ended(admin.subscriptions(), name, client_id)
        if not (yes or dry_run):
            check_can_ask(as_json=as_json)
            if not click.confirm(f"end the durable subscription {name!r} of {meant.topic}?"):
                raise JMSError(f"{name} of {meant.topic}: it was not ended")
        ended = meant if dry_run else admin.unsubscribe(name, client_id=client_id)
    verb = "would be ended" if dry_run else "ended"
    text = f"{name} of {ended.topic} {verb}, with {at_most(ended.held_at_most)} messages that it had not received"
    emit({**_values(ended), "dry_run": dry_run}, text, as_json=as_json)


@subscriptions.command(short_help="Let a durable subscription be another AMQP user's.")
@click.argument("name", metavar="NAME", type=Text())
@click.option("--client-id", default="", metavar="ID", type=Text(), help="The client id it belongs to. [none]")
@cluster_options
@json_option
def release(name: str, client_id: str, cluster: Cluster, as_json: bool) -> None:
    """Let a durable subscription be nobody's: the next AMQP user that attaches to it has it, and what it holds."""
    with admin_of(cluster) as admin:
        found = admin.release_subscription(name, client_id=client_id)
    was = f"was user {found.owner}'s, and is" if found.owner else "was and is"
    emit(_values(found), printable(f"{name} of {found.topic} {was} nobody's"), as_json=as_json)


def _values(counts: SubscriptionCounts) -> dict[str, object]:
    return {**asdict(counts), "topic": counts.topic.name}
