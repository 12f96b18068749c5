"""The terms of a link: who attaches, and what it is to get."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.core.selectors.selector import Selector


@dataclass(frozen=True, slots=True, eq=False)
class LinkTerms:
    """Told when the link is attached, and never changed."""

    link_id: str
    session_id: str
    """What the channels know the receiver by: all consumers of a session share its units."""
    prefetch: int
    client_id: str = ""
    """Of its connection, for people."""
    mode: str = ""
    """Of its session, for people."""
    selector: Selector | None = None
    """Which messages its consumer gets; None: every one."""
    one_per_unit: bool = False
    records_attempts: bool = False
    """Its application gets a message only when that is recorded (REDELIVER-7)."""
    records_first: bool = False
    """What it gets is acknowledged, and comes only when that is durable."""
