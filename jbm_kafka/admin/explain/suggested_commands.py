"""The commands that end what holds messages up, as they can be typed in a shell."""

from __future__ import annotations

from shlex import quote

from jbm_kafka.registry.channel_group import ChannelGroup


def resume(group: ChannelGroup) -> str:
    """Ends a pause."""
    return f"jbm-kafka resume {group.destination.name}"


def admit(group: ChannelGroup) -> str:
    """Routes units by all partitions of the topic."""
    return f"jbm-kafka admit-partitions {group.destination.name}"


def release(group: ChannelGroup, unit: str | None, message_id: str) -> str:
    """Lets go on what is on hold: the unit, or the message where it has none."""
    which = option("--id", message_id) if unit is None else option("--unit", unit)
    whose = group.subscription
    of = "" if whose is None else of_subscription(whose.name, whose.client_id)
    return f"jbm-kafka release {group.destination.name} {which}{of}"


def of_subscription(name: str, client_id: str) -> str:
    """The options that name a topic's subscription, with a space in front."""
    owner = f" {option('--client-id', client_id)}" if client_id else ""
    return f" {option('--subscription', name)}{owner}"


def option(name: str, value: str) -> str:
    """An option with its value; one that begins with a dash would be taken for an option itself."""
    return f"{name}={quote(value)}" if value.startswith("-") else f"{name} {quote(value)}"
