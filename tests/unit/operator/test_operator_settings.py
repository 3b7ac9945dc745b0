"""The operator's settings: what is taken, and how the rest is refused."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from zonequake_operator.errors import OperatorSettingsError
from zonequake_operator.settings import settings_from

LEAST = {"ZQ_NAMESPACE": "n", "ZQ_RELEASE": "zq"}


def test_what_is_not_set_has_its_default() -> None:
    found = settings_from(LEAST)
    assert (found.options.namespace, found.options.release) == ("n", "zq")
    assert (found.options.http_port, found.options.resync_s, found.election_s) == (8080, 5.0, 0.0)
    assert found.log_level == logging.INFO


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("ZQ_HTTP_PORT", "99999", "an integer from 0 to 65535"),
        ("ZQ_HTTP_PORT", "-1", "an integer from 0 to 65535"),
        ("ZQ_RETRY_THRESHOLD", "x", "an integer from 0"),
        ("ZQ_RESYNC_S", "soon", "a number of seconds, 0 or more"),
        ("ZQ_ELECTION_S", "-1", "a number of seconds, 0 or more"),
        ("ZQ_VIEW_PERIOD_S", "nan", "a number of seconds, 0 or more"),
        ("ZQ_LOG_LEVEL", "foo", "one of DEBUG, INFO"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_was_found_and_expected(
    variable: str, text: str, expected: str
) -> None:
    with pytest.raises(OperatorSettingsError, match=f"{variable} is '{text}'; expected {expected}"):
        settings_from({**LEAST, variable: text})


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "found no ZQ_NAMESPACE"),
        ({**LEAST, "ZQ_LOG_LEVEL": "foo"}, "ZQ_LOG_LEVEL is 'foo'"),
        ({**LEAST, "ZQ_TLS_DIR": "/x", "ZQ_TLS_DOMAIN": "x"}, "ZQ_TLS_DOMAIN is 'x'"),
    ],
)
def test_an_operator_that_cannot_use_its_settings_ends_with_254_and_a_sentence(
    environment: dict[str, str], said: str
) -> None:
    path = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "zonequake_operator"],
        env=environment | path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 254
    assert said in done.stderr
    assert "Traceback" not in done.stderr
