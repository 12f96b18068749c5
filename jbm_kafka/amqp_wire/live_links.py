"""The links and sessions of one connection that the engine has: this is the one place that frees them.

The engine frees a session's links with the session, and corrupts its memory when one is freed twice. So whoever comes
back to a link, or to its session, after having waited, asks here first.
"""

from __future__ import annotations

from typing import Any

PLACES = 16
"""More numbers of ended links and sessions than this, beside as many as there are live ones, are not kept."""


class LiveLinks:
    """On the thread of the engine. A link is in it until the other side, or this one, begins to end it for good."""

    def __init__(self) -> None:
        self._links: dict[Any, Any] = {}
        """With their sessions."""
        self._ending: dict[Any, Any] = {}
        self._sessions: set[Any] = set()
        self._places: dict[Any, Any] = {}
        """The objects that the other side has given a number, by that."""

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, link: Any) -> bool:
        return link in self._links

    def begin(self, session: Any, place: Any = None) -> None:
        """One more session."""
        self._sessions.add(session)
        self._places[place] = session

    def add(self, link: Any, place: Any = None) -> None:
        """One more link, which is open or about to be."""
        self._links[link] = link.session
        self._places[place] = link
        if len(self._places) > 2 * (len(self._links) + len(self._sessions)) + PLACES:
            live = self._links.keys() | self._sessions
            self._places = {place: each for place, each in self._places.items() if each in live}

    def at(self, place: Any) -> Any:
        """The link or the session there, if nobody ends it."""
        found = self._places.get(place)
        return found if found in self._links or found in self._sessions else None

    def end(self, link: Any) -> None:
        """From now on nobody touches it but who has it closed, and then frees it."""
        session = self._links.pop(link, None)
        if session is not None:
            self._ending[link] = session

    def is_ending(self, link: Any) -> bool:
        """It may be closed and freed: its session has not ended meanwhile."""
        return link in self._ending

    def free(self, link: Any) -> None:
        """The link has ended on both sides. Nothing is done when its session, or the connection, ended before."""
        self._links.pop(link, None)
        if self._ending.pop(link, None) is not None:
            link.free()

    def end_session(self, session: Any) -> list[Any]:
        """The session's links are not touched any more, they are freed with it; those of them that were not ending."""
        found = [link for link, its in self._links.items() if its == session]
        for link in found:
            del self._links[link]
        self._ending = {link: its for link, its in self._ending.items() if its != session}
        return found

    def free_session(self, session: Any) -> None:
        """Close and free it, with its links; once."""
        if session in self._sessions:
            self.end_session(session)
            self._sessions.discard(session)
            session.close()
            session.free()

    def forget(self) -> None:
        """The connection is over: nothing of it is touched any more, and all goes with its last reference."""
        self._places.clear()
        self._links.clear()
        self._ending.clear()
        self._sessions.clear()
