"""The Python that the pages show runs, and does what they say."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.devbroker import LocalBroker
from tests.docs.page import BROKER, File, Program, pages_with_python, read_page, run_page, unseen_names
from tests.house.sources import ROOT
from tests.support.broker import local_broker
from tests.support.topics import empty_cluster

PAGES = [
    "README.md",
    "docs/asyncio.md",
    "docs/backup-and-moving.md",
    "docs/configuration.md",
    "docs/console.md",
    "docs/core-interfaces.md",
    "docs/graceful-shutdown.md",
    "docs/handlers.md",
    "docs/handler-limits.md",
    "docs/large-bodies.md",
    "docs/messages.md",
    "docs/metrics.md",
    "docs/recipes.md",
    "docs/retries-and-dead-letters.md",
    "docs/same-application.md",
    "docs/schedules.md",
    "docs/selectors.md",
    "docs/settings.md",
    "docs/store-and-forward.md",
    "docs/xa.md",
    "docs/spark.md",
    "docs/spark-audit.md",
    "docs/spark-format.md",
    "docs/spark-archive.md",
    "docs/spark-load.md",
    "docs/spark-events.md",
    "docs/spark-cluster.md",
    "docs/subscriptions.md",
    "docs/tasks.md",
    "docs/testing.md",
    "docs/tutorial.md",
    "docs/acknowledging.md",
    "docs/administration.md",
    "docs/sending-and-receiving.md",
    "docs/console-messages.md",
    "docs/dead-letters.md",
    "docs/logging.md",
    "docs/operating.md",
    "docs/outbox-and-inbox.md",
    "docs/bridge.md",
]
"""Run here. A page that shows Python stands in one of the two lists."""

IN_SHORT = {
    *("README.md", "docs/messages.md", "docs/recipes.md", "docs/retries-and-dead-letters.md", "docs/testing.md"),
    "docs/tutorial.md",
}
"""Of them those that `make test` runs."""

ELSEWHERE = {
    "docs/README.md": "tests/docs/test_site.py",
    "docs/amqp.md": "tests/amqp/test_amqp_page.py",
    "docs/deploying.md": "tests/docs/test_kubernetes_page.py",
    "docs/schema-registry.md": "tests/jms/test_schema_registry.py",
    "docs/security.md": "tests/security/test_page.py",
}
"""Pages whose Python something else proves."""


@pytest.fixture(scope="module")
def pages_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The pages' own; each leaves it as it was."""
    with local_broker(tmp_path_factory.mktemp("pages")) as broker:
        yield broker


@pytest.fixture
def empty_broker(pages_broker: LocalBroker) -> Iterator[str]:
    """`host:port` of a broker without any topic, as a reader has one who begins with that page."""
    yield pages_broker.bootstrap
    empty_cluster(pages_broker.bootstrap)


@pytest.mark.timeout(1500)  # Spark starts four times on its page
@pytest.mark.parametrize(
    "name", [name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.thorough) for name in PAGES]
)
def test_the_python_of_the_page_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = read_page((ROOT / name).read_text())
    assert page.steps, f"{name} shows nothing that can be run"
    run_page(page, tmp_path, request.getfixturevalue("empty_broker") if page.needs_broker else None)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_who_tries_the_first_program_on_the_tutorials_broker_sees_what_the_tutorial_says(
    empty_broker: str, tmp_path: Path
) -> None:
    """It left a dead letter there, and had used the tutorial's queue: "1 would be sent" were 2."""
    first = (ROOT / "README.md").read_text().replace("memory://shop", BROKER)
    for name, text in (("first", first), ("tutorial", (ROOT / "docs/tutorial.md").read_text())):
        (folder := tmp_path / name).mkdir()
        run_page(read_page(text), folder, empty_broker)
    with Admin(empty_broker) as admin:
        assert [admin.counts(each).held for each in admin.destinations()] == [0, 0, 0, 0]


@pytest.mark.parametrize("name", [*PAGES, *ELSEWHERE])
def test_a_reader_who_copies_a_block_has_all_that_it_uses(name: str) -> None:
    """What a block uses it makes or imports itself, or its first line says what it continues."""
    page = read_page((ROOT / name).read_text())
    programs = [step for step in page.steps if isinstance(step, Program | File)]
    found = [unseen_names(program) for program in [*programs, *page.not_run]]
    assert not any(found), "\n".join([f"{name}, line by line of the page:", *found])


def test_no_page_shows_python_that_nothing_runs() -> None:
    assert sorted([*PAGES, *ELSEWHERE]) == sorted(pages_with_python(ROOT))
