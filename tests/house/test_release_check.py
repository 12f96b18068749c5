"""Each step of `make release-check` tells what is wrong with a tree that is not ready, and nothing of one that is."""

from __future__ import annotations

import subprocess
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.house.release_check import STEPS, Tree, built_and_installed, left_for_people, wrong_in
from tests.house.sources import ROOT

PROJECT = """[project]
version = "1.2.0"
license-files = ["LICENSE"]
classifiers = ["Typing :: Typed"]
"""
STEPS_OF_A_TREE = list(STEPS)[:5]


@pytest.fixture
def ready(tmp_path: Path) -> Tree:
    """A small tree in which everything is as it should be."""
    for name, text in {
        "pyproject.toml": PROJECT,
        "LICENSE": "free\n",
        "README.md": "pip install jbm_kafka-1.2.0-py3-none-any.whl\n",
        "CHANGELOG.md": f"# Changelog\n\n## 1.2.0, {datetime.now(UTC).date()}\n\n## 1.1.0, 2020-01-01\n",
        "docs/install.md": "pip install jbm_kafka-1.2.0.tar.gz\n",
        "docker/chart/Chart.yaml": 'version: 1.2.0\nappVersion: "1.2.0"\n',
        "schemas/released/Held.1.avsc": "{}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    commit(tmp_path)
    return Tree(tmp_path, "HEAD")


def commit(folder: Path) -> None:
    own = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    subprocess.run(["git", *own, "commit", "--quiet", "--allow-empty", "--message", "x"], cwd=folder, check=True)


def complaints(tree: Tree) -> list[str]:
    return [line for name in STEPS_OF_A_TREE for line in STEPS[name](tree)]


def test_of_a_tree_that_is_ready_nothing_is_told_but_what_people_do(ready: Tree) -> None:
    assert complaints(ready) == []
    assert "[project.urls]" in left_for_people(ready)[0]
    assert any("git tag v1.2.0" in line for line in left_for_people(ready))


TOMORROW = str(datetime.now(UTC).date() + timedelta(days=2))


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("docs/install.md", "pip install jbm_kafka-1.1.0.tar.gz", "docs/install.md: it installs 1.1.0, and not 1.2.0"),
        ("docker/chart/Chart.yaml", "version: 1.2.0\nappVersion: '1'", "Chart.yaml: appVersion is 1, pyproject.toml"),
        ("CHANGELOG.md", "## 1.1.0, 2020-01-01", "CHANGELOG.md begins with '1.1.0, 2020-01-01'"),
        ("CHANGELOG.md", "## 1.2.0, unreleased", "'unreleased' is no date"),
        ("CHANGELOG.md", f"## 1.2.0, {TOMORROW}", "is still to come"),
        ("pyproject.toml", PROJECT.replace("Typing :: Typed", "Typing :: Typd"), "no classifier 'Typing :: Typd'"),
        ("pyproject.toml", PROJECT.replace("LICENSE", "COPYING"), "there is no file COPYING"),
        ("schemas/released/Held.1.avsc", '{"a": 1}', "schemas/released/Held.1.avsc: it was released"),
    ],
)
def test_what_is_wrong_is_one_line(ready: Tree, file: str, text: str, told: str) -> None:
    released = Tree(ready.root, ready.git("rev-parse", "HEAD")[0])
    (ready.root / file).write_text(text)
    commit(ready.root)
    [line] = complaints(released)
    assert told in line


def test_a_tag_that_is_there_and_what_is_not_committed_are_told(ready: Tree) -> None:
    ready.git("tag", "v1.2.0")
    (ready.root / "LICENSE").write_text("not free\n")
    assert complaints(ready) == ["the tag v1.2.0 is there already: another version", "not committed: LICENSE"]


def test_a_wheel_without_its_licences_is_told(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        told = "Metadata-Version: 2.4\nName: jbm-kafka\nVersion: 1.1.0\nLicense-File: LICENSE\n"
        archive.writestr("jbm_kafka-1.1.0.dist-info/METADATA", told)
        archive.writestr("jbm_kafka/console/static/vendor/htmx.min.js", "")
    assert [line.removeprefix("x.whl: ").partition(";")[0] for line in wrong_in(wheel, "1.2.0")] == [
        "its metadata says 1.1.0",
        "it has no description in Markdown",
        "LICENSE is not in it",
        "htmx.min.js is not in it, or its licence",
        "uPlot.iife.min.js is not in it, or its licence",
    ]


@pytest.mark.slow  # tests/dist/test_wheel.py builds and installs it, too
def test_this_tree_can_be_built_and_installed_alone() -> None:
    tree = Tree(ROOT, "")
    assert [line for line in built_and_installed(tree) if "console-scripts" not in line] == []
