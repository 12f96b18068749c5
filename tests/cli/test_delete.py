"""`jbm-kafka delete`: what goes is shown, asked for, and gone."""

import io
import json
import sys

import pytest

from jbm_kafka import ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from tests.cli.conftest import Run


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def parts(queue: str) -> list[str]:
    return [f"topic {queue}", f"topic {queue}.jbm-changelog", f"the record of queue:{queue} in topic jbm.registry"]


def test_what_goes_is_shown_and_asked_for(cli: Run, queue: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("send", queue, "--text", "x", "--count", "3")
    for answer, code in (("n\n", 1), ("\n", 1), ("y\n", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        said = cli("delete", queue)
        shown = said.out.splitlines()
        assert (said.code, shown[:3]) == (code, parts(queue))
        assert f"delete queue:{queue}? [y/N]: " in said.out
        with Admin(url) as admin:
            assert admin.exists(queue) is bool(code)
        if code:
            assert said.err == f"jbm-kafka: queue:{queue}: nothing was deleted\n"
        else:
            assert shown[-1].endswith(f"queue:{queue} deleted, with 3 messages that nobody received")
    said = cli("delete", queue, "--yes")
    assert said.code == 1
    assert said.err.startswith(f"jbm-kafka: queue:{queue}: there is no such queue, and nothing is left of one; ")
    assert cli("create", queue, "--partitions", "1").code == 0
    assert f"queue:{queue}: 0 held; 0 receivers" in cli("show", queue).out


def test_without_a_terminal_it_wants_yes(cli: Run, queue: str) -> None:
    for options in ((), ("--json",)):
        said = cli("delete", queue, *options)
        assert (said.code, said.out) == (2, "")
        assert said.err.splitlines() == [
            "jbm-kafka delete: nobody can be asked here whether it is meant: "
            "give --yes, or --dry-run to see what would go"
        ]
    said = cli("delete", f"{queue}x")
    assert said.code == 1, "first it is looked for"
    assert "there is no such queue" in said.err
    dry = cli("delete", queue, "--dry-run")
    last = f"queue:{queue} would be deleted, with 0 messages that nobody received"
    assert (dry.code, dry.out.splitlines()) == (0, [*parts(queue), last])
    told = json.loads(cli("delete", queue, "--yes", "--json").out)
    assert (told["name"], told["dry_run"], told["held"], told["receivers"], told["kept"]) == (queue, False, 0, 0, [])
    assert told["topics"] == [queue, f"{queue}.jbm-changelog"]


STILL = "receive from it still; stop them, then give the same command again, with --force"


def test_a_queue_somebody_receives_from_is_deleted_by_force_only(cli: Run, queue: str, url: str) -> None:
    with ConnectionFactory(url, auto_create=False).create_connection() as connection:
        consumer = connection.create_session().create_consumer(Queue(queue))
        consumer.receive(timeout=0)
        said = cli("delete", queue, "--yes")
        assert said.code == 1
        assert said.err.startswith(f"jbm-kafka: queue:{queue}: 1 process receives from it (consumer group jbm.queue.")
        assert said.err.endswith("10 s unless it sets another), or delete it with --force\n")
        assert said.err.count("\n") == 1
        assert cli("delete", queue, "--dry-run").code == 1
        said = cli("delete", queue, "--yes", "--force")
        assert (said.code, said.out.startswith(f"queue:{queue} deleted, with ")) == (1, True)
        assert said.err == f"jbm-kafka: queue:{queue}: left is its consumer group, for processes {STILL}\n"


def test_what_is_left_of_a_topic_in_use_is_a_failure_whose_advice_works(cli: Run, url: str, kafka_name: str) -> None:
    """The exit code was 0, and the advice was refused with another one."""
    topic, here = f"{kafka_name}.news", ("--namespace", kafka_name)
    assert cli("create", topic, "--topic", *here).code == 0
    factory = ConnectionFactory(url, namespace=kafka_name, auto_create=False, client_id="desk")
    with factory.create_connection() as connection:
        consumer = connection.create_session().create_durable_consumer(Topic(topic), "d")
        consumer.receive(timeout=0)
        dry = cli("delete", topic, "--force", "--dry-run", *here)
        assert (dry.code, "left: subscription 'desk/d', while processes receive from it" in dry.out) == (0, True)
        said = cli("delete", topic, "--force", "--yes", *here)
        assert (said.code, said.out) == (1, f"topic:{topic} deleted, with all that is in it\n")
        assert said.err == f"jbm-kafka: topic:{topic}: left is subscription 'desk/d', for processes {STILL}\n"
    assert cli("delete", topic, "--force", "--yes", *here).code == 0
    assert "nothing is left of one" in cli("delete", topic, "--force", "--yes", *here).err


def test_a_queue_is_deleted_in_its_namespace(cli: Run, queue: str) -> None:
    said = cli("delete", queue, "--namespace", "other", "--yes")
    assert said.code == 1
    assert said.err == (
        f"jbm-kafka: queue:{queue}: there is no such queue in namespace 'other', and nothing is left of one; "
        f"kept: topic {queue}: queue:{queue} of no namespace uses it, too; it goes for all of them if forced\n"
    )
    assert cli("delete", queue, "--yes").code == 0
