"""Where an archive can be, and what is told of one that cannot: without a store."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jbm_spark.archiving.archive_folder import MESSAGES, ArchiveIdentity, archive_path
from jbm_spark.archiving.archive_tables import archive_table
from jbm_spark.errors import ArchiveError


@pytest.mark.parametrize(
    "given", ["s3a://lake/orders", "s3a://lake/orders/", "s3a://lake//orders", "s3a://lake/./old/../orders"]
)
def test_a_place_on_a_store_has_the_name_that_its_files_are_listed_by(given: str) -> None:
    """SPARK-19: by another name all its files would be strangers, to be removed."""
    assert str(archive_path(given)) == "s3a://lake/orders"


@pytest.mark.parametrize("given", ["hdfs:///orders", "s3a:///orders", "s3a://", "s3://lake/orders"])
def test_a_place_without_its_store_is_refused(given: str) -> None:
    with pytest.raises(ArchiveError, match=r"as in s3a://bucket/orders$"):
        archive_path(given)


def test_a_copy_where_its_format_cannot_be_is_refused(tmp_path: Path) -> None:
    """SPARK-19: of a copied table every file would count, and of copied files none."""
    with pytest.raises(ArchiveError, match="Iceberg tables have absolute names"):
        archive_table(tmp_path, MESSAGES, ArchiveIdentity("id", "queue:a", "c", "iceberg"))
    with pytest.raises(ArchiveError, match="is of format parquet, which needs a disk: copy it to one"):
        archive_table(archive_path("s3a://lake/orders"), MESSAGES, ArchiveIdentity("id", "queue:a", "c", "parquet"))


@pytest.mark.parametrize(("file_format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_table_without_its_package_is_told_in_a_line(file_format: str, package: str) -> None:
    """SPARK-19: who reads one has named no format."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from jbm_spark.archiving.archive_folder import ArchiveIdentity, archive_path\n"
        "from jbm_spark.archiving.archive_tables import archive_table\n"
        "from jbm_spark.errors import ArchiveError\n"
        f"whose = ArchiveIdentity('id', 'queue:a', 'c', {file_format!r})\n"
        "try:\n    archive_table(archive_path('s3a://lake/orders'), 'messages', whose)\n"
        "except ArchiveError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(rf"{package}\S* is not installed: pip install {package} pyarrow\n$", done.stdout)
