"""The workflows for GitHub, judged by actionlint; their shell steps are run in `tests/cluster`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.foreign import workflow_linter

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = [
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    ROOT / "docs/examples/chaos.yml",
]


@pytest.fixture(scope="module")
def actionlint() -> Path:
    return workflow_linter.program()


def judged(actionlint: Path, workflow: Path) -> tuple[int, str]:
    # Without shellcheck and pyflakes, which may or may not be on a machine.
    words = [str(actionlint), "-shellcheck=", "-pyflakes=", str(workflow)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=workflow.parent)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint_finds_nothing(workflow: Path, actionlint: Path) -> None:
    assert judged(actionlint, workflow) == (0, "")


def test_it_would_find_a_wrong_input_and_an_unknown_context(
    actionlint: Path, tmp_path: Path
) -> None:
    text = WORKFLOWS[-1].read_text().replace("retention-days: 14", "retention-days: ${{ gh.x }}")
    (tmp_path / "w.yml").write_text(text)
    code, said = judged(actionlint, tmp_path / "w.yml")
    assert code == 1
    assert 'undefined variable "gh"' in said


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it(workflow: Path) -> None:
    used = re.findall(r"uses: *(.*)", workflow.read_text())
    assert used
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
