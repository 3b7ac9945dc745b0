"""The shell steps of the workflows, run as they stand there against the embedded node.

It is named by $KUBECONFIG and a context, and its authority stands in a bundle, so that for
`zonequake` it is a foreign cluster: consent is not taken for granted. What needs a Docker
engine or a registry is left out by name; an unknown step fails the test.

The planted fault comes first: the tests before this file leave it planted.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from junitparser import JUnitXml

from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.scenario import manifest
from zonequake_cluster.supply import tools

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
FOR_TEAMS = ROOT / "docs" / "examples" / "chaos.yml"
OUR_OWN = ROOT / ".github" / "workflows" / "ci.yml"

LEFT_OUT = {
    "zonequake": "pip install: the tests run on the environment that is there",
    "Images": "needs a Docker engine, and kind; the images of the embedded node are built alike",
    "Test": "runs this test",
}
"""Steps that aren't run here, and why."""

PLUGIN = "-p no:zonequake -p zonequake_chaos.testing.pytest_plugin"
"""As the entry point loads it, whether this environment has the entry point or not."""


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    script: str


TAKE_BACK = Step(
    name="No consent",
    script=(
        'kubectl --context "$CONTEXT" label namespace "$NAMESPACE" zonequake.io/chaos-max-seconds-'
    ),
)
"""What an earlier test's workflow was allowed; there may be no namespace yet."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job's own environment, and its `run` steps but those that are left out."""

    environment: Mapping[str, str]
    steps: Mapping[str, Step]

    @classmethod
    def of(cls, workflow: Path, name: str) -> Job:
        document = yaml.safe_load(workflow.read_text())
        job = document["jobs"][name]
        steps = {
            step["name"]: Step(name=step["name"], script=step["run"])
            for step in job["steps"]
            if "run" in step and step["name"] not in LEFT_OUT
        }
        for step in steps.values():
            assert "${{" not in step.script, f"{step.name}: no shell can evaluate an expression"
        found = {**document.get("env", {}), **job.get("env", {})}
        return cls(environment={key: str(value) for key, value in found.items()}, steps=steps)


class Pipeline:
    """A folder as a runner has it after the checkouts, and what GitHub sets."""

    def __init__(self, release: Release, folder: Path) -> None:
        place = release.place
        assert place.context is not None
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(tools.kubectl_path())
        (programs / "helm").symlink_to(tools.helm_path())
        self.folder = folder
        self.summary = folder / "summary.md"
        self.kubeconfig = folder / "kubeconfig"
        assert place.kubeconfig is not None
        self.kubeconfig.write_text(of_a_foreign_cluster(place.kubeconfig))
        assert OwnMachine.of(self.kubeconfig, place.context) is None
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig),
            "GITHUB_RUN_NUMBER": "7",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "PYTEST_ADDOPTS": PLUGIN,
            "COLUMNS": "160",
        }
        self._own = {
            "CONTEXT": place.context,
            "NAMESPACE": place.namespace,
            "STORE_IMAGE": release.images["store"],
            "OPERATOR_IMAGE": release.images["operator"],
            "PROMETHEUS_IMAGE": release.images["prometheus"],
        }

    def run(self, step: Step, environment: Mapping[str, str], **own: str) -> tuple[int, str]:
        """A step as GitHub runs it, with values of this cluster in place of the workflow's."""
        unknown = set(own) - set(environment)
        assert not unknown, f"the workflow has no {unknown}"
        replaced = {name: value for name, value in self._own.items() if name in environment}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step.script],
            cwd=self.folder,
            env={**self._environment, **environment, **replaced, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"--- {step.name}: {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}")
        return done.returncode, done.stdout + done.stderr


def of_a_foreign_cluster(kubeconfig: Path) -> str:
    """The same cluster by a bundle of authorities, which proves no embedded cluster."""
    document = yaml.safe_load(kubeconfig.read_text())
    for entry in document["clusters"]:
        authority = base64.b64decode(entry["cluster"]["certificate-authority-data"])
        bundle = authority.rstrip() + b"\n" + authority
        entry["cluster"]["certificate-authority-data"] = base64.b64encode(bundle).decode()
    return str(yaml.safe_dump(document))


@pytest.fixture
def pipeline(release: Release, tmp_path: Path) -> Iterator[Pipeline]:
    yield Pipeline(release, tmp_path)
    release.installed_by_another_tool()


def short_scenario(folder: Path) -> Path:
    """A scenario like the one of the workflow, for a test's time."""
    scenario = yaml.safe_load(manifest.shipped()["leader-kill"])
    scenario["spec"]["times"] = {"beforeSeconds": 3, "afterSeconds": 2}
    scenario["spec"]["faults"][0]["times"] = 1
    file = folder / "short.yaml"
    file.write_text(yaml.safe_dump(scenario))
    return file


WRONG = """
import pytest

@pytest.mark.zonequake(zones={"orders": {"partitions": 4, "replicas": 3}}, seed=7)
def test_reads_of_any_replica_are_fresh(zonequake):
    zonequake.load(register_rate=300, list_rate=100, register_keys_per_partition=2, reads_at="any")
    zonequake.times(before_s=4, after_s=3)
    zonequake.inject("process_kill", role="leader")
    assert zonequake.run().passed
"""


@pytest.mark.long
def test_a_teams_own_test_fails_on_a_store_with_a_planted_fault(
    release: Release, pipeline: Pipeline, tmp_path: Path
) -> None:
    release.plant("local-reads")
    (tmp_path / "test_wrong.py").write_text(WRONG)
    job = Job.of(OUR_OWN, "kind")
    assert pipeline.run(job.steps["Consent"], job.environment)[0] == 0
    script = job.steps["A team's own test"].script
    script = script.replace("docs/examples/test_orders.py", "test_wrong.py")
    script = script.replace("--rootdir docs/examples", "--rootdir .")
    code, output = pipeline.run(Step(name="wrong", script=script), job.environment)
    assert code == 1
    assert "violated (exit code 1)" in output
    assert "violated: stale-reads:" in output
    assert "stale: orders/" in output, "a witness"
    assert "report.html" in output
    assert "again: pytest 'test_wrong.py::test_reads_of_any_replica_are_fresh'" in output


@pytest.mark.long
def test_every_shell_step_of_the_workflow_for_teams_does_its_work(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    (tmp_path / "zonequake").symlink_to(ROOT)
    job = Job.of(FOR_TEAMS, "chaos")
    assert list(job.steps) == ["Consent", "Install", "Chaos", "Pack"]
    own = {"SCENARIO": str(short_scenario(tmp_path)), "REPEAT": "2"}
    pipeline.run(TAKE_BACK, job.environment)
    code, output = pipeline.run(job.steps["Chaos"], job.environment, **own)
    assert code == 254, f"nobody has consented: {output}"
    pipeline.summary.unlink()
    for step in job.steps.values():
        code, output = pipeline.run(step, job.environment, **own)
        assert code == 0, output
    suites = JUnitXml.fromfile(str(tmp_path / "chaos" / "junit.xml"))
    assert [suite.name for suite in suites] == ["leader-kill (seed 7)", "leader-kill (seed 8)"]
    assert (suites.failures, suites.errors) == (0, 0)
    assert pipeline.summary.read_text().startswith("# ✓ leader-kill: passed in 2 runs")
    # The archive alone is enough to judge a run again, elsewhere.
    script = "mkdir elsewhere && tar -xzf chaos.tar.gz -C elsewhere && rm -r chaos"
    assert pipeline.run(Step(name="Unpack", script=script), job.environment)[0] == 0
    again = tmp_path / "elsewhere" / "chaos" / "seed-8"
    assert str(pipeline.kubeconfig) not in (again / "run.yaml").read_text()
    (again / "verdict.json").unlink()
    judge = Step(name="Judge again", script=f"zonequake analyze {again}")
    assert pipeline.run(judge, job.environment)[0] == 0
    assert (again / "verdict.json").exists()
