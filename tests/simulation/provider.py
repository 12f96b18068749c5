"""What stands behind the sessions of one simulated process: its stepped sidecar, over the port that `jms/` knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from jbm_kafka.core.channel.branch import Branch, BranchState, PreparedBranch, Xid
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.jms_errors import InvalidClientIDError, JMSError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.jms.shared.connection_core import ConnectionCore, ConnectionDefaults
from jbm_kafka.ports import Clock, KafkaClientError, KafkaRecord, Outgoing, SendReport
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import HeldPartitions, Provider, Seen, Temporary, TopicInfo, Traits
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.sidecar.lane.group_worker import GroupWorker, transfer_of
from jbm_kafka.sidecar.sidecar import Sidecar


class SteppedProcess(Protocol):
    """A process whose sidecar makes its steps in the test's own thread."""

    @property
    def clock(self) -> Clock:
        """Its wall clock."""

    @property
    def sidecar(self) -> Sidecar:
        """Behind all of its sessions."""


class SimulatedProvider:
    """Implements `Provider`; what simulated applications do not do is refused."""

    def __init__(self, process: SteppedProcess, *, records_attempts: bool) -> None:
        self._process = process
        self.clock = process.clock
        self.traits = Traits(
            compresses=True, records_attempts=records_attempts, transaction_bytes_max=1 << 20, join_timeout_s=60.0
        )

    def settings_of(self, name: str) -> ResolvedSettings:
        return self._process.sidecar.destinations.settings_of(name)

    def ensure(self, destination: Destination) -> TopicInfo:
        return self._process.sidecar.destinations.ensure(destination)

    def ensure_to_send(self, destination: Destination) -> TopicInfo:
        return self.ensure(destination)

    def message_ids(self, topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        return {}

    def check_sendable(self, destination: Destination) -> None:
        self._process.sidecar.destinations.topics.check_sendable(destination)

    def place_unit(self, name: str, unit: bytes) -> int:
        return self._process.sidecar.destinations.topics.place(name, unit)

    def known_topic(self, name: str, /) -> TopicInfo | None:
        return self._process.sidecar.destinations.topics.usable(name)

    def hold_client_id(self, client_id: str, connection_id: str, lost: Callable[[InvalidClientIDError], None]) -> None:
        raise NotImplementedError

    def release_client_id(self, client_id: str, connection_id: str) -> None:
        raise NotImplementedError

    def subscribed_topic(self, client_id: str, name: str) -> Topic:
        raise NotImplementedError

    def subscribe(self, subscription: Subscription) -> None:
        self._process.sidecar.sources.subscribe(subscription)

    def end_use(self, subscription: Subscription) -> None:
        self._process.sidecar.sources.end_use(subscription)

    def unsubscribe(self, client_id: str, name: str) -> None:
        self._process.sidecar.sources.unsubscribe(client_id, name)

    def use_selector(self, queue: Queue, selector: str) -> None:
        """Nothing: the lease of selectors waits in the midst of a step, in which no time passes here."""

    def end_use_of_selector(self, queue: Queue, selector: str) -> None:
        """Nothing, as `use_selector`."""

    def attach(self, source: Source, link: Link) -> GroupWorker:
        return self._process.sidecar.sources.attach(source, link)

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        return self._process.sidecar.sources.end_positions(source, timeout_s)

    def held_partitions(self, source: Source) -> HeldPartitions:
        raise NotImplementedError

    def on_drain(self, drain: Callable[[], bool]) -> Callable[[], None]:
        raise NotImplementedError

    def wait_recorded(self, timeout_s: float) -> bool:
        raise NotImplementedError

    def submit(self, work: UnitOfWork) -> None:
        sidecar, transfer = self._process.sidecar, transfer_of(work)
        sidecar.submit(transfer) if work.branch is None else sidecar.prepare(work.branch, transfer)

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        raise NotImplementedError

    def prepare_to_send(self) -> None:
        raise NotImplementedError

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        raise NotImplementedError

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        raise NotImplementedError

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        raise NotImplementedError

    def statistics(self) -> Statistics:
        raise NotImplementedError

    def health(self, timeout_s: float | None) -> Health:
        raise NotImplementedError

    def flush(self, timeout_s: float) -> bool:
        return True

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        raise NotImplementedError

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        raise NotImplementedError

    def take_replies(self, queue: TemporaryQueue, take: Callable[[KafkaRecord], None]) -> None:
        raise NotImplementedError

    def begin_close(self) -> Patience:
        raise NotImplementedError

    def give_up_sends(self) -> None:
        raise NotImplementedError

    def begin_branch(self, xid: Xid) -> Branch:
        return self._process.sidecar.branches.begin(xid)

    def forget_branch(self, branch: Branch) -> None:
        self._process.sidecar.branches.forget(branch.branch)

    def decide(self, branch: str, wanted: BranchState, *, is_forced: bool = False) -> BranchState:
        return self._process.sidecar.branches.decide(branch, wanted, is_forced=is_forced)

    def decision_of(self, xid: Xid) -> BranchState | None:
        return self._process.sidecar.branches.decision_of(xid)

    def prepared_branches(self) -> Sequence[PreparedBranch]:
        return self._process.sidecar.branches.prepared()

    def close(self) -> None:
        """Its node ends it."""


class LeasingProvider(SimulatedProvider):
    """For applications whose every call may wait: a step of the product's calls nothing of it."""

    def use_selector(self, queue: Queue, selector: str) -> None:
        self._process.sidecar.claims.selector_sets.use(queue, selector)

    def end_use_of_selector(self, queue: Queue, selector: str) -> None:
        self._process.sidecar.claims.selector_sets.end_use(queue, selector)


class SimulatedConnection(ConnectionCore):
    """A started connection. Nothing waits in it: its only thread is the one in which the world steps."""

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        prefetch: int,
        blocks: bool,
        heard: Callable[[Exception], None],
    ) -> None:
        super().__init__(provider, ConnectionDefaults(None, prefetch, blocks, None))
        self.connection_id = name
        self.is_started = True
        self._heard = heard
        self.awaited: list[Completion] = []
        """What the application's last call should have waited for."""

    def notify_exception(self, error: Exception) -> None:
        self._heard(error)

    def wait_for(self, completion: Completion, timeout_s: float, *, about: str) -> None:
        """It goes on at once; who looks at `awaited` says when the call would have returned."""
        self.awaited.append(completion)
