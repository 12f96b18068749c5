"""Subscriptions as the registry has them: made, changed, used and ended (decision 28)."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from weakref import WeakValueDictionary

from jbm_kafka.codec.registry_records import (
    SubscriptionRecord,
    decode_subscription,
    encode_owner,
    encode_subscription,
    owner_key,
    owner_of,
    subscription_key,
    subscriptions_in,
)
from jbm_kafka.core.channel.log_id import incarnation_of
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, JMSError, JMSSecurityError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.ports import Clock, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import GO_ON, Steps, Workers
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry_log import Changes, RegistryLog, Values
from jbm_kafka.registry.subscription_remains import SubscriptionRemains

log = logging.getLogger(__name__)


def begun(
    wanted: Subscription,
    info: TopicInfo,
    incarnation: str,
    admin: KafkaAdmin,
    now_ms: int,
    holders: tuple[str, ...] = (),
) -> SubscriptionRecord:
    """The record of one that begins now: it has what is sent from here on.

    Raises:
        KafkaClientError: the ends of its topic cannot be asked for.
    """
    ends = admin.end_positions(info.topic, list(range(info.partitions)), stable=True)
    return SubscriptionRecord(
        subscription=wanted,
        topic_id=info.topic_id,
        incarnation=incarnation,
        begins=tuple(ends[partition] for partition in range(info.partitions)),
        holders=holders,
        created_ms=now_ms,
    )


def refuse_other_kind(values: Values, wanted: Subscription, namespace: str) -> None:
    """Return when no durable subscription of this name is shared where this one is not, or the other way round.

    Raises:
        IllegalStateError: one is.
    """
    if not wanted.is_durable:
        return
    kinds = (SubscriptionKind.DURABLE, SubscriptionKind.SHARED_DURABLE)
    other = replace(wanted, kind=kinds[wanted.kind is SubscriptionKind.DURABLE])
    value = values.get(subscription_key(other.group_id(namespace)))
    if value is not None and not decode_subscription(value).is_ending:
        shared, other_is = ("shared", "unshared") if wanted.is_shared else ("unshared", "shared")
        raise IllegalStateError(
            f"{wanted}: a durable subscription of this name exists and is {other_is}, this one would be {shared}; "
            f"choose another name, or end that one with unsubscribe({wanted.name!r})",
            name=wanted.name,
        )


def check_retention(admin: KafkaAdmin, info: TopicInfo, wanted: Subscription) -> None:
    """Return when the topic keeps what a durable subscription has not received.

    Raises:
        InvalidDestinationError: it does not.
        KafkaClientError: it cannot be asked for.
    """
    found = admin.describe([info.topic], with_config=True).get(info.topic)
    config: Mapping[str, str] = {} if found is None else found.config
    limits = {name: config.get(name, "?") for name in ("retention.ms", "retention.bytes")}
    if set(limits.values()) != {"-1"}:
        now = ", ".join(f"{name}={value}" for name, value in limits.items())
        raise InvalidDestinationError(
            f"{wanted}: a durable subscription keeps messages until they are received, and the Kafka topic "
            f"{info.topic!r} deletes them before ({now}); set both to -1: kafka-configs.sh --alter --entity-type "
            f"topics --entity-name {info.topic} --add-config retention.ms=-1,retention.bytes=-1",
            destination=info.topic,
        )


@dataclass(frozen=True, slots=True)
class SubscriptionParts:
    """The parts of the process that subscriptions use."""

    registry: RegistryLog
    holder: ProcessLiveness
    admin: KafkaAdmin
    remains: SubscriptionRemains
    workers: Workers
    clock: Clock
    chance: Callable[[], float]
    namespace: str
    stop_group_worker: Callable[[str], None]
    """Ends this process's membership in a group."""
    refuse: Callable[[str, IllegalStateError], None]
    """Ends it with this error for all receivers there."""


class Subscriptions:
    """The subscriptions that this process uses. Any thread may call it."""

    def __init__(self, parts: SubscriptionParts) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._uses: Counter[str] = Counter()
        """Consumers of this process by group, those included of which something is unacknowledged still."""
        self._records: dict[str, SubscriptionRecord] = {}
        self._locks: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()
        """A lock for each group in use: what ends waits for the members of its group, and nobody else waits with it."""
        self._locks_lock = threading.Lock()
        self._has_swept = False
        parts.holder.when_back(self._look_again)

    def record_of(self, subscription: Subscription) -> SubscriptionRecord:
        """Return what was found when it was subscribed to."""
        return self._records[self._group(subscription)]

    # -- having one ------------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Subscription, info: TopicInfo) -> None:
        """Have it, made now if it is not there or another, and in use until `end_use`.

        Raises:
            IllegalStateError: it is in use, and cannot be used by two, or not be changed.
            InvalidDestinationError: its topic does not keep what a durable one needs.
            JMSError: the cluster cannot be asked.
        """
        group = self._group(wanted)
        with self._lock_of(group), raised_as_jms_errors(str(wanted)):
            self.sweep_once()
            if self._uses[group] and not wanted.is_shared:
                # A client id has one of a name, of whichever topic; this may be another one's.
                used = self._records[group].subscription
                instead = f"{wanted}: " if used.topic != wanted.topic else ""
                raise IllegalStateError(
                    f"{instead}{used} has a consumer already, or unacknowledged messages of one that was closed; "
                    f"close that, and acknowledge, recover or roll back; several consumers share a "
                    f"create_shared_durable_consumer",
                    name=wanted.name,
                )
            if wanted.is_durable:
                check_retention(self._parts.admin, info, wanted)
            me = self._parts.holder.ensure()
            mine = incarnation_of(self._parts.chance())
            before: list[SubscriptionRecord | None] = [None]

            def claim(values: Values) -> Changes:
                before[0] = self._found(values, group)
                return self._claim(values, wanted, info, mine, me)

            self._registry.update(claim)
            found = self._found(self._registry.values(), group)
            if found is None:
                raise IllegalStateError(f"{wanted}: it was ended meanwhile by another process; subscribe again")
            if found.incarnation == mine:
                if wanted.is_durable and before[0] is not None:
                    log.warning(
                        "%s: it was one of %s and is made anew as one of %s, so what it kept until now is dropped",
                        wanted, before[0].subscription.choice_text, wanted.choice_text,
                    )  # fmt: skip
                self._parts.stop_group_worker(group)  # of one that was changed
                self._parts.remains.drop_offsets(group)
            self._records[group] = found
            self._uses[group] += 1

    def _claim(self, values: Values, wanted: Subscription, info: TopicInfo, mine: str, me: str) -> Changes:
        """`mine`: the incarnation if one is made; `me`: its holder."""
        group = self._group(wanted)
        refuse_other_kind(values, wanted, self._parts.namespace)
        found = self._found(values, group)
        holders: tuple[str, ...] = (me,)
        if found is not None:
            others = tuple(sorted(self._parts.holder.living(each for each in found.holders if each != me)))
            is_same = found.subscription.choice == wanted.choice
            is_used = bool(others or self._uses[group])
            if is_same and others and not wanted.is_shared:
                raise _has_consumer_elsewhere(wanted)
            if is_same and (wanted.is_durable or is_used):
                holders = (*others, *holders)
                return {} if found.holders == holders else self._written(group, replace(found, holders=holders))
            if is_used:
                raise IllegalStateError(
                    f"{wanted}: the subscription of this name is in use, and it is one of "
                    f"{found.subscription.choice_text}, this one is of {wanted.choice_text}; close its consumers "
                    f"before it is changed, or choose another name",
                    name=wanted.name,
                )
            if found.incarnation == mine:
                return {}
        return self._written(group, begun(wanted, info, mine, self._parts.admin, self._parts.clock.now_ms(), holders))

    # -- having it still -------------------------------------------------------------------------------------------

    def check(self, group: str, incarnation: str) -> None:
        """It is the one that was subscribed to, and this process has it; to be asked before anything of it is received.

        Raises:
            IllegalStateError: others thought this process dead, and ended it, changed it or took it.
            KafkaClientError: no answer.
        """
        self._registry.update(lambda values: self._held_again(values, group, incarnation))

    def _look_again(self) -> None:
        """Others may have thought this process dead: have each again, or tell its consumers that it is gone.

        A consumer without a partition of it would wait in silence, and one with some would receive what others do.
        """
        unanswered: KafkaClientError | None = None
        for group, record in list(self._records.items()):
            if not self._uses[group]:
                continue
            try:
                self.check(group, record.incarnation)
            except IllegalStateError as error:
                self._parts.refuse(group, error)
            except KafkaClientError as error:
                unanswered = error
        if unanswered is not None:
            raise unanswered

    def _held_again(self, values: Values, group: str, incarnation: str) -> Changes:
        found, known = self._found(values, group), self._records.get(group)
        if found is None or known is None or found.incarnation != incarnation:
            wanted = group if known is None else str(known.subscription)
            raise IllegalStateError(
                f"{wanted}: the subscription was ended or changed by another process, while nobody heard of this one "
                f"for its session timeout; close this consumer and subscribe again",
                name=wanted if known is None else known.subscription.name,
            )
        me = self._parts.holder.name
        if me in found.holders or not self._uses[group]:
            return {}
        others = self._parts.holder.living(found.holders)
        if others and not known.subscription.is_shared:
            raise _has_consumer_elsewhere(known.subscription)
        return self._written(group, replace(found, holders=tuple(sorted((*others, me)))))

    # -- ending ----------------------------------------------------------------------------------------------------

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less. Others know so as soon as Kafka answers."""
        group = self._group(subscription)
        with self._lock_of(group):
            self._uses[group] -= 1
            if self._uses[group] > 0:
                return
            del self._uses[group]
            incarnation = self._records[group].incarnation
            self._parts.holder.let_go(str(subscription), lambda: self._leave(subscription, incarnation))

    def _leave(self, subscription: Subscription, incarnation: str) -> None:
        group = self._group(subscription)
        with self._lock_of(group):
            if self._uses[group]:  # it is used again
                return
            self._registry.update(lambda values: self._let_go(values, group, incarnation))
            value = self._registry.get(subscription_key(group))
            left = None if value is None else decode_subscription(value)
            if left is not None and left.is_ending and not subscription.is_durable:
                self._remove(group, left)

    def _let_go(self, values: Values, group: str, incarnation: str) -> Changes:
        found = self._found(values, group)
        if found is None or found.incarnation != incarnation:
            return {}
        me = self._parts.holder.name
        others = tuple(sorted(self._parts.holder.living(each for each in found.holders if each != me)))
        is_ending = not others and not found.subscription.is_durable
        return self._written(group, replace(found, holders=others, is_ending=is_ending))

    def unsubscribe(self, client_id: str, name: str, user: str | None) -> None:
        """End a durable subscription, and remove what Kafka keeps of it. `user`: who wants it; None: Kafka's rights do.

        Raises:
            InvalidDestinationError: no subscription has this name.
            IllegalStateError: it is in use.
            JMSSecurityError: it is another user's.
        """
        with raised_as_jms_errors(f"unsubscribe {name!r}"):
            self._registry.refresh()
            found = self._durable(client_id, name)
            group = self._group(found.subscription)
            with self._lock_of(group):
                self._registry.update(lambda values: self._end(values, group, found, user))
                self._parts.stop_group_worker(group)
                self._remove(group, found)

    def topic_of(self, client_id: str, name: str) -> Topic:
        """The topic of a durable subscription.

        Raises:
            InvalidDestinationError: no subscription has this name.
        """
        with raised_as_jms_errors(f"look for subscription {name!r}"):
            self._registry.refresh()
            return self._durable(client_id, name).subscription.topic

    # -- whose it is (decision 87) ---------------------------------------------------------------------------------

    def check_owner(self, client_id: str, name: str, user: str) -> None:
        """Return when a durable subscription is this user's, or nobody's, or is not there.

        Raises:
            JMSSecurityError: it is another's.
        """
        with raised_as_jms_errors(f"look for subscription {name!r}"):
            self._registry.refresh()
            found = self._found_durable(client_id, name)
            if found is not None:
                self._check_owned(self._registry.values(), found, user)

    def own(self, client_id: str, name: str, user: str) -> None:
        """Have a durable subscription, which is there, be this user's.

        Raises:
            JMSSecurityError: it is another's.
        """

        def claim(values: Values) -> Changes:
            found = self._found_durable(client_id, name, values)
            if found is None or self._check_owned(values, found, user):
                return {}
            return {owner_key(self._group(found.subscription)): encode_owner(found.incarnation, user)}

        with raised_as_jms_errors(f"subscription {name!r}"):
            if claim(self._registry.values()):
                self._registry.update(claim)

    def _check_owned(self, values: Values, found: SubscriptionRecord, user: str) -> bool:
        """True: it is the user's; False: nobody's."""
        owner = owner_of(values, self._group(found.subscription), found.incarnation)
        if owner not in ("", user):
            its = found.subscription
            of = f" --client-id {quote(its.client_id)}" if its.client_id else ""
            raise JMSSecurityError(
                f"{its} is another user's; choose another name or client id, or have an operator release it: "
                f"jbm-kafka subscriptions release {quote(its.name)}{of}",
                user=user,
            )
        return bool(owner)

    def _found_durable(self, client_id: str, name: str, values: Values | None = None) -> SubscriptionRecord | None:
        for _, record in subscriptions_in(self._registry.values() if values is None else values):
            its = record.subscription
            if its.is_durable and (its.client_id, its.name) == (client_id, name) and not record.is_ending:
                return record
        return None

    def _durable(self, client_id: str, name: str) -> SubscriptionRecord:
        found = self._found_durable(client_id, name)
        if found is not None:
            return found
        of = f"of client id {client_id!r}" if client_id else "without a client id, and this connection has none"
        raise InvalidDestinationError(
            f"nothing to unsubscribe: there is no durable subscription {name!r} {of}; Admin.subscriptions() has those "
            f"there are, each with its client id",
            name=name,
            client_id=client_id,
        )

    def _end(self, values: Values, group: str, wanted: SubscriptionRecord, user: str | None) -> Changes:
        found = self._found(values, group)
        if found is None or found.incarnation != wanted.incarnation:
            return {}
        if user is not None:
            self._check_owned(values, found, user)
        others = self._parts.holder.living(each for each in found.holders if each != self._parts.holder.name)
        if self._uses[group] or others:
            raise IllegalStateError(
                f"{found.subscription} is in use: it has a consumer, or unacknowledged messages of one that was "
                f"closed{' (in another process)' if not self._uses[group] else ''}; close that, and acknowledge, "
                f"recover or roll back, before unsubscribe",
                name=found.subscription.name,
            )
        return self._written(group, replace(found, holders=(), is_ending=True))

    def _remove(self, group: str, ended: SubscriptionRecord) -> None:
        """Delete what Kafka keeps of an ended one: its group, its part of the changelog, and then its record.

        The changelog's keys are deleted together with the record: nobody can have subscribed anew by then.
        """
        if not ended.subscription.is_durable:
            self._parts.stop_group_worker(group)
        if not self._parts.remains.drop_group(group):
            return
        tombstones = self._parts.remains.tombstones(group, ended.subscription.topic)
        key, owner = subscription_key(group), owner_key(group)

        def forget(values: Values) -> Changes:
            value = values.get(key)
            if value is None:
                return {}
            found = decode_subscription(value)
            is_this = found.is_ending and found.incarnation == ended.incarnation
            return {key: None, **({owner: None} if owner in values else {})} if is_this else {}

        self._registry.update(forget, records=tombstones)
        if not self._uses[group]:
            self._records.pop(group, None)

    # -- what killed processes left --------------------------------------------------------------------------------

    def sweep_once(self) -> None:
        """Remove beside, once, what ended with processes that were killed; also private ones of older versions."""
        if not self._has_swept:
            self._has_swept = True
            self._parts.workers.start("jbm-sweep", self._sweep())

    def _sweep(self) -> Steps:
        """Remove what has ended, and what ended with processes that are gone."""
        yield GO_ON
        try:
            self._registry.refresh()
            found = dict(subscriptions_in(self._registry.values()))
            for key, record in found.items():
                yield GO_ON
                group = key.removeprefix(subscription_key("")).decode()
                with self._lock_of(group):
                    if self._is_dead(group, record):
                        log.info("%s ended with its process; it is removed", record.subscription)
                        incarnation = record.incarnation
                        self._registry.update(lambda values, g=group, i=incarnation: self._let_go(values, g, i))  # type: ignore[misc]
                        self._remove(group, record)
        except (KafkaClientError, JMSError) as error:
            log.info("what killed processes left of subscriptions is removed another time: %s", error)

    def _is_dead(self, group: str, record: SubscriptionRecord) -> bool:
        if self._uses[group]:
            return False
        if record.is_ending:
            return True
        return not record.subscription.is_durable and not self._parts.holder.living(record.holders)

    # -- each a step -----------------------------------------------------------------------------------------------

    def _lock_of(self, group: str) -> threading.RLock:
        with self._locks_lock:
            return self._locks.setdefault(group, threading.RLock())

    def _group(self, subscription: Subscription) -> str:
        return subscription.group_id(self._parts.namespace)

    @staticmethod
    def _found(values: Values, group: str) -> SubscriptionRecord | None:
        """The record, if it counts."""
        value = values.get(subscription_key(group))
        found = None if value is None else decode_subscription(value)
        return None if found is None or found.is_ending else found

    @staticmethod
    def _written(group: str, record: SubscriptionRecord) -> Changes:
        return {subscription_key(group): encode_subscription(record)}


def _has_consumer_elsewhere(subscription: Subscription) -> IllegalStateError:
    return IllegalStateError(
        f"{subscription} has a consumer in another process; close that, or share a create_shared_durable_consumer",
        name=subscription.name,
    )
