"""Java clients, compiled once a run."""

import pytest

from tests.amqp.java_clients import JavaClients


@pytest.fixture(scope="session")
def java_clients(tmp_path_factory: pytest.TempPathFactory) -> JavaClients:
    """What runs them."""
    return JavaClients(tmp_path_factory.mktemp("java"))
