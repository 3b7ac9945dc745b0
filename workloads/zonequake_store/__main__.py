"""`python -m zonequake_store`: one data node, with its settings from the environment."""

from __future__ import annotations

import logging
import os
import sys

import uvloop

from zonequake_protocol.exit_codes import USAGE_EXIT_CODE
from zonequake_store.errors import SettingsError, StoreError
from zonequake_store.node.app import Node
from zonequake_store.settings import settings_from
from zonequake_store.storage import crash_note


def main() -> int:
    """Run the node; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return uvloop.run(_run())
    except SettingsError as error:
        logging.critical("%s", error)
        return USAGE_EXIT_CODE
    except StoreError as error:
        logging.critical("%s", error)
        return 1


async def _run() -> int:
    settings = settings_from(os.environ)
    crash_note.arm(settings.data_dir)
    return await Node(settings).run()


if __name__ == "__main__":
    sys.exit(main())
