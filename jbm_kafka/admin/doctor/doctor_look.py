"""Looks at everything that the doctor judges: topics, the registry, processes, rights. Nothing is changed or joined."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.cluster.subscription_counts import subscription_counts
from jbm_kafka.admin.doctor.looked import Looked, LookedProcess, LookedTopic, TopicRole
from jbm_kafka.admin.doctor.parked_messages import parked_messages
from jbm_kafka.admin.explain.receiver_states import process_of
from jbm_kafka.codec.command_records import EXPLAIN, Answer, Command
from jbm_kafka.codec.registry_records import subscriptions_in
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.ports import AccessRefused, GroupMember, TopicDescription
from jbm_kafka.ports.access_rules import Operation, ResourceKind
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.command_client import CommandClient
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.own_topics import branches_topic, bridges_topic, commands_topic, events_topic, registry_topic
from jbm_kafka.registry.topic_configs import DESTINATION_CONFIG
from jbm_kafka.version import version

KAFKAS_OWN = ("__consumer_offsets", "__transaction_state")
ROLES = {"look": Role.LOOK, "producer": Role.PRODUCER, "worker": Role.WORKER}
"""Whose rights may be looked at."""


class DoctorLook:
    """One look. One thread."""

    def __init__(self, core: AdminCore, *, role: str, timeout_s: float) -> None:
        """`timeout_s`: for answers of the processes that receive."""
        self._core, self._role, self._timeout_s = core, role, timeout_s
        self._destinations: Mapping[Destination, TopicDescription] = {}
        self._names: Mapping[str, str] = {}
        """By its Kafka topic, what a destination is called."""
        self._roles: dict[str, TopicRole] = {}

    def look(self) -> Looked:
        """Everything.

        Raises:
            KafkaClientError: no answer.
        """
        core = self._core
        destinations: Collection[Destination] = [*core.catalog.queues(), *core.catalog.topics()]
        names = core.admin.topic_names()  # after them: one that is made meanwhile has its changelog by now
        destinations = [each for each in destinations if each.kafka_topic(core.namespace) in names]
        self._roles, kinds = self._wanted(destinations)
        present = [name for name in self._roles if name in names]
        found, is_config_seen = self._described(present)
        self._destinations = {
            each: found[each.kafka_topic(core.namespace)]
            for each in destinations
            if each.kafka_topic(core.namespace) in found
        }
        self._names = {topic.name: each.name for each, topic in self._destinations.items()}
        groups = self._groups()
        recorded = LiveSettings(core.registry.log, {})
        recorded.take()
        processes, silent = self._processes(groups, names)
        if not (processes or silent):  # who only sends needs neither; the first that receives makes them
            kinds.pop(events_topic(core.namespace))
            kinds.pop(commands_topic(core.namespace))
        missing = {name: kinds[name] for name in kinds if name not in names} if destinations else {}
        return Looked(
            version=version(),
            brokers=core.admin.brokers(),
            topics=[self._topic(each, recorded, is_config_seen=is_config_seen) for each in found.values()],
            missing=missing,
            parked=self._parked(groups, names),
            changelogs={group.group_id: group.changelog_topic for group in groups},
            processes=processes,
            silent=silent,
            subscriptions=subscription_counts(
                core.registry.log, core.admin, core.namespace, None, now_ms=core.cluster.clock.now_ms()
            ),
            refused=self._refused(present, [group.group_id for group in groups]),
            role="who only looks" if self._role == "look" else f"a {self._role}",
        )

    # -- topics --------------------------------------------------------------------------------------------------------

    def _wanted(self, destinations: Iterable[Destination]) -> tuple[dict[str, TopicRole], dict[str, str]]:
        """Return by name what each topic is to us, and of those that must be there in words."""
        namespace = self._core.namespace
        roles = dict.fromkeys(KAFKAS_OWN, TopicRole.KAFKAS_OWN)
        recorded = (registry_topic(namespace), branches_topic(namespace), bridges_topic(namespace))
        roles |= dict.fromkeys(recorded, TopicRole.REGISTRY)
        roles[events_topic(namespace)] = roles[commands_topic(namespace)] = TopicRole.PASSING
        kinds = {
            registry_topic(namespace): "the registry",
            events_topic(namespace): "the topic of events",
            commands_topic(namespace): "the topic of operators' commands",
        }
        for each in destinations:
            roles[each.kafka_topic(namespace)] = TopicRole.DESTINATION
            roles[each.changelog_topic(namespace)] = TopicRole.CHANGELOG
            kinds[each.changelog_topic(namespace)] = f"the changelog of {each}"
        return roles, kinds

    def _described(self, names: Sequence[str]) -> tuple[Mapping[str, TopicDescription], bool]:
        """They, and whether with their configuration, which is a right of its own."""
        with suppress(AccessRefused):
            return self._core.admin.describe(names, with_config=True), True
        return self._core.admin.describe(names), False

    def _topic(self, found: TopicDescription, recorded: LiveSettings, *, is_config_seen: bool) -> LookedTopic:
        role = self._roles[found.name]
        return LookedTopic(
            name=found.name,
            role=role,
            replicas=found.replicas,
            in_sync=found.in_sync,
            config=found.config if is_config_seen else None,
            is_made_by_us=role is not TopicRole.DESTINATION or self._is_made_by_us(found, recorded),
            is_as_we_make=DESTINATION_CONFIG.items() <= found.config.items(),
        )

    def _is_made_by_us(self, found: TopicDescription, recorded: LiveSettings) -> bool:
        """Or somebody has said what becomes of it."""
        name = self._names[found.name]
        is_ours = self._core.registry.is_made_by_us(name, found.topic_id)
        return is_ours or recorded.resolve(name).truncate is not None

    def _groups(self) -> Sequence[ChannelGroup]:
        """Return the groups of every queue and subscription that is there, with the partitions of its topic."""
        core = self._core
        core.registry.refresh()
        found = [
            ChannelGroup.of_queue(each, namespace=core.namespace) for each in self._destinations if type(each) is Queue
        ]
        found += [
            ChannelGroup.of_subscription(record.subscription, record, namespace=core.namespace)
            for _, record in subscriptions_in(core.registry.log.values())
            if not record.is_ending and record.subscription.topic in self._destinations
        ]
        return [replace(group, partitions=self._destinations[group.destination].partitions) for group in found]

    def _parked(self, groups: Iterable[ChannelGroup], names: Collection[str]) -> Mapping[str, int | None]:
        """Return by group how many are parked; a changelog that nobody was ever able to write into parks nothing."""
        core, counts = self._core, dict[str, int | None]()
        for group in groups:
            if group.changelog_topic not in names:
                counts[group.group_id] = None
                continue
            topic_id = self._destinations[group.destination].topic_id
            counts[group.group_id] = parked_messages(core.kafka, core.admin, group, topic_id, group.partitions)
        return {group: count for group, count in counts.items() if count != 0}

    # -- processes -----------------------------------------------------------------------------------------------------

    def _processes(
        self, groups: Sequence[ChannelGroup], names: Collection[str]
    ) -> tuple[Sequence[LookedProcess], Sequence[str]]:
        """Return those that answered, and the names of those that did not and still have what they were asked of.

        Each is asked once of each group.
        """
        admin, asked, members = self._core.admin, dict[str, GroupMember](), list[Command]()
        topics = {group.group_id: group.topic for group in groups}
        for group in groups:
            for member in admin.members(group.group_id, group.topic):
                if member.partitions:
                    command = Command(secrets.token_hex(8), group.group_id, min(member.partitions), EXPLAIN, {})
                    asked[command.id] = member
                    members.append(command)
        if not members:
            return (), ()
        if commands_topic(self._core.namespace) not in names:
            return (), sorted({member.name for member in asked.values()})
        answers, apart = self._answers(members)
        found: dict[str, LookedProcess] = {}
        for id_, answer in answers.items():
            told: Mapping[str, Any] = answer.result.get("process", {})
            name = process_of(answer.result)
            before = found.get(name)
            found[name] = LookedProcess(
                name=name,
                version=str(told.get("version", "")),
                ahead_ms=apart[id_],
                files_max=int(told.get("files_max", -1)),
                sources=1 if before is None else before.sources + 1,
            )
        unanswered = {command.id: command for command in members if command.id not in answers}
        present = {
            (command.group, member.member_id, partition)
            for command in unanswered.values()
            for member in admin.members(command.group, topics[command.group])
            for partition in member.partitions
        }
        # Who rests leaves its group soon, and who gives a partition up answers for it no more: neither hangs.
        silent = {
            asked[id_].name
            for id_, command in unanswered.items()
            if (command.group, asked[id_].member_id, command.partition) in present
        }
        return list(found.values()), sorted(silent - found.keys())

    def _answers(self, commands: Sequence[Command]) -> tuple[Mapping[str, Answer], Mapping[str, int]]:
        """Return by the command's id its answer, and how far at least the clock of who gave it is ahead of ours."""
        core, answers, apart = self._core, dict[str, Answer](), dict[str, int]()
        clock = core.cluster.clock
        asked_ms, began_s = clock.now_ms(), time.monotonic()
        commands = [replace(command, asked_at_ms=asked_ms) for command in commands]

        def answered(command: Command, answer: Answer) -> None:
            if answer.error:
                return
            answers[command.id] = answer
            time_ms = answer.result.get("process", {}).get("time_ms")
            # It was told between the question and now; our own wall clock may be set meanwhile, so by the other one.
            now_ms = asked_ms + int((time.monotonic() - began_s) * 1000)
            if isinstance(time_ms, int):
                apart[command.id] = max(time_ms - max(now_ms, clock.now_ms()), 0) or min(time_ms - asked_ms, 0)

        with CommandClient(core.kafka, core.admin, commands_topic(core.namespace)) as client:
            client.ask(commands, patience_s=lambda _: self._timeout_s, answered=answered, late=lambda *_: None)
        return answers, {id_: apart.get(id_, 0) for id_ in answers}

    # -- rights --------------------------------------------------------------------------------------------------------

    def _refused(self, topics: Sequence[str], groups: Sequence[str]) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return what he may not do that he needs."""
        core = self._core
        letters = core.catalog.default_addresses()
        installation = NamespaceTopics(
            core.namespace,
            [each for each in self._destinations if each.name not in letters],
            [each for each in self._destinations if each.name in letters],
        )
        rules = rules_of([ROLES[self._role]], installation)
        of_topics = {rule.name: rule.operations for rule in rules if rule.kind is ResourceKind.TOPIC}
        (of_groups,) = (rule.operations for rule in rules if rule.kind is ResourceKind.GROUP)
        # Kafka tells of what implies others all of them.
        allowed = core.admin.allowed([name for name in topics if name in of_topics], groups)
        refused = {}
        for (kind, name), may in allowed.items():
            wanted = of_topics[name] if kind == "topic" else of_groups
            if lacking := [each.name for each in Operation if each in wanted and each.name not in may]:
                refused[kind, name] = lacking
        return refused
