"""Members of a group are named by host and process, so that an operator finds them, and the silent ones, too."""

from __future__ import annotations

import os
import platform

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.admin.explain.held_units import HeldMessageRow
from jbm_kafka.admin.explain.members import being_shared, put_out, silent_members, suspects
from jbm_kafka.admin.explain.receiver_states import process_of
from jbm_kafka.core.channel.process_names import member_client_id, named_process, process_name
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import AccessRefused, GroupMember
from jbm_kafka.providers.in_memory import use_world
from tests.conftest import MakeTopic
from tests.kafka.world import WAIT_S, consume_until, member
from tests.support.waiting import wait_until


def of_process(number: int, *partitions: int) -> GroupMember:
    client_id = member_client_id("worker-3", number)
    return GroupMember(f"{client_id}-6b98a310", client_id, "10.0.0.7", frozenset(partitions))


def held_row(partition: int, offset: int, rule: Rule = Rule.READY) -> HeldMessageRow:
    return HeldMessageRow(partition, offset, None, f"ID:{partition}-{offset}", 0, 0, rule, 0)


def answer_of(number: int) -> dict[str, object]:
    return {"process": {"host": "worker-3", "id": number}}


STRANGER = GroupMember("mine-6b98a310", "mine", "10.0.0.8", frozenset({2}))


def test_a_frozen_process_was_not_named_and_receivers_could_not_be_matched_with_owners() -> None:
    """UNIT-17: the group's list of members and what processes say of themselves have the same words."""
    assert of_process(4711).name == process_of(answer_of(4711)) == "process 4711 at worker-3"
    assert STRANGER.name == "member mine-6b98a310 at 10.0.0.8"
    assert GroupMember("m", "", "", frozenset()).name == "m"
    assert named_process(member_client_id("a/b", 7)) == "process 7 at a_b"
    assert named_process(member_client_id("", 7)) == "process 7 at ?"


def test_a_group_lists_its_members_by_host_and_process_unless_the_application_names_them(
    bootstrap: str, kafka_name: str, make_topic: MakeTopic
) -> None:
    """UNIT-17: a `client.id` that the application gives, maybe for a quota, stays as it is."""
    topic = make_topic(partitions=2)
    ours = member(ConfluentKafka(bootstrap), kafka_name, topic, partitions=2)
    theirs = member(ConfluentKafka(bootstrap, {"client.id": "mine"}), kafka_name, topic, partitions=2)
    consume_until(lambda: bool(ours.assignment()) and bool(theirs.assignment()), ours, theirs)
    found = ConfluentKafka(bootstrap).admin().members(kafka_name, topic)
    assert {each.client_id for each in found} == {member_client_id(platform.node(), os.getpid()), "mine"}
    ours.close()
    theirs.close()


def test_a_process_whose_partition_another_answers_for_is_silent() -> None:
    """UNIT-17: frozen past its session timeout; of what it holds its successor knows nothing."""
    frozen, alive = of_process(1, 0), of_process(2, 1)
    answers = {0: answer_of(2), 1: answer_of(2)}
    assert silent_members([frozen, alive, STRANGER], [0, 1], answers) == [frozen]
    assert silent_members([frozen, alive], [0, 1], {1: answer_of(2)}) == [frozen]
    assert silent_members([frozen, alive], [1], {1: answer_of(2)}) == []
    assert silent_members([STRANGER], [2], {2: answer_of(2)}) == []


def test_the_message_that_kills_its_workers_is_named_among_those_of_a_process_that_was_put_out() -> None:
    """UNIT-17: of four partitions two are empty, and only a first message that may go can be the one."""
    rows = [held_row(0, 5), held_row(0, 3), held_row(0, 1, Rule.DELAYED), held_row(2, 0), held_row(3, 7, Rule.ON_HOLD)]
    firsts = suspects(rows)
    assert firsts == {0: "ID:0-3", 2: "ID:2-0"}
    assert "the first of partitions 0, 2: ID:0-3, ID:2-0 (" in put_out(of_process(1, 0, 1, 2, 3), firsts).remedy
    many = put_out(of_process(1, *range(9)), {each: f"ID:{each}" for each in range(9)})
    assert "the first of partitions 0-8: ID:0, ID:1, ID:2, … (" in many.remedy
    assert "kills them" not in put_out(of_process(1, 1), firsts).remedy
    unknown = put_out(of_process(1, 2, 0), dict.fromkeys(range(3), ""))
    assert "the first of partitions 0, 2 (" in unknown.remedy, "what is held could not be read"


def test_a_group_that_shares_its_partitions_names_the_members_it_waits_for() -> None:
    """UNIT-17: a worker that was frozen while it joined keeps the others waiting, for its session timeout."""
    silent = being_shared([of_process(1), of_process(2)], {0: answer_of(2)}).text
    assert "process 1 at worker-3" in silent
    assert "process 2" not in silent
    assert "process" not in being_shared([of_process(2), STRANGER], {0: answer_of(2)}).text.partition("to one")[2]


def test_a_group_lists_its_members_with_the_client_id_of_their_connection(
    bootstrap: str, kafka_name: str, make_topic: MakeTopic
) -> None:
    """UNIT-17: it was not to be seen with Kafka's own tools; `explain` still finds the process by the name."""
    topic = make_topic(partitions=1)
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, client_id="billing/eu")
    with factory.create_connection() as connection, Admin(bootstrap, namespace=kafka_name) as admin:
        consumer = connection.create_session().create_consumer(Queue(topic))
        assert consumer.receive(timeout=0.1) is None
        group = Queue(topic).group_id(kafka_name)
        [found] = wait_until(
            lambda: ConfluentKafka(bootstrap).admin().members(group, with_namespace(topic, kafka_name)),
            about="a member",
            timeout_s=WAIT_S,
        )
        assert found.client_id == member_client_id(platform.node(), os.getpid(), "billing/eu")
        assert found.name == process_name(platform.node(), os.getpid())
        reasons = admin.explain(Queue(topic)).reasons
        assert not [each for each in reasons if each.rule is Rule.OWNER_SILENT], reasons


def test_who_lacks_a_right_is_not_told_that_a_healthy_worker_has_died(kafka_name: str) -> None:
    """It said of each member that it did not answer, and to stop one that hangs."""
    with Admin(f"memory://{kafka_name}") as admin, ConnectionFactory(f"memory://{kafka_name}").create_connection() as c:
        admin.create_queue(kafka_name, partitions=1)
        session = c.create_session()
        consumer = session.create_consumer(Queue(kafka_name))
        session.create_producer(Queue(kafka_name)).send("in hand")
        assert consumer.receive(timeout=20) is not None
        world = use_world(kafka_name)

        def refused(name: str) -> None:
            raise AccessRefused(f"create topic {name}: no access rule of Kafka's allows Create on topic {name}")

        world.cluster.faults.create = refused
        MemoryKafka(world.cluster).admin().delete_topics(["jbm.commands"])
        found = admin.explain(kafka_name)
        world.let_go()
    assert (found.members, found.silent_members) == (1, ())
    (why,) = [each for each in found.reasons if each.rule is Rule.NOT_ASKED]
    assert "could not be asked" in why.text
    assert "Create on topic jbm.commands" in why.text
    assert [reason.rule for message in found.messages for reason in message.reasons] == [Rule.NOT_ASKED]
    assert Rule.OWNER_SILENT not in [reason.rule for partition in found.partitions for reason in partition.reasons]
