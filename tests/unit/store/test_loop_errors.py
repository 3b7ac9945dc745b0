"""An error of the loop's own TLS ends a connection, one of ours ends the node."""

from __future__ import annotations

import pytest

from zonequake_store.node.loop_errors import is_of_the_loop


def raised(source: str, filename: str) -> Exception:
    """The error that code of this file raises."""
    try:
        exec(compile(source, filename, "exec"), {})
    except RuntimeError as error:
        # Without this function's own frame.
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("it raises")


@pytest.mark.parametrize(
    ("filename", "loops"), [("uvloop/sslproto.pyx", True), ("zonequake_store/node/host.py", False)]
)
def test_an_error_belongs_to_all_that_took_part_in_it(filename: str, loops: bool) -> None:
    assert is_of_the_loop(raised("raise RuntimeError('closed')", filename)) is loops


def test_an_error_without_a_traceback_is_no_excuse() -> None:
    assert not is_of_the_loop(RuntimeError("closed"))
