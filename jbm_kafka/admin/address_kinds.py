"""Addresses that are to be recorded, held against the queues, topics and subscriptions that are there."""

from __future__ import annotations

from jbm_kafka.admin.cluster.catalog import Catalog
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.settings.address_settings import ADDRESSES, AddressSettings
from jbm_kafka.core.settings.addresses import destination_at, kind_remedy
from jbm_kafka.registry.registry import Registry


def check_kinds(pattern: str, settings: AddressSettings, found: Catalog, registry: Registry) -> None:
    """Return when no address names a queue where there is a topic, or a topic where there is a queue.

    Recorded, it would have every process refuse a receiver there. What is made later is not seen here.

    Raises:
        InvalidSettingError: one does.
        KafkaClientError: no answer.
    """
    for setting, address in _addresses(settings):
        if _is_other_kind(destination_at(address), found, registry):
            raise InvalidSettingError(
                f"{setting} is {address!r}: {kind_remedy(address, setting=setting, of=pattern)}", setting=setting
            )


def absent_addresses(pattern: str, settings: AddressSettings, found: Catalog) -> list[str]:
    """Return what is to be said of addresses that are queues and not there: a misspelt one is made, and nobody looks
    into it.

    Not of the one queue that the pattern names: of that, it is said that it is its own.

    Raises:
        KafkaClientError: no answer.
    """
    warnings = []
    for setting, address in _addresses(settings):
        queue = destination_at(address)
        if isinstance(queue, Queue) and queue.name != pattern and found.described(queue) is None:
            warnings.append(
                f"{setting} is {queue}, which is not there: running programs with auto_create make it within seconds, "
                f"also if it is misspelt. Make it first (jbm-kafka create {queue.name}, or create_queue), or correct "
                f"the name"
            )
    return warnings


def unheard_addresses(settings: AddressSettings, found: Catalog) -> list[str]:
    """Return what is to be said of addresses that are topics without a subscription, so that nobody would get what
    leaves.

    Raises:
        KafkaClientError: no answer.
    """
    warnings = []
    for setting, address in _addresses(settings):
        topic = destination_at(address)
        if isinstance(topic, Topic) and not found.subscriptions_of(topic):
            warnings.append(
                f"{setting} is {topic}, which has no subscription: nobody gets what leaves for it; that is in its log "
                f"only. Make a durable subscription of {topic.name} first (create_shared_durable_consumer), or "
                f"name a queue"
            )
    return warnings


def _addresses(settings: AddressSettings) -> list[tuple[str, str]]:
    """Return what is given of them, each with its setting."""
    given = settings.given()
    return [(setting, address) for setting in ADDRESSES if isinstance(address := given.get(setting), str)]


def _is_other_kind(wanted: Queue | Topic, found: Catalog, registry: Registry) -> bool:
    described = found.described(wanted)
    if described is None:
        return False
    registry.refresh()
    is_topic = registry.is_topic(wanted.name, described.topic_id)
    if isinstance(wanted, Queue):
        return is_topic
    return not is_topic and registry.recorded(wanted.name, described.topic_id) is not None
