"""Fixtures of all tests: one broker a run, names and topics of a test's own, brokers that a test may kill."""

import logging
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

from jbm_kafka import compiled
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.providers import embedded, in_memory
from jbm_kafka.testing.real_broker import wanted_broker
from tests.support.broker import local_broker, open_broker
from tests.support.compiled_files import stale_modules
from tests.support.kept_together import EXPECTED_S, KeptTogether, group_of, is_of_part
from tests.support.secured import SecuredBroker, secured_broker
from tests.support.told_timeouts import pytest_timeout_cancel_timer, pytest_timeout_set_timer  # noqa: F401 - hooks
from tests.support.topics import create_topic, delete_topics_beginning_with
from tests.support.twins import is_slow, is_thorough


def pytest_configure() -> None:
    """Refuses to test what was compiled from an older source; lets Ctrl-C through, which tests send; and lets no
    property fail because the machine is busy, or, in CI, because today's examples are others than yesterday's.

    A shell without job control starts what is in its background with Ctrl-C ignored, and every process inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("steady")
    stale = stale_modules()
    if stale and not compiled.are_left_aside():
        raise pytest.UsageError(f"{', '.join(stale)}: compiled before the source was changed; run `make setup`")


@pytest.hookimpl(tryfirst=True)  # before those that `-m` leaves out are taken away
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest first; what has a twin in memory is marked; of the thorough ones JBM_THOROUGH_PART=2/3 is a part."""
    for item in items:
        if is_thorough(item):
            item.add_marker(pytest.mark.slow if is_slow(item) else pytest.mark.thorough)
    items.sort(key=lambda item: -EXPECTED_S.get(group_of(item.nodeid), 0))
    if part := os.environ.get("JBM_THOROUGH_PART"):
        others = {item for item in items if item.get_closest_marker("thorough") and not is_of_part(item.nodeid, part)}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> KeptTogether | None:
    """With `--dist loadscope`, which process gets which tests."""
    return KeptTogether(config, log) if config.getvalue("dist") == "loadscope" else None


class MakeTopic(Protocol):
    """Creates a Kafka topic whose name begins with this test's `kafka_name`."""

    def __call__(self, suffix: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str: ...


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of the broker that all tests of this run share. Nobody may stop it: see `dedicated_broker`."""
    with open_broker(wanted_broker(), tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker that wants TLS and users, shared by the tests of this run that ask for it."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(shared_broker: str) -> str:
    """Where tests connect to."""
    return shared_broker


@pytest.fixture(autouse=True)
def no_connection_is_left_open() -> Iterator[None]:
    """Whoever connects next would share its sidecar, and with it settings that are not its own."""
    before = embedded.sidecars.keys() | in_memory.worlds()
    yield
    left = (embedded.sidecars.keys() | in_memory.worlds()) - before
    assert not left, f"the test left a connection open: {left}"


@pytest.fixture(autouse=True)
def the_log_is_left_as_it_was() -> Iterator[None]:
    """Later tests of the process would find lines that they do not expect."""
    logger = logging.getLogger("jbm_kafka")
    before = logger.level, list(logger.handlers)
    yield
    left = logger.level, list(logger.handlers)
    logger.handlers[:] = before[1]
    logger.setLevel(before[0])
    assert left == before, "the test left the logger jbm_kafka with another level or other handlers"


@pytest.fixture
def kafka_name() -> str:
    """A name no other test has, for topics, groups and queues; add to its end where a test needs several."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(bootstrap: str, kafka_name: str) -> Iterator[MakeTopic]:
    """Creates topics for this test; at its end every topic that begins with its name goes."""

    def make(suffix: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        return create_topic(bootstrap, kafka_name + suffix, partitions=partitions, config=config)

    yield make
    delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture
def dedicated_broker(tmp_path: Path) -> Iterator[Callable[[], LocalBroker]]:
    """Starts a local broker that the test has for itself and may kill, pause, stop and start again."""
    with ExitStack() as brokers:
        count = 0

        def start() -> LocalBroker:
            nonlocal count
            count += 1
            return brokers.enter_context(local_broker(tmp_path / f"broker-{count}"))

        yield start
