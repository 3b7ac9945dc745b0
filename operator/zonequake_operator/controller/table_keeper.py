"""Keeps the status of all Tables: which zone each is in, and whether it holds data.

Events only wake it. It reads all tables every `resync_s` and writes a status only where it changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.api_server.table_resources import parse_table, render_table_status
from zonequake_operator.errors import KubeConflict, KubeError, KubeNotFound, ResourceError
from zonequake_operator.fleet.fleet import Fleet
from zonequake_operator.planning.tables import Table, TableStatus, filled_zones, judge
from zonequake_operator.resources.parsing import parse_zone
from zonequake_operator.resources.stored_shapes import Object

logger = logging.getLogger(__name__)

UNKNOWN_KIND_S = 60.0
"""The pause if the cluster has no kind Table: its definitions are older than the operator."""


class TableKeeper:
    """`run` never ends; `wake` makes it look at once."""

    def __init__(
        self, kube: NamespaceApi, fleet: Fleet, *, resync_s: float, wall_ms: Callable[[], int]
    ) -> None:
        self._kube = kube
        self._fleet = fleet
        self._resync_s = resync_s
        self._wall_ms = wall_ms
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Wakes the keeper: a table or zone came, went or changed."""
        self._wanted.set()

    async def run(self) -> None:
        """Round after round until cancelled; a failed round is logged and tried again."""
        await self._fleet.next_view(0, self._resync_s)  # before, no zone is known to hold nothing
        while True:
            self._wanted.clear()
            rest_s = self._resync_s
            try:
                await self.once()
            except KubeNotFound:
                logger.info("this cluster has no kind Table; looked for again in a minute")
                rest_s = UNKNOWN_KIND_S
            except KubeConflict as error:
                logger.info("tables: read again, %s", error)
                self._wanted.set()
            except KubeError as error:
                logger.warning("tables: tried again soon, %s", error)
            except Exception:
                # One unreadable table must not keep all others from being updated.
                logger.exception("tables: tried again soon")
            try:
                async with asyncio.timeout(rest_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def once(self) -> None:
        """Read all, write what changed. Raises KubeError."""
        raw_tables = await self._kube.list_tables()
        if not raw_tables:
            return
        zones, unreadable = {}, set()
        for raw in await self._kube.list_zones():
            name = raw["metadata"]["name"]
            try:
                zones[name] = parse_zone(raw)
            except ResourceError as error:
                unreadable.add(name)
                logger.warning("tables of this zone stay as they are: %s", error)
        filled = filled_zones(zones.values(), self._fleet.view.reports.values())
        for raw in raw_tables:
            try:
                table = parse_table(raw)
            except ResourceError as error:
                logger.warning("%s", error)
                continue
            if table.primary_zone in unreadable:
                continue
            status = judge(table, zones, filled)
            if status != table.status:
                await self._write(table, status, raw.get("status") or {})

    async def _write(self, table: Table, status: TableStatus, previous: Object) -> None:
        rendered = render_table_status(status, previous, self._wall_ms())
        try:
            await self._kube.write_status(
                "tables", "Table", table.name, table.resource_version, rendered
            )
        except KubeNotFound:
            logger.info("table %s is gone", table.name)
