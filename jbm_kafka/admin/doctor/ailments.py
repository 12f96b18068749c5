"""From what was looked at to what is not as it should be: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts
from jbm_kafka.admin.doctor.finding import Ailment, Finding
from jbm_kafka.admin.doctor.looked import Looked, LookedTopic, TopicRole
from jbm_kafka.core.open_files import files_needed, too_few_files
from jbm_kafka.registry.topic_faults import cleanup_fault, copies_fault, retention_fault, setting

IN_SYNC_WANTED = 2
CLOCK_APART_MS = 1_000
"""Half of a second is what asking takes on a busy machine, and no delay needs to be that exact."""
COMPACTED = (TopicRole.CHANGELOG, TopicRole.REGISTRY)

Row = tuple[Ailment, str, str, str]
"""A kind, whom it is about, text and remedy."""


def findings_of(looked: Looked) -> tuple[Finding, ...]:
    """Return the findings by kind; those of one kind that say the same are one, about several."""
    about: dict[tuple[Ailment, str, str], list[str]] = {}
    for kind, name, text, remedy in _rows(looked):
        about.setdefault((kind, text, remedy), []).append(name)
    order = list(Ailment)
    return tuple(
        Finding(kind, tuple(sorted(names)), text, remedy)
        for (kind, text, remedy), names in sorted(about.items(), key=lambda each: order.index(each[0][0]))
    )


def _rows(looked: Looked) -> Iterator[Row]:
    for topic in looked.topics:
        yield from _of_copies(topic, looked.brokers)
        if topic.config is not None and topic.role is not TopicRole.KAFKAS_OWN:
            yield from _of_cleanup(topic)
        yield from _of_maker(topic)
    for name, kind in looked.missing.items():
        remedy = "a process that receives makes it again; what only it had is lost"
        yield Ailment.MISSING, name, f"{kind} is not there", remedy
    yield from _of_parked(looked)
    yield from _of_rights(looked)
    yield from _of_processes(looked)
    for subscription in looked.subscriptions:
        yield from _of_subscription(subscription)


# -- topics ------------------------------------------------------------------------------------------------------------


def _of_copies(topic: LookedTopic, brokers: int) -> Iterator[Row]:
    if fault := copies_fault(topic.replicas, brokers):
        yield Ailment.REPLICATION, topic.name, fault.text, fault.remedy
    elif topic.in_sync < topic.replicas:
        text = f"only {topic.in_sync} of its {topic.replicas} replicas have all of it"
        yield Ailment.REPLICATION, topic.name, text, "look after the brokers that are away or behind"
    if topic.config is None or topic.replicas == 1:
        return
    found = int(topic.config.get("min.insync.replicas", "1"))
    wanted = min(IN_SYNC_WANTED, topic.replicas - 1)
    if found < wanted:
        text = f"min.insync.replicas is {found}: what one broker alone has confirmed is lost with it"
        yield Ailment.MIN_ISR, topic.name, text, setting("min.insync.replicas", str(IN_SYNC_WANTED))
    elif found >= topic.replicas:
        text = f"min.insync.replicas is {found} of {topic.replicas} replicas: while a broker is away nothing is written"
        yield Ailment.MIN_ISR, topic.name, text, setting("min.insync.replicas", str(max(wanted, 1)))


def _of_cleanup(topic: LookedTopic) -> Iterator[Row]:
    config = topic.config or {}
    if fault := cleanup_fault(config, is_compacted=topic.role in COMPACTED):
        yield Ailment.COMPACTION, topic.name, fault.text, fault.remedy
    if topic.role is TopicRole.DESTINATION and (fault := retention_fault(config)):
        yield Ailment.RETENTION, topic.name, fault.text, fault.remedy


def _of_maker(topic: LookedTopic) -> Iterator[Row]:
    if topic.role is not TopicRole.DESTINATION or topic.is_made_by_us:
        return
    who = "who made it is not recorded, though it is configured as ours" if topic.is_as_we_make else "others made it"
    remedy = "jbm-kafka settings set NAME truncate=settled, or truncate=never where it is to be kept"
    yield Ailment.MAKER, topic.name, f"{who}: what is settled is never deleted by itself", remedy


def _of_parked(looked: Looked) -> Iterator[Row]:
    topics = {each.name: each for each in looked.topics}
    for group, count in looked.parked.items():
        changelog = looked.changelogs[group]
        if changelog in topics and topics[changelog].replicas >= min(IN_SYNC_WANTED, looked.brokers):
            continue
        many = "it is not known how many" if count is None else count
        if changelog in topics:
            text = f"{many} parked messages have their only copy in {changelog}, which is on one broker"
            yield Ailment.PARKED, group, text, f"kafka-reassign-partitions.sh gives {changelog} more replicas"
        else:
            text = f"{many} parked messages had their only copy in {changelog}, which is not there"
            yield Ailment.PARKED, group, text, "from a backup of that topic, or from the senders"


# -- who asks, and processes -------------------------------------------------------------------------------------------


def _of_rights(looked: Looked) -> Iterator[Row]:
    for (kind, name), operations in sorted(looked.refused.items()):
        words = ", ".join(_as_in_acls(operations))
        options = " ".join(f"--operation {each}" for each in _as_in_acls(operations))
        text = f"these credentials may not {words} on this {kind}, which {looked.role} needs"
        yield Ailment.RIGHTS, name, text, f"kafka-acls.sh --add --allow-principal User:… --{kind} NAME {options}"


def _as_in_acls(operations: Iterable[str]) -> list[str]:
    """`DESCRIBE_CONFIGS` as `DescribeConfigs`."""
    return ["".join(part.capitalize() for part in each.split("_")) for each in sorted(operations)]


def _of_processes(looked: Looked) -> Iterator[Row]:
    for process in looked.processes:
        if process.version != looked.version:
            runs = process.version or "an older version, which does not say which"
            text = f"it runs {runs}; this is {looked.version}"
            yield Ailment.VERSION, process.name, text, "run one version everywhere; a rolling upgrade ends so"
        if abs(process.ahead_ms) >= CLOCK_APART_MS:
            where = "ahead of" if process.ahead_ms > 0 else "behind"
            text = f"its clock is {abs(process.ahead_ms) / 1000:.1f} s or more {where} this one"
            yield Ailment.CLOCK, process.name, text, "have NTP set both: delays and expiry go by clocks"
        text = too_few_files(process.files_max, files_needed(process.sources), f"{process.sources} queues")
        if text:
            said, _, remedy = text.partition(": raise")
            yield Ailment.FILES, process.name, said, f"raise{remedy}"
    for name in looked.silent:
        remedy = "see its log; it hangs, is frozen, or may not read and write jbm.commands"
        yield Ailment.SILENT, name, "it has partitions and does not answer", remedy


def _of_subscription(found: SubscriptionCounts) -> Iterator[Row]:
    if found.members or not found.held_at_most or not found.kind.endswith("durable"):
        return
    client = f" --client-id {quote(found.client_id)}" if found.client_id else ""
    text = f"nobody receives from this subscription, and up to {found.held_at_most} records of {found.topic} are kept"
    remedy = f"start its program, or end it: jbm-kafka subscriptions delete {quote(found.name)}{client}"
    yield Ailment.UNUSED, found.group, text, remedy
