"""A target's client reaches the load pods as it is installed here, and runs there alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.installed import installed
from zonequake_chaos.kit import client_code
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.registry import find_target
from zonequake_chaos.load.objects import load_objects
from zonequake_kube.errors import UsageError
from zonequake_load.pod.control import LoadPlan

WORKLOADS = Path(client_code.__file__).parents[3] / "workloads"


def pod_with(code: ClientCode) -> tuple[dict[str, Any], dict[str, str]]:
    """The load's pod, and its ConfigMap's data."""
    plan = LoadPlan(client=code.connect, zone="z", seeds=["s:1"])
    objects = load_objects(name="l", run_id="r", plan=plan, code=code, installation=installed())
    by_kind = {each["kind"]: each for each in objects}
    return by_kind["StatefulSet"]["spec"]["template"]["spec"], by_kind["ConfigMap"]["data"]


def test_all_load_pods_of_a_run_are_on_one_node_as_they_must_have_one_clock() -> None:
    plan = LoadPlan(client="made.up:connect", zone="z", seeds=["s:1"], pods=2)
    code = find_target("zonequake").client
    for zone in ("a", "b"):
        objects = load_objects(
            name=f"load-{zone}", run_id="r", plan=plan, code=code, installation=installed()
        )
        (made,) = [each for each in objects if each["kind"] == "StatefulSet"]
        template = made["spec"]["template"]
        (term,) = template["spec"]["affinity"]["podAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        asked = term["labelSelector"]["matchLabels"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert asked == {"app.kubernetes.io/component": "load", "zonequake.io/run": "r"}
        assert asked.items() <= template["metadata"]["labels"].items()


def mount(pod: dict[str, Any], data: dict[str, str], folder: Path) -> None:
    """Does what a kubelet does with the volume of the client."""
    (volume,) = [v for v in pod["volumes"] if v["name"] == "client"]
    for item in volume["configMap"]["items"]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data[item["key"]])


@pytest.mark.parametrize("name", ["etcd", "zonequake"])
def test_a_mounted_client_is_loaded_with_nothing_but_the_loads_packages(
    name: str, tmp_path: Path
) -> None:
    code = find_target(name).client
    pod, data = pod_with(code)
    mount(pod, data, tmp_path / "client")
    image = tmp_path / "app"  # what the load's image has of zonequake
    image.mkdir()
    for package in WORKLOADS.iterdir():
        (image / package.name).symlink_to(package)
    ask = (
        "import random, sys\n"
        "from zonequake_load.pod.clients import client_for\n"
        "from zonequake_load.pod.control import LoadPlan\n"
        f"plan = LoadPlan(client={code.connect!r}, zone='z', seeds=['s:1'])\n"
        "target = client_for(plan, random.Random(1), None)\n"
        "print(sys.modules[type(target).__module__].__file__)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    (environment,) = [e for e in pod["containers"][0]["env"] if e["name"] == "PYTHONPATH"]
    path = environment["value"].replace("/app", str(image)).replace("/client", f"{tmp_path}/client")
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file, loaded = done.stdout.splitlines()
    assert file.startswith(str(tmp_path / "client"))
    ours = {name for name in loaded.split() if name.startswith("zonequake_")}
    own = code.connect.partition(".")[0]
    assert ours <= {own, "zonequake_load", "zonequake_protocol", "zonequake_tls"}


def test_the_images_own_path_is_the_one_that_is_added_to() -> None:
    (environment,) = [
        each
        for each in pod_with(find_target("etcd").client)[0]["containers"][0]["env"]
        if each["name"] == "PYTHONPATH"
    ]
    own = environment["value"].partition(":")[0]
    assert f"PYTHONPATH={own} " in (WORKLOADS.parent / "Dockerfile").read_text()


def test_a_client_with_an_image_of_its_own_is_not_mounted() -> None:
    pod, data = pod_with(ClientCode(connect="elsewhere.client:connect", image="some/client:1"))
    assert pod["containers"][0]["image"] == "some/client:1"
    assert list(data) == ["plan.json"]
    assert [v["name"] for v in pod["volumes"]] == ["plan", "tmp"]


def test_a_client_that_is_not_there_or_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match=r"found no module nowhere\.client"):
        ClientCode(connect="nowhere.client:connect").files()
    monkeypatch.setattr(client_code, "MOST_BYTES", 10)
    with pytest.raises(UsageError, match="at most 10 can be mounted: build an image"):
        ClientCode(connect="zonequake_target_store.client:connect").files()


def client_of(folder: Path, name: str, files: dict[str, str]) -> ClientCode:
    """The client of a distribution that has these files."""
    for path, text in files.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return ClientCode(connect=f"{name}.client:connect")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("split_a", "from split_a.wire import send\n"),
        ("split_b", "import split_b.wire\n"),
        ("split_c", "from split_c import wire\n"),
        ("split_d", "from .wire import send\n"),
        ("split_e", "def connect():\n    from . import wire\n"),
    ],
)
def test_a_client_that_needs_a_module_that_is_not_mounted_is_refused(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {"__init__.py": "", "client.py": text, "wire.py": "def send(): ...\n"}
    with pytest.raises(UsageError) as refused:
        client_of(tmp_path, name, files).files()
    assert f"{name}/client.py imports {name}.wire, which is not mounted" in str(refused.value)
    assert "a folder with an __init__.py" in str(refused.value)


def test_a_client_in_several_modules_is_mounted_as_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {
        "__init__.py": "",
        "client/__init__.py": "from .wire import send\nfrom split_f.client import wire\n",
        "client/wire.py": "from . import deep\nfrom ..client.deep import low\n",
        "client/deep/__init__.py": "import json\nfrom .low import x\nfrom pathlib import Path\n",
        "client/deep/low.py": "if TYPE_CHECKING:\n    from split_f.package import TARGET\n",
        "package.py": "",
    }
    found = client_of(tmp_path, "split_f", files).files()
    assert set(found) == {f"split_f/{path}" for path in files if path != "package.py"}
