"""Spark on listeners with TLS, passwords and certificates, with the properties that factories and commands take."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.provisioning import provision
from jbm_kafka.errors import InvalidSettingError, JMSSecurityError
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.topic_plan import TopicWish
from jbm_spark.errors import OptionRefusedError, QueryError
from jbm_spark.events import events
from jbm_spark.java_writer import WRITER
from jbm_spark.kafka_properties import kafka_options
from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream
from jbm_spark.reader_registration import ReaderRegistration
from jbm_spark.topic_check import check_topics
from tests.support.secured import ALICE, PASSWORD, PLAIN_PASSWORD, PLAIN_USER, Rule, SecuredBroker, as_rule

pytestmark = pytest.mark.thorough

NAMESPACE = "jobs"


@pytest.mark.parametrize(
    "who", ["SCRAM-SHA-512", *(pytest.param(who, marks=pytest.mark.slow) for who in ("PLAIN", "certificate"))]
)
def test_messages_are_read_and_written_with_librdkafkas_properties(
    secured: SecuredBroker, spark: SparkSession, kafka_name: str, who: str
) -> None:
    bootstrap, kafka = {
        "SCRAM-SHA-512": (secured.sasl, secured.as_user(ALICE)),
        "PLAIN": (secured.sasl, secured.as_user(PLAIN_USER, PLAIN_PASSWORD, "PLAIN")),
        "certificate": (secured.tls, secured.as_carol()),
    }[who]
    with ConnectionFactory(bootstrap, kafka=kafka).create_connection() as connection:
        connection.create_session().create_producer(Queue(kafka_name)).send("hello")
    check_topics([Queue(kafka_name)], about="read", bootstrap=bootstrap, kafka=kafka)
    frame = messages(spark, kafka_name, bootstrap=bootstrap, kafka=kafka)
    assert [row["body_text"] for row in frame.collect()] == ["hello"]
    write_messages(frame, kafka_name, bootstrap=bootstrap, kafka=kafka)
    assert [row["body_text"] for row in frame.collect()] == ["hello", "hello"]


def test_a_plan_shows_no_password(
    secured: SecuredBroker, spark: SparkSession, kafka_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans go to logs and to Spark's UI."""
    with Admin(secured.open) as admin:
        admin.create_queue(kafka_name, partitions=1)
    options = kafka_options(secured.as_user(PLAIN_USER, PLAIN_PASSWORD, "PLAIN"))
    messages(spark, kafka_name, bootstrap=secured.sasl, options=options).explain("formatted")
    shown = capsys.readouterr().out
    assert kafka_name in shown
    assert PLAIN_PASSWORD not in shown


def test_a_wrong_password_is_told_before_spark_is_asked(
    secured: SecuredBroker, spark: SparkSession, kafka_name: str
) -> None:
    with pytest.raises(JMSSecurityError, match=r"^read queue:.*check sasl\.username, sasl\.password") as told:
        messages(spark, kafka_name, bootstrap=secured.sasl, kafka=secured.as_user(ALICE, "guessed"))
    assert "guessed" not in str(told.value)


def test_jbm_spark_reaches_it_with_a_config_file(secured: SecuredBroker, tmp_path: Path) -> None:
    with ConnectionFactory(secured.open).create_connection() as connection:
        connection.create_session().create_producer(Queue("DLQ")).send("a letter")
    config = tmp_path / "jbm.toml"
    properties = [f"{name} = {json.dumps(value)}" for name, value in secured.as_user(ALICE).items()]
    config.write_text("\n".join([f'bootstrap = "{secured.sasl}"', "[kafka]", *properties]))
    config.chmod(0o600)
    command = [sys.executable, "-m", "jbm_spark.cli", "dead-letters", "--json", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert json.loads(done.stdout)["count"] >= 1
    wrong = subprocess.run(
        [*command, "--kafka-property", "sasl.password=guessed"], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("jbm-spark: read queue:DLQ: ")
    assert "check sasl.username, sasl.password and sasl.mechanism with --kafka-property" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    assert "guessed" not in wrong.stderr


def test_librdkafkas_names_as_options_are_told_how_to_be_given(spark: SparkSession) -> None:
    with pytest.raises(OptionRefusedError, match="librdkafka's names in `kafka`"):
        messages(spark, "orders", bootstrap="localhost:9092", options={"sasl.password": PASSWORD})


def test_a_misspelt_property_is_told_as_such(spark: SparkSession) -> None:
    with pytest.raises(InvalidSettingError, match=r"sasl\.mecanism"):
        messages(spark, "orders", bootstrap="localhost:9092", kafka={"sasl.mecanism": "PLAIN"})


def test_a_job_does_its_work_with_the_rights_of_the_table_alone(
    secured: SecuredBroker, spark: SparkSession, kafka_name: str, tmp_path: Path
) -> None:
    """Reading needs no group; a rule for `spark-kafka-` stood on the page."""
    queue, other, user = Queue(kafka_name), Queue(f"{kafka_name}-copy"), f"spark-{kafka_name}"
    core = AdminCore(secured.open, None, NAMESPACE, 20.0)
    provision(core, TopicWish(NAMESPACE, {queue: None, other: None}, [Queue("DLQ")], partitions=1), dry_run=False)
    core.close()
    secured.add_user(user)
    rules = rules_of([Role.SPARK], NamespaceTopics(NAMESPACE, [queue, other], [Queue("DLQ")]))
    secured.allow(user, [as_rule(each) for each in rules])
    there: Any = {"bootstrap": secured.sasl, "namespace": NAMESPACE, "kafka": secured.as_user(user)}
    with ConnectionFactory(secured.open, namespace=NAMESPACE).create_connection() as connection:
        connection.create_session().create_producer(queue).send("hello")
    frame = messages(spark, queue, **there)
    write_messages(frame, queue, **there)
    assert [row["body_text"] for row in frame.collect()] == ["hello", "hello"]
    stream = message_stream(spark, queue, **there)
    query = write_stream(stream, other, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}, **there)
    try:
        assert wait_until_done(query, timeout=60)
    finally:
        query.stop()
    assert messages(spark, other, **there).count() == 2
    assert events(spark, **there).count() == 0
    with ReaderRegistration(**there) as registration:
        registration.renew(kafka_name, queue.name, {0: 0})
    topic = other.kafka_topic(NAMESPACE)
    with ConnectionFactory(secured.open, namespace=NAMESPACE).create_connection() as connection:
        connection.create_session().create_producer(queue).send("refused")
    with secured.denied(user, Rule("topic", topic, ("WRITE",))):
        for writer in ("java", "python"):
            spark.conf.set(WRITER, writer)
            query = write_stream(stream, other, checkpoint=tmp_path / "checkpoint", **there)
            with pytest.raises(QueryError, match=rf"^the query ended: .*{topic}.*(?i:authoriz)") as told:
                wait_until_done(query, timeout=60)
            assert "\n" not in str(told.value)
            spark.conf.unset(WRITER)
