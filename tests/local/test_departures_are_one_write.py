"""A dead letter's copy, or an expired message's, and the removal of the original are one write: both or neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka.contract import CoreMessage
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.local import (
    MemoryMessageStore,
    MemoryPersistenceManager,
    QueueChannel,
    RocksPersistenceManager,
    TopicChannel,
)
from tests.local.killed_departure import EXPIRES_AT_MS, Place
from tests.local.parts import Hand, Text


@pytest.mark.parametrize("leaves_by", ["give_up", "expire"])
@pytest.mark.parametrize("writes", range(4))
def test_a_killed_process_leaves_it_in_one_place(tmp_path: Path, leaves_by: str, writes: int) -> None:
    """Of REDELIVER-5 and SEND-5, in the channels of one process, which is killed after each of its writes."""
    command = [sys.executable, "-m", "tests.local.killed_departure", str(tmp_path), leaves_by, str(writes)]
    subprocess.run(command, check=False)
    with RocksPersistenceManager(tmp_path) as persistence:
        after = Place(persistence)
        if leaves_by == "expire":
            assert after.bodies() in ((["text"], []), ([], ["text"]))
        after.queue.deliver()
        after.queue.expire(EXPIRES_AT_MS + 1)
        assert after.bodies() == ([], ["text"])


def test_a_letter_that_cannot_be_written_stays_where_it_was() -> None:
    place = Place(MemoryPersistenceManager())
    place.hold_one(expires=False)
    place.letters.close()
    place.let_go(expires=False)
    assert [each.body for each in place.queue.browse()] == ["text"]


@pytest.mark.parametrize("is_synchronous", [True, False])
def test_a_letter_goes_to_a_topic_with_its_receivers(is_synchronous: bool) -> None:
    reader = Hand("reader", answer=True)
    letters = TopicChannel("letters", message_store=MemoryMessageStore("l"), synchronous=is_synchronous)
    letters.add_receiver(reader)
    queue = QueueChannel(
        "orders",
        message_store=MemoryMessageStore("o"),
        settings=AddressSettings(max_delivery_attempts=1),
        dead_letter_channel=letters,
    )
    queue.handle(Text("m"))
    queue.add_receiver(Hand("worker"))
    queue.deliver()
    queue.remove_receiver("worker")
    (letter,) = reader.got
    assert isinstance(letter, CoreMessage)
    assert letter.headers["_JBM_ORIG_MESSAGE_ID"] == "m"
    assert not queue.browse()
