"""A message is sent again with its duplicate id while the process that received the first is killed."""

from collections.abc import Callable

from confluent_kafka import Producer

from tests.chaos.conftest import MakePuppet


def send(bootstrap: str, queue: str, body: str) -> None:
    """As a program of another language does that does not know whether its first try arrived."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    headers: list[tuple[str, str | bytes | None]] = [("JBMBody", b"text"), ("JBMDuplicateID", b"order-1")]
    producer.produce(queue, body, key="joe", partition=0, headers=headers)
    assert producer.flush(30) == 0


def test_a_duplicate_is_known_to_the_next_owner_too(
    bootstrap: str, make_queue: Callable[..., str], puppet: MakePuppet
) -> None:
    """SEND-8, of LOG-5: what the killed process had recorded counts, and what it had in hand comes again."""
    queue = make_queue("orders")
    send(bootstrap, queue, "first")
    victim = puppet("victim")
    victim.ask("open", "s", "CLIENT", queue)
    assert victim.ask("receive", "s", 30) == ["first", 1, False]
    victim.process.kill()
    victim.process.wait()
    send(bootstrap, queue, "again")
    heir = puppet("heir")
    heir.ask("open", "s", "CLIENT", queue)
    body, _, is_redelivered = heir.ask("receive", "s", 60)
    assert (body, is_redelivered) == ("first", True)
    assert heir.ask("receive", "s", 1) is None
    heir.ask("acknowledge", "s", 0)
    send(bootstrap, queue, "once more")
    assert heir.ask("receive", "s", 1) is None
    heir.ask("send", "s", queue, "next")
    assert heir.ask("receive", "s", 30)[0] == "next"
