"""One secured broker for all of these tests, with users who may do everything."""

from collections.abc import Iterator

import pytest

from tests.support.secured import EVERYTHING, PLAIN_USER, SecuredBroker, secured_broker

ALICE = "alice"
"""May do everything."""


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        broker.add_user(ALICE)
        for user in (ALICE, PLAIN_USER, "carol"):
            broker.allow(user, EVERYTHING)
        yield broker
