"""Where one channel is recorded, and what is not recorded of it yet though nothing happened since its recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

COPIED_MAX = 50_000
"""So many entries a checkpoint writes anew, at most, of a changelog that was lost."""


class LostEntries:
    """What a changelog that was deleted does not say any more: from the journal, until all of it is written again.

    Its owner has it all. Else the next one would hear of what changes from now on alone.
    """

    __slots__ = ("_rest", "changelog_id", "count_max")

    def __init__(self, changelog_id: str, count_max: int = COPIED_MAX) -> None:
        self.changelog_id = changelog_id
        """The Kafka id of the topic that is written now."""
        self.count_max = count_max
        self._rest: dict[bytes, bytes] | None = None

    @property
    def must_load(self) -> bool:
        """Return True when what is to be written is not known yet."""
        return self._rest is None

    @property
    def is_done(self) -> bool:
        """Everything is written again."""
        return self._rest is not None and not self._rest

    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """As the journal has them: all that checkpoints said until now."""
        self._rest = dict(entries)

    def portion(self, beside: Mapping[bytes, bytes | None]) -> Mapping[bytes, bytes]:
        """Return what the next checkpoint writes of it, beside what it says itself."""
        assert self._rest is not None, "it was not loaded"
        entries = ((key, value) for key, value in self._rest.items() if key not in beside)
        return dict(islice(entries, self.count_max))

    def written(self, keys: Sequence[bytes]) -> None:
        """A checkpoint says these."""
        assert self._rest is not None, "it was not loaded"
        for key in keys:
            self._rest.pop(key, None)


class ChannelChangelog:
    """The changelog of one channel, and its copy in the journal, as the checkpointer writes them."""

    __slots__ = (
        "changelog_id",
        "group",
        "is_undecided",
        "journal_channel",
        "lost",
        "obsolete",
        "position",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        *,
        group: str,
        topic: str,
        topic_id: str,
        position: int,
        journal_channel: str,
        changelog_id: str = "",
        obsolete: Sequence[bytes] = (),
        is_new_start: bool = False,
    ) -> None:
        self.group = group
        """Whose channel it is, which the changelog's keys say."""
        self.topic = topic
        """The changelog's."""
        self.changelog_id = changelog_id
        """The Kafka id of that topic; empty: not known yet. The owner's."""
        self.topic_id = topic_id
        """Of the channel's own topic, which the entries are about."""
        self.position = position
        """The journal holds everything of the changelog below; the checkpointer's."""
        self.journal_channel = journal_channel
        self.obsolete = obsolete
        """Changelog keys that recovery found without meaning: the first durable checkpoint deletes them."""
        self.is_undecided = is_new_start or bool(obsolete)
        """Recovery decided something that the changelog does not say yet."""
        self.lost: LostEntries | None = None
        """It was deleted, and is to be written anew. The owner sets and clears it: another loss may come."""

    @property
    def must_record(self) -> bool:
        """It does not say yet what it should, though nothing happened."""
        return self.is_undecided or self.lost is not None

    def recorded(self) -> None:
        """A checkpoint is durable, and with it what recovery decided, or the last portion of what was lost."""
        self.is_undecided, self.obsolete = False, ()
        if self.lost is not None and self.lost.is_done:
            self.lost = None

    def written(self, position: int) -> None:
        """The journal is about to hold everything of the changelog below."""
        self.position = max(self.position, position)

    def topic_is(self, changelog_id: str) -> bool:
        """The cluster says whose id the topic of this name has now: False when it is another topic than it was."""
        is_same = not self.changelog_id or self.changelog_id == changelog_id
        if not is_same:
            self.lost = LostEntries(changelog_id)
        self.changelog_id = changelog_id
        return is_same
