"""Alters a value in a standby's files, and ends PostgreSQL before.

It waits until a checkpoint has ended that began after the page's last change: a start from an older
one would write the page again, from the log. The place of a change is at the head of its page
(`PageHeaderData.pd_lsn`), the checkpoint's in `global/pg_control` (`CheckPoint.redo`).
"""

from __future__ import annotations

from zonequake_chaos.kit.alteration import Alteration

HOLDING = """
import pathlib, struct

def holding(cluster, old):
    cluster = pathlib.Path(cluster)
    (redo,) = struct.unpack_from("<Q", (cluster / "global/pg_control").read_bytes(), 40)
    for file in cluster.glob("base/*/*"):
        data = file.read_bytes()
        at = data.find(old.encode())
        if at >= 0:
            high, low = struct.unpack_from("<II", data, at // 8192 * 8192)
            if (high << 32 | low) <= redo:
                yield file
"""
"""Finds the files of a cluster that have the value where a start leaves it."""

_PROGRAM = f"""
import os, signal, sys, time
{HOLDING}
program, folder, old, new = sys.argv[1:]

def named(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open("/proc/" + pid + "/cmdline").read().split("\\0")
        except OSError:
            continue
        if os.path.basename(words[0]).partition(":")[0] == name and words != [""]:
            yield int(pid)

root = "/proc/%d/root" % next(named(program))
give_up = time.monotonic() + 8
while not (found := list(holding(root + folder + "/postgres", old))) and time.monotonic() < give_up:
    time.sleep(0.5)
while found and (left := list(named("postgres"))):
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.1)
for file in found:
    data = file.read_bytes()
    with file.open("r+b") as out:
        out.write(data.replace(old.encode(), new.encode()))
print(len(found))
"""

IN_PAGES = Alteration(program=_PROGRAM)
