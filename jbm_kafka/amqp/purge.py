"""Takes everything out of a queue that can be received: deleting it for clients, without a change to Kafka's topic."""

from __future__ import annotations

import secrets
import threading
import time

from jbm_kafka.client.source_use import begin_use
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.provider import Provider
from jbm_kafka.ports.wake_up import Sleepers

BATCH = 10_000
TIMEOUT_S = 30.0
LOOK_S = 0.005


def purge(provider: Provider, queue: Queue) -> int:
    """Take out all that is there and in nobody's hand; returns how many. It waits for Kafka.

    Raises:
        JMSError: not everything was there to be taken within the time.
    """
    lock = threading.RLock()
    name = f"purge-{secrets.token_hex(6)}"
    terms = LinkTerms(link_id=name, session_id=name, prefetch=BATCH, mode="AMQP")
    link = Link(terms, filled=Sleepers(lock), lock=lock)
    provider.ensure(queue)
    begin_use(provider, queue, link, "")
    try:
        link.attach(provider.attach(queue, link))
        return _take_all(provider, queue, link)
    finally:
        link.leave()


def _take_all(provider: Provider, queue: Queue, link: Link) -> int:
    deadline, taken, done = time.monotonic() + TIMEOUT_S, 0, Completion()
    is_watching = False
    while time.monotonic() < deadline:
        with link.lock:
            while (delivery := link.pop()) is not None:
                delivery.lease.acknowledge(delivery.offset)
                taken += 1
            if done.is_done and not link.buffer:
                return taken
            link.wait_on()
            if not link.is_asking:
                link.request(BATCH)
        if not is_watching and link.group_worker.is_settled:
            is_watching = True
            link.group_worker.watch(link.terms.link_id, provider.end_positions(queue, TIMEOUT_S), done)
        link.filled.sleep_unless(lambda: bool(link.buffer) or done.is_done, LOOK_S)
    raise JMSError(f"{queue}: not purged within {TIMEOUT_S:g} s; {taken} messages were taken")
