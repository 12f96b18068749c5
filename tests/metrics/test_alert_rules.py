"""The rules of docs/alert-rules.yml: of metrics that there are, each fires, and each names its remedy."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from mkdocs_hooks import github_anchor
from tests.house.sources import ROOT
from tests.metrics.test_collector import faults_of

RULES = ROOT / "docs" / "alert-rules.yml"
SERIES = Path(__file__).with_name("alert_rules_test.yml")


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return found


def test_each_rule_fires_where_it_should_and_alone() -> None:
    """By Prometheus' own tool, over made-up series; `make setup` installs it."""
    ran = subprocess.run(["promtool", "test", "rules", SERIES], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tested = {each["name"] for each in yaml.safe_load(SERIES.read_text())["tests"]}
    assert tested == {rule["alert"] for rule in rules()}


def test_rules_are_of_our_metrics() -> None:
    assert {rule["alert"]: faults for rule in rules() if (faults := faults_of(rule["expr"]))} == {}


def test_each_rule_names_a_part_of_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    anchors = {github_anchor(heading, "-") for heading in re.findall(r"^#+ (.+)$", runbook, flags=re.MULTILINE)}
    for rule in rules():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (page, anchor in anchors) == ("docs/runbook.md", True), rule["alert"]
