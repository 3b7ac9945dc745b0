"""Driver and executors as pods judge a run as this machine does, and say why if they can't."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml

from tests.cluster.analysis_pods.release import (
    NAMESPACE,
    SECRET,
    STORE_PORT,
    Analysis,
    Upload,
    verdict_of,
)
from tests.foreign.s3_server import SECRET_KEY
from tests.foreign.spoilt_runs import without_place
from zonequake_analysis.cli import analyze
from zonequake_ctl.release.access import cluster_of, rendered

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
VIOLATED = 1
KUBELET_PORT = 10250
"""On the address that the store has, too: the node's."""


@pytest.fixture(scope="module")
def told_here(analysis: Analysis) -> dict[str, Any]:
    """The verdict of the same run in a folder of this machine."""
    assert analyze(analysis.run) == VIOLATED
    return without_place((analysis.run / "verdict.json").read_bytes())


def is_restricted(pod: dict[str, Any]) -> bool:
    """Whether a pod runs as the chart has it, whatever Spark added."""
    security = pod["spec"]["securityContext"]
    return bool(
        security["runAsNonRoot"]
        and security["seccompProfile"] == {"type": "RuntimeDefault"}
        and all(
            container["securityContext"]
            == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            for container in pod["spec"]["containers"]
        )
    )


def check_pods(analysis: Analysis, document: bytes, watched: Any) -> None:
    """The verdict says that executors did the work, and they were pods as they should be."""
    analyzed = json.loads(document)["analyzed"]
    assert analyzed["master"].startswith("k8s://")
    names = {executor["name"] for executor in analyzed["executors"]}
    assert names, "an executor ran tasks"
    assert "driver" not in names
    executors, drivers = watched.of("analysis-executor"), watched.of("analysis")
    assert len(executors) >= 1
    assert len(drivers) == 1
    assert all(is_restricted(pod) for pod in (*drivers, *executors))
    assert all(pod["spec"]["serviceAccountName"] == "zq-analysis-executor" for pod in executors)
    assert not any("serviceAccountToken" in json.dumps(pod["spec"]) for pod in executors)
    for pod in watched.pods.values():
        assert SECRET_KEY not in json.dumps(pod), "a Secret is named, and not copied"
    analysis.check_rights()


def test_the_verdict_of_pods_is_that_of_this_machine(
    analysis: Analysis, uploaded_as: Upload, told_here: dict[str, Any]
) -> None:
    uri = uploaded_as("pods")
    with analysis.watched() as watched:
        ended = analysis.analyze(uri, "--store-secret", SECRET)
    assert ended.returncode == VIOLATED, ended.stderr
    document = verdict_of(analysis, uri)
    print(json.dumps(json.loads(document)["analyzed"]))
    assert without_place(document) == told_here
    check_pods(analysis, document, watched)
    assert f"{uri}/report.html" in ended.stderr
    assert SECRET_KEY not in ended.stderr + ended.stdout
    analysis.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=120s")


_TRIES = """
import socket, sys, time
host, store, other = sys.argv[1], *map(int, sys.argv[2:])

def gets_through(port):
    try:
        socket.create_connection((host, port), 2).close()
    except OSError:
        return False
    return True

ends_s = time.monotonic() + 30
while gets_through(other) and time.monotonic() < ends_s:  # until this pod's policy is in force
    time.sleep(0.2)
print(gets_through(store), gets_through(other))
"""


def test_executors_reach_the_store_and_no_other_port_of_its_host(analysis: Analysis) -> None:
    template = analysis.kubectl(
        "get", "configmap", "zq-analysis", "--output", 'go-template={{index .data "executor.yaml"}}'
    )
    pod = yaml.safe_load(template)
    pod["metadata"]["name"] = "tries"
    (container,) = pod["spec"]["containers"]
    host = urlsplit(analysis.server.endpoint).hostname
    container["command"] = ["python3", "-c", _TRIES, host, str(STORE_PORT), str(KUBELET_PORT)]
    pod["spec"]["restartPolicy"] = "Never"
    analysis.kubectl("apply", "--filename=-", stdin=json.dumps(pod))
    try:
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        analysis.kubectl("wait", "pod", "tries", ended, "--timeout=120s")
        assert analysis.kubectl("logs", "tries").split() == ["True", "False"]
    finally:
        analysis.kubectl("delete", "pod", "tries")


def submitters_kubeconfig(analysis: Analysis, folder: Path) -> Path:
    """That of an account with a token and the rights that the page names: Spark's client can't read
    the administrator's key, which is an elliptic curve's."""
    kinds = "pods,services,configmaps,networkpolicies.networking.k8s.io"
    account = f"{NAMESPACE}:submitter"
    analysis.kubectl("create", "serviceaccount", "submitter")
    analysis.kubectl("create", "role", "submitter", "--verb=*", f"--resource={kinds}")
    analysis.kubectl(
        *("create", "rolebinding", "submitter", "--role=submitter", f"--serviceaccount={account}")
    )
    token = analysis.kubectl("create", "token", "submitter").strip()
    assert analysis.place.kubeconfig is not None
    source = analysis.place.kubeconfig
    cluster = cluster_of(yaml.safe_load(source.read_text()), analysis.place.context, source.parent)
    config = folder / "kubeconfig"
    config.write_text(yaml.safe_dump(rendered(cluster, token=token, namespace=NAMESPACE)))
    return config


def test_spark_submit_runs_the_same_by_the_releases_settings(
    analysis: Analysis, uploaded_as: Upload, told_here: dict[str, Any], tmp_path: Path
) -> None:
    uri = uploaded_as("submitted")
    kubeconfig = submitters_kubeconfig(analysis, tmp_path)
    for name in ("spark.conf", "driver.yaml", "executor.yaml"):
        output = f'go-template={{{{index .data "{name}"}}}}'
        text = analysis.kubectl("get", "configmap", "zq-analysis", "--output", output)
        (tmp_path / name).write_text(text)
    # The release names no Secret, so it is written into both templates, as a user would.
    for name in ("driver.yaml", "executor.yaml"):
        text = (tmp_path / name).read_text()
        secret = f"envFrom: [{{secretRef: {{name: {SECRET}}}}}]"
        assert text.count("      workingDir: /work\n") == 1
        changed = text.replace(
            "      workingDir: /work\n", f"      workingDir: /work\n      {secret}\n"
        )
        (tmp_path / name).write_text(changed)
    server = analysis.kubectl(
        "config", "view", "--minify", "--output", "jsonpath={.clusters[0].cluster.server}"
    )
    with analysis.watched() as watched:
        ended = analysis.finished(
            [
                *(str(SPARK_SUBMIT), "--master", f"k8s://{server}", "--deploy-mode", "cluster"),
                *("--properties-file", str(tmp_path / "spark.conf")),
                *("--conf", f"spark.kubernetes.driver.podTemplateFile={tmp_path}/driver.yaml"),
                *("--conf", f"spark.kubernetes.executor.podTemplateFile={tmp_path}/executor.yaml"),
                *("local:///app/zonequake_analysis/submit.py", uri),
            ],
            {
                "KUBECONFIG": str(kubeconfig),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_HOSTNAME": "localhost",
            },
        )
    assert watched.of("analysis"), ended.stderr
    (driver,) = watched.of("analysis")
    log = analysis.kubectl("logs", driver["metadata"]["name"])
    document = verdict_of(analysis, uri)
    assert without_place(document) == told_here, ended.stderr + log
    check_pods(analysis, document, watched)
    assert SECRET_KEY not in log + ended.stderr
    analysis.kubectl("delete", "pod", driver["metadata"]["name"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--store-secret", "no-such"), 'secret "no-such" not found'),
        (("--release", "another"), "found no release another"),
    ],
)
def test_what_keeps_the_driver_from_starting_is_told(
    analysis: Analysis, uploaded_as: Upload, options: tuple[str, ...], told: str
) -> None:
    uri = uploaded_as(f"no-driver{options[0]}")
    began_s = time.monotonic()
    ended = analysis.analyze(uri, *options)
    assert ended.returncode in (254, 255)
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - began_s < 60 + 30
    analysis.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=120s")


def test_a_missing_image_is_told_by_its_name(
    analysis: Analysis, uploaded_as: Upload, told_here: dict[str, Any]
) -> None:
    del told_here
    template = analysis.kubectl(
        "get", "configmap", "zq-analysis", "--output", 'go-template={{index .data "driver.yaml"}}'
    )
    image = next(line for line in template.splitlines() if "image: " in line).split('"')[1]
    changed = template.replace(image, "registry.invalid/zonequake/analysis:gone")
    patch = json.dumps({"data": {"driver.yaml": changed}})
    analysis.kubectl("patch", "configmap", "zq-analysis", "--type=merge", f"--patch={patch}")
    try:
        began_s = time.monotonic()
        ended = analysis.analyze(uploaded_as("no-image"), "--store-secret", SECRET)
        assert time.monotonic() - began_s < 60 + 30
    finally:
        patch = json.dumps({"data": {"driver.yaml": template}})
        analysis.kubectl("patch", "configmap", "zq-analysis", "--type=merge", f"--patch={patch}")
    assert ended.returncode == 255
    assert "registry.invalid/zonequake/analysis:gone" in ended.stderr
    assert "can't be pulled" in ended.stderr


def test_executors_that_may_not_be_made_end_the_analysis_with_the_servers_words(
    analysis: Analysis, uploaded_as: Upload
) -> None:
    # A driver may still see its pods: only their creation is refused.
    role = json.loads(analysis.kubectl("get", "role", "zq-analysis", "--output=json"))
    before = json.dumps({"rules": role["rules"]})
    without = [{**role["rules"][0], "verbs": ["get", "list", "watch"]}]
    uri = uploaded_as("no-right")
    patch = json.dumps({"rules": without})
    analysis.kubectl("patch", "role", "zq-analysis", "--type=merge", f"--patch={patch}")
    try:
        ended = analysis.analyze(uri, "--store-secret", SECRET)
    finally:
        analysis.kubectl("patch", "role", "zq-analysis", "--type=merge", f"--patch={before}")
    assert ended.returncode == 255
    told = json.loads(verdict_of(analysis, uri))
    assert told["verdict"] == "harness-failed"
    assert "the API server refuses executors" in told["headline"]
    assert "pods is forbidden" in told["headline"]
    assert "cannot create resource" in told["headline"]
    assert NAMESPACE in told["headline"]
