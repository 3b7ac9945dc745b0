"""The program that alters a value in the files of a member, beside other containers' processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from zonequake_chaos.conformance.alteration import altered
from zonequake_chaos.kit.alteration import in_texts

VALUE = 100_000_000_000_001


def test_another_containers_process_of_that_name_is_passed_over(tmp_path: Path) -> None:
    for pid in range(1, 30):
        (tmp_path / str(pid) / "root" / "data").mkdir(parents=True)
        (tmp_path / str(pid) / "cmdline").write_text("/usr/bin/python\0server.py\0")
    file = tmp_path / "17" / "root" / "data" / "writes.jsonl"
    file.write_text(f"[{VALUE}]\n")
    alteration = in_texts("writes.jsonl")
    assert alteration.program.count('"/proc') == 3
    program = alteration.program.replace('"/proc', f'"{tmp_path}')
    words = ["python", "/data", str(VALUE), str(altered(VALUE)), *alteration.words]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert file.read_text() == f"[{altered(VALUE)}]\n"
