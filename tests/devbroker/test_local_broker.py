"""The local broker starts once, is found by anybody, keeps its data, and ends when told.

One broker serves the tests of this file in turn: each leaves it running or not, as it likes.
"""

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker, LocalBrokerError, answers, ports
from jbm_kafka.devbroker.process import send_signal
from tests.support.broker import local_broker
from tests.support.topics import admin_client, create_topic


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with local_broker(tmp_path_factory.mktemp("local-broker")) as broker:
        yield broker


@pytest.fixture
def broker(shared: LocalBroker) -> LocalBroker:
    shared.start()
    return shared


def test_a_started_broker_answers_and_says_where(broker: LocalBroker) -> None:
    status = broker.status()
    assert status.is_running
    assert status.is_answering
    assert status.bootstrap == broker.bootstrap
    assert status.pid is not None
    assert answers(broker.bootstrap)


def test_a_second_start_finds_the_first_from_anywhere(broker: LocalBroker) -> None:
    pid = broker.status().pid
    other = LocalBroker(broker.data_dir)
    assert other.start() is False
    assert other.status().pid == pid
    with other:
        pass
    assert broker.is_running, "leaving the block stopped a broker it had not started"


def test_moving_a_running_broker_to_another_port_is_refused(broker: LocalBroker) -> None:
    with pytest.raises(LocalBrokerError, match="stop it before moving it"):
        LocalBroker(broker.data_dir).start(port=1025)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalBrokerError, match=f"port {port} is in use"):
            LocalBroker(tmp_path).start(port=port)
    assert not LocalBroker(tmp_path).is_running


@pytest.mark.thorough
def test_data_and_address_survive_a_stop_by_another_process_and_a_crash(broker: LocalBroker) -> None:
    address = broker.bootstrap
    create_topic(address, "kept")
    assert LocalBroker(broker.data_dir).stop()
    assert not broker.is_running
    assert broker.start()
    broker.kill()
    assert not broker.is_running
    assert broker.start()
    assert broker.bootstrap == address
    assert "kept" in admin_client(address).list_topics(timeout=10).topics


def test_stopping_what_does_not_run_does_nothing(broker: LocalBroker) -> None:
    assert broker.stop()
    assert not broker.stop()
    broker.kill()
    with pytest.raises(LocalBrokerError, match="no broker of"):
        broker.pause()


def test_a_paused_broker_runs_without_answering_and_can_be_stopped(broker: LocalBroker) -> None:
    broker.pause()
    status = broker.status()
    assert (status.is_running, status.is_answering) == (True, False)
    broker.resume()
    assert answers(broker.bootstrap, timeout_s=10)
    broker.pause()
    assert broker.stop()
    assert not broker.is_running


def test_no_thread_of_a_paused_broker_runs_on(broker: LocalBroker) -> None:
    """After the signal they do until one of them gets a processor to hear of it: what was sent then was answered."""
    threads = Path(f"/proc/{broker.status().pid}/task")
    for _ in range(50):
        broker.pause()
        states = {stat.read_text().rpartition(") ")[2][0] for stat in threads.glob("*/stat")}
        broker.resume()
        assert states == {"T"}


def test_a_stale_process_id_is_never_signalled(tmp_path: Path) -> None:
    (tmp_path / "broker.lock").touch()
    (tmp_path / "broker.json").write_text('{"port": 1, "pid": 1}')
    broker = LocalBroker(tmp_path)
    assert broker.status().pid is None
    assert not broker.stop()


def test_starts_at_the_same_time_make_one_broker(broker: LocalBroker) -> None:
    broker.stop()
    with ThreadPoolExecutor(3) as threads:
        started = list(threads.map(lambda _: LocalBroker(broker.data_dir).start(), range(3)))
    assert sorted(started) == [False, False, True]


def test_a_broker_that_dies_while_starting_is_reported_with_the_end_of_its_log(broker: LocalBroker) -> None:
    broker.stop()
    meta = broker.data_dir / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    try:
        with pytest.raises(LocalBrokerError, match=r"did not come up(?s:.*)node"):
            broker.start()
        assert not broker.is_running
    finally:
        meta.write_text(meta.read_text().replace("node.id=7", "node.id=1"))
    assert broker.start()


def test_a_wrong_property_is_named_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(LocalBrokerError, match=r"could not be prepared: .*num\.partitions") as caught:
        LocalBroker(tmp_path, properties={"num.partitions": "several"}).start()
    assert "\n" not in str(caught.value)


def test_the_controller_does_not_get_the_port_of_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """By chance it did, one start in 11,000, and Kafka refused the settings."""
    first = ports.free_port()
    monkeypatch.setattr(ports, "PORTS", [first, ports.free_port(besides=first)])
    monkeypatch.setattr(ports, "TRIES", 2)
    assert all(ports.free_port(besides=first) != first for _ in range(20))


def test_signalling_a_process_that_is_gone_is_no_error() -> None:
    send_signal(2**22 + 1, signal.SIGTERM)
