"""The operator's settings from the environment (docs/operator.md). Pure: it is handed in."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass

from zonequake_operator.controller.app import HTTP_PORT, OperatorOptions
from zonequake_operator.errors import OperatorSettingsError
from zonequake_operator.resources.model import DEFAULT_RETRY_THRESHOLD

DEFAULT_RESYNC_S = "5"
DEFAULT_VIEW_PERIOD_S = "5"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_MOST_RETRIES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """`election_s`: the duration of a lease of the leader; 0: this operator is the only one."""

    options: OperatorOptions
    election_s: float
    log_level: int


def settings_from(environment: Mapping[str, str]) -> OperatorSettings:
    """Reads the settings.

    Raises OperatorSettingsError with the variable, what was found and what is expected.
    """
    return OperatorSettings(
        options=OperatorOptions(
            namespace=_name(environment, "ZQ_NAMESPACE"),
            release=_name(environment, "ZQ_RELEASE"),
            resync_s=_seconds(environment, "ZQ_RESYNC_S", DEFAULT_RESYNC_S),
            view_period_s=_seconds(environment, "ZQ_VIEW_PERIOD_S", DEFAULT_VIEW_PERIOD_S),
            http_port=_integer(environment, "ZQ_HTTP_PORT", HTTP_PORT, 65_535),
            read_nodes=environment.get("ZQ_READ_NODES", "") == "true",
            retry_threshold=_integer(
                environment, "ZQ_RETRY_THRESHOLD", DEFAULT_RETRY_THRESHOLD, _MOST_RETRIES
            ),
        ),
        election_s=_seconds(environment, "ZQ_ELECTION_S", "0"),
        log_level=_level(environment),
    )


def _name(environment: Mapping[str, str], variable: str) -> str:
    found = environment.get(variable)
    if not found:
        raise OperatorSettingsError(
            f"found no {variable} in the environment; set it to the release's own"
        )
    return found


def _seconds(environment: Mapping[str, str], variable: str, default: str) -> float:
    text = environment.get(variable, default)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise OperatorSettingsError(
            f"{variable} is {text!r}; expected a number of seconds, 0 or more"
        )
    return value


def _integer(environment: Mapping[str, str], variable: str, default: int, most: int) -> int:
    text = environment.get(variable, str(default))
    if not text.isdecimal() or int(text) > most:
        raise OperatorSettingsError(f"{variable} is {text!r}; expected an integer from 0 to {most}")
    return int(text)


def _level(environment: Mapping[str, str]) -> int:
    text = environment.get("ZQ_LOG_LEVEL", "INFO")
    if text not in _LEVELS:
        raise OperatorSettingsError(
            f"ZQ_LOG_LEVEL is {text!r}; expected one of {', '.join(_LEVELS)}"
        )
    return logging.getLevelNamesMapping()[text]
