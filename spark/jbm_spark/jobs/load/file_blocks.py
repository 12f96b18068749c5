"""Files cut into blocks of whole rows, so that many tasks can read one file. No Spark needed.

The driver reads each file once, for its digest and for the places where a row ends: that takes a few hundredths of the
time that sending the rows takes.
"""

import csv
import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jbm_spark.errors import FrameRefusedError, SparkJobError

BLOCK_BYTES = 64 * 2**10
"""A task has the rows of a hundred blocks in memory at once."""
BOM = b"\xef\xbb\xbf"
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy"}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file that begins and ends with a row."""

    file: str
    number: int
    """The number of the file among those of the job, from 0."""
    begin: int
    size: int
    """In bytes."""
    line: int
    """Number of its first line, from 1."""
    names: list[str]
    """The names that a CSV file's first row gives the columns."""


@dataclass(frozen=True, slots=True)
class CutFiles:
    """The files of a job, in order."""

    files: Sequence[Path]
    digest: str
    """The digest of their contents, in this order."""
    blocks: Sequence[Block]
    """None of Parquet files, which Spark cuts itself."""
    stamps: Sequence[tuple[int, int]]
    """Size and time of each."""

    def check_unchanged(self) -> None:
        """Raises SparkJobError when somebody has written to one of them meanwhile."""
        for file, stamp in zip(self.files, self.stamps, strict=True):
            if _stamp(file) != stamp:
                raise SparkJobError(f"{file} was changed while it was read: begin again when it is complete")


def files_of(path: Path, *, is_glob: bool) -> list[Path]:
    """The files that are meant: one, those of a folder, or those of a pattern; in the order of their names.

    Raises:
        SparkJobError: there is nothing to read, or a file is compressed.
    """
    if is_glob:
        top = Path(path.anchor or ".")
        found = sorted(each for each in top.glob(str(path.relative_to(path.anchor))) if each.is_file())
        if not found:
            raise SparkJobError(f"{path}: no file has such a name")
    elif path.is_dir():
        found = sorted(each for each in path.iterdir() if each.name[0] not in "._" and each.is_file())
        if not found:
            raise SparkJobError(f"{path}: the folder has no files")
    else:
        found = [path]
    if not path.exists() and not is_glob:
        raise SparkJobError(f"{path} does not exist; name a file or a folder, or give a pattern with --glob")
    if all(file.is_file() and file.stat().st_size == 0 for file in found):
        what = f"the files in it ({len(found)}) are empty" if len(found) > 1 else "the file is empty"
        raise SparkJobError(f"{path}: {what}; a row of it is a message (jbm-kafka docs spark-load names the columns)")
    for file in found:
        if file.suffix in _COMPRESSED and not file.name.endswith(f".parquet{file.suffix}"):
            raise SparkJobError(f"{file} is compressed: decompress it first")
    return [file.absolute() for file in found]


def cut(files: Sequence[Path], file_format: str) -> CutFiles:
    """Reads all of them once.

    Raises:
        SparkJobError: a file cannot be read, or its first row names no columns of messages.
    """
    digest, blocks, stamps = hashlib.sha256(), list[Block](), list[tuple[int, int]]()
    for number, file in enumerate(files):
        try:
            stamps.append(_stamp(file))
            with file.open("rb") as stream:
                digest.update(b"%d\0" % stamps[-1][0])
                while chunk := stream.read(2**20):
                    digest.update(chunk)
                stream.seek(0)
                if stamps[-1][0]:
                    blocks += _blocks(stream, file, number, file_format)
        except OSError as error:
            raise SparkJobError(f"{file} cannot be read: {error.strerror or error}") from None
    return CutFiles(files, digest.hexdigest(), blocks, stamps)


def content_of(block: Block) -> bytes:
    """The bytes of a block, read again."""
    with Path(block.file).open("rb") as stream:
        stream.seek(block.begin)
        return stream.read(block.size)


def allow_long_fields() -> None:
    """Python's own limit for a field of a CSV file is 128 KiB, less than a message may have."""
    csv.field_size_limit(sys.maxsize)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _blocks(stream: BinaryIO, file: Path, number: int, file_format: str) -> Iterator[Block]:
    if file_format == "parquet":
        return
    start = len(BOM) if stream.read(len(BOM)) == BOM else 0
    stream.seek(start)
    names = list[str]()
    if file_format == "csv":
        cuts = _ends_of_records(stream, start)
        start, line = next(cuts, (start, 1))
        names = _names(file, stream, start)
    else:
        cuts, line = _ends_of_lines(stream, start), 1
    begin, last = start, (start, line)
    for end, next_line in cuts:
        last = (end, next_line)
        if end - begin >= BLOCK_BYTES:
            yield Block(str(file), number, begin, end - begin, line, names)
            begin, line = end, next_line
    if last[0] > begin:
        yield Block(str(file), number, begin, last[0] - begin, line, names)


def _ends_of_lines(stream: BinaryIO, start: int) -> Iterator[tuple[int, int]]:
    """Places where a line ends, each with the number of the line that follows; some, not all."""
    at, line = start, 1
    while chunk := stream.read(BLOCK_BYTES):
        chunk += stream.readline()
        at, line = at + len(chunk), line + chunk.count(b"\n")
        yield at, line


def _ends_of_records(stream: BinaryIO, start: int) -> Iterator[tuple[int, int]]:
    """The places where each record of a CSV file ends, by the same reader that reads them later."""
    allow_long_fields()
    # In latin-1 each byte is one character, and what makes up the structure is the same as in UTF-8.
    text = io.TextIOWrapper(stream, encoding="latin-1", newline="\n")
    taken = [start, 1]

    def lines() -> Iterator[str]:
        for line in text:
            taken[0] += len(line)
            taken[1] += 1
            yield line

    reader = csv.reader(lines(), strict=True)
    while True:
        try:
            next(reader)
        except StopIteration:
            break
        except csv.Error:
            pass  # whoever reads the block sees it, too
        yield taken[0], taken[1]
    text.detach()


def _names(file: Path, stream: BinaryIO, end: int) -> list[str]:
    """The names that the first record gives the columns."""
    with file.open("rb") as again:
        head = again.read(end).removeprefix(BOM)
    try:
        [names] = csv.reader(io.StringIO(head.decode(), newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise FrameRefusedError(
            f"{file}, line 1: it does not name the columns, as in body_text,unit_of_order"
        ) from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FrameRefusedError(f"{file}, line 1: it names {', '.join(twice)} twice: rename one of them")
    return names
