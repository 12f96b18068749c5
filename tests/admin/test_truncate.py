"""An operator looks what a log keeps and for whom, and has the rest deleted."""

from __future__ import annotations

import json

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.cli.main import main
from jbm_kafka.cli.truncate_command import kept_words
from jbm_kafka.errors import InvalidDestinationError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset
from jbm_kafka.providers.in_memory import use_world

WAIT_S = 20.0


def test_what_nobody_needs_is_deleted_and_who_needs_the_rest_is_named(
    bootstrap: str, kafka_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of LOG-4: also where the setting says never; another program's group counts."""
    rules = {kafka_name: AddressSettings(truncate="never", partitions=1)}
    with ConnectionFactory(bootstrap, address_settings=rules).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = session.create_producer(Queue(kafka_name)), session.create_consumer(Queue(kafka_name))
        for number in range(10):
            producer.send(str(number))
        for number in range(10):
            message = consumer.receive(timeout=WAIT_S)
            assert message is not None
            if number != 7:
                message.acknowledge()
    other = ConfluentKafka(bootstrap).admin()
    other.alter_offsets(f"{kafka_name}.theirs", kafka_name, {0: CommittedOffset(4, "")})
    with Admin(bootstrap) as admin:
        found = admin.truncate(kafka_name, dry_run=True)
        assert (found.because, found.deletable, found.kept) == ("", 4, 6)
        assert [(each.begin, each.needed_from, each.needed_by) for each in found.partitions] == [
            (0, 4, (f"group {kafka_name}.theirs",))
        ]
        (keeper,) = found.keepers
        assert (keeper.name, keeper.records, bool(keeper.since_ms)) == (f"group {kafka_name}.theirs", 6, True)
        assert keeper.remedy.endswith(f"--delete --group {kafka_name}.theirs")
        assert main(["explain", kafka_name, "--bootstrap", bootstrap]) == 0
        assert f"for group {kafka_name}.theirs, the oldest sent " in capsys.readouterr().out
        assert admin.counts(kafka_name).partitions[0].begin == 0
        other.alter_offsets(f"{kafka_name}.theirs", kafka_name, {0: CommittedOffset(9, "")})
    other.close()
    with Admin(bootstrap) as admin:
        assert admin.truncate(kafka_name).partitions[0].needed_by == (f"group jbm.queue.{_escaped(kafka_name)}",)
        assert admin.counts(kafka_name).partitions[0].begin == 7
        with pytest.raises(InvalidDestinationError, match="nothing-here"):
            admin.truncate("nothing-here")
    assert main(["truncate", kafka_name, "--dry-run", "--json", "--bootstrap", bootstrap]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["deletable"], said["kept"]) == (0, 3)
    assert main(["show", kafka_name, "--bootstrap", bootstrap]) == 0
    assert "its log: 0 records that nobody needs may be deleted, 3 are kept" in capsys.readouterr().out


def test_of_a_topic_that_others_made_it_is_told_why_nothing_is_deleted_by_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of LOG-4: by hand all goes that nobody needs."""
    url = "memory://made-by-others"
    with ConnectionFactory(url).create_connection() as connection, Admin(url) as admin:
        world = use_world("made-by-others")
        world.cluster.create_topic("theirs", 1, {"retention.ms": "-1"})
        world.let_go()
        session = connection.create_session()
        session.create_producer(Queue("theirs")).send("hello")
        assert session.create_consumer(Queue("theirs")).receive(timeout=WAIT_S) is not None
        session.close()
        found = admin.truncate("theirs", dry_run=True)
        assert "did not make" in found.not_by_itself
        said = kept_words(found, is_done=False)
        assert "did not make its topic" in said
        assert "(jbm-kafka settings set theirs truncate=settled)" in said
        admin.set_address_settings("theirs", AddressSettings(truncate="settled"))
        assert admin.truncate("theirs", dry_run=True).not_by_itself == ""


def _escaped(name: str) -> str:
    return "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in name)
