"""Which request a reply belongs to, step by step: whatever comes early, late or twice."""

import threading
from collections.abc import Callable
from typing import cast

from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.core.destination import TemporaryQueue
from jbm_kafka.jms.shared.requests import EARLY_MAX, Requests
from jbm_kafka.memory.memory_log import MemoryRecord
from jbm_kafka.ports import KafkaRecord, Outgoing
from jbm_kafka.ports.provider import Provider
from jbm_kafka.ports.wake_up import Sleepers
from tests.support.manual_clock import ManualClock


class Replies:
    """Of a provider what requests ask it for; `come` lets a reply come."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.take: Callable[[KafkaRecord], None] | None = None

    def create_temporary(self, kind: type[TemporaryQueue], connection_id: str, number: int) -> TemporaryQueue:
        return kind("replies")

    def take_replies(self, destination: TemporaryQueue, handler: Callable[[KafkaRecord], None]) -> None:
        self.take = handler

    def come(self, body: str, to: str, *, expires_in_ms: int = 0) -> None:
        expiration_ms = self.clock.now_ms() + expires_in_ms if expires_in_ms else 0
        headers = encode_headers(correlation_id=to, expiration_ms=expiration_ms)
        assert self.take is not None
        self.take(MemoryRecord(Outgoing("jbm.temporary", 0, None, body.encode(), headers), 0, (1, 0)))


def requests_of(replies: Replies) -> Requests:
    requests = Requests(cast(Provider, replies), "c1")
    requests.reply_to()
    return requests


def asleep() -> Sleepers:
    return Sleepers(threading.Lock())


def test_an_expired_reply_is_not_returned() -> None:
    """Of SEND-5: it is as if it had not come."""
    replies = Replies()
    requests = requests_of(replies)
    pending = requests.begin("7", asleep())
    requests.sent(pending, "ID:1")
    replies.come("too late", "7", expires_in_ms=-1)
    assert pending.reply is None
    replies.come("in time", "7", expires_in_ms=1)
    assert pending.reply is not None
    assert pending.reply.value() == b"in time"


def test_a_reply_to_the_message_id_that_comes_before_the_send_has_returned_is_not_lost() -> None:
    """A fast responder answers before it is known here which id the request got; the caller would wait for ever."""
    replies = Replies()
    requests = requests_of(replies)
    first, second = requests.begin(None, asleep()), requests.begin(None, asleep())
    replies.come("early", "ID:2")
    requests.sent(first, "ID:1")
    requests.sent(second, "ID:2")
    assert first.reply is None
    assert second.reply is not None
    assert second.reply.value() == b"early"


def test_replies_to_nobody_are_not_kept() -> None:
    """Of LOG-9: neither many while a send is under way, nor any when none is."""
    replies = Replies()
    requests = requests_of(replies)
    pending = requests.begin(None, asleep())
    for number in range(EARLY_MAX + 1):
        replies.come("whose?", f"ID:of others {number}")
    assert len(requests._early) == EARLY_MAX
    requests.sent(pending, "ID:1")
    requests.end(pending)
    replies.come("too late", "ID:1")
    assert not requests._early
    assert not requests._pending
