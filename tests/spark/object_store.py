"""An S3 of this machine, in memory, for archives there."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "lake"
SECRET = "s3cr3t-of-the-store"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One bucket, and how it is reached."""

    endpoint: str

    @property
    def settings(self) -> Mapping[str, str]:
        """Hadoop's options."""
        return {
            "fs.s3a.endpoint": self.endpoint, "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.access.key": "key", "fs.s3a.secret.key": SECRET,
        }  # fmt: skip

    def client(self) -> Any:
        """Of AWS's own package."""
        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id="key", aws_secret_access_key=SECRET,
                            region_name="us-east-1")  # fmt: skip

    def objects(self, prefix: str) -> dict[str, bytes]:
        """All that begin so, by their keys."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """While it runs."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request hides what failed
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = ObjectStore(f"http://{host}:{port}")
        store.client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.stop()
