"""A process that waits for a reply is killed: nothing waits for it for ever, and who answers it is told (TEMP-1)."""

from collections.abc import Callable

import pytest

from jbm_kafka import ConnectionFactory, Message, Queue, errors
from jbm_kafka.core.destination import Destination
from tests.chaos.conftest import MakePuppet
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
SESSION_TIMEOUT_S = 2.0
"""Of puppets."""
SLOW_S = 20.0
"""What a busy machine adds."""
LOOK_S = 2.0
"""How old the look at a process may be that is taken to live."""
MakeQueue = Callable[..., str]


def test_who_answers_a_killed_requester_is_told(bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet) -> None:
    """TEMP-1: a reply goes from process to process; after a kill it is refused within the session timeout."""
    queue = Queue(make_queue("requests"))
    asking = puppet("asking")
    asking.ask("session", "s", "AUTO")
    with ConnectionFactory(bootstrap).create_context() as jms:
        consumer, producer = jms.create_consumer(queue), jms.create_producer()

        def request_of(body: str) -> tuple[Message, Destination]:
            asking.tell("request", "s", queue.name, body, TIMEOUT_S)
            request = consumer.receive(TIMEOUT_S)
            assert request is not None
            assert request.body == body
            assert request.reply_to is not None
            return request, request.reply_to

        first, reply_to = request_of("one")
        producer.send(reply_to, "1", correlation_id=first.message_id)
        assert asking.answer() == "1"

        second, reply_to = request_of("two")
        asking.kill()

        def is_told() -> bool:
            try:
                producer.send(reply_to, "2", correlation_id=second.correlation_id)
            except errors.InvalidDestinationError:
                return True
            return False

        wait_until(is_told, about="the sender is told", timeout_s=SESSION_TIMEOUT_S + LOOK_S + SLOW_S)
        with pytest.raises(errors.InvalidDestinationError, match="its connection or process has ended"):
            producer.send(reply_to, "2")
