"""A changelog that somebody deleted while its queue is received from: what it said is written again by who knows it."""

from __future__ import annotations

import logging

from jbm_kafka.core.partition_names import named
from jbm_kafka.sidecar.group_data import GroupData

log = logging.getLogger("jbm_kafka.partitions")


def note_changelog(data: GroupData, changelog_id: str) -> None:
    """The cluster says which topic the changelog is now. On the group's owner thread."""
    others = [channel for channel in data.channels.values() if not channel.changelog.topic_is(changelog_id)]
    if others:
        log.warning(
            "%s: its changelog %s was deleted; it is made again, and what is known here of %s is written into it with "
            "the next checkpoints",
            data.group,
            others[0].changelog.topic,
            named([channel.partition for channel in others]),
        )
