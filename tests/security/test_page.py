"""docs/security.md does what it says, for a user who is allowed exactly what it lists."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.address_settings import default_addresses
from tests.docs.page import read_page, run_page
from tests.house.sources import ROOT
from tests.support.secured import PASSWORD, Rule, SecuredBroker

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "security.md").read_text()
USER, NAMESPACE = "billing", "shop"
_SETTINGS = ("JBM_BOOTSTRAP", "JBM_NAMESPACE", "JBM_CONFIG", "JBM_KAFKA_", "XDG_CONFIG_HOME")
LETTERS, EXPIRED = default_addresses(NAMESPACE)
QUEUES = ("orders", LETTERS, EXPIRED)


def blocks(language: str) -> list[str]:
    """The page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def page_rules() -> list[Rule]:
    """What the page's commands allow."""
    rules = []
    commands = [line.removeprefix("$ $acls ") for line in blocks("console")[-1].splitlines() if "$acls --" in line]
    for command in commands:
        words = iter(shlex.split(command))
        given = [(option, next(words)) for option in words]
        operations = tuple(_operation(value) for option, value in given if option == "--operation")
        is_prefix = ("--resource-pattern-type", "prefixed") in given
        for option, value in given:
            if option in ("--topic", "--group", "--transactional-id"):
                rules.append(Rule(option.removeprefix("--").replace("-", "_"), value, operations, is_prefix))
    return rules


def _operation(text: str) -> str:
    """`DescribeConfigs` as `DESCRIBE_CONFIGS`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", text).upper()


@pytest.fixture(scope="module")
def broker(secured: SecuredBroker) -> SecuredBroker:
    """With the page's user, who may not create the topics that are there already."""
    with Admin(secured.open, namespace=NAMESPACE) as admin:
        for name in QUEUES:
            admin.create_queue(name)
    # Events and registry come with the first sidecar.
    with ConnectionFactory(secured.open, namespace=NAMESPACE).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        session.create_producer(Queue("orders")).send("first")
        first = session.create_consumer(Queue("orders")).receive(timeout=20)
        assert first is not None
        first.acknowledge()
    rules = page_rules()
    assert len(rules) == 6
    secured.add_user(USER)
    secured.allow(USER, rules)
    return secured


def as_written(broker: SecuredBroker, text: str) -> str:
    """The page's text with the test's addresses and files."""
    ours = {
        "kafka.example.com:9093": broker.sasl,
        "kafka.example.com:9094": broker.tls,
        "/etc/ssl/kafka-ca.pem": str(broker.certificates.authority),
        "/etc/billing/certificate.pem": str(broker.certificates.certificate),
        "/etc/billing/key.pem": str(broker.certificates.key),
    }
    for theirs, here in ours.items():
        assert theirs in PAGE
        text = text.replace(theirs, here)
    return text


def test_the_programs_of_the_page_run(broker: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLING_PASSWORD", PASSWORD)
    page = read_page(as_written(broker, PAGE))
    run_page(page, tmp_path, None)


def test_the_commands_of_the_page_run(broker: SecuredBroker, tmp_path: Path) -> None:
    home = tmp_path / "home"
    usual = home / ".config" / "jbm-kafka" / "config.toml"
    usual.parent.mkdir(parents=True)
    usual.write_text(as_written(broker, blocks("toml")[0]))
    usual.chmod(0o600)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    environment |= {"HOME": str(home), "PATH": paths, "JBM_KAFKA_SASL_PASSWORD": PASSWORD}
    shown = blocks("console")[0].splitlines()
    for number, line in enumerate(shown):
        if not line.startswith("$ jbm-kafka"):
            continue
        done = subprocess.run(shlex.split(line[2:]), env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), (line, done)
        if number + 1 < len(shown) and not shown[number + 1].startswith("$"):
            assert done.stdout == shown[number + 1] + "\n"


def test_a_process_needs_no_more_than_the_rules_of_the_page(broker: SecuredBroker) -> None:
    """Transactions, retries, a dead letter, an expired message, a browser, the counts; and its own traces removed."""
    kafka, orders = broker.as_user(USER), Queue("orders")
    settings = {"orders": AddressSettings(max_delivery_attempts=2, redelivery_delay_ms=1)}
    factory = ConnectionFactory(
        broker.sasl, kafka=kafka, namespace=NAMESPACE, address_settings=settings, auto_create=False
    )
    with factory.create_connection() as connection:
        sending = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = sending.create_producer(orders)
        for text in ("good", "bad"):
            producer.send(text, unit_of_order=text)
        sending.commit()
        connection.create_session().create_producer(orders).send("late", time_to_live_ms=1)
        working = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = working.create_consumer(orders)
        finished: set[object] = set()
        while len(finished) < 2:
            message = consumer.receive(timeout=20)
            assert message is not None
            if message.body == "bad" and message.delivery_count == 1:
                message.nack()
                continue
            if message.body == "bad":
                message.nack()
            else:
                message.acknowledge()
            finished.add(message.body)
        letters = connection.create_session(AcknowledgeMode.AUTO).create_consumer(Queue(LETTERS))
        letter = letters.receive(timeout=20)
        while letter is not None and letter.body != "bad":  # others' letters, such as the demo's, are in DLQ too
            letter = letters.receive(timeout=20)
        assert letter is not None
        expired = connection.create_session(AcknowledgeMode.AUTO).create_consumer(Queue(EXPIRED))
        assert expired.receive(timeout=20) is not None
        assert list(working.create_browser(orders, include="all")) == []
    with Admin(broker.sasl, kafka=kafka, namespace=NAMESPACE) as admin:
        assert admin.counts(orders).held == 0
        assert {queue.name for queue in admin.destinations()} == set(QUEUES)


def test_who_only_sends_needs_no_read_of_the_queues(broker: SecuredBroker) -> None:
    broker.add_user("sender")
    write = tuple(each for each in page_rules()[0].operations if each != "READ")
    broker.allow("sender", [replace(r, operations=write) if r.name in QUEUES else r for r in page_rules()])
    kafka = broker.as_user("sender")
    with ConnectionFactory(broker.sasl, kafka=kafka, namespace=NAMESPACE).create_connection() as connection:
        connection.create_session().create_producer(Queue("orders")).send("plain")
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        session.create_producer(Queue("orders")).send("in a transaction")
        session.commit()


def test_create_is_enough_to_create(broker: SecuredBroker, kafka_name: str) -> None:
    broker.add_user("maker")
    rules = [
        replace(r, operations=(*r.operations, "CREATE"), name=kafka_name if r.name == "orders" else r.name)
        for r in page_rules()
    ]
    broker.allow("maker", rules)
    with Admin(broker.sasl, kafka=broker.as_user("maker"), namespace=NAMESPACE) as admin:
        assert admin.create_queue(kafka_name, partitions=1)


def test_who_looks_needs_read_of_topics_and_describe_of_groups(broker: SecuredBroker) -> None:
    broker.add_user("looker")
    rules = [replace(r, operations=("READ",)) for r in page_rules() if r.kind == "topic"]
    rules.append(Rule("group", f"{NAMESPACE}.jbm.", ("DESCRIBE",), is_prefix=True))
    broker.allow("looker", rules)
    with Admin(broker.sasl, kafka=broker.as_user("looker"), namespace=NAMESPACE) as admin:
        assert {queue.name for queue in admin.destinations()} >= set(QUEUES)
        assert admin.counts("orders").held >= 0
        list(admin.browse("orders", include="all"))
