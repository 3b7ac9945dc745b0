"""The pytest plugin: a marker and a fixture to write a scenario as a test.

    @pytest.mark.zonequake(zones={"orders": {"partitions": 4}}, seed=7)
    def test_orders_outlive_their_leaders(zonequake):
        zonequake.inject("pod_kill", role="leader", when="leader", times=2, pause_s=2)
        assert zonequake.run().passed

pytest loads it in every session, so it imports only pytest, and starts nothing until a test uses
the fixture (docs/ci.md).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zonequake_chaos.testing.scenario import OwnScenario, Result

_MARKER = "zonequake"
_ABOUT = (
    "zonequake(zones=None, scenario=None, seed=None, pools=None, set=(), target='zonequake', "
    "image=None): zones for the fixture `zonequake` to make, or a scenario to start from (the name "
    "of a shipped one, or a file)."
)
_RESULTS: pytest.StashKey[list[Result]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the session's options: where the release under test is, and where runs are kept."""
    group = parser.getgroup("zonequake", "chaos runs against a Kubernetes cluster")
    group.addoption("--zonequake-context", help="Context. Default: the embedded cluster.")
    group.addoption(
        "--zonequake-kubeconfig",
        type=Path,
        help="Kubeconfig. Default: the embedded cluster's, or $KUBECONFIG with a context.",
    )
    group.addoption("--zonequake-namespace", default="zonequake", help="Namespace of the release.")
    group.addoption("--zonequake-release", default="zq", help="Name of the Helm release.")
    group.addoption("--zonequake-seed", type=int, help="Seed for all tests; overrides the marker.")
    group.addoption(
        "--zonequake-out",
        default="runs",
        help="Folder for the run folders, or a URI such as s3://bucket/prefix.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, so that --strict-markers accepts it."""
    config.addinivalue_line("markers", _ABOUT)


@pytest.fixture
def zonequake(request: pytest.FixtureRequest) -> Iterator[OwnScenario]:
    """Yields the marked test's scenario; once the test has ended, undoes everything that its runs
    left.
    """
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        pytest.fail(
            f"{request.node.nodeid} uses the fixture `zonequake` without its marker: add "
            "@pytest.mark.zonequake(zones={...}) or (scenario=...)",
            pytrace=False,
        )
    # Imported only here: it needs the clients of Kubernetes.
    from zonequake_chaos.testing.scenario import OwnScenario
    from zonequake_kube.errors import ChaosError

    option = request.config.getoption
    try:
        scenario = OwnScenario.of(
            marker.args,
            marker.kwargs,
            test=request.node.name,
            replay=f"pytest '{request.node.nodeid}'",
            seed=option("--zonequake-seed"),
            out=option("--zonequake-out"),
            kubeconfig=option("--zonequake-kubeconfig"),
            context=option("--zonequake-context"),
            namespace=option("--zonequake-namespace"),
            release=option("--zonequake-release"),
        )
    except ChaosError as error:
        pytest.fail(str(error), pytrace=False)
    request.node.stash[_RESULTS] = scenario.results
    try:
        yield scenario
    finally:
        left = scenario.close()
    if left:
        pytest.fail(f"not proven to be undone: {'; '.join(left)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the results of a test's runs to its JUnit properties, and as text if it failed."""
    report = yield
    results = item.stash.get(_RESULTS, [])
    if call.when == "call":
        for result in results:
            item.user_properties += result.properties  # pytest reads these at teardown
            if report.failed:
                report.sections.append((f"zonequake, seed {result.seed}", result.in_words()))
    return report
