"""Checks the Secrets that a run hands to its target and its load, before it makes anything."""

from __future__ import annotations

from http import HTTPStatus

from zonequake_chaos.load.installation import Installation
from zonequake_chaos.scenario.run import RunTarget
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError


async def check_secrets(kube: Kube, installation: Installation, target: RunTarget) -> None:
    """Raises UsageError for a Secret that isn't there, that the account may not look for, or that
    has keys of the release. Reads no Secret's content.
    """
    named = {name: f"target.secrets has {name}" for name in target.secrets.values()}
    if target.client_secret is not None:
        named[target.client_secret] = f"target.clientSecret is {target.client_secret}"
    for name, where in sorted(named.items()):
        if name.startswith(f"{installation.release}-tls-"):
            raise UsageError(
                f"{where}, a Secret of the release, with whose keys a member could act as one of "
                "its parts: make one for the target"
            )
        try:
            found = await kube.has("Secret", name)
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            raise UsageError(
                f"{where}, and this account may not look whether that Secret is there: let runs "
                "use it by the release's value, zonequake install --set "
                f"'harness.targetSecrets={{{','.join(sorted(named))}}}'"
            ) from error
        if not found:
            raise UsageError(
                f"{where}, which is not in namespace {kube.namespace}: kubectl --namespace "
                f"{kube.namespace} create secret generic {name} --from-file=tls.crt "
                "--from-file=tls.key --from-file=ca.crt"
            )
