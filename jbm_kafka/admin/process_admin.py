"""What operators ask of whole processes: to drain (decision 122)."""

from __future__ import annotations

import secrets
import time

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.command_records import Answer, drain_command
from jbm_kafka.core.channel.process_names import host_and_id, process_name
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import checked_seconds
from jbm_kafka.registry.command_client import CommandClient
from jbm_kafka.registry.own_topics import commands_topic, ensure_commands_topic

DRAIN_TIMEOUT_S = 15.0
"""Processes look every second whether something is asked of them."""


class ProcessAdmin:
    """Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def drain(self, process: str, *, timeout_s: float) -> None:
        """Have it receive no more and end; returns when it has heard it.

        Raises:
            InvalidSettingError: it is no name of a process.
            IllegalStateError: nothing in that process ends by it.
            JMSError: nobody of that name answers in time.
        """
        timeout_s, (host, id_) = checked_seconds("timeout_s", timeout_s), checked_process(process)
        core, heard = self._core, list[Answer]()
        with core.asking(f"drain {process_name(host, id_)}"):
            topic = commands_topic(core.namespace)
            ensure_commands_topic(core.admin, topic)
            now_ms = time.time_ns() // 1_000_000
            command = drain_command(secrets.token_hex(8), host, id_, asked_at_ms=now_ms)
            with CommandClient(core.kafka, core.admin, topic) as client:
                client.ask(
                    [command],
                    patience_s=lambda _: timeout_s,
                    answered=lambda _, answer: heard.append(answer),
                    late=lambda *_: None,
                )
        if not heard:
            raise JMSError(
                f"{process_name(host, id_)} did not answer within {timeout_s:g} s: it has ended, receives nothing, is "
                f"older, or may not read and write {topic}; jbm-kafka doctor lists those that receive"
            )
        if heard[0].error:
            raise IllegalStateError(f"{process_name(host, id_)}: {heard[0].error}")


def checked_process(process: object) -> tuple[str, int]:
    """The host and the process id that are meant.

    Raises:
        InvalidSettingError: it is no name of a process.
    """
    rule = "it is 'process 4711 at worker-3', as lists of processes have it, or 'worker-3/4711'"
    if not isinstance(process, str):
        raise wrong_type("process", process, rule)
    found = host_and_id(process)
    if found is None:
        raise wrong_value("process", process, rule)
    return found
