"""An operator has a worker's process end in order (decision 122)."""

from __future__ import annotations

import os
import platform
import sys
import threading

import pytest

from jbm_kafka import Message, Queue, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.cli.main import main
from jbm_kafka.core.channel.process_names import host_and_id
from jbm_kafka.errors import IllegalStateError, InvalidSettingError, JMSError
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.worker.process_group import DRAINED, ProcessGroup

ME = f"{platform.node()}/{os.getpid()}"
ORDERS = Queue("orders")


def test_a_worker_finishes_what_it_works_on_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    begun, may_end, done, codes = threading.Event(), threading.Event(), list[object](), list[int]()
    with MemoryWorld() as world:
        worker = Worker(world.factory(), drain_s=30.0)

        @worker.handler(ORDERS)
        def handle(message: Message) -> None:
            begun.set()
            assert may_end.wait(30.0)
            done.append(message.body)

        running = threading.Thread(target=lambda: codes.append(worker.run()))
        running.start()
        with world.factory().create_sender() as sender:
            sender.send(ORDERS, "first")
            assert begun.wait(30.0)
            assert main(["drain", ME, "--bootstrap", world.url]) == 0
            assert "it receives no more" in capsys.readouterr().out
            sender.send(ORDERS, "second")
            may_end.set()
            running.join(30.0)
            assert (codes, done, worker.was_drained) == ([0], ["first"], True)
        with world.factory().create_connection() as connection:
            message = connection.create_session().create_consumer(ORDERS).receive(timeout=10.0)
            assert message is not None
            assert message.body == "second"


def test_what_is_no_worker_that_runs_is_told_how_to_end_it() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin:
        with pytest.raises(InvalidSettingError, match="'process 4711 at worker-3'"):
            admin.drain("the third one")
        with world.factory().create_connection() as connection:
            connection.create_session().create_consumer(ORDERS)
            with pytest.raises(IllegalStateError, match="end it as it was started"):
                admin.drain(f"process {os.getpid()} at {platform.node()}", timeout_s=20.0)
            with pytest.raises(JMSError, match=r"process 1 at elsewhere did not answer within 0\.5 s: it has ended"):
                admin.drain("elsewhere/1", timeout_s=0.5)
            worker = Worker(world.factory())
            worker.handler(ORDERS)(print)
            worker.start()
            with pytest.raises(IllegalStateError, match="end it as it was started"):
                admin.drain(ME, timeout_s=20.0)
            assert worker.stop()


def test_one_of_several_processes_is_not_started_again_and_all_drained_end_the_group() -> None:
    code = f"import sys; sys.exit({DRAINED})"
    group = ProcessGroup([sys.executable, "-c", code], 2, 5.0)
    assert group.run() == 0


@pytest.mark.parametrize(
    ("name", "means"),
    [("process 4711 at worker-3", ("worker-3", 4711)), ("worker-3/4711", ("worker-3", 4711)), ("worker-3", None)],
)
def test_a_process_is_named_as_lists_name_it_or_shorter(name: str, means: tuple[str, int] | None) -> None:
    assert host_and_id(name) == means
