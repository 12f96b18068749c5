"""Arguments, environment, file, defaults: in this order for every value, and for everybody who asks."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Worker, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.configuration import configured_cluster
from jbm_kafka.core.jms_errors import InvalidSettingError
from tests.configuration.conftest import Write

FILE = """
bootstrap = "file:1"
namespace = "of-file"
kafka.client.id = "of-file"
connection.prefetch = 11
connection.state_dir = "state"
address_settings.orders.max_delivery_attempts = 3
address_settings.prices.max_delivery_attempts = 4
"""
ENVIRONMENT = {
    "JBM_BOOTSTRAP": "environment:2",
    "JBM_NAMESPACE": "of-environment",
    "JBM_KAFKA_CLIENT_ID": "of-environment",
    "JBM_CONNECTION__PREFETCH": "22",
}
ARGUMENTS: dict[str, Any] = {
    "url": "argument:3",
    "namespace": "of-argument",
    "kafka": {"client.id": "of-argument"},
    "prefetch": 33,
}
READ: dict[str, Callable[[ConnectionFactory], object]] = {
    "url": lambda factory: factory._installation.bootstrap,
    "namespace": lambda factory: factory._installation.config.namespace,
    "kafka": lambda factory: factory._installation.client_settings.get("client.id"),
    "prefetch": lambda factory: factory._defaults.prefetch,
}
VARIABLES = dict(zip(ARGUMENTS, ENVIRONMENT, strict=True))
OF_FILE = {"url": "file:1", "namespace": "of-file", "kafka": "of-file", "prefetch": 11}
OF_ENVIRONMENT = {"url": "environment:2", "namespace": "of-environment", "kafka": "of-environment", "prefetch": 22}
OF_ARGUMENTS = {"url": "argument:3", "namespace": "of-argument", "kafka": "of-argument", "prefetch": 33}
DEFAULTS = {"url": "127.0.0.1:9092", "namespace": "", "kafka": None, "prefetch": 1000}


def made_by_factory(path: str | None, **overrides: Any) -> ConnectionFactory:
    return ConnectionFactory.from_config(path, **overrides)


def made_by_worker(path: str | None, **overrides: Any) -> ConnectionFactory:
    return (Worker(**overrides) if path is None else Worker.from_config(path, **overrides))._factory


def values(factory: ConnectionFactory) -> dict[str, object]:
    return {name: read(factory) for name, read in READ.items()}


@pytest.fixture(params=[made_by_factory, made_by_worker])
def made(request: pytest.FixtureRequest) -> Callable[..., ConnectionFactory]:
    asked: Callable[..., ConnectionFactory] = request.param
    return asked


def test_without_anything_the_defaults_hold(made: Callable[..., ConnectionFactory]) -> None:
    assert values(made(None)) == DEFAULTS


def test_each_place_wins_over_those_behind_it(
    made: Callable[..., ConnectionFactory], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONF-1."""
    write(FILE)
    assert values(made(None)) == OF_FILE
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert values(made(None)) == OF_ENVIRONMENT
    assert values(made(None, **ARGUMENTS)) == OF_ARGUMENTS


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_it_holds_name_by_name(
    made: Callable[..., ConnectionFactory], write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of CONF-1: one that a place says leaves the others as they are."""
    write(FILE)
    monkeypatch.setenv(VARIABLES[name], ENVIRONMENT[VARIABLES[name]])
    assert values(made(None)) == {**OF_FILE, name: OF_ENVIRONMENT[name]}
    assert values(made(None, **{name: ARGUMENTS[name]})) == {**OF_FILE, name: OF_ARGUMENTS[name]}


def test_patterns_of_arguments_stand_beside_those_of_the_file(write: Write) -> None:
    write(FILE)
    mine = {"orders": AddressSettings(max_delivery_attempts=9)}
    settings = ConnectionFactory.from_config(address_settings=mine)._installation.config.address_settings
    assert settings == {**mine, "prices": AddressSettings(max_delivery_attempts=4)}


def test_from_env_reads_no_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(FILE)
    monkeypatch.setenv("JBM_CONFIG", str(path))
    assert values(ConnectionFactory.from_env()) == DEFAULTS
    monkeypatch.setenv("JBM_BOOTSTRAP", "environment:2")
    assert values(ConnectionFactory.from_env()) == {**DEFAULTS, "url": "environment:2"}
    assert values(ConnectionFactory.from_env(url="argument:3")) == {**DEFAULTS, "url": "argument:3"}


def test_an_empty_variable_says_nothing_and_an_empty_argument_says_none(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(FILE)
    monkeypatch.setenv("JBM_NAMESPACE", "")
    assert READ["namespace"](ConnectionFactory.from_config()) == "of-file"
    assert READ["namespace"](ConnectionFactory.from_config(namespace="")) == ""
    assert values(ConnectionFactory.from_config("")) == DEFAULTS


def test_a_list_or_a_table_in_a_variable_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JBM_ADDRESS_SETTINGS", '{"orders.#": {"max_delivery_attempts": 3}}')
    settings = ConnectionFactory.from_config()._installation.config.address_settings
    assert settings == {"orders.#": AddressSettings(max_delivery_attempts=3)}
    monkeypatch.setenv("JBM_ADDRESS_SETTINGS", "{")
    with pytest.raises(InvalidSettingError, match="JBM_ADDRESS_SETTINGS: it is for a table or a list; write JSON"):
        ConnectionFactory.from_config()


def test_a_folder_begins_at_the_files(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(FILE, "etc/shop.toml")
    state = ConnectionFactory.from_config(path)._installation.state_dir
    assert state == str(folder / "etc" / "state")
    monkeypatch.setenv("JBM_CONNECTION__STATE_DIR", "mine")
    assert ConnectionFactory.from_config(path)._installation.state_dir == "mine"


def test_a_factory_of_another_class_is_made_the_same_way(write: Write) -> None:
    write(FILE)
    made = XAConnectionFactory.from_config()
    assert isinstance(made, XAConnectionFactory)
    assert values(made) == OF_FILE


def test_operators_and_spark_take_the_same_cluster(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FILE)
    monkeypatch.setenv("JBM_NAMESPACE", "of-environment")
    of_file = {"bootstrap": "file:1", "namespace": "of-environment", "kafka": {"client.id": "of-file"}}
    assert configured_cluster() == of_file
    assert configured_cluster(bootstrap="argument:3") == {**of_file, "bootstrap": "argument:3"}
    with (
        ConnectionFactory("memory://operated").create_connection(),
        Admin.from_config(bootstrap="memory://operated", namespace="") as admin,
    ):
        assert admin.create_queue("orders")


def test_a_wrong_value_names_its_place_also_where_the_factory_finds_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write('bootstrap = "file"')
    with pytest.raises(InvalidSettingError, match=r"jbm-kafka.toml, bootstrap: url is 'file': the port is missing"):
        ConnectionFactory.from_config(path)
    monkeypatch.setenv("JBM_BOOTSTRAP", "a:1")
    monkeypatch.setenv("JBM_KAFKA_LINGER_MS", "x")
    with pytest.raises(InvalidSettingError, match=r"JBM_KAFKA_LINGER_MS: .*linger.ms"):
        ConnectionFactory.from_config()
    with pytest.raises(InvalidSettingError, match=r"^prefetch is 0: it is an int"):
        ConnectionFactory.from_env(prefetch=0, kafka={"linger.ms": 5})


def test_a_worker_reads_it_when_it_starts_and_not_before(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(prefetch=7)
    write(FILE)
    monkeypatch.setenv("JBM_NAMESPACE", "later")
    assert values(worker._factory) == {**OF_FILE, "namespace": "later", "prefetch": 7}


def test_old_names_are_told_to_programs_by_the_log(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write('bootstrap = "file:1"\nstate_dir = "state"\n')
    with caplog.at_level(logging.WARNING):
        ConnectionFactory.from_config()
    (line,) = [each.getMessage() for each in caplog.records if "written as earlier" in each.getMessage()]
    assert (
        line
        == f"{path.name}: written as earlier versions had it, and read as such; now below [connection] stand state_dir"
    )


def test_a_store_is_said_by_file_and_variables(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('bootstrap = "file:1"\n[connection]\nstore_and_forward = "stored"\nstore_fsync = false\n')
    store = ConnectionFactory.from_config(path)._store
    assert store is not None
    assert (store.folder, store.fsync, store.limits.age_max_ms) == (str(path.parent / "stored"), False, 0)
    monkeypatch.setenv("JBM_CONNECTION__STORE_AND_FORWARD", "mine")
    monkeypatch.setenv("JBM_CONNECTION__STORE_AGE_MAX_MS", "5000")
    store = ConnectionFactory.from_config(path)._store
    assert store is not None
    assert (store.folder, store.fsync, store.limits.age_max_ms) == ("mine", False, 5_000)
