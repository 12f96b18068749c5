"""Which tests stay in one process when several share the run."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from textwrap import dedent

import pytest

from tests.house.sources import ROOT
from tests.support.kept_together import EXPECTED_S, group_of, is_of_part

pytestmark = pytest.mark.thorough

SHARING_SPARK = ["tests/spark/test_kafka_properties.py", "tests/spark/test_jars.py"]
"""Two files that need neither Spark nor a broker themselves."""


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/jms/test_auto.py::test_a[kafka]", "tests/jms/test_auto.py"),
        ("tests/spark/test_jars.py::test_a", "one Spark"),
        ("tests/spark/test_write_stream.py::test_a", "the Spark that writes"),
        ("tests/spark/test_same_as_codec.py::test_a", "the Spark that writes"),
        ("tests/spark/test_archive_job.py::test_a", "the Spark of jobs"),
        ("tests/spark/test_cluster.py::test_a", "tests/spark/test_cluster.py"),
        ("tests/dist/test_wheel.py::test_a", "builds and installs once"),
        ("tests/security/test_commands.py::test_a", "one secured broker"),
        ("tests/docs/test_pages.py::test_a[docs/x.md]", "tests/docs/test_pages.py::test_a[docs/x.md]"),
    ],
)
def test_what_stays_together(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_each_group_is_in_one_of_the_parts() -> None:
    tests = [f"{name}::test_a" for name in EXPECTED_S if name.endswith(".py")]
    tests += [f"tests/jms/test_{each}.py::test_a" for each in range(90)]
    played = [[test for test in tests if is_of_part(test, f"{number}/3")] for number in (1, 2, 3)]
    assert sorted(test for part in played for test in part) == sorted(tests)
    assert min(map(len, played)) > len(tests) / 5, [len(part) for part in played]


def test_what_is_expected_to_be_long_is_there() -> None:
    files = {name.partition("::")[0] for name in EXPECTED_S if name.startswith("tests/")}
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


def test_a_run_of_two_processes_keeps_together_what_it_should() -> None:
    """Without a word each process had a Spark of its own: xdist's marker changes nothing with pytest 9.2."""
    run = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    told = subprocess.run([*run, *SHARING_SPARK], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    processes = defaultdict(set)
    for process, folder in re.findall(r"\[(gw\d)\].*PASSED tests/(\w+)/", told):
        processes[folder].add(process)
    assert len(processes["spark"]) == 1, told


@pytest.mark.parametrize("processes", ["2", "4"])
def test_a_test_that_kills_its_process_fails_once_and_all_others_run(tmp_path: Path, processes: str) -> None:
    """The run stood still at 98 % for ever: the last test of the process that replaced the dead one never began."""
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "conftest.py").write_text(
        dedent("""
        from tests.support.kept_together import KeptTogether

        def pytest_xdist_make_scheduler(config, log):
            return KeptTogether(config, log)
        """)
    )
    folder = tmp_path / "part"
    folder.mkdir()
    for name in "bcd":
        (folder / f"test_{name}.py").write_text("def test_1(): pass\n\ndef test_2(): pass\n")
    (folder / "test_deadly.py").write_text(
        "import os\n\ndef test_1(): pass\n\ndef test_2(): os.abort()\n\ndef test_3(): pass\n"
    )
    run = [sys.executable, "-m", "pytest", "-n", processes, "--dist", "loadscope", "--no-loadscope-reorder"]
    told = subprocess.run(
        [*run, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    ).stdout
    assert re.search(r"1 failed, 8 passed", told), told
