"""How many messages a channel has parked, said outside its changelog: as the offset of a companion group (LOG-8).

The changelog alone has what is parked. Where it is lost nothing else tells that there was anything, so the checkpoint
that parks or settles such a message commits their number, too, for the same partition, under the group's name with
`.parked` behind it. The offset's metadata is that checkpoint's id. Nobody is ever a member of that group.

The group's own offset cannot say it: any metadata but a checkpoint's id counts as an operator's reset. Versions before
this one write no number, so one that is there counts only as of the run of the process that wrote it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset, parse_checkpoint_id

AGAIN_MS: Final = 60 * 60 * 1000
"""An owner writes a number that is not 0 again so often: Kafka forgets offsets of a group without members, and the
number may be told from one of an earlier run by how near it is."""
NUMBERS_APART_MAX: Final = 4_000_000
"""Between two such writes there are fewer checkpoints, at one a millisecond; and a process that begins anew numbers its
checkpoints from its clock, 1,000 a millisecond, so it passes this within four seconds of its life before."""

_SUFFIX = ".parked"
_FAILURES = ".failures"
_FORM = re.compile(
    r"(?:[A-Za-z0-9._-]+\.)?jbm\.(?:queue\.[A-Za-z0-9%]+|(?:durable|shared-durable|shared)\.[A-Za-z0-9%]*\.[A-Za-z0-9%]+)"
    + re.escape(_SUFFIX)
)


def companion_of(group_id: str) -> str:
    """The group whose offsets are the numbers of what this group has parked."""
    return group_id + _SUFFIX


def failures_of(group_id: str) -> str:
    """The name under which a group's changelog has why messages failed, beside what its channels are made of."""
    return group_id + _FAILURES


def owner_of(name: str) -> str:
    """The group whose channel a changelog's entry under this name is about."""
    return name.removesuffix(_FAILURES)


def is_companion(group_id: str) -> bool:
    """Return True if it is one, of any namespace: its offsets are no positions."""
    return _FORM.fullmatch(group_id) is not None


def parked_at(note: CommittedOffset | None, checkpoint_id: str) -> int | None:
    """Return how many messages were parked as of the channel's latest checkpoint, or None if that is not known.

    It is not where the note is of another process than the checkpoint, or of one that is too long ago.

    Args:
        note: the companion's offset for the channel's partition, read after the checkpoint was.
    """
    if note is None:
        return None
    noted, latest = parse_checkpoint_id(note.metadata), parse_checkpoint_id(checkpoint_id)
    if noted is None or latest is None or noted.transactional_id != latest.transactional_id:
        return None
    return note.position if 0 <= latest.number - noted.number <= NUMBERS_APART_MAX else None


def lost_of(counts: Iterable[int | None]) -> int | None:
    """Return how many parked messages of several partitions are lost, as far as it is known; None: nothing is known of
    those that may have lost some."""
    found = list(counts)
    known = sum(each for each in found if each)
    return None if not known and None in found else known


def lost_text(changelog: str, group_id: str, count: int | None) -> str:
    """Return what became of them, for people; None: nobody knows how many."""
    if count is None:
        return (
            f"the changelog {changelog} was deleted, or lost, and how many messages group {group_id} had parked there, "
            "if any, is not known"
        )
    are = "1 message that was" if count == 1 else f"{count} messages that were"
    return f"the changelog {changelog} lacks {are} parked there by group {group_id}"


def lost_remedy(group_id: str) -> str:
    """How an operator goes on without what is gone."""
    return (
        f"to go on without them stop the group's workers, delete the group {companion_of(group_id)} with "
        "kafka-consumer-groups.sh --delete, and start them (docs: the changelog of a queue)"
    )
