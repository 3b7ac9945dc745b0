"""The operator, for which a node that hangs does so for a minute instead of a second."""

from __future__ import annotations

import runpy

from zonequake_operator.fleet import store_client

HANGS_S = 60.0

if __name__ == "__main__":
    store_client.REPORT_TIMEOUT_S = HANGS_S
    runpy.run_module("zonequake_operator", run_name="__main__", alter_sys=True)
