"""A browser without a screen: gets pages, and sends their forms with what stands in them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from starlette.testclient import TestClient

from jbm_kafka.console.frame.console import Console
from tests.support.waiting import wait_until

PATIENCE_S = 30.0


class Looking:
    """One browser at one console."""

    def __init__(self, client: TestClient, console: Console) -> None:
        self.client, self.console = client, console

    def json(self, path: str, status: int = 200, **query: object) -> Any:
        """What is there as JSON."""
        answer = self.client.get(f"/api/v1{path}", params={key: str(value) for key, value in query.items()} or None)
        assert answer.status_code == status, answer.text
        return answer.json()

    def page(self, path: str, status: int = 200) -> str:
        """The page's HTML."""
        answer = wait_until(lambda: self._there(path), about=path, timeout_s=PATIENCE_S)
        assert answer.status_code == status, answer.text
        return str(answer.text)

    def _there(self, path: str) -> Any:
        """The answer, unless it says how far it is."""
        answer = self.client.get(path)
        return None if answer.status_code == 202 else answer

    def token(self, path: str) -> str:
        """That of the first form of this page."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.page(path))
        assert found is not None, path
        return unescape(found[1])

    def form_token(self) -> str:
        """That of any form: it is one for all forms of a browser's session."""
        return self.token("/login")

    def send(self, path: str, **fields: str) -> Any:
        """Send the form of a page of ours."""
        return self.client.post(path, data={"csrf": self.form_token(), **fields})

    def act(self, action: str, /, **fields: str) -> dict[str, Any]:
        """Do it, and wait until it is over; the run."""
        answer = self.send(f"/actions/{action}", **fields)
        assert answer.status_code == 303, answer.text
        return self.ended(answer.headers["location"])

    def ended(self, path: str) -> dict[str, Any]:
        """The run at this path, when it is over."""

        def look() -> dict[str, Any] | None:
            run: dict[str, Any] = self.json(path)
            return run if run["state"] in ("done", "failed") else None

        return wait_until(look, about=path, timeout_s=PATIENCE_S)

    def look_anew(self) -> dict[str, Any]:
        """The overview, after a look that begins now."""
        following = self.console.following
        seen = wait_until(following.latest, about="a first look", timeout_s=PATIENCE_S)
        following.look_now()
        wait_until(lambda: following.latest() is not seen, about="another look", timeout_s=PATIENCE_S)
        found: dict[str, Any] = self.json("/")
        return found
