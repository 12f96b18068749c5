"""Makes all topics of an installation, and records what they are; made again it changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.registry.topic_plan import TopicStep, TopicWish, steps_to, topics_of
from jbm_kafka.registry.topics import Topics


def provision(core: AdminCore, wish: TopicWish, *, dry_run: bool) -> Sequence[TopicStep]:
    """Return what was done, or with `dry_run` would be, for each topic.

    Raises:
        InvalidDestinationError: a topic cannot be as it is asked for; nothing was done.
        JMSError: Kafka refuses, or does not answer; made again, it goes on.
    """
    with core.asking("provision"):
        found = core.admin.describe(topics_of(wish), with_config=True)
        steps = steps_to(wish, found, core.admin.topic_names())
        faults = [f"{step.topic}: {step.fault}" for step in steps if step.fault]
        if faults:
            raise InvalidDestinationError(f"nothing was done: {'; '.join(faults)}")
        if not dry_run:
            for step in steps:
                _carry_out(core, wish, step)
            topics = Topics(core.admin, namespace=wish.namespace, registry=core.registry)
            for destination in {**wish.destinations, **dict.fromkeys(wish.letters)}:
                topics.ensure(destination, create=False, partitions=0)
            topics.ensure_system_topics()
    return steps


def _carry_out(core: AdminCore, wish: TopicWish, step: TopicStep) -> None:
    if step.is_new:
        core.admin.create_topic(
            step.topic, partitions=step.partitions, config=step.config, replication=wish.replication
        )
    if step.adds_partitions:
        core.admin.add_partitions(step.topic, step.partitions)
    if step.changes:
        core.admin.alter_config(step.topic, step.changes)
