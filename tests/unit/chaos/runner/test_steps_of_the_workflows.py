"""What the workflows run of ours, taken out of the files and run in a shell as it stands there.

The cluster is made up and the analysis is left out, so that what can rot is tested at once:
options, files, environment variables, the example of a team's own test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from zonequake_chaos.scenario import manifest
from zonequake_ctl.context import ReleasePlace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
FOR_TEAMS = ROOT / "docs" / "examples" / "chaos.yml"
OUR_OWN = ROOT / ".github" / "workflows" / "ci.yml"
OF_OTHERS = {"zonequake", "Images", "Consent", "Install"}
"""Steps that call pip, docker, kind, kubectl and helm."""


class Shell:
    """A folder as a runner has it after the checkouts; `zonequake` and `pytest` are on its PATH."""

    def __init__(self, place: ReleasePlace, folder: Path) -> None:
        self.folder = folder
        self.summary = folder / "summary.md"
        programs = folder / "bin"
        programs.mkdir()
        command = "import without_spark; from zonequake_chaos.commands.cli import main; main()"
        self._program(programs / "zonequake", f"{sys.executable} -c '{command}'")
        plugins = "-p no:zonequake -p without_spark -p zonequake_chaos.testing.pytest_plugin"
        self._program(programs / "pytest", f"{sys.executable} -m pytest {plugins}")
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}",
            "KUBECONFIG": str(place.kubeconfig),
            "CONTEXT": str(place.context),
            "NAMESPACE": place.namespace,
            "GITHUB_RUN_NUMBER": "7",
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    @staticmethod
    def _program(file: Path, command: str) -> None:
        file.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        file.chmod(0o755)

    async def run(self, script: str, **own: str) -> tuple[int, str]:
        """A script as GitHub runs it."""
        process = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script),
            cwd=self.folder,
            env={**self.environment, **own},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        finally:  # a shell that is killed leaves the programs that it runs
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode is not None
        return process.returncode, output.decode()


def steps_of(workflow: Path, job: str) -> dict[str, str]:
    """Scripts of a job's steps, by name. An expression in one would be no shell's."""
    steps = yaml.safe_load(workflow.read_text())["jobs"][job]["steps"]
    scripts = {step["name"]: str(step["run"]) for step in steps if "run" in step}
    assert not any("${{" in script for script in scripts.values())
    return scripts


@pytest.fixture
def shell(place: ReleasePlace, tmp_path: Path) -> Shell:
    return Shell(place, tmp_path)


async def test_the_workflow_for_teams_runs_packs_and_tells(
    cluster: Any, shell: Shell, tmp_path: Path
) -> None:
    scripts = steps_of(FOR_TEAMS, "chaos")
    assert set(scripts) == OF_OTHERS | {"Chaos", "Pack"}
    scenario = yaml.safe_load(manifest.shipped()["leader-kill"])
    scenario["spec"]["times"] = {"beforeSeconds": 0.2, "afterSeconds": 0.2, "quietSeconds": 0}
    scenario["spec"]["faults"][0]["times"] = 1
    (tmp_path / "quick.yaml").write_text(yaml.safe_dump(scenario))
    code, output = await shell.run(scripts["Chaos"], SCENARIO="quick.yaml", REPEAT="2")
    assert code == 0, output
    suites = JUnitXml.fromfile(str(tmp_path / "chaos" / "junit.xml"))
    assert [suite.name for suite in suites] == ["leader-kill (seed 7)", "leader-kill (seed 8)"]
    assert shell.summary.read_text().startswith("# ✓ leader-kill: passed in 2 runs")
    code, output = await shell.run(scripts["Pack"])
    assert code == 0, output
    assert "removed: kubeconfig path" in output
    with tarfile.open(tmp_path / "chaos.tar.gz") as archive:
        names = archive.getnames()
        (text,) = [
            archive.extractfile(name).read().decode()  # type: ignore[union-attr]
            for name in names
            if name == "chaos/seed-8/run.yaml"
        ]
    assert "chaos/junit.xml" in names
    assert shell.environment["KUBECONFIG"] not in text


async def test_our_own_workflow_runs_the_example_of_a_teams_test_and_packs_its_run(
    cluster: Any, shell: Shell, tmp_path: Path
) -> None:
    scripts = steps_of(OUR_OWN, "kind")
    assert set(scripts) == OF_OTHERS | {"Chaos", "A team's own test", "Pack"}
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    code, output = await shell.run(scripts["A team's own test"])
    assert code == 0, output
    assert "1 passed" in output
    (run,) = (tmp_path / "own").iterdir()
    assert "harness" in (run / "run.yaml").read_text()
    code, output = await shell.run("mv own chaos && mkdir own && cp -r chaos/* own")
    assert code == 0, output
    code, output = await shell.run(scripts["Pack"])
    assert code == 0, output


async def test_a_run_that_does_not_pass_fails_its_step(
    cluster: Any, shell: Shell, tmp_path: Path
) -> None:
    cluster.namespace_labels = {}
    code, output = await shell.run(
        steps_of(FOR_TEAMS, "chaos")["Chaos"], SCENARIO="leader-kill", REPEAT="2"
    )
    assert code == 254, output
    assert "does not allow chaos" in shell.summary.read_text()
    assert JUnitXml.fromfile(str(tmp_path / "chaos" / "junit.xml")).errors == 1
