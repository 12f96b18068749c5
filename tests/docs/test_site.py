"""The site (`make docs`) is built without a warning, and has what readers look for."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning_and_has_every_page_and_the_names_of_python(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.with_suffix(".html").name for page in (ROOT / "docs").glob("*.md")} - {"README.html"}
    assert pages | {"index.html", "first-message.html"} <= {page.name for page in tmp_path.glob("*.html")}
    names = (tmp_path / "python-names.html").read_text()
    assert 'id="jbm_kafka.jms.consumer.MessageConsumer.receive"' in names
    assert "first-message.html" in (tmp_path / "index.html").read_text()
