"""The access of a run: a kubeconfig with a token of the release's chaos account, and nothing else
in it.

The account and its Role come from the chart (`harness.account`, docs/security.md). Making the
kubeconfig needs the right to create tokens of the account; using it doesn't.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from zonequake_cluster.foreign import default_kubeconfig
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import NotFound, UsageError

CONTEXT = "zonequake-chaos"
DEFAULT_HOURS = 12
"""Longer than any campaign of a night, shorter than a forgotten file is harmless."""

Json = dict[str, Any]


def account_of(release: str) -> str:
    """Returns the name of the release's chaos account."""
    return f"{release}-chaos"


async def write_access(place: ReleasePlace, out: Path, *, hours: int = DEFAULT_HOURS) -> None:
    """Writes the kubeconfig, readable by its owner alone, with the one context `CONTEXT`.

    Raises UsageError if the release has no such account or the kubeconfig can't be read.
    """
    account = account_of(place.release)
    async with await place.connect() as kube:
        try:
            token = await kube.account_token(account, lifetime_s=hours * 3600)
        except NotFound as error:
            raise UsageError(
                f"release {place.release} has no account {account} in namespace {place.namespace}: "
                "zonequake install --set harness.account=true"
            ) from error
    source = place.kubeconfig or default_kubeconfig()
    cluster = cluster_of(yaml.safe_load(source.read_text()), place.context, source.parent)
    text = yaml.safe_dump(rendered(cluster, token=token, namespace=place.namespace))
    written = out.with_name(f"{out.name}.new")
    written.unlink(missing_ok=True)  # one that was left there may be readable by others
    written.touch(mode=0o600, exist_ok=False)
    written.write_text(text)
    written.replace(out)


def cluster_of(config: Json, context: str | None, folder: Path) -> Json:
    """Returns the cluster of a context in a kubeconfig (None: the current one), all inline.

    `folder`: where the kubeconfig lies, from which the names of its files count.
    """
    name = context or config.get("current-context")
    contexts = {entry["name"]: entry["context"] for entry in config.get("contexts") or ()}
    clusters = {entry["name"]: entry["cluster"] for entry in config.get("clusters") or ()}
    if name not in contexts or contexts[name].get("cluster") not in clusters:
        raise UsageError(
            f"the kubeconfig has no context {name!r} with a cluster; it has "
            f"{', '.join(sorted(contexts)) or 'none'}"
        )
    cluster = dict(clusters[contexts[name]["cluster"]])
    file = cluster.pop("certificate-authority", None)
    if file is not None:
        authority = (folder / file).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return cluster


def rendered(cluster: Json, *, token: str, namespace: str) -> Json:
    """Renders a kubeconfig of one context."""
    named = {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": named}],
        "current-context": CONTEXT,
    }
