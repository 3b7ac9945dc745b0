"""A load pod around a made-up target, which writes its history into a test's folder."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from zonequake_load.pod.control import LoadPlan
from zonequake_load.pod.history import Recorder, machine_clock
from zonequake_load.pod.load import LoadPod
from zonequake_load.pod.recovery import read_past
from zonequake_load.pod.tally import OperationTally
from zonequake_load.targets.protocol import Target


def load_of(target: Target, folder: Path) -> LoadPod:
    """The first process of the first pod."""
    return LoadPod(
        LoadPlan(client="some:client", zone="z", seeds=["s:1"]),
        pod="p-0",
        ordinal=0,
        incarnation=1,
        directory=folder,
        target=target,
        recorder=Recorder(folder, "p-0-1", "z", machine_clock()),
        tally=OperationTally(CollectorRegistry()),
        recovered=read_past(folder),
    )
