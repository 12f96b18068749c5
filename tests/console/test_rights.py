"""Whoever may look at some destinations, and operate one, gets at no other: by no view, no download and no action.

Method: all that the console has is tried, by its own lists, as a program whose rights leave one queue out. What is
added to the console is tried with it; a route that is on no list fails the test.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from pydantic_core import PydanticUndefined
from starlette.routing import Mount, Route

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.console import app
from jbm_kafka.console.app import ACTIONS, VIEWS
from jbm_kafka.console.frame.action import AnyAction
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken
from jbm_kafka.console.frame.view import API
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking
from tests.console.looking import Looking
from tests.support.waiting import wait_until

HIDDEN = "vault"
"""In the name of each destination that he may not look at, and of what stands there."""
TOKENS = {
    "all": ProgramToken(sha256(b"all").digest(), operate=["#"]),
    "some": ProgramToken(sha256(b"some").digest(), look=["orders.#"], operate=["orders.eu"]),
}
LISTS = {view.path for view in VIEWS if "{" not in view.path and not view.needs_all}
GIVEN: dict[str, Any] = {"at": "0.0", "xid": "1:aa:bb", "process": "process 1 at here", "setting": "partitions"}


def wanted(action: AnyAction, name: str) -> dict[str, Any]:
    """What the action must be given, about this destination."""
    given: dict[str, Any] = {}
    for field, info in action.wanted.model_fields.items():
        if field == "name":
            given[field] = name
        elif info.default is PydanticUndefined:
            given[field] = GIVEN.get(field, 20 if info.annotation is int else "orders.eu")
    return given


@pytest.fixture
def looking(world: MemoryWorld, look_with: MakeLooking) -> Looking:
    """In a world of a queue, a letter of it, and a topic, that are hidden from him, beside others."""
    looking = look_with(ConsoleSettings(tokens=TOKENS), address="10.1.2.3")
    settings = {
        "#": AddressSettings(max_delivery_attempts=1),
        HIDDEN: AddressSettings(dead_letter_address="vault.dead"),
    }
    with (
        world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms,
        Admin(world.url) as admin,
    ):
        for name in (HIDDEN, "vault.dead", "orders.eu", "orders.us"):
            jms.create_producer().send(Queue(name), "vault words" if HIDDEN in name else "x", unit_of_order="vault one")
        admin.set_address_settings(HIDDEN, settings[HIDDEN])
        jms.create_shared_durable_consumer(Topic("vault.prices"), "vault.audit").close()
        message = jms.create_consumer(Queue(HIDDEN)).receive(30)
        assert message is not None
        message.nack()
        world.wait_idle()
    looking.client.headers["Authorization"] = "Bearer all"
    looking.look_anew()
    wait_until(lambda: "vault.dead" in looking.console.letter_queues(), about="letters", timeout_s=30)
    run = looking.client.post(f"{API}/actions/pause", json={"name": HIDDEN, "what": "sending"}).json()
    looking.ended(f"/runs/{run['id']}")
    return looking


def test_every_route_is_on_a_list() -> None:
    known = {each.path for each in VIEWS if each.template} | {f"{API}{each.path}" for each in VIEWS}
    for base in ("/queues/{name}", "/topics/{name}/subscription"):
        known |= {f"{base}/body", f"{API}{base}/body"}
    known |= {f"{api}{path}" for api in ("", API) for path in ("/actions/{action}", "/runs/{id}/stop")}
    known |= {"/login", "/logout", f"{API}/openapi.json", "/healthz", "/static"}
    made = app("memory://routes")
    made.state.console.close()
    assert {each.path for each in made.routes if isinstance(each, Route | Mount)} == known


def test_what_is_hidden_is_seen_by_no_view(looking: Looking) -> None:
    [run] = looking.json("/runs")["runs"]
    pages = [each.path for each in VIEWS if each.template]
    downloads = ["/queues/{name}/body", "/topics/{name}/subscription/body"]
    paths = [*pages, *downloads, *(f"{API}{each.path}" for each in VIEWS), *(f"{API}{each}" for each in downloads)]
    seen: set[str] = set()
    for user in TOKENS:
        looking.client.headers["Authorization"] = f"Bearer {user}"
        for path in paths:
            asked = {"at": "0.0", "subscription": "vault.audit"} if "{name}" in path else None
            answer = looking.client.get(path.format(name=HIDDEN, id=run["id"]), params=asked)
            is_list = path.removeprefix(API) in LISTS
            if user == "all":
                seen |= {path} if HIDDEN in answer.text else set()
                continue
            assert answer.status_code == (200 if is_list else 404 if "{id}" in path else 403), (path, answer.text)
            assert not (is_list and HIDDEN in answer.text), path
            assert "vault words" not in answer.text, path
            assert "vault one" not in answer.text, path
    there = {f"{API}{each}" for each in LISTS} | {f"{API}/queues/{{name}}/{each}" for each in ("messages", "letters")}
    assert seen >= there, "what he did not see is there"


@pytest.mark.parametrize("name", [HIDDEN, "orders.us"])
def test_nothing_is_done_to_what_one_may_not_operate(looking: Looking, name: str) -> None:
    looking.client.headers["Authorization"] = "Bearer some"
    for action in ACTIONS:
        given = wanted(action, name)
        told = looking.client.get(f"{API}/actions/{action.name}", params=given)
        done = looking.client.post(
            f"{API}/actions/{action.name}", json={**given, "typed": action.named(action.wanted(**given))}
        )
        assert (told.status_code, done.status_code) == (403, 403), (action.name, told.text, done.text)
    assert looking.json("/runs")["runs"] == []


def test_nothing_goes_where_one_may_not_operate(looking: Looking) -> None:
    looking.client.headers["Authorization"] = "Bearer some"
    for action, more in (
        ("move", {"to": HIDDEN, "everything": True}),
        ("settings", {"setting": "dead_letter_address", "value": HIDDEN}),
        ("settings", {"setting": "expiry_address", "value": f"topic:{HIDDEN}"}),
    ):
        answer = looking.client.post(f"{API}/actions/{action}", json={"name": "orders.eu", **more})
        assert answer.status_code == 403, answer.text
    for name in ("#", "orders.*", "*.eu"):
        answer = looking.client.post(
            f"{API}/actions/settings", json={"name": name, "setting": "partitions", "value": "3"}
        )
        assert answer.status_code == 403, "nobody knows which destinations come to fit it"
