"""Options of the commands that work on a cluster: once here, and not in each signature.

A command takes a class of them as one parameter, and `@expanded` makes an option of each field.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.exceptions import TyperException

from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace, find_place
from zonequake_kube.errors import UsageError

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Default: the embedded cluster's; $KUBECONFIG if --context."),
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig to use.")]


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

    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", help="Default: $KUBECONFIG, then the embedded cluster's."),
    ] = None
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
    said = error.format_message()
    details = getattr(error.__cause__, "errors", None)  # pydantic's, which typer leaves out
    if not callable(details):
        return said
    return "; ".join([said, *(f"found {detail['input']!r}" for detail in details())])


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for each field of its parameters that are dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    def parameters() -> Iterator[inspect.Parameter]:
        for name, own in inspect.signature(command).parameters.items():
            if name not in groups:
                yield own.replace(annotation=hints[name], kind=own.KEYWORD_ONLY)
                continue
            types = get_type_hints(groups[name], include_extras=True)
            for field in fields(groups[name]):
                default = own.empty if field.default is MISSING else field.default
                yield inspect.Parameter(
                    field.name, own.KEYWORD_ONLY, default=default, annotation=types[field.name]
                )

    @functools.wraps(command)
    def call(**values: Any) -> None:  # noqa: ANN401 - whatever the options hold
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    expanded_parameters = list(parameters())
    call.__signature__ = inspect.Signature(expanded_parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in expanded_parameters}
    return call
