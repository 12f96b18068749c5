"""Where the standalone sidecars of a namespace listen for each other: each says it for as long as it lives."""

from __future__ import annotations

from jbm_kafka.codec.registry_records import addresses_in, encode_address, sidecar_key
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry_log import Changes, RegistryLog, Values


class SidecarAddresses:
    """Any thread may call it."""

    def __init__(self, registry: RegistryLog, holder: ProcessLiveness) -> None:
        self._registry = registry
        self._holder = holder
        self._mine = ""
        holder.when_back(self._publish)

    def publish(self, address: str) -> None:
        """Have others find this process there, until `withdraw` or its end. What the dead left is removed.

        Raises:
            JMSError: the cluster cannot be asked.
        """
        with raised_as_jms_errors("publish the sidecar's address"):
            self._registry.make()
            self._holder.ensure()
            self._mine = address
            self._publish()

    def withdraw(self) -> None:
        """Nobody is to find it any more; when Kafka does not answer, as soon as it does."""
        self._mine = ""
        key = sidecar_key(self._holder.name)
        self._holder.let_go("the sidecar's address", lambda: self._registry.update(lambda _: {key: None}))

    def others(self) -> frozenset[str]:
        """The addresses of the others, maybe also of some that are dead.

        Raises:
            JMSError: the cluster cannot be asked.
        """
        with raised_as_jms_errors("look for the other sidecars"):
            self._registry.refresh()
        return frozenset(address for _, address in addresses_in(self._registry.values()) if address != self._mine)

    def _publish(self) -> None:
        if self._mine:
            self._registry.update(self._changes)

    def _changes(self, values: Values) -> Changes:
        found = dict(addresses_in(values))
        me = self._holder.name
        living = self._holder.living(found)
        changes: dict[bytes, bytes | None] = {sidecar_key(each): None for each in found if each not in living}
        if found.get(me) != self._mine:
            changes[sidecar_key(me)] = encode_address(self._mine)
        return changes
