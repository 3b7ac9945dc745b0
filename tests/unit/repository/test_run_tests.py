from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run_tests(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # The sessions that these tests begin need no plugin, and load faster without.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return importlib.import_module("scripts.run_tests")


def fixture_group(run_tests: ModuleType, folder: Path, source: str) -> Any:
    (folder / "test_one.py").write_text(source)
    return run_tests.Group(name="one", folder=str(folder))


def test_a_group_that_passes_counts_its_tests(run_tests: ModuleType, tmp_path: Path) -> None:
    group = fixture_group(run_tests, tmp_path, "def test_a(): pass\ndef test_b(): pass\n")
    outcome = run_tests.run_group(group)
    assert (outcome.tests, outcome.problem) == (2, "")


def test_a_failing_test_fails_its_group(run_tests: ModuleType, tmp_path: Path) -> None:
    outcome = run_tests.run_group(fixture_group(run_tests, tmp_path, "def test_a(): assert 0\n"))
    assert outcome.problem == "FAILED: pytest ended with 1"


def test_a_group_without_folder_or_tests_fails(run_tests: ModuleType, tmp_path: Path) -> None:
    missing = run_tests.Group(name="one", folder=str(tmp_path / "nowhere"))
    assert "there is no folder" in run_tests.run_group(missing).problem
    empty = fixture_group(run_tests, tmp_path, "")
    assert run_tests.run_group(empty).problem == "FAILED: pytest ended with 5"


def test_processes_of_a_group_keep_what_python_compiled(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    source = "import sys\ndef test_a(): assert not sys.dont_write_bytecode\n"
    outcome = run_tests.run_group(fixture_group(run_tests, tmp_path, source))
    assert (outcome.tests, outcome.problem) == (1, "")


def test_too_little_room_for_a_cold_run_is_warned_of_first(
    run_tests: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def usage(_: object) -> SimpleNamespace:
        return SimpleNamespace(free=run_tests.COLD_RUN_BYTES - 2**30)

    monkeypatch.setattr(run_tests.shutil, "disk_usage", usage)
    monkeypatch.setattr(run_tests, "run_groups", lambda _: [])
    assert run_tests.main([]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("warning: 15.0 GiB are free on the file system of ")
    assert "a cold run needs 16" in first
    assert run_tests.little_room(run_tests.COLD_RUN_BYTES) == ""


def test_tests_follow_their_groups_commands_if_those_end_well(
    run_tests: ModuleType, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    source = f"from pathlib import Path\ndef test_a(): assert Path({str(made)!r}).exists()\n"
    group = fixture_group(run_tests, tmp_path, source)
    makes = ("python", "-c", f"open({str(made)!r}, 'w')")
    ended_well = run_tests.run_group(replace(group, commands=(makes,)))
    assert (ended_well.tests, ended_well.problem) == (1, "")
    broken = run_tests.run_group(replace(group, commands=(("python", "-c", "raise 0"),)))
    assert (broken.tests, broken.problem) == (0, "FAILED: python -c raise 0")


def test_in_ci_a_skipped_test_needs_a_written_reason(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import pytest\ndef test_a(): pytest.skip('no such kernel')\ndef test_b(): pass\n"
    group = fixture_group(run_tests, tmp_path, source)
    monkeypatch.delenv("CI", raising=False)
    assert run_tests.run_group(group).problem == ""
    monkeypatch.setenv("CI", "true")
    assert run_tests.run_group(group).problem.endswith("for instance: no such kernel")
    page = tmp_path / "testing.md"
    page.write_text("## Tests that may be skipped\n\n| `no such kernel` | it is old |\n")
    monkeypatch.setattr(run_tests, "ALLOWED_SKIPS_PAGE", page)
    assert run_tests.run_group(group).problem == ""


def test_a_group_of_skipped_tests_alone_fails(run_tests: ModuleType, tmp_path: Path) -> None:
    source = "import pytest\ndef test_a(): pytest.skip('no')\n"
    outcome = run_tests.run_group(fixture_group(run_tests, tmp_path, source))
    assert outcome.problem == "FAILED: no test ran"


def test_a_group_over_its_limit_is_stopped_with_its_children(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    source = (
        "import pathlib, subprocess, time\n"
        "def test_a():\n"
        "    child = subprocess.Popen(['sleep', '300'])\n"
        f"    pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "    time.sleep(300)\n"
    )
    (tmp_path / "test_one.py").write_text(source)

    def monotonic() -> float:
        """The limit comes once the child is there, however long that takes."""
        begun = pid_file.exists() and pid_file.read_text()
        return time.monotonic() + (2000.0 if begun else 0.0)

    monkeypatch.setattr(run_tests, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    group = run_tests.Group(name="one", folder=str(tmp_path), limit_s=1000)
    outcome = run_tests.run_group(group)
    assert outcome.problem == "FAILED: pytest ended with 124"
    stat = Path(f"/proc/{pid_file.read_text()}/stat")
    while runs(stat):
        time.sleep(0.01)


def runs(stat: Path) -> bool:
    """Whether the process of this file has not ended; what was killed ends when it has its turn."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_unknown_group_is_wrong_usage(run_tests: ModuleType) -> None:
    assert run_tests.main(["unti"]) == 254


@pytest.mark.parametrize("variable", ["GROUPS", "LONG_GROUPS"])
def test_every_group_is_a_make_target(run_tests: ModuleType, variable: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    [line] = [line for line in makefile.splitlines() if line.startswith(f"{variable} :=")]
    assert line.split()[2:] == [group.name for group in getattr(run_tests, variable)]


def test_all_runs_the_long_sweeps_behind_the_groups_of_make_test(
    run_tests: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run_group(group: object, **_: object) -> object:
        ran.append(group.name)  # type: ignore[attr-defined]
        problem = "FAILED: so it is meant" if ran[-1] == "hunt" else ""
        return run_tests.Outcome(name=ran[-1], duration_s=0.0, tests=1, problem=problem)

    monkeypatch.setattr(run_tests, "run_group", run_group)
    assert run_tests.main([]) == 0
    every_day = {group.name for group in run_tests.GROUPS}
    assert sorted(ran) == sorted(every_day)
    ran.clear()
    assert run_tests.main(["--all"]) == 1
    assert set(ran[: len(every_day)]) == every_day
    assert ran[len(every_day) :] == [group.name for group in run_tests.LONG_GROUPS]


def command(run_tests: ModuleType, name: str, lane: str, script: str, **more: object) -> object:
    lane = run_tests.Lane(lane)
    commands = (("python", "-c", script),)
    return run_tests.Group(name=name, lane=lane, commands=commands, limit_s=500, **more)


MEET = """
import pathlib, sys, time
print("{own} begins", flush=True)
pathlib.Path("{folder}/{own}").touch()
while not pathlib.Path("{folder}/{other}").exists():
    time.sleep(0.01)
print("{own} ends")
"""


def test_groups_of_all_lanes_run_at_once_and_their_output_is_not_mixed(
    run_tests: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    groups = [
        command(run_tests, own, lane, MEET.format(folder=tmp_path, own=own, other=other))
        for own, other, lane in (("a", "b", "computes"), ("b", "c", "waits"), ("c", "a", "others"))
    ]
    outcomes = run_tests.run_groups(groups)
    assert [(each.name, each.problem) for each in outcomes] == [("a", ""), ("b", ""), ("c", "")]
    told = [line for line in capfd.readouterr().out.splitlines() if line.endswith(("ins", "nds"))]
    assert [line.split()[1] for line in told] == ["begins", "ends"] * 3
    assert all(begins[0] == ends[0] for begins, ends in zip(told[::2], told[1::2], strict=True))


def test_a_lane_that_has_ended_helps_those_that_compute_and_not_the_one_that_waits(
    run_tests: ModuleType, tmp_path: Path
) -> None:
    def meeting(own: str, other: str, lane: str) -> object:
        return command(run_tests, own, lane, MEET.format(folder=tmp_path, own=own, other=other))

    helped = [meeting("a", "b", "others"), meeting("b", "a", "others")]
    helper = [command(run_tests, "c", "computes", "")]
    assert [each.problem for each in run_tests.run_groups([*helped, *helper])] == [""] * 3

    log = tmp_path / "log"
    script = f"import time; log = open({str(log)!r}, 'a'); log.write('<'); log.flush()"
    script += "; time.sleep(0.3); log.write('>')"
    waiting = [command(run_tests, name, "waits", script) for name in "de"]
    assert [each.problem for each in run_tests.run_groups([*waiting, *helper])] == [""] * 3
    assert log.read_text() == "<><>", "they measure times, and would disturb each other"


def test_a_group_begins_once_the_groups_that_it_needs_have_ended(
    run_tests: ModuleType, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    slow = f"import pathlib, time; time.sleep(0.5); pathlib.Path({str(there)!r}).touch(); raise 0"
    outcomes = run_tests.run_groups(
        [
            command(run_tests, "slow", "computes", slow),
            command(run_tests, "next", "waits", f"open({str(there)!r})", needs=("slow",)),
        ]
    )
    assert outcomes[0].problem.startswith("FAILED"), "one that failed has ended, too"
    assert outcomes[1].problem == ""


def test_what_computes_gives_way_to_what_waits(run_tests: ModuleType, tmp_path: Path) -> None:
    nice = "import os, sys; sys.exit(os.nice(0) - {expected})"
    own = os.nice(0)
    assert {"programs", "images"} == run_tests.AWAITED
    outcomes = run_tests.run_groups(
        [
            command(run_tests, "a", "computes", nice.format(expected=min(own + 10, 19))),
            command(run_tests, "programs", "others", nice.format(expected=min(own + 5, 19))),
            command(run_tests, "b", "others", nice.format(expected=min(own + 10, 19))),
            command(run_tests, "c", "servers", nice.format(expected=min(own + 10, 19))),
            command(run_tests, "d", "waits", nice.format(expected=own)),
        ]
    )
    assert [each.problem for each in outcomes] == [""] * 5


def test_what_a_group_and_its_children_computed_is_counted(run_tests: ModuleType) -> None:
    burn = "import time\nwhile time.process_time() < 0.6: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    outcome = run_tests.run_group(command(run_tests, "a", "waits", script))
    assert outcome.problem == ""
    assert 0.6 < outcome.cpu_s < 5


SLOW_TO_BEGIN = """
from concurrent.futures import ThreadPoolExecutor
begin = ThreadPoolExecutor.submit
def slow(*args):
    way = begin(*args)
    time.sleep(300)
    return way
ThreadPoolExecutor.submit = slow
"""


@pytest.mark.parametrize(
    ("number", "before", "names"),
    [
        (signal.SIGINT, "", "ab"),
        (signal.SIGTERM, "", "ab"),
        (signal.SIGTERM, SLOW_TO_BEGIN, "a"),
    ],
    ids=["SIGINT", "SIGTERM", "before the second lane"],
)
def test_an_interrupt_ends_all_lanes(
    tmp_path: Path, number: signal.Signals, before: str, names: str
) -> None:
    script = f"""
import time
from scripts.run_tests import Group, Lane, heed_sigterm, run_groups
heed_sigterm()
{before}
def group(name, lane):
    wait = "import os, time; open(" + repr({str(tmp_path)!r} + "/" + name) + ", 'w').write("
    wait += "str(os.getpid())); time.sleep(600)"
    return Group(name=name, lane=lane, commands=(("python", "-c", wait),), limit_s=600)
run_groups([group("a", Lane.COMPUTES), group("b", Lane.WAITS)])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    files = [tmp_path / name for name in names]
    while not all(file.exists() and file.read_text() for file in files):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode != 0
    for file in files:
        assert not Path("/proc", file.read_text()).exists()


def test_every_folder_of_tests_belongs_to_a_group(run_tests: ModuleType) -> None:
    folders = {f"tests/{p.name}" for p in (ROOT / "tests").iterdir() if list(p.rglob("test_*.py"))}
    assert folders <= {group.folder for group in run_tests.GROUPS}
