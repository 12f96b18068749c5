"""The claims of this process in the registry while it lives: client ids, subscriptions, and the selectors of queues."""

from __future__ import annotations

from jbm_kafka.core.destination import Queue
from jbm_kafka.ports.patience import Patience
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.client_ids import ClientIds
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.registry.selector_sets import SelectorSetParts, SelectorSets
from jbm_kafka.registry.sidecar_addresses import SidecarAddresses
from jbm_kafka.registry.subscription_remains import SubscriptionRemains
from jbm_kafka.registry.subscriptions import SubscriptionParts, Subscriptions
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.runtime import Runtime


class RegistryClaims:
    """The claims of this process, which end with it. Any thread may call it."""

    def __init__(self, given: Runtime, registry: RegistryLog, group_workers: GroupWorkers) -> None:
        """`group_workers`: those that receive by what is claimed, and end when it is lost."""
        self.holder = ProcessLiveness(
            kafka=given.kafka,
            admin=given.admin,
            config=given.config,
            topic=registry.topic,
            workers=given.workers,
            clock=given.clock,
            chance=given.chance,
        )
        self.client_ids = ClientIds(registry, self.holder)
        self.addresses = SidecarAddresses(registry, self.holder)
        self.subscriptions = Subscriptions(_subscription_parts(given, registry, self.holder, group_workers))
        self.selector_sets = SelectorSets(_selector_set_parts(given, registry, self.holder, group_workers))

    def check(self, group: ChannelGroup) -> None:
        """Return when this process may receive from the group.

        Raises:
            IllegalStateError: others have what it received from, as after it was thought dead.
            KafkaClientError: no answer.
        """
        if group.subscription is not None:
            self.subscriptions.check(group.group_id, group.incarnation)
        elif isinstance(group.destination, Queue):
            self.selector_sets.check(group.destination)

    def stop(self, patience: Patience) -> None:
        """Have nothing any more."""
        self.holder.stop(patience)


def _subscription_parts(
    given: Runtime, registry: RegistryLog, holder: ProcessLiveness, group_workers: GroupWorkers
) -> SubscriptionParts:
    namespace = given.config.namespace
    return SubscriptionParts(
        registry=registry,
        holder=holder,
        admin=given.admin,
        remains=SubscriptionRemains(
            given.kafka, given.admin, namespace=namespace, workers=given.workers, clock=given.clock
        ),
        workers=given.workers,
        clock=given.clock,
        chance=given.chance,
        namespace=namespace,
        stop_group_worker=group_workers.stop,
        refuse=group_workers.refuse,
    )


def _selector_set_parts(
    given: Runtime, registry: RegistryLog, holder: ProcessLiveness, group_workers: GroupWorkers
) -> SelectorSetParts:
    return SelectorSetParts(
        registry=registry,
        holder=holder,
        admin=given.admin,
        workers=given.workers,
        clock=given.clock,
        namespace=given.config.namespace,
        linger_ms=given.config.linger_ms,
        session_timeout_ms=given.config.session_timeout_ms,
        own_members=group_workers.own_members,
        stop_group_worker=group_workers.stop,
        refuse=group_workers.refuse,
    )
