"""Processes that are forked with their imports done must be as those that Python starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_processes import PRELOADED, WarmProcess

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {"PATH": os.environ["PATH"], "SAID": "by the test"}


def started(tmp_path: Path, program: str, *words: str) -> tuple[WarmProcess, Path]:
    file, log = tmp_path / "program.py", tmp_path / "log"
    file.write_text(program)
    return WarmProcess((str(file), *words), ENVIRONMENT, log), log


def test_what_is_preloaded_is_imported_already(tmp_path: Path) -> None:
    program, log = tmp_path / "program.py", tmp_path / "log"
    program.write_text(f"import sys; print(set({PRELOADED!r}) - sys.modules.keys())")
    # In a process of its own: this one may have a server already, that of another test.
    starter = tmp_path / "starter.py"
    starter.write_text(
        "from pathlib import Path\nfrom tests.warm_processes import WarmProcess\n\n"
        "if __name__ == '__main__':\n"
        f"    process = WarmProcess(({str(program)!r},), {ENVIRONMENT!r}, Path({str(log)!r}))\n"
        "    raise SystemExit(process.wait(120))\n"
    )
    path = os.pathsep.join([str(ROOT), *sys.path])
    subprocess.run([sys.executable, starter], env={**os.environ, "PYTHONPATH": path}, check=True)
    assert log.read_text() == "set()\n"


def test_a_program_gets_its_words_environment_and_log(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv[1:], os.environ, file=sys.stderr); sys.exit(3)"
    process, log = started(tmp_path, program, "one", "two")
    assert process.wait(120) == 3
    assert process.poll() == 3
    assert log.read_text() == f"['one', 'two'] environ({ENVIRONMENT!r})\n"


def test_an_exception_is_printed_and_ends_it_with_1(tmp_path: Path) -> None:
    process, log = started(tmp_path, "raise KeyError('lost')")
    assert process.wait(120) == 1
    assert "KeyError: 'lost'" in log.read_text()


def test_a_module_is_run_as_the_main_one(tmp_path: Path) -> None:
    process = WarmProcess(("-m", "zonequake_store"), {}, tmp_path / "log")
    assert process.wait(120) != 0
    assert "ZQ_NODE" in (tmp_path / "log").read_text(), "it misses its settings"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_is_its_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    program = "import signal, time; signal.signal(2, signal.SIG_DFL); print(1, flush=True)\n"
    process, log = started(tmp_path, program + "time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    while not log.exists() or not log.read_text():
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait(120) == -number
    process.kill()  # nothing is left to be ended


def test_a_signal_may_come_when_it_has_ended_and_its_exit_code_is_not_told_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _ = started(tmp_path, "")
    assert process.wait(120) == 0
    monkeypatch.setattr(type(process._process), "exitcode", None)
    process.kill()


def test_a_library_that_comes_before_libc_is_loaded_by_a_server_of_its_own(tmp_path: Path) -> None:
    lines = Path("/proc/self/maps").read_text().splitlines()
    library = next(line.split()[-1] for line in lines if "/libc." in line)
    program, log = tmp_path / "program.py", tmp_path / "log"
    program.write_text(
        "import os; print(open(f'/proc/{os.getppid()}/environ').read().split('\\0'))"
    )
    for environment in (ENVIRONMENT, ENVIRONMENT | {"LD_PRELOAD": library}, ENVIRONMENT):
        log.write_text("")
        assert WarmProcess((str(program),), environment, log).wait(120) == 0
        assert (f"'LD_PRELOAD={library}'" in log.read_text()) == ("LD_PRELOAD" in environment)
    assert "LD_PRELOAD" not in os.environ
