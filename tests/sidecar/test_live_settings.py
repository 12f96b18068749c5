"""The settings in force: the registry's over the factory's, as of the latest look."""

import logging
import threading

import pytest

from jbm_kafka.admin.cluster.recorded_settings import recorded_settings, set_settings, unset_settings
from jbm_kafka.codec.settings_record import SettingsRecord, encode_settings, settings_key
from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError, JMSError
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.registry_log import RegistryLog
from tests.support.manual_clock import ManualClock

OURS = {"orders.#": AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=50)}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


@pytest.fixture
def admins(cluster: MemoryCluster) -> RegistryLog:
    """The registry as an administrator's process has it."""
    return registry_of(cluster)


def registry_of(cluster: MemoryCluster) -> RegistryLog:
    kafka = MemoryKafka(cluster)
    return RegistryLog(kafka, kafka.admin(), "jbm.registry")


def of(settings: LiveSettings, name: str = "orders.eu") -> tuple[int, int, str | None]:
    found = settings.resolve(name)
    return found.max_delivery_attempts, found.redelivery_delay_ms, found.dead_letter_address


def test_what_is_recorded_holds_at_the_next_look_and_wins_setting_by_setting(
    cluster: MemoryCluster, admins: RegistryLog
) -> None:
    """REDELIVER-6: set, unset by an explicit None, and taken back, in a process that runs."""
    set_settings(admins, "#", AddressSettings(expiry_address=None))
    live = LiveSettings(registry_of(cluster), OURS)
    assert of(live) == (3, 50, "DLQ")
    live.load()
    assert live.resolve("orders.eu").expiry_address is None
    assert not live.follow()
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=9, dead_letter_address=None))
    assert of(live) == (3, 50, "DLQ")
    assert live.follow()
    assert of(live) == (9, 50, None)
    assert live.resolve("orders.eu").expiry_address is None
    unset_settings(admins, "#", ("max_delivery_attempts",))
    assert live.follow()
    assert of(live) == (3, 50, None)
    unset_settings(admins, "#", ())
    assert live.follow()
    assert of(live) == (3, 50, "DLQ")
    assert recorded_settings(admins, None) == {}


def test_what_a_send_took_first_is_still_news_for_those_who_are_told(
    cluster: MemoryCluster, admins: RegistryLog
) -> None:
    """REDELIVER-6: receivers that run are told by whoever follows, however the change was read."""
    registry = registry_of(cluster)
    live = LiveSettings(registry, OURS)
    live.load()
    set_settings(admins, "orders.eu", AddressSettings(max_delivery_attempts=9))
    registry.refresh()
    live.take()
    assert of(live)[0] == 9
    assert live.follow()
    assert not live.follow()


def test_addresses_of_the_registry_take_copies(cluster: MemoryCluster, admins: RegistryLog) -> None:
    """REDELIVER-3: nothing is removed there, whoever named it."""
    live = LiveSettings(registry_of(cluster), {"#": AddressSettings(max_delivery_attempts=2)})
    set_settings(admins, "orders", AddressSettings(dead_letter_address="failed"))
    set_settings(admins, "failed", AddressSettings(dead_letter_address=None))
    live.load()
    assert live.takes_copies("failed")
    assert live.resolve("failed").max_delivery_attempts == -1


def test_other_records_of_the_registry_change_nothing(cluster: MemoryCluster, admins: RegistryLog) -> None:
    live = LiveSettings(registry_of(cluster), OURS)
    set_settings(admins, "#", AddressSettings(partitions=3))
    live.load()
    before = live.resolve("orders.eu")
    admins.write({b"destination|orders": b"whatever"})
    assert not live.follow()
    assert live.resolve("orders.eu") is before


def test_a_difference_is_told_once_with_both_values_and_who_wins(
    cluster: MemoryCluster, admins: RegistryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """REDELIVER-6: once a pattern and setting, and again when it is another difference."""
    live = LiveSettings(registry_of(cluster), OURS)
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=9, redelivery_delay_ms=50))
    live.load()
    with caplog.at_level(logging.WARNING):
        live.warn_of_differences(["bills", "orders.eu", "orders.us"])
        live.warn_of_differences(["orders.eu"])
    assert caplog.messages == [
        "max_delivery_attempts of 'orders.eu' is 9, as the registry says for '#', and not 3, as was given to "
        "this process for 'orders.#': the registry wins. To have what was given: jbm-kafka settings unset '#' "
        "max_delivery_attempts"
    ]
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=8))
    live.follow()
    live.warn_of_differences(["orders.eu"])
    assert len(caplog.messages) == 2


def test_what_is_shipped_is_no_difference_and_the_same_given_to_a_factory_is_one(
    cluster: MemoryCluster, admins: RegistryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Of REDELIVER-6, REDELIVER-8: the warning advised to unset what the operator had recorded for all."""
    set_settings(admins, "orders", AddressSettings(dead_letter_address="orders.dl", max_delivery_attempts=9))
    for ours, told in (
        ({}, 0),
        ({"#": AddressSettings(partitions=2)}, 0),
        ({"#": AddressSettings(dead_letter_address="DLQ")}, 1),
    ):
        caplog.clear()
        live = LiveSettings(registry_of(cluster), ours)
        live.load()
        live.warn_of_differences(["orders"])
        assert len(caplog.messages) == told, ours
    assert "'orders.dl', as the registry says for 'orders', and not 'DLQ'" in caplog.text


def test_what_a_newer_version_recorded_is_passed_over_and_told_once(
    cluster: MemoryCluster, admins: RegistryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Rolling upgrades: the rest holds."""
    newer = encode_settings(SettingsRecord(AddressSettings(max_delivery_attempts=9), {"colour": "red"}))
    admins.write({settings_key("#"): newer, settings_key("a"): b"damaged", settings_key("a#"): newer})
    live = LiveSettings(registry_of(cluster), OURS)
    live.load()
    assert of(live) == (9, 50, "DLQ")
    assert sorted(line.partition("'")[2].partition(":")[0] for line in caplog.messages if "version" in line) == [
        "#' in the registry",
        "a#' in the registry mean nothing to this version",
        "a' in the registry mean nothing to this version",
    ]
    before = len(caplog.messages)
    set_settings(admins, "#", AddressSettings(partitions=2))
    live.follow()
    assert len(caplog.messages) == before
    assert live.resolve("orders.eu").partitions == 2


def test_changes_leave_what_newer_versions_recorded(admins: RegistryLog) -> None:
    newer = SettingsRecord(AddressSettings(max_delivery_attempts=9), {"colour": "red", "size": 1})
    admins.write({settings_key("#"): encode_settings(newer)})
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=8))
    unset_settings(admins, "#", ("size",))
    left = SettingsRecord(AddressSettings(max_delivery_attempts=8), {"colour": "red"})
    assert admins.get(settings_key("#")) == encode_settings(left)
    with pytest.raises(InvalidSettingError, match="'shape' is not an address setting"):
        unset_settings(admins, "#", ("shape",))
    with pytest.raises(InvalidSettingError, match="'shape' is not an address setting"):
        unset_settings(admins, "other", ("shape",))


def test_a_record_that_cannot_be_read_is_not_written_over_and_can_be_let_go(admins: RegistryLog) -> None:
    admins.write({settings_key("#"): b"damaged"})
    for call in (
        lambda: set_settings(admins, "#", AddressSettings(partitions=2)),
        lambda: unset_settings(admins, "#", ("partitions",)),
        lambda: recorded_settings(admins, None),
    ):
        with pytest.raises(JMSError, match=r"cannot be read: .* let go of all of it: jbm-kafka settings unset '#'"):
            call()
    unset_settings(admins, "#", ())
    assert recorded_settings(admins, None) == {}


def test_nothing_is_written_where_nothing_changes(cluster: MemoryCluster, admins: RegistryLog) -> None:
    set_settings(admins, "a", AddressSettings(partitions=2))
    end = cluster.log("jbm.registry", 0).end
    set_settings(admins, "a", AddressSettings(partitions=2))
    with pytest.raises(InvalidSettingError, match="which says nothing: give one"):
        set_settings(admins, "b", AddressSettings())
    unset_settings(admins, "a", ("truncate",))
    unset_settings(admins, "b", ())
    assert cluster.log("jbm.registry", 0).end == end
    unset_settings(admins, "a", ("partitions",))
    assert recorded_settings(admins, "a") == {}


@pytest.mark.parametrize("pattern", ["", "a#", "a b"])
def test_what_is_no_pattern_is_refused(admins: RegistryLog, pattern: str) -> None:
    with pytest.raises(InvalidSettingError):
        set_settings(admins, pattern, AddressSettings())
    with pytest.raises(InvalidSettingError):
        unset_settings(admins, pattern, ())
    with pytest.raises(InvalidSettingError):
        recorded_settings(admins, pattern)


def test_what_are_no_settings_is_refused(admins: RegistryLog) -> None:
    with pytest.raises(InvalidTypeError, match=r"settings is \{'partitions': 2\}: it is an AddressSettings"):
        set_settings(admins, "#", {"partitions": 2})  # type: ignore[arg-type]


def test_administrators_who_set_different_settings_of_one_pattern_at_once_all_do(cluster: MemoryCluster) -> None:
    """Decision 27: read, changed and written by two at once, one change was lost."""
    given = [AddressSettings(partitions=2), AddressSettings(redelivery_delay_ms=1), AddressSettings(expiry_address="x")]
    threads = [threading.Thread(target=set_settings, args=(registry_of(cluster), "#", each)) for each in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded_settings(registry_of(cluster), "#") == {
        "#": AddressSettings(partitions=2, redelivery_delay_ms=1, expiry_address="x")
    }


def test_a_registry_that_was_deleted_has_the_settings_again_from_a_process_that_runs(
    cluster: MemoryCluster, admins: RegistryLog
) -> None:
    """docs/operating.md: what a running process knows of it is recorded again."""
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=9))
    registry = registry_of(cluster)
    live = LiveSettings(registry, OURS)
    live.load()
    cluster.delete_topic("jbm.registry")
    live.follow()
    registry.refresh()  # as every look does
    live.follow()
    assert of(live) == (9, 50, "DLQ")
    assert recorded_settings(registry_of(cluster), "#") == {"#": AddressSettings(max_delivery_attempts=9)}


def test_following_waits_for_nobody(cluster: MemoryCluster, admins: RegistryLog) -> None:
    registry = registry_of(cluster)
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=9))
    registry.refresh()
    version = registry.version
    set_settings(admins, "#", AddressSettings(max_delivery_attempts=8))
    with registry._lock:
        thread = threading.Thread(target=registry.follow)
        thread.start()
        thread.join(10.0)
        assert not thread.is_alive()
        assert registry.version == version
    registry.follow()
    assert registry.version > version
