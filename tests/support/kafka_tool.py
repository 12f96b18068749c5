"""Kafka's own command-line tools, out of the test broker's jars."""

import subprocess

from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.java import find_java
from jbm_kafka.devbroker.process import BRIEF

TOOL_TIMEOUT_S = 180.0
"""On a busy machine a Java program takes a minute to begin."""


def run_tool(name: str, bootstrap: str, *arguments: str) -> str:
    """What a tool says, named as its class within `org.apache.kafka.tools`."""
    command = [find_java(), *BRIEF, "-cp", f"{ensure_jars()}/*", f"org.apache.kafka.tools.{name}"]
    command += ["--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def reset_offsets(bootstrap: str, group: str, topic: str, *to: str) -> str:
    """As `kafka-consumer-groups.sh --reset-offsets … --execute`; of a group in use it says so and changes nothing."""
    arguments = ["--group", group, "--topic", topic, "--reset-offsets", *to, "--execute"]
    return run_tool("consumer.group.ConsumerGroupCommand", bootstrap, *arguments)
