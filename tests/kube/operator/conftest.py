"""Every test of a worker shares one API server, in a namespace of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.operator.api_server import UNVERIFIED, ApiServer, running
from tests.kube.operator.audit_log import lacking
from tests.kube.operator.machine import Machine
from tests.kube.operator.relay import Relay
from tests.kube.operator.severed import Line

NAMESPACE_LENGTH = 60
WITHOUT_RIGHTS = "test-a-right"
"""Namespaces in which rights are missing on purpose begin so."""


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api-server")
    with running(folder) as server:
        yield server
        # All operators and data nodes of the group run under the chart's accounts.
        refused = {r for r in lacking(folder) if not r.namespace.startswith(WITHOUT_RIGHTS)}
    assert refused == set(), "the chart's accounts lack these rights"


@pytest.fixture
def machine(
    api_server: ApiServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Machine]:
    """In a namespace that is named after the test; its processes end with it."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:NAMESPACE_LENGTH].strip("-")
    found = Machine(api_server.in_namespace(name), tmp_path)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def loop(api_server: ApiServer) -> Iterator[Relay]:
    """A relay for its loop alone, in which clients run: none speaks through it."""
    found = Relay(api_server.url, api_server.token, UNVERIFIED)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def line(api_server: ApiServer) -> Iterator[Line]:
    """To the API server; it can be cut."""
    found = Line(api_server.url)
    try:
        yield found
    finally:
        found.close()
