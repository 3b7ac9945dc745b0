"""Options that name a cluster, and classes of options.

A command takes a class of options as one parameter, and `@expanded` makes an option of each field.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import typer


def kubeconfig_option(about: str) -> Any:  # noqa: ANN401 - as typer.Option
    """Returns the option --kubeconfig; `about` is its help, with the command's default."""
    return typer.Option("--kubeconfig", help=about)


def context_option(about: str) -> Any:  # noqa: ANN401 - as typer.Option
    """Returns the option --context; `about` is its help, with the command's default."""
    return typer.Option("--context", help=about)


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
