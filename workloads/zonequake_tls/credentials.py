"""A process's certificate, key and trusted authorities, read again when their files change.

The kubelet replaces all files of a mounted Secret at once, by a link (`..data`). A change is looked
for when a connection begins and when metrics are read, at most once a second: no watcher has to be
kept alive. Files that can't be used leave what was loaded before in use, with a line in the log
and a metric.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zonequake_tls.certificate_check import ExaminingContext, context_for
from zonequake_tls.identity import TlsRole, allowed_by, identity_of
from zonequake_tls.settings import TlsSettings

_log = logging.getLogger("zonequake_tls")

CHECK_S = 1.0
_FILES = ("tls.crt", "tls.key", "ca.crt")


class UnusableCredentials(Exception):
    """Raised when certificate files cannot be used; names the files and the reason."""


@dataclass(slots=True, kw_only=True)
class _Loaded:
    folder: Path
    authorities: str
    start_s: float
    expiry_s: float
    contexts: dict[tuple[int, frozenset[str]], ExaminingContext] = field(default_factory=dict)


class Credentials:
    """The credentials of one process. Raises UnusableCredentials when made, and never later.

    The first context for a set of identities raises OSError while the files can't be used.
    """

    def __init__(
        self,
        settings: TlsSettings,
        role: TlsRole,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.role = role
        self.identity = identity_of(role, settings.domain)
        self.problem: str | None = None
        self._monotonic_s = monotonic_s
        self._checked_s = self._loaded_s = monotonic_s()
        self._signature = self._sign()
        own = frozenset([self.identity])
        # Made of each version at once: its files may be gone by the time that one is asked for.
        self._wanted: set[tuple[int, frozenset[str]]] = {
            (ssl.PROTOCOL_TLS_SERVER, own),
            (ssl.PROTOCOL_TLS_CLIENT, own),
        }
        self._loaded = self._load()

    @property
    def expiry_s(self) -> float:
        """The end of the certificate's validity, unix seconds."""
        self._refresh()
        return self._loaded.expiry_s

    @property
    def start_s(self) -> float:
        """The start of the certificate's validity, unix seconds."""
        return self._loaded.start_s

    @property
    def trust(self) -> str:
        """Names the authorities that are trusted, all of them together."""
        return trust_of(self._loaded.authorities.encode())

    def for_accepting(self, *words: str) -> ssl.SSLContext:
        """For a connection that is accepted now, from roles or identities."""
        return self._context(ssl.PROTOCOL_TLS_SERVER, allowed_by(words, self.settings.domain))

    def for_connecting(self, role: TlsRole) -> ssl.SSLContext:
        """For a connection that is opened now, to a role of the release."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT, allowed_by([role], self.settings.domain))

    def name_of(self, role: TlsRole) -> str:
        """Returns the name by which a role is reached (`server_hostname`)."""
        return identity_of(role, self.settings.domain)

    def _context(self, protocol: int, allowed: frozenset[str]) -> ssl.SSLContext:
        self._refresh()
        loaded = self._loaded
        self._wanted.add((protocol, allowed))
        context = loaded.contexts.get((protocol, allowed))
        if context is None:
            try:
                context = _context_of(loaded.folder, loaded.authorities, protocol, allowed)
            except OSError:
                # Replaced in this moment: the next refresh reads the new ones.
                self._checked_s = float("-inf")
                self._refresh()
                loaded = self._loaded
                context = _context_of(loaded.folder, loaded.authorities, protocol, allowed)
            loaded.contexts[protocol, allowed] = context
        return context

    def _refresh(self) -> None:
        now_s = self._monotonic_s()
        if now_s - self._checked_s < CHECK_S:
            return
        self._checked_s = now_s
        signature = self._sign()
        same = signature == self._signature
        # Contexts are made again now and then: callers that keep connections by their context renew
        # them.
        lasts = now_s - self._loaded_s < self.settings.renew_s
        if same and lasts and self.problem is None:
            return
        try:
            self._loaded = self._load()
        except UnusableCredentials as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error(
                    "the certificate in use stays, because the new one can't be used: %s", error
                )
            return
        self._signature, self._loaded_s, self.problem = signature, now_s, None
        if not same:
            _log.info(
                "%s has read its new files; its certificate expires on %s",
                self.identity,
                time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._loaded.expiry_s)),
            )

    def _sign(self) -> tuple[tuple[int, int, int], ...]:
        """Returns what differs as soon as a file is another one."""
        signs = []
        for name in _FILES:
            try:
                found = (self.settings.directory / name).stat()
                signs.append((found.st_ino, found.st_mtime_ns, found.st_size))
            except OSError:
                signs.append((0, 0, 0))
        return tuple(signs)

    def _load(self) -> _Loaded:
        directory = self.settings.directory
        own = frozenset([self.identity])
        try:
            # All files of one version, also while the kubelet puts the next one in place.
            folder = (directory / "..data").resolve(strict=True)
        except OSError:
            folder = directory
        try:
            authorities = (folder / "ca.crt").read_text()
            contexts = {
                (protocol, allowed): _context_of(folder, authorities, protocol, allowed)
                for protocol, allowed in self._wanted
            }
            shown = _proved(
                contexts[ssl.PROTOCOL_TLS_SERVER, own],
                contexts[ssl.PROTOCOL_TLS_CLIENT, own],
                self.identity,
            )
        except (OSError, ValueError) as error:
            raise UnusableCredentials(
                f"{', '.join(_FILES)} in {directory} can't be used as {self.identity}: {error}; "
                "expected a certificate of that DNS name for servers and clients, its key, and "
                "the authorities, among them its own"
            ) from error
        return _Loaded(
            folder=folder,
            authorities=authorities,
            start_s=ssl.cert_time_to_seconds(str(shown["notBefore"])),
            expiry_s=ssl.cert_time_to_seconds(str(shown["notAfter"])),
            contexts=contexts,
        )


def trust_of(authorities: bytes) -> str:
    """Returns a name for the content of a `ca.crt`."""
    return hashlib.sha256(authorities).hexdigest()[:16]


def _context_of(
    folder: Path, authorities: str, protocol: int, allowed: frozenset[str]
) -> ExaminingContext:
    return context_for(
        protocol,
        certificate=folder / "tls.crt",
        key=folder / "tls.key",
        authorities=authorities,
        allowed=allowed,
    )


def _proved(
    server: ExaminingContext, client: ExaminingContext, identity: str
) -> Mapping[str, object]:
    """Returns the certificate's content, after a handshake with itself in memory: what others would
    refuse is not put to use. Raises ssl.SSLError.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.wrap_bio(to_client, to_server, server_hostname=identity)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    done = {calling: False, answering: False}
    while not all(done.values()):
        for side in done:
            if not done[side]:
                try:
                    side.do_handshake()
                    done[side] = True
                except ssl.SSLWantReadError:
                    pass
    shown = calling.getpeercert()
    assert shown is not None, "a server's certificate is always verified here"
    return shown
