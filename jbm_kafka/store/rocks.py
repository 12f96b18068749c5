"""The one RocksDB of a state folder: the journal in the default column family, held messages in their own.

Every open passes the options of every column family. RocksDB would open them with its defaults otherwise, and a
reopened store would silently have neither its block cache nor its bloom filter.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from jbm_kafka.ports.kept_at_fork import kept_at_fork

HELD = "held"
BLOCK_CACHE_BYTES = 8 << 20
JOURNAL_WRITE_BUFFER_BYTES = 4 << 20
HELD_WRITE_BUFFER_BYTES = 16 << 20
"""Two of them may be in memory. What is put and taken again while it is in one never reaches the disk."""
BLOCK_BYTES = 16 << 10
WAL_BYTES_MAX = 16 << 20
"""Past it RocksDB flushes the column families that keep an old log alive; bounds disk and the time to open."""
OPEN_FILES_MAX = 256


def _column_family_options(cache: Cache, write_buffer_bytes: int) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)  # else they grow outside every budget
    table.set_block_size(BLOCK_BYTES)
    table.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    return options


def _database_options(cache: Cache) -> Options:
    options = _column_family_options(cache, JOURNAL_WRITE_BUFFER_BYTES)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_max_background_jobs(2)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


class Rocks:
    """An open RocksDB whose held messages have been thrown away. Any thread; `close` after the last call.

    Raises:
        Exception: whatever RocksDB says; it knows no finer class. `StateFolder` sorts it out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        kept_at_fork(self)
        cache = Cache(BLOCK_CACHE_BYTES)
        held_options = _column_family_options(cache, HELD_WRITE_BUFFER_BYTES)
        options = _database_options(cache)
        self.journal = Rdict(str(path), options, {"default": options, HELD: held_options})
        try:
            # Dropping a column family unlinks its files: the same price whatever was held before.
            self.journal.drop_column_family(HELD)
            self.held: Rdict | None = self.journal.create_column_family(HELD, held_options)
            self.held_family: ColumnFamily | None = self.journal.get_column_family_handle(HELD)
        except BaseException:
            self.journal.close()
            raise
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[assignment,method-assign]  # the stub is wrong

    def write_held(self, batch: WriteBatch) -> None:
        """One atomic batch to `held`, without a log: nobody wants it back after a crash."""
        self.journal.write(batch, self._unlogged)

    def close(self) -> None:
        """Let all handles go, for each keeps the database and its lock; the first failure is raised behind the last."""
        held, self.held, self.held_family = self.held, None, None
        with ExitStack() as closing:
            closing.callback(self.journal.close)
            if held is not None:
                closing.callback(held.close)
