"""What a release's notes are taken from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = """# Changes

## Unreleased

- Not yet.

## [0.2.0] - 2026-01-02

### Added

- A thing.

## 0.1.0 - 2026-01-01

"""


def told(version: str, file: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "release" / "notes.py"
    return subprocess.run(
        [sys.executable, str(script), version, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    file = tmp_path / "CHANGELOG.md"
    file.write_text(TEXT)
    return file


def test_the_notes_are_the_section_of_the_version(changes: Path) -> None:
    done = told("0.2.0", changes)
    assert (done.returncode, done.stdout) == (0, "### Added\n\n- A thing.\n")


@pytest.mark.parametrize("version", ["0.1.0", "0.3.0", "0.2"])
def test_a_version_without_a_word_ends_the_release(changes: Path, version: str) -> None:
    done = told(version, changes)
    assert done.returncode == 1
    assert f"says nothing of {version}" in done.stderr
    assert "there are Unreleased, 0.2.0, 0.1.0" in done.stderr
