"""`jbm-kafka provision`: all topics of an installation, and the rights of those who use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.cluster.catalog import DEFAULT_PARTITIONS
from jbm_kafka.admin.provisioning import provision as provisioned
from jbm_kafka.cli.cluster_options import Configured, configuration_options
from jbm_kafka.cli.cluster_settings import SettingsFault
from jbm_kafka.cli.command_options import Whole, json_option
from jbm_kafka.cli.connect import contact
from jbm_kafka.cli.render import json_line, table
from jbm_kafka.cli.rules_text import FORMATS, Rules, as_values
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.settings.address_settings import default_addresses
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_kafka.registry.topic_plan import TopicStep, TopicWish

if TYPE_CHECKING:
    from jbm_kafka.configuration.models import DestinationsTable

TIMEOUT_S = 30.0
ROLES = ", ".join(role.value for role in Role)
_ROLE = "|".join(role.value for role in Role)
_NEXT_ROLE = re.compile(rf",(?=(?:{_ROLE}):)")
"""A comma within a principal, such as a certificate's name, separates nothing."""


@click.command()
@click.option("--file", "file", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
         help="That of --config, by its older name.")  # fmt: skip
@click.option(
    "--queues", metavar="NAME[:N],…", multiple=True, help="Queues, each with its number of partitions if need be."
)
@click.option("--topics", metavar="NAME[:N],…", multiple=True, help="Topics, the same.")
@click.option("--letters", metavar="DEST,…", multiple=True,
         help="Dead-letter and expiry addresses. [the namespace's own]")  # fmt: skip
@click.option("--partitions", metavar="N", type=Whole(1, 10_000), help=f"Of what is made. [{DEFAULT_PARTITIONS}]")
@click.option("--events-partitions", metavar="N", type=Whole(SYSTEM_PARTITIONS, 10_000),
         help=f"Of jbm.events. [{SYSTEM_PARTITIONS}]")  # fmt: skip
@click.option("--max-message-bytes", metavar="N", type=Whole(1),
         help="That queues and topics take; the others get more. [the brokers' default]")  # fmt: skip
@click.option("--replication", metavar="N", type=Whole(1, 32_767), help="Of what is made. [the brokers' default]")
@click.option(
    "--min-isr", metavar="N", type=Whole(1, 32_767), help="min.insync.replicas of all. [the brokers' default]"
)
@click.option(
    "--roles", metavar="ROLE:PRINCIPAL,…", multiple=True, help=f"Who is what, as in worker:User:app. Roles: {ROLES}."
)
@click.option(
    "--acls",
    "acls",
    type=click.Choice(list(FORMATS)),
    help="Only print the rights of --roles; nothing is asked or made.",
)
@click.option("--set-acls", "sets_acls", is_flag=True, help="Set the rights of --roles, too.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be done.")
@configuration_options
@json_option
def provision(
    file: str | None,
    acls: str | None,
    sets_acls: bool,
    dry_run: bool,
    configured: Configured,
    as_json: bool,
    **given: Any,
) -> None:
    """Make every topic that a namespace needs, so that its programs need no right to make any; and give them theirs.

    What these options do not say [destinations] of the configuration may. What is there as asked is left alone.
    Partitions of queues and topics are never changed here.
    """
    configured = configured.at(file)
    cluster = configured.cluster()
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value}
    asked = configured.loaded.tables.destinations.model_copy(update=said)
    try:
        wish = wish_of(asked, cluster.namespace)
    except SettingsFault as fault:
        raise click.UsageError(str(fault)) from None
    roles = _roles(asked.roles)
    if bool(roles) != bool(acls or sets_acls):
        raise click.UsageError("give --roles, and --acls FORMAT or --set-acls beside it")
    installation = NamespaceTopics(wish.namespace, list(wish.destinations), list(wish.letters))
    rules = {principal: rules_of(each, installation) for principal, each in roles.items()}
    if acls:
        click.echo(FORMATS[acls](rules, cluster.bootstrap))
        return
    contact(cluster)
    with closing(AdminCore(cluster.bootstrap, cluster.kafka, cluster.namespace, TIMEOUT_S)) as core:
        steps = provisioned(core, wish, dry_run=dry_run)
        if sets_acls and not dry_run:
            with core.asking("set access rules"):
                for principal, each in rules.items():
                    core.admin.allow(principal, each)
    _show(steps, rules, dry_run=dry_run, as_json=as_json)


def _show(steps: Sequence[TopicStep], rules: Rules, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        topics = [
            {
                "topic": step.topic,
                "role": step.role,
                "partitions": step.partitions,
                "created": step.is_new,
                "changes": step.changes | ({"partitions": str(step.partitions)} if step.adds_partitions else {}),
                "note": step.note,
            }
            for step in steps
        ]
        click.echo(json_line({"topics": topics, "acls": as_values(rules), "dry_run": dry_run}))
        return
    table(("topic", "for", "partitions", ""), [(s.topic, s.role, s.partitions, _done(s, dry_run)) for s in steps])
    for principal, each in rules.items():
        count = sum(len(rule.operations) for rule in each)
        click.echo(f"{principal}: {count} rights {'would be' if dry_run else 'are'} set; --acls kafka-acls shows them")


def _done(step: TopicStep, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    done = [f"{would}created"] if step.is_new else []
    if step.adds_partitions:
        done.append(f"{would}given partitions")
    done += [f"{name} {would}set to {value}" for name, value in step.changes.items()]
    return "; ".join([*(done or ["is there"]), *([step.note] if step.note else [])])


# -- what is asked for --------------------------------------------------------------------------------------------


def wish_of(asked: DestinationsTable, namespace: str) -> TopicWish:
    """The topics that are asked for.

    Raises:
        SettingsFault: a name or a number that cannot be.
    """
    try:
        destinations: dict[Destination, int | None] = {}
        for kind, named in ((Queue, asked.queues), (Topic, asked.topics)):
            for name, partitions in map(_sized, _words(named)):
                destination = kind(name)
                if any(name == each.name for each in destinations):
                    raise SettingsFault(f"{name!r} is named twice; a name is one queue or one topic")
                destinations[destination] = partitions
        letters = [destination_at(each) for each in _words(asked.letters)]
    except InvalidDestinationError as error:
        raise SettingsFault(str(error)) from None
    replication, min_isr = asked.replication, asked.min_isr
    if replication is not None and min_isr is not None and min_isr > replication:
        raise SettingsFault(
            f"--min-isr {min_isr} is more than --replication {replication}: nothing could be written; give that at most"
        )
    return TopicWish(
        namespace,
        destinations,
        letters or [Queue(each) for each in default_addresses(namespace)],
        partitions=asked.partitions or DEFAULT_PARTITIONS,
        events_partitions=asked.events_partitions or SYSTEM_PARTITIONS,
        max_message_bytes=asked.max_message_bytes,
        replication=replication,
        min_isr=min_isr,
    )


def _words(several: Iterable[str]) -> list[str]:
    return [word.strip() for each in several for word in each.split(",") if word.strip()]


def _sized(text: str) -> tuple[str, int | None]:
    name, colon, count = text.partition(":")
    if not colon:
        return name, None
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= 10_000):
        raise SettingsFault(f"{text!r}: write NAME, or NAME:N with N partitions, 1 to 10000")
    return name, int(count)


def _roles(several: Iterable[str]) -> dict[str, list[Role]]:
    """Roles by principal."""
    found: dict[str, list[Role]] = {}
    for each in several:
        for text in _NEXT_ROLE.split(each):
            role, _, principal = text.strip().partition(":")
            if role not in _ROLE.split("|"):
                raise click.UsageError(f"{role!r} is no role; roles are {ROLES}")
            if not principal.partition(":")[2]:
                raise click.UsageError(f"{text!r}: write ROLE:PRINCIPAL, as in {role}:User:app")
            found.setdefault(principal, []).append(Role(role))
    return found
