"""Each account may do what docs/security.md lists, and nothing else, as a real API server says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.chart.rights import PAGE, listed
from tests.kube.operator.api_server import analysis_accounts_in, wait_until
from tests.kube.operator.asked_rights import NO_ROLES_NAMESPACE, Granted, allowed, own_rules, ruled
from tests.kube.operator.audit_log import Refusal, refusals
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

EVERYWHERE = {"operator": "nodes (cluster)"}
"""What an account has beside its own Role, cluster-wide."""
PEOPLE = ("viewer", "node-reports", "editor")
NAMESPACE = "listed-rights"
WAYS_TO_ASK = (
    pytest.param(ruled, id="rules"),
    pytest.param(allowed, id="each-right", marks=pytest.mark.long),
)
IN_THE_ANALYSIS = {
    "analysis": "analysis",
    "analysis-executor": "nobody",
    "chaos": "analysis-runner",
}
"""The row of what an account may do in the analysis's namespace, by account."""


class WayToAsk(Protocol):
    """Returns what a user may do in a namespace, or everywhere (None)."""

    def __call__(self, api: ApiServer, user: str, *, namespace: str | None) -> set[Granted]: ...


@pytest.fixture(scope="module")
def api(api_server: ApiServer) -> ApiServer:
    """A namespace with the chart's accounts, and a person for each Role that is for people."""
    api = api_server.in_namespace(NAMESPACE)
    assert api.kubectl("create", "serviceaccount", "nobody").returncode == 0
    for role in PEOPLE:
        bound = ("create", "rolebinding", f"a-{role}", f"--role=zq-{role}", f"--user=a-{role}")
        assert api.kubectl(*bound).returncode == 0
    return api


def wanted(account: str) -> set[Granted]:
    """What the page lists for the row `account`."""
    return {Granted(*right[1:]) for right in listed(PAGE.read_text()) if right.account == account}


def user_of(account: str) -> str:
    if account in PEOPLE:
        return f"a-{account}"
    home = analysis_of(NAMESPACE) if account.startswith("zq-analysis") else NAMESPACE
    return f"system:serviceaccount:{home}:{account}"


def analysis_of(namespace: str) -> str:
    """The namespace in which a release's analysis runs."""
    return f"{namespace}-analysis"


@pytest.fixture(scope="module")
def analysis(api: ApiServer) -> ApiServer:
    """The analysis's namespace of the release, with its accounts and Roles."""
    there = replace(api, namespace=analysis_of(api.namespace))
    namespace = {"metadata": {"name": there.namespace}}
    there.put({"apiVersion": "v1", "kind": "Namespace", **namespace})
    for obj in analysis_accounts_in(api.namespace):
        there.put(obj)
    return there


@pytest.fixture(scope="module", params=WAYS_TO_ASK)
def asked(request: pytest.FixtureRequest) -> WayToAsk:
    found: WayToAsk = request.param
    return found


@pytest.fixture(scope="module")
def of_every_account(api: ApiServer, asked: WayToAsk) -> set[Granted]:
    """What an account without any Role may do: to ask what it may do."""
    found = asked(api, user_of("nobody"), namespace=api.namespace)
    assert {verb for _, _, verb in found} == {"create"}
    assert all(resource.startswith("self") for _, resource, _ in found)
    return found


def allowed_beyond(
    api: ApiServer,
    user: str,
    asked: WayToAsk,
    of_every_account: set[Granted],
    expected: set[Granted],
) -> set[Granted]:
    """Returns what this user may do in the namespace beyond what every account may, once it is as
    expected, or at last: a server heeds a Role a moment after it has stored it."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        found = asked(api, user, namespace=api.namespace) - of_every_account
        if found == expected or time.monotonic() > give_up_s:
            return found


@pytest.mark.parametrize("account", ["operator", "store", "chaos", "target", *PEOPLE])
def test_an_account_may_do_what_is_listed_and_nothing_else(
    api: ApiServer, asked: WayToAsk, of_every_account: set[Granted], account: str
) -> None:
    user = user_of(account if account in PEOPLE else f"zq-{account}")
    own = wanted(account)
    everywhere = wanted(EVERYWHERE.get(account, "nobody"))
    found = allowed_beyond(api, user, asked, of_every_account, own | everywhere)
    assert found - own - everywhere == set(), "may be done and is not listed"
    assert own | everywhere == found, "is listed and may not be done"


def test_an_account_has_no_right_beyond_its_namespace(
    api: ApiServer, asked: WayToAsk, of_every_account: set[Granted]
) -> None:
    for account in ("operator", "store", "chaos", "target"):
        found = asked(api, user_of(f"zq-{account}"), namespace=None) - of_every_account
        assert found == wanted(EVERYWHERE.get(account, "nobody")), account


@pytest.mark.parametrize("account", IN_THE_ANALYSIS)
def test_an_account_may_do_in_the_analysis_what_is_listed_and_nothing_else(
    analysis: ApiServer, asked: WayToAsk, of_every_account: set[Granted], account: str
) -> None:
    listed_there = wanted(IN_THE_ANALYSIS[account])
    there = allowed_beyond(
        analysis, user_of(f"zq-{account}"), asked, of_every_account, listed_there
    )
    assert there - listed_there == set(), "may be done and is not listed"
    assert listed_there == there, "is listed and may not be done"


def test_the_analysis_and_the_others_may_do_nothing_with_each_other(
    api: ApiServer, analysis: ApiServer
) -> None:
    nobody = api.token_of("nobody")
    for account in ("analysis", "analysis-executor"):
        token = analysis.token_of(f"zq-{account}")
        for namespace in (api.namespace, NO_ROLES_NAMESPACE):
            assert own_rules(api, token, namespace) == own_rules(api, nobody, namespace), account
    nobodys, _ = own_rules(api, nobody, analysis.namespace)
    for account in ("operator", "store"):
        rights, _ = own_rules(api, api.accounts[account], analysis.namespace)
        assert rights - nobodys == wanted(EVERYWHERE.get(account, "nobody")), account


@pytest.mark.parametrize("role", ["analysis", "analysis-runner"])
def test_an_extra_right_of_the_analysis_and_a_missing_one_are_found(
    analysis: ApiServer, asked: WayToAsk, of_every_account: set[Granted], role: str
) -> None:
    (account,) = (name for name, row in IN_THE_ANALYSIS.items() if row == role)
    rules = analysis.get("role", f"zq-{role}")["rules"]
    pods = next(rule for rule in rules if rule["resources"] == ["pods"])
    others = [rule for rule in rules if rule is not pods]
    verbs = [*(verb for verb in pods["verbs"] if verb != "create"), "patch"]
    analysis.patch("role", f"zq-{role}", {"rules": [{**pods, "verbs": verbs}, *others]})
    try:
        user = user_of(f"zq-{account}")
        extra, missing = {Granted("", "pods", "patch")}, {Granted("", "pods", "create")}
        found = allowed_beyond(
            analysis, user, asked, of_every_account, (wanted(role) | extra) - missing
        )
        assert found - wanted(role) == extra
        assert wanted(role) - found == missing
    finally:
        analysis.patch("role", f"zq-{role}", {"rules": rules})


@pytest.mark.parametrize("account", ["operator", "store", "chaos"])
def test_the_server_tells_an_account_the_same_rules_when_it_asks_for_its_own(
    api: ApiServer, account: str
) -> None:
    nobodys, common = own_rules(api, api.token_of("nobody"), api.namespace)
    rights, urls = own_rules(api, api.accounts[account], api.namespace)
    everywhere = wanted(EVERYWHERE.get(account, "nobody"))
    assert rights - nobodys == wanted(account) | everywhere
    assert urls == common
    abroad, _ = own_rules(api, api.accounts[account], NO_ROLES_NAMESPACE)
    assert abroad - nobodys == everywhere


def test_an_extra_right_and_a_missing_one_are_found(
    api: ApiServer, asked: WayToAsk, of_every_account: set[Granted]
) -> None:
    role = api.get("role", "zq-store")
    (rule,) = role["rules"]
    planted = [{**rule, "verbs": ["get", "create", "delete"]}]
    api.patch("role", "zq-store", {"rules": planted})
    try:
        leases = ("coordination.k8s.io", "leases")
        extra, missing = {Granted(*leases, "delete")}, {Granted(*leases, "update")}
        expected = (wanted("store") | extra) - missing
        found = allowed_beyond(api, user_of("zq-store"), asked, of_every_account, expected)
        assert found - wanted("store") == extra
        assert wanted("store") - found == missing
    finally:
        api.patch("role", "zq-store", {"rules": role["rules"]})


def test_what_the_server_refuses_an_account_stands_in_its_audit_log(api: ApiServer) -> None:
    other = api.in_namespace("test-a-right-that-nobody-has")
    config = other.kubeconfig_of("store", other.credentials)
    refused = other.kubectl(f"--kubeconfig={config}", "get", "secrets", "--output=json")
    assert "forbidden" in refused.stderr
    expected = Refusal(other.namespace, "zq-store", "list", "", "secrets", other.namespace)
    # The line may be written after the answer.
    wait_until(lambda: expected in refusals(api.kubeconfig.parent))
