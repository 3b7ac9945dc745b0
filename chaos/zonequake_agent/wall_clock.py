"""Steps the wall clock of single processes, in their own memory.

The machine's wall clock has no namespace: setting it would step it for all processes. A process
reads it through the vDSO, two pages that the kernel maps into each process; a write through
/proc/PID/mem gives that process its own copy of them (as Chaos Mesh does). After the vDSO's code
there is room for three small functions, which call the kernel and add the step to its wall clock
time; the first 8 bytes of the vDSO's own functions, aligned and written at once, become jumps:

    clock_gettime:  jmp ─┐      … the kernel's code, unreachable now …
                         └────► mov 228, eax; syscall; REALTIME? add the step; ret

The monotonic clock is unchanged. A restarted process has the kernel's pages again. Not covered:
system calls that bypass the vDSO, and kernel timers.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from pathlib import Path

MACHINE = "x86_64"

_JUMP = 5
"""Bytes of a jump: an opcode and a distance."""

_ENTRY = 8
"""Bytes replaced at a function's entry: as many as the kernel writes at once."""

_SLOT = 64
"""Bytes for one of our functions."""

_MOVE = 2
"""Bytes of `mov` to a register of 64 bits, before the value."""

_SHT_DYNSYM = 11

_HEADER_BYTES = 1024
"""The part of a vDSO that is compared: headers and symbols, and none of what is changed here."""


def _clock_gettime(step_s: int) -> bytes:
    """Returns code that steps the clocks REALTIME, REALTIME_COARSE and TAI."""
    add = b"\x48\xb9" + struct.pack("<q", step_s) + b"\x48\x01\x0e"  # rcx = step; [rsi] += rcx
    is_wall = b"\x85\xff\x74\x0a\x83\xff\x05\x74\x05\x83\xff\x0b\x75" + bytes([len(add)])
    then = is_wall + add
    return _call(228) + b"\x85\xc0\x75" + bytes([len(then)]) + then + b"\xc3"


def _gettimeofday(step_s: int) -> bytes:
    add = b"\x48\xb9" + struct.pack("<q", step_s) + b"\x48\x01\x0f"  # rcx = step; [rdi] += rcx
    then = b"\x48\x85\xff\x74" + bytes([len(add)]) + add
    return _call(96) + b"\x85\xc0\x75" + bytes([len(then)]) + then + b"\xc3"


def _time(step_s: int) -> bytes:
    add = b"\x48\xb9" + struct.pack("<q", step_s) + b"\x48\x01\xc8"  # rcx = step; rax += rcx
    return _call(201) + add + b"\x48\x85\xff\x74\x03\x48\x89\x07\xc3"


def _call(number: int) -> bytes:
    return b"\xb8" + struct.pack("<I", number) + b"\x0f\x05"  # eax = number; syscall


_FUNCTIONS = {
    "__vdso_clock_gettime": _clock_gettime,
    "__vdso_gettimeofday": _gettimeofday,
    "__vdso_time": _time,
}


class ClockUnreachable(Exception):
    """Raised when a process's clock can't be stepped; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """The offset of a process's wall clock in seconds; 0 for the machine's clock."""

    pid: int
    step_s: int


def vdso_of(pid: int | str) -> tuple[int, bytes]:
    """Returns the address of a process's vDSO, and its content."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            begin, _, end = line.split()[0].partition("-")
            address = int(begin, 16)
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(address)
                return address, memory.read(int(end, 16) - address)
    raise ClockUnreachable(
        f"process {pid} has no vDSO, expected one: leave out clock steps of this process"
    )


def functions_in(vdso: bytes) -> dict[str, int]:
    """Returns the offsets of the functions that read the wall clock, by name."""
    sections, width, count = (
        struct.unpack_from("<Q", vdso, 40)[0],
        *struct.unpack_from("<HH", vdso, 58),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", vdso, sections + n * width) for n in range(count)]
    symbols = next(header for header in headers if header[1] == _SHT_DYNSYM)
    names = headers[symbols[6]][4]
    found = {}
    for offset in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", vdso, offset)
        text = vdso[names + name : vdso.index(b"\0", names + name)].decode()
        if text in _FUNCTIONS:
            found[text] = value
    return found


def patches(vdso: bytes, step_s: int) -> list[tuple[int, bytes]]:
    """Returns the patches (offset, bytes) in this order: our functions, then the jumps to them."""
    functions = functions_in(vdso)
    if set(functions) != set(_FUNCTIONS) or any(at % _ENTRY for at in functions.values()):
        raise ClockUnreachable(
            f"expected the vDSO functions {sorted(_FUNCTIONS)}, aligned to {_ENTRY} bytes, found "
            f"{functions}: leave out clock steps on this node"
        )
    room = -(-len(vdso.rstrip(b"\0")) // 16) * 16
    if room + _SLOT * len(functions) > len(vdso):
        raise ClockUnreachable(
            "this kernel's vDSO has no room after its code: leave out clock steps on this node"
        )
    bodies, jumps = [], []
    for number, (name, at) in enumerate(sorted(functions.items())):
        slot = room + number * _SLOT
        bodies.append((slot, _FUNCTIONS[name](step_s).ljust(_SLOT, b"\xcc")))
        jump = b"\xe9" + struct.pack("<i", slot - at - _JUMP)
        jumps.append((at, jump + vdso[at + _JUMP : at + _ENTRY]))
    return bodies + jumps


def pristine(vdso: bytes) -> list[tuple[int, bytes]]:
    """Returns the functions' original entries (offset, bytes), as the kernel made them."""
    return [(at, vdso[at : at + _ENTRY]) for at in functions_in(vdso).values()]


def _write(pid: int | str, writes: list[tuple[int, bytes]]) -> None:
    """Writes into a process's vDSO."""
    address, _ = vdso_of(pid)
    with open(f"/proc/{pid}/mem", "wb", buffering=0) as memory:
        for offset, content in writes:
            memory.seek(address + offset)
            memory.write(content)


def step(pid: int, step_s: int) -> ClockOffset:
    """Offsets the process's wall clock by `step_s` seconds from the machine's; 0 restores it.

    Raises ClockUnreachable, FileNotFoundError or ProcessLookupError if it has ended.
    """
    own, _ = _both(pid)
    # Restore the kernel's code first: no thread may jump into a half-written function.
    _write(pid, pristine(own))
    if step_s:
        _write(pid, patches(own, step_s))
    return ClockOffset(pid=pid, step_s=step_s)


def is_stepped(pid: int) -> bool:
    """Returns whether any of the process's clock functions is replaced; False if the process has
    ended, or if its clock can't be stepped.
    """
    try:
        own, found = _both(pid)
    except (ClockUnreachable, FileNotFoundError, ProcessLookupError):
        return False
    return any(found[at : at + _ENTRY] != entry for at, entry in pristine(own))


def _both(pid: int) -> tuple[bytes, bytes]:
    """Returns the vDSO of this program and that of the process. Raises ClockUnreachable if the
    machine is no x86_64, or if the process runs under another kernel."""
    if platform.machine() != MACHINE:
        raise ClockUnreachable(
            f"found machine {platform.machine()}, expected {MACHINE}: leave out clock steps here"
        )
    own, found = vdso_of("self")[1], vdso_of(pid)[1]
    if found[:_HEADER_BYTES] != own[:_HEADER_BYTES]:
        raise ClockUnreachable(
            f"found another kernel at process {pid} than the agent's: leave out clock steps there"
        )
    return own, found


def step_of(pid: int) -> ClockOffset:
    """Returns the current offset of the process's wall clock. Raises as `step`."""
    own, found = _both(pid)
    at = functions_in(own)["__vdso_time"]
    if found[at : at + _ENTRY] == own[at : at + _ENTRY]:
        return ClockOffset(pid=pid, step_s=0)
    slot = at + _JUMP + struct.unpack_from("<i", found, at + 1)[0]
    written = len(_call(201)) + _MOVE
    return ClockOffset(pid=pid, step_s=struct.unpack_from("<q", found, slot + written)[0])
