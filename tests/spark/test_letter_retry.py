"""`jbm-spark dead-letters retry`: which letters go back, in which order, and what has overtaken them."""

import json
import os
import subprocess
import sys
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.letter_retry import OvertakenUnit, RetriedLetters, run
from tests.spark.conftest import Topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough


class Orders:
    """A queue whose messages 0 to 5 died, of two units, with a dead-letter queue of its own; another is behind them."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        name = f"orders-{uuid4().hex[:8]}"
        self.queue, self.letters = Queue(name), Queue(f"{name}-dead")
        self._spark, self.bootstrap = spark, bootstrap
        rules = {name: AddressSettings(max_delivery_attempts=1, dead_letter_address=self.letters.name)}
        self.factory = ConnectionFactory(bootstrap, address_settings=rules)
        with self.factory.create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            producer = session.create_producer(self.queue)
            for number in range(6):
                producer.send(f"{number}", unit_of_order=f"u{number % 2}", properties={"number": number})
            consumer = session.create_consumer(self.queue)
            for _ in range(6):
                message = consumer.receive(60.0)
                assert message is not None
                try:
                    raise (LookupError if int(message.body) < 4 else ValueError)(message.body)
                except (LookupError, ValueError):
                    message.nack()
            wait_until(lambda: self.count(self.letters) == 6, about="six dead letters", timeout_s=60.0)
            producer.send("behind", unit_of_order="u0")

    def count(self, queue: Queue) -> int:
        """Messages that the queue holds."""
        with Admin(self.bootstrap) as admin:
            return admin.counts(queue).held if admin.exists(queue) else 0

    def retry(self, **options: object) -> RetriedLetters:
        """With these options of the job."""
        return run(self._spark, self.letters.name, bootstrap=self.bootstrap, **options)  # type: ignore[arg-type]

    def bodies(self, queue: Queue) -> dict[str, list[str]]:
        """What the queue holds of each unit, in its order."""
        found: dict[str, list[str]] = {"u0": [], "u1": []}
        with Admin(self.bootstrap) as admin:
            for message in admin.browse(queue, include="all"):
                found[str(message.unit_of_order)].append(str(message.body))
        return found


@pytest.fixture
def orders(spark: SparkSession, bootstrap: str) -> Orders:
    return Orders(spark, bootstrap)


def test_the_letters_that_sql_chooses_are_sent_in_order_and_what_overtook_them_is_told(orders: Orders) -> None:
    """Of REDELIVER-9: the others stay where they are."""
    where = "last_error LIKE 'LookupError%' AND properties['number'] > 0"
    planned = orders.retry(where=where, is_dry_run=True)
    assert (planned.sent, planned.kept, planned.has_violations) == (3, (), False)
    assert orders.count(orders.letters) == 6
    done = orders.retry(where=where, rate=1_000.0)
    assert (done.sent, done.kept, done.taken) == (3, (), 0)
    # In u0 message 4 and `behind` stand behind the original of 2; in u1 only 5 behind those of 1 and 3.
    assert (
        done.overtaken
        == planned.overtaken
        == (
            OvertakenUnit(destination=str(orders.queue), unit="u0", letters=1, overtaken_by=2),
            OvertakenUnit(destination=str(orders.queue), unit="u1", letters=2, overtaken_by=1),
        )
    )
    assert orders.bodies(orders.queue) == {"u0": ["behind", "2"], "u1": ["1", "3"]}
    assert orders.bodies(orders.letters) == {"u0": ["0", "4"], "u1": ["5"]}
    assert orders.retry(where=where).sent == 0


def test_a_limit_takes_those_that_died_first_and_a_queue_only_its_own(orders: Orders) -> None:
    assert orders.retry(queue="another", is_dry_run=True).sent == 0
    assert orders.retry(queue=orders.queue.name, limit=2).sent == 2
    found = orders.bodies(orders.queue)
    assert len(found["u0"]) - 1 + len(found["u1"]) == 2
    assert found["u0"] == ["behind", "0", "2", "4"][: len(found["u0"])]
    assert found["u1"] == ["1", "3", "5"][: len(found["u1"])]


@pytest.mark.parametrize("where", ["last_eror = 'x'", "last_error LIKE"])
def test_a_condition_that_is_none_is_one_line_with_the_columns(spark: SparkSession, topics: Topics, where: str) -> None:
    with pytest.raises(SparkJobError, match=r"^where=.*; columns are message_id, .*last_error") as raised:
        run(spark, topics.create(), bootstrap=topics.bootstrap, where=where)
    assert "\n" not in str(raised.value)


def test_the_command_tells_what_stays_and_exits_with_3(topics: Topics) -> None:
    """A letter that somebody wrote there by hand."""
    queue = topics.create()
    topics.write(queue, [])
    with Admin(topics.bootstrap), ConnectionFactory(topics.bootstrap).create_connection() as connection:
        connection.create_session().create_producer(Queue(queue)).send("by hand")
    command = [sys.executable, "-m", "jbm_spark.cli", "dead-letters", "retry", "--from", queue, "--json"]
    environment = os.environ | {"JBM_BOOTSTRAP": topics.bootstrap}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert (done.returncode, done.stderr) == (3, "")
    [[_, why]] = json.loads(done.stdout)["kept"]
    assert why.startswith("it does not tell where it came from")
