"""Alters a value in a data node's files: in the cells on disk, with the checksum that it needs."""

from __future__ import annotations

from zonequake_chaos.kit.alteration import Alteration

_PROGRAM = """
import os, signal, sys
import lmdb
from zonequake_store.state.encoding import CELL
from zonequake_store.state.partition import Cell, decode_cell, encode_cell
from zonequake_store.storage.checksums import content, seal

def leave(*_):
    print(0, flush=True)
    os._exit(0)

signal.signal(signal.SIGALRM, leave)
signal.alarm(5)  # the process was stopped within a commit, which it has to end itself
_, folder, old, new = sys.argv[1:]
done = 0
with lmdb.open(folder + "/data", max_readers=1024) as cells, cells.begin(write=True) as change:
    for key, sealed in list(change.cursor()):
        if key[8:9] != CELL:
            continue
        cell = decode_cell(content(sealed))
        if cell.value == int(old):
            other = encode_cell(Cell(int(new), cell.index, cell.filler))
            change.put(key, seal(key, other))
            done += 1
print(done)
"""

CELLS = Alteration(program=_PROGRAM)
