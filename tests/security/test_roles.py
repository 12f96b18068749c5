"""Each role does its work with the rights of the table alone, and without any of them one line names it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from jbm_kafka import Queue
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.provisioning import provision
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports.access_rules import AccessRule, Operation
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.topic_plan import TopicWish
from tests.support.role_work import BESIDE, WORK, Shop, Told, Watch, look, one_by_one, stock
from tests.support.secured import SecuredBroker, as_rule

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@contextmanager
def heard(missing: AccessRule | None) -> Iterator[Watch]:
    watch = Watch(missing)
    logger = logging.getLogger("jbm_kafka")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(watch)
    try:
        yield watch
    finally:
        logger.removeHandler(watch)
        logger.setLevel(before)


def opened(secured: SecuredBroker, folder: Path, role: Role) -> Shop:
    """A provisioned installation of the role's, and its user, who has these rights and no others."""
    user = f"{role.value}-{folder.name}"
    shop = Shop(role, f"for-{role.value}", secured.open, secured.sasl, secured.as_user(user), folder)
    core = AdminCore(secured.open, None, shop.namespace, 20.0)
    wish = TopicWish(
        shop.namespace, dict.fromkeys(shop.installation.destinations), shop.installation.letters, partitions=1
    )
    provision(core, wish, dry_run=False)
    core.close()
    admin = ConfluentKafka(secured.open).admin()
    admin.allow(f"User:{user}", rules_of([role, *BESIDE.get(role, ())], shop.installation))
    admin.close()
    secured.add_user(user)  # last: when the broker knows the user it knows the rights, too
    if look in WORK[role]:
        stock(shop)
    return shop


@pytest.mark.parametrize("role", list(WORK))
def test_a_role_does_its_work_with_the_rights_of_the_table_alone(
    secured: SecuredBroker, tmp_path: Path, role: Role
) -> None:
    shop = opened(secured, tmp_path, role)
    with heard(None) as watch:
        for work in WORK[role]:
            work(shop, watch)
    if role is not Role.LOOK:
        assert watch.told == []


def without(secured: SecuredBroker, shop: Shop, missing: AccessRule) -> str:
    """A line that names the right, told while the role did its work without it; empty: there was none.

    What it contains is left, for who lacks that hears of nothing else.
    """
    user, described = shop.kafka["sasl.username"], replace(missing, operations=frozenset({Operation.DESCRIBE}))
    is_more = missing != described and missing.operations != {Operation.DESCRIBE_CONFIGS}
    if is_more:
        secured.allow(user, [as_rule(described)])
    secured.forbid(user, as_rule(missing))
    with heard(missing) as watch:
        try:
            for work in WORK[shop.role]:
                work(shop, watch)
        except Told:
            pass
        except Exception as error:
            watch.hear(error)
    secured.allow(user, [as_rule(missing)])
    if is_more:
        secured.forbid(user, as_rule(described))
    return watch.told[0] if watch.told else ""


IN_TURN = {
    Role.PRODUCER: False, Role.LOOK: False, Role.XA: True, Role.SCHEDULES: True, Role.TRUNCATION: True,
    Role.WORKER: True, Role.OPERATOR: True, Role.REQUESTS: True, Role.MOVING: True,
    Role.BRIDGE: False,
}  # fmt: skip
"""Of which roles each right is taken away; and whether that is slow."""


def test_what_a_sidecar_has_is_taken_from_others_in_turn() -> None:
    """And nothing that one of these has is missing."""
    installation = NamespaceTopics("shop", [Queue("orders")], [Queue("DLQ")])
    parts = (Role.WORKER, Role.PRODUCER, Role.REQUESTS)
    assert rules_of([Role.SIDECAR], installation) == rules_of(parts, installation)
    assert {*IN_TURN, Role.SIDECAR, Role.SPARK} == set(Role)


@pytest.mark.parametrize(
    "role", [pytest.param(role, marks=[pytest.mark.slow] * is_slow) for role, is_slow in IN_TURN.items()]
)
def test_without_one_of_its_rights_one_line_names_it_and_nothing_hangs(
    secured: SecuredBroker, tmp_path: Path, role: Role
) -> None:
    """Of what a role has besides others only that is taken."""
    shop = opened(secured, tmp_path, role)
    others = set(one_by_one(rules_of(BESIDE.get(role, ()), shop.installation)))
    unnamed = []
    for missing in one_by_one(rules_of([role], shop.installation)):
        if missing in others:
            continue
        began_s = time.monotonic()
        line = without(secured, shop, missing)
        right = f"{missing.spelt[0]} on {missing.kind.value} {missing.name}"
        print(f"{role.value}: {time.monotonic() - began_s:.1f} s without {right}: {line or 'NOTHING'}")
        if not line:
            unnamed.append(right)
    assert unnamed == []
