"""Which dead letters a caller means, as the administration takes it."""

from __future__ import annotations

from collections.abc import Collection

from jbm_kafka.admin.cluster.admin_arguments import check_named, chosen_by, letters_in_topic, queue_of
from jbm_kafka.admin.dead_letters.letters import LetterFilter, reason_fault
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import as_topic


def letters_queue(queue: Queue | Topic | str) -> Queue:
    """The queue that is looked into for dead letters.

    Raises:
        InvalidDestinationError: it is a topic.
    """
    found = destination_at(queue) if isinstance(queue, str) else queue
    if isinstance(found, Topic):
        raise letters_in_topic(found)
    return queue_of(found)


def origin_at(origin: Queue | Topic | str) -> Queue | Topic:
    """Where letters came from, given as such or as text: `orders`, `topic:prices`."""
    found = destination_at(origin) if isinstance(origin, str) else origin
    return as_topic(found) if isinstance(found, Topic) else queue_of(found, "origin")


def letter_filter(
    origin: Queue | Topic | str | None,
    selector: str | None,
    places: Collection[tuple[int, int]] | None = None,
    **texts: str | None,
) -> LetterFilter:
    """Which dead letters are meant; `texts` are the filters that are one text each."""
    for name in ("unit", "message_id"):
        check_named(name, texts[name])
    reason = texts["reason"]
    if reason is not None and not isinstance(reason, str):
        raise wrong_type("reason", reason, "it is a str, or None for any")
    if reason is not None and (fault := reason_fault(reason)):
        raise wrong_value("reason", reason, fault)
    chosen = None if places is None else frozenset(_checked_place(place) for place in places)
    return LetterFilter(None if origin is None else origin_at(origin), selector=chosen_by(selector), places=chosen,
                        **texts)  # fmt: skip


def _checked_place(place: object) -> tuple[int, int]:
    match place:
        case (int(partition), int(offset)):
            return partition, offset
    raise wrong_type("places", place, "each is a pair of ints, partition and offset, as DeadLetter.place is")
