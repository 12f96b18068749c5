"""Many connections of a process ask for client ids at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka import ConnectionFactory
from jbm_kafka.codec.registry_records import ClientRecord, client_key, encode_client
from jbm_kafka.core.jms_errors import InvalidClientIDError, JMSError
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from jbm_kafka.registry.client_ids import ClientIds
from tests.support.waiting import wait_until

TIMEOUT_S = 30
Values = Mapping[bytes, bytes]


@pytest.fixture
def client_ids() -> Iterator[ClientIds]:
    with ConnectionFactory("memory://client-ids").create_connection() as connection:
        provider = connection._core.provider
        assert isinstance(provider, SidecarProvider)
        yield provider.sidecar.claims.client_ids


def test_what_is_asked_for_meanwhile_is_written_together(
    client_ids: ClientIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONN-2: 2,000 clients that reconnected took six minutes. A refusal costs the others nothing."""
    registry, holder = client_ids._registry, client_ids._holder
    writes: list[object] = []
    has_begun, may_go_on = threading.Event(), threading.Event()
    update = registry.update

    def gated(decide: Callable[[Values], Mapping[bytes, bytes | None]]) -> None:
        writes.append(decide)
        has_begun.set()
        assert may_go_on.wait(TIMEOUT_S)
        update(decide)

    registry.make()
    other = client_key("theirs"), encode_client(ClientRecord("jbm.holder.other", "k1"))
    registry.write(dict([other]))
    monkeypatch.setattr(type(holder), "living", lambda self, holders: frozenset(holders))
    monkeypatch.setattr(registry, "update", gated)
    names = ["first", *(f"later{number}" for number in range(8)), "theirs"]
    with ThreadPoolExecutor(len(names)) as pool:
        asked = [pool.submit(client_ids.hold, names[0], "c", lambda error: None)]
        assert has_begun.wait(TIMEOUT_S)
        asked += [pool.submit(client_ids.hold, name, "c", lambda error: None) for name in names[1:]]
        wait_until(lambda: len(client_ids._asked) == len(names) - 1, about="all to ask", timeout_s=TIMEOUT_S)
        may_go_on.set()
        with pytest.raises(InvalidClientIDError, match="another process has it"):
            asked.pop().result(TIMEOUT_S)
        for each in asked:
            each.result(TIMEOUT_S)
    assert len(writes) == 2
    mine = encode_client(ClientRecord(holder.name, "c"))
    assert [registry.get(client_key(name)) for name in names] == [*[mine] * (len(names) - 1), other[1]]


def test_whose_change_an_interrupt_ended_does_not_take_it_for_made(
    client_ids: ClientIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONN-2: the interrupt is of one thread, and others wait for what that was writing."""
    client_ids._registry.make()
    has_begun, may_go_on = threading.Event(), threading.Event()
    writes: list[object] = []

    def interrupted(decide: object) -> None:
        writes.append(decide)
        has_begun.set()
        assert may_go_on.wait(TIMEOUT_S)
        raise SystemExit

    monkeypatch.setattr(client_ids._registry, "update", interrupted)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(client_ids.hold, "first", "c", lambda error: None)]
        assert has_begun.wait(TIMEOUT_S)
        asked += [pool.submit(client_ids.hold, f"later{number}", "c", lambda error: None) for number in range(3)]
        wait_until(lambda: len(client_ids._asked) == 3, about="all to ask", timeout_s=TIMEOUT_S)
        may_go_on.set()
        errors = [type(each.exception(TIMEOUT_S)) for each in asked]
    assert (errors.count(SystemExit), errors.count(JMSError), len(writes)) == (2, 2, 2)
