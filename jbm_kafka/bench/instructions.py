"""The cost of a message in instructions of the processor: the same on a busy machine and on an idle one.

Valgrind's callgrind counts what a whole client process executes, once for many messages and once for fewer; the
difference is what the messages between cost. What a client does while it waits comes on top, by chance; so each
process runs several times and the least counts.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from jbm_kafka.bench.load import HELD_UNIT, create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import MeasuredClient
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.core.jms_errors import JMSError

MANY, FEW = 80_000, 20_000
PARTITIONS, UNITS, BODY_BYTES = 8, 1_000, 100
HELD_BEHIND = 2_000
HELD_DELAY_MS = 86_400_000
"""Longer than any run."""
CHECKPOINT_INTERVAL_MS = 2_500
"""The default, as much longer as everything takes under valgrind: else half of what is counted would be checkpoints,
and the more of them the busier the machine."""
AS_FAST_AS_IT_CAN = 1_000_000_000
MAY_GROW = 0.05
"""How much more than its reference a shape may cost."""
REFERENCE = Path(__file__).with_name("instructions.json")
"""The counts of 23ac797, before a turn looked only at what changed."""


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """The cost of one shape."""

    per_message: float
    many: tuple[int, ...]
    """Instructions of each run with `MANY` messages."""
    few: tuple[int, ...]
    """And with `FEW`."""


@dataclass(frozen=True, slots=True)
class InstructionComparison:
    """A shape beside its reference."""

    shape: str
    per_message: float
    reference: float | None
    """None: the reference does not have this shape."""

    @property
    def growth(self) -> float:
        """0.05: it costs 5 % more than the reference; 0 without one."""
        return 0.0 if self.reference is None else self.per_message / self.reference - 1

    @property
    def passed(self) -> bool:
        """It costs at most so much more as it may."""
        return self.growth <= MAY_GROW


def find_valgrind() -> str:
    """Its path.

    Raises:
        JMSError: it is not installed; the text says what to do.
    """
    path = shutil.which("valgrind")
    if path is None:
        raise JMSError("valgrind is not installed, and it is what counts: `apt-get install valgrind`, then again")
    return path


def count_shape(
    name: str, cluster: Cluster, *, repeats: int, progress: Callable[[str], None], many: int = MANY, few: int = FEW
) -> InstructionCount:
    """Run the shape's client so often with many and with few messages, in turn."""
    counts: dict[int, list[int]] = {many: [], few: []}
    for number in range(repeats):
        for count, found in counts.items():
            found.append(SHAPES[name](cluster, count))
            progress(f"{name} {number + 1}/{repeats}: {found[-1]:,} instructions for {count:,} messages")
    each = (min(counts[many]) - min(counts[few])) / (many - few)
    return InstructionCount(each, many=tuple(counts[many]), few=tuple(counts[few]))


def compare(counted: Mapping[str, InstructionCount], reference: Mapping[str, Any]) -> list[InstructionComparison]:
    """Each shape beside the saved result of another run."""
    shapes: Mapping[str, Any] = reference["shapes"]
    return [
        InstructionComparison(name, row.per_message, shapes[name]["per_message"] if name in shapes else None)
        for name, row in counted.items()
    ]


def read_result(path: Path) -> Mapping[str, Any]:
    """A result that was saved as JSON.

    Raises:
        JMSError: the file holds none.
    """
    try:
        said: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for row in said["shapes"].values():
            float(row["per_message"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JMSError(f"{path} is not a result of `jbm-kafka bench-instructions --json`: {error!r}") from None
    return said


def total_of(profile: str) -> int:
    """The whole process's instructions, from what callgrind wrote at its end; it is one number for all threads."""
    totals = [int(line.partition(":")[2]) for line in profile.splitlines() if line.startswith("totals:")]
    assert len(totals) == 1, f"callgrind wrote {len(totals)} totals"
    return totals[0]


def _count(name: str, options: Mapping[str, Any], *, at_ready: Callable[[], None] | None = None) -> int:
    """Instructions of one client's process."""
    with tempfile.TemporaryDirectory(prefix="jbm-callgrind-") as folder:
        profile = Path(folder, "profile")
        under = (find_valgrind(), "--tool=callgrind", "--quiet", f"--callgrind-out-file={profile}")
        with MeasuredClient(name, is_bound=True, under=under, **options) as worker:
            if at_ready is not None:
                worker.wait_ready()
                at_ready()
                worker.go_on()
            worker.result()
        return total_of(profile.read_text(encoding="utf-8", errors="replace"))


def _topic(cluster: Cluster) -> str:
    topic = f"jbm-bench-instructions-{secrets.token_hex(4)}"
    create_topic(cluster, topic, partitions=PARTITIONS)
    return topic


def _receive(cluster: Cluster, count: int) -> int:
    topic = _topic(cluster)
    fill(cluster, topic, spread_units(count, units=UNITS), partitions=PARTITIONS, body_bytes=BODY_BYTES)
    options = {"count": count, "is_body_only": True, "namespace": "", "checkpoint_interval_ms": CHECKPOINT_INTERVAL_MS}
    return _count("jbm", {"cluster": cluster, "queue": topic, **options})


def _send(cluster: Cluster, count: int) -> int:
    sizes = {"count": count, "rate": AS_FAST_AS_IT_CAN, "units": UNITS, "body_bytes": BODY_BYTES}
    return _count("send", {"cluster": cluster, "queue": _topic(cluster), "namespace": "", **sizes})


def _held(cluster: Cluster, count: int) -> int:
    topic = _topic(cluster)
    sizes = {"partitions": PARTITIONS, "body_bytes": BODY_BYTES}
    fill(cluster, topic, chain(repeat(HELD_UNIT, HELD_BEHIND + 1)), **sizes)
    options = {"others": count, "delay_ms": HELD_DELAY_MS, "is_held": True, "namespace": ""}
    interval = {"checkpoint_interval_ms": CHECKPOINT_INTERVAL_MS}
    return _count(
        "held",
        {"cluster": cluster, "queue": topic, **options, **interval},
        at_ready=lambda: _fill_others(cluster, topic, count, sizes),
    )


def _fill_others(cluster: Cluster, topic: str, count: int, sizes: Mapping[str, int]) -> None:
    fill(cluster, topic, spread_units(count, units=UNITS), **sizes)


SHAPES: Mapping[str, Callable[[Cluster, int], int]] = {"receive": _receive, "send": _send, "held": _held}
"""An AUTO session receiving a backlog, sends with a callback, and a backlog beside a held unit."""
