"""The ways to alter a value in a member's data, by which a conformance suite tests its dumps."""

from __future__ import annotations

from dataclasses import dataclass

_IN_FILES = """
import glob, os, sys
program, folder, old, new, kind, pattern = sys.argv[1:]
if kind == "pickle":
    old, new = (b"\\x8a\\x06" + int(value).to_bytes(6, "little") for value in (old, new))
else:
    old, new = old.encode(), new.encode()
done = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        command = open("/proc/" + pid + "/cmdline").read().partition("\\0")[0]
    except OSError:
        continue
    if os.path.basename(command) != program or int(pid) == os.getpid():
        continue
    names = glob.glob("/proc/" + pid + "/root" + folder + "/" + pattern, recursive=True)
    for name in names:
        with open(name, "r+b") as file:
            data = file.read()
            found = data.count(old)
            if found:
                file.seek(0)
                file.write(data.replace(old, new))
                done += found
    if names:  # another container's process of that name has other files
        break
print(done)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A Python program that replaces one value by another in a member's files.

    It runs while the member's process is stopped, in the container that signals are sent from. Its
    arguments are the name of the process, the folder of the data, the old value and the new one,
    both of 15 digits, and `words`; it prints how many it replaced, 0 to be called again.
    """

    program: str
    words: tuple[str, ...] = ()


def in_texts(pattern: str) -> Alteration:
    """Returns the alteration of files in which values stand as text; `pattern` names them below
    the folder of the data.
    """
    return Alteration(program=_IN_FILES, words=("text", pattern))


def in_pickles(pattern: str) -> Alteration:
    """Returns the alteration of files that have values in Python's pickle format."""
    return Alteration(program=_IN_FILES, words=("pickle", pattern))
