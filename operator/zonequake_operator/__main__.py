"""`python -m zonequake_operator`; its environment stands in docs/operator.md."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys

import kopf

from .app import HTTP_PORT, App, Options
from .model import DEFAULT_RETRY_THRESHOLD

DEFAULT_RESYNC_S = "5"
DEFAULT_VIEW_PERIOD_S = "5"


def main() -> None:
    """Run until SIGTERM."""
    logging.basicConfig(
        level=os.environ.get("ZQ_LOG_LEVEL", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        options = Options(
            namespace=os.environ["ZQ_NAMESPACE"],
            release=os.environ["ZQ_RELEASE"],
            resync_s=float(os.environ.get("ZQ_RESYNC_S", DEFAULT_RESYNC_S)),
            view_period_s=float(os.environ.get("ZQ_VIEW_PERIOD_S", DEFAULT_VIEW_PERIOD_S)),
            http_port=int(os.environ.get("ZQ_HTTP_PORT", str(HTTP_PORT))),
            retry_threshold=int(os.environ.get("ZQ_RETRY_THRESHOLD", str(DEFAULT_RETRY_THRESHOLD))),
        )
    except KeyError as error:
        sys.exit(f"found no {error.args[0]} in the environment; set it to the release's own")
    except ValueError as error:
        sys.exit(
            "ZQ_RESYNC_S, ZQ_VIEW_PERIOD_S, ZQ_HTTP_PORT or ZQ_RETRY_THRESHOLD: "
            f"{error}; expected a number"
        )
    # Else kopf asks who the user is, and in a container its uid has no name.
    os.environ.setdefault("POD_ID", socket.gethostname())
    app = App(options)
    asyncio.run(
        kopf.operator(registry=app.registry, namespaces=[options.namespace], standalone=True)
    )


if __name__ == "__main__":
    main()
