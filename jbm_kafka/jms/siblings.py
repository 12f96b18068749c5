"""The consumers of one session: which of them share a queue, and which are closed and can be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer
    from jbm_kafka.jms.session import Session


def tell_siblings(session: Session) -> None:
    """Let the links of each queue know each other (see Link.siblings), and what it waits for (Fence)."""
    with session.lock:
        consumers = [consumer for consumer in session.consumers if not consumer.is_closed]
        for consumer in consumers:
            consumer.link.fence = session.settling.fences[consumer.destination]
            consumer.link.become_siblings(
                [c.link for c in consumers if c is not consumer and c.destination == consumer.destination]
            )


def release_closed(session: Session) -> None:
    """Forget closed consumers of which nothing is in hand any more."""
    listening = session.guard.listening
    with session.lock:  # threads that acknowledge come here at the same time, and change what is in hand
        gone = [
            each
            for each in session.consumers
            if each.is_closed
            and not session.settling.in_hand(each.link)
            and not (listening is not None and listening.is_taking_for(each))
        ]
        for consumer in gone:
            session.consumers.remove(consumer)
    for consumer in gone:
        consumer.disconnect()
    tell_siblings(session)


@contextmanager
def forgotten_if_refused(consumer: MessageConsumer) -> Iterator[None]:
    """Around a step of making a consumer: when it fails its session is as if the consumer had never been asked for."""
    try:
        yield
    except BaseException:
        session = consumer.session
        consumer.disconnect()
        with session.lock:
            if consumer in session.consumers:
                session.consumers.remove(consumer)
        tell_siblings(session)
        raise
