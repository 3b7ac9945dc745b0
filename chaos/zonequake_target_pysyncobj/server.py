"""The system under test: a store of keys on pysyncobj, whose members take requests over HTTP.

It runs in the members' containers, beside the library, with nothing else but Python's standard
library. Reads are entries of the log, as writes are: a member's own state may be old.
"""

import argparse
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, SyncObjConsumer, replicated
from pysyncobj.version import VERSION

CERTAIN = {
    FAIL_REASON.QUEUE_FULL,
    FAIL_REASON.MISSING_LEADER,
    FAIL_REASON.NOT_LEADER,
    FAIL_REASON.REQUEST_DENIED,
}
"""Reasons that are told in place of appending a command to a log."""

WAIT_S = 10.0
LEADER = 2
"""The library's number of that state."""


class Keys(SyncObjConsumer):
    """All keys, each with its value and the place of its last write in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, tuple[Any, int]] = {}

    @replicated
    def execute(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Applies one entry; `index` is its place in the log of this member."""
        index = self._syncObj.raftLastApplied + 1
        held, _ = self.keys.get(asked["key"], (None, 0))
        applied = asked["f"] != "cas" or held == asked["expected"]
        if asked["f"] != "read" and applied:
            value = asked["value"]
            value = [*(held or []), value] if asked["f"] == "append" else value
            self.keys[asked["key"]] = value, index
        return {"value": held, "applied": applied, "index": index}


def settings_of(own: str, folder: Path, conf: dict[str, Any]) -> SyncObjConf:
    """Returns the library's settings of the member at `own`; fields of `conf` win."""
    given = {
        "bindAddress": f"0.0.0.0:{own.rpartition(':')[2]}",
        "journalFile": str(folder / "journal"),
        "fullDumpFile": str(folder / "dump"),
        "commandsWaitLeader": False,
        "appendEntriesUseBatch": False,
        "connectionRetryTime": 1.0,
        "dnsCacheTime": 1.0,  # pods come back with other addresses
        "dnsFailCacheTime": 1.0,
    }
    return SyncObjConf(**(given | conf))


class Member:
    """One member, its journal and its dump in `folder`; `name` is the one of its pod."""

    def __init__(
        self, name: str, own: str, others: list[str], folder: Path, conf: dict[str, Any]
    ) -> None:
        self.name = name
        identity = folder / "identity"
        if not identity.exists():
            identity.write_text(uuid.uuid4().hex)
        self.identity = identity.read_text()
        self.keys = Keys()
        settings = settings_of(own, folder, conf)
        self.raft = SyncObj(own, others, settings, consumers=[self.keys])

    def execute(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer, or `error` and whether it is certain that nothing happened."""
        if asked.get("local"):
            held, _ = self.keys.keys.get(asked["key"], (None, 0))
            return {"value": held, "applied": True}
        told: list[tuple[Any, int]] = []
        ended = threading.Event()

        def tell(result: Any, reason: int) -> None:  # noqa: ANN401 - whatever was applied
            told.append((result, reason))
            ended.set()

        self.keys.execute(asked, callback=tell)
        if not ended.wait(WAIT_S):
            return {"error": "no answer in time", "certain": False}
        result, reason = told[0]
        if reason != FAIL_REASON.SUCCESS:
            return {"error": f"failed for reason {reason}", "certain": reason in CERTAIN}
        answer: dict[str, Any] = result
        return answer

    def status(self) -> dict[str, Any]:
        said = self.raft.getStatus()
        return {
            "version": VERSION,
            "identity": self.identity,
            "state": said["state"],
            "leads": said["state"] == LEADER,
            "knows_leader": said["leader"] is not None,
            "term": said["raft_term"],
            "applied": said["last_applied"],
            "commit": said["commit_idx"],
        }

    def dump(self) -> dict[str, Any]:
        """Returns all keys at one place."""
        while True:
            before = self.status()
            keys = sorted([key, *rest] for key, rest in list(self.keys.keys.items()))
            if self.raft.raftLastApplied == before["applied"]:
                return {**before, "keys": keys}


def handler_of(member: Member) -> type[BaseHTTPRequestHandler]:
    class MemberHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(member.dump() if self.path == "/dump" else member.status())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer({**member.execute(json.loads(body)), "node": member.name})

        def _answer(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Logs no request."""

    return MemberHandler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--own", required=True, metavar="HOST:PORT")
    parser.add_argument("--others", nargs="*", default=[], metavar="HOST:PORT")
    parser.add_argument("--conf", type=json.loads, default={}, help="fields of SyncObjConf")
    given = parser.parse_args()
    member = Member(given.name, given.own, given.others, given.folder, given.conf)
    ThreadingHTTPServer(("", given.port), handler_of(member)).serve_forever()


if __name__ == "__main__":
    main()
