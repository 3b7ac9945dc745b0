"""A release with the analysis, on the session's cluster, and an S3 server that its pods reach."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.analysis_pods.release import (
    Analysis,
    Plant,
    Upload,
    analysis_beside_a_store,
    install,
    with_data_nodes,
)
from tests.foreign.spoilt_runs import uploaded, write_spoilt
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_ctl.context import ReleasePlace


@pytest.fixture(scope="session")
def installed(embedded_cluster: EmbeddedCluster) -> ReleasePlace:
    """The analysis alone."""
    return install(embedded_cluster)


@pytest.fixture(scope="session")
def analysis(
    embedded_cluster: EmbeddedCluster,
    installed: ReleasePlace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Analysis]:
    """The release, a run with every anomaly, and a store with its credentials in a Secret."""
    folder = tmp_path_factory.mktemp("s3")
    run = write_spoilt(tmp_path_factory.mktemp("runs") / "spoilt")
    with analysis_beside_a_store(embedded_cluster, installed, folder, run) as found:
        yield found


@pytest.fixture
def uploaded_as(analysis: Analysis) -> Upload:
    """Puts the run into the store under a name, and returns its URI."""

    def upload(name: str) -> str:
        return uploaded(analysis.run, analysis.server, name)

    return upload


@pytest.fixture(scope="module")
def plant(
    embedded_cluster: EmbeddedCluster, installed: ReleasePlace, analysis: Analysis
) -> Iterator[Plant]:
    """Brings data nodes into the release for the tests of a module."""
    del analysis  # its account and store, which stay
    with with_data_nodes(embedded_cluster, installed) as planted:
        yield planted
