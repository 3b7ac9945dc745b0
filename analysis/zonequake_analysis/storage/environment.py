"""The address of S3 as the environment names it: endpoint and region."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from zonequake_analysis.errors import LocationError


def s3_endpoint() -> str:
    """Returns the endpoint, empty for AWS's own.

    Raises LocationError if it isn't a URL, or holds a user name.
    """
    found = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    parts = urlsplit(found)
    if found and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username):
        raise LocationError(
            "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL: expected https://host:port, without "
            "credentials"
        )
    return found.rstrip("/")


def s3_region() -> str:
    """Returns the region, empty if none is named."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
