"""A tiny benchmark from end to end. It proves that every part runs and is told, nothing about speed."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from jbm_kafka.bench.bench_report import as_json, command_line, print_tables
from jbm_kafka.bench.measured_client import measure
from jbm_kafka.bench.numbers import Judgement, counted_rows, summary
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.shape_result import ShapeResult
from jbm_kafka.bench.shapes import SHAPES
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.main import main

TINY = Plan(
    repeats=1, warm_ups=1, partitions=3, units=20, backlog_messages=3_000, latency_s=0.2, latency_warm_up_s=0.1,
    sends=50, sends_beside_flood=20, sends_with_callback=500, forward_commits=8, bridged=3_000, handled=200,
    held_behind=500, held_others=2_000, subscriptions=(1, 3), subscribed_copies=300, quiet_patience_s=0,
    waiting_kinds=("unchosen",), waiting_unchosen=300, waiting_others=500,
)  # fmt: skip


LONG = {"backlog", "forward", "handlers", "held", "latency", "subscriptions", "waiting"}
"""Played by `make test-slow`."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SHAPES]
)
def test_a_shape_measures_every_client_and_judges_its_targets(bootstrap: str, name: str) -> None:
    told: list[str] = []
    result = SHAPES[name](Cluster(bootstrap), replace(TINY, warm_ups=0), told.append)
    clients = {
        "backlog": {"raw", "share", "share-body", "jbm", "body", "bound", "client", "dups-ok", "pre", "selector"},
        "latency": {"jbm", "raw"},
        "send": {"flush-raw", "one-by-one", "beside-flood", "callback-raw", "callback", "groups"},
        "forward": {
            *("raw-1", "tuned-1", "jbm-1", "xa-1", "raw-100", "tuned-100", "jbm-100"),
            *("32", "jbm-1-wide", "32-wide"),
        },
        "bridge": {"bridge", "store", "store-fsync"},
        "handlers": {"pool-1", "threads-1", "pool-10", "threads-10", "coroutines-10", "burn-1", "burn-2"},
        "held": {"free", "held"},
        "subscriptions": {"1 subscriptions", "3 subscriptions"},
        "waiting": {"unchosen, waiting", "unchosen, without"},
    }[name]
    assert {row["client"] for row in result.raw} == clients
    assert all(row.median > 0 for row in result.rows.values())
    assert {row.count for row in result.rows.values()} == {TINY.repeats * {"held": 4, "waiting": 2}.get(name, 1)}
    assert len(result.judgements) == {
        "backlog": 4,
        "latency": 4,
        "send": 2,
        "forward": 6,
        "bridge": 2,
        "handlers": 4,
        "held": 1,
        "waiting": 3,
    }.get(name, 0)
    assert told


@pytest.mark.thorough
def test_messages_that_came_back_wait_while_others_are_received(bootstrap: str) -> None:
    plan = replace(TINY, warm_ups=0, waiting_kinds=("returned",), waiting_returned=300)
    result = SHAPES["waiting"](Cluster(bootstrap), plan, lambda _: None)
    assert {row["client"] for row in result.raw} == {"returned, waiting", "returned, without"}
    assert len(result.judgements) == 3


def test_a_warm_up_is_told_and_does_not_count() -> None:
    rows = [{"repeat": number} for number in TINY.turns]
    assert [row["repeat"] for row in rows] == [-1, 0]
    assert counted_rows(rows) == [{"repeat": 0}]
    assert [TINY.turn_name(row["repeat"]) for row in rows] == ["warm-up", "1/1"]


@pytest.mark.thorough
def test_latencies_leave_out_the_warm_up(bootstrap: str) -> None:
    result = SHAPES["latency"](Cluster(bootstrap), replace(TINY, warm_ups=0, latency_rates=(1_000,)), lambda _: None)
    assert [len(row["latencies_ms"]) for row in counted_rows(result.raw)] == [1_000 * TINY.latency_s] * 2


def test_the_report_has_what_it_takes_to_judge_a_run() -> None:
    judgement = Judgement("c/b", 0.4, "at least", 0.5)
    result = ShapeResult(
        name="backlog", rows={"(c) jbm, msg/s": summary([1, 2, 9])}, judgements=[judgement], raw=[{"seconds": 1.5}]
    )
    said = json.loads(json.dumps(as_json([result], TINY, kafka="4.3.1", is_own_broker=True)))
    about = {"measured_at", "command", "git_commit", "machine", "versions", "compiled_modules", "kafka"}
    assert said.keys() == about | {"plan", "shapes"}
    assert said["plan"] == json.loads(json.dumps(asdict(TINY)))
    assert said["shapes"]["backlog"]["raw"] == [{"seconds": 1.5}]
    assert said["shapes"]["backlog"]["judgements"][0]["passed"] is False
    assert said["versions"]["confluent-kafka"]


def test_what_is_written_of_the_command_has_no_value_of_a_property() -> None:
    """The file with the figures is sent around."""
    given = [
        "/bin/x",
        "bench",
        "--kafka-property",
        "sasl.password=se=cret",
        "--quick",
        "--kafka-property=ssl.key=secret",
    ]
    assert (
        command_line(given) == "jbm-kafka bench --kafka-property sasl.password=... --quick --kafka-property=ssl.key=..."
    )


def test_the_table_says_whether_a_target_was_met() -> None:
    def printed(value: float) -> str:
        result = ShapeResult("backlog", {"x": summary([1])}, [Judgement("c/b", value, "at least", 0.5)], [])
        console = Console(width=120, file=io.StringIO(), record=True)
        print_tables([result], console)
        return console.export_text()

    assert "missed" in printed(0.4)
    assert "met" in printed(0.6)


def test_a_client_that_fails_ends_the_run_with_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="client 'raw' ended with code 1"):
        measure("raw", cluster=Cluster("127.0.0.1:1"), no_such="option")
    assert "no_such" in capfd.readouterr().err


@pytest.mark.thorough
def test_the_command_writes_json_and_check_fails_on_a_missed_target(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missed(cluster: Cluster, plan: Plan, _: object) -> ShapeResult:
        assert (cluster.bootstrap, plan.repeats) == (bootstrap, 3)
        return ShapeResult("backlog", {"x": summary([1])}, [Judgement("c/b", 0.1, "at least", 0.5)], [])

    monkeypatch.setattr("jbm_kafka.bench.bench_command.SHAPES", {"backlog": missed})
    path = tmp_path / "bench.json"
    arguments = ["bench", "--bootstrap", bootstrap, "--repeats", "3", "--json", str(path)]
    assert main(arguments) == 0
    assert json.loads(path.read_text())["kafka"]["is_own_broker"] is False
    assert main([*arguments, "--check"]) == 1
    assert main([*arguments, "--shape", "nonsense"]) == 2


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Minutes later, it was."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "bench.json"
    assert main(["bench", "--bootstrap", "127.0.0.1:1", "--json", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"jbm-kafka: --json {path}: there is no folder {path.parent}; make it, or name another file\n"
    )


def test_a_folder_that_is_not_there_is_not_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A misspelt path was made, whole."""
    path = tmp_path / "misspelt" / "bench.json"
    assert main(["bench", "--bootstrap", "127.0.0.1:1", "--json", str(path)]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert not path.parent.exists()


def test_an_address_where_no_kafka_answers_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", "--bootstrap", "127.0.0.1:1", "--json", str(tmp_path / "bench.json")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("jbm-kafka: no Kafka answers at 127.0.0.1:1; leave --bootstrap out")
    assert said.count("\n") == 1
