"""The contents of one batch of an archive, as the file `_manifest.json` in its folder says. No Spark needed.

The manifest comes to be seen with the rows, by one rename of their folder. So the archive itself says how far it has
come, and nothing else needs to agree with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from jbm_spark.archiving.archive_folder import ArchivePath
from jbm_spark.errors import ArchiveError

MANIFEST_FILE = "_manifest.json"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one topic that were archived."""

    topic_id: str
    begin: Mapping[int, int]
    """The first offset of each partition."""
    end: Mapping[int, int]
    """One past the last offset of each partition."""
    lost: Mapping[int, int]
    """The first of the offsets before `begin` that are missing, since somebody accepted their loss, by partition."""
    topic: str | None = None
    """Its name; older manifests, all of archives of one queue or topic, do not tell it."""

    def followed_by(self, other: "Span") -> "Span | None":
        """Both as one, if the other goes on where this one ends and nothing is missing between."""
        goes_on = all(begin == self.end.get(partition, begin) for partition, begin in other.begin.items())
        if self.topic_id != other.topic_id or not goes_on or other.lost:
            return None
        begin = {**other.begin, **self.begin}
        return Span(self.topic_id, begin, {**self.end, **other.end}, self.lost, other.topic)


@dataclass(frozen=True, slots=True)
class Erasure:
    """Rows that were taken out of a batch for good, and at whose word. Nothing of what they were is in it."""

    at_ms: int
    """When the call began that did it, ms since 1970."""
    by: str
    """The operator."""
    what: str
    """What was asked for, with digests in the place of values."""
    rows: int
    """So many rows of this batch."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One published batch, or several that were compacted into one."""

    first: int
    last: int
    """Numbers of the batches, from 0 on without gaps."""
    rows: int
    """Counted when they were read back from the files; without those that were erased since."""
    data_bytes: int
    spans: Sequence[Span]
    """One a topic; where batches were compacted or a topic was made anew, several, in order."""
    erased: Sequence[Erasure] = ()
    """In order; manifests of before have none."""

    @property
    def folder_name(self) -> str:
        """The name of the batch's folder."""
        return batch_name(self.first, self.last)

    def write(self, folder: ArchivePath) -> None:
        """Into the folder, which nobody sees yet."""
        (folder / MANIFEST_FILE).write_text(json.dumps({"format": 1, **asdict(self)}) + "\n", encoding="utf-8")


def batch_name(first: int, last: int) -> str:
    """Of a batch's folder, in the manner of Hive. Always both numbers: readers take one number for an int, and refuse a
    folder whose batches are ints and texts."""
    return f"batch={first:08d}-{last:08d}"


def compacted(manifests: Sequence[Manifest], *, data_bytes: int, erasure: Erasure | None = None) -> Manifest:
    """The manifest of all of them in one, without the rows of the erasure."""
    spans: list[Span] = []
    latest: dict[str, int] = {}
    for span in (span for manifest in manifests for span in manifest.spans):
        at = latest.get(span.topic_id)
        together = None if at is None else spans[at].followed_by(span)
        if at is None or together is None:
            latest[span.topic_id] = len(spans)
            spans.append(span)
        else:
            spans[at] = together
    rows = sum(manifest.rows for manifest in manifests) - (0 if erasure is None else erasure.rows)
    erased = [each for manifest in manifests for each in manifest.erased] + ([] if erasure is None else [erasure])
    return Manifest(manifests[0].first, manifests[-1].last, rows, data_bytes, spans, erased)


def read_manifest(folder: ArchivePath) -> Manifest:
    """Return the manifest of a published batch.

    Raises:
        ArchiveError: it is not there, or cannot be read.
    """
    path = folder / MANIFEST_FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["format"] != 1:
            raise ArchiveError(f"{path} is of format {fields['format']}: use the newer jbm-kafka that wrote it")
        spans = [_span(each) for each in fields["spans"]]
        erased = [Erasure(**each) for each in fields.get("erased", ())]
        return Manifest(fields["first"], fields["last"], fields["rows"], fields["data_bytes"], spans, erased)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(
            f"the batch {folder} has no manifest that can be read ({error}): it was not written by an archive job, or "
            "only half of it was copied; restore it, or remove this archive and begin another"
        ) from None


def _span(fields: Mapping[str, object]) -> Span:
    begin, end, lost = (_offsets(fields[name]) for name in ("begin", "end", "lost"))
    topic = fields.get("topic")
    return Span(str(fields["topic_id"]), begin, end, lost, None if topic is None else str(topic))


def _offsets(fields: object) -> Mapping[int, int]:
    if not isinstance(fields, dict):
        raise TypeError("offsets by partition are missing")
    return {int(partition): int(offset) for partition, offset in fields.items()}
