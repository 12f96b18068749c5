"""How long others wait for a handler: who joins beside it, and who takes over from a process that died beside it.

`python -m tests.chaos.drain_times` prints it for handlers of several lengths, on a local Kafka of its own. Session
timeout 2 s; each process has a CLIENT session with one message of each of its partitions in hand.
"""

import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_puppet import Puppet
from tests.support.chaos_topics import group_members, send_to_each
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

PARTITIONS = 6
SESSION_TIMEOUT_MS = 2_000
SOON_S = 60.0
CHECKPOINT_S = 1.0
"""After it no checkpoint is under way: one that a kill cuts off holds its successor up until Kafka ends it (10 s)."""
HANDLERS_S = (0.0, 2.0, 5.0, 10.0)


class Scene:
    """A queue of its own and the processes on it."""

    def __init__(self, bootstrap: str, folder: Path, queue: str, started: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._queue = create_topic(bootstrap, queue, partitions=PARTITIONS)
        self._started = started

    def process(self, name: str) -> Puppet:
        """Started; gone at the end of the scene."""
        made = Puppet(self._bootstrap, self._folder / self._queue, name, session_timeout_ms=SESSION_TIMEOUT_MS)
        self._started.callback(made.end_anyhow)
        made.wait_ready()
        return made

    def begin_open(self, process: Puppet) -> None:
        """Begin to make its consumer."""
        process.tell("open", "s", "CLIENT", self._queue)

    def open(self, *processes: Puppet) -> None:
        """Their consumers share the partitions."""
        for each in processes:
            self.begin_open(each)
            each.answer()
        share = [PARTITIONS // len(processes)] * len(processes)
        wait_until(lambda: list(self._members().values()) == share, about="all of the group", timeout_s=SOON_S)

    def send(self) -> None:
        """A message into each partition."""
        send_to_each(self._bootstrap, self._queue, "a message", partitions=PARTITIONS)

    def _members(self) -> dict[str, int]:
        return dict(group_members(self._bootstrap, self._queue))


def join_s(scene: Scene, handler_s: float) -> float:
    """From making a second consumer, when the first one's handler begins, to its first message."""
    busy, joining = scene.process("busy"), scene.process("joining")
    scene.open(busy)
    hold(scene, busy)
    begin = time.monotonic()
    scene.begin_open(joining)
    threading.Event().wait(handler_s)
    busy.ask("acknowledge", "s", PARTITIONS - 1)
    joining.answer()
    scene.send()
    wait_received(joining)
    return time.monotonic() - begin


def takeover_s(scene: Scene, handler_s: float, *, drains: bool) -> float:
    """From the kill of one of two processes, when the other's handler begins, to the first message that it held.

    `drains`: a third has just joined, and its rebalance waits for that handler.
    """
    busy, dying, joining = (scene.process(name) for name in ("busy", "dying", "joining"))
    scene.open(busy, dying)
    hold(scene, busy, dying)
    if drains:
        scene.begin_open(joining)
        wait_until(lambda: busy.ask("is_draining", "s"), about="a drain", timeout_s=SOON_S)
    begin = time.monotonic()
    dying.kill()
    if not drains:
        wait_received(busy)
        return time.monotonic() - begin
    threading.Event().wait(handler_s)
    busy.ask("acknowledge", "s", PARTITIONS // 2 - 1)
    joining.answer()
    wait_received(busy, joining)
    return time.monotonic() - begin


def hold(scene: Scene, *processes: Puppet) -> None:
    """A message of each partition is in hand."""
    scene.send()
    for each in processes:
        for _ in range(PARTITIONS // len(processes)):
            assert each.ask("receive", "s", SOON_S) is not None
    threading.Event().wait(CHECKPOINT_S)


def wait_received(*processes: Puppet) -> None:
    """Return when one of them gets a message."""
    wait_until(lambda: any(each.ask("receive", "s", 0.05) for each in processes), about="a message", timeout_s=SOON_S)


def main() -> None:
    """Measure each, one after the other."""
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder) / "broker") as broker:

        def scene(name: str, started: ExitStack) -> Scene:
            return Scene(broker.bootstrap, Path(folder), name, started)

        with ExitStack() as started:
            join_s(scene("warm-up", started), 0.0)
        for handler_s in HANDLERS_S:
            with ExitStack() as started:
                joined_s = join_s(scene(f"join-{handler_s:g}", started), handler_s)
            with ExitStack() as started:
                beside_s = takeover_s(scene(f"takeover-{handler_s:g}", started), handler_s, drains=False)
            with ExitStack() as started:
                drained_s = takeover_s(scene(f"drain-{handler_s:g}", started), handler_s, drains=True)
            print(
                f"handler of {handler_s:>2g} s: first message of who joins after {joined_s:.1f} s; takeover from a dead"
                f" process after {beside_s:.1f} s, while a join waits for the handler after {drained_s:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
