from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run_tests(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "scripts" / "run_tests.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)
    spec.loader.exec_module(module)
    return module


def fixture_group(run_tests: ModuleType, folder: Path, source: str) -> object:
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
    run_tests: ModuleType, tmp_path: Path
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
    group = run_tests.Group(name="one", folder=str(tmp_path), limit_s=5)
    outcome = run_tests.run_group(group)
    assert outcome.problem == "FAILED: pytest ended with 124"
    assert outcome.duration_s < 30
    status = Path(f"/proc/{pid_file.read_text()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_an_unknown_group_is_wrong_usage(run_tests: ModuleType) -> None:
    assert run_tests.main(["unti"]) == 254


def test_every_group_is_a_make_target(run_tests: ModuleType) -> None:
    makefile = (ROOT / "Makefile").read_text()
    [line] = [line for line in makefile.splitlines() if line.startswith("GROUPS :=")]
    assert line.split()[2:] == [group.name for group in run_tests.GROUPS]


def test_every_folder_of_tests_belongs_to_a_group(run_tests: ModuleType) -> None:
    folders = {f"tests/{p.name}" for p in (ROOT / "tests").iterdir() if list(p.rglob("test_*.py"))}
    assert folders <= {group.folder for group in run_tests.GROUPS}
