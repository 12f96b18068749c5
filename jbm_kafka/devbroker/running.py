"""Which local brokers of this user run, wherever their data is: from the system's list of processes."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from jbm_kafka.devbroker.broker import LocalBroker

_COMMAND = re.compile(r" kafka\.Kafka (/.+)/server\.properties$")
"""As process.py writes it."""
PS_TIMEOUT_S = 5.0


def running_brokers() -> list[LocalBroker]:
    """The brokers, in the order of their folders; none where the system does not tell."""
    folders = {found[1] for command in _commands() if (found := _COMMAND.search(command))}
    brokers = [LocalBroker(folder) for folder in sorted(folders)]
    return [broker for broker in brokers if _is_ours(broker)]


def _is_ours(broker: LocalBroker) -> bool:
    try:
        return broker.is_running
    except OSError:  # another user's
        return False


def _commands() -> Iterator[str]:
    """The command lines of all processes."""
    if Path("/proc/self/cmdline").exists():
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                yield path.read_bytes().decode(errors="replace").rstrip("\0").replace("\0", " ")
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-axww", "-o", "args="]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=PS_TIMEOUT_S, check=False)
        yield from listed.stdout.splitlines()
