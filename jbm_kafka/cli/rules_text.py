"""Access rules as text for the tools that set them: Kafka's own, Strimzi, or any that reads JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.cli.render import json_line
from jbm_kafka.ports.access_rules import CLUSTER, AccessRule, ResourceKind

Rules = Mapping[str, Sequence[AccessRule]]
"""Rules by principal, such as `User:app`."""


def as_commands(rules: Rules, bootstrap: str) -> str:
    """Lines for `kafka-acls.sh`; topics with the same operations share one."""
    lines = []
    for principal, each in rules.items():
        head = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties"]
        head += ["--add", "--allow-principal", principal]
        together: dict[tuple[ResourceKind, bool, tuple[str, ...]], list[str]] = {}
        for rule in each:
            together.setdefault((rule.kind, rule.is_prefix, tuple(rule.spelt)), []).append(rule.name)
        for (kind, is_prefix, operations), names in together.items():
            words = [f"--{kind.value}"] if kind is ResourceKind.CLUSTER else []
            words += [word for name in names if name != CLUSTER for word in (f"--{kind.value}", name)]
            words += ["--resource-pattern-type", "prefixed"] if is_prefix else []
            lines.append(shlex.join([*head, *words, *(word for each in operations for word in ("--operation", each))]))
    return "\n".join(lines)


def as_strimzi(rules: Rules, _: str) -> str:
    """A `KafkaUser` for each, to which its `metadata.labels` and `spec.authentication` are to be added."""
    documents = []
    for principal, each in rules.items():
        lines = [
            "apiVersion: kafka.strimzi.io/v1beta2",
            "kind: KafkaUser",
            "metadata:",
            f"  name: {json_line(principal.removeprefix('User:').removeprefix('CN='))}",
            "spec:",
            "  authorization:",
            "    type: simple",
            "    acls:",
        ]
        for rule in each:
            lines.append("      - resource:")
            lines.append(f"          type: {_STRIMZI.get(rule.kind, rule.kind.value)}")
            if rule.kind is not ResourceKind.CLUSTER:
                lines.append(f"          name: {json_line(rule.name)}")
                lines.append(f"          patternType: {'prefix' if rule.is_prefix else 'literal'}")
            lines.append(f"        operations: [{', '.join(rule.spelt)}]")
        documents.append("\n".join(lines))
    return "\n---\n".join(documents)


_STRIMZI = {ResourceKind.TRANSACTIONAL_ID: "transactionalId"}


def as_values(rules: Rules) -> list[dict[str, object]]:
    """For JSON."""
    return [
        {
            "principal": principal,
            "resource": rule.kind.value,
            "name": rule.name,
            "pattern": "prefixed" if rule.is_prefix else "literal",
            "operations": rule.spelt,
        }
        for principal, each in rules.items()
        for rule in each
    ]


def as_json(rules: Rules, _: str) -> str:
    """One line with a list."""
    return json_line(as_values(rules))


FORMATS: Mapping[str, Callable[[Rules, str], str]] = {"kafka-acls": as_commands, "strimzi": as_strimzi, "json": as_json}
