"""The installed programs: without their packages, and when nobody reads their output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules["{package}"] = None  # an import of it says that there is none
from zonequake_ctl import entry_points
entry_points.{program}()
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [("zonequake", "zonequake[chaos]"), ("kubectl_zq", "zonequake[chaos,operator]")],
)
@pytest.mark.parametrize("package", ["typer", "msgspec"])
def test_a_program_without_its_packages_says_what_to_install(
    package: str, program: str, words: str
) -> None:
    script = WITHOUT.format(package=package, program=program)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 254
    assert f"pip install '{words}'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("chaos.commands.cli", "from rich.console import Console; Console().print('told')"),
        ("chaos.commands.cli", "sys.stdout.buffer.write(b'told')"),
        ("ctl.zq.cli", "typer.echo('told')"),
    ],
)
def test_a_program_whose_reader_is_gone_ends_as_sigpipe_ends_others(
    module: str, words: str
) -> None:
    script = f"""
import sys, typer
import zonequake_{module} as cli
@cli.app.command("tell")
def tell() -> None:
    try:
        {words}
    except Exception:
        sys.exit("taken for an error")
sys.argv = ["zonequake", "tell"]
cli.main()
"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
