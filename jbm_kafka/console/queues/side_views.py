"""Views beside the queues: topics, subscriptions, prepared branches, readers of Spark, processes and their health."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from jbm_kafka.admin import Checkup, RegisteredReader
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import FRESH_S, NothingAsked, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.core.destination import Topic

CHECKUP_FRESH_S = 20.0


class TopicRow(BaseModel):
    """A topic of JMS."""

    name: str
    subscriptions: int
    members: int
    held_at_most: int
    """The number that the subscription holds which needs most."""


class TopicsPage(BaseModel):
    """All topics."""

    topics: Sequence[TopicRow]


class SubscriptionRow(BaseModel):
    """A subscription of a topic."""

    source: SourceName
    kind: str
    selector: str
    owner: str
    """The AMQP user whose it is; empty: nobody's."""
    members: int
    created_ms: int
    held_at_most: int
    is_private: bool
    """It belongs to one process, as long as that lives: it has no page."""


class SubscriptionsPage(BaseModel):
    """All subscriptions, and the client ids that they belong to."""

    subscriptions: Sequence[SubscriptionRow]
    client_ids: Sequence[str]


class BranchRow(BaseModel):
    """A prepared branch."""

    model_config = ConfigDict(frozen=True)

    xid: str
    prepared_at_ms: int
    process: str
    received: int
    sends: int
    heuristic: Sequence[str]


class TransactionsPage(BaseModel):
    """Prepared branches that wait for their transaction managers."""

    branches: Sequence[BranchRow]


class ReadersPage(BaseModel):
    """Readers without a consumer group, for which the log is kept."""

    readers: Sequence[RegisteredReader]


class CheckupPage(BaseModel):
    """The findings of the doctor, and the processes that receive."""

    checkup: Checkup


def look_at_topics(console: Console, viewer: Viewer, _: NothingAsked) -> TopicsPage:
    """With the number of their subscriptions."""
    there, found = console.admin.destinations(), console.admin.subscriptions()
    rows = []
    for each in there:
        if isinstance(each, Topic) and viewer.may_look(each.name):
            mine = [sub for sub in found if sub.topic.name == each.name]
            rows.append(
                TopicRow(
                    name=each.name,
                    subscriptions=len(mine),
                    members=sum(sub.members for sub in mine),
                    held_at_most=max((sub.held_at_most for sub in mine), default=0),
                )
            )
    return TopicsPage(topics=rows)


def look_at_subscriptions(console: Console, viewer: Viewer, _: NothingAsked) -> SubscriptionsPage:
    """Return the subscriptions of all topics that he may look at."""
    found = console.admin.subscriptions()
    rows = [
        SubscriptionRow(
            source=SourceName(name=each.topic.name, subscription=each.name, client_id=each.client_id),
            kind=each.kind,
            selector=each.selector,
            owner=each.owner,
            members=each.members,
            created_ms=each.created_ms,
            held_at_most=each.held_at_most,
            is_private=not each.group,
        )
        for each in found
        if viewer.may_look(each.topic.name)
    ]
    return SubscriptionsPage(
        subscriptions=rows, client_ids=sorted({row.source.client_id for row in rows if row.source.client_id})
    )


def look_at_transactions(console: Console, _: Viewer, __: NothingAsked) -> TransactionsPage:
    """The oldest first."""
    found = console.admin.prepared()
    rows = [
        BranchRow(
            xid=str(each.xid),
            prepared_at_ms=each.prepared_at_ms,
            process=each.process,
            received=sum(each.received.values()),
            sends=each.sends,
            heuristic=[f"{where}: {what}" for where, what in each.heuristic.items()],
        )
        for each in found
    ]
    return TransactionsPage(branches=sorted(rows, key=lambda row: row.prepared_at_ms))


def look_at_readers(console: Console, _: Viewer, __: NothingAsked) -> ReadersPage:
    """Archives and streaming queries of Spark."""
    return ReadersPage(readers=console.admin.readers())


def look_at_health(console: Console, _: Viewer, __: NothingAsked) -> CheckupPage:
    """It asks every process, and so takes a second or two."""
    return CheckupPage(checkup=console.admin.doctor())


SIDE_VIEWS = (
    View("/topics", NothingAsked, look_at_topics, TopicsPage, "Topics", "topics.html",
         fresh_s=FRESH_S),
    View("/subscriptions", NothingAsked, look_at_subscriptions, SubscriptionsPage, "Subscriptions of all topics",
         "subscriptions.html", fresh_s=FRESH_S),
    View("/transactions", NothingAsked, look_at_transactions, TransactionsPage, "Prepared branches",
         "transactions.html", needs_all=True, fresh_s=FRESH_S),
    View("/readers", NothingAsked, look_at_readers, ReadersPage, "Readers of Spark", "readers.html", needs_all=True,
         fresh_s=FRESH_S),
    View("/checkup", NothingAsked, look_at_health, CheckupPage, "Processes, and what is not as it should be",
         "checkup.html", needs_all=True, fresh_s=CHECKUP_FRESH_S),
)  # fmt: skip
