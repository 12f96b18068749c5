"""Whether a temporary destination can be sent to: while the process lives that has it (TEMP-1)."""

import pytest

from jbm_kafka.core.destination import Destination, TemporaryQueue
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.temporary_name import TemporaryName
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.sidecar.temporary.temporaries import LOOK_MS
from tests.sidecar.processes import SESSION_TIMEOUT_MS, Processes


def refused(sidecar: Sidecar, destination: Destination, because: str) -> None:
    with pytest.raises(InvalidDestinationError, match=because):
        sidecar.destinations.ensure(destination)


def test_a_killed_processs_is_refused_after_its_session_timeout(processes: Processes) -> None:
    """Of TEMP-1: who sends there is told, not later than a look at the process may be old."""
    killed, theirs = processes.start()
    _, mine = processes.start()
    queue = theirs.create_temporary(TemporaryQueue, "c0123456789ab", 1)
    assert mine.destinations.ensure(queue).topic == "jbm.temporary"
    processes.kill(killed, theirs)
    assert mine.destinations.ensure(queue).topic == "jbm.temporary"  # nobody can know yet
    processes.clock.advance(SESSION_TIMEOUT_MS + LOOK_MS)
    refused(mine, queue, "its connection or process has ended")


def test_a_processs_own_is_refused_as_soon_as_it_is_deleted(processes: Processes) -> None:
    """TEMP-1"""
    _, mine = processes.start()
    one, two = (mine.create_temporary(TemporaryQueue, "c0123456789ab", number) for number in (1, 2))
    mine.delete_temporary(one)
    refused(mine, one, "it was deleted")
    assert mine.destinations.ensure(two).partitions == 16


def test_a_process_that_lives_is_not_asked_for_with_each_message(processes: Processes) -> None:
    """Whoever answers many requests pays for one look in two seconds."""
    _, theirs = processes.start()
    _, mine = processes.start()
    queue = theirs.create_temporary(TemporaryQueue, "c0123456789ab", 1)
    mine.destinations.ensure(queue)
    theirs.close()
    processes.alive.remove(theirs)
    assert mine.destinations.ensure(queue).topic == "jbm.temporary"
    processes.clock.advance(LOOK_MS)
    refused(mine, queue, "its connection or process has ended")


def test_where_nobody_ever_had_one_nothing_is_made_for_a_send(processes: Processes) -> None:
    """A name of another cluster: no process of that name lives here."""
    _, mine = processes.start()
    refused(mine, TemporaryQueue(str(TemporaryName("0123456789abc", "c0123456789ab", 1, 3))), "has ended")
    assert "jbm.temporary" not in mine.destinations.topics._admin.topic_names()


def test_a_partition_that_is_not_there_is_refused(processes: Processes) -> None:
    """Somebody made the topic with fewer."""
    processes.cluster.create_topic("jbm.temporary", 1, {})
    _, theirs = processes.start()
    _, mine = processes.start()
    made = theirs.create_temporary(TemporaryQueue, "c0123456789ab", 1)
    assert made.name.endswith("@0")
    refused(mine, TemporaryQueue(made.name.replace("@0", "@7")), "jbm.temporary has no partition 7")


def test_its_topic_keeps_an_hour(processes: Processes) -> None:
    """docs/topics.md: nobody cleans up but Kafka."""
    _, mine = processes.start()
    mine.create_temporary(TemporaryQueue, "c0123456789ab", 1)
    found = mine.destinations.topics._admin.describe(["jbm.temporary"], with_config=True)["jbm.temporary"]
    assert (found.partitions, found.config["cleanup.policy"], found.config["retention.ms"]) == (16, "delete", "3600000")
