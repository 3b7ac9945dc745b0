"""The members that a target and a scenario ask for: what Kubernetes would refuse is said before."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.unit.installed import installed, place_of
from zonequake_chaos.kit.client_code import MOST_BYTES, ClientCode
from zonequake_chaos.kit.limits.member_limits import MOST_CHARS_OF_SET
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_chaos.kit.member_set import MemberSet, member_objects
from zonequake_chaos.observe.view import LinkPorts
from zonequake_chaos.scenario.run import RunTarget
from zonequake_kube.errors import UsageError
from zonequake_kube.objects import Json, pod_view

PORTS = LinkPorts(clients=2379, peers=7001)


def members(
    settings: RunTarget | None = None,
    *,
    target: str = "shelf",
    program: str = "shelfd",
    image: str | None = None,
    files: Mapping[str, str] | None = None,
    account: str = "",
    **place: Any,
) -> MemberSet:
    return MemberSet.of(
        place_of(settings or RunTarget(), **place),
        target=target,
        program=program,
        ports=PORTS,
        image=image,
        files=files,
        account=account,
    )


def test_the_scenarios_image_comes_before_the_targets_and_that_before_the_loads() -> None:
    given = RunTarget(image="the/scenarios:1")
    assert members(given, image="the/targets:1").image == "the/scenarios:1"
    assert members(image="the/targets:1").image == "the/targets:1"
    assert members().image == installed().load_image
    assert (members().name, members().count, members().namespace) == ("zq-shelf-default", 3, "ns")


def test_a_members_container_has_the_targets_name_and_its_start_is_seen() -> None:
    made = member_objects(members(), {}, run_id="r", installation=installed())
    (found,) = [each for each in made if each["kind"] == "StatefulSet"]
    template = found["spec"]["template"]
    assert [each["name"] for each in template["spec"]["containers"]] == ["shelf", "hands"]
    running = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    status = {"containerStatuses": [{"name": "shelf", "restartCount": 0, "state": running}]}
    metadata = {**template["metadata"], "name": "zq-shelf-default-0", "uid": "u"}
    view = pod_view({"metadata": metadata, "spec": template["spec"], "status": status})
    assert (view.program, view.container) == ("shelfd", "hands")
    assert view.started_wall_ns == 1767225605 * 10**9


def test_members_with_a_port_for_metrics_are_found_where_the_release_scrapes() -> None:
    def made(given: MemberSet) -> list[Json]:
        objects = member_objects(given, {}, run_id="r", installation=installed())
        return [each for each in objects if each["kind"] in ("Service", "StatefulSet")]

    service, members_of = made(dataclasses.replace(members(), metrics_port=2381))
    assert service["metadata"]["name"] == members_of["spec"]["serviceName"] == "zq-target"
    assert {"name": "http", "port": 2381} in service["spec"]["ports"]
    (own, _) = members_of["spec"]["template"]["spec"]["containers"]
    assert {"name": "http", "containerPort": 2381} in own["ports"]
    assert [port["name"] for port in made(members())[0]["spec"]["ports"]] == ["clients", "peers"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pool": "p" * 44}, f"found {MOST_CHARS_OF_SET + 1} characters, expected 1 to 52"),
        ({"release": "Z"}, "set of members 'Z-shelf-default': found 15 characters"),
        ({"target": "t" * 64}, "shorten release, target or pool"),
        ({"target": "hands"}, "a container beside each member has that name"),
        ({"program": ""}, "program '': found 0 characters, expected 1 to 63 of letters"),
        ({"program": "shelf server"}, "program 'shelf server': found 12 characters"),
    ],
)
def test_a_name_that_an_object_can_not_have_is_refused(given: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        members(**given)
    assert words in str(refused.value)


def test_the_longest_names_are_taken() -> None:
    assert len(members(pool="p" * 43).name) == MOST_CHARS_OF_SET


@pytest.mark.parametrize(
    ("own", "given", "words"),
    [
        ({"/a/b": ""}, {"/a/b": ""}, "target.files has /a/b, which the target brings"),
        ({"/a": ""}, {"/a/b/c": ""}, "/a is a file, and /a/b/c is below it"),
        ({}, {"/data/x": ""}, "/data/x is in /data, a volume of each member"),
        ({}, {"/tmp": ""}, "/tmp is in /tmp, a volume of each member"),
        ({"/a": "x" * MOST_BYTES}, {"/b": "y"}, f"found {MOST_BYTES + 1} bytes, of the target and"),
    ],
)
def test_files_that_can_not_be_mounted_are_refused(
    own: Mapping[str, str], given: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        members(RunTarget(files=given), files=own)
    assert words in str(refused.value)


def test_files_beside_each_other_are_taken() -> None:
    settings = RunTarget(files={"/a/bc": "", "/database/x": ""})
    assert members(settings, files={"/a/b": ""}).files == {"/a/b": ""}


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (["/data"], "target.secrets has /data, and /data is mounted into the members, too"),
        (["/tmp/tls"], "target.secrets has /tmp/tls, and /tmp is mounted"),
        (["/etc/shelf/x"], "target.secrets has /etc/shelf/x, and /etc/shelf/x is mounted"),
        (["/etc"], "target.secrets has /etc, and /etc/own is mounted"),
        (["/etc/own/below"], "target.secrets has /etc/own/below, and /etc/own is mounted"),
        (["/a/b", "/a"], "target.secrets has /a, and /a/b is mounted"),
        (["/etc/shelf/xy", "/database", "/a", "/ab"], ""),
    ],
)
def test_a_folder_of_a_secret_that_meets_another_mount_is_refused(
    folders: list[str], words: str
) -> None:
    settings = RunTarget(files={"/etc/shelf/x": ""}, secrets=dict.fromkeys(folders, "the-members"))
    if not words:
        assert members(settings, files={"/etc/own": ""}).settings is settings
        return
    with pytest.raises(UsageError) as refused:
        members(settings, files={"/etc/own": ""})
    assert words in str(refused.value)


def test_a_secret_does_not_hide_the_token_of_members_that_have_an_account() -> None:
    settings = RunTarget(secrets={"/var/run/secrets": "the-members"})
    assert members(settings).settings is settings
    with pytest.raises(UsageError, match=r"kubernetes\.io/serviceaccount is mounted"):
        members(settings, account="zq-target")


def test_members_have_secrets_read_only_and_the_container_beside_them_has_none() -> None:
    settings = RunTarget(secrets={"/tls": "the-members", "/more": "another"})
    made = member_objects(members(settings), {}, run_id="r", installation=installed())
    (found,) = [each for each in made if each["kind"] == "StatefulSet"]
    pod = found["spec"]["template"]["spec"]
    volumes = {each["name"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    own, hands = pod["containers"]
    assert {
        each["mountPath"]: (volumes[each["name"]]["secretName"], each["readOnly"])
        for each in own["volumeMounts"]
        if each["name"] in volumes
    } == {"/tls": ("the-members", True), "/more": ("another", True)}
    assert {each["defaultMode"] for each in volumes.values()} == {0o440}
    assert "volumeMounts" not in hands


class System:
    """The part of a target that its author knows; only its container is asked for."""

    def __init__(self, container: Json) -> None:
        self._container = container

    def container(self, members: MemberSet) -> Json:
        return self._container


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"command": ["a"], "image": "mine:1"}, "its container has image, which the kit sets"),
        ({"volumeMounts": [], "ports": []}, "its container has ports, volumeMounts, which"),
        ({"env": [{"name": "POD", "value": "x"}]}, "its container has the variable POD, which"),
        ({"command": ["a"], "args": ["b"], "env": [{"name": "A", "value": "x"}]}, ""),
    ],
)
def test_a_container_that_sets_what_the_kit_sets_is_refused(container: Json, words: str) -> None:
    def deployed() -> MemberSetDeployment:
        return MemberSetDeployment(
            place_of(RunTarget()),
            client=ClientCode(connect="a:b"),
            members=members(),
            system=cast("Any", System(container)),
        )

    if not words:
        assert deployed().described.name == "shelf"
        return
    with pytest.raises(UsageError) as refused:
        deployed()
    assert words in str(refused.value)
