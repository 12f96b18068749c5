"""Debian's browser, which looks at pages that tests have made."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER_S = 120.0


def find_browser() -> str:
    """Debian's; `make setup` installs it where it may."""
    found = shutil.which("chromium")
    if found is None and not os.environ.get("CI"):
        pytest.skip("there is no chromium: `make setup` as root installs it")
    assert found is not None, "there is no chromium: `make setup` as root installs it"
    return found


def browse(browser: str, html: Path, folder: Path, *what: str) -> bytes:
    """What the browser prints of a page. It has a profile of its own and asks nobody for anything."""
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--force-color-profile=srgb", f"--user-data-dir={folder / 'profile'}", *what, html.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=BROWSER_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
