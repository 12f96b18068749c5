"""The bookstore's day, with its kills and its oracle, on the release of Kafka before the one of all other tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker, broker_jars
from jbm_kafka.devbroker.broker_jars import ensure_jars, kafka_version, resource_text
from tests.demo.conftest import Start
from tests.support.broker import local_broker

EARLIER = "4.3.1"


@pytest.fixture
def earlier_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    pom = resource_text("pom.xml").replace(f">{kafka_version()}<", f">{EARLIER}<")
    monkeypatch.setattr(broker_jars, "resource_text", lambda name: pom if name == "pom.xml" else resource_text(name))
    with local_broker(tmp_path / "earlier") as broker:
        yield broker


@pytest.mark.thorough
@pytest.mark.timeout(600)  # its jars may have to be fetched
def test_a_day_of_the_bookstore_is_right_on_the_release_before(
    earlier_broker: LocalBroker, start_demo_alone: Start
) -> None:
    assert (ensure_jars() / f"kafka_2.13-{EARLIER}.jar").exists()
    demo = start_demo_alone("--bootstrap", earlier_broker.bootstrap, "--customers", "20", "--no-spark")
    said = demo.communicate()[0]
    assert demo.returncode == 0, said
    assert "killed with SIGKILL" in said
    assert "all figures are right" in said
