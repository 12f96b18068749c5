"""The Python that the pages show runs, and does what they say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from tests.docs.page import pages_with_python, read_page, run_page
from tests.house.sources import ROOT

PAGES = [
    "docs/coming-from-jms-or-rabbitmq.md",
    "docs/graceful-shutdown.md",
    "docs/messages.md",
    "docs/other-producers.md",
    "docs/processes-and-containers.md",
    "docs/retries-and-dead-letters.md",
    "docs/selectors.md",
    "docs/spark.md",
    "docs/testing.md",
    "docs/tutorial.md",
    "docs/api.md",
    "docs/dead-letters.md",
    "docs/logging.md",
]
"""Run here. A page that shows Python stands in one of the two lists."""

ELSEWHERE = {
    "README.md": "tests/jms/test_readme.py",
    "docs/security.md": "tests/security/test_page.py",
}
"""Pages whose Python something else proves."""


@pytest.mark.parametrize("name", PAGES)
def test_the_python_of_the_page_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = read_page((ROOT / name).read_text())
    assert not page.is_empty, f"{name} shows nothing that can be run"
    bootstrap = None
    if page.needs_broker:
        start: Callable[[], LocalBroker] = request.getfixturevalue("dedicated_broker")
        bootstrap = start().bootstrap
    folder = tmp_path / "page"
    folder.mkdir()
    run_page(page, folder, bootstrap)


def test_no_page_shows_python_that_nothing_runs() -> None:
    assert sorted([*PAGES, *ELSEWHERE]) == sorted(pages_with_python(ROOT))
