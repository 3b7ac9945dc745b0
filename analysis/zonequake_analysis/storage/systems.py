"""The file system of each store, one for each process.

A request is sent again, with growing pauses, if the store is busy (503 Slow Down), the connection
breaks, or no answer comes.
"""

from __future__ import annotations

import os
from functools import lru_cache
from urllib.parse import urlsplit

from pyarrow import fs

from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage import limits


@lru_cache(maxsize=16)
def file_system(
    scheme: str, authority: str, endpoint: str, region: str, *, attempts: int, process: int
) -> fs.FileSystem:
    """Returns the file system of a location, which sends each request up to `attempts` times.

    `process` is the caller's id: threads of a store's client don't survive a fork, so a child gets
    a file system of its own. Raises OSError, LocationError.
    """
    if scheme == "s3":
        return _s3(endpoint, region, attempts)
    if scheme == "gs":
        return fs.GcsFileSystem(retry_time_limit=limits.GCS_RETRY)
    return _hdfs(f"hdfs://{authority}/", attempts)


def _hdfs(uri: str, attempts: int) -> fs.FileSystem:
    """Returns HDFS, of which only a few runs need the client."""
    try:
        from zonequake_analysis.storage.hdfs import Hdfs
    except ModuleNotFoundError as error:
        raise LocationError(
            f"{uri} needs the package hdfs-native here and on each executor ({error}): "
            "pip install 'zonequake[hdfs]'"
        ) from error
    return fs.PyFileSystem(Hdfs(uri, attempts))


def _s3(endpoint: str, region: str, attempts: int) -> fs.S3FileSystem:
    """Returns S3 at `endpoint`, with the bucket in the path; without one, at AWS, in the host."""
    parts = urlsplit(endpoint)
    return fs.S3FileSystem(
        region=region or None,
        scheme=parts.scheme or "https",
        endpoint_override=parts.netloc + parts.path or None,
        connect_timeout=limits.CONNECT_S,
        request_timeout=limits.SILENT_S,
        allow_delayed_open=True,  # a file that fits into one request is sent in one
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
        tls_ca_file_path=os.environ.get("AWS_CA_BUNDLE") or None,
    )
