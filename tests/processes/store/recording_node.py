"""A real data node that writes down what comes in by its ports, a file for each connection.

    ZQ_RECORD=/some/folder python recording_node.py

Everything else is the node as it is shipped.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from weakref import WeakKeyDictionary

from zonequake_store.__main__ import main
from zonequake_store.network.framing import FrameConnection
from zonequake_store.network.transport import _Incoming
from zonequake_store.serving.client_server import ClientConnection

FOLDER = Path(os.environ["ZQ_RECORD"])
PORTS = {ClientConnection: "client", _Incoming: "peer"}
numbers = itertools.count()


def record() -> None:
    """Has every connection that comes in leave its bytes in a file."""
    as_shipped = FrameConnection.data_received
    files: WeakKeyDictionary[FrameConnection, Path] = WeakKeyDictionary()

    def data_received(self: FrameConnection, data: bytes) -> None:
        port = PORTS.get(type(self))
        if port is not None:
            if self not in files:
                files[self] = FOLDER / f"{port}-{os.getpid()}-{next(numbers)}"
            with files[self].open("ab") as file:
                file.write(data)
        as_shipped(self, data)

    FrameConnection.data_received = data_received  # type: ignore[method-assign]


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    record()
    sys.exit(main())
