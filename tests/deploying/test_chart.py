"""docker/chart is rendered by helm into manifests of Kubernetes, and what they start is told what its program wants."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.metrics.backlog_collector import SPECS
from tests.deploying.chart import CHART, KUBERNETES, RENDERED, VALUES, first_line, helm, render
from tests.house.sources import ROOT


def manifests(text: str) -> dict[tuple[str, str], Any]:
    """Returns them by kind and name."""
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


SHOP = manifests(RENDERED.read_text())
DEPLOYMENTS = [name for kind, name in SHOP if kind == "Deployment"]


def pod(name: str) -> Any:
    return SHOP["Deployment", name]["spec"]["template"]["spec"]


def environment(name: str) -> dict[str, str]:
    [container] = pod(name)["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_what_is_looked_at_is_of_this_chart() -> None:
    told = RENDERED.read_text()
    assert told.startswith(first_line()), "the chart has changed: python -m tests.deploying.chart"
    program = helm()
    if program is not None:
        done = render(program, "--values", str(VALUES))
        assert (done.stderr, told) == ("", first_line() + done.stdout)


def test_each_is_a_manifest_of_kubernetes() -> None:
    kinds = [kind for kind, _ in SHOP]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "ConfigMap": 1, "Deployment": 5, "PodDisruptionBudget": 3, "ScaledObject": 1, "Service": 2,
    }  # fmt: skip
    for (kind, _), manifest in SHOP.items():
        if kind != "ScaledObject":  # KEDA's own
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_each_pod_is_confined_probed_spread_and_stopped_in_time(name: str) -> None:
    spec = pod(name)
    [container] = spec["containers"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["automountServiceAccountToken"]) == (True, False)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert len(spec["topologySpreadConstraints"]) == 2
    [port] = {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert port in {each["name"] for each in container["ports"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert [path for path, each in mounts.items() if "readOnly" not in each] == ["/var/lib/jbm-kafka"]
    assert {each["name"] for each in mounts.values()} == {each["name"] for each in spec["volumes"]}
    assert container["envFrom"] == [{"secretRef": {"name": "jbm-kafka"}}]
    selected = SHOP["Deployment", name]["spec"]["selector"]["matchLabels"]
    assert selected.items() <= SHOP["Deployment", name]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(("name", "drain_s"), [("shop-shipping", 40), ("shop-billing", 25), ("shop-sidecar", 20)])
def test_kubernetes_waits_longer_than_the_drain(name: str, drain_s: int) -> None:
    assert pod(name)["terminationGracePeriodSeconds"] == drain_s + 15
    words = [*pod(name)["containers"][0].get("args", []), *environment(name).values()]
    assert str(drain_s) in words


def test_a_worker_is_scaled_from_nothing_by_what_the_exporter_tells() -> None:
    scaled = SHOP["ScaledObject", "shop-shipping"]["spec"]
    assert (scaled["scaleTargetRef"]["name"], scaled["minReplicaCount"]) == ("shop-shipping", 0)
    assert "replicas" not in SHOP["Deployment", "shop-shipping"]["spec"], "an upgrade would undo the scaling"
    assert SHOP["Deployment", "shop-billing"]["spec"]["replicas"] == 3
    told = {each.name for each in SPECS}
    [trigger] = scaled["triggers"]
    for metric in ("jbm_backlog_messages", "jbm_backlog_held"):
        assert f'{metric}{{destination="orders"' in trigger["metadata"]["query"]
        assert metric in told


def test_what_the_chart_says_is_what_sidecar_and_console_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With users, as the Secret has them."""
    file = tmp_path / "jbm-kafka.toml"
    file.write_text(SHOP["ConfigMap", "shop-configuration"]["data"]["jbm-kafka.toml"])
    assert tomllib.loads(file.read_text())["namespace"] == "shop"
    monkeypatch.setenv("JBM_USERS", '{"anonymous": {"send": ["#"]}}')
    monkeypatch.setenv("JBM_KAFKA_SASL_PASSWORD", "secret")
    for name, value in environment("shop-sidecar").items():
        monkeypatch.setenv(name, value)
    [listener] = json.loads(environment("shop-sidecar")["JBM_AMQP__LISTENERS"])
    assert (listener.pop("certificate"), listener.pop("key")) == (
        "/etc/jbm-kafka-tls/tls.crt",
        "/etc/jbm-kafka-tls/tls.key",
    )
    monkeypatch.setenv("JBM_AMQP__LISTENERS", json.dumps([{"url": listener["url"].replace("amqps", "amqp")}]))
    sidecar = read_sidecar_file(file)
    assert sidecar.metrics_port == 9000
    assert [(each.host, each.port) for each in sidecar.server.listeners] == [("0.0.0.0", 5671)]


def test_a_mistake_is_told_when_it_is_rendered() -> None:
    program = helm()
    if program is None:
        pytest.skip("there is no helm: `make helm` builds it where there is Go")
    assert manifests(render(program).stdout).keys() >= {("Deployment", "shop-sidecar"), ("Service", "shop-console")}
    for words, told in [
        ("workers.x.target=a:b", "workers.x.image: the image of this worker"),
        ("workers.console.target=a:b", "workers.console: the chart has this name itself"),
    ]:
        assert told in render(program, "--set", words).stderr


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
