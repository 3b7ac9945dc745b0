"""What the chaos account may not do on a real cluster, and that its being refused would be seen.

That no run is refused anything is asked after each of the group's runs (`Release.check_rights`).
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.kube.operator.audit_log import Refusal, lacking
from tests.patience import PATIENCE_S
from zonequake_cluster.supply import tools
from zonequake_ctl.release.access import write_access

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.scenarios.conftest import Release

pytestmark = pytest.mark.cluster


def test_the_chaos_account_may_not_look_elsewhere_and_its_refusal_is_seen(
    release: Release, tmp_path: Path
) -> None:
    release.plant("")
    config = tmp_path / "kubeconfig"
    asyncio.run(write_access(release.place, config, hours=1))

    def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(tools.kubectl_path()), f"--kubeconfig={config}", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert kubectl("get", "pods").returncode == 0
    assert "forbidden" in kubectl("get", "secrets").stderr
    assert "forbidden" in kubectl("get", "pods", "-n", "kube-system").stderr
    planted = {
        Refusal("zonequake", "zq-chaos", "list", "", "secrets", "zonequake"),
        Refusal("zonequake", "zq-chaos", "list", "", "pods", "kube-system"),
    }
    deadline_s = time.monotonic() + PATIENCE_S
    while lacking(release.logs) != planted:
        assert time.monotonic() < deadline_s, lacking(release.logs)
        time.sleep(0.2)
    release.provoked |= planted
