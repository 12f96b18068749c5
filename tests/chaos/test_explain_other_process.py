"""What `explain` says when the process that has a partition hangs, and idle receivers of another one wait beside it."""

import platform
from collections.abc import Callable

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, ExplainedMessage, Rule
from jbm_kafka.core.channel.process_names import process_name
from tests.chaos.conftest import MakePuppet
from tests.support.waiting import wait_until


def test_a_hung_owner_is_named_beside_idle_receivers_of_another_process(
    puppet: MakePuppet, make_queue: Callable[..., str], bootstrap: str
) -> None:
    """UNIT-17: more processes were advised, of which one was idle: it has no partition, and so tells of no receiver."""
    queue = make_queue("hung")
    owner = puppet("owner")
    owner.ask("open", "one", "INDIVIDUAL", queue, None, 1)
    owner.ask("send", "one", queue, "hangs")
    assert owner.ask("receive", "one", 30.0) == ["hangs", 1, False]
    with ConnectionFactory(bootstrap).create_connection() as connection, Admin(bootstrap) as admin:
        idle = connection.create_session(AcknowledgeMode.AUTO).create_consumer(Queue(queue))
        idle.set_listener(lambda message: None)
        owner.ask("send", "one", queue, "waits")

        def second_message() -> ExplainedMessage | None:
            found = admin.explain(Queue(queue))
            is_there = found.idle_members and len(found.messages) == 2
            is_read = is_there and found.messages[1].reasons[0].rule is not Rule.NOT_READ
            return found.messages[1] if is_read else None

        second = wait_until(second_message, about="an idle receiver beside the hung owner", timeout_s=60)
    (why,) = second.reasons
    name = process_name(platform.node(), owner.process.pid)
    assert why.rule is Rule.RECEIVERS_BUSY
    assert name in why.text
    # It has hung for a few seconds, which a handler may well take; after 30 s it is to be stopped.
    assert why.remedy in ("", f"if it hangs, stop {name}: others get its partitions")
