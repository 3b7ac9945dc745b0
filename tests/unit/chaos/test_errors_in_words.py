"""An error as a sentence, also where tasks fail together."""

from __future__ import annotations

from zonequake_kube.errors import HarnessError, WaitExpired, in_words


def test_a_group_is_its_causes_each_once() -> None:
    inner = ExceptionGroup(
        "unhandled errors in a TaskGroup", [HarnessError("no pod"), WaitExpired("not within 3 s")]
    )
    outer = ExceptionGroup("unhandled errors in a TaskGroup", [inner, HarnessError("no pod")])
    assert in_words(outer) == "no pod; not within 3 s"


def test_a_foreign_error_says_its_type() -> None:
    assert in_words(ValueError("7")) == "ValueError: 7"
    assert in_words(ConnectionResetError()) == "ConnectionResetError"
