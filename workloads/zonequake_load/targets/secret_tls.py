"""The certificates of a client's Secret (`ClientContext.secret`), for TLS to members."""

from __future__ import annotations

import ssl
from pathlib import Path

from zonequake_load.errors import TargetError

AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"


def load_secret(context: ssl.SSLContext, folder: Path) -> bool:
    """Has `context` trust the Secret's authority, and show its certificate if it has one; returns
    whether it does. Raises TargetError.
    """
    certificate, key = folder / CERTIFICATE, folder / KEY
    shows = certificate.exists() or key.exists()
    try:
        context.load_verify_locations(folder / AUTHORITY)
        if shows:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise TargetError(
            f"the Secret of target.clientSecret, in {folder}, can't be used: {error}; expected "
            f"{AUTHORITY}, and if members demand a certificate of clients, {CERTIFICATE} and its "
            f"{KEY}"
        ) from error
    return shows
