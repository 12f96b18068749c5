"""What goes to a child process that was spawned, and what does not."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka import SYSTEM_GENERATED, AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, errors
from jbm_kafka.admin import Admin
from jbm_kafka.jms.base.one_process import check_pickled
from jbm_kafka.jms.connection import Connection
from tests.jms.spawned import work_in_child
from tests.jms.support import SOON_S

ORDERS = Queue("orders")


def test_a_factory_could_not_be_given_to_a_spawned_process() -> None:
    factory = ConnectionFactory("memory://spawned", address_settings={"#": AddressSettings(partitions=1)})
    spawning = multiprocessing.get_context("spawn")
    told = spawning.SimpleQueue()
    child = spawning.Process(target=work_in_child, args=(factory, told))
    child.start()
    child.join(SOON_S)
    assert child.exitcode == 0
    assert told.get() == "from the child"


def test_a_factory_is_the_same_behind_a_pickle(tmp_path: Path) -> None:
    factory = ConnectionFactory(
        "localhost:9092", client_id="me", state_dir=tmp_path, kafka={"client.rack": "a"},
        default_unit_of_order=SYSTEM_GENERATED, namespace="n", prefetch=5, auto_create=False,
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(factory))
    assert repr(again) == repr(factory)
    assert (again._installation, again._defaults) == (factory._installation, factory._defaults)
    assert again._defaults.default_unit_of_order is SYSTEM_GENERATED


def test_a_factory_with_a_function_that_cannot_be_pickled_says_which() -> None:
    """As an `oauth_cb` may be, with which no factory is made where nobody gives tokens."""
    with pytest.raises(errors.InvalidSettingError, match=r"^kafka\['oauth_cb'\] is .*: it cannot be pickled; give a"):
        check_pickled("kafka", {"client.rack": "a", "oauth_cb": lambda config: ("token", 0)})


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("Connection", lambda connection: connection),
        ("Session", Connection.create_session),
        ("Transaction", lambda connection: connection.create_session(AcknowledgeMode.TRANSACTED).transaction()),
        ("MessageConsumer", lambda connection: connection.create_session().create_consumer(ORDERS)),
        ("MessageProducer", lambda connection: connection.create_session().create_producer(ORDERS)),
        ("QueueBrowser", lambda connection: connection.create_session().create_browser(ORDERS)),
    ],
)
def test_what_belongs_to_a_process_named_a_lock_of_its_inside(name: str, make: Callable[[Connection], object]) -> None:
    with ConnectionFactory("memory://pickled").create_connection() as connection:
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(errors.IllegalStateError, match=f"^a {name} cannot be pickled or copied: it belongs to"):
                use(make(connection))


def test_a_context_names_itself_too() -> None:
    with ConnectionFactory("memory://pickled").create_context() as jms:
        for each in (jms, jms.create_producer()):
            with pytest.raises(errors.IllegalStateError, match=f"^a {type(each).__name__} cannot be pickled"):
                pickle.dumps(each)


def test_an_admin_and_what_it_shows_named_a_lock_or_a_generator() -> None:
    with Admin("memory://pickled") as admin:
        for each in (admin, admin.browse(ORDERS), admin.dead_letters()):
            for use in (pickle.dumps, copy.copy):
                with pytest.raises(errors.IllegalStateError, match=rf"^an? {type(each).__name__} cannot be pickled or"):
                    use(each)


def in_a_fork(work: Callable[[], int]) -> int:
    """What it returned in a forked child; -SIGALRM when it hung there."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(SOON_S))
        code = 100
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def send_and_receive(factory: ConnectionFactory) -> int:
    """0 if all went well."""
    with factory.create_connection() as connection:
        session = connection.create_session()
        session.create_producer(ORDERS).send("a")
        message = session.create_consumer(ORDERS).receive(SOON_S)
        return 0 if message is not None and message.body == "a" else 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_that_connected_after_its_parent_hung_at_its_close(bootstrap: str) -> None:
    """As the page of processes told people to do."""
    ConnectionFactory(bootstrap).create_connection().close()
    factory = ConnectionFactory(bootstrap)

    def refusals() -> int:
        told = 0
        for make in (factory.create_connection, factory.create_context):
            try:
                make()
            except errors.IllegalStateError as error:
                told += 'use multiprocessing\'s "spawn" or "forkserver"' in str(error)
        return told

    assert in_a_fork(refusals) == 2


def test_a_fork_that_ended_with_sys_exit_died_of_a_signal(bootstrap: str, orders: Queue) -> None:
    """CONN-1: inside a `with` block, with another status, and when what it inherited goes; its parent works on."""
    program = [sys.executable, "-m", "tests.jms.forking", bootstrap, orders.name]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=3 * SOON_S, check=False)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["0", "7", "0"], "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_goes_on_in_memory() -> None:
    factory = ConnectionFactory("memory://forked")
    with factory.create_connection() as connection:
        consumer = connection.create_session().create_consumer(ORDERS)
        assert in_a_fork(lambda: send_and_receive(factory)) == 0
        assert consumer.receive(0) is None, "it is a world of its own"
