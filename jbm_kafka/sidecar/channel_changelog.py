"""Where one channel is recorded, and what is not recorded of it yet though nothing happened since its recovery."""

from __future__ import annotations

from collections.abc import Sequence


class ChannelChangelog:
    """The changelog of one channel, and its copy in the journal, as the checkpointer writes them."""

    __slots__ = ("group", "journal_channel", "must_record", "obsolete", "position", "topic", "topic_id")

    def __init__(
        self,
        *,
        group: str,
        topic: str,
        topic_id: str,
        position: int,
        journal_channel: str,
        obsolete: Sequence[bytes] = (),
        is_new_start: bool = False,
    ) -> None:
        self.group = group
        """Whose channel it is, which the changelog's keys say."""
        self.topic = topic
        """The changelog's."""
        self.topic_id = topic_id
        """Of the channel's own topic, which the entries are about."""
        self.position = position
        """The journal holds everything of the changelog below; the checkpointer's."""
        self.journal_channel = journal_channel
        self.obsolete = obsolete
        """Changelog keys that recovery found without meaning: the first durable checkpoint deletes them."""
        self.must_record = is_new_start or bool(obsolete)
        """Recovery decided something that the changelog does not say yet."""

    def recorded(self) -> None:
        """A checkpoint is durable, and with it what recovery decided."""
        self.must_record, self.obsolete = False, ()

    def written(self, position: int) -> None:
        """The journal is about to hold everything of the changelog below."""
        self.position = max(self.position, position)
