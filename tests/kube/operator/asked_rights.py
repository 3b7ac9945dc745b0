"""Asks a real API server what an account may do: for its rules, or about every resource and verb.

The rules are one question. A thousand questions also show what a server grants beside its rules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from tests.kube.operator.api_server import SECRET, UNVERIFIED

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

VERBS = (*("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),)
UNUSUAL = {
    "users": "impersonate",
    "groups": "impersonate",
    "serviceaccounts": "impersonate",
    "roles": "escalate",
    "clusterroles": "bind",
    "certificatesigningrequests/approval": "approve",
    "*": "*",
}
AT_ONCE = 40
NO_ROLES_NAMESPACE = "kube-system"
"""Where no account of ours has a Role: it may do there what it may do everywhere."""
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"


class Granted(NamedTuple):
    """A right, as docs/security.md names it."""

    group: str
    resource: str
    verb: str


def resources(api: ApiServer) -> set[tuple[str, str]]:
    """(group, resource or resource/subresource) of everything that the server knows."""
    found = {("", each["name"]) for each in api.read("/api/v1")["resources"]}
    for group in api.read("/apis")["groups"]:
        for version in group["versions"]:
            listed = api.read(f"/apis/{version['groupVersion']}")["resources"]
            # Some name another group: a scale is of autoscaling, and asked for with its own.
            found |= {(group["name"], each["name"]) for each in listed}
    # What is no object and yet asked for.
    found |= {(group, f"{name}/finalizers") for group, name in found if "/" not in name}
    return found | {("", "users"), ("", "groups"), ("", "serviceaccounts"), ("*", "*")}


def allowed(api: ApiServer, user: str, *, namespace: str | None) -> set[Granted]:
    """What `user` may do in a namespace, or everywhere (None)."""
    return asyncio.run(_allowed(api, user, namespace, sorted(resources(api))))


async def _allowed(
    api: ApiServer, user: str, namespace: str | None, what: Iterable[tuple[str, str]]
) -> set[Granted]:
    asked = [Granted(group, name, verb) for group, name in what for verb in VERBS]
    asked += [Granted(group, name, UNUSUAL[name]) for group, name in what if name in UNUSUAL]
    slots = asyncio.Semaphore(AT_ONCE)
    connector = aiohttp.TCPConnector(ssl=UNVERIFIED, limit=AT_ONCE)
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def ask(right: Granted) -> bool:
            resource, _, below = right.resource.partition("/")
            attributes = {
                "group": right.group,
                "resource": resource,
                "verb": right.verb,
                **({"subresource": below} if below else {}),
                **({"namespace": namespace} if namespace else {}),
                **({"name": SECRET} if resource == "secrets" else {}),
            }
            spec = {"user": user, "groups": groups_of(user), "resourceAttributes": attributes}
            body = json.dumps({"spec": spec})
            url = f"{api.url}{_AUTHORIZATION}/subjectaccessreviews"
            async with slots, session.post(url, data=body) as response:
                answer = await response.json()
            assert response.status == 201, answer
            return bool(answer["status"]["allowed"])

        answers = await asyncio.gather(*map(ask, asked))
    return {right for right, yes in zip(asked, answers, strict=True) if yes}


def groups_of(user: str) -> list[str]:
    """The groups that a service account's token, or a person's certificate, stands for."""
    if not user.startswith("system:serviceaccount:"):
        return ["system:authenticated"]
    namespace = user.split(":")[2]
    every = "system:serviceaccounts"
    return [every, f"{every}:{namespace}", "system:authenticated"]


def ruled(api: ApiServer, user: str, *, namespace: str | None) -> set[Granted]:
    """The same as `allowed` by the server's rules for `user`, impersonated by the administrator."""
    as_user = [("Impersonate-User", user)]
    as_user += [("Impersonate-Group", group) for group in groups_of(user)]
    rights, _ = own_rules(api, api.token, namespace or NO_ROLES_NAMESPACE, as_user)
    return rights


def own_rules(
    api: ApiServer, token: str, namespace: str, headers: Iterable[tuple[str, str]] = ()
) -> tuple[set[Granted], set[str]]:
    """What the server says to an account that asks for its own rules: rights and URLs."""
    said = asyncio.run(_rules(api, token, namespace, headers))
    assert not said["incomplete"], said
    rights = {Granted(*each) for rule in said["resourceRules"] for each in _each(rule)}
    urls = {url for rule in said["nonResourceRules"] for url in rule["nonResourceURLs"]}
    return rights, urls


async def _rules(
    api: ApiServer, token: str, namespace: str, headers: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    url = f"{api.url}{_AUTHORIZATION}/selfsubjectrulesreviews"
    sent = [("Authorization", f"Bearer {token}"), *headers]
    connector = aiohttp.TCPConnector(ssl=UNVERIFIED)
    async with (
        aiohttp.ClientSession(connector=connector, headers=sent) as session,
        session.post(url, json={"spec": {"namespace": namespace}}) as response,
    ):
        status = (await response.json())["status"]
    assert isinstance(status, dict)
    return status


def _each(rule: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rule.get("apiGroups", ()):
        for resource in rule.get("resources", ()):
            for verb in rule["verbs"]:
                yield group, resource, verb
