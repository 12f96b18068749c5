"""Makes a connection's provider with a store beside it: what a ConnectionFactory loads by name (decision 121)."""

from __future__ import annotations

from typing import cast

from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.fenced_sends import ProviderOfBatches
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.provider import Provider, ProviderModule
from jbm_kafka.store_and_forward.open_stores import opened_store
from jbm_kafka.store_and_forward.store_limits import StoreSettings
from jbm_kafka.store_and_forward.storing_provider import StoringProvider


def connect_storing(
    provider: ProviderModule, installation: Installation, settings: StoreSettings, *, is_near: bool
) -> Provider:
    """Returns a provider whose sends go into the store; Kafka is asked when something has to be.

    Args:
        is_near: what the provider needs is in this process: it is connected at once, and has the clock.

    Raises:
        InvalidSettingError, IllegalStateError, ResourceAllocationError: the store cannot be used.
    """

    def connect() -> ProviderOfBatches:
        return cast(ProviderOfBatches, provider.connect(installation))

    there = connect() if is_near else None
    clock = SystemClock() if there is None else there.clock
    try:
        opened = opened_store(settings, installation, connect, clock)
    except BaseException:
        if there is not None:
            there.close()
        raise
    return cast(Provider, StoringProvider(installation, opened, connect, clock, there))
