"""The JSON schema of the file, by which editors complete and check it."""

from __future__ import annotations

from typing import Any

from jbm_kafka.configuration.models import FileTables


def file_schema() -> dict[str, Any]:
    """Returns the schema; its descriptions are those of the model."""
    schema = FileTables.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "jbm-kafka.toml"}
