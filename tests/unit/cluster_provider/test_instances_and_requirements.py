from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zonequake_cluster import requirements
from zonequake_cluster.cli import app
from zonequake_cluster.errors import RequirementsMissing, Unsupported
from zonequake_cluster.foreign import ForeignCluster
from zonequake_cluster.instance import find_instance
from zonequake_cluster.machine import cgroups
from zonequake_cluster.machine.locks import lock_folder
from zonequake_cluster.machine.processes import end_marked, find_init, find_marked
from zonequake_cluster.supply import tools
from zonequake_cluster.supply.toolchain import SOURCES, Programs, source_digest
from zonequake_kube.errors import UsageError

MARK = "ZONEQUAKE_TEST_MARK"
ROOT = Path(__file__).parents[3]


def test_two_checkouts_share_no_name_even_for_instances_of_the_same_name() -> None:
    one = find_instance("demo", Path("/a"))
    other = find_instance("demo", Path("/b"))
    assert one.interface != other.interface
    assert one.cgroup != other.cgroup
    assert one.folder == Path("/a/.zonequake/cluster/demo")
    assert find_instance(None, Path("/a")).name != find_instance(None, Path("/b")).name


def test_an_interfaces_name_fits_the_kernels_fifteen_bytes() -> None:
    assert len(find_instance("a" * 32).interface) <= 15


@pytest.mark.parametrize("name", ["", "UP", "a/b", "-a", "a-", "a" * 33])
def test_a_name_that_kubernetes_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't name a cluster"):
        find_instance(name or "-")


def test_nothing_is_missing_where_everything_is_found() -> None:
    assert requirements.missing(lambda _: "/bin/x", lambda: Path("/usr/lib/cni")) == []


def test_what_is_missing_is_named_with_the_command_that_brings_it() -> None:
    absent = requirements.missing(lambda program: None if program == "ctr" else "/x", lambda: None)
    with pytest.raises(
        RequirementsMissing,
        match=r"lacks ctr .*apt-get install .*containerd containernetworking-plugins`$",
    ):
        requirements.check(absent, effective_user=0)


def test_a_user_who_is_not_root_is_told_so() -> None:
    with pytest.raises(RequirementsMissing, match="user 1000"):
        requirements.check([], effective_user=1000)


def test_the_requirements_are_listed_by_the_standard_library_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "zonequake_cluster.requirements", "--all"],
        env={"PYTHONPATH": f"{ROOT / 'chaos'}:{ROOT / 'operator'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"containerd", "runc", "iptables", "util-linux"} <= set(done.stdout.split())


def test_a_folders_lock_is_held_by_one_and_free_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    with lock_folder(folder, wait_s=0) as first, lock_folder(folder, wait_s=0) as second:
        assert (first, second) == (True, False)
    with lock_folder(folder, wait_s=0) as third:
        assert third


def test_a_lock_on_a_folder_that_was_removed_meanwhile_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    with lock_folder(folder, wait_s=0) as old:
        folder.rmdir()
        with lock_folder(folder, wait_s=0) as new:
            assert old
            assert new
            assert folder.is_dir()


def test_a_marked_process_is_found_and_ended_and_others_stay() -> None:
    marked, another = f"one-{secrets.token_hex(4)}", f"other-{secrets.token_hex(4)}"
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with (
        subprocess.Popen(command, env={MARK: marked}, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, env={MARK: another}, stdout=subprocess.PIPE) as other,
    ):
        for each in (one, other):
            assert each.stdout is not None
            each.stdout.readline()
        assert [process.pid for process in find_marked(MARK, marked)] == [one.pid]
        assert find_init(MARK, marked) is None
        end_marked(MARK, marked, timeout_s=60)
        assert one.wait() == -9
        assert other.poll() is None
        other.kill()
    assert find_marked(MARK, another) == []


def test_groups_of_version_1_are_made_in_every_hierarchy_and_removed(tmp_path: Path) -> None:
    for controller in ("cpuset", "memory"):
        (tmp_path / controller).mkdir()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1\n")
    (tmp_path / "mem").symlink_to("memory")
    cgroups.create("zonequake-x", tmp_path)
    assert (tmp_path / "cpuset/zonequake-x/cpuset.cpus").read_text() == "0-1\n"
    assert cgroups.find("zonequake-x", tmp_path) == [
        tmp_path / "cpuset/zonequake-x",
        tmp_path / "memory/zonequake-x",
    ]
    (tmp_path / "cpuset/zonequake-x/cpuset.cpus").unlink()
    (tmp_path / "memory/zonequake-x/kubepods").mkdir()
    cgroups.remove("zonequake-x", timeout_s=60, root=tmp_path)
    assert cgroups.find("zonequake-x", tmp_path) == []


@pytest.mark.parametrize(
    ("setting", "whole", "part"), [("cpu.shares", "3072", "1024"), ("cpu.weight", "118", "39")]
)
def test_pods_get_two_thirds_of_a_busy_node_of_two_cores(
    setting: str, whole: str, part: str, tmp_path: Path
) -> None:
    unified = setting == "cpu.weight"
    if unified:
        (tmp_path / "cgroup.controllers").write_text("cpu\n")
    hierarchy = tmp_path if unified else tmp_path / "cpu"
    components = hierarchy / "zonequake-x" / cgroups.COMPONENTS
    components.mkdir(parents=True)
    (tmp_path / "memory/zonequake-x").mkdir(parents=True)
    for group in (components.parent, components):
        (group / setting).write_text("as it was")
    cgroups.share_out("zonequake-x", cores=2, root=tmp_path)
    assert (components.parent / setting).read_text().strip() == whole
    assert (components / setting).read_text().strip() == part
    assert (components / "cgroup.procs").read_text() == "0\n", "the supervisor, and all it starts"
    assert list((tmp_path / "memory/zonequake-x").iterdir()) == [], "no share of the processors"


def test_controllers_of_version_2_are_passed_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory misc\n")
    (tmp_path / "zonequake-x").mkdir()
    (tmp_path / "zonequake-x/cgroup.controllers").write_text("memory\n")
    cgroups.create("zonequake-x", tmp_path)
    assert (tmp_path / "zonequake-x/cgroup.subtree_control").read_text() == "+memory"


def test_a_changed_source_is_built_again(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main")
    before = source_digest(tmp_path)
    (tmp_path / "notes.txt").write_text("no source")
    assert source_digest(tmp_path) == before
    (tmp_path / "main.go").write_text("package Main")
    assert source_digest(tmp_path) != before
    assert (SOURCES / "go.sum").is_file()


def test_an_image_file_for_another_cluster_is_refused_with_the_option_that_helps(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("{}")
    cluster = ForeignCluster(context="ci", kubeconfig=kubeconfig)
    with pytest.raises(Unsupported, match="--image"):
        cluster.load_image(tmp_path / "image.tar")


@pytest.mark.parametrize(
    "words",
    [
        ["up", "--name", "a", "--context", "b"],
        ["up", "--name", "No"],
        ["status", "--kubeconfig", "/nowhere/at/all"],
    ],
)
def test_wrong_words_end_with_254_and_one_sentence(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 254
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_the_kubeconfig_of_a_cluster_that_is_not_up_ends_with_255() -> None:
    done = CliRunner().invoke(app, ["kubeconfig", "--name", f"none-{os.getpid()}"])
    assert done.exit_code == 255
    assert "zonequake cluster up" in done.stderr


@pytest.mark.parametrize(
    ("built", "said", "own"),
    [
        (True, "v3.19.0+g1", True),
        (False, "v3.19.0+g1", False),
        (False, "v4.0.1", False),
        (False, "v2.17.0", True),
        (False, "", True),
    ],
)
def test_helm_is_our_own_unless_only_the_machine_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool, said: str, own: bool
) -> None:
    machines = tmp_path / "helm"
    machines.write_text(f"#!/bin/sh\necho {said}\n")
    machines.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tools, "are_built", lambda _: built)
    monkeypatch.setattr(
        tools, "ensure_programs", lambda _, say: Programs(folder=Path("/built-by-us"))
    )
    assert tools.helm_path() == (Path("/built-by-us/helm") if own else machines)
