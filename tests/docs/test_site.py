"""The site (`make docs`) is built without a warning, and has what readers look for."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import ConnectionFactory, Queue, Worker
from tests.house.sources import ROOT
from tests.support.waiting import wait_until


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning_and_has_every_page_and_the_names_of_python(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.with_suffix(".html").name for page in (ROOT / "docs").glob("*.md")} - {"README.html"}
    assert pages | {"index.html", "first-message.html"} <= {page.name for page in tmp_path.glob("*.html")}
    names = (tmp_path / "api.html").read_text() + (tmp_path / "api-admin.html").read_text()
    assert "functions that an application gives" in names
    for name in ("jms.consumer.MessageConsumer.receive", "core.jms_errors.SendTimeoutError", "admin.admin.Admin.move"):
        assert f'id="jbm_kafka.{name}"' in names
    first = (tmp_path / "index.html").read_text()
    assert "first-message.html" in first
    assert first.index('class="mermaid"') < first.index("worker.handler"), "a picture, then a Worker"
    assert 'data-md-color-scheme="slate"' in first
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert "deploying.html#machines-with-systemd" in {each["location"] for each in found if "systemd" in each["text"]}


def test_the_list_of_pages_has_each_once() -> None:
    """Merges of branches that each added a page have left three lists, and pages in none."""
    told = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"[\w-]+\.md", told)
    made = {"first-message.md", "api.md", "api-admin.md", "amqp-limits.md", "changelog.md", "proofs.md"}
    assert sorted(listed) == sorted({path.name for path in (ROOT / "docs").glob("*.md")} | made)


def test_the_worker_of_the_first_page_ships(capsys: pytest.CaptureFixture[str]) -> None:
    """In memory: the program itself goes on until it is told to stop."""
    [code] = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(code.replace("localhost:9092", "memory://first-page"), names)
    worker: Worker = names["worker"]
    worker.start()
    try:
        with ConnectionFactory("memory://first-page").create_sender() as sender:
            sender.send(Queue("orders"), "2 books")
        wait_until(lambda: capsys.readouterr().out == "ships 2 books\n", about="the order is shipped", timeout_s=60)
    finally:
        worker.stop()
