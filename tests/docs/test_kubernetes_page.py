"""docs/deploying.md, of Kubernetes: its manifest is one, its probes are answered, and its command ends in time."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.devbroker.ports import free_port
from tests.house.sources import ROOT
from tests.support.waiting import wait_until

PAGE = (ROOT / "docs/deploying.md").read_text().partition("\n## Kubernetes, with a manifest of your own\n")[2]
VERSION = "1.30"


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_manifest_is_one_of_kubernetes() -> None:
    """And gives the worker longer to end than it takes."""
    manifest = yaml.safe_load(block("yaml"))
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    pod = manifest["spec"]["template"]["spec"]
    command = pod["containers"][0]["command"]
    assert pod["terminationGracePeriodSeconds"] > float(command[command.index("--drain-s") + 1]) + 10
    wrong: Any = {**manifest, "spec": {**manifest["spec"], "replicas": "two"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


@pytest.mark.thorough
def test_the_worker_answers_its_probes_and_ends_in_time(bootstrap: str, kafka_name: str, tmp_path: Path) -> None:
    """As the manifest runs it, in an empty folder."""
    (tmp_path / "shop.py").write_text(block("python").replace('"orders"', repr(kafka_name)))
    container = yaml.safe_load(block("yaml"))["spec"]["template"]["spec"]["containers"][0]
    port = str(free_port())
    command = [port if word == "9000" else word for word in container["command"]]
    command[0] = str(Path(sys.executable).parent / command[0])
    environment = {**os.environ, "JBM_BOOTSTRAP": bootstrap, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        try:
            for probe in ("livenessProbe", "readinessProbe"):
                path = container[probe]["httpGet"]["path"]
                wait_until(partial(answers, f"http://127.0.0.1:{port}{path}"), about=path, timeout_s=60)
            with ConnectionFactory(bootstrap).create_sender() as sender:
                sender.send(Queue(kafka_name), "an oak")
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ships an oak\n"
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(40) == 0
        finally:
            worker.kill()


def answers(url: str) -> bool:
    """200."""
    try:
        with urllib.request.urlopen(url, timeout=6) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
