"""Walks through what a version needs before people publish it, and tells what is left for them: `make release-check`.

Nothing is published or tagged. It looks at the tree, its history, what is built of it, and a bare environment with it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.metadata import Metadata
from trove_classifiers import classifiers, deprecated_classifiers

from tests.dist.conftest import build, environment
from tests.house.sources import ROOT
from tests.support.releases import COMMITS

PEOPLE: Final = (
    "read the changelog once more as a user would, and say that the date in it is the day",
    "see the whole CI green on this very commit, also `make test-slow` and `make upgrade-test`",
    "git tag v{version}, and push it; write the commit into tests/support/releases.py, for the next upgrade-test",
    "publish dist/ where users look for it, and the images of docker/build.sh images",
)


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout, and the last release that its formats must go on with."""

    root: Path
    last: str
    """Its commit; empty: none."""

    @property
    def project(self) -> dict[str, Any]:
        """Returns [project] of pyproject.toml."""
        told: dict[str, Any] = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return told

    @property
    def version(self) -> str:
        """Returns what pyproject.toml says."""
        return str(self.project["version"])

    def git(self, *words: str) -> list[str]:
        """Returns the lines that git prints."""
        done = subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()


def version_told_alike(tree: Tree) -> Iterator[str]:
    """Yields each place that names another version."""
    chart = yaml.safe_load((tree.root / "docker" / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    for name in ("version", "appVersion"):
        if chart[name] != tree.version:
            yield f"docker/chart/Chart.yaml: {name} is {chart[name]}, pyproject.toml has {tree.version}"
    for page in [tree.root / "README.md", *(tree.root / "docs").glob("*.md")]:
        for found in set(re.findall(r"jbm_kafka-(\d[\w.]*?)(?:-py3|\.tar)", page.read_text(encoding="utf-8"))):
            if found != tree.version:
                yield f"{page.relative_to(tree.root)}: it installs {found}, and not {tree.version}"


def changelog_begins_with_it(tree: Tree) -> Iterator[str]:
    """Yields what is wrong with the first heading of the changelog."""
    found = re.search(r"^## (.*)$", (tree.root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = found[1] if found else ""
    version, _, day = told.partition(", ")
    if version != tree.version:
        name = (
            "write there the new version and its date, and the version into pyproject.toml and docker/chart/Chart.yaml"
        )
        yield f"CHANGELOG.md begins with {told!r}, and not with {tree.version}: {name}"
        return
    try:
        said = date.fromisoformat(day)
    except ValueError:
        yield f"CHANGELOG.md: {day!r} is no date, as in 2026-01-31"
        return
    if said > datetime.now(UTC).date():
        yield f"CHANGELOG.md: {day} is still to come"


def tag_is_free(tree: Tree) -> Iterator[str]:
    """Yields a tag that is there, and files that are in no commit."""
    for tag in tree.git("tag", "--list", tree.version, f"v{tree.version}"):
        yield f"the tag {tag} is there already: another version"
    for line in tree.git("status", "--porcelain", "--untracked-files=no"):
        yield f"not committed: {line[3:]}"


def metadata_is_known(tree: Tree) -> Iterator[str]:
    """Yields classifiers that no registry knows, and files of licences that are missing."""
    for each in tree.project["classifiers"]:
        if each not in classifiers or each in deprecated_classifiers:
            yield f"pyproject.toml: there is no classifier {each!r}"
    for name in tree.project["license-files"]:
        if not (tree.root / name).is_file():
            yield f"pyproject.toml: there is no file {name}"


def released_schemas_stay(tree: Tree) -> Iterator[str]:
    """Yields schemas of released versions that were changed or removed since the last release."""
    if tree.last:
        changed = ("diff", "--name-only", "--diff-filter=MDR", "--no-renames", tree.last, "--", "schemas/released")
        for name in tree.git(*changed):
            yield f"{name}: it was released, and is not what it was"


def links_lead_somewhere(tree: Tree) -> Iterator[str]:
    """Yields what the tests of links complain of."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/docs/test_links.py"]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout.strip()


def built_and_installed(tree: Tree) -> Iterator[str]:
    """Builds wheel and sdist, reads what they say of themselves, and installs the wheel alone; yields what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(Path(folder) / "dist", {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": ""})
        yield from wrong_in(built.wheel, tree.version)
        made = environment(Path(folder) / "bare")
        made.install(built.wheel)
        for command, expected in [
            (("jbm-kafka", "--version"), f"jbm-kafka {tree.version}"),
            (("python", "-c", "import jbm_kafka; print(jbm_kafka.__version__)"), tree.version),
        ]:
            done = made.run(*command)
            if done.stdout.strip() != expected:
                yield f"installed alone, {' '.join(command)!r} says {done.stdout + done.stderr!r}"


def wrong_in(wheel: Path, version: str) -> Iterator[str]:
    """Yields what a registry would refuse of a wheel, and what would be missing in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [own] = [name for name in names if name.endswith(".dist-info/METADATA")]
        told = Metadata.from_email(archive.read(own), validate=True)  # raises what is wrong, all of it at once
    if str(told.version) != version:
        yield f"{wheel.name}: its metadata says {told.version}"
    if not (told.description or "").strip() or told.description_content_type != "text/markdown":
        yield f"{wheel.name}: it has no description in Markdown"
    for license_file in told.license_files or ["any licence"]:
        if not any(name.endswith(f".dist-info/licenses/{license_file}") for name in names):
            yield f"{wheel.name}: {license_file} is not in it"
    vendored = {name.rpartition("/")[2] for name in names if "/console/static/vendor/" in name}
    for script in ("htmx.min.js", "uPlot.iife.min.js"):
        if not {script, f"{script.partition('.')[0]}.LICENSE"} <= vendored:
            yield f"{wheel.name}: {script} is not in it, or its licence; make console-scripts fetches both"


STEPS: Final[dict[str, Callable[[Tree], Iterator[str]]]] = {
    "one version everywhere": version_told_alike,
    "the changelog begins with it, and a date": changelog_begins_with_it,
    "the tag is free, and all is committed": tag_is_free,
    "classifiers and licences": metadata_is_known,
    "schemas of released versions are what they were": released_schemas_stay,
    "links of the pages": links_lead_somewhere,
    "built, read as a registry does, installed and imported alone": built_and_installed,
}


def left_for_people(tree: Tree) -> list[str]:
    """Returns what no script may decide."""
    told = [line.format(version=tree.version) for line in PEOPLE]
    if not tree.project.get("urls"):
        told.insert(0, "[project.urls] of pyproject.toml is empty: say where the project lives, or publish without")
    return told


def main() -> int:
    """Prints each step, and what is wrong; returns 1 if anything is."""
    tree = Tree(ROOT, list(COMMITS.values())[-1])
    is_good = True
    for name, step in STEPS.items():
        wrong = list(step(tree))
        is_good = is_good and not wrong
        print(f"{'NO ' if wrong else 'ok '} {name}", *(f"      {line}" for line in wrong), sep="\n", flush=True)
    print("\nLeft for people:", *(f"  - {line}" for line in left_for_people(tree)), sep="\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
