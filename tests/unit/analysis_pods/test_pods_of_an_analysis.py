"""The pods of an analysis: what they run, which Secret they get, why one doesn't start."""

from __future__ import annotations

import errno
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from zonequake_analysis.errors import PodError
from zonequake_analysis.pods import commands
from zonequake_analysis.pods.__main__ import command_of, main
from zonequake_analysis.pods.template import FOLDER, SECRET_VARIABLE, with_secret
from zonequake_analysis.pods.waiting import has_started, why_it_fails, why_it_waits
from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.analysis_pods.driver_pod import driver_pod
from zonequake_chaos.analysis_pods.launch import check_uri
from zonequake_kube.errors import UsageError

URI = "s3://runs/a/run-1"
TEMPLATE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "containers": [
            {
                "name": "spark-kubernetes-driver",
                "env": [{"name": "A", "value": "1"}],
                "envFrom": [{"secretRef": {"name": "of-the-release"}}],
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "store-credentials", "mountPath": FOLDER},
                ],
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "store-credentials", "secret": {"secretName": "of-the-release"}},
        ],
    },
}
DRIVER = {"POD_IP": "10.1.2.3", "POD_NAME": "analysis-1", SECRET_VARIABLE: "mine"}
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://d",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "900m",
    "SPARK_APPLICATION_ID": "app-7",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.5",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "p-3",
    "SPARK_HOME": "/opt/spark",
    **{f"SPARK_JAVA_OPT_{n}": f"-Do={n}" for n in (10, 2, 0)},
}


def test_the_drivers_pod_has_its_name_its_run_and_the_secret_that_was_named() -> None:
    pod = driver_pod(TEMPLATE, name="analysis-1", uri=URI, secret="mine")
    assert pod["metadata"] == {"labels": {"app": "x"}, "name": "analysis-1"}
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["analyze", URI]
    assert container["envFrom"] == [{"secretRef": {"name": "mine"}}]
    assert {"name": SECRET_VARIABLE, "value": "mine"} in container["env"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["store-credentials"]["secret"]["secretName"] == "mine"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp", FOLDER]
    assert "name" not in TEMPLATE["metadata"], "the template stays as it is"


def test_without_a_secret_the_releases_own_stays() -> None:
    assert with_secret(TEMPLATE, "") == TEMPLATE
    (container,) = driver_pod(TEMPLATE, name="n", uri=URI, secret="")["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "of-the-release"}}]


def test_the_driver_submits_the_run_with_the_releases_settings_and_its_secret_for_executors(
    tmp_path: Path,
) -> None:
    (tmp_path / commands.EXECUTOR_TEMPLATE).write_text(yaml.safe_dump(TEMPLATE))
    work = tmp_path / "work"
    work.mkdir()
    command = command_of(["analyze", URI], DRIVER, settings=tmp_path, work=work)
    assert command[0] == "spark-submit"
    assert command[-2:] == [commands.SUBMIT, URI]
    assert command[command.index("--master") + 1] == "k8s://https://kubernetes.default.svc"
    template = work / commands.EXECUTOR_TEMPLATE
    for option in (
        "spark.driver.host=10.1.2.3",
        "spark.kubernetes.driver.pod.name=analysis-1",
        f"spark.kubernetes.executor.podTemplateFile={template}",
    ):
        assert option in command
    (container,) = yaml.safe_load(template.read_text())["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "mine"}}]


def test_an_executor_becomes_sparks_process_with_the_options_in_their_order() -> None:
    command = command_of(["executor"], EXECUTOR)
    assert command[:5] == ["java", "-Do=0", "-Do=2", "-Do=10", "-Xmx900m"]
    assert command[command.index("--driver-url") + 1] == "spark://d"
    assert command[command.index("--podName") + 1] == "p-3"


def test_a_driver_of_spark_submit_binds_its_own_address() -> None:
    words = ["driver", "--class", "c", "local:///x.py", URI]
    command = command_of(words, {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"})
    assert "spark.driver.bindAddress=10.0.0.9" in command
    assert command[-4:] == words[1:]


@pytest.mark.parametrize("arguments", [[], ["analyze"], ["analyze", URI, "more"], ["executor"]])
def test_what_no_pod_of_ours_has_is_refused(arguments: list[str]) -> None:
    with pytest.raises(PodError, match="expected"):
        command_of(arguments, {})


def test_any_other_command_is_run_as_it_is() -> None:
    assert command_of(["spark-submit", "--version"], {}) == ["spark-submit", "--version"]


def pod_with(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "an/image:1", "state": state}]
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": containers, **status}}


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        ("ImagePullBackOff", "not found", "image an/image:1 of pod p can't be pulled"),
        ("CreateContainerConfigError", 'secret "s" not found', 'secret "s" not found'),
    ],
)
def test_a_pod_that_can_not_start_says_why_at_once(reason: str, message: str, told: str) -> None:
    pod = pod_with({"waiting": {"reason": reason, "message": message}})
    assert told in (why_it_fails(pod) or "")
    assert why_it_waits(pod) == why_it_fails(pod)
    assert not has_started(pod)


def test_a_pod_without_a_node_may_still_get_one_and_says_what_it_waits_for() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.",
    }
    pod = {"metadata": {"name": "p"}, "status": {"conditions": [condition]}}
    assert why_it_fails(pod) is None
    assert "Insufficient memory" in (why_it_waits(pod) or "")


def test_a_pod_that_runs_or_ran_waits_for_nothing() -> None:
    states: tuple[dict[str, Any], ...] = ({"running": {}}, {"terminated": {"exitCode": 1}})
    for state in states:
        pod = pod_with(state)
        assert has_started(pod)
        assert why_it_waits(pod) is None
    starting = pod_with({"waiting": {"reason": "ContainerCreating"}})
    assert why_it_fails(starting) is None
    assert "kubectl describe pod p" in (why_it_waits(starting) or "")


def test_a_run_that_pods_can_not_reach_is_wrong_usage() -> None:
    assert check_uri("s3://runs/x/") == "s3://runs/x"
    for run, told in (("runs/x", "pods can't reach"), ("s3://key:word@b/x", "no credentials")):
        with pytest.raises(UsageError, match=told):
            check_uri(run)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (None, r"No such file .*executor\.yaml"),
        ("a: [", "ParserError"),
        ("no pod", "TypeError"),
        ("{}", "KeyError"),
    ],
    ids=["no settings", "no YAML", "no pod", "no spec"],
)
def test_a_pod_that_can_not_become_its_driver_is_a_failed_harness_and_no_violation(
    broken: str | None,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    if broken is not None:
        (tmp_path / commands.EXECUTOR_TEMPLATE).write_text(broken)
    made = partial(command_of, settings=tmp_path, work=work)
    monkeypatch.setattr("zonequake_analysis.pods.__main__.command_of", made)
    assert main(["analyze", URI], DRIVER) == EXIT_CODES[Verdict.HARNESS_FAILED]
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(f"^zonequake/analysis: found .*{told}.*; expected the release's", line), line


def test_a_work_folder_that_is_full_is_a_failed_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / commands.EXECUTOR_TEMPLATE).write_text(yaml.safe_dump(TEMPLATE))

    def full(path: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    made = partial(command_of, settings=tmp_path, work=tmp_path)
    monkeypatch.setattr("zonequake_analysis.pods.__main__.command_of", made)
    assert main(["analyze", URI], DRIVER) == EXIT_CODES[Verdict.HARNESS_FAILED]
    assert "found [Errno 28] No space left on device" in capsys.readouterr().err


def test_a_program_that_the_image_lacks_is_a_failed_harness(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["no-such-program"], {}) == EXIT_CODES[Verdict.HARNESS_FAILED]
    assert "No such file or directory" in capsys.readouterr().err
    assert main([], {}) == 254
