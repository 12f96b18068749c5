"""The sidecar of one process for one cluster, namespace and state folder, put together of its parts.

Connections share it, counted; the last one closes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from jbm_kafka.codec.command_records import DRAIN, Command
from jbm_kafka.core.channel.branch import Branch, BranchPart, BranchState
from jbm_kafka.core.destination import TemporaryQueue, TemporaryTopic, with_namespace
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import Clock, Kafka, KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import ThreadWorkers, Workers
from jbm_kafka.registry.command_server import CommandServer
from jbm_kafka.registry.fenced_transactions import FencedBatches, FencedRecords
from jbm_kafka.registry.pauses import Pauses, Pausing
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.registry.schedules import Schedules
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.branches.branches import Branches
from jbm_kafka.sidecar.branches.decisions import Decisions
from jbm_kafka.sidecar.branches.entry_kinds import EntryKinds
from jbm_kafka.sidecar.channel.channel_opener import ChannelOpener
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpoints.checkpointer import Checkpointer
from jbm_kafka.sidecar.checkpoints.hanging_transactions import HangingTransactions
from jbm_kafka.sidecar.checkpoints.producer_pool import ProducerPool
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from jbm_kafka.sidecar.counted_sources import CountedSources
from jbm_kafka.sidecar.destinations import Destinations
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.shared_thread import SharedThread
from jbm_kafka.sidecar.lane.group_worker import GroupWorkerParts
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.lane.shutdown import Leaving, is_answered
from jbm_kafka.sidecar.observation import Observation
from jbm_kafka.sidecar.operators.drain_requests import DrainRequests
from jbm_kafka.sidecar.operators.operator_departures import Reply
from jbm_kafka.sidecar.private.private_subscriptions import PrivateParts, PrivateSubscriptions
from jbm_kafka.sidecar.registry_claims import RegistryClaims
from jbm_kafka.sidecar.runtime import Lifetime, Runtime, Stores, give_messages_time_to_die
from jbm_kafka.sidecar.sources import Sources
from jbm_kafka.sidecar.stages.flow import Flow
from jbm_kafka.sidecar.truncator import Truncator

Temporary = TypeVar("Temporary", TemporaryQueue, TemporaryTopic)
CLIENTS_EXPECTED = 4
"""The number of group workers over which prefetching is divided: a client cannot be set later to keep less."""


class Sidecar:
    """Owns every thread and store; `close` ends them."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        clock: Clock,
        config: SidecarConfig,
        stores: Stores,
        workers: Workers | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        given = self._given = Runtime(
            kafka=kafka,
            admin=kafka.admin(),
            clock=SlewedClock(clock),
            config=config,
            workers=workers or ThreadWorkers(),
            chance=chance or random.SystemRandom().random,
        )
        self._stores = stores
        self._group_workers = GroupWorkers()
        self.drains = DrainRequests()
        """Who ends when an operator asks for it."""
        self._thread = SharedThread("jbm-fed", given.workers, given.clock)
        self._catch_up = CatchUp(given.kafka, given.workers)
        registry = _new_registry(given)
        self.claims = RegistryClaims(given, registry.log, self._group_workers)
        self.destinations = Destinations(
            given,
            registry,
            self.claims.holder,
            self._group_workers,
            thread=self._thread,
            catch_up=self._catch_up,
            back=self._kafka_is_back,
            changed=self._settings_changed,
        )
        self.schedules = Schedules(
            given.kafka,
            registry.log,
            given.config.namespace,
            given.clock,
            route=self.destinations.topics.route_anew,
            pause=given.workers.pause,
            chance=given.chance,
        )
        self._registry_log = registry.log
        self._truncator = Truncator(given, registry, self.destinations, self._group_workers)
        self._commands = self._new_command_watch()
        self.checkpointer = _new_checkpointer(given, stores, self.destinations.topics)
        self._entry_kinds = EntryKinds(given.admin, given.clock)
        self.branches = self._new_branches()
        self._counted = CountedSources()
        self.observation = Observation(
            self._group_workers,
            self._counted,
            self.checkpointer,
            self.destinations,
            given.clock,
            given.config.memory_budget_bytes,
            stores.journal,
            logs=lambda: self._truncator.logs,
        )
        self._opener = self._new_opener()
        self.privates = PrivateSubscriptions(self._private_parts(registry.log))
        self._lifetime = Lifetime(self._begin)
        self.sources = Sources(
            lifetime=self._lifetime,
            destinations=self.destinations,
            claims=self.claims,
            privates=self.privates,
            group_workers=self._group_workers,
            parts=self._group_worker_parts(registry.pauses),
            commands=self._commands,
            admin=given.admin,
        )

    def _kafka_is_back(self, silent_since_ms: int) -> None:
        self.checkpointer.schedule.note_back(silent_since_ms)

    def _settings_changed(self) -> None:
        self._truncator.start_if_needed()

    def _new_command_watch(self) -> CommandServer:
        return CommandServer(
            kafka=self._given.kafka,
            admin=self._given.admin,
            topic=self.destinations.topics.commands_topic,
            look_ms=self._given.config.command_look_ms,
            carry_out=self._carry_out,
        )

    def _carry_out(self, command: Command, reply: Reply) -> None:
        (self.drains.carry_out if command.verb == DRAIN else self._group_workers.command)(command, reply)

    def _new_branches(self) -> Branches:
        given, topics, decisions = self._given, self.destinations.topics, Decisions()
        return Branches(
            given.kafka,
            RegistryLog(
                given.kafka,
                given.admin,
                topics.branches_topic,
                is_taken=decisions.note,
                clock=given.clock,
                pause=given.workers.pause,
                chance=given.chance,
            ),
            decisions,
            given.clock,
            workers=given.workers,
            decider_id=f"{self._stores.transactional_id.rpartition('.')[0]}.xa",
            entry_kinds=self._entry_kinds,
            route=topics.route_anew,
            decided=self._group_workers.look_at_branches,
        )

    def _new_opener(self) -> ChannelOpener:
        return ChannelOpener(
            kafka=self._given.kafka,
            journal=self._stores.journal,
            topics=self.destinations.topics,
            clock=self._given.clock,
            config=self._given.config,
            settings_of=self.destinations.settings_of,
            workers=self._given.workers,
            check=self.claims.check,
            truncates=self._truncator.deletes,
        )

    def _group_worker_parts(self, pauses: Pauses) -> GroupWorkerParts:
        given = self._given
        return GroupWorkerParts(
            kafka=given.kafka,
            clock=given.clock,
            config=given.config,
            opener=self._opener,
            workers=given.workers,
            flow=lambda: Flow(
                self._stores.held,
                share_bytes=self._share_bytes,
                consumer_bytes=given.config.memory_budget_bytes // 8 // CLIENTS_EXPECTED,
            ),
            chance=given.chance,
            note_dirty=self.checkpointer.schedule.note_dirty,
            submit=self.checkpointer.submit,
            targets=self.destinations.targets,
            pausing=Pausing(pauses.is_paused, pauses.why_nothing_comes),
            look_at_topics=self.destinations.watch.look_now,
            counters=self._counted.begin,
            branch_state=self.branches.state_of,
            members_without=self._entry_kinds.members_without,
        )

    def _private_parts(self, registry: RegistryLog) -> PrivateParts:
        given = self._given
        return PrivateParts(
            kafka=given.kafka,
            admin=given.admin,
            registry=registry,
            workers=given.workers,
            clock=given.clock,
            config=given.config,
            thread=self._thread,
            catch_up=self._catch_up,
            chance=given.chance,
            known=self.destinations.topics.known,
            settings_of=self.destinations.settings_of,
            truncates=self._truncator.deletes,
        )

    def _share_bytes(self) -> int:
        """Return what each group worker has of the memory budget, as of now; asked by the group workers' threads."""
        return self._given.config.memory_budget_bytes // max(self._group_workers.count_alive(), 1)

    def _begin(self) -> None:
        try:
            self.destinations.topics.ensure_system_topics()
        except KafkaClientError as error:
            raise as_jms_error(error, "cannot use the cluster") from None
        except JMSError as error:
            raise JMSError(f"cannot use the cluster: {error}") from None
        give_messages_time_to_die()
        self.checkpointer.start()

    def submit(self, transfer: Transfer) -> None:
        """Commit sends and acknowledgements together with the next checkpoint."""
        self._lifetime.check()
        self._lifetime.begin()
        self.checkpointer.submit(transfer)

    def prepare(self, branch: Branch, transfer: Transfer) -> bytes:
        """Prepare a branch with the next checkpoint: what it received passes to it, and its sends are recorded.

        What came from a temporary destination or a private subscription is no part of it, for it ends with its session.

        Returns what is recorded of it, for whoever decides it. Raises:
            IllegalStateError: an older process, which cannot read what is prepared, receives from there too.
            JMSError: the cluster does not answer.
        """
        parts: list[BranchPart] = []
        for participant, settling in transfer.settlings:
            group, channel = participant.group, settling.channel
            assert group.is_recorded, group
            topic_id, count = channel.changelog.topic_id, len(settling.offsets)
            parts.append(BranchPart(group.group_id, group.topic, topic_id, channel.partition, count))
        records = self.branches.records_of(branch, parts, transfer.sends)
        self.submit(replace(transfer, sends=records))
        return records[-1].value or b""

    def note_decided(self, branch: str, state: BranchState, done: Completion) -> None:
        """Its decider says so. Completes when channels here have carried it out, as far as they have it."""
        self.branches.note_decided(branch, state)
        self._group_workers.look_at_branches(done)

    def fenced_records(self, name: str, owner: str) -> FencedRecords:
        """The transactions and records of a bridge of this name, which this owner wants to run."""
        given = self._given
        route = self.destinations.topics.place_all
        return FencedRecords(
            given.kafka, given.admin, name, owner, given.config.namespace, route=route, clock=given.clock
        )

    def numbered_batches(self, name: str) -> FencedBatches:
        """Transactions of this name that leave their numbers."""
        route = self.destinations.topics.route_anew
        return FencedBatches(self._given.kafka, self._registry_log, self._given.config, name, route=route)

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """A new temporary destination of this connection; see Temporaries.create."""
        self._lifetime.check()
        self.destinations.watch.start()
        self._lifetime.begin()
        return self.destinations.temporaries.create(kind, connection_id, number)

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End it with all that it holds. It has no receivers."""
        self._group_workers.end_all_of(destination)
        self.destinations.temporaries.delete(destination)

    def is_answered(self, timeout_s: float) -> bool:
        """Kafka answers within so many seconds; a refusal is an answer."""
        return is_answered(self.destinations.topics, timeout_s)

    def close(self, patience: Patience | None = None) -> None:
        """Leave every group in order, finish the last checkpoint, close the stores. Again: nothing happens.

        All that waits for Kafka does so within one limit, and not after `patience` with it is over.
        """
        patience = patience or Patience(self.is_answered)
        if not self._lifetime.end():
            return
        leaving = Leaving(patience)
        with ExitStack() as closing:  # from its end to its beginning, and on where one of them fails
            closing.callback(leaving.let_clients_go, [self.destinations.topics.close, self._given.admin.close])
            closing.callback(self.claims.stop, patience)
            closing.callback(self._stores.close)
            closing.callback(lambda: self.checkpointer.stop(patience, leaving.left_s))
            closing.callback(lambda: self._opener.close(patience, leaving.left_s))
            for part in (self.branches, self.destinations, self._commands, self._truncator, self.privates):
                closing.callback(part.stop, patience)
            closing.callback(self._catch_up.stop)
            closing.callback(self.sources.leave, leaving)


def _new_registry(given: Runtime) -> Registry:
    topic = with_namespace("jbm.registry", given.config.namespace)
    registry = Registry(
        given.kafka, given.admin, topic, clock=given.clock, pause=given.workers.pause, chance=given.chance
    )
    registry.pauses.is_in_memory = given.config.is_in_memory
    return registry


def _new_checkpointer(given: Runtime, stores: Stores, topics: Topics) -> Checkpointer:
    pool = ProducerPool(
        kafka=given.kafka,
        clock=given.clock,
        workers=given.workers,
        transactional_id=stores.transactional_id,
        has_past=stores.has_past,
        transaction_timeout_ms=given.config.whole_transaction_ms,
        record_timeout_ms=given.config.record_timeout_ms,
        known_topic=topics.registry_topic,
    )
    writer = TransactionWriter(
        kafka=given.kafka,
        journal=stores.journal,
        topics=topics,
        clock=given.clock,
        transactional_id=stores.transactional_id,
        pool=pool,
        commit_timeout_s=given.config.commit_timeout_ms / 1000,
    )
    return Checkpointer(
        writer=writer,
        hanging=HangingTransactions(kafka=given.kafka, pool=pool, clock=given.clock),
        clock=given.clock,
        interval_ms=given.config.checkpoint_interval_ms,
        workers=given.workers,
    )
