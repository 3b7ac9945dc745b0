"""An etcd on a real node whose clients and peers speak TLS, by Secrets that the scenario names."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.scenarios.secrets_of_targets import hosts_of, make_secrets
from tests.cluster.scenarios.test_targets_on_a_node import checked, kept
from zonequake_cluster.supply.certificate_authority import Authority

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

MEMBERS, CLIENT, EXPIRED = "etcd-members", "etcd-client", "etcd-client-expired"
NAMED = (f"harness.targetSecrets={{{MEMBERS},{CLIENT},{EXPIRED}}}",)
OPTIONS = [
    f"--{prefix}{option}"
    for prefix in ("", "peer-")
    for option in (
        "cert-file=/tls/tls.crt",
        "key-file=/tls/tls.key",
        "trusted-ca-file=/tls/ca.crt",
        "client-cert-auth",
    )
]
TLS = (f"target.args=[{', '.join(OPTIONS)}]", f"target.secrets={{/tls: {MEMBERS}}}")
SHORT = "times={beforeSeconds: 4, afterSeconds: 3}"


@pytest.fixture(scope="module")
def secrets(release: Release) -> None:
    """Of members by the names that they have for each other, and of clients."""
    authority = Authority.made("a test's etcd", datetime.now(UTC))
    signed = {
        MEMBERS: authority.sign("etcd", hosts=hosts_of("etcd", release.place)),
        CLIENT: authority.sign("load"),
        EXPIRED: authority.sign("load", lifetime=timedelta(hours=-1)),
    }
    release.plant("", more=NAMED)  # makes the namespace, too
    asyncio.run(make_secrets(release.place, authority, signed))


@pytest.mark.usefixtures("secrets")
def test_an_etcd_with_tls_keeps_what_the_checks_rely_on(release: Release, tmp_path: Path) -> None:
    client = f"target.clientSecret={CLIENT}"
    done = checked(release, "etcd", tmp_path / "run", *TLS, client, more=NAMED)
    kept(done)
    assert "altered, dumps" in done.stdout


@pytest.mark.usefixtures("secrets")
def test_an_etcd_with_tls_whose_leaders_are_killed_passes_every_check(
    release: Release, run_scenario: Any
) -> None:
    release.plant("", more=NAMED)
    judged = run_scenario(
        "leader-kill",
        *(SHORT, "faults.0.times=2", *TLS, f"target.clientSecret={CLIENT}"),
        target="etcd",
        plant=False,
    )
    assert judged.exit_code == 0, judged.output
    audits = [event["data"] for event in judged.events("replica.audit")]
    assert len(audits) == 3
    assert len({data["digest"] for data in audits}) == 1


@pytest.mark.usefixtures("secrets")
def test_a_client_whose_certificate_has_expired_is_told_so_and_writes_nothing(
    release: Release, run_scenario: Any
) -> None:
    release.plant("", more=NAMED)
    judged = run_scenario(
        "leader-kill",
        "times={beforeSeconds: 4, afterSeconds: 3, preloadTimeoutSeconds: 30}",
        *(*TLS, f"target.clientSecret={EXPIRED}"),
        target="etcd",
        plant=False,
    )
    assert judged.exit_code not in (0, 1), judged.output
    told = (judged.folder / "run.yaml").read_text()
    assert "certificate expired" in " ".join(told.split()), told[-2000:]
    assert judged.events("fault.effective") == []
