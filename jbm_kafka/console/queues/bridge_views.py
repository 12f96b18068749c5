"""The bridges of the configuration, as far as their ends are in the cluster that the console looks at, and a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.ends import BridgeEnd
from jbm_kafka.bridge.recorded_ids import recorded_ids
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import NothingAsked, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.queues.store_row import StoreRow, look_at_store
from jbm_kafka.core.bridge_way import Way
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.ports import KafkaClientError

FRESH_S = 15.0
"""What is recorded is read whole."""


class BridgeRow(BaseModel):
    """A bridge of the configuration."""

    name: str
    fault: str = ""
    """Why nothing else is known of it; empty: its table is right."""
    source: str = ""
    """`queue:orders at kafka.example.com:9092`."""
    target: str = ""
    guarantee: str = ""
    waits_in: SourceName | None = None
    """The source, if it is in the cluster and namespace of the console; None: how much waits it tells itself."""
    held: int | None = None
    """Messages that wait for it; None: not known here, or not yet."""
    oldest_at_ms: int | None = None
    receivers: int | None = None
    """Processes that receive from the source: those that run the bridge, and others."""
    recorded: int | None = None
    """Messages that it has brought here and that may come again, which it would know; None: it brings none here, or it
    does not run and knows of none."""


class BridgesPage(BaseModel):
    """The bridges of the configuration that the console was started with."""

    bridges: Sequence[BridgeRow]
    trouble: str
    """Why it is not known what is recorded; empty: it is."""
    store: StoreRow | None
    """The store beside a sender that it names; None: it names none."""


def look_at_bridges(console: Console, viewer: Viewer, _: NothingAsked) -> BridgesPage:
    """Return what waits for them by the last look at the queues."""
    bridges = console.settings.bridges
    recorded, trouble = _recorded(console) if bridges else ({}, "")
    found = console.backlogs(viewer)
    held = {} if found is None else {SourceName.of(each): each for each in found.backlogs}
    rows = []
    for name, spec in bridges.items():
        if isinstance(spec, str):
            rows.append(BridgeRow(name=name, fault=spec))
            continue
        waits_in = _source(spec) if _is_here(console, spec.source) else None
        backlog = None if waits_in is None else held.get(waits_in)
        has_record = spec.way is Way.RECORDED_PROGRESS and _is_here(console, spec.target)
        rows.append(
            BridgeRow(
                name=name,
                source=spec.source.place,
                target=spec.target.place,
                guarantee=spec.guarantee.value,
                waits_in=waits_in,
                held=None if backlog is None else backlog.held,
                oldest_at_ms=None if backlog is None else backlog.oldest_held_at_ms,
                receivers=None if backlog is None else backlog.receivers,
                recorded=recorded.get(name) if has_record else None,
            )
        )
    return BridgesPage(bridges=rows, trouble=trouble, store=look_at_store(console))


def _source(spec: BridgeSpec) -> SourceName:
    destination = spec.source.destination
    if isinstance(destination, Topic):
        return SourceName(name=destination.name, subscription=spec.source.subscription or spec.name)
    return SourceName(name=destination.name)


def _is_here(console: Console, end: BridgeEnd) -> bool:
    here, there = ConnectionFactory(console.cluster.bootstrap), end.factory
    same = (here._scheme, here._installation.bootstrap) == (there._scheme, there._installation.bootstrap)
    return same and end.namespace == console.cluster.namespace


def _recorded(console: Console) -> tuple[Mapping[str, int], str]:
    core = console.admin._core
    try:
        return recorded_ids(core.kafka, core.admin, core.namespace), ""
    except (KafkaClientError, CorruptRecordError) as error:
        return {}, str(error)


BRIDGE_VIEWS = (
    View("/bridges", NothingAsked, look_at_bridges, BridgesPage, "Bridges of the configuration", "bridges.html",
         needs_all=True, fresh_s=FRESH_S),
)  # fmt: skip
