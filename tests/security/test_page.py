"""docs/security.md does what it says, for a user who is allowed exactly what its command prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka import Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.provisioning import provision
from jbm_kafka.core.settings.address_settings import default_addresses
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.topic_plan import TopicWish
from tests.docs.page import read_page, run_page
from tests.house.sources import ROOT
from tests.support.secured import PASSWORD, Rule, SecuredBroker, as_rule

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "security.md").read_text()
USER, NAMESPACE = "billing", "shop"
_SETTINGS = ("JBM_BOOTSTRAP", "JBM_NAMESPACE", "JBM_CONFIG", "JBM_KAFKA_", "XDG_CONFIG_HOME")
LETTERS, EXPIRED = default_addresses(NAMESPACE)
QUEUES = ("orders", LETTERS, EXPIRED)


def blocks(language: str) -> list[str]:
    """The page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def page_rules(*others: str) -> list[Rule]:
    """What the page's command allows its user, on queues of these names besides."""
    (asked,) = [line for line in blocks("console")[-1].splitlines() if "--roles" in line]
    words = shlex.split(asked)
    given = dict(zip(words[3::2], words[4::2], strict=True))
    roles = [Role(each.partition(":")[0]) for each in given["--roles"].split(",")]
    assert given["--namespace"] == NAMESPACE
    queues = [Queue(name) for name in (*given["--queues"].split(","), *others)]
    installation = NamespaceTopics(NAMESPACE, queues, [Queue(LETTERS), Queue(EXPIRED)])
    return [as_rule(each) for each in rules_of(roles, installation)]


@pytest.fixture(scope="module")
def broker(secured: SecuredBroker) -> SecuredBroker:
    """With the page's user, who may not create the topics that are there already."""
    core = AdminCore(secured.open, None, NAMESPACE, 20.0)
    letters = [Queue(LETTERS), Queue(EXPIRED)]
    provision(core, TopicWish(NAMESPACE, {Queue("orders"): None}, letters, partitions=1), dry_run=False)
    core.close()
    rules = page_rules()
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


def test_create_is_enough_to_create(broker: SecuredBroker, kafka_name: str) -> None:
    broker.add_user("maker")
    broker.allow("maker", [*page_rules(kafka_name), Rule("cluster", "kafka-cluster", ("CREATE",))])
    with Admin(broker.sasl, kafka=broker.as_user("maker"), namespace=NAMESPACE) as admin:
        assert admin.create_queue(kafka_name, partitions=1)
