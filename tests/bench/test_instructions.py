"""Counting instructions: the arithmetic, the comparison and what is said; what valgrind counts is valgrind's."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from jbm_kafka.bench.instructions import (
    FEW,
    MANY,
    REFERENCE,
    SHAPES,
    InstructionComparison,
    InstructionCount,
    compare,
    count_shape,
    read_result,
    total_of,
)
from jbm_kafka.bench.instructions_command import as_json, print_comparison
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.main import main


def test_the_least_of_the_runs_counts_for_waiting_only_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {100: iter([1_000, 900, 990]), 20: iter([420, 500, 440])}
    monkeypatch.setattr("jbm_kafka.bench.instructions.SHAPES", {"any": lambda _, count: next(runs[count])})
    told: list[str] = []
    counted = count_shape("any", Cluster("a broker:1"), repeats=3, progress=told.append, many=100, few=20)
    assert counted == InstructionCount(6.0, many=(1_000, 900, 990), few=(420, 500, 440))
    assert told[0] == "any 1/3: 1,000 instructions for 100 messages"
    assert len(told) == 6


def test_what_callgrind_wrote_is_one_total() -> None:
    assert total_of("events: Ir\nfn=(0)\n0 3\n\ntotals: 2164135339\n") == 2_164_135_339


@pytest.mark.parametrize(("now", "passed"), [(90.0, True), (104.9, True), (105.1, False)])
def test_a_shape_may_cost_a_twentieth_more_than_its_reference(now: float, passed: bool) -> None:
    counted = {"receive": InstructionCount(now, many=(), few=())}
    (row,) = compare(counted, {"shapes": {"receive": {"per_message": 100.0}}})
    assert row.passed is passed
    console = Console(width=120, file=io.StringIO(), record=True)
    print_comparison([row], "12ec90b", console)
    assert ("met" if passed else "missed") in console.export_text()


def test_a_shape_that_the_reference_does_not_have_is_told_and_passes() -> None:
    (row,) = compare({"new": InstructionCount(7.0, many=(), few=())}, {"shapes": {}})
    assert row == InstructionComparison("new", 7.0, None)
    console = Console(width=120, file=io.StringIO(), record=True)
    print_comparison([row], "12ec90b", console)
    assert "not counted there" in console.export_text()


def test_the_committed_reference_can_be_compared_with() -> None:
    assert {"receive", "send"} <= read_result(REFERENCE)["shapes"].keys() <= SHAPES.keys()


def test_a_result_can_be_compared_with_later(tmp_path: Path) -> None:
    counted = {"receive": InstructionCount(100.0, many=(9,), few=(1,))}
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(as_json(counted, kafka="4.3.1")))
    assert compare(counted, read_result(saved)) == [InstructionComparison("receive", 100.0, 100.0)]


def test_a_file_that_is_not_a_result_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"shapes": []}')
    assert main(["bench-instructions", "--against", str(other)]) == 1
    said = capsys.readouterr().err
    assert "other.json is not a result of `jbm-kafka bench-instructions --json`" in said
    assert said.count("\n") == 1


def test_a_machine_without_valgrind_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["bench-instructions"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("jbm-kafka: valgrind is not installed, and it is what counts: `apt-get install valgrind`")
    assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(SHAPES))
def test_each_shape_is_counted_by_the_real_valgrind(bootstrap: str, shape: str) -> None:
    counted = count_shape(shape, Cluster(bootstrap), repeats=1, progress=lambda _: None, many=400, few=100)
    assert min(counted.many + counted.few) > 1_000_000
    assert MANY > FEW
