"""Which queue, or which subscription of a topic: in addresses of pages, and in what functions give."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlencode

from pydantic import BaseModel, ConfigDict, computed_field

from jbm_kafka.core.channel.backlog import Backlog
from jbm_kafka.core.destination import Queue, Topic


class SourceName(BaseModel):
    """A queue, or a subscription of a topic."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The name of the queue or the topic."""
    subscription: str = ""
    """Empty: it is a queue."""
    client_id: str = ""
    """That the subscription belongs to; empty: none."""

    @classmethod
    def of(cls, backlog: Backlog) -> SourceName:
        """Return what the backlog is of."""
        return cls.named(backlog.destination, backlog.subscription)

    @classmethod
    def named(cls, name: str, full_name: str) -> SourceName:
        """Return the subscription of this full name (Subscription.full_name); empty: a queue."""
        first, slash, rest = full_name.partition("/")
        if not slash:
            return cls(name=name, subscription=unquote(first))
        return cls(name=name, subscription=rest, client_id=unquote(first))

    @property
    def destination(self) -> Queue | Topic:
        """As `Admin` takes it."""
        return Topic(self.name) if self.subscription else Queue(self.name)

    @property
    def arguments(self) -> dict[str, Any]:
        """`subscription` and `client_id` of the calls of `Admin`."""
        return {"subscription": self.subscription or None, "client_id": self.client_id}

    @property
    def query(self) -> str:
        """As the query of an address, for actions."""
        more = {"subscription": self.subscription, "client_id": self.client_id}
        return urlencode({"name": self.name, **{key: value for key, value in more.items() if value}})

    @computed_field  # type: ignore[prop-decorator]
    @property
    def path(self) -> str:
        """The path of its page."""
        return self.page()

    def page(self, part: str = "") -> str:
        """The path of its page, or of a part of that, as `messages`."""
        tail = f"/{part}" if part else ""
        if not self.subscription:
            return f"/queues/{quote(self.name, safe='')}{tail}"
        more = {"subscription": self.subscription, "client_id": self.client_id}
        query = urlencode({key: value for key, value in more.items() if value})
        return f"/topics/{quote(self.name, safe='')}/subscription{tail}?{query}"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def title(self) -> str:
        """For people."""
        if not self.subscription:
            return self.name
        client = f" of {self.client_id}" if self.client_id else ""
        return f"{self.name} → {self.subscription}{client}"
