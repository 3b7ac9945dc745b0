"""The operator with a planted fault that only a lost event shows: it trusts its watches.

    trusting_operator.py zones    reads a zone again only when an event says that it has changed
    trusting_operator.py pods     takes a pod to be there until an event says that it is deleted

So are operators built that decide from an index which events keep.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from zonequake_operator.__main__ import main
from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller.app import App

NEVER_S = 3600.0


def keep_an_index() -> None:
    """Of pods: what was ever listed stays, but for an event of its deletion."""
    index: dict[str, Any] = {}
    listed, changed = NamespaceApi.list_pods, App.pod_changed

    async def list_pods(kube: NamespaceApi) -> list[Any]:
        index.update({pod["metadata"]["name"]: pod for pod in await listed(kube)})
        return list(index.values())

    async def pod_changed(app: App, *, name: str, event: Any, **kwargs: Any) -> None:
        if event["type"] == "DELETED":
            index.pop(name, None)
        await changed(app, name=name, event=event, **kwargs)

    NamespaceApi.list_pods = list_pods  # type: ignore[method-assign,assignment]
    App.pod_changed = pod_changed  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if sys.argv[1] == "zones":
        os.environ["ZQ_RESYNC_S"] = str(NEVER_S)
    else:
        keep_an_index()
    main()
