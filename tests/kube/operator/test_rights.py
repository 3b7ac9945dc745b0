"""Each account may do what docs/security.md lists, and nothing else, as a real API server says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chart.rights import PAGE, listed
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.asked_rights import Granted, allowed, ruled
from tests.kube.operator.audit_log import Refusal, refusals

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

EVERYWHERE = {"operator": "nodes (cluster)"}
"""What an account has beside its own Role, cluster-wide."""
PEOPLE = ("viewer", "node-reports", "editor")


@pytest.fixture(scope="module")
def api(api_server: ApiServer) -> ApiServer:
    """A namespace with the chart's accounts, and a person for each Role that is for people."""
    api = api_server.in_namespace("listed-rights")
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
    return f"system:serviceaccount:listed-rights:{account}"


@pytest.fixture(scope="module")
def everybodys(api: ApiServer) -> set[Granted]:
    """What an account without any Role may do: to ask what it may do."""
    found = allowed(api, user_of("nobody"), namespace=api.namespace)
    assert {verb for _, _, verb in found} == {"create"}
    assert all(resource.startswith("self") for _, resource, _ in found)
    return found


@pytest.mark.parametrize("account", ["operator", "store", "chaos", *PEOPLE])
def test_an_account_may_do_what_is_listed_and_nothing_else(
    api: ApiServer, everybodys: set[Granted], account: str
) -> None:
    user = user_of(account if account in PEOPLE else f"zq-{account}")
    own = wanted(account)
    everywhere = wanted(EVERYWHERE.get(account, "nobody"))
    found = allowed(api, user, namespace=api.namespace) - everybodys
    assert found - own - everywhere == set(), "may be done and is not listed"
    assert own | everywhere == found, "is listed and may not be done"


def test_an_account_has_no_right_beyond_its_namespace(
    api: ApiServer, everybodys: set[Granted]
) -> None:
    for account in ("operator", "store", "chaos"):
        found = allowed(api, user_of(f"zq-{account}"), namespace=None) - everybodys
        assert found == wanted(EVERYWHERE.get(account, "nobody")), account


@pytest.mark.parametrize("account", ["operator", "store", "chaos"])
def test_the_server_tells_an_account_the_same_rules_when_it_asks_for_its_own(
    api: ApiServer, account: str
) -> None:
    nobodys, common = ruled(api, api.token_of("nobody"), api.namespace)
    rights, urls = ruled(api, api.accounts[account], api.namespace)
    everywhere = wanted(EVERYWHERE.get(account, "nobody"))
    assert rights - nobodys == wanted(account) | everywhere
    assert urls == common
    abroad, _ = ruled(api, api.accounts[account], "kube-system")
    assert abroad - nobodys == everywhere


def test_an_extra_right_and_a_missing_one_are_found(
    api: ApiServer, everybodys: set[Granted]
) -> None:
    role = api.get("role", "zq-store")
    (rule,) = role["rules"]
    planted = [{**rule, "verbs": ["get", "create", "delete"]}]
    api.patch("role", "zq-store", {"rules": planted})
    try:
        found = allowed(api, user_of("zq-store"), namespace=api.namespace) - everybodys
        leases = ("coordination.k8s.io", "leases")
        assert found - wanted("store") == {Granted(*leases, "delete")}
        assert wanted("store") - found == {Granted(*leases, "update")}
    finally:
        api.patch("role", "zq-store", {"rules": role["rules"]})


def test_what_the_server_refuses_an_account_stands_in_its_audit_log(api: ApiServer) -> None:
    other = api.in_namespace("test-a-right-that-nobody-has")
    config = other.kubeconfig_of("store", other.credentials)
    refused = other.kubectl(f"--kubeconfig={config}", "get", "secrets", "--output=json")
    assert "forbidden" in refused.stderr
    expected = Refusal(other.namespace, "zq-store", "list", "", "secrets", other.namespace)
    # The line may be written after the answer.
    wait_until(lambda: expected in refusals(api.kubeconfig.parent), 10)
