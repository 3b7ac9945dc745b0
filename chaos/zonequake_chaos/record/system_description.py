"""The words of `run.yaml` and the report about the system under test."""

from __future__ import annotations

import msgspec


class SystemDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The description of the system under test, for `run.yaml` and the report. `version` is the
    version that its members report once they run, each of them if they differ; `image` is empty if
    the release names it.
    """

    name: str
    version: str
    image: str = ""
