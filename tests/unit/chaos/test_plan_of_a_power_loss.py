"""Which volumes may lose their power, and what is done until they are mounted again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

import pytest

from zonequake_agent.disk import mounts
from zonequake_agent.disk.mounts import Mount
from zonequake_agent.disk.power_plan import (
    KillHolder,
    MountVolume,
    NodePoint,
    PowerStep,
    Unmount,
    Unsuited,
    Volume,
    VolumeSight,
    is_of,
    next_steps,
    volume_from,
    volume_of,
)

UID = "7b7b7b7b-1111-2222-3333-444455556666"
OTHER = "8c8c8c8c-1111-2222-3333-444455556666"
BASE = "/limited/0"
POD = f"/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~local-volume/limited-0"
NODE = f"""
36 25 254:16 / / rw,relatime shared:1 - ext4 /dev/vdb rw
70 36 7:0 / {BASE} rw,relatime - ext4 /dev/loop0 rw,shutdown,stripe=4
71 36 7:0 / {POD} rw,relatime shared:3 - ext4 /dev/loop0 rw,shutdown,stripe=4
""".strip()
(ROOT, IN_BASE, IN_POD) = mounts.parse(NODE)
IN_CONTAINER = dataclasses.replace(IN_BASE, point="/data")
ON_NODE = {1: [IN_BASE, IN_POD]}


def volume(
    mount: Mount = IN_CONTAINER,
    node: Mapping[int, Sequence[Mount]] = ON_NODE,
    file: str | None = "/limited/0.img",
) -> Volume:
    return volume_of(mount, uid=UID, node=node, file=file)


POINTS = [NodePoint(namespace=1, path=BASE), NodePoint(namespace=1, path=POD)]


def test_a_mount_is_read_with_blanks_in_its_names() -> None:
    (found,) = mounts.parse(r"70 36 7:0 /a\040b /c\134d rw - xfs /dev/sd\040a rw,inode64")
    assert (found.root, found.point, found.source) == ("/a b", r"/c\d", "/dev/sd a")
    assert (found.kind, found.options) == ("xfs", "rw,rw,inode64")
    assert mounts.root_device(NODE) == "254:16"


def test_a_volume_is_known_by_all_that_another_mount_needs() -> None:
    found = volume()
    assert found == Volume(
        source="/limited/0.img",
        device="7:0",
        loop=True,
        kind="ext4",
        options="rw,relatime,stripe=4",
        points=POINTS,
    ), "options that the kernel only shows are none"
    assert volume_from(json.loads(json.dumps(dataclasses.asdict(found)))) == found
    assert (volume(file=None).source, volume(file=None).loop) == ("/dev/loop0", False)


@pytest.mark.parametrize(
    ("mount", "node", "words"),
    [
        (dataclasses.replace(IN_CONTAINER, kind="btrfs"), ON_NODE, "type btrfs, .* ext4 or xfs"),
        (IN_CONTAINER, {1: []}, "is mounted in no namespace of the node itself"),
        (
            IN_CONTAINER,
            {1: [IN_BASE, dataclasses.replace(IN_POD, root="/a")]},
            "has the folder /a of the same file system",
        ),
        (
            IN_CONTAINER,
            {1: [*ON_NODE[1], dataclasses.replace(IN_POD, point=POD.replace(UID, OTHER))]},
            f"also a volume of the pod with UID {OTHER}",
        ),
    ],
)
def test_a_volume_that_cannot_lose_its_power_alone_is_refused(
    mount: Mount, node: Mapping[int, Sequence[Mount]], words: str
) -> None:
    with pytest.raises(Unsuited, match=words):
        volume(mount, node)


def test_a_volume_is_of_the_pod_for_which_the_kubelet_mounted_it() -> None:
    assert is_of(UID, IN_POD)
    assert not is_of(UID, IN_BASE)
    assert not is_of(OTHER, IN_POD)
    assert not is_of(UID, dataclasses.replace(IN_POD, kind="tmpfs"))


def seen(*mounted: NodePoint, dead: bool = False, gone: Sequence[NodePoint] = ()) -> VolumeSight:
    return VolumeSight(
        dead=dead,
        device="/dev/loop3" if mounted else None,
        mounted=mounted,
        folders=frozenset(POINTS) - frozenset(gone),
        holders=(77,) if dead else (),
    )


AT_BASE, AT_POD = POINTS
FIRST = MountVolume(point=AT_BASE, source="/limited/0.img", loop=True)


@pytest.mark.parametrize(
    ("now", "steps"),
    [
        (
            seen(AT_BASE, AT_POD, dead=True),
            [KillHolder(pid=77), Unmount(point=AT_POD), Unmount(point=AT_BASE)],
        ),
        (seen(dead=True), [KillHolder(pid=77)]),
        (seen(), [FIRST]),
        (seen(AT_BASE), [MountVolume(point=AT_POD, source="/dev/loop3", loop=False)]),
        (seen(AT_BASE, AT_POD), []),
        (seen(AT_BASE, gone=[AT_POD]), []),
        (seen(gone=[AT_BASE, AT_POD]), []),
    ],
    ids=[
        "dead: every mount of it goes, and what has it open",
        "dead, and only a container has it: that ends",
        "mounted nowhere: it is mounted",
        "mounted in one place: it is mounted beside, from the same device",
        "mounted and alive: nothing is done",
        "the pod is gone: nothing is mounted for it",
        "the volume is gone: nothing is done",
    ],
)
def test_the_state_decides_what_is_done_next(now: VolumeSight, steps: list[PowerStep]) -> None:
    assert next_steps(volume(), now) == steps
