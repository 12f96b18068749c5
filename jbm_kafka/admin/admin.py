"""Administration of the queues and topics of one cluster: `Admin`, and nothing of what it does."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, Self

from jbm_kafka.admin.bodies.bodies_admin import BodiesAdmin, BodiesRemoved, StoredLargeBody
from jbm_kafka.admin.cluster.admin_arguments import durable_wanted, queue_of
from jbm_kafka.admin.cluster.admin_core import AdminCore, Tell
from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts
from jbm_kafka.admin.counts import QueueCounts
from jbm_kafka.admin.dead_letters.edited_letter import EditedLetter, checked_edit
from jbm_kafka.admin.dead_letters.letter_admin import RETRY_TIMEOUT_S, LetterAdmin
from jbm_kafka.admin.dead_letters.letter_arguments import letter_filter, letters_queue
from jbm_kafka.admin.dead_letters.letters import DeadLetter, LetterReason, RetryReport
from jbm_kafka.admin.deletion import DeletionReport
from jbm_kafka.admin.destination_admin import DestinationAdmin
from jbm_kafka.admin.doctor.doctor_admin import DOCTOR_TIMEOUT_S, DoctorAdmin
from jbm_kafka.admin.doctor.finding import Checkup
from jbm_kafka.admin.explain.explain_admin import EXPLAIN_TIMEOUT_S, ExplainAdmin
from jbm_kafka.admin.explain.explanation import Explanation
from jbm_kafka.admin.life.life_admin import LifeAdmin
from jbm_kafka.admin.life.message_life import MessageLife
from jbm_kafka.admin.looking_admin import COUNT_MAX, LookingAdmin
from jbm_kafka.admin.messages.message_admin import MessageAdmin
from jbm_kafka.admin.messages.operations import MessagesReport, wish_of
from jbm_kafka.admin.messages.selection import Order, choice_of
from jbm_kafka.admin.messages.units_on_hold import ReleaseReport
from jbm_kafka.admin.moving.adopting import Adoption, From
from jbm_kafka.admin.moving.exporting import ExportReport
from jbm_kafka.admin.moving.importing import ImportReport
from jbm_kafka.admin.moving.moving_admin import MovingAdmin, PathLike
from jbm_kafka.admin.owners.owner_client import ASK_TIMEOUT_S
from jbm_kafka.admin.pages.message_row import MessagePage, PageState, StoredMessage
from jbm_kafka.admin.pages.page_admin import PageAdmin, PageFilter
from jbm_kafka.admin.partition_admin import PartitionAdmin
from jbm_kafka.admin.partition_admission import PathsEnded
from jbm_kafka.admin.pausing import FOLLOW_S, What
from jbm_kafka.admin.prepared_admin import PreparedAdmin, PreparedTransaction
from jbm_kafka.admin.process_admin import DRAIN_TIMEOUT_S, ProcessAdmin
from jbm_kafka.admin.queue_look import QueueLook
from jbm_kafka.admin.readers_admin import ReadersAdmin
from jbm_kafka.admin.runtime_admin import PauseAdmin, SettingsAdmin
from jbm_kafka.admin.schedule_admin import ListedSchedule, ScheduleAdmin
from jbm_kafka.admin.truncation_admin import Truncation, TruncationAdmin
from jbm_kafka.client.bodies.body_store import BodyStore
from jbm_kafka.client.bodies.large_bodies import large_bodies_of
from jbm_kafka.codec.pause_record import Pause
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.configuration import configured_cluster
from jbm_kafka.core.channel.branch import Xid
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.wrong_values import checked_int, wrong_value
from jbm_kafka.jms.base.arguments import check_callable, checked_flag, checked_seconds
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.browser import Include
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.registry.unit_paths import SETTLED_AFTER_S


class Admin:
    """Does all that operators do: makes, looks into, changes and clears the queues and topics of one cluster. Any
    thread.

    As a context manager it closes itself.

    Which cluster: from_config, which takes the configuration's.
    Make: create_queue, create_topic, create_subscription.
    End: delete_destination, unsubscribe, release_subscription, end_reader.
    What there is: destinations, exists, partitions, subscriptions, readers, counts, browse, page, message_at.
    Why nothing moves: explain. What became of a message: message_life.
    What is not as it should be: doctor.
    Stop and go: pause, resume, paused, release. A worker's process: drain.
    Schedules of workers: schedules, pause_schedule, resume_schedule, run_schedule, remove_schedule.
    Settings while programs run: set_address_settings, unset_address_settings, address_settings.
    Dead letters: dead_letter_queue, queues_with_dead_letters, dead_letters, retry_dead_letters, send_edited_letter.
    Messages that wait: move, remove, expire, send_to_dead_letter, send_now.
    Into a file and back: export_messages, import_messages. Of another cluster's tools: adopt.
    More partitions: admit_partitions, unit_paths, end_paths.
    Transactions of several systems: prepared, resolve.
    What the log keeps: truncate. Beside it: large_bodies, remove_large_bodies.
    Let go: close, is_closed.

    Counts are messages, unless they are named otherwise; times that end in `_ms` are milliseconds, instants since 1970;
    `timeout_s`, `wait_s` and `older_than_s` are seconds.

    Beside what stands with each, every call may raise IllegalStateError: it is closed, or of another process;
    JMSSecurityError: the cluster refuses; JMSError: it does not answer in time; and of a wrong argument
    InvalidSettingError, of a wrong type InvalidTypeError. InvalidDestinationError: there is no such queue.

    Args:
        bootstrap: `host:port`, several with commas; or `memory://NAME`, whose world it keeps until it is closed.
        kafka: librdkafka properties such as security settings.
        namespace: prefix of everything of ours.
        timeout_s: how long the cluster may take for one answer.
        large_bodies: where they are kept, as of `ConnectionFactory`.
    """

    __reduce__ = refuse_pickle
    __slots__ = (
        "__weakref__",
        "_bodies",
        "_core",
        "_destinations",
        "_doctor",
        "_explains",
        "_letters",
        "_lives",
        "_looks",
        "_messages",
        "_moving",
        "_pages",
        "_partitions",
        "_pauses",
        "_prepared",
        "_processes",
        "_readers",
        "_schedules",
        "_settings",
        "_truncation",
    )

    def __init__(
        self,
        bootstrap: str,
        *,
        kafka: Mapping[str, object] | None = None,
        namespace: str = "",
        timeout_s: float = 10.0,
        large_bodies: str | BodyStore | None = None,
    ) -> None:
        bodies = large_bodies_of(large_bodies, UNSET, no_limit=UNSET)
        core = self._core = AdminCore(bootstrap, kafka, namespace, timeout_s, bodies)
        self._looks = LookingAdmin(core)
        self._prepared = PreparedAdmin(core)
        self._processes = ProcessAdmin(core)
        self._destinations = DestinationAdmin(core, self._looks, self._prepared)
        self._partitions = PartitionAdmin(core)
        self._explains = ExplainAdmin(core)
        self._doctor = DoctorAdmin(core)
        self._lives = LifeAdmin(core)
        self._pages = PageAdmin(core)
        self._settings = SettingsAdmin(core)
        self._pauses = PauseAdmin(core)
        self._letters = LetterAdmin(core)
        self._messages = MessageAdmin(core)
        self._moving = MovingAdmin(core)
        self._readers = ReadersAdmin(core)
        self._schedules = ScheduleAdmin(core)
        self._truncation = TruncationAdmin(core)
        self._bodies = BodiesAdmin(core)

    @classmethod
    def from_config(
        cls, path: str | os.PathLike[str] | None = None, *, timeout_s: float = 10.0, **overrides: Any
    ) -> Self:
        """An Admin of the cluster that the configuration names: docs/configuration.md.

        Args:
            path: the file; None: the one that is found; "": none.
            timeout_s: as of an Admin.
            overrides: bootstrap, namespace, kafka, or `cluster`, which of the file's [clusters]. Each wins.

        Raises:
            InvalidSettingError: a value that cannot be; the text names its place.
            ConnectionFailedError: nobody answers.
        """
        return cls(**configured_cluster(path, **overrides), timeout_s=timeout_s)

    def close(self) -> None:
        """Let the cluster go. A second call does nothing."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<Admin {self._core.url} {'closed' if self.is_closed else 'open'}>"

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """It was closed."""
        return self._core.is_closed

    def create_queue(self, name: str | Queue, *, partitions: int | None = None) -> bool:
        """Make the queue's topic and its changelog: True when it was not there, False when it is as asked already.

        Raises:
            InvalidDestinationError: the name is not legal or not free, or it exists with other partitions.
            InvalidSettingError: `partitions` is not from 1 to 10,000; of a wrong type InvalidTypeError.
        """
        return self._destinations.create(name if isinstance(name, Queue) else Queue(name), partitions)

    def create_topic(self, name: str | Topic, *, partitions: int | None = None) -> bool:
        """Make a topic; as `create_queue`.

        Raises:
            InvalidDestinationError, InvalidSettingError: as of `create_queue`.
        """
        return self._destinations.create(name if isinstance(name, Topic) else Topic(name), partitions)

    def delete_destination(
        self, destination: Queue | Topic | str, *, force: bool = False, dry_run: bool = False
    ) -> DeletionReport:
        """Delete a queue or topic with everything that Kafka keeps of it in this namespace: its messages too, for good.

        Deleted are its topic, its changelog, its consumer group and its record in the registry. A queue that is made
        anew under the name knows nothing of it. Where this ends early, a second call deletes the rest. A topic that
        other namespaces use too is kept, and with it its messages.

        Args:
            force: also while processes receive from it; when it is a topic with subscriptions, which go with it; when
                it does not look like a queue of ours; and also a Kafka topic that other namespaces use, whose
                changelogs and groups stay. Processes with `auto_create` that go on make it again.
            dry_run: nothing is deleted; the report has what would be.

        Raises:
            InvalidDestinationError: there is no such queue or topic; or, unless forced, its topic has no changelog.
            IllegalStateError: unless forced: processes receive from it, it has subscriptions, or a prepared branch has
                messages of it.
            JMSSecurityError: these credentials may not delete it.
        """
        return self._destinations.delete(destination, force=force, dry_run=dry_run)

    def create_subscription(
        self,
        topic: Topic | str,
        name: str,
        *,
        client_id: str = "",
        shared: bool = False,
        selector: str | None = None,
        no_local: bool = False,
    ) -> bool:
        """Make a durable subscription of a topic before anybody receives by it: it has what is sent from now on.

        A program that creates the durable consumer of this name, with this client id, selector and `no_local`, goes on
        with it. True when it was not there; False when it is there as asked.

        Args:
            topic: a Topic, or its name; it exists.
            name: of the subscription, of 1 to 200 characters.
            client_id: of the connections that receive by it; '': none, which only a shared one may have.
            shared: any number of consumers may receive by it.
            selector: which messages it has, as in JMS; None: all.
            no_local: it leaves out what its own connection sends; not of a shared one.

        Raises:
            InvalidDestinationError: there is no such topic, or its log does not keep what is not received.
            IllegalStateError: one of this name is there, shared where this would not be, or of other messages.
            InvalidSelectorError: the selector is wrong.
            InvalidSettingError: the name cannot be one, or `client_id` or `no_local` does not go with `shared`; of a
                wrong type InvalidTypeError.
        """
        return self._destinations.create_subscription(
            durable_wanted(topic, name, client_id, is_shared=shared, selector=selector, no_local=no_local)
        )

    def release_subscription(self, name: str, *, client_id: str = "") -> SubscriptionCounts:
        """Let a durable subscription be nobody's: the next user of AMQP that attaches to it has it. As it was before.

        Raises:
            InvalidDestinationError: no subscription has this name and client id; the text names others.
        """
        return self._destinations.release(name, client_id)

    def unsubscribe(self, name: str, *, client_id: str = "") -> SubscriptionCounts:
        """End a durable subscription, from outside and for good: what it had not received. Its group goes, too.

        Raises:
            InvalidDestinationError: no subscription has this name and client id; the text names others.
            IllegalStateError: processes receive from it, or a prepared branch has messages of it.
        """
        return self._destinations.unsubscribe(name, client_id)

    def destinations(self) -> list[Queue | Topic]:
        """Every queue and topic, by name.

        A queue is each Kafka topic that has a changelog or was used as a queue, and is not a JMS topic; a topic is what
        was created or used as one. What nobody of ours used yet is not among them.
        """
        return self._looks.destinations()

    def exists(self, destination: Queue | Topic | str) -> bool:
        """Return True if there is a Kafka topic for it; of `Topic(…)`: for a JMS topic."""
        return self._looks.exists(destination)

    def partitions(self, destination: Queue | Topic | str) -> int:
        """How many partitions the queue or topic has.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
        """
        return self._looks.partitions(destination)

    def subscriptions(self, topic: Topic | str | None = None) -> list[SubscriptionCounts]:
        """The subscriptions of a topic, or all, with what each has not received.

        Raises:
            InvalidDestinationError: there is no such topic.
        """
        return self._destinations.subscriptions(topic)

    def readers(self) -> list[RegisteredReader]:
        """Streaming queries and archive jobs that are registered, with how far each has read its topic.

        What one has not read is kept for it until its lease ends; `reader.counts(now_ms)` tells whether it still does.
        """
        return self._readers.readers()

    def end_reader(self, name: str, *, kind: str = "spark") -> RegisteredReader:
        """Keep nothing for this reader any more. One that still runs registers itself again with its next batch.

        Raises:
            InvalidDestinationError: no such reader is registered; the text names others.
        """
        return self._readers.end(name, kind)

    def truncate(self, destination: Queue | Topic | str, *, dry_run: bool = False) -> Truncation:
        """Delete from a destination's log what every queue, subscription, reader and consumer group is done with; what
        there was, and who needs the rest. Processes that receive do it by themselves where its setting says so.

        Args:
            dry_run: delete nothing.
        """
        return self._truncation.truncate(destination, is_dry_run=checked_flag("dry_run", dry_run))

    def large_bodies(self, *, with_names: bool = False) -> list[StoredLargeBody]:
        """The bodies in the store of large bodies, oldest first.

        Args:
            with_names: look whether anything in Kafka still names each; that reads all topics of the cluster.

        Raises:
            InvalidSettingError: this Admin was given no `large_bodies`.
            LargeBodyError: the store does not list what it has.
        """
        return self._bodies.bodies(with_names=checked_flag("with_names", with_names))

    def remove_large_bodies(
        self,
        *,
        older_than_s: float | None = None,
        unnamed: bool = False,
        named_elsewhere: Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> BodiesRemoved:
        """Remove bodies from the store of large bodies: by age alone, or those that nothing in Kafka names any more.

        Named are those of every record that the cluster has: messages, settled or not, dead letters, parked messages,
        and what prepared branches send. Archives and exported files are not looked into.

        Args:
            older_than_s: so old at least, by their names. Without `unnamed` all of that age go, whoever needs them;
                with it at least 3,600, and 86,400 unless given.
            unnamed: only those that nothing names. It reads all topics of the cluster.
            named_elsewhere: names that archives and files have, which are kept, too; with `unnamed`.
            dry_run: nothing is removed; the report has what would be.

        Raises:
            InvalidSettingError: this Admin was given no `large_bodies`; or it is not said which bodies.
            IllegalStateError: `unnamed`, readers of Spark are registered, and `named_elsewhere` is not given.
            LargeBodyError: the store refuses. What was removed until then stays so; call again.
        """
        return self._bodies.remove(
            older_than_s,
            unnamed=checked_flag("unnamed", unnamed),
            named_elsewhere=named_elsewhere,
            dry_run=checked_flag("dry_run", dry_run),
        )

    def doctor(
        self, *, role: Literal["look", "producer", "worker"] = "look", timeout_s: float = DOCTOR_TIMEOUT_S
    ) -> Checkup:
        """Look for what is not as it should be: topics, processes, clocks, rights, subscriptions. Nothing is changed.

        Args:
            role: whose rights these credentials should have.
            timeout_s: how long to wait for the processes that receive.
        """
        return self._doctor.doctor(role=role, timeout_s=timeout_s)

    def drain(self, process: str, *, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Have a worker's process receive no more, finish what it works on, and end, as by SIGTERM.

        Returns when it has heard it. Its messages go to the others. Whoever supervises it may start it anew; with
        `jbm-kafka run --processes` it stays ended.

        Args:
            process: as `doctor().members` and `explain` name it: "process 4711 at worker-3"; or "worker-3/4711".
            timeout_s: how long to wait for its answer.

        Raises:
            InvalidSettingError: that names no process.
            IllegalStateError: it runs no `jbm-kafka run`, `bridge` or `Worker.run()`: end it as it was started.
            JMSError: no process of that name has answered.
        """
        self._processes.drain(process, timeout_s=timeout_s)

    def prepared(self) -> list[PreparedTransaction]:
        """Prepared branches of transactions of several systems (XA), which wait for their manager; the oldest first."""
        return self._prepared.prepared()

    def resolve(self, xid: Xid | str, decision: Literal["commit", "rollback"]) -> PreparedTransaction:
        """Decide a prepared branch whose transaction manager does not, also one that has become heuristic.

        What it was. Its other systems are not told: look there first what was decided.

        Args:
            xid: its name, or the text of it that `jbm-kafka prepared list` shows.

        Raises:
            IllegalStateError: no such branch is prepared, the text names others; or it was decided otherwise meanwhile.
            TransactionInDoubtError: Kafka did not take the decision in time. Call it again.
        """
        return self._prepared.resolve(xid, decision)

    def counts(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        count_max: int = COUNT_MAX,
    ) -> QueueCounts:
        """Return what the queue, or this subscription of the topic, holds; of more than `count_max` only how many.

        It is computed from the topic and its changelog.

        Raises:
            InvalidDestinationError: there is no such queue, or no such subscription.
            InvalidSettingError: `count_max` is negative; of a wrong type InvalidTypeError.
        """
        return self._looks.counts(destination, subscription, client_id, count_max)

    def browse(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        include: Include = "deliverable",
        tell: Tell | None = None,
    ) -> QueueLook:
        """The messages of the queue, or of this subscription of the topic, as a browser shows them.

        Iterate what it gives; each iteration looks anew, and at its end `not_shown` tells how many others there are,
        and why. Nothing is consumed, no group joined.

        Args:
            destination: a Queue, or a Topic with `subscription`, or the name of either.
            subscription: its name, of a topic only; not given: it is a queue that is looked into.
            client_id: of the connection that it belongs to; '': it belongs to none.
            selector: which messages, as in JMS: "region = 'EU' AND qty > 10"; None: every one.
            include: 'deliverable': what could be received now, of each unit the first at most; 'all': everything that
                is held, and `message.state` tells what is in a receiver's hand.
            tell: is called with a line that says so where a process takes long to tell what it has in hand; None: it is
                logged.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidTypeError, InvalidSettingError: another argument is; the text names it.
            InvalidDestinationError: it is a Topic, and no subscription is named; or, when an iteration asks for its
                first message, there is no such queue or subscription.
            JMSError: in an iteration: the cluster does not answer within the Admin's `timeout_s`.
        """
        return self._looks.browse(destination, subscription, client_id, selector, include, tell)

    def page(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        state: PageState | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        after: str | None = None,
        count: int = 50,
        ask_receivers: bool = True,
    ) -> MessagePage:
        """A page of what the queue, or this subscription of the topic, holds, in the order of its log; no bodies.

        A page takes some two seconds at most: one that finds little ends early, and its `after` goes on from there.

        Args:
            state: only what stands so, as `MessageRow.state` has it; "ready" has what "waits", too.
            since_ms: only what was sent since then, and not after `until_ms`; ms since 1970.
            after: what the page before gave; None: the first page.
            count: of messages, 1 to 500.
            ask_receivers: what they have in hand; one that does not answer may take some seconds longer.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidDestinationError: there is no such queue or subscription, or it is a Topic and none is named.
        """
        wanted = PageFilter(
            selector=selector, state=state, unit=unit, message_id=message_id, since_ms=since_ms, until_ms=until_ms
        )
        return self._pages.page(
            destination, subscription, client_id, wanted, after=after, count=count, ask_receivers=ask_receivers
        )

    def message_at(self, destination: Queue | Topic | str, partition: int, offset: int) -> StoredMessage | None:
        """The message at this place of the log, held or settled, with its body; None: the log has none there any more.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
        """
        return self._pages.message_at(destination, partition, offset)

    def explain(
        self,
        destination: Queue | Topic | str,
        *,
        unit: str | None = None,
        message_id: str | None = None,
        subscription: str | None = None,
        client_id: str = "",
        older_than_s: float = 0.0,
        timeout_s: float = EXPLAIN_TIMEOUT_S,
        tell: Tell | None = None,
    ) -> Explanation:
        """Why this unit, this message, or what waits longest does not move: its receiver, since when, by which rule.

        Nothing is changed. The processes that have the partitions are asked; where one does not answer, the topic, its
        changelog and the group give what they have. Give at most one of `unit` and `message_id`.

        Args:
            subscription: of a topic, the name of the one that is meant, with its `client_id`.
            older_than_s: only what was sent before so many seconds.
            timeout_s: how long the processes that receive may take to answer.
            tell: is called with a line that names the processes it waits for, or says how far it is, if that takes
                long; None: it is logged.

        Raises:
            InvalidDestinationError: there is no such queue, topic or subscription.
            InvalidSettingError: both a unit and a message are given.
        """
        return self._explains.explain(
            destination,
            subscription,
            client_id,
            unit=unit,
            message_id=message_id,
            older_than_s=older_than_s,
            timeout_s=timeout_s,
            tell=tell,
        )

    def message_life(
        self,
        destination: Queue | Topic | str,
        *,
        message_id: str | None = None,
        place: tuple[int, int] | None = None,
        subscription: str | None = None,
        client_id: str = "",
    ) -> MessageLife:
        """Return what became of one message, with its copies and letters, from where it was sent to where it is.

        It is told by the topics alone: the log, the changelogs, the events of seven days, and dead letters. Each search
        has a bound of some seconds; `notes` tell what was not found, and which setting would have it told.

        Args:
            destination: a queue or topic where it was, or is; also a dead-letter queue.
            message_id: its id; where an id is there twice, the first in the log.
            place: partition and offset, in place of the id; its record may be gone.
            subscription: of a topic: the life of this subscription's copy alone, with its `client_id`.

        Raises:
            InvalidDestinationError: there is no such queue, topic or subscription.
            InvalidSettingError: both of `message_id` and `place` are given, or none.
        """
        return self._lives.life(destination, message_id, place, subscription, client_id)

    def pause(
        self, destination: Queue | Topic | str, what: What = "both", *, by: str | None = None, wait_s: float = FOLLOW_S
    ) -> Pause:
        """Pause sending to it ("production" or "sending"), receiving from it ("consumption" or "receiving"), or both,
        until `resume`.

        Every process follows, also one that starts later; `wait_s` seconds go by first, so that all of them have heard.
        In memory it returns as soon as they have.

        Sends raise IllegalStateError. Receivers get nothing more; what they have in hand they go on with.

        Args:
            by: the name that people read, up to 100 characters on one line; without it user and host of this process.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            InvalidSettingError: `what`, `by` or `wait_s` cannot be so.
        """
        return self._pauses.pause(destination, what, by, wait_s)

    def resume(self, destination: Queue | Topic | str, what: What = "both", *, wait_s: float = 0.0) -> Pause:
        """Let go on what was paused; processes hear it within a second or two. What is still paused.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            InvalidSettingError: `what` or `wait_s` cannot be so.
        """
        return self._pauses.resume(destination, what, wait_s)

    def paused(self, destination: Queue | Topic | str) -> Pause:
        """Return what of it is paused, with the operator's name and since when.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
        """
        return self._pauses.paused(destination)

    def schedules(self) -> list[ListedSchedule]:
        """The schedules that workers have or had, by queue and name: their lines, the last run and the next."""
        return self._schedules.schedules()

    def pause_schedule(self, queue: Queue | str, name: str, *, by: str | None = None) -> ListedSchedule:
        """Have no runs until `resume_schedule`; those that are due meanwhile are not made up.

        Args:
            by: the name that people read, as of `pause`.

        Raises:
            InvalidDestinationError: the queue has no such schedule; the text names those that there are.
        """
        return self._schedules.pause(queue, name, by)

    def resume_schedule(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Have runs again, from now on; also where a clock was ahead, and the last run lies in the future.

        Raises:
            InvalidDestinationError: as of `pause_schedule`.
        """
        return self._schedules.resume(queue, name)

    def run_schedule(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Send one run more, now. The schedule's own runs stay as they are; a paused one may be run, too.

        Raises:
            InvalidDestinationError: as of `pause_schedule`.
        """
        return self._schedules.run(queue, name)

    def remove_schedule(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Forget a schedule; what it was. A worker that starts with it makes it anew, without runs of the past.

        Raises:
            InvalidDestinationError: as of `pause_schedule`.
        """
        return self._schedules.remove(queue, name)

    def release(
        self,
        destination: Queue | Topic | str,
        unit: str | None = None,
        *,
        subscription: str | None = None,
        client_id: str = "",
        message_id: str | None = None,
        everything: bool = False,
        again: bool = False,
        dead_letter_address: Queue | Topic | str | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> ReleaseReport:
        """Let units go on that are on hold (`on_dead_letter="hold"`): this unit, that of this message, or
        `everything`; one of them is to be given.

        The messages that hold them leave for the dead-letter address. The processes that receive do it; where none
        does, this one joins the group for a moment. When it returns it is recorded. Again: what went on is left alone.

        Args:
            subscription: of the topic that is given, this subscription's units; `client_id` where it belongs to one.
            everything: all that is on hold there.
            again: they are not given up, but tried anew, with all their attempts.
            dead_letter_address: where they go when no process receives and the registry has no setting for it
                (`set_address_settings`); else it goes by the settings. Not given: DLQ; None: they are removed.
            dry_run: nothing is released; the report has what would be.

        Raises:
            InvalidSettingError: it is not said which, or `everything` and a unit are.
            InvalidDestinationError: there is no such queue, or no such subscription.
            JMSError: not every process that receives has answered, and some may have released what they have: again.
        """
        return self._messages.release(
            destination,
            subscription,
            client_id,
            unit=unit,
            message_id=message_id,
            everything=everything,
            again=again,
            dead_letter_address=dead_letter_address,
            dry_run=dry_run,
            timeout_s=timeout_s,
        )

    def set_address_settings(self, pattern: str, settings: AddressSettings) -> None:
        """Record settings for the destinations that the pattern matches; running processes go by them a second later.

        They win over every factory's, setting by setting, and hold for the next failure, hand-over or send: what was
        counted stays counted. What `settings` does not speak of stays as it is recorded; None unsets what a wider
        pattern or a factory says. `partitions` is for destinations that are made from then on. What is legal and
        loses messages is warned of in the log: an address that is its own or not there, a topic without a subscription.

        Raises:
            InvalidSettingError: the pattern is not allowed, a number is too large, or an address names a queue
                where there is a topic of that name, or a topic where there is a queue.
        """
        self._settings.set(pattern, settings)

    def unset_address_settings(self, pattern: str, *names: str) -> bool:
        """Record nothing any more for the pattern, or nothing of the named settings: what others say holds again.

        False: nothing of that was recorded.

        Raises:
            InvalidSettingError: the pattern is not allowed, or there is no such setting.
        """
        return self._settings.unset(pattern, names)

    def address_settings(self, pattern: str | None = None) -> dict[str, AddressSettings]:
        """Return what the registry says of settings, by pattern, the least specific first; of one pattern, only that.

        It wins over what factories say. No other process's factory is known here.

        Raises:
            InvalidSettingError: the pattern is not allowed.
            JMSError: a newer version wrote what cannot be read here.
        """
        return self._settings.recorded(pattern)

    def queues_with_dead_letters(self, *, queues_max: int = 50) -> list[Queue]:
        """Queues that hold dead letters or expired messages, found by a quick look at what was sent to each last.

        So it misses one where many other messages follow; and it looks into the first `queues_max` queues by name.
        """
        return self._letters.queues_with_letters(queues_max)

    def dead_letter_queue(self) -> Queue:
        """The queue that takes letters of this namespace where no setting names another."""
        return self._letters.queue()

    def dead_letters(
        self,
        queue: Queue | str | None = None,
        *,
        origin: Queue | Topic | str | None = None,
        reason: LetterReason | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
    ) -> Iterable[tuple[DeadLetter, Message]]:
        """The messages of a dead-letter or expiry queue, with where each was and why it left; nothing is consumed.

        Without a queue it is `dead_letter_queue`.

        Iterate what it gives; each iteration looks anew. Filters as of `retry_dead_letters`.

        Raises:
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidDestinationError: when the first is asked for: there is no such queue.
        """
        wanted = letter_filter(origin, selector, reason=reason, unit=unit, message_id=message_id)
        return self._letters.look(None if queue is None else letters_queue(queue), wanted)

    def retry_dead_letters(
        self,
        queue: Queue | str | None = None,
        *,
        origin: Queue | Topic | str | None = None,
        reason: LetterReason | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
        places: Collection[tuple[int, int]] | None = None,
        count: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        timeout_s: float = RETRY_TIMEOUT_S,
        stop: Callable[[], bool] | None = None,
    ) -> RetryReport:
        """Send dead letters of `queue` to where they came from: of those that match, the `count` oldest, or all.

        Without a queue it is `dead_letter_queue`. What receivers of another namespace gave up stays.

        One that a subscription of a topic gave up comes to that subscription alone (decision 51).

        What is sent leaves `queue` in the same transaction; what is not stays, uncounted, in its place.
        Letters that come meanwhile are left for another time. It ends when none came for `timeout_s` seconds.

        Args:
            origin: only what came from there: a queue, or `Topic(…)` or "topic:…".
            reason: only what left for this reason, as `dead_letters` tells it.
            message_id: only what has this id; ids may repeat.
            selector: only what it chooses of the dead letters' properties (docs/selectors.md).
            places: only those at these places of `queue`, partition and offset, as `DeadLetter.place` tells them.
            rate: so many a second at most.
            dry_run: nothing is received nor sent; the report has what would be.
            stop: is asked before each batch, and while it waits for its rate; when it returns True, no more are sent.

        Raises:
            InvalidDestinationError: there is no such queue.
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            TransactionInDoubtError: nobody knows whether the latest batch, a few hundred, was sent; it was sent whole
                and left, or neither. Retry again: what was not sent is still there.
        """
        source, timeout_s = None if queue is None else letters_queue(queue), checked_seconds("timeout_s", timeout_s)
        checked_flag("dry_run", dry_run)
        if count is not None:
            checked_int("count", count, 1, None, "letters")
        if rate is not None and not checked_seconds("rate", rate) > 0:
            raise wrong_value("rate", rate, "it is a number of letters a second, above 0")
        wanted = letter_filter(origin, selector, places, reason=reason, unit=unit, message_id=message_id)
        if stop is not None:
            check_callable("stop", stop)
        return self._letters.retry(
            source, wanted, count, rate, dry_run=dry_run, timeout_s=timeout_s, stop=stop or (lambda: False)
        )

    def send_edited_letter(
        self,
        place: tuple[int, int],
        queue: Queue | str | None = None,
        *,
        body: str | bytes | Unset = UNSET,
        properties: Mapping[str, object] | None = None,
        keep: bool = False,
        dry_run: bool = False,
        timeout_s: float = RETRY_TIMEOUT_S,
    ) -> EditedLetter:
        """Send a changed copy of a dead letter to where that came from; the letter leaves in the same transaction.

        Without a queue it is `dead_letter_queue`. The copy has an id of its own, and the letter's in `_JBM_COPY_OF`.

        Args:
            place: of the letter in the queue, partition and offset, as `DeadLetter.place` tells them.
            body: the new text, JSON or bytes; not given: as it was.
            properties: those that are set, or of None taken away; all others stay.
            keep: the letter stays, beside its copy.
            dry_run: nothing is sent; it tells whether that could be.

        Raises:
            IllegalStateError: no letter is there.
            InvalidDestinationError: it does not tell where it came from, or that is not there.
            MessageFormatError: the body is a map or stream, or what is given is not of its kind.
            TransactionInDoubtError: nobody knows whether it was sent. Look: the letter has left, or is there still.
        """
        source, timeout_s = None if queue is None else letters_queue(queue), checked_seconds("timeout_s", timeout_s)
        checked_flag("keep", keep)
        checked_flag("dry_run", dry_run)
        edit = checked_edit(body, {} if properties is None else properties)
        (where,) = letter_filter(None, None, [place], reason=None, unit=None, message_id=None).places or [place]
        return self._letters.send_edited(source, where, edit, keep=keep, dry_run=dry_run, timeout_s=timeout_s)

    def move(
        self,
        destination: Queue | Topic | str,
        to: Queue | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        order: Order = "log",
        count: int | None = None,
        split_units: bool = False,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Move messages to another queue: each leaves in the transaction that writes it there.

        Meant are those of the unit, with one of the ids, chosen by the selector: all of that which is given; or
        everything. They stay as they are, but for attempts, which are counted anew, and duplicate ids, which go. What
        a receiver works on stays there, and what is behind it in its unit stays too; the report tells.

        A unit keeps its order when it is moved whole while both queues are paused (`pause`); else a warning says so.
        Whoever receives from the queue does it; when nobody does, this process joins its group for a moment.

        Args:
            subscription: of the topic that is given, what this subscription has; `client_id` where it belongs to one.
                The other subscriptions keep their copies, and the topic's log is as it was.
            order: in which they are sent: as in the "log", as they were "sent", or by "priority". Messages of a unit
                stay in theirs, and the order holds within each partition.
            count: so many of them at most, the first in that order.
            split_units: also when only some messages of a unit are meant.
            dry_run: nothing is moved; the report has what would be, and receivers are asked what they work on.
            timeout_s: it ends when no process answers for so long; what was not done is in `kept`, with the reason.

        Raises:
            InvalidDestinationError: a queue or the subscription is not there, or both queues are the same.
            InvalidSettingError: it is not said which messages are meant.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            OrderError: units would be split; nothing is done.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        target = queue_of(to, "to")
        wish = wish_of(
            Verb.MOVE,
            destination,
            subscription,
            client_id,
            choice,
            to=target,
            order=order,
            count=count,
            splits_units=split_units,
            dry_run=dry_run,
            timeout_s=timeout_s,
        )
        if target == wish.destination:
            raise InvalidDestinationError(f"{target}: its messages are there already; name another queue")
        return self._messages.take_out(wish, AddressSettings())

    def remove(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Remove messages for good, but for those that somebody works on. As `move` in all else.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.REMOVE, destination, subscription, client_id, choice, count=count, dry_run=dry_run, timeout_s=timeout_s
        )
        return self._messages.take_out(wish, AddressSettings())

    def send_now(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Let messages go that wait for a time: that their sender delayed, or that wait for their next attempt.

        They keep their place, attempts and order: one that is not the first of its unit goes after that. What is on
        hold is for `release`. When it returns it is recorded. Else as `remove`.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        return self._messages.send_now(
            destination, subscription, client_id, choice, count=count, dry_run=dry_run, timeout_s=timeout_s
        )

    def expire(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        expiry_address: str | Queue | Topic | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Let messages expire now: they go to the expiry address, or are removed where no such address is set.

        As `move` in all else. `expiry_address` is what counts when nobody receives and the registry has no setting for
        it; not given: ExpiryQueue. Else it goes by the settings.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.EXPIRE, destination, subscription, client_id, choice, count=count, dry_run=dry_run, timeout_s=timeout_s
        )
        return self._messages.take_out(wish, AddressSettings(expiry_address=expiry_address))

    def send_to_dead_letter(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        dead_letter_address: str | Queue | Topic | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Give messages up now: they go to the dead-letter address with the reason "operator".

        As `move` in all else. `dead_letter_address` is what counts when nobody receives and the registry has no setting
        for it; not given: DLQ. Else it goes by the settings.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.DEAD_LETTER,
            destination,
            subscription,
            client_id,
            choice,
            count=count,
            dry_run=dry_run,
            timeout_s=timeout_s,
        )
        return self._messages.take_out(wish, AddressSettings(dead_letter_address=dead_letter_address))

    def export_messages(self, destination: Queue | Topic | str, file: PathLike) -> ExportReport:
        """Write into a file what a queue, or each durable subscription of a topic, holds: all that a process which
        takes over now would find.

        It only looks. What receivers settle meanwhile, or afterwards, is in the file all the same.

        Args:
            file: an Avro container, which appears when it is complete; docs/backup-and-moving.md has what is in it.

        Raises:
            InvalidDestinationError: there is no such queue or topic, or partitions are being admitted.
            InvalidSettingError: there is a file of this name.
            IllegalStateError: a prepared branch has messages of it.
            OSError: the file cannot be written.
        """
        return self._moving.export(destination, file)

    def import_messages(self, file: PathLike, *, to: Queue | Topic | str | None = None) -> ImportReport:
        """Put what a file of `export_messages` has behind what a queue or topic holds: attempts, delays, order,
        subscriptions and duplicate ids are as they were. Each message once, however often the file is imported.

        While it runs nobody else receives from there. Killed, or failed, at any moment: again.

        Args:
            to: where the messages go, made if it is not there; None: the name in the file.

        Raises:
            InvalidDestinationError: it is where the file is from, has other partitions, is used in other namespaces,
                or is of the other kind.
            IllegalStateError: processes receive from it, or it has other subscriptions.
            TransactionInDoubtError: nobody knows whether the last messages were written: again.
            JMSError: the file is damaged, cut off, or of a newer version; nothing was written.
            OSError: the file cannot be read.
        """
        return self._moving.import_(file, to)

    def adopt(self, destination: Queue | Topic | str, *, begin: From) -> Adoption:
        """Take a Kafka topic that others copied, as MirrorMaker does, for this queue, or for each durable subscription
        of this `Topic`: its receivers begin where `begin` says.

        A copy has another Kafka id than its source, so what a copied changelog says counts for nothing until this is
        done. Killed at any moment: again.

        Args:
            begin: `"begin"`: with all that the log has; `"end"`: with what is sent from now on; an offset for each
                partition; or `"held"`: with what was held, with attempts, delays and duplicate ids, where topic and
                changelog were copied with equal offsets.

        Raises:
            InvalidDestinationError: there is no such topic, or it has no durable subscription.
            IllegalStateError: processes receive from it, its changelog is of this topic already, or the offsets of a
                copied changelog are not those of the log.
            TransactionInDoubtError: nobody knows whether the last partition was done: again.
        """
        return self._moving.adopt(destination, begin)

    def admit_partitions(
        self,
        destination: Queue | Topic | str,
        *,
        partitions: int | None = None,
        force: bool = False,
        wait_s: float = SETTLED_AFTER_S,
        tell: Tell | None = None,
    ) -> tuple[int, int]:
        """Route the units of a queue or topic in use by more partitions: the count before, and now.

        A unit of which anything is held, by the queue or by any subscription of the topic, stays where it is, by a
        path, until `end_paths`. Killed at any moment: again.

        Args:
            partitions: so many, which its topic gets; None: as many as it has, or as an admission that was killed gives
                it. The count that it has already takes such an admission back.
            force: whatever is held, at once: order across that point is given up.
            wait_s: until every sender that has not heard of it has stopped going by the old count, or was given up. In
                memory it waits only until all have heard.
            tell: is called with a line that says so before that wait; None: it is logged.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            IllegalStateError: it is used in other namespaces too, an open transaction hides what it holds, or that
                is of too many units; nothing is changed.
        """
        return self._partitions.admit(destination, partitions, force=force, wait_s=wait_s, tell=tell)

    def unit_paths(self, destination: Queue | Topic | str) -> Mapping[str, int]:
        """The units of a queue or topic that keep a partition, whatever their hash says, with that partition."""
        return self._partitions.unit_paths(destination)

    def end_paths(
        self, destination: Queue | Topic | str, *, wait_s: float = SETTLED_AFTER_S, tell: Tell | None = None
    ) -> PathsEnded:
        """Route units by their hash again that kept their partition, and of which nothing is held any more.

        `tell` as of `admit_partitions`.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            IllegalStateError: an open transaction hides what it holds.
        """
        return self._partitions.end_paths(destination, wait_s, tell)
