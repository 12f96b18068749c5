"""What others try: each of the usual attacks, and who may what."""

from __future__ import annotations

import json
import re
import sys
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from ipaddress import ip_network
from threading import Barrier, Event
from typing import Any

import pytest
from httpx2 import Client, Response
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from jbm_kafka import Queue
from jbm_kafka.admin import Admin
from jbm_kafka.amqp.access import User
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.console import app
from jbm_kafka.console.frame.action import Action, ActionPreview, AnyAction
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken, TrustedProxy
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.queues.queue_actions import DeleteWanted
from jbm_kafka.console.security.cookies import LASTS_S, NAME, SessionCookies
from jbm_kafka.console.security.guard import BODY_MAX, FIELDS_MAX, LOGIN_MAX
from jbm_kafka.console.security.login import WAITING_MAX, own_path
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking
from tests.console.looking import Looking

ELSEWHERE = "203.0.113.7"
PROXY = "10.0.0.9"
SCRIPT = "<script>alert(1)</script>"
QUOTED = """"'><img src=x onerror=alert(1)>{{7*7}}"""


def users(**rights: Mapping[str, Sequence[str]]) -> dict[str, User]:
    """Each with a password that is his name."""
    return {
        name: User(Verifier.of_password(name), dict(of))  # type: ignore[arg-type]
        for name, of in rights.items()
    }


ANN_AND_JOE = users(ann={"look": ["#"], "operate": ["#"]}, joe={"look": ["orders.#"], "operate": ["orders.eu"]})


def log_in(looking: Looking, user: str, password: str | None = None, **more: str) -> Response:
    fields = {"user": user, "password": user if password is None else password, **more}
    answer: Response = looking.send("/login", **fields)
    return answer


@pytest.fixture
def guarded(look_with: MakeLooking) -> Looking:
    """With users, from another machine."""
    return look_with(ConsoleSettings(users=ANN_AND_JOE), address=ELSEWHERE)


# -- who comes in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [ELSEWHERE, "192.168.1.1", "testclient", ""])
def test_without_users_only_this_machine_comes_in(look_with: MakeLooking, address: str) -> None:
    looking = look_with(address=address)
    assert "own machine alone" in looking.page("/", 403)
    assert "own machine alone" in looking.json("/", 403)["error"]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_without_users_a_proxy_of_this_machine_lets_nobody_in(looking: Looking, header: str) -> None:
    """Somebody has put one before it, and it would speak for the whole network."""
    assert looking.client.get("/", headers={header: "127.0.0.1"}).status_code == 403


def test_who_has_not_logged_in_is_asked_to(guarded: Looking) -> None:
    answer = guarded.client.get("/queues/orders/why?unit=a%20b")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fqueues%2Forders%2Fwhy%3Funit%3Da%2520b"
    assert guarded.json("/queues/orders", 401)["error"]
    login = guarded.page("/login")
    assert "memory://" not in login, "the login tells nobody which cluster it is"
    assert "Subscriptions" not in login


def test_a_user_comes_in_and_goes(guarded: Looking) -> None:
    answer = log_in(guarded, "ann", next="/topics")
    assert (answer.status_code, answer.headers["location"]) == (303, "/topics")
    assert "Log out" in guarded.page("/topics")
    kept = dict(guarded.client.cookies)
    assert guarded.send("/logout").headers["location"] == "/login"
    assert guarded.client.get("/topics").status_code == 303
    guarded.client.cookies.clear()
    guarded.client.cookies.update(kept)
    assert guarded.client.get("/topics").status_code == 303, "the old cookie is worth nothing after the logout"


def test_a_user_who_is_taken_out_of_the_file_is_out(world: MemoryWorld, look_with: MakeLooking) -> None:
    secret = b"s" * 32
    looking = look_with(ConsoleSettings(users=ANN_AND_JOE, secret=secret), address=ELSEWHERE)
    log_in(looking, "joe")
    assert looking.page("/")
    later = look_with(ConsoleSettings(users=users(ann={"look": ["#"]}), secret=secret), address=ELSEWHERE)
    later.client.cookies.update(dict(looking.client.cookies))
    assert later.client.get("/").status_code == 303


def test_rights_go_by_patterns_of_names(world: MemoryWorld, guarded: Looking) -> None:
    with Admin(world.url) as admin:
        for name in ("orders.eu", "orders.us", "payments"):
            admin.create_queue(name, partitions=1)
        log_in(guarded, "joe")
        found = guarded.look_anew()
        assert {row["source"]["name"] for row in found["rows"]} == {"orders.eu", "orders.us"}
        for part in ("", "/why", "/units", "/partitions", "/settings", "/history"):
            assert "look" in guarded.json(f"/queues/payments{part}", 403)["error"]
        for path in ("/transactions", "/readers", "/bridges", "/checkup"):
            assert guarded.json(path, 403)["error"]
        assert "Pause…" not in guarded.page("/queues/orders.us")
        assert "Pause…" in guarded.page("/queues/orders.eu")
        assert guarded.act("pause", name="orders.eu", what="sending")["by"] == "joe"
        for action in ("pause", "delete", "create"):
            for name in ("orders.us", "payments"):
                assert guarded.client.get(f"/actions/{action}?name={name}").status_code == 403
                assert guarded.send(f"/actions/{action}", name=name, typed=name).status_code == 403
        log_in(guarded, "ann")
        run = guarded.act("pause", name="payments", what="sending")
        moved = guarded.act("move", name="orders.us", to="payments", everything="true")
        assert "payments" in moved["outcome"]
        log_in(guarded, "joe")
        for each in (run, moved):
            assert guarded.json(f"/runs/{each['id']}", 404)["error"], "what others did elsewhere is not his"
        assert [each["about"] for each in guarded.json("/runs")["runs"]] == ["orders.eu"]


# -- cookies -----------------------------------------------------------------------------------------------------------


def test_the_cookie_is_no_scripts_and_no_other_sites(guarded: Looking) -> None:
    cookie = log_in(guarded, "ann").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie
    guarded.client.base_url = "https://console.example"
    guarded.client.cookies.clear()
    assert "; Secure" in guarded.client.get("/login").headers["set-cookie"]


def test_session_fixation(guarded: Looking) -> None:
    """A session that somebody else has begun and planted is not the one that is logged in."""
    known = guarded.form_token()
    planted = dict(guarded.client.cookies)
    log_in(guarded, "ann")
    assert dict(guarded.client.cookies) != planted
    assert guarded.form_token() != known, "whoever planted it knows the token of its forms"
    assert guarded.client.post("/logout", data={"csrf": known}).status_code == 403
    guarded.client.cookies.clear()
    guarded.client.cookies.update(planted)
    assert guarded.client.get("/").status_code == 303


@pytest.mark.parametrize(
    "change", [lambda x: x[:-2] + "AA", lambda x: "A" + x, lambda x: x.partition(".")[0], str.upper]
)
def test_a_forged_cookie_is_none(guarded: Looking, change: Any) -> None:
    log_in(guarded, "ann")
    name, value = next(iter(guarded.client.cookies.items()))
    guarded.client.cookies.clear()
    assert guarded.client.get("/", headers={"cookie": f"{name}={change(value)}"}).status_code == 303


def test_a_cookie_ends_with_its_time() -> None:
    cookies = SessionCookies(b"")
    text = cookies.text_of(cookies.begin("ann", 1_000))
    assert cookies.read(text, 1_000 + LASTS_S - 1) is not None
    assert cookies.read(text, 1_000 + LASTS_S) is None
    assert SessionCookies(b"").read(text, 1_000) is None, "another process's, without a secret in common"


def test_a_changed_password_ends_the_sessions_that_began_with_the_old_one(look_with: MakeLooking) -> None:
    """They went on for hours, as the secret of the cookies is the same after the restart that reads the file anew."""
    joe = users(joe={"look": ["#"]})
    before = ConsoleSettings(users={**joe, **users(ann={"look": ["#"]})}, secret=b"x" * 32)
    after = ConsoleSettings(users={**joe, **users(ann={"look": ["#"]})}, secret=b"x" * 32)
    for name, status in (("ann", 303), ("joe", 200)):
        first, anew, later = (look_with(each, address=ELSEWHERE) for each in (before, before, after))
        log_in(first, name)
        for looking, its_status in ((anew, 200), (later, status)):
            looking.client.cookies.update(first.client.cookies)
            assert looking.client.get("/letters").status_code == its_status, name


def test_a_cookie_of_an_earlier_version_asks_for_the_password_again(look_with: MakeLooking) -> None:
    cookies = SessionCookies(b"x" * 32)
    payload = urlsafe_b64encode(json.dumps(["an id", "ann", int(time.time()) + 60]).encode()).decode().rstrip("=")
    looking = look_with(ConsoleSettings(users=ANN_AND_JOE, secret=b"x" * 32), address=ELSEWHERE)
    cookie = f"{NAME}={payload}.{cookies._signature('cookie', payload)}"
    assert looking.client.get("/letters", headers={"cookie": cookie}).status_code == 303


# -- forms of other sites ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "wrong", "another browser's"])
def test_csrf_a_form_without_our_token_does_nothing(world: MemoryWorld, looking: Looking, look_with: MakeLooking,
                                                    token: str) -> None:  # fmt: skip
    if token == "another browser's":
        token = look_with().form_token()
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        looking.page("/")
        for path in ("/actions/pause", "/api/v1/actions/pause"):
            answer = looking.client.post(path, data={"name": "orders", "csrf": token})
            assert answer.status_code == 403, path
        assert not admin.paused("orders")


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"},
     {"Origin": "null"}],
)  # fmt: skip
def test_csrf_a_form_of_another_site_does_nothing_even_with_our_token(
    world: MemoryWorld, looking: Looking, headers: dict[str, str]
) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        answer = looking.client.post(
            "/actions/pause", data={"name": "orders", "csrf": looking.form_token()}, headers=headers
        )
        assert answer.status_code == 403
        assert not admin.paused("orders")


def test_csrf_a_login_and_a_logout_need_the_token_too(guarded: Looking) -> None:
    guarded.page("/login")
    assert guarded.client.post("/login", data={"user": "ann", "password": "ann"}).status_code == 403
    log_in(guarded, "ann")
    assert guarded.client.post("/logout", data={}).status_code == 403
    assert guarded.page("/")


def test_nothing_is_done_by_a_get(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        looking.page("/actions/delete?name=orders&typed=orders&csrf=" + looking.form_token())
        assert admin.exists("orders")
        assert looking.client.get("/logout").status_code == 405


# -- what stands in names and bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [SCRIPT, QUOTED])
def test_xss_in_units_and_what_is_asked_for(world: MemoryWorld, looking: Looking, text: str) -> None:
    with world.factory().create_context() as jms:
        jms.create_producer().send(Queue("orders"), text, unit_of_order=text)
        looking.look_anew()
        for path in ("/queues/orders/units", "/queues/orders/why"):
            page = looking.page(path)
            assert text not in page, path
            assert "alert(1)" in page, path
        for path, status in (("/", 200), ("/queues/orders/why", 200), ("/login", 200)):
            answer = looking.client.get(path, params={"q": text, "unit": text, "next": text, "name": text})
            assert answer.status_code == status
            assert text not in answer.text, path
        for path in (f"/{text}", f"/queues/{text}", f"/actions/{text}", f"/runs/{text}"):
            assert text not in looking.client.get(path).text, path
        answer = looking.client.get("/actions/create", params={"name": text})
        assert text not in answer.text


def test_json_is_never_taken_for_a_page(world: MemoryWorld, looking: Looking) -> None:
    answer = looking.client.get(f"/api/v1/queues/{SCRIPT}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


# -- what a browser may do with a page ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/login", "/nope", "/api/v1/", "/static/console.css", "/queues/nope"])
def test_every_answer_has_a_strict_policy(looking: Looking, path: str) -> None:
    headers = looking.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy, "clickjacking"
    assert "base-uri 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/queues/orders", "/queues/orders/why", "/actions/delete?name=orders", "/login"])
def test_no_page_has_script_or_style_of_its_own(world: MemoryWorld, looking: Looking, path: str) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        looking.look_anew()
        page = looking.page(path)
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", page)
    assert "hx-on" not in page
    assert '"allowEval":false' in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page), "nothing is loaded from elsewhere"


def test_what_tells_of_messages_is_kept_in_no_cache(looking: Looking) -> None:
    assert looking.client.get("/").headers["cache-control"] == "no-store"
    assert looking.client.get("/api/v1/").headers["cache-control"] == "no-store"


# -- paths, names and headers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/%2fetc",
     "/static/vendor/../../app.py", "/static/..%5capp.py"],
)  # fmt: skip
def test_path_traversal(looking: Looking, path: str) -> None:
    answer = looking.client.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
     "/%0d%0aSet-Cookie:a=b\r\nX: y", "evil.example", "", "/\t/evil.example"],
)  # fmt: skip
def test_open_redirect(guarded: Looking, target: str) -> None:
    location = log_in(guarded, "ann", next=target).headers["location"]
    assert location == "/"


def test_a_path_of_ours_is_gone_back_to() -> None:
    assert own_path("/queues/orders/why?unit=a%20b") == "/queues/orders/why?unit=a%20b"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8161", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_dns_rebinding(looking: Looking, host: str) -> None:
    """A name of somebody else that leads to this machine: its pages would be of the same origin."""
    assert looking.client.get("/", headers={"host": host}).status_code == 421
    assert looking.client.get("/api/v1/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8161", "127.0.0.1", "[::1]:8161", "[::1]"])
def test_names_of_this_machine_are_ours(looking: Looking, host: str) -> None:
    assert looking.client.get("/", headers={"host": host}).status_code == 200


def test_only_the_named_hosts_are_ours_where_some_are_named(look_with: MakeLooking) -> None:
    looking = look_with(ConsoleSettings(users=ANN_AND_JOE, hosts=["console.example"]), address=ELSEWHERE)
    assert looking.client.get("/login", headers={"host": "Console.example:8161"}).status_code == 200
    assert looking.client.get("/login", headers={"host": "evil.example"}).status_code == 421
    alive = looking.client.get("/healthz", headers={"host": "10.0.0.7:8161"})
    assert (alive.status_code, alive.text) == (200, "ok\n"), "a probe asks by the address, and ended the container"
    for method in ("POST", "OPTIONS"):
        told = looking.client.request(method, "/healthz", headers={"host": "evil.example"})
        assert told.status_code == 421, "a page that refuses the method names the namespace"


PROXIED = ConsoleSettings(users=ANN_AND_JOE, proxy=TrustedProxy("X-Remote-User", [ip_network("10.0.0.0/24")]))


def test_a_trusted_proxy_says_who_somebody_is(world: MemoryWorld, look_with: MakeLooking) -> None:
    looking = look_with(PROXIED, address=PROXY)
    looking.client.headers["X-Remote-User"] = "joe"
    page = looking.page("/")
    assert '<span class="who">joe</span>' in page
    assert "Log out" not in page, "the proxy has the login"
    with Admin(world.url) as admin:
        admin.create_queue("orders.eu")
        assert looking.act("pause", name="orders.eu", what="sending")["by"] == "joe"


def test_a_proxy_that_passes_on_the_password_it_asked_for_still_says_who_somebody_is(look_with: MakeLooking) -> None:
    """As nginx does with `auth_basic`: everybody was sent to the login."""
    looking = look_with(PROXIED, address=PROXY)
    by_password = {"X-Remote-User": "joe", "Authorization": "Basic am9lOmpvZQ=="}
    assert looking.client.get("/", headers=by_password).status_code == 200
    assert looking.client.post("/actions/pause", data={"name": "orders.eu"}, headers=by_password).status_code == 403
    wrong = {"X-Remote-User": "joe", "Authorization": "Bearer wrong"}
    assert looking.client.get("/", headers=wrong).status_code == 303, "a token is another one's word"


@pytest.mark.parametrize("address", [ELSEWHERE, "10.0.1.9", "127.0.0.1"])
def test_proxy_header_spoofing(look_with: MakeLooking, address: str) -> None:
    looking = look_with(PROXIED, address=address)
    spoofed = {"X-Remote-User": "ann", "X-Forwarded-For": PROXY, "Forwarded": f"for={PROXY}", "X-Real-IP": PROXY}
    assert looking.client.get("/", headers=spoofed).status_code == 303


@pytest.mark.parametrize("names", [["nobody"], ["ann", "joe"], [""], ["ann, joe"]])
def test_a_proxy_that_names_nobody_or_several_lets_nobody_in(look_with: MakeLooking, names: list[str]) -> None:
    looking = look_with(PROXIED, address=PROXY)
    headers = [("X-Remote-User", name) for name in names]
    assert looking.client.get("/", headers=headers).status_code == 303


def test_a_token_is_a_programs_and_no_cookie_goes_with_it(world: MemoryWorld, look_with: MakeLooking) -> None:
    token = ProgramToken(sha256(b"secret").digest(), look=["orders"])
    looking = look_with(ConsoleSettings(tokens={"ci": token}), address=ELSEWHERE)
    for authorization in ("Bearer wrong", "Bearer ", "Basic c2VjcmV0", "secret", ""):
        assert looking.client.get("/api/v1/", headers={"Authorization": authorization}).status_code == 401
    answer = looking.client.get("/api/v1/", headers={"Authorization": "Bearer secret"})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        refused = looking.client.post(
            "/api/v1/actions/pause", json={"name": "orders"}, headers={"Authorization": "Bearer secret"}
        )
        assert refused.status_code == 403
        assert "operate" in refused.json()["error"]


# -- many tries, and large ones ----------------------------------------------------------------------------------------


def test_brute_force_is_slowed_by_user_and_by_address(guarded: Looking) -> None:
    took = []
    for number in range(4):
        begun = time.monotonic()
        answer = log_in(guarded, "ann", f"guess {number}")
        took.append(time.monotonic() - begun)
        assert answer.status_code == 401
        assert "guess" not in answer.text
    assert took[3] >= 0.8 > took[0], took
    begun = time.monotonic()
    assert log_in(guarded, "ann").status_code == 303, "nobody is locked out"
    assert time.monotonic() - begun < 0.7, "and a right one does not wait"


def test_brute_force_by_many_at_once_is_no_faster(world: MemoryWorld) -> None:
    settings = ConsoleSettings(users=ANN_AND_JOE)
    with (
        ConsoleServer(app(world.url, settings), ConsoleAddress(port=0)) as server,
        Client(base_url=server.url) as client,
    ):
        found = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)
        assert found is not None

        at_once = Barrier(WAITING_MAX + 2)

        def guess(number: int) -> int:
            fields = {"csrf": found[1], "user": f"u{number}", "password": "x"}
            at_once.wait(30)
            return int(client.post("/login", data=fields).status_code)

        begun = time.monotonic()
        with ThreadPoolExecutor(WAITING_MAX + 2) as pool:
            answers = Counter(pool.map(guess, range(WAITING_MAX + 2)))
        assert time.monotonic() - begun >= 0.1 + 0.2 + 0.4 + 0.8
        assert answers == {401: WAITING_MAX, 429: 2}


def test_who_looks_what_long_actions_would_do_keeps_nobody_from_coming_in(
    world: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty of them had all threads of the server, and each may read a whole queue."""
    go_on, begun = Event(), Event()

    def preview(_: Admin, __: DeleteWanted) -> ActionPreview:
        begun.set()
        assert go_on.wait(60)
        return ActionPreview(words=["It does."])

    slow: AnyAction = Action("slow", "Do", DeleteWanted, preview, lambda hands, wanted: "did")
    monkeypatch.setattr(sys.modules["jbm_kafka.console.app"], "ACTIONS", [slow])
    token = ProgramToken(sha256(b"a").digest(), operate=["#"])
    settings = ConsoleSettings(users=ANN_AND_JOE, tokens={"a": token})
    with ConsoleServer(app(world.url, settings), ConsoleAddress(port=0)) as server, ThreadPoolExecutor(50) as pool:
        bearer = {"Authorization": "Bearer a"}

        def look(number: int) -> int:
            with Client(base_url=server.url, timeout=60) as client:
                return int(client.get(f"/api/v1/actions/slow?name=q{number}", headers=bearer).status_code)

        looked = [pool.submit(look, number) for number in range(50)]
        try:
            assert begun.wait(30)
            with Client(base_url=server.url, timeout=10) as client:
                found = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)
                assert found is not None
                fields = {"csrf": found[1], "user": "joe", "password": "joe"}
                assert client.post("/login", data=fields).status_code == 303
        finally:
            go_on.set()
        assert {each.result(60) for each in looked} == {200}


def test_nobody_learns_which_users_there_are(guarded: Looking) -> None:
    known, unknown = log_in(guarded, "ann", "wrong").text, log_in(guarded, "anx", "wrong").text
    assert known.replace('value="ann"', "") == unknown.replace('value="anx"', "")


def test_a_request_that_is_too_large_is_refused(looking: Looking) -> None:
    token = looking.form_token()
    answer = looking.client.post("/actions/pause", data={"csrf": token, "name": "x" * BODY_MAX})
    assert answer.status_code == 413


def test_who_has_not_come_in_sends_no_large_forms(guarded: Looking) -> None:
    """A thousand of the size that an operator may send would have taken all memory."""
    assert log_in(guarded, "ann", "x" * LOGIN_MAX).status_code == 413
    assert log_in(guarded, "ann").status_code == 303


def test_a_form_of_more_fields_than_any_of_ours_is_refused(looking: Looking) -> None:
    fields = {f"a{number}": "1" for number in range(FIELDS_MAX)}
    assert looking.client.post("/actions/pause", data={"csrf": looking.form_token(), **fields}).status_code == 403


# -- in another application --------------------------------------------------------------------------------------------


def test_mounted_it_keeps_its_own_login_and_policy(world: MemoryWorld) -> None:
    console = app(world.url, ConsoleSettings(users=ANN_AND_JOE))
    outer = TestClient(
        Starlette(routes=[Mount("/ops/queues", console)]), base_url="http://shop.example", client=(ELSEWHERE, 1),
        follow_redirects=False,
    )  # fmt: skip
    answer = outer.get("/ops/queues/topics")
    assert answer.headers["location"] == "/ops/queues/login?next=%2Ftopics"
    assert "content-security-policy" in answer.headers
    looking = Looking(outer, console.state.console)
    page = looking.page("/ops/queues/login")
    assert 'href="/ops/queues/static/console.css"' in page
    fields = {"csrf": looking.token("/ops/queues/login"), "user": "ann", "password": "ann", "next": "/topics"}
    answer = outer.post("/ops/queues/login", data=fields)
    assert answer.headers["location"] == "/ops/queues/topics"
    assert "Path=/ops/queues" in answer.headers["set-cookie"]
    assert "<h1>Topics</h1>" in looking.page("/ops/queues/topics")
    console.state.console.close()


def test_mounted_the_application_may_say_who_asks_and_send_its_own_policy(world: MemoryWorld) -> None:
    def user_of(scope: Any) -> Viewer | None:
        name = dict(scope["headers"]).get(b"x-app-user", b"").decode()
        return Viewer(name, look=("orders.#",), operate=()) if name else None

    console = app(world.url, ConsoleSettings(sends_headers=False), user_of=user_of)
    client = TestClient(console, base_url="http://shop.example", client=(ELSEWHERE, 1), follow_redirects=False)
    assert client.get("/").status_code == 401
    answer = client.get("/", headers={"x-app-user": "kim"})
    assert (answer.status_code, "kim" in answer.text) == (200, True)
    assert "content-security-policy" not in answer.headers
    assert client.get("/queues/payments", headers={"x-app-user": "kim"}).status_code == 403
    console.state.console.close()


def test_csrf_mounted_a_form_without_our_token_does_nothing_whoever_the_application_says_asks(
    world: MemoryWorld,
) -> None:
    """The application knows its user by a cookie, which a page of another site may send along."""
    console = app(world.url, user_of=lambda scope: Viewer("kim"))
    client = TestClient(Starlette(routes=[Mount("/ops", console)]), follow_redirects=False)
    looking, wish = Looking(client, console.state.console), {"name": "orders"}
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        for path in ("/ops/actions/pause", "/ops/api/v1/actions/pause"):
            assert client.post(path, data=wish).status_code == 403, path
        token = looking.token("/ops/actions/pause?name=orders")
        own = {**wish, "csrf": token}
        elsewhere = client.post("/ops/actions/pause", data=own, headers={"Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status_code == 403
        assert not admin.paused("orders")
        assert client.post("/ops/actions/pause", data=own).status_code == 303
        by_program = {"Authorization": "Bearer the application's"}  # which no browser sends by itself
        assert client.post("/ops/api/v1/actions/pause", json=wish, headers=by_program).status_code == 202
        console.state.console.close()
        assert admin.paused("orders")
