"""Alters a value in a standby's files: waits for a checkpoint, then ends PostgreSQL before it."""

from __future__ import annotations

from zonequake_chaos.kit.alteration import Alteration

_PROGRAM = """
import glob, os, signal, sys, time
program, folder, old, new = sys.argv[1:]

def named(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open("/proc/" + pid + "/cmdline").read().split("\\0")
        except OSError:
            continue
        if os.path.basename(words[0]).partition(":")[0] == name and words != [""]:
            yield int(pid)

def holding(root):
    for name in glob.glob(root + folder + "/postgres/base/*/*"):
        if old.encode() in open(name, "rb").read():
            yield name

root = "/proc/%d/root" % next(named(program))
give_up = time.monotonic() + 8
while not (found := list(holding(root))) and time.monotonic() < give_up:
    time.sleep(0.5)
while found and (left := list(named("postgres"))):
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.1)
for name in found:
    data = open(name, "rb").read()
    with open(name, "r+b") as file:
        file.write(data.replace(old.encode(), new.encode()))
print(len(found))
"""

IN_PAGES = Alteration(program=_PROGRAM)
