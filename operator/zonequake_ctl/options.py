"""Options of the commands that work on a cluster: once here, and not in each signature."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace, find_place
from zonequake_kube.errors import UsageError
from zonequake_kube.options import context_option, kubeconfig_option

Kubeconfig = Annotated[
    Path | None,
    kubeconfig_option("Default: the embedded cluster's; $KUBECONFIG if --context."),
]
UserKubeconfig = Annotated[
    Path | None, kubeconfig_option("Default: $KUBECONFIG, then the embedded cluster's.")
]
Context = Annotated[str | None, context_option("Context of the kubeconfig to use.")]


def _namespace(name: str) -> str:
    """Raises UsageError for a name that the API server takes of no namespace."""
    if re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) is None:
        raise UsageError(
            f"--namespace: found {name!r}, expected up to 63 of the characters a-z, 0-9 and '-', "
            "with a letter or digit at both ends"
        )
    return name


Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", help="Namespace of the release.", callback=_namespace),
]
Release = Annotated[str, typer.Option("--release", help="Name of the Helm release.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """Names a release, in the embedded cluster by default."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    namespace: Namespace = DEFAULT_NAMESPACE
    release: Release = DEFAULT_RELEASE

    def place(self) -> ReleasePlace:
        """Finds the release. Raises UsageError if there is no such cluster."""
        return find_place(
            kubeconfig=self.kubeconfig,
            context=self.context,
            namespace=self.namespace,
            release=self.release,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOptions:
    """Names a namespace with zones: where kubectl looks, else in the embedded cluster."""

    kubeconfig: UserKubeconfig = None
    context: Context = None
    namespace: Namespace = DEFAULT_NAMESPACE

    def place(self) -> ReleasePlace:
        """Finds the namespace. Raises UsageError if there is no such cluster."""
        return find_place(
            kubeconfig=self.kubeconfig,
            context=self.context,
            namespace=self.namespace,
            release=DEFAULT_RELEASE,
            from_environment=True,
        )


def wrong_words(error: TyperException) -> str:
    """Returns what is wrong with a command's words, with the value that was found."""
    said = error.format_message().replace("Value error, ", "", 1)  # pydantic's words
    details = getattr(error.__cause__, "errors", None)  # pydantic's, which typer leaves out
    if not callable(details):
        return said
    found = [repr(detail["input"]) for detail in details()]
    return "; ".join([said, *(f"found {each}" for each in found if each not in said)])
